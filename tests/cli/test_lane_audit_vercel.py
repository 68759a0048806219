"""`aws lane audit` of a Vercel project, by the command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.command import CommandResult
from tests.cli.lane_rig import TEMPORAL, Lane, open_lane, settings
from tests.emulator import access, emulator, session  # noqa: F401
from tests.unit.aws.vercel_api import TEAM, TOKEN, Project, VercelApi, VercelVariable, vercel_api

from afterturn.aws.session import Access


@pytest.fixture
def prod(access: Access, session: Any, monkeypatch: pytest.MonkeyPatch) -> Lane:  # noqa: F811
    lane = open_lane(access, session, monkeypatch, "prod")
    queues = (lane.names.main, lane.names.retry)
    lane.function(f"{lane.names.prefix}-bridge", {**settings("prod"), **TEMPORAL}, reads=queues)
    return lane


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[VercelApi]:
    monkeypatch.setenv("VERCEL_TOKEN", TOKEN)
    monkeypatch.delenv("VERCEL_ORG_ID", raising=False)
    with vercel_api() as server:
        yield server


def web(target: str, lane: str = "prod", **changes: str) -> list[VercelVariable]:
    wires = {**settings(lane, AFTERTURN_EMITTER="web"), **changes}
    return [VercelVariable(name, value, [target]) for name, value in wires.items()]


def audit(lane: Lane, api: VercelApi, *words: str) -> CommandResult:
    return lane.audit("--vercel-url", api.url, *words)


def test_the_target_is_the_lanes_own_where_none_is_named(prod: Lane, api: VercelApi) -> None:
    api.projects.append(Project("site", [*web("preview", "preview"), *web("production")]))
    assert audit(prod, api, "--vercel", "site").code == 0
    done = audit(prod, api, "--vercel", "site:preview", "--json")
    assert done.code == 3
    assert [(one["kind"], one["runtime"], one["setting"], one["actual"]) for one in done.json["findings"]] == [
        ("vercel", "site:preview", "AFTERTURN_LANE", "preview"),
        ("vercel", "site:preview", "AFTERTURN_TABLE", "afterturn-preview"),
    ]


def test_a_team_is_found_by_its_variable(prod: Lane, api: VercelApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.projects.append(Project("site", web("production"), team=True))
    assert audit(prod, api, "--vercel", "site").code == 2
    monkeypatch.setenv("VERCEL_ORG_ID", TEAM["teamId"])
    assert audit(prod, api, "--vercel", "site").code == 0


def test_what_could_not_be_read_is_never_clean_and_hides_nothing(
    prod: Lane, api: VercelApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERCEL_TOKEN", "vcl_wrong")
    api.projects.append(Project("site", web("production")))
    done = audit(prod, api, "--vercel", "site")
    assert (done.code, "VERCEL_TOKEN" in done.err, "vcl_wrong" in done.out + done.err) == (2, True, False)
    assert "Not complete" in done.err
    assert "Nothing missing" not in done.err

    prod.set("afterturn-prod-bridge", {**settings("prod", AFTERTURN_TABLE="afterturn-dev"), **TEMPORAL})
    told = audit(prod, api, "--vercel", "site", "--json")
    assert (told.code, told.json["complete"], told.json["clean"]) == (2, False, False)
    assert [one["setting"] for one in told.json["findings"]] == ["AFTERTURN_TABLE"]


def test_what_is_stored_so_that_nobody_reads_it_is_strictly_taken_for_a_fault(prod: Lane, api: VercelApi) -> None:
    variables = web("production")
    variables[1].kind = "sensitive"
    api.projects.append(Project("site", variables))
    done = audit(prod, api, "--vercel", "site")
    assert (done.code, "1 value could not be compared" in done.err) == (0, True)
    assert "present, not readable" in done.out
    assert audit(prod, api, "--vercel", "site", "--strict").code == 3


def test_a_project_is_not_asked_for_without_a_token(
    prod: Lane, api: VercelApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VERCEL_TOKEN")
    done = audit(prod, api, "--vercel", "site")
    assert (done.code, "VERCEL_TOKEN is not set" in done.err, api.requests) == (2, True, [])
