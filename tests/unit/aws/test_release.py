"""What a deployment and a rollback decide, without an account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from afterturn.aws.names import Names
from afterturn.aws.release import (
    Part,
    before,
    content_changes,
    deployed,
    environment,
    obsolete,
    probe_problem,
    rollback_target,
    rolled_back,
)
from afterturn.errors import ConfigError, InvalidInput, NotFound

DEV = Names.of("dev")
SHELL = {
    "AFTERTURN_TEMPORAL_ADDRESS": "t:7233",
    "AFTERTURN_TEMPORAL_API_KEY": "secret",
    "AFTERTURN_TURNS_SECRET": "whsec",
    "AFTERTURN_WEBHOOK_SECRET": "not for functions",
    "AFTERTURN_DB": "here.db",
    "PATH": "/bin",
    "MINE": "x",
}


class TestEnvironment:
    def test_each_function_gets_only_the_settings_that_it_needs(self) -> None:
        bridge = environment(Part.BRIDGE, DEV, SHELL, {}, app="a:app")
        assert bridge == {
            "AFTERTURN_APP": "a:app",
            "AFTERTURN_EMITTER": "worker",
            "AFTERTURN_LANE": "dev",
            "AFTERTURN_PROFILE": "aws",
            "AFTERTURN_TABLE": "afterturn-dev",
            "AFTERTURN_TEMPORAL_ADDRESS": "t:7233",
            "AFTERTURN_TEMPORAL_API_KEY": "secret",
        }
        webhooks = environment(Part.WEBHOOKS, DEV, SHELL, {}, app="a:app")
        assert webhooks["AFTERTURN_TURNS_SECRET"] == "whsec"
        assert not {"AFTERTURN_APP", "AFTERTURN_WEBHOOK_SECRET", "AFTERTURN_DB"} & webhooks.keys()
        assert not [name for name in webhooks if "TEMPORAL" in name]

    def test_what_the_shell_does_not_set_stays_until_it_is_unset(self) -> None:
        current = {"AFTERTURN_TEMPORAL_API_KEY": "old", "MINE": "kept", "GONE": "1"}
        shell = {"AFTERTURN_TEMPORAL_ADDRESS": "t:7233"}
        variables = environment(Part.BRIDGE, DEV, shell, current, unset=["GONE"])
        assert (variables["AFTERTURN_TEMPORAL_API_KEY"], variables["MINE"]) == ("old", "kept")
        assert "GONE" not in variables
        with pytest.raises(InvalidInput, match="--unset AFTERTURN_LANE"):
            environment(Part.BRIDGE, DEV, shell, current, unset=["AFTERTURN_LANE"])

    def test_further_variables_are_passed_by_name(self) -> None:
        assert environment(Part.BRIDGE, DEV, SHELL, {}, passed=["MINE"])["MINE"] == "x"
        for name in ("AWS_REGION", "LAMBDA_X", "1X", "NOWHERE"):
            with pytest.raises(InvalidInput, match=f"--env {name}"):
                environment(Part.BRIDGE, DEV, SHELL, {}, passed=[name])

    def test_a_bridge_without_temporal_and_too_many_bytes_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="AFTERTURN_TEMPORAL_ADDRESS"):
            environment(Part.BRIDGE, DEV, {}, {})
        with pytest.raises(InvalidInput, match="4,096"):
            environment(Part.WEBHOOKS, DEV, {}, {"LONG": "x" * 4_096})


def test_changes_name_variables_and_never_show_values() -> None:
    function = {"CodeSha256": "a", "Environment": {"Variables": {"GONE": "1", "SAME": "2", "OTHER": "secret"}}}
    assert list(content_changes(function, "b", {"SAME": "2", "OTHER": "hidden", "NEW": "3"})) == [
        "code",
        "variable GONE: removed",
        "variable NEW: set",
        "variable OTHER: changed",
    ]
    assert list(content_changes({"CodeSha256": "a"}, "a", {})) == []


@pytest.mark.parametrize(
    ("versions", "named", "keep", "expected"),
    [
        ((1, 2, 3, 4), (), 2, ("2",)),
        ((1, 2, 3, 4), ("2",), 2, ()),
        ((4, 3, 2, 1), (), 1, ("2", "3")),
        ((), (), 5, ()),
    ],
)
def test_the_newest_stay_those_that_an_alias_names_and_the_one_of_the_stack(
    versions: tuple[int, ...], named: tuple[str, ...], keep: int, expected: tuple[str, ...]
) -> None:
    assert obsolete(versions, named, keep=keep) == expected


class TestTheWayBack:
    def test_the_alias_names_the_version_before(self) -> None:
        alias = {"FunctionVersion": "8", "Description": deployed("7")}
        assert before(alias) == rollback_target("f", alias, None) == "7"
        assert rollback_target("f", alias, "012") == "12"

    @pytest.mark.parametrize(
        ("version", "description", "problem"),
        [
            ("1", "", "never deployed"),
            ("2", deployed("1"), "the first one that was deployed"),
            ("2", deployed(None), "the first one that was deployed"),
            ("7", rolled_back("8"), "rolled back already, from version 8 to 7"),
            ("7", "by hand", "the first one that was deployed"),
        ],
    )
    def test_nobody_guesses(self, version: str, description: str, problem: str) -> None:
        with pytest.raises(NotFound, match=problem):
            rollback_target("f", {"FunctionVersion": version, "Description": description}, None)

    @pytest.mark.parametrize("to", ["live", "$LATEST", "-1", "٣", ""])
    def test_a_version_is_a_number(self, to: str) -> None:
        with pytest.raises(ConfigError, match="is a number"):
            rollback_target("f", {"FunctionVersion": "7"}, to)


BRIDGE: Mapping[str, Any] = {
    "lane": "dev",
    "table": "afterturn-dev",
    "queues": [DEV.main, DEV.retry],
    "engine": "ok",
    "consumers": ["topics"],
}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (BRIDGE, None),
        (None, "does not answer the probe"),
        ([], "does not answer the probe"),
        ({"batchItemFailures": []}, "does not answer the probe"),
        ({**BRIDGE, "lane": "prod"}, "its lane is 'prod' instead of 'dev'"),
        ({**BRIDGE, "queues": [DEV.main]}, "its queues is"),
        ({**BRIDGE, "engine": "unavailable"}, "Temporal does not answer"),
        ({**BRIDGE, "consumers": []}, "declares no consumer"),
    ],
)
def test_the_smoke_check_reads_every_part_of_the_answer(answer: Any, problem: str | None) -> None:
    found = probe_problem(Part.BRIDGE, DEV, answer)
    assert found is None if problem is None else found is not None and problem in found
    webhooks = {"lane": "dev", "table": "afterturn-dev", "emitter": "inbound-lambda"}
    assert probe_problem(Part.WEBHOOKS, DEV, webhooks) is None
    assert "its emitter" in str(probe_problem(Part.WEBHOOKS, DEV, {**webhooks, "emitter": "web"}))
