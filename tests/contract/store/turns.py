"""The writer's half of the store contract."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.contract.samples import T0, at, message, meta, turn
from tests.contract.store.factory import StoreFactory, settle, settle_new
from tests.contract.store.previews import preview_of

from afterturn.clock import floor_millis, to_millis
from afterturn.model import MAX_PARTICIPANTS, Attachment, Channel, FlushMode, Origin, Status
from afterturn.store.port import Store


class SettleContract:
    """What ``settle`` promises."""

    async def test_a_settled_turn_is_there_whole(self, store: Store) -> None:
        """Messages, meta, recency and the settled mark come together."""
        given = turn("c1", message("m1", 1), message("m2", 2), property_id="p1", participants=("+1555",))
        settled = await settle(store, given, at(3))
        found = await store.conversation("c1")
        assert found is not None
        assert (found.property_id, found.participants, found.message_count) == ("p1", ("+1555",), 2)
        assert (found.last_message_at, found.created_at) == (at(2), at(1))
        assert found.settled_at == settled.event.occurred_at == found.recorded_at == at(3)
        assert await store.messages("c1") == given.messages
        (mark,) = await store.turns("c1", limit=10)
        assert (mark.occurred_at, mark.last_seq, mark.emitter) == (at(3), 2, "worker")

    async def test_the_event_says_what_was_settled(self, store: Store) -> None:
        settled = await settle(
            store, turn("c1", channel=Channel.VOICE, property_id="p1", flush_mode=FlushMode.IMMEDIATE), T0
        )
        event = settled.event
        assert (event.conversation_id, event.property_id, event.channel) == ("c1", "p1", Channel.VOICE)
        assert (event.origin, event.flush_mode, event.emitter) == (Origin.VOICE, FlushMode.IMMEDIATE, "worker")
        assert event.event_id == f"turn:c1:{to_millis(T0)}"

    async def test_the_event_of_an_unassigned_conversation_says_so(self, store: Store) -> None:
        assert (await settle_new(store, "c1", message("m1"), now=T0)).event.property_id == "UNASSIGNED"

    @pytest.mark.parametrize("again", ["same", "other id, same provider id", "same id, other provider id"])
    async def test_a_turn_that_is_sent_twice_changes_nothing(self, store: Store, again: str) -> None:
        """Messages that are known by id or provider id make no second turn and no second message."""
        first = await settle(store, turn("c1", message("m1", provider_id="SM1")), at(1))
        before = await store.conversation("c1")
        repeated = {
            "same": message("m1", provider_id="SM1"),
            "other id, same provider id": message("m9", 5, provider_id="SM1", text="other"),
            "same id, other provider id": message("m1", 5, provider_id="SM2", text="other"),
        }[again]
        second = await settle(store, turn("c1", repeated), at(60))
        assert not second.new
        assert second.event.event_id == first.event.event_id
        assert await store.conversation("c1") == before
        assert await store.messages("c1") == (message("m1", provider_id="SM1"),)
        assert len(await store.turns("c1", limit=10)) == 1

    async def test_an_old_turn_that_is_sent_again_gets_its_own_event(self, store: Store) -> None:
        """F35: a caller that repeats a call is told the original event id, whatever was settled meanwhile."""
        first = await settle(store, turn("c1", message("m1", 1), message("m2", 1)), at(1))
        await settle_new(store, "c1", message("m3", 2), now=at(2))
        again = await settle(store, turn("c1", message("m1", 1)), at(3))
        assert not again.new
        assert again.event.event_id == first.event.event_id

    async def test_an_old_turn_that_is_sent_again_does_not_settle_what_was_saved_since(self, store: Store) -> None:
        """All of its messages are settled already, so it is not new, whatever else waits."""
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        await store.save_messages(meta("c1"), [message("m2", 2)], now=at(2))
        again = await settle(store, turn("c1", message("m1", 1)), at(3))
        assert not again.new
        found = await store.conversation("c1")
        assert found is not None
        assert found.settled_at == at(1)

    async def test_a_turn_with_one_new_message_is_new(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        await settle_new(store, "c1", message("m1", 1), message("m2", 2), now=at(3))
        assert [m.id for m in await store.messages("c1")] == ["m1", "m2"]

    async def test_the_same_message_twice_in_one_turn_is_one(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1), message("m1", 1), now=at(1))
        found = await store.conversation("c1")
        assert found is not None
        assert found.message_count == len(await store.messages("c1")) == 1

    async def test_message_ids_are_unique_in_their_conversation_only(self, store: Store) -> None:
        for conversation_id in ("c1", "c2"):
            await settle_new(store, conversation_id, message("m1", provider_id="SM1"), now=T0)
        assert len(await store.messages("c1")) == len(await store.messages("c2")) == 1

    async def test_a_turn_with_a_key_is_settled_once(self, store: Store) -> None:
        """Also where it brings no messages, and after other turns."""
        first = await settle(store, turn("c1", key="call-1"), at(1))
        other = await settle(store, turn("c1", key="call-2"), at(2))
        again = await settle(store, turn("c1", key="call-1"), at(3))
        assert (first.new, other.new, again.new) == (True, True, False)
        assert again.event.event_id == first.event.event_id
        assert len(await store.turns("c1", limit=10)) == 2

    async def test_keys_of_different_conversations_never_meet(self, store: Store) -> None:
        """Whatever characters ids and keys have, and whatever consumers claim."""
        await store.claim("turn", "a:b:c")
        for conversation_id, key in [("a:b", "c"), ("a", "b:c"), ("a%3Ab", "c"), ('a","b', "c"), ("a", 'b","c')]:
            settled = await settle(store, turn(conversation_id, key=key), T0)
            assert settled.new, (conversation_id, key)

    async def test_a_voice_call_is_saved_by_utterance_and_settled_at_its_end(self, store: Store) -> None:
        """A turn without messages settles what was saved before."""
        call = meta("v1", channel=Channel.VOICE)
        for second in range(3):
            await store.save_messages(call, [message(f"u{second}", second)], now=at(second))
        found = await store.conversation("v1")
        assert found is not None
        assert (found.settled_at, found.last_message_at, found.message_count) == (None, None, 3)
        await settle_new(store, "v1", channel=Channel.VOICE, now=at(9))
        found = await store.conversation("v1")
        assert found is not None
        assert (found.settled_at, found.last_message_at) == (at(9), at(2))
        (mark,) = await store.turns("v1", limit=10)
        assert mark.last_seq == 3

    async def test_occurred_at_is_the_turn_time_in_whole_milliseconds(self, store: Store) -> None:
        now = T0 + timedelta(microseconds=1_999)
        assert (await settle_new(store, "live", now=now)).event.occurred_at == floor_millis(now)
        assert (await settle_new(store, "old", at=at(-86400), now=now)).event.occurred_at == at(-86400)
        assert (await settle_new(store, "early", at=at(60), now=now)).event.occurred_at == floor_millis(now)

    async def test_occurred_at_is_monotonic_when_the_clock_is_not(self, store: Store) -> None:
        """Same millisecond, a clock that steps back, history that arrives late: each turn comes later than the last."""
        for now in (at(10), at(10), at(10) + timedelta(microseconds=300), at(4), at(-100), at(10.001), at(20)):
            await settle_new(store, "c1", now=now)
        await settle_new(store, "c1", at=at(-9999), now=at(30))
        times = [mark.occurred_at for mark in await store.turns("c1", limit=100)]
        assert all(earlier < later for earlier, later in pairwise(times))
        assert times[:3] == [at(10), at(10.001), at(10.002)]
        found = await store.conversation("c1")
        assert found is not None
        assert found.settled_at == times[-1]

    async def test_two_writers_race_on_one_conversation(self, factory: StoreFactory) -> None:
        """F29's race: every turn has its own place, and no message is lost or doubled."""
        async with factory.open() as one, factory.open() as two:
            settled = await asyncio.gather(
                *(
                    settle(store, turn("c1", message(f"m{number}", number), message("shared", 50)), T0)
                    for number in range(20)
                    for store in (one, two)
                )
            )
            new = [outcome.event.occurred_at for outcome in settled if outcome.new]
            assert len(new) == len(set(new)) == len(await one.turns("c1", limit=100)) == 20
            assert sorted(m.id for m in await one.messages("c1")) == sorted(
                ["shared", *(f"m{number}" for number in range(20))]
            )

    async def test_eight_writers_at_once_lose_nothing(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:

            async def write(writer: int) -> None:
                for number in range(10):
                    store = (one, two)[writer % 2]
                    await settle_new(store, f"c{number % 3}", message(f"w{writer}-{number}", number), now=T0)

            await asyncio.gather(*(write(writer) for writer in range(8)))
            counts = await one.counts()
            assert (counts["messages"], counts["turns"]) == (80, 80)
            for name in ("c0", "c1", "c2"):
                times = [mark.occurred_at for mark in await two.turns(name, limit=100)]
                assert times == sorted(set(times))

    async def test_recency_never_moves_back(self, store: Store) -> None:
        """F29: a late older message and a redelivery leave the conversation where it was."""
        await settle_new(store, "c1", message("m10", 600), now=at(601))
        await settle_new(store, "c1", message("m05", 300), now=at(700))
        await settle(store, turn("c1", message("m10", 600)), at(800))
        found = await store.conversation("c1")
        assert found is not None
        assert found.last_message_at == found.recency == at(600)
        assert [m.id for m in await store.messages("c1")] == ["m05", "m10"]

    async def test_a_redelivery_with_a_later_time_moves_nothing(self, store: Store) -> None:
        """Some providers stamp each delivery anew; beside a new message, too, the first delivery counts."""
        await settle_new(store, "c1", message("m1", 10), now=at(11))
        await store.save_messages(meta("c1"), [message("m1", 500)], now=at(501))
        await settle_new(store, "c1", message("m1", 600), message("m2", 20), now=at(700))
        found = await store.conversation("c1")
        assert found is not None
        assert found.last_message_at == at(20)
        assert [(m.id, m.at) for m in await store.messages("c1")] == [("m1", at(10)), ("m2", at(20))]

    async def test_a_sender_whose_clock_runs_ahead_is_not_pinned_to_the_top(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 3600), now=T0)
        found = await store.conversation("c1")
        assert found is not None
        assert found.recency == T0
        assert (await store.messages("c1"))[0].at == at(3600)

    async def test_a_turn_assigns_an_unassigned_conversation_and_never_moves_an_assigned_one(
        self, store: Store
    ) -> None:
        await settle_new(store, "c1", message("m1"), now=T0)
        await settle_new(store, "c1", message("m2"), property_id="p1", now=at(1))
        settled = await settle_new(store, "c1", message("m3"), property_id="p2", now=at(2))
        found = await store.conversation("c1")
        assert found is not None
        assert found.property_id == settled.event.property_id == "p1"
        await settle_new(store, "c1", message("m4"), now=at(3))
        found = await store.conversation("c1")
        assert found is not None
        assert found.property_id == "p1"

    async def test_participants_are_added_and_kept_in_order(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1"), participants=("a", "b"), now=T0)
        await settle_new(store, "c1", message("m2"), participants=("c", "a"), now=T0)
        await settle_new(store, "c1", message("m3"), now=T0)
        found = await store.conversation("c1")
        assert found is not None
        assert found.participants == ("a", "b", "c")
        await settle_new(store, "c1", participants=tuple(f"p{n}" for n in range(MAX_PARTICIPANTS)), now=T0)
        found = await store.conversation("c1")
        assert found is not None
        assert len(found.participants) == MAX_PARTICIPANTS
        assert found.participants[:3] == ("a", "b", "c")

    async def test_what_an_operator_set_is_not_undone_by_a_turn(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1"), now=T0)
        await store.save_conversation(meta("c1", status=Status.CLOSED, type="renewal", property_id="p9"), now=at(1))
        await settle_new(store, "c1", message("m2"), property_id="p1", now=at(2))
        found = await store.conversation("c1")
        assert found is not None
        assert (found.status, found.type, found.property_id) == (Status.CLOSED, "renewal", "p9")


class SavingContract:
    """What saving without settling promises."""

    async def test_saving_messages_moves_nothing_in_the_inbox(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        before = await store.conversation("c1")
        assert await store.save_messages(meta("c1", property_id="p9"), [message("m2", 50)], now=at(60)) == 1
        after = await store.conversation("c1")
        assert before is not None
        assert after is not None
        assert after == before.model_copy(update={"message_count": 2, "preview": preview_of(message("m2", 50))})
        assert [m.id for m in await store.messages("c1")] == ["m1", "m2"]

    async def test_everything_of_a_mail_comes_back_beside_its_text(self, store: Store) -> None:
        given = message("m1").model_copy(update={"whole": "text of m1\n> and what it quotes"})
        await store.save_messages(meta("c1"), [given], now=at(2))
        assert await store.messages("c1") == (given,)

    async def test_saved_messages_count_once_they_are_settled(self, store: Store) -> None:
        """The recency of a mid-turn message comes with the turn that settles it."""
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        assert await store.save_messages(meta("c1"), [message("m1", 1), message("m2", 50)], now=at(60)) == 1
        assert await store.save_messages(meta("c1"), [message("m2", 50)], now=at(61)) == 0
        await settle_new(store, "c1", message("m2", 50), message("m3", 40), now=at(70))
        found = await store.conversation("c1")
        assert found is not None
        assert (found.last_message_at, found.message_count) == (at(50), 3)

    async def test_saving_makes_an_unknown_conversation(self, store: Store) -> None:
        assert await store.save_messages(meta("c1", property_id="p1"), [message("m1", -50)], now=T0) == 1
        found = await store.conversation("c1")
        assert found is not None
        assert (found.property_id, found.created_at, found.settled_at) == ("p1", at(-50), None)

    async def test_saving_a_conversation_replaces_only_what_the_writer_owns(self, store: Store) -> None:
        """Attribute ownership: stamps, times and counts stay."""
        await settle_new(store, "c1", message("m1", 1), participants=("a",), now=at(1))
        before = await store.conversation("c1")
        assert before is not None
        changed = meta("c1", channel=Channel.WEB, property_id="p1", type="tour", participants=("b",), synthetic=True)
        saved = await store.save_conversation(changed, now=at(99))
        assert saved == await store.conversation("c1")
        for name in ("created_at", "last_message_at", "settled_at", "recorded_at", "message_count", "reactions"):
            assert getattr(saved, name) == getattr(before, name), name
        assert (saved.channel, saved.type, saved.participants) == (Channel.WEB, "tour", ("b",))
        assert saved.synthetic

    async def test_a_new_conversation_begins_when_it_is_told(self, store: Store) -> None:
        assert (await store.save_conversation(meta("c1", created_at=at(-5)), now=T0)).recency == at(-5)
        assert (await store.save_conversation(meta("c2"), now=T0)).recency == T0

    async def test_meta_is_what_the_writer_owns(self, store: Store) -> None:
        assert await store.meta("c1") is None
        given = meta("c1", property_id="p1", participants=("a",), created_at=T0, gauntlet=True)
        await store.save_conversation(given, now=T0)
        assert await store.meta("c1") == given

    async def test_everything_comes_back_as_it_was_given(self, store: Store) -> None:
        """F19: text outside ASCII, of every length; attachments; times to the microsecond; strange ids."""
        strange = "c#1:%7 🏠 é/\\'\""
        given = message(
            "m:1#",
            0.123456,
            text="😀 a\ufffdb\n\tالعربية",
            provider_id="<x@y>",
            attachments=(Attachment(url="https://h/1", media_type="image/png", name="é.png"), Attachment(url="u")),
        )
        empty, large = message("m2", 1, text=""), message("m3", 2, text="é" * 149_000)
        await settle_new(store, strange, given, empty, large, property_id="p 1", now=at(5))
        assert await store.messages(strange) == (given, empty, large)
        found = await store.conversation(strange)
        assert found is not None
        assert (found.id, found.property_id) == (strange, "p 1")

    async def test_reopening_keeps_all(self, factory: StoreFactory) -> None:
        async with factory.open() as store:
            await settle_new(store, "c1", message("m1", 1), property_id="p1", now=at(1))
            await store.claim("webhook", "k", {"n": 1})
            before = (await store.conversation("c1"), await store.messages("c1"), await store.turns("c1", limit=9))
        async with factory.open() as store:
            after = (await store.conversation("c1"), await store.messages("c1"), await store.turns("c1", limit=9))
            assert after == before
            assert not (await settle(store, turn("c1", message("m1", 1)), at(9))).new
            assert await store.claim("webhook", "k", {"n": 2}) == {"n": 1}
