"""Names and values of variables, runtimes that disagree, and the readers of a lane's queues."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.aws.lane_audit_rig import (
    ACCOUNT,
    REGION,
    alone,
    healthy,
    one,
    runtime_of,
    wanted_of,
    with_value,
    without,
)

from afterturn.aws.account import Location
from afterturn.aws.lane_audit.compare import EVENT_SOURCE, audit
from afterturn.aws.lane_audit.settings import PRIVATE, SECRET
from afterturn.aws.lane_audit.types import EventSource, LaneFault, RuntimeKind, RuntimeRole
from afterturn.config import VARIABLES, Settings


class TestNames:
    @pytest.mark.parametrize(
        ("name", "near"),
        [
            ("AFTERTURN_LANES", "AFTERTURN_LANE"),
            ("AFTERTURN_TEMPORAL_ADRESS", "AFTERTURN_TEMPORAL_ADDRESS"),
            ("AFTRETURN_TABLE", "AFTERTURN_TABLE"),
            ("AFTER_TURN_PROFILE", "AFTERTURN_PROFILE"),
        ],
    )
    def test_a_misspelt_one_is_named_with_what_it_may_mean(self, name: str, near: str) -> None:
        (finding,) = alone(runtime_of(RuntimeRole.WEB, **{name: "geheim"}))
        assert (finding.fault, finding.setting) == (LaneFault.UNKNOWN, name)
        assert near in finding.expected
        assert "geheim" not in repr(finding)

    def test_one_that_is_like_none_is_named_all_the_same(self) -> None:
        (finding,) = alone(runtime_of(RuntimeRole.WEB, AFTERTURN_QUEUE_URL="https://sqs.example/1/q"))
        assert (finding.fault, finding.setting) == (LaneFault.UNKNOWN, "AFTERTURN_QUEUE_URL")

    @given(st.sampled_from(sorted(VARIABLES)))
    def test_a_setting_is_never_unknown(self, name: str) -> None:
        report = audit(wanted_of("prod"), [runtime_of(RuntimeRole.WEB, **{name: None})])
        assert LaneFault.UNKNOWN not in {each.fault for each in report.findings}

    def test_a_setting_is_taken_in_any_case_as_a_process_takes_it(self) -> None:
        runtime = without(runtime_of(RuntimeRole.WEB), "AFTERTURN_LANE")
        assert alone(with_value(runtime, afterturn_lane="prod")) == ()
        assert alone(with_value(runtime, afterturn_lane="preview"))[0].setting == "AFTERTURN_LANE"

    def test_what_others_have_there_is_no_concern(self) -> None:
        assert (
            alone(runtime_of(RuntimeRole.WEB, DATABASE_URL="x", TEMPORAL_ADDRESS="localhost:7233", AWS_PROFILE="y"))
            == ()
        )


class TestValues:
    @pytest.mark.parametrize(
        ("name", "value"),
        [("AFTERTURN_SLOTS", "viele"), ("AFTERTURN_GRACE", "bald"), ("AFTERTURN_LONG_POLL", "21s")],
    )
    def test_one_that_no_process_would_start_with_is_found_and_not_shown(self, name: str, value: str) -> None:
        (finding,) = alone(runtime_of(RuntimeRole.WORKER, **{name: value}))
        assert (finding.fault, finding.setting, finding.actual) == (LaneFault.INVALID, name, None)

    def test_a_line_break_that_came_along_is_seen(self) -> None:
        (finding,) = alone(runtime_of(RuntimeRole.WEB, AFTERTURN_LANE="prod\n"))
        assert (finding.fault, finding.setting, finding.actual) == (LaneFault.CROSSED, "AFTERTURN_LANE", "'prod\\n'")

    def test_a_password_in_an_address_is_not_shown(self) -> None:
        (finding,) = alone(
            runtime_of(RuntimeRole.WEB, AFTERTURN_AWS_ENDPOINT_URL="http://me:geheim@aws.example:1/x?key=geheim")
        )
        assert finding.actual == "http://aws.example:1/x"

    def test_two_values_of_one_name_are_told(self) -> None:
        (finding,) = alone(replace(runtime_of(RuntimeRole.WEB), conflicting=frozenset({"AFTERTURN_LANE"})))
        assert (finding.fault, finding.setting) == (LaneFault.CROSSED, "AFTERTURN_LANE")

    def test_the_emulators_endpoint_is_right_for_a_lane_on_it(self) -> None:
        runtime = runtime_of(RuntimeRole.WEB, AFTERTURN_AWS_ENDPOINT_URL="http://127.0.0.1:1")
        assert alone(runtime, endpoint="http://127.0.0.1:1") == ()

    @given(st.sampled_from(sorted(PRIVATE)), st.text("abcdef", min_size=12, max_size=20))
    def test_a_private_one_is_never_shown(self, name: str, value: str) -> None:
        runtimes = [runtime_of(RuntimeRole.WORKER, **{name: value}), runtime_of(RuntimeRole.WORKER)]
        assert value not in repr(audit(wanted_of("prod"), runtimes))

    def test_every_secret_of_the_settings_is_private(self) -> None:
        masked = {
            f"AFTERTURN_{name.upper()}" for name, field in Settings.model_fields.items() if "Secret" in str(field)
        }
        assert masked == set(SECRET)
        assert masked <= PRIVATE

    def test_what_this_process_is_set_to_does_not_show_through(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AFTERTURN_LANE", "prod")
        monkeypatch.setenv("AFTERTURN_SLOTS", "none")
        (finding,) = alone(without(runtime_of(RuntimeRole.WEB), "AFTERTURN_LANE"))
        assert (finding.fault, finding.setting) == (LaneFault.MISSING, "AFTERTURN_LANE")


class TestRuntimesThatDisagree:
    def test_the_odd_one_out_is_named(self) -> None:
        runtimes, feeds = healthy("prod")
        runtimes[3] = with_value(runtimes[3], AFTERTURN_TEMPORAL_NAMESPACE="company")
        finding = one(audit(wanted_of("prod"), runtimes, feeds))
        assert (finding.runtime, finding.setting, finding.actual) == (
            "main/prod-worker",
            "AFTERTURN_TEMPORAL_NAMESPACE",
            "company",
        )
        assert finding.expected == "company-prod, as in lambda afterturn-prod-bridge:live"

    def test_both_are_named_where_nobody_can_say_who_is_right(self) -> None:
        runtimes, feeds = healthy("prod")
        own = without(
            with_value(runtimes[3], AFTERTURN_TEMPORAL_ADDRESS="temporal.in:7233"), "AFTERTURN_TEMPORAL_API_KEY"
        )
        findings = audit(wanted_of("prod"), [runtimes[2], own], feeds).findings
        assert {each.runtime for each in findings} == {runtimes[2].name, own.name}
        assert {each.setting for each in findings} == {"AFTERTURN_TEMPORAL_ADDRESS"}

    def test_a_default_counts_like_a_value(self) -> None:
        runtimes, feeds = healthy("prod")
        runtimes[3] = without(runtimes[3], "AFTERTURN_TEMPORAL_NAMESPACE")
        finding = one(audit(wanted_of("prod"), runtimes, feeds))
        assert (finding.runtime, finding.setting, finding.actual) == (
            "main/prod-worker",
            "AFTERTURN_TEMPORAL_NAMESPACE",
            "the default",
        )

    @pytest.mark.parametrize("name", ["AFTERTURN_EFFECTS_MAX_AGE", "AFTERTURN_MODEL"])
    def test_workers_react_alike(self, name: str) -> None:
        runtimes, feeds = healthy("prod")
        runtimes[3] = with_value(runtimes[3], **{name: "2h"})
        assert {each.setting for each in audit(wanted_of("prod"), runtimes, feeds).findings} == {name}

    def test_a_bridge_signals_the_consumers_of_the_app_that_the_workers_run(self) -> None:
        runtimes, feeds = healthy("prod")
        runtimes[2] = with_value(runtimes[2], AFTERTURN_APP="reactions:app")
        assert audit(wanted_of("prod"), runtimes, feeds).findings == ()
        runtimes[3] = with_value(runtimes[3], AFTERTURN_APP="reactions:other")
        findings = audit(wanted_of("prod"), runtimes, feeds).findings
        assert {(each.runtime, each.setting) for each in findings} == {
            ("afterturn-prod-bridge:live", "AFTERTURN_APP"),
            ("main/prod-worker", "AFTERTURN_APP"),
        }

    def test_the_same_length_in_other_words_is_the_same(self) -> None:
        runtimes, feeds = healthy("prod")
        runtimes[3] = with_value(runtimes[3], AFTERTURN_EFFECTS_MAX_AGE="1d")
        runtimes[4] = with_value(runtimes[4], AFTERTURN_EFFECTS_MAX_AGE="24h")
        assert audit(wanted_of("prod"), runtimes, feeds).findings == ()

    def test_a_namespace_that_lanes_share_is_right_once_it_is_named(self) -> None:
        runtimes, feeds = healthy("preview")
        runtimes = [
            with_value(each, AFTERTURN_TEMPORAL_NAMESPACE="company-prod")
            if "AFTERTURN_TEMPORAL_NAMESPACE" in each.environment
            else each
            for each in runtimes
        ]
        assert {each.setting for each in audit(wanted_of("preview"), runtimes, feeds).findings} == {
            "AFTERTURN_TEMPORAL_NAMESPACE"
        }
        assert audit(wanted_of("preview", temporal_namespace="company-prod"), runtimes, feeds).findings == ()


class TestReadersOfTheQueues:
    def test_a_lane_without_a_bridge_is_found(self) -> None:
        runtimes, _ = healthy("prod")
        finding = one(audit(wanted_of("prod"), [each for each in runtimes if each.role is not RuntimeRole.BRIDGE]))
        assert (finding.fault, finding.kind, finding.runtime, finding.setting) == (
            LaneFault.MISSING,
            RuntimeKind.LANE,
            "prod",
            "bridge",
        )

    @pytest.mark.parametrize("place", [0, 1])
    def test_a_bridge_that_is_not_called_for_a_queue_is_found(self, place: int) -> None:
        runtimes, feeds = healthy("prod")
        gone = feeds.pop(place)
        finding = one(audit(wanted_of("prod"), runtimes, feeds))
        assert (finding.fault, finding.setting) == (LaneFault.MISSING, EVENT_SOURCE)
        assert gone.source.endswith(finding.expected)

    def test_a_mapping_that_is_switched_off_calls_nobody(self) -> None:
        runtimes, feeds = healthy("prod")
        feeds[0] = replace(feeds[0], enabled=False)
        finding = one(audit(wanted_of("prod"), runtimes, feeds))
        assert (finding.fault, finding.actual) == (LaneFault.MISSING, "a mapping that is switched off")

    def test_a_mapping_past_the_alias_is_found(self) -> None:
        runtimes, feeds = healthy("prod")
        feeds[0] = replace(feeds[0], qualifier=None)
        finding = one(audit(wanted_of("prod"), runtimes, feeds))
        assert (finding.fault, finding.setting) == (LaneFault.CROSSED, EVENT_SOURCE)
        assert finding.expected.endswith("for live")

    def test_another_lanes_bridge_on_this_lanes_queue_is_found(self) -> None:
        runtimes, feeds = healthy("prod")
        feeds.append(replace(feeds[0], function="afterturn-preview-bridge"))
        finding = one(audit(wanted_of("prod"), runtimes, feeds))
        assert (finding.fault, finding.runtime, finding.actual) == (
            LaneFault.CROSSED,
            "afterturn-preview-bridge:live",
            "afterturn-prod-events.fifo",
        )

    def test_a_poller_beside_a_mapping_loses_records_and_is_found(self) -> None:
        runtimes, feeds = healthy("prod")
        runtimes[3] = replace(runtimes[3], role=RuntimeRole.UP)
        findings = audit(wanted_of("prod"), runtimes, feeds).findings
        assert {(each.fault, each.runtime, each.setting) for each in findings} == {
            (LaneFault.CROSSED, "main/prod-worker", EVENT_SOURCE)
        }

    def test_a_webhooks_function_that_is_called_for_its_own_queue_is_no_concern(self) -> None:
        runtimes, feeds = healthy("prod")
        own = Location(REGION, ACCOUNT).queue_arn("incoming-mail")
        feeds.append(EventSource("afterturn-prod-webhooks", "live", own, enabled=True, reports_partial=False))
        assert audit(wanted_of("prod"), runtimes, feeds).findings == ()
        feeds.append(
            replace(feeds[0], function="afterturn-prod-webhooks", source=feeds[0].source.replace("prod", "dev"))
        )
        assert one(audit(wanted_of("prod"), runtimes, feeds)).actual == "afterturn-dev-events.fifo"
