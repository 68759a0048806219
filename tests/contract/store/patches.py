"""What people change of a conversation: status, property, assignee; and what becomes of it with the next turns."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.contract.samples import T0, at, message, meta, turn
from tests.contract.store.factory import StoreFactory, settle, settle_new
from tests.contract.store.jobs import ONE_STORE

from afterturn.errors import Conflict, InvalidInput, NotFound
from afterturn.model import Conversation, ConversationPatch, Direction, Role, Stamp, Status, StoredStamp
from afterturn.store.pagination import of_property
from afterturn.store.port import Range, Store

NAMES = count()


async def patch(store: Store, conversation_id: str = "c1", revision: int | None = None, **changes: Any) -> Conversation:
    return await store.patch_conversation(conversation_id, ConversationPatch(**changes), revision=revision, now=at(500))


async def found(store: Store, conversation_id: str = "c1") -> Conversation:
    conversation = await store.conversation(conversation_id)
    assert conversation is not None
    return conversation


def reply(message_id: str, second: float = 0) -> Any:
    return message(message_id, second, direction=Direction.OUTBOUND, role=Role.AGENT)


async def listed(store: Store, property_id: str | None) -> list[str]:
    return [one.id async for one in of_property(store, property_id)]


class PatchContract:
    """What a patch promises."""

    async def test_a_patch_changes_what_it_names_and_nothing_else(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1), property_id="p1", participants=("a",), type="tour", now=at(1))
        await store.stamp("c1", "topics", Stamp(data={"n": 1}), through=at(1), now=at(2))
        before = await found(store)
        assert (before.assignee, before.revision) == (None, 0)
        assigned = await patch(store, assignee="sam")
        assert assigned == before.model_copy(update={"assignee": "sam", "revision": 1})
        moved = await patch(store, property_id="p2", status="closed")
        assert moved == assigned.model_copy(update={"property_id": "p2", "status": Status.CLOSED, "revision": 2})
        nobody = await patch(store, assignee=None, property_id=None, status="open")
        assert nobody == before.model_copy(update={"property_id": None, "revision": 3})
        assert await found(store) == nobody
        assert await store.messages("c1") == (message("m1", 1),)

    async def test_a_change_that_is_based_on_another_revision_is_refused(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1"), now=T0)
        assert (await patch(store, assignee="sam", revision=0)).revision == 1
        for stale in (0, 2):
            with pytest.raises(Conflict, match="revision 1, not"):
                await patch(store, assignee="kim", status="closed", revision=stale)
        kept = await found(store)
        assert (kept.assignee, kept.status, kept.revision) == ("sam", Status.OPEN, 1)
        assert (await patch(store, assignee="kim", revision=1)).assignee == "kim"
        assert (await patch(store, assignee="lee")).revision == 3

    async def test_one_of_many_that_change_the_same_revision_wins(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            await settle_new(one, "c1", message("m1"), now=T0)
            outcomes = await asyncio.gather(
                *(patch((one, two)[n % 2], assignee=f"p{n}", revision=0) for n in range(8)), return_exceptions=True
            )
            won = [outcome for outcome in outcomes if isinstance(outcome, Conversation)]
            assert [type(outcome) for outcome in outcomes if outcome not in won] == [Conflict] * 7
            assert await found(two) == won[0]

    async def test_patch_of_different_things_at_once_are_all_made(self, factory: StoreFactory) -> None:
        """Beside turns that settle, on whose number they do not depend."""
        async with factory.open() as one, factory.open() as two:
            await settle_new(one, "c1", message("m0"), now=T0)
            await asyncio.gather(
                patch(one, assignee="sam"),
                patch(two, property_id="p1"),
                patch(one, status="closed"),
                *(settle((one, two)[n % 2], turn("c1", reply(f"r{n}", n)), at(n)) for n in range(1, 5)),
            )
            made = await found(two)
            assert (made.assignee, made.property_id, made.status, made.revision) == ("sam", "p1", Status.CLOSED, 3)
            assert (made.message_count, len(await one.turns("c1", limit=9))) == (5, 5)

    async def test_settling_and_stamping_raise_no_revision(self, store: Store) -> None:
        """So a person who reads while turns settle can still write."""
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        await patch(store, assignee="sam")
        await settle_new(store, "c1", message("m2", 2), now=at(2))
        await store.save_messages(meta("c1"), [message("m3", 3)], now=at(3))
        await store.save_conversation(meta("c1", type="tour"), now=at(4))
        await store.stamp("c1", "topics", Stamp(), through=at(2), now=at(4))
        kept = await found(store)
        assert (kept.revision, kept.assignee, kept.type) == (1, "sam", "tour")
        assert kept.reactions == {"topics": StoredStamp(through=at(2), at=at(4))}
        assert (await patch(store, assignee="kim", revision=1)).revision == 2

    async def test_what_is_not_there_is_not_patched(self, store: Store) -> None:
        for unknown in ("c9", "x" * 300, ""):
            with pytest.raises(NotFound):
                await patch(store, unknown, assignee="sam")
        with pytest.raises(NotFound):
            await patch(store, "c9", assignee="sam", revision=4)
        with pytest.raises(InvalidInput):
            await patch(store, "\ud83d", assignee="sam")
        assert await store.conversation("c9") is None

    async def test_a_turn_does_not_move_what_somebody_has_assigned_or_unassigned(self, store: Store) -> None:
        """Also where the property was taken away: the channel would bring it back with each turn."""
        await settle_new(store, "c1", message("m1", 1), property_id="p1", now=at(1))
        await patch(store, property_id=None)
        settled = await settle_new(store, "c1", message("m2", 2), property_id="p1", now=at(2))
        assert settled.event.property_id == "UNASSIGNED"
        assert (await found(store)).property_id is None
        await patch(store, property_id="p2")
        settled = await settle_new(store, "c1", message("m3", 3), property_id="p1", now=at(3))
        assert settled.event.property_id == "p2"
        await patch(store, assignee="sam")
        await settle_new(store, "c2", message("m1", 1), now=at(1))
        await patch(store, "c2", assignee="sam")
        await settle_new(store, "c2", message("m2", 2), property_id="p1", now=at(2))
        assert (await found(store, "c2")).property_id == "p1"

    async def test_an_inbound_message_reopens_what_was_closed(self, store: Store) -> None:
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        await patch(store, status="closed")
        await settle_new(store, "c1", reply("r1", 2), now=at(2))
        await settle_new(store, "c1", now=at(3))
        assert not (await settle(store, turn("c1", message("m1", 1)), at(4))).new
        assert (await found(store)).status is Status.CLOSED
        await settle_new(store, "c1", message("m2", -999), now=at(5))
        opened = await found(store)
        assert (opened.status, opened.revision) == (Status.OPEN, 1)
        await patch(store, status="closed")
        await settle_new(store, "c1", reply("r2", 6), now=at(6))
        assert (await found(store)).status is Status.CLOSED

    async def test_a_message_that_was_saved_before_reopens_with_its_turn(self, store: Store) -> None:
        """Saved after the closing, that is: what was there then was seen."""
        await settle_new(store, "c1", message("m1", 1), now=at(1))
        await store.save_messages(meta("c1"), [message("m2", 2)], now=at(2))
        await patch(store, status="closed")
        await settle_new(store, "c1", reply("r1", 3), now=at(3))
        assert (await found(store)).status is Status.CLOSED
        await store.save_messages(meta("c1"), [message("m3", 4), reply("r2", 5)], now=at(5))
        assert (await found(store)).status is Status.CLOSED
        await settle_new(store, "c1", message("m3", 4), reply("r3", 6), now=at(6))
        assert (await found(store)).status is Status.OPEN

    async def test_what_the_writer_closes_is_not_reopened_by_turns(self, store: Store) -> None:
        """An import brings closed conversations turn by turn; the writer's word also ends a patch."""
        await settle_new(store, "c1", message("m1", 1), status=Status.CLOSED, now=at(1))
        await settle_new(store, "c1", message("m2", 2), status=Status.CLOSED, now=at(2))
        assert (await found(store)).status is Status.CLOSED
        await patch(store, status="closed", property_id=None)
        await store.save_conversation(meta("c1", status=Status.CLOSED), now=at(3))
        await settle_new(store, "c1", message("m3", 3), property_id="p1", now=at(3))
        assert ((await found(store)).status, (await found(store)).property_id) == (Status.CLOSED, "p1")

    async def test_patch_outlive_the_process(self, factory: StoreFactory) -> None:
        async with factory.open() as store:
            await settle_new(store, "c1", message("m1", 1), property_id="p1", now=at(1))
            before = await patch(store, property_id=None, status="closed", assignee="sam")
        async with factory.open() as store:
            assert await found(store) == before
            await settle_new(store, "c1", message("m2", 2), property_id="p1", now=at(2))
            assert ((await found(store)).status, (await found(store)).property_id) == (Status.OPEN, None)

    @pytest.mark.parametrize("changes", [{}, {"property_id": "UNASSIGNED"}, {"status": None}, {"assignee": ""}])
    def test_a_patch_that_makes_no_sense_cannot_be_made(self, changes: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            ConversationPatch(**changes)

    @settings(max_examples=12, suppress_health_check=[*ONE_STORE, HealthCheck.too_slow])
    @given(data=st.data())
    async def test_in_any_order_turns_and_people_get_what_each_decides(self, store: Store, data: st.DataObject) -> None:
        model = Model(store, f"o{next(NAMES)}")
        await model.begin()
        for step in data.draw(st.lists(STEPS, min_size=4, max_size=20)):
            await model.do(*step)


class PatchedIndexContract:
    """Where a patched conversation stands in lists."""

    async def test_a_conversation_shows_under_the_property_it_belongs_to_now(self, store: Store) -> None:
        """Re-attribution: it leaves one list and joins the other at its own time; in the inbox of all it stays put."""
        for name, second, owner in (("c1", 10, "p1"), ("c2", 20, "p2"), ("c3", 30, None), ("c4", 40, "p1")):
            await settle_new(store, name, message("m", second), property_id=owner, now=at(60))
        whole = [one.id for one in (await store.recency(Range(), limit=9)).rows]
        await patch(store, "c3", property_id="p1")
        await patch(store, "c1", property_id=None)
        await patch(store, "c2", property_id="p1")
        await patch(store, "c2", status="closed")
        assert await listed(store, "p1") == ["c4", "c3", "c2"]
        assert await listed(store, "p2") == []
        assert await listed(store, None) == ["c1"]
        rows = (await store.recency(Range(), limit=9)).rows
        assert [one.id for one in rows] == whole
        assert list(rows) == [await found(store, name) for name in whole]
        await settle_new(store, "c2", message("m9", 90), now=at(90))
        assert await listed(store, "p1") == ["c2", "c4", "c3"]

    async def test_what_has_no_turn_yet_moves_too(self, store: Store) -> None:
        await store.save_conversation(meta("c1", created_at=at(1)), now=at(9))
        await store.save_messages(meta("c2"), [message("m1", 2)], now=at(9))
        await patch(store, "c1", property_id="p1")
        await patch(store, "c2", property_id="p1")
        assert await listed(store, "p1") == ["c2", "c1"]
        assert await listed(store, None) == []


OWNERS = st.sampled_from([None, "p1", "p2"])
STEPS = st.one_of(
    st.tuples(st.just("settle"), st.sampled_from(["inbound", "outbound", "none"]), OWNERS),
    st.tuples(st.just("settle"), st.sampled_from(["inbound", "outbound", "none"]), OWNERS),
    st.tuples(st.just("save"), st.sampled_from(["inbound", "outbound"]), st.none()),
    st.tuples(st.just("status"), st.sampled_from(list(Status)), st.none()),
    st.tuples(st.just("property"), OWNERS, st.none()),
    st.tuples(st.just("writer"), st.sampled_from(list(Status)), OWNERS),
)


@dataclass
class Model:
    """One conversation as it should be."""

    store: Store
    name: str
    second: int = 1
    owner: str | None = None
    is_pinned: bool = False
    status: Status = Status.OPEN
    is_closed_by_somebody: bool = False
    has_unseen: bool = False
    revision: int = 0

    async def begin(self) -> None:
        await self.store.save_conversation(meta(self.name), now=T0)

    async def do(self, verb: str, first: Any, second: Any) -> None:
        self.second += 1
        await getattr(self, f"do_{verb}")(first, second)
        stored = await found(self.store, self.name)
        assert (stored.status, stored.property_id, stored.revision) == (self.status, self.owner, self.revision)
        assert self.name in await listed(self.store, self.owner)

    async def do_settle(self, kind: str, owner: str | None) -> None:
        given = () if kind == "none" else (self._message(kind),)
        await settle_new(self.store, self.name, *given, property_id=owner, now=at(self.second))
        if self.owner is None and not self.is_pinned:
            self.owner = owner
        if self.is_closed_by_somebody and self.has_unseen:
            self.status, self.is_closed_by_somebody = Status.OPEN, False

    async def do_save(self, kind: str, _: None) -> None:
        await self.store.save_messages(meta(self.name), [self._message(kind)], now=at(self.second))

    async def do_status(self, status: Status, _: None) -> None:
        await patch(self.store, self.name, status=status, revision=self.revision)
        self.status, self.revision = status, self.revision + 1
        self.is_closed_by_somebody, self.has_unseen = status is Status.CLOSED, False

    async def do_property(self, owner: str | None, _: None) -> None:
        await patch(self.store, self.name, property_id=owner)
        self.owner, self.is_pinned, self.revision = owner, True, self.revision + 1

    async def do_writer(self, status: Status, owner: str | None) -> None:
        await self.store.save_conversation(meta(self.name, status=status, property_id=owner), now=at(self.second))
        self.status, self.owner = status, owner
        self.is_pinned = self.is_closed_by_somebody = False

    def _message(self, kind: str) -> Any:
        if kind == "inbound":
            self.has_unseen = True
        return (message if kind == "inbound" else reply)(f"m{self.second}", self.second)
