"""Vercel projects as runtimes, through a server that speaks Vercel's API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.aws.lane_audit_rig import alone
from tests.unit.aws.vercel_api import TEAM, TOKEN, Project, VercelApi, VercelVariable, vercel_api

from afterturn.aws.lane_audit.types import Runtime, RuntimeRole
from afterturn.aws.lane_audit.vercel import Vercel, open_vercel, read_project
from afterturn.errors import AfterturnError, ConfigError, InvalidInput, NotFound

WIRES = {
    "AFTERTURN_PROFILE": "aws",
    "AFTERTURN_LANE": "prod",
    "AFTERTURN_TABLE": "afterturn-prod",
    "AFTERTURN_AWS_REGION": "eu-central-1",
    "AFTERTURN_EMITTER": "web",
}


@pytest.fixture
def api() -> Iterator[VercelApi]:
    with vercel_api() as server:
        yield server
        assert {method for method, _ in server.requests} <= {"GET"}


def web(target: str, **changes: str) -> list[VercelVariable]:
    return [VercelVariable(name, value, [target]) for name, value in {**WIRES, **changes}.items()]


class Reader:
    def __init__(self, api: VercelApi) -> None:
        self.api = api
        self.waits: list[float] = []

    async def read(
        self, project: str = "site", target: str = "production", *, token: str = TOKEN, team: str | None = None
    ) -> tuple[Runtime, ...]:
        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        async with open_vercel(Vercel(token, team, self.api.url), sleep=sleep) as client:
            return await read_project(client, project, target, RuntimeRole.WEB)


@pytest.fixture
def reader(api: VercelApi) -> Reader:
    return Reader(api)


def told(runtime: Runtime) -> list[tuple[str, str]]:
    return [(finding.fault.value, finding.setting) for finding in alone(runtime)]


class TestAProject:
    async def test_is_its_target_alone(self, api: VercelApi, reader: Reader) -> None:
        api.projects.append(Project("site", [*web("preview", AFTERTURN_LANE="preview"), *web("production")]))
        (runtime,) = await reader.read()
        assert (runtime.name, runtime.environment, told(runtime)) == ("site:production", WIRES, [])
        assert await reader.read("prj_site") != ()

    async def test_has_a_crossed_wire_where_one_variable_is_for_two_targets(
        self, api: VercelApi, reader: Reader
    ) -> None:
        both = [VercelVariable(name, value, ["production", "preview"]) for name, value in WIRES.items()]
        both[1].value = "preview"
        api.projects.append(Project("site", both))
        (runtime,) = await reader.read()
        assert told(runtime) == [("crossed", "AFTERTURN_LANE")]

    async def test_lacks_what_no_variable_sets(self, api: VercelApi, reader: Reader) -> None:
        api.projects.append(Project("site", [one for one in web("production") if one.key != "AFTERTURN_PROFILE"]))
        (runtime,) = await reader.read()
        assert told(runtime) == [("missing", "AFTERTURN_PROFILE")]

    async def test_is_one_runtime_more_for_each_branch_with_values_of_its_own(
        self, api: VercelApi, reader: Reader
    ) -> None:
        own = [
            VercelVariable("AFTERTURN_LANE", "dev", "preview", branch="try/it"),
            VercelVariable("AFTERTURN_LANE", "prod", ["preview"], branch="main"),
        ]
        api.projects.append(Project("site", [*own, *web("preview")]))
        runtimes = await reader.read(target="preview")
        assert [(one.name, told(one)) for one in runtimes] == [
            ("site:preview", []),
            ("site:preview (branch main)", []),
            ("site:preview (branch try/it)", [("crossed", "AFTERTURN_LANE")]),
        ]

    @pytest.mark.parametrize("page", [1, 2, 5, 10])
    async def test_is_read_page_by_page_to_the_last(self, api: VercelApi, reader: Reader, page: int) -> None:
        filling = [VercelVariable(f"OTHER_{number}", "x", ["production"]) for number in range(5)]
        api.projects.append(Project("site", [*filling, *web("production")], page=page))
        (runtime,) = await reader.read()
        assert runtime.environment == WIRES

    async def test_shows_values_as_they_are_stored_and_is_never_asked_for_secrets(
        self, api: VercelApi, reader: Reader
    ) -> None:
        kinds = {"AFTERTURN_LANE": "plain", "AFTERTURN_TABLE": "sensitive", "AFTERTURN_PROFILE": "secret"}
        variables = web("production", AFTERTURN_TEMPORAL_API_KEY="geheim", DATABASE_URL="geheim")
        for one in variables:
            one.kind = kinds.get(one.key, "encrypted")
        variables.append(VercelVariable("AFTERTURN_WEBHOOK_SECRET", "geheim", ["production"], "plain"))
        api.projects.append(Project("site", variables))
        (runtime,) = await reader.read()
        unread = dict.fromkeys(
            ("AFTERTURN_TABLE", "AFTERTURN_PROFILE", "AFTERTURN_TEMPORAL_API_KEY", "AFTERTURN_WEBHOOK_SECRET")
        )
        assert runtime.environment == {**WIRES, **unread}
        keys = [one.key for one in variables]
        asked = {keys[int(path.rpartition("env_")[2])] for _, path in api.requests if "env_" in path}
        assert asked == {"AFTERTURN_AWS_REGION", "AFTERTURN_EMITTER"}

    @pytest.mark.parametrize(("target", "whole"), [("production", False), ("preview", True)])
    async def test_may_have_more_than_is_told_where_production_is_hidden(
        self, api: VercelApi, reader: Reader, target: str, whole: bool
    ) -> None:
        api.projects.append(Project("site", [], hidden=1))
        (runtime,) = await reader.read(target=target)
        assert runtime.complete is whole

    @pytest.mark.parametrize("team", TEAM.values())
    async def test_has_what_its_team_shares_and_its_own_wins(self, api: VercelApi, reader: Reader, team: str) -> None:
        own = [one for one in web("production") if one.key not in ("AFTERTURN_LANE", "AFTERTURN_TABLE")]
        shared = [
            VercelVariable("AFTERTURN_LANE", "preview", ["production", "preview"]),
            VercelVariable("AFTERTURN_TABLE", "afterturn-prod", ["production"], "plain"),
            VercelVariable("AFTERTURN_EMITTER", "cli", ["production"]),
        ]
        api.projects.append(Project("site", own, shared, team=True))
        (runtime,) = await reader.read(team=team)
        assert runtime.environment == {**WIRES, "AFTERTURN_LANE": "preview"}


class TestTheApi:
    @pytest.fixture(autouse=True)
    def _site(self, api: VercelApi) -> None:
        api.projects.append(Project("site", web("production")))

    @pytest.mark.parametrize(
        ("trouble", "waits"),
        [([429], [0]), ([500, 503], [0.5, 1]), ([None, 429], [0.5, 0]), ([500, 429, 502], [0.5, 0, 2])],
    )
    async def test_is_asked_again_where_it_is_busy_and_after_the_time_it_wants(
        self, api: VercelApi, reader: Reader, trouble: list[int | None], waits: list[float]
    ) -> None:
        api.trouble = trouble
        (runtime,) = await reader.read()
        assert (runtime.environment, reader.waits) == (WIRES, waits)

    @pytest.mark.parametrize("status", [429, 500, None])
    async def test_that_stays_busy_is_given_up(self, api: VercelApi, reader: Reader, status: int | None) -> None:
        api.trouble = [status] * 9
        with pytest.raises(AfterturnError, match=r"vercel site: (answered|no answer)"):
            await reader.read()
        assert len(api.requests) == 4

    async def test_refuses_a_wrong_token_that_is_not_shown(self, reader: Reader) -> None:
        with pytest.raises(ConfigError, match="VERCEL_TOKEN") as caught:
            await reader.read(token="vcl_wrong")
        assert "vcl_wrong" not in str(caught.value)

    @pytest.mark.parametrize("token", ["", "two words", "zwölf", "a\tb"])
    async def test_is_not_asked_without_a_token(self, api: VercelApi, reader: Reader, token: str) -> None:
        with pytest.raises(ConfigError, match="VERCEL_TOKEN"):
            await reader.read(token=token)
        assert api.requests == []

    async def test_takes_a_token_with_the_line_break_of_its_file(self, reader: Reader) -> None:
        assert await reader.read(token=f"{TOKEN}\n") != ()

    @pytest.mark.parametrize("name", ["sight", "../site", "site/env?x=", "site#"])
    async def test_knows_no_such_project(self, reader: Reader, name: str) -> None:
        with pytest.raises(NotFound, match="knows no such project"):
            await reader.read(name)

    async def test_knows_a_teams_project_in_its_team_alone(self, api: VercelApi, reader: Reader) -> None:
        api.projects[0].team = True
        with pytest.raises(NotFound):
            await reader.read()
        with pytest.raises(ConfigError):
            await reader.read(team="team_other")
        assert await reader.read(team="our-team") != ()

    @pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"', b'{"envs": 1}', b'{"envs": [1]}', b"\xff", b""])
    async def test_that_is_none_is_told(self, api: VercelApi, reader: Reader, body: bytes) -> None:
        api.body = body
        with pytest.raises(AfterturnError, match="is --vercel-url the API of Vercel"):
            await reader.read()

    async def test_that_sends_elsewhere_is_not_followed_with_the_token(self, api: VercelApi, reader: Reader) -> None:
        api.trouble = [307]
        with pytest.raises(AfterturnError, match="307"):
            await reader.read()
        assert len(api.requests) == 1

    async def test_that_gives_no_end_of_its_list_is_told(self, api: VercelApi, reader: Reader) -> None:
        api.body = b'{"envs": [], "pagination": {"count": 0, "next": 7, "prev": null}}'
        with pytest.raises(AfterturnError, match="does not come to an end"):
            await reader.read()

    @pytest.mark.parametrize("url", ["http://vercel.example", "vercel.example", "ftp://127.0.0.1", "https://"])
    async def test_gets_the_token_by_https_only(self, url: str) -> None:
        with pytest.raises(InvalidInput, match="--vercel-url"):
            async with open_vercel(Vercel(TOKEN, None, url)):
                pass

    def test_never_shows_the_token(self) -> None:
        assert TOKEN not in repr(Vercel(TOKEN, None, "https://api.vercel.com"))
