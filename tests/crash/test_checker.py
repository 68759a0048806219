"""The checker can fail: each promise is broken once in an otherwise sound outcome, and it says which one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.crash.checker import (
    CHECKS,
    AcknowledgedTurn,
    Order,
    Outcome,
    ReceivedRequest,
    StoredMessage,
    StoredStamp,
    StoredTurn,
    Thread,
    broken,
)

START = datetime(2026, 3, 1, tzinfo=UTC)


def message(number: int, *, inbound: bool = True) -> StoredMessage:
    return StoredMessage(f"m{number}", START + timedelta(seconds=number), inbound)


THREAD = Thread(
    id="c1",
    settled_at=2000,
    messages=(message(1), message(2, inbound=False), message(3), message(4, inbound=False), message(5)),
    turns=(StoredTurn(1000, 2), StoredTurn(2000, 4)),
    stamps={"tally": StoredStamp(2000, {"seen": ["m1", "m2", "m3", "m4"]}), "topics": StoredStamp(2000, {"at": 7})},
    clean={"tally": {"seen": ["m1", "m2", "m3", "m4"]}},
)
ORDER = Order("wo-1", "c1", "m1", "plumbing", "urgent")
SOUND = Outcome(
    acknowledged=(
        AcknowledgedTurn("c1", ("m1", "m2"), "turn:c1:1000", 1000, "turn-0"),
        AcknowledgedTurn("c1", ("m1", "m2"), "turn:c1:1000", 1000, "turn-0"),
        AcknowledgedTurn("c1", ("m3", "m4"), "turn:c1:2000", 2000, "turn-1"),
        AcknowledgedTurn("c1", ("m5",)),
    ),
    attempted={"c1": (("m1", "m2"), ("m3", "m4"), ("m5",), ("m6", "m7"))},
    threads=(THREAD, replace(THREAD, id="c2", settled_at=None, messages=(), turns=(), stamps={}, clean={})),
    consumers=("tally", "topics"),
    orders=(ORDER,),
    clean_orders=(ORDER,),
    heard=(
        ReceivedRequest("package", "p1", "m1", "c1", ("m1",)),
        ReceivedRequest("package", "p1", "m1", "c1", ("m1",)),
        ReceivedRequest("package", "p2", "m3", "c1", ("m3",)),
        ReceivedRequest("alert", "a1", "gas m1", "c1", ()),
        ReceivedRequest("alert", "a1", "gas m1", "c1", ()),
    ),
)


def thread(**changes: object) -> Outcome:
    return replace(SOUND, threads=(replace(THREAD, **changes), *SOUND.threads[1:]))  # type: ignore[arg-type]


def heard(*more: ReceivedRequest) -> Outcome:
    return replace(SOUND, heard=(*SOUND.heard, *more))


M = THREAD.messages
FAULTS: list[tuple[str, str, Callable[[], Outcome]]] = [
    ("file", "row 7 missing", lambda: replace(SOUND, integrity=("row 7 missing from index",))),
    ("acknowledged", "is gone", lambda: replace(SOUND, threads=())),
    ("acknowledged", "lost ['m1', 'm2']", lambda: thread(messages=M[2:])),
    ("acknowledged", "lost ['m5']", lambda: thread(messages=M[:4])),
    ("acknowledged", "lost the turn turn:c1:1000", lambda: thread(turns=THREAD.turns[1:])),
    ("acknowledged", "does not reach", lambda: thread(turns=(THREAD.turns[0], StoredTurn(2000, 3)))),
    (
        "events",
        "has the events",
        lambda: replace(
            SOUND, acknowledged=(*SOUND.acknowledged, AcknowledgedTurn("c1", (), "turn:c1:2000", 2000, "turn-0"))
        ),
    ),
    (
        "events",
        "stands for",
        lambda: replace(
            SOUND, acknowledged=(*SOUND.acknowledged, AcknowledgedTurn("c1", (), "turn:c1:2000", 2000, "turn-2"))
        ),
    ),
    ("whole turns", "has ['m6'] of ['m6', 'm7']", lambda: thread(messages=(*M, message(6)))),
    ("whole turns", "nobody sent", lambda: thread(messages=(*M, message(9)))),
    ("order", "out of order", lambda: thread(messages=(M[1], M[0], *M[2:]))),
    ("order", "out of order", lambda: thread(messages=(M[0], *M))),
    ("order", "step back", lambda: thread(messages=(*M[:4], replace(M[4], at=START)))),
    ("order", "not later", lambda: thread(turns=(StoredTurn(2000, 2), StoredTurn(2000, 4)))),
    ("order", "less far", lambda: thread(turns=(StoredTurn(1000, 5), StoredTurn(2000, 4)))),
    ("order", "its last turn", lambda: thread(settled_at=3000)),
    ("stamped", "tally has seen 'c1' through 1000", lambda: thread(stamps=stamps(tally=1000))),
    ("stamped", "through None", lambda: thread(stamps={"tally": THREAD.stamps["tally"]})),
    ("same outcome", "instead of", lambda: thread(stamps=stamps(seen=["m1", "m2", "m4"]))),
    ("same outcome", "instead of", lambda: thread(stamps=stamps(seen=["m1", "m2", "m1", "m2", "m3", "m4"]))),
    ("ledger", "owed: topics", lambda: replace(SOUND, reactions=("topics owed on 'c1'",))),
    ("ledger", "left over", lambda: replace(SOUND, left=("2 streamed",))),
    ("path", "only the sweep brought", lambda: replace(SOUND, swept=("'c1' to topics",))),
    ("work orders", "2 times", lambda: replace(SOUND, orders=(ORDER, ORDER))),
    ("work orders", "2 for one cause", lambda: replace(SOUND, orders=(ORDER, replace(ORDER, id="wo-2")))),
    ("work orders", "missing", lambda: replace(SOUND, orders=())),
    ("work orders", "missing", lambda: replace(SOUND, orders=(replace(ORDER, urgency="routine"),))),
    ("work orders", "not asked for", lambda: replace(SOUND, clean_orders=())),
    ("webhooks", "had the contents", lambda: heard(ReceivedRequest("package", "p1", "m1 m3", "c1", ("m1",)))),
    ("webhooks", "delivered under ['p1', 'p9']", lambda: heard(ReceivedRequest("package", "p9", "m1", "c1", ("m1",)))),
    ("webhooks", "never delivered", lambda: replace(SOUND, heard=SOUND.heard[:2])),
    ("webhooks", "never settled", lambda: heard(ReceivedRequest("package", "p3", "m5", "c1", ("m5",)))),
    ("alerts", "had the contents", lambda: heard(ReceivedRequest("alert", "a1", "fire m1", "c1", ()))),
    ("alerts", "was raised as ['a1', 'a2']", lambda: heard(ReceivedRequest("alert", "a2", "gas m1", "c1", ()))),
]


def stamps(tally: int = 2000, seen: list[str] | None = None) -> dict[str, StoredStamp]:
    return {**THREAD.stamps, "tally": StoredStamp(tally, {"seen": seen or ["m1", "m2", "m3", "m4"]})}


def test_a_sound_outcome_breaks_nothing_whatever_was_repeated() -> None:
    assert broken(SOUND) == []


@pytest.mark.parametrize(("promise", "told", "corrupt"), FAULTS, ids=[f"{name}-{told}" for name, told, _ in FAULTS])
def test_a_broken_promise_is_named(promise: str, told: str, corrupt: Callable[[], Outcome]) -> None:
    problems = [one for one in broken(corrupt()) if one.startswith(f"{promise}: ")]
    assert any(told in one for one in problems), problems


def test_the_sweep_may_bring_what_a_dead_letter_held() -> None:
    assert broken(replace(SOUND, swept=("'c1' to topics",), dead_letters=1)) == []


def test_every_check_was_seen_to_fail() -> None:
    assert {promise for promise, _, _ in FAULTS} == CHECKS.keys()
