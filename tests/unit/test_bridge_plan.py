"""What the bridge does with a batch: pure."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.samples import at
from tests.contract.stream import event

from afterturn.bridge.plan import backoff, held_up, plan_batch
from afterturn.model import FlushMode
from afterturn.reactions.port import Signal
from afterturn.stream.port import MAX_RECEIVES, Delivery, Queue, Receipt

CONSUMERS = ("topics", "grade")
IMMEDIATE = FlushMode.IMMEDIATE


def delivery(number: int, body: str, *, group: str = "c1", consumer: str | None = None, receives: int = 1) -> Delivery:
    queue = Queue.MAIN if consumer is None else Queue.RETRY
    return Delivery(Receipt(queue, f"{number}:{receives}"), group, body, receives, consumer)


def of(number: int, conversation_id: str, second: float, mode: FlushMode = FlushMode.DEBOUNCED) -> Delivery:
    return delivery(number, event(conversation_id, second, mode).to_json(), group=conversation_id)


GOOD = json.loads(event("c1", 1).to_json())
ODD = {
    "not json": "not json",
    "a list": "[]",
    "a number": "5",
    "null": "null",
    "empty": "",
    "an empty object": "{}",
    "cut": event("c1", 1).to_json()[:-5],
    "no id": json.dumps({key: value for key, value in GOOD.items() if key != "eventId"}),
    "another id": json.dumps({**GOOD, "eventId": "turn:c2:5"}),
    "no time": json.dumps({**GOOD, "occurredAt": None}),
    "not a date": json.dumps({**GOOD, "occurredAt": "not-a-date"}),
    "a naive time": json.dumps({**GOOD, "occurredAt": "2026-03-01T12:00:01.000"}),
    "another type": json.dumps({**GOOD, "eventType": "conversation.closed"}),
    "a later version": json.dumps({**GOOD, "eventVersion": 2}),
    "an unknown channel": json.dumps({**GOOD, "channel": "pigeon"}),
    "a typed id": json.dumps({**GOOD, "conversationId": 5}),
    "a surrogate": '{"conversationId": "\\ud83d"}',
    "huge": "[" * 100_000,
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD.keys())
def test_an_odd_record_is_told_apart_and_crashes_no_batch(body: str) -> None:
    """F1, F23: its neighbours are signalled, and the reason holds nothing of its content."""
    batch = [of(1, "c1", 1), delivery(2, body), of(3, "c1", 3)]
    todo = plan_batch(batch, CONSUMERS)
    assert [one.receipt.handle for one, _ in todo.invalid] == ["2:1"]
    assert [one.receipt.handle for one, _ in todo.valid] == ["1:1", "3:1"]
    assert todo.signals == tuple(Signal(name, "c1", at(3)) for name in CONSUMERS)
    for secret in ("pigeon", "not-a-date", "conversation.closed", "turn:c2:5"):
        assert secret not in todo.invalid[0][1]


def test_an_event_of_a_newer_emitter_is_taken() -> None:
    """F1: an unknown extra key is no reason to lose it."""
    body = json.dumps({**GOOD, "somethingNew": {"a": 1}})
    assert len(plan_batch([delivery(1, body)], CONSUMERS).valid) == 1


def test_every_consumer_is_signalled_of_every_conversation() -> None:
    todo = plan_batch([of(1, "c1", 1), of(2, "c2", 2)], CONSUMERS)
    assert set(todo.signals) == {Signal(n, c, at(s)) for n in CONSUMERS for c, s in (("c1", 1), ("c2", 2))}


def test_events_of_one_conversation_are_merged() -> None:
    """The newest time, and immediate wins, in whichever order they stand."""
    for seconds in ((1, 2, 3), (3, 2, 1), (2, 3, 1)):
        batch = [of(n, "c1", s, IMMEDIATE if s == 2 else FlushMode.DEBOUNCED) for n, s in enumerate(seconds)]
        assert plan_batch(batch, ("topics",)).signals == (Signal("topics", "c1", at(3), immediate=True),)


def test_a_direct_record_signals_its_consumer_alone() -> None:
    todo = plan_batch([delivery(1, event("c1", 1).to_json(), consumer="grade")], CONSUMERS)
    assert todo.signals == (Signal("grade", "c1", at(1)),)


def test_a_direct_record_of_an_unknown_consumer_is_left_to_another_bridge() -> None:
    todo = plan_batch([delivery(1, event("c1", 1).to_json(), consumer="stranger")], CONSUMERS)
    assert [one.consumer for one in todo.unknown_consumer] == ["stranger"]
    assert (todo.valid, todo.invalid, todo.signals) == ((), (), ())


def test_an_odd_record_of_an_unknown_consumer_is_odd() -> None:
    assert len(plan_batch([delivery(1, "x", consumer="stranger")], CONSUMERS).invalid) == 1


def test_nothing_comes_of_nothing() -> None:
    assert plan_batch([], CONSUMERS).signals == ()
    assert plan_batch([of(1, "c1", 1)], ()).signals == ()
    assert len(plan_batch([of(1, "c1", 1)], ()).valid) == 1


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 9), st.booleans()), max_size=30))
def test_a_batch_says_what_its_events_say(told: list[tuple[str, int, bool]]) -> None:
    batch = [of(n, c, s, IMMEDIATE if now else FlushMode.DEBOUNCED) for n, (c, s, now) in enumerate(told)]
    todo = plan_batch(batch, CONSUMERS)
    assert [one for one, _ in todo.valid] == batch
    by_conversation = {c for c, _, _ in told}
    assert len(todo.signals) == len(CONSUMERS) * len(by_conversation)
    for signal in todo.signals:
        own = [(s, now) for c, s, now in told if c == signal.conversation_id]
        assert signal.occurred_at == at(max(s for s, _ in own))
        assert signal.immediate == any(now for _, now in own)


def test_backoff_grows_from_seconds_to_hours_and_the_last_receive_comes_after_half_a_day() -> None:
    waits = [backoff(receives) for receives in range(1, MAX_RECEIVES)]
    assert waits == sorted(set(waits))
    assert waits[0] <= timedelta(seconds=10)
    assert max(waits) <= timedelta(hours=12), "SQS hides a record no longer"
    assert sum(waits, timedelta(0)) > timedelta(hours=12)


def test_after_the_last_receive_there_is_nothing_to_wait_for() -> None:
    assert backoff(MAX_RECEIVES) == backoff(MAX_RECEIVES + 9) == timedelta(0)


def test_what_stands_behind_a_failed_record_of_its_group_is_held_up() -> None:
    """F23: m1(A) m2(A, fails) m3(B) m4(A): m2 and m4 go back; B goes on."""
    m1, m2, m3, m4 = (of(n, c, n) for n, c in ((1, "A"), (2, "A"), (3, "B"), (4, "A")))
    assert held_up([m1, m2, m3, m4], [m2]) == [m2, m4]
    assert held_up([m1, m2, m3, m4], []) == []


def test_a_direct_group_is_held_up_for_its_consumer_alone() -> None:
    body = event("A", 1).to_json()
    first, other, second = (
        delivery(n, body, group="A", consumer=name) for n, name in ((1, "topics"), (2, "grade"), (3, "topics"))
    )
    assert held_up([first, other, second], [first]) == [first, second]


def test_a_record_without_a_group_is_odd() -> None:
    todo = plan_batch([delivery(1, event("c1", 1).to_json(), group="")], CONSUMERS)
    assert [reason for _, reason in todo.invalid] == ["the record has no message group"]
