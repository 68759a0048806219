"""Where imported turns end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from afterturn.importers.records import make_turns, split_into_turns, thread_order
from afterturn.model import (
    MAX_TURN_BYTES,
    MAX_TURN_MESSAGES,
    Channel,
    ConversationMeta,
    Direction,
    Message,
    Role,
)

META = ConversationMeta(id="c", channel=Channel.SMS)
START = datetime(2026, 1, 1, tzinfo=UTC)


def messages(directions: str, text: str = "x") -> list[Message]:
    return [
        Message(
            id=str(i),
            direction=Direction.INBOUND if letter == "i" else Direction.OUTBOUND,
            role=Role.CUSTOMER,
            text=text,
            at=START + timedelta(seconds=i),
        )
        for i, letter in enumerate(directions)
    ]


def shape(directions: str) -> list[str]:
    return ["".join(m.direction.value[0] for m in part) for part in split_into_turns(messages(directions))]


def test_a_turn_starts_at_an_inbound_message_that_follows_an_outbound_one() -> None:
    assert shape("iooiio") == ["ioo", "iio"]


def test_leading_outbound_messages_are_a_turn_of_their_own() -> None:
    assert shape("ooio") == ["oo", "io"]


def test_a_trailing_inbound_run_is_a_turn() -> None:
    assert shape("ioii") == ["io", "ii"]


def test_no_messages_are_no_turns() -> None:
    assert shape("") == []


@given(st.text("io", max_size=400))
def test_turns_hold_every_message_once_in_order_and_fit_a_transaction(directions: str) -> None:
    thread = messages(directions)
    parts = list(split_into_turns(thread))
    assert [m for part in parts for m in part] == thread
    assert all(1 <= len(part) <= MAX_TURN_MESSAGES for part in parts)
    for part in parts:
        assert "oi" not in "".join(m.direction.value[0] for m in part)
    for before, after in pairwise(parts):
        answered = before[-1].direction is Direction.OUTBOUND and after[0].direction is Direction.INBOUND
        assert answered or len(before) == MAX_TURN_MESSAGES


@given(st.lists(st.sampled_from(["", "a" * 290_000, "ä" * 140_000, "😀" * 70_000]), max_size=30))
def test_turns_of_large_texts_fit_a_transaction(bodies: list[str]) -> None:
    thread = [m.model_copy(update={"text": body}) for m, body in zip(messages("i" * 30), bodies, strict=False)]
    turns = make_turns(META, thread)
    assert [m for turn in turns for m in turn.messages] == thread
    for turn in turns:
        assert sum(len(m.text.encode()) for m in turn.messages) <= MAX_TURN_BYTES


def test_a_turn_is_at_the_time_of_its_last_message() -> None:
    assert [turn.at for turn in make_turns(META, messages("ioi"))] == [START + timedelta(seconds=s) for s in (1, 2)]


def test_a_turn_that_grew_has_another_key_and_the_others_keep_theirs() -> None:
    before = [turn.key for turn in make_turns(META, messages("ioi"))]
    after = [turn.key for turn in make_turns(META, messages("ioio"))]
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_messages_of_one_instant_stay_as_they_stood() -> None:
    thread = [m.model_copy(update={"at": START}) for m in messages("oioi")]
    assert thread_order(thread) == thread
