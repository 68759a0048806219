"""The examples that users copy do what they say."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.consumers.helpers import START, MemoryClaims, agent, customer, run_in_windows, thread

from afterturn.consumers.examples import escalation, sentiment, sla_breach
from afterturn.model import Channel


class RecordedCalls:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    async def __call__(self, conversation_id: str, key: str) -> None:
        self.calls.append((conversation_id, key))


async def test_escalation_notifies_once_that_a_person_is_asked_for() -> None:
    told, claims = RecordedCalls(), MemoryClaims()
    lines = thread("c: can I talk to a real person?", "a: How can I help?", "c: a human please!")
    for _ in range(2):
        stamps = await run_in_windows(escalation(told), lines, cuts=[1], claims=claims)
    assert [conversation_id for conversation_id, _ in told.calls] == ["c1"]
    assert stamps[-1].data == {"escalated": True, "reason": "asked-for-person", "upset": 0}


async def test_escalation_counts_anger_over_windows() -> None:
    told = RecordedCalls()
    lines = thread("c: this is ridiculous", "a: sorry", "c: unacceptable!", "c: thanks")
    stamps = await run_in_windows(escalation(told), lines, cuts=[1, 2, 3])
    assert [stamp.data["reason"] for stamp in stamps] == [None, None, "upset-twice", "upset-twice"]
    assert len(told.calls) == 1


async def test_escalation_leaves_alone_what_an_operator_has_taken() -> None:
    told = RecordedCalls()
    await run_in_windows(escalation(told), thread("c: can I talk to a human?", "o: Here I am."))
    assert not told.calls


async def test_sla_breach_counts_waits_over_windows() -> None:
    messages = [
        customer("hello", 0),
        customer("hello?", 1, at=START + timedelta(minutes=20)),
        agent("hi", 2, at=START + timedelta(minutes=31)),
        customer("one more thing", 3, at=START + timedelta(minutes=40)),
        agent("yes?", 4, at=START + timedelta(minutes=41)),
    ]
    expected = {"breached": True, "breaches": 1, "worstS": 1860, "waitingSince": None}
    for cuts in ([], [1], [1, 2, 3, 4]):
        assert (await run_in_windows(sla_breach, messages, cuts))[-1].data == expected
    (mail,) = await run_in_windows(sla_breach, messages, channel=Channel.EMAIL)
    assert mail.data["breached"] is False


async def test_sla_breach_remembers_who_waits() -> None:
    (stamp,) = await run_in_windows(sla_breach, [customer("hello")])
    assert stamp.data["waitingSince"] == "2026-03-01T12:00:00.000000Z"


async def test_sentiment_follows_the_customer() -> None:
    lines = thread("c: thank you so much", "a: welcome", "c: this is horrible", "c: terrible, awful", "c: useless")
    stamps = await run_in_windows(sentiment, lines, cuts=[1, 3])
    assert [stamp.data["sentiment"] for stamp in stamps] == ["positive", "neutral", "negative"]
