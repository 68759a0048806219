"""Wires, compared: a healthy lane has nothing to tell, and no single wire of another lane goes unnamed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.aws.lane_audit_rig import (
    ACCOUNT,
    CLOUD,
    REGION,
    alone,
    healthy,
    one,
    other_of,
    runtime_of,
    wanted_of,
    with_value,
    without,
)

from afterturn.aws.account import Location
from afterturn.aws.lane_audit.compare import audit
from afterturn.aws.lane_audit.types import LaneFault, Runtime, RuntimeKind, RuntimeRole, Unread
from afterturn.aws.names import LANES, Names
from afterturn.aws.release import Part, environment
from afterturn.aws.stack import ALIAS


class TestAHealthyLane:
    @pytest.mark.parametrize("lane", LANES)
    def test_has_no_findings(self, lane: str) -> None:
        assert audit(wanted_of(lane), *healthy(lane)).findings == ()

    @pytest.mark.parametrize("lane", LANES)
    def test_has_none_where_its_temporal_is_named_either(self, lane: str) -> None:
        wanted = wanted_of(lane, temporal_address=CLOUD, temporal_namespace=f"company-{lane}")
        assert audit(wanted, *healthy(lane)).findings == ()

    def test_has_none_where_a_poller_is_its_bridge(self) -> None:
        poller = replace(runtime_of(RuntimeRole.WORKER), role=RuntimeRole.UP)
        assert audit(wanted_of("prod"), [poller]).findings == ()

    @pytest.mark.parametrize(
        ("part", "role"), [(Part.BRIDGE, RuntimeRole.BRIDGE), (Part.WEBHOOKS, RuntimeRole.INBOUND)]
    )
    def test_has_none_where_a_function_is_what_a_deployment_makes_of_it(self, part: Part, role: RuntimeRole) -> None:
        names = Names.of("prod")
        shell = {"AFTERTURN_TEMPORAL_ADDRESS": CLOUD, "AFTERTURN_TEMPORAL_API_KEY": "k", "AFTERTURN_LANE": "dev"}
        variables = environment(part, names, shell, {}, app="reactions:app")
        name = names.function(part)
        assert (
            alone(Runtime(RuntimeKind.LAMBDA, f"{name}:{ALIAS}", variables, role, region=REGION, qualifier="live"))
            == ()
        )
        assert name == names.function("bridge" if role is RuntimeRole.BRIDGE else "webhooks")

    def test_names_secrets_as_there_and_not_readable(self) -> None:
        unread = audit(wanted_of("prod"), *healthy("prod")).unread
        assert {(each.setting, each.secret) for each in unread} == {("AFTERTURN_TEMPORAL_API_KEY", True)}
        assert len(unread) == 3


class TestAnyCrossedWire:
    @given(st.data())
    def test_is_found_and_named_at_the_runtime_that_has_it(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(LANES))
        runtimes, feeds = healthy(lane)
        place = data.draw(st.integers(0, len(runtimes) - 1))
        wires = {
            name: value
            for name, value in other_of(lane).items()
            if name != "AFTERTURN_EMITTER" or runtimes[place].role is not RuntimeRole.BRIDGE
        }
        name = data.draw(st.sampled_from(sorted(wires)))
        runtimes[place] = with_value(runtimes[place], **{name: wires[name]})
        findings = audit(wanted_of(lane), runtimes, feeds).findings
        told = {(each.fault, each.kind, each.runtime, each.setting) for each in findings}
        assert (LaneFault.CROSSED, runtimes[place].kind, runtimes[place].name, name) in told
        assert {each.setting for each in findings} == {name}

    @given(st.data())
    def test_is_found_also_where_it_is_one_of_several(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(LANES))
        runtimes, feeds = healthy(lane)
        wires = other_of(lane)
        exact = sorted(set(wires) - {"AFTERTURN_EMITTER"})
        changed = data.draw(
            st.sets(st.tuples(st.integers(0, len(runtimes) - 1), st.sampled_from(exact)), min_size=1, max_size=8)
        )
        for place, name in changed:
            runtimes[place] = with_value(runtimes[place], **{name: wires[name]})
        told = {(each.runtime, each.setting) for each in audit(wanted_of(lane), runtimes, feeds).findings}
        assert {(runtimes[place].name, name) for place, name in changed} <= told

    @given(st.sampled_from(LANES), st.booleans(), st.sampled_from(["queue", "dead", "account", "region"]))
    def test_of_an_event_source_is_found(self, lane: str, first: bool, how: str) -> None:
        runtimes, feeds = healthy(lane)
        other = Names.of(next(each for each in LANES if each != lane))
        names = Names.of(lane)
        source = {
            "queue": Location(REGION, ACCOUNT).queue_arn(other.main),
            "dead": Location(REGION, ACCOUNT).queue_arn(names.main_dead),
            "account": Location(REGION, "210987654321").queue_arn(names.main),
            "region": Location("us-east-1", ACCOUNT).queue_arn(names.main),
        }[how]
        place = 0 if first else 1
        feeds[place] = replace(feeds[place], source=source)
        findings = audit(wanted_of(lane), runtimes, feeds).findings
        crossed, missing = sorted(findings, key=lambda each: each.fault)
        assert (crossed.fault, missing.fault) == (LaneFault.CROSSED, LaneFault.MISSING)
        assert {each.runtime for each in findings} == {f"afterturn-{lane}-bridge:live"}
        assert str(crossed.actual) in source
        assert missing.expected == (names.main if first else names.retry)


def test_mappings_that_wait_for_the_first_deployment_are_no_fault() -> None:
    """The stack makes them disabled, with a function that only says that nothing is deployed yet."""
    runtimes, feeds = healthy("prod")
    polled = [each for each in runtimes if each.kind is not RuntimeKind.LAMBDA]
    polled.append(replace(runtime_of(RuntimeRole.WORKER), name=".env.bridge", role=RuntimeRole.UP))
    waiting = [replace(each, enabled=False) for each in feeds]
    assert audit(wanted_of("prod"), polled, waiting).findings == ()
    assert audit(wanted_of("prod"), polled, feeds).findings != ()


@pytest.mark.parametrize(("missing", "setting"), [("partial", "ReportBatchItemFailures"), ("concurrency", "Maximum")])
def test_a_mapping_reports_failures_and_has_a_maximum_concurrency(missing: str, setting: str) -> None:
    runtimes, feeds = healthy("prod")
    feeds[0] = replace(feeds[0], reports_partial=False) if missing == "partial" else replace(feeds[0], concurrency=None)
    (finding,) = audit(wanted_of("prod"), runtimes, feeds).findings
    assert finding.fault is LaneFault.MISSING
    assert setting in finding.expected


class TestAMissingWire:
    @pytest.mark.parametrize("role", list(RuntimeRole)[:4])
    @pytest.mark.parametrize("name", ["AFTERTURN_PROFILE", "AFTERTURN_LANE"])
    def test_is_named_with_what_holds_in_its_place(self, role: RuntimeRole, name: str) -> None:
        (finding,) = alone(without(runtime_of(role), name))
        assert (finding.fault, finding.setting) == (LaneFault.MISSING, name)
        assert str(finding.actual).startswith("nothing, so that it is ")

    def test_is_none_where_the_default_is_right(self) -> None:
        runtimes, feeds = healthy("dev")
        runtimes = [without(each, "AFTERTURN_LANE", "AFTERTURN_TABLE", "AFTERTURN_AWS_ACCOUNT") for each in runtimes]
        assert audit(wanted_of("dev"), runtimes, feeds).findings == ()

    def test_is_the_table_where_it_is_not_called_after_the_lane(self) -> None:
        wanted = replace(wanted_of("prod"), names=Names.of("prod", "conversations"))
        report = audit(
            wanted, [replace(without(runtime_of(RuntimeRole.WORKER), "AFTERTURN_TABLE"), role=RuntimeRole.UP)]
        )
        assert (one(report).fault, one(report).setting, one(report).expected) == (
            LaneFault.MISSING,
            "AFTERTURN_TABLE",
            "conversations",
        )

    @pytest.mark.parametrize(
        ("role", "told"), [(RuntimeRole.WEB, 1), (RuntimeRole.INBOUND, 0), (RuntimeRole.WORKER, 0)]
    )
    def test_is_the_region_where_the_platform_does_not_give_it(self, role: RuntimeRole, told: int) -> None:
        assert len(alone(without(runtime_of(role), "AFTERTURN_AWS_REGION"))) == told

    def test_is_no_region_where_the_aws_tools_own_variable_says_it(self) -> None:
        runtime = without(runtime_of(RuntimeRole.WEB), "AFTERTURN_AWS_REGION")
        assert alone(with_value(runtime, AWS_REGION=REGION)) == ()
        assert alone(with_value(runtime, AWS_DEFAULT_REGION="us-east-1"))[0].setting == "AWS_DEFAULT_REGION"

    def test_is_the_region_of_a_function_that_stands_in_another_one(self) -> None:
        runtime = replace(without(runtime_of(RuntimeRole.INBOUND), "AFTERTURN_AWS_REGION"), region="us-east-1")
        (finding,) = alone(runtime)
        assert (finding.fault, finding.actual, finding.expected) == (LaneFault.CROSSED, "us-east-1", REGION)

    @pytest.mark.parametrize("role", [RuntimeRole.WEB, RuntimeRole.INBOUND])
    def test_is_the_emitter_where_events_would_bear_another_name(self, role: RuntimeRole) -> None:
        (finding,) = alone(without(runtime_of(role), "AFTERTURN_EMITTER"))
        assert (finding.fault, finding.setting, finding.expected) == (
            LaneFault.MISSING,
            "AFTERTURN_EMITTER",
            role.value,
        )

    @pytest.mark.parametrize("role", [RuntimeRole.BRIDGE, RuntimeRole.WORKER])
    def test_is_temporals_address_where_it_is_needed(self, role: RuntimeRole) -> None:
        (finding,) = alone(without(runtime_of(role), "AFTERTURN_TEMPORAL_ADDRESS"))
        assert (finding.fault, finding.setting) == (LaneFault.MISSING, "AFTERTURN_TEMPORAL_ADDRESS")
        (near,) = alone(runtime_of(role, AFTERTURN_TEMPORAL_ADDRESS="localhost:7233"))
        assert (near.fault, near.actual) == (LaneFault.CROSSED, "localhost:7233")

    @pytest.mark.parametrize("key", ["", "gone"])
    def test_is_the_key_of_temporal_cloud(self, key: str) -> None:
        runtime = runtime_of(RuntimeRole.WORKER, AFTERTURN_TEMPORAL_API_KEY=key)
        (finding,) = alone(without(runtime, "AFTERTURN_TEMPORAL_API_KEY") if key == "gone" else runtime)
        assert (finding.fault, finding.setting) == (LaneFault.MISSING, "AFTERTURN_TEMPORAL_API_KEY")
        own = with_value(without(runtime, "AFTERTURN_TEMPORAL_API_KEY"), AFTERTURN_TEMPORAL_ADDRESS="temporal.in:7233")
        assert alone(own) == ()

    def test_is_the_secret_of_a_webhook(self) -> None:
        (finding,) = alone(runtime_of(RuntimeRole.WORKER, AFTERTURN_WEBHOOK_URL="https://in.example/hook?token=geheim"))
        assert (finding.fault, finding.setting) == (LaneFault.MISSING, "AFTERTURN_WEBHOOK_SECRET")
        assert "geheim" not in repr(finding)

    @pytest.mark.parametrize("name", ["AFTERTURN_PROFILE", "AFTERTURN_LANE", "AFTERTURN_TABLE"])
    def test_is_one_that_is_empty(self, name: str) -> None:
        (finding,) = alone(runtime_of(RuntimeRole.WEB, **{name: ""}))
        assert (finding.fault, finding.setting) == (LaneFault.MISSING, name)

    def test_is_what_a_runtime_lacks_as_a_whole(self) -> None:
        (finding,) = alone(replace(runtime_of(RuntimeRole.WORKER), lacking="a running task"))
        assert (finding.fault, finding.setting) == (LaneFault.MISSING, "a running task")


class TestWhatCannotBeRead:
    @given(st.data())
    def test_is_no_finding_and_is_told(self, data: st.DataObject) -> None:
        runtimes, feeds = healthy("prod")
        place = data.draw(st.integers(0, len(runtimes) - 1))
        ours = sorted(name for name in runtimes[place].environment if name.startswith("AFTERTURN_"))
        names = data.draw(st.sets(st.sampled_from(ours)))
        runtimes[place] = with_value(runtimes[place], **dict.fromkeys(names))
        report = audit(wanted_of("prod"), runtimes, feeds)
        assert report.findings == ()
        told = {each.setting for each in report.unread if each.runtime == runtimes[place].name}
        assert names <= told

    def test_may_hold_what_is_missing_where_not_all_variables_were_read(self) -> None:
        runtime = replace(
            without(runtime_of(RuntimeRole.WORKER), *runtime_of(RuntimeRole.WORKER).environment), complete=False
        )
        report = audit(wanted_of("prod"), [replace(runtime, role=RuntimeRole.UP)])
        assert report.findings == ()
        assert Unread(RuntimeKind.ECS, runtime.name, "AFTERTURN_LANE", secret=False, present=False) in report.unread

    def test_leaves_a_wire_crossed_that_can_be_read(self) -> None:
        runtime = replace(runtime_of(RuntimeRole.WORKER, AFTERTURN_LANE="preview"), complete=False, role=RuntimeRole.UP)
        assert one(audit(wanted_of("prod"), [runtime])).setting == "AFTERTURN_LANE"
