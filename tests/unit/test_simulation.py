"""A play: every turn once, in its conversation's order, at its own pace, and the same for the same chance."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from afterturn.cli.simulate import Beat, play
from afterturn.importers.records import ImportedConversation
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, Turn

THEN = datetime(2025, 5, 1, 8, tzinfo=UTC)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

gaps = st.lists(st.lists(st.integers(0, 100_000), min_size=1, max_size=4), min_size=0, max_size=5)


def conversation(number: int, turns: list[list[int]]) -> ImportedConversation:
    meta = ConversationMeta(id=f"c-{number}", channel=Channel.SMS)
    at, made = THEN, []
    for place, seconds in enumerate(turns):
        messages = []
        for part, gap in enumerate(seconds):
            at += timedelta(seconds=gap)
            name = f"m-{place}-{part}"
            messages.append(Message(id=name, direction=Direction.INBOUND, role=Role.CUSTOMER, text=name, at=at))
        made.append(Turn(conversation=meta, messages=tuple(messages), at=at, key=f"k-{place}"))
    return ImportedConversation(meta, tuple(made), "here")


@given(st.lists(gaps, max_size=4), st.floats(0.1, 1_000), st.integers(0, 600), st.integers(0, 9))
def test_every_turn_is_played_once_in_order_and_never_ahead_of_its_time(
    given_: list[list[list[int]]], speed: float, spread: int, seed: int
) -> None:
    conversations = [conversation(number, turns) for number, turns in enumerate(given_)]

    def played() -> list[Beat]:
        chance, within = random.Random(seed), timedelta(seconds=spread)
        return list(play(conversations, NOW, chance=chance, speed=speed, spread=within, name="p"))

    beats = played()
    assert beats == played()
    assert [beat.after for beat in beats] == sorted(beat.after for beat in beats)
    for one in conversations:
        mine = [beat for beat in beats if beat.turn.conversation.id == f"p:{one.meta.id}"]
        assert [m.id for beat in mine for m in beat.turn.messages] == [m.id for m in one.messages]
        for beat in mine:
            assert beat.turn.messages[-1].at == NOW + beat.after
            assert (beat.turn.at, beat.turn.key) == (None, None)
        if mine:
            assert mine[0].after <= timedelta(seconds=spread)
            was = one.turns[-1].messages[-1].at - one.turns[0].messages[-1].at
            lasted = mine[-1].after - mine[0].after
            assert abs(lasted - was / speed) < timedelta(milliseconds=1) * len(mine)
        times = [m.at for beat in mine for m in beat.turn.messages]
        pace = [later - earlier for earlier, later in pairwise(times)]
        assert min(pace, default=timedelta(0)) > -timedelta(milliseconds=1)
