"""What a deployment decides before it writes anything: variables, steps, the answer to the probe, the way back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from afterturn.aws.names import Names
from afterturn.config import Settings
from afterturn.errors import ConfigError, InvalidInput, NotFound
from afterturn.operations.deploy import history
from afterturn.operations.deploy.functions import MAX_ENVIRONMENT, TIMEOUT_S, Part, Wanted, check_make, variables
from afterturn.operations.deploy.plan import Found, Plan, Source, check_owner, plan
from afterturn.operations.deploy.probing import judge, read
from afterturn.operations.deploy.rollback import target
from afterturn.operations.plan import Act
from afterturn.operations.resources import VISIBILITY_S

DEV = Names.of("dev")
ARN = "arn:aws:lambda:eu-central-1:123456789012:function:afterturn-dev-bridge"
ROLE = "arn:aws:iam::123456789012:role/bridge"
SHELL = {"AFTERTURN_TEMPORAL_ADDRESS": "t:7233", "PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "hush"}
BRIDGE = Wanted(Part.BRIDGE, DEV, "sha", "python3.13", "x86_64", 512, ROLE, {"A": "1"})
WEBHOOKS = Wanted(Part.WEBHOOKS, DEV, "sha", "python3.13", "x86_64", 512, ROLE)
QUEUES = tuple(Source(name, f"arn:{name}", VISIBILITY_S) for name in (DEV.main, DEV.retry))


def as_it_is(wanted: Wanted = BRIDGE, **changes: Any) -> dict[str, Any]:
    """As Lambda tells a function that is as wanted."""
    return {
        "CodeSha256": wanted.sha256,
        "Architectures": [wanted.architecture],
        "Role": wanted.role,
        "Environment": {"Variables": dict(wanted.variables)},
        "Version": "$LATEST",
        **wanted.configuration,
        **changes,
    }


def mapping(**changes: Any) -> dict[str, Any]:
    return {
        "UUID": "m-1",
        "FunctionArn": f"{ARN}:live",
        "BatchSize": 10,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "State": "Enabled",
        **changes,
    }


def deployed(**changes: Any) -> Found:
    """A bridge that serves as wanted."""
    sources = tuple(Source(one.name, one.arn, one.visibility_s, (mapping(),)) for one in QUEUES)
    given = {
        "latest": as_it_is(),
        "newest": as_it_is(Version="3"),
        "alias": {"FunctionVersion": "3", "RevisionId": "r"},
        "sources": sources,
        **changes,
    }
    return Found(**given)


def acts(found: Plan) -> list[str]:
    return [f"{step.act.value} {step.kind}" for step in found.steps if step.act is not Act.UNCHANGED]


class TestVariables:
    def test_the_bridge_gets_what_it_needs_and_no_secret_of_anybody_else(self) -> None:
        shell = {**SHELL, "AFTERTURN_TEMPORAL_API_KEY": "k", "AFTERTURN_WEBHOOK_SECRET": "hush", "AFTERTURN_DB": "x"}
        assert variables(Part.BRIDGE, DEV, shell, {}, app="mine:app") == {
            "AFTERTURN_APP": "mine:app",
            "AFTERTURN_EMITTER": "worker",
            "AFTERTURN_LANE": "dev",
            "AFTERTURN_PROFILE": "aws",
            "AFTERTURN_TABLE": "afterturn-dev",
            "AFTERTURN_TEMPORAL_ADDRESS": "t:7233",
            "AFTERTURN_TEMPORAL_API_KEY": "k",
        }

    def test_the_funnel_gets_the_settings_of_channels_and_no_way_to_temporal(self) -> None:
        shell = {**SHELL, "AFTERTURN_ALERT_SECRET": "hush", "AFTERTURN_SOME_CHANNEL_SECRET": "its"}
        given = variables(Part.WEBHOOKS, DEV, {**shell, "AFTERTURN_APP": "mine:app"}, {}, app="mine:app")
        assert "AFTERTURN_APP" not in given
        assert given["AFTERTURN_SOME_CHANNEL_SECRET"] == "its"
        assert given["AFTERTURN_EMITTER"] == "inbound-lambda"
        assert not [name for name in given if "TEMPORAL" in name or "ALERT" in name]

    def test_a_funnel_with_channels_gets_the_app_that_answers(self) -> None:
        shell = {**SHELL, "AFTERTURN_TELEGRAM_SECRET": "s"}
        assert variables(Part.WEBHOOKS, DEV, shell, {}, app="mine:app")["AFTERTURN_APP"] == "mine:app"
        assert variables(Part.WEBHOOKS, DEV, {}, shell, app="mine:app")["AFTERTURN_APP"] == "mine:app"

    @pytest.mark.parametrize("part", Part)
    def test_no_function_gets_a_secret_of_the_reactions(self, part: Part) -> None:
        secrets = {"WEBHOOK_SECRET", "ALERT_SECRET"}
        assert {name.lower() for name in secrets} <= Settings.model_fields.keys()
        shell = {**SHELL, **{f"AFTERTURN_{name}": "hush" for name in secrets}}
        assert "hush" not in variables(part, DEV, shell, {}).values()

    def test_what_this_shell_does_not_say_stays_until_it_is_unset(self) -> None:
        found = {"AFTERTURN_TEMPORAL_ADDRESS": "old:7233", "AFTERTURN_TEMPORAL_API_KEY": "k", "THEIRS": "t"}
        kept = variables(Part.BRIDGE, DEV, {}, found)
        assert kept.items() >= found.items()
        less = variables(Part.BRIDGE, DEV, SHELL, found, unset=["THEIRS"])
        assert (less["AFTERTURN_TEMPORAL_ADDRESS"], "THEIRS" in less) == ("t:7233", False)

    def test_further_variables_are_handed_over_by_name(self) -> None:
        given = variables(Part.BRIDGE, DEV, {**SHELL, "OURS": "o"}, {}, handed=["OURS"])
        assert given["OURS"] == "o"
        for name in ("NOWHERE", "AWS_SECRET_ACCESS_KEY", "LAMBDA_X", "A B", "X=1"):
            with pytest.raises(InvalidInput, match="--env"):
                variables(Part.BRIDGE, DEV, SHELL, {}, handed=[name])

    def test_what_makes_no_sense_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="AFTERTURN_TEMPORAL_ADDRESS"):
            variables(Part.BRIDGE, DEV, {}, {})
        with pytest.raises(InvalidInput, match="--unset AFTERTURN_LANE"):
            variables(Part.BRIDGE, DEV, SHELL, {}, unset=["AFTERTURN_LANE"])
        with pytest.raises(InvalidInput, match="--unset NAME"):
            variables(Part.BRIDGE, DEV, SHELL, {"LONG": "ü" * (MAX_ENVIRONMENT // 2)})

    def test_values_are_never_shown(self) -> None:
        found = deployed(latest=as_it_is(Environment={"Variables": {"A": "hush", "B": "hush"}}))
        assert "hush" not in repr(found)
        assert "hush" not in repr(Wanted(Part.BRIDGE, DEV, "", "", "", 1, variables={"A": "hush"}))
        planned = plan(BRIDGE, found, ARN)
        assert "hush" not in f"{planned!r} {[step.to_json() for step in planned.steps]}"
        assert [str(one.name) for one in planned.function.changes] == ["variable A", "variable B"]


class TestMake:
    def test_what_lambda_would_refuse_is_refused_here(self) -> None:
        check_make("python3.13", "arm64", 10_240, ROLE)
        for wrong in (
            ("python2.7", "arm64", 512, ROLE),
            ("python3.13", "arm", 512, ROLE),
            ("python3.13", "arm64", 127, ROLE),
            ("python3.13", "arm64", 512, "arn:aws:iam::123456789012:user/me"),
        ):
            with pytest.raises(InvalidInput):
                check_make(*wrong)

    def test_a_record_stays_hidden_for_six_calls(self) -> None:
        assert VISIBILITY_S >= 6 * TIMEOUT_S == 6 * BRIDGE.configuration["Timeout"]


class TestPlan:
    def test_an_empty_account_gets_everything_and_one_that_is_as_wanted_nothing(self) -> None:
        made = plan(BRIDGE, Found(sources=QUEUES), ARN)
        assert acts(made) == ["create function", "create version", "create alias", *["create mapping"] * 2]
        assert acts(plan(BRIDGE, deployed(), ARN)) == []
        web = plan(WEBHOOKS, Found(), ARN)
        assert acts(web)[3:] == ["create url", *["create permission"] * 2]

    def test_only_a_first_deployment_has_to_say_the_role(self) -> None:
        roleless = Wanted(Part.BRIDGE, DEV, "sha", "python3.13", "x86_64", 512, None, {"A": "1"})
        with pytest.raises(ConfigError, match="--role ARN"):
            plan(roleless, Found(sources=QUEUES), ARN)
        assert acts(plan(roleless, deployed(), ARN)) == []

    @pytest.mark.parametrize(
        "change",
        [
            {"CodeSha256": "other"},
            {"Architectures": ["arm64"]},
            {"Timeout": 3},
            {"MemorySize": 128},
            {"Runtime": "python3.11"},
            {"Handler": "mine.handler"},
            {"Role": "arn:aws:iam::123456789012:role/other"},
            {"Environment": {"Variables": {}}},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_whatever_differs_is_published_as_a_new_version(self, change: dict[str, Any]) -> None:
        found = deployed(latest=as_it_is(**change), newest=as_it_is(Version="3", **change))
        assert acts(plan(BRIDGE, found, ARN)) == ["update function", "create version", "update alias"]

    def test_a_run_that_was_stopped_is_taken_up_where_it_was(self) -> None:
        before_publishing = deployed(newest=as_it_is(Version="3", CodeSha256="old"))
        assert acts(plan(BRIDGE, before_publishing, ARN)) == ["create version", "update alias"]
        before_moving = deployed(alias={"FunctionVersion": "2", "RevisionId": "r"})
        planned = plan(BRIDGE, before_moving, ARN)
        assert (acts(planned), planned.version.subject) == (["update alias"], "3")

    def test_an_alias_that_shares_its_calls_out_serves_one_version_again(self) -> None:
        shared = {"FunctionVersion": "3", "RoutingConfig": {"AdditionalVersionWeights": {"2": 0.1}}}
        assert acts(plan(BRIDGE, deployed(alias=shared), ARN)) == ["update alias"]

    @pytest.mark.parametrize(
        "change",
        [
            {"FunctionArn": ARN},
            {"FunctionArn": f"{ARN}:2"},
            {"BatchSize": 11},
            {"FunctionResponseTypes": []},
            {"State": "Disabled"},
            {"FilterCriteria": {"Filters": [{"Pattern": "{}"}]}},
        ],
        ids=str,
    )
    def test_a_mapping_of_another_make_is_set_right(self, change: dict[str, Any]) -> None:
        source = Source(DEV.main, "arn:main", VISIBILITY_S, (mapping(**change),))
        (step,) = plan(BRIDGE, deployed(sources=(source,)), ARN).after
        assert step.act is Act.UPDATE
        assert step.subject == {
            "UUID": "m-1",
            "FunctionName": f"{ARN}:live",
            "BatchSize": 10,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "Enabled": True,
            "FilterCriteria": {},
        }

    @pytest.mark.parametrize(
        ("mappings", "problem"),
        [
            ((mapping(FunctionArn=f"{ARN}-of-others"),), "bridge-of-others reads queue"),
            ((mapping(FunctionArn=f"{ARN[:-6]}webhooks", State="Disabled"),), "delete its mapping"),
            ((mapping(), mapping(UUID="m-2")), "m-1, m-2"),
        ],
    )
    def test_a_queue_has_one_reader(self, mappings: tuple[dict[str, Any], ...], problem: str) -> None:
        source = Source(DEV.main, "arn:main", VISIBILITY_S, mappings)
        with pytest.raises(ConfigError, match=problem):
            plan(BRIDGE, deployed(sources=(source,)), ARN)

    def test_an_unmapped_function_leaves_the_queues_to_whoever_reads_them(self) -> None:
        source = Source(DEV.main, "arn:main", 1, (mapping(FunctionArn=f"{ARN}-of-others"), mapping(State="Disabled")))
        assert plan(dataclasses.replace(BRIDGE, mapped=False), deployed(sources=(source,)), ARN).after == ()

    def test_a_queue_that_shows_its_records_too_soon_is_refused(self) -> None:
        source = Source(DEV.main, "arn:main", VISIBILITY_S - 1)
        with pytest.raises(ConfigError, match="hides a record for 179 s"):
            plan(BRIDGE, deployed(sources=(source,)), ARN)

    def test_a_function_without_a_lane_is_not_ours(self) -> None:
        assert list(check_owner("f", Found())) == []
        with pytest.raises(ConfigError, match="bears no lane"):
            list(check_owner("f", Found(latest={}, tags={"team": "ours"})))


ANSWER = {
    "version": "0.1.0",
    "lane": "dev",
    "table": "afterturn-dev",
    "queues": [DEV.main, DEV.retry],
    "consumers": ["topics"],
    "engine": "ok",
}
WEBHOOKS_ANSWER = {"version": "0.1.0", "lane": "dev", "table": "afterturn-dev", "emitter": "inbound-lambda"}
"""Of functions that are as wanted."""


class TestProbe:
    def test_a_function_that_says_what_is_wanted_passes(self) -> None:
        assert judge(BRIDGE, ANSWER) is None
        assert judge(WEBHOOKS, WEBHOOKS_ANSWER) is None
        assert "its emitter is 'web'" in str(judge(WEBHOOKS, {**WEBHOOKS_ANSWER, "emitter": "web"}))

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ({"lane": "prod"}, "its lane is 'prod'"),
            ({"table": "afterturn-prod"}, "its table is"),
            ({"queues": [DEV.main]}, "its queues is"),
            ({"engine": "unavailable"}, "Temporal does not answer"),
            ({"consumers": []}, "declares no consumer"),
        ],
    )
    def test_whatever_disagrees_is_named(self, change: dict[str, Any], problem: str) -> None:
        assert problem in str(judge(BRIDGE, {**ANSWER, **change}))

    @pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'"ok"', b"{}", b'{"batchItemFailures": []}'])
    def test_what_answers_otherwise_is_no_function_of_ours(self, body: bytes) -> None:
        assert "does not answer the probe" in str(judge(BRIDGE, read(body)))


class TestHistory:
    def test_the_alias_tells_the_version_before(self) -> None:
        assert target("f", {"FunctionVersion": "3", "Description": history.deployed("2")}, None) == "2"
        assert target("f", {"FunctionVersion": "3", "Description": "somebody wrote this"}, "07") == "7"

    @pytest.mark.parametrize("text", [history.deployed(None), history.rolled_back("4"), "", None, "version 2"])
    def test_where_it_does_not_nobody_guesses(self, text: str | None) -> None:
        with pytest.raises(NotFound, match="--to VERSION"):
            target("f", {"FunctionVersion": "3", "Description": text}, None)

    def test_only_a_published_version_can_be_gone_to(self) -> None:
        for to in ("$LATEST", "live", "-1", "٣", ""):
            with pytest.raises(ConfigError, match="is a number"):
                target("f", {"FunctionVersion": "3"}, to)
