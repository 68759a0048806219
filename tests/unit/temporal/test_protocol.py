"""What may come over Temporal, and what a reaction knows: pure."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.converter import DataConverter
from tests.contract.samples import T0, at

from afterturn.model import MAX_ID_CHARS, check_id
from afterturn.reactions.registry import Registry
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.protocol import ReactionPolicy, SignalPayload
from afterturn.reactions.temporal.workflow_state import WorkflowState

POLICY = ReactionPolicy(quiet_ms=5_000, max_wait_ms=60_000, attempts=3, timeout_ms=60_000, lease_ms=30_000)
GOOD = protocol.write_signal(SignalPayload(POLICY, T0, immediate=True))

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "x"]), inner, max_size=6),
    max_leaves=12,
)


@given(anything)
def test_whatever_comes_is_read_or_refused(value: object) -> None:
    """F1, F32: nothing else may be raised, and what is read can be reckoned with."""
    for of_a_turn in (True, False):
        try:
            payload = protocol.read_signal(value, of_a_turn=of_a_turn)
        except ValueError:
            continue
        WorkflowState().turn(payload, T0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"occurredAt": "not-a-date"}, "occurredAt"),
        ({"occurredAt": "2026-03-01T12:00:00"}, "occurredAt"),
        ({"occurredAt": 5}, "occurredAt"),
        ({"immediate": "yes"}, "immediate"),
        ({"quietMs": -1}, "quietMs"),
        ({"quietMs": True}, "quietMs"),
        ({"maxWaitMs": 10**30}, "maxWaitMs"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_a_refusal_names_the_key_and_not_the_value(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        protocol.read_signal(GOOD | change, of_a_turn=True)
    assert "not-a-date" not in str(raised.value)


def test_a_newer_bridge_may_send_more() -> None:
    assert protocol.read_signal(GOOD | {"unheardOf": 1}, of_a_turn=True) == SignalPayload(POLICY, T0, immediate=True)


def test_signals_hold_ids_enums_counters_and_times_only() -> None:
    assert GOOD.keys() == {
        "quietMs", "maxWaitMs", "attempts", "timeoutMs", "leaseMs", "occurredAt", "immediate",
    }  # fmt: skip


@pytest.mark.parametrize("conversation_id", ["c1", "a/b//c", "+1 555 01", "😀" * MAX_ID_CHARS, '"', "%"])
def test_a_workflow_id_takes_any_legal_conversation_id(conversation_id: str) -> None:
    """And gives it back; Temporal's limit is 1,000 bytes."""
    check_id(conversation_id)
    consumer = "c" * 48
    workflow_id = protocol.reaction_id("preview", consumer, conversation_id)
    assert protocol.read_id(workflow_id) == (consumer, conversation_id)
    assert len(workflow_id.encode()) <= 1000


def test_the_policy_is_that_of_the_consumer() -> None:
    registry = Registry()

    async def handler(*_: Any) -> Any: ...

    consumer = registry.add("probe", handler, quiet="90s", max_wait="5m", attempts=7, timeout="250ms")
    policy = protocol.policy_of(consumer, timedelta(seconds=30))
    assert (policy.debounce, policy.attempts) == (consumer.debounce, 7)
    assert (policy.timeout, policy.lease) == (timedelta(milliseconds=250), timedelta(seconds=30))


def test_the_state_is_constant_in_size_and_survives_being_carried() -> None:
    """Two thousand turns, of which some fail: what continue-as-new carries stays as short."""
    converter = DataConverter.default.payload_converter
    state = WorkflowState()
    sizes = set()
    for number in range(2_000):
        state.turn(SignalPayload(POLICY, at(number)), at(number))
        if number % 10 == 9:
            attempt = state.begin()
            state.retry_later(at(number + 1), attempt) if attempt < 3 else state.end()
        (payload,) = converter.to_payloads([state])
        carried = converter.from_payload(payload, WorkflowState)
        assert carried == state
        sizes.add(len(payload.data))
        state = carried
    assert max(sizes) < 600
    assert json.loads(payload.data)["signals"] == 0, "the workflow counts them, not the decisions"


class TestWorkflowState:
    def payload(self, seconds: float, *, immediate: bool = False) -> SignalPayload:
        return SignalPayload(POLICY, at(seconds), immediate=immediate)

    def test_a_turn_during_a_run_waits_for_the_next(self) -> None:
        state = WorkflowState()
        state.turn(self.payload(0), at(0))
        assert state.begin() == 1
        state.turn(self.payload(7), at(7))
        assert state.due_at is None
        state.end()
        assert state.due_at == at(12)

    def test_a_flush_skips_a_quiet_period_and_no_back_off(self) -> None:
        state = WorkflowState()
        state.flush(at(0))
        assert state == WorkflowState()
        state.turn(self.payload(0), at(0))
        state.flush(at(1))
        assert state.due_at == at(1)
        state.retry_later(at(60), state.begin())
        state.turn(self.payload(2, immediate=True), at(2))
        state.flush(at(3))
        assert state.due_at == at(60)

    def test_a_retry_skips_a_back_off_and_gives_fresh_attempts(self) -> None:
        state = WorkflowState()
        state.turn(self.payload(0), at(0))
        state.retry_later(at(60), state.begin())
        state.retry(self.payload(5), at(5))
        assert (state.due_at, state.begin()) == (at(5), 1)
