"""History into a store: conversations side by side, the turns of each in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from afterturn.backbone import Backbone
from afterturn.channels.threads import merged_into
from afterturn.clock import MILLISECOND, floor_millis
from afterturn.errors import InvalidInput, InvalidRecord
from afterturn.importers.records import BadRecord, ImportedConversation
from afterturn.model import Channel, Turn

IN_FLIGHT = 32
"""Conversations at a time: their turns share the store's commits."""

_READ_AHEAD = 16

Found = ImportedConversation | BadRecord


@dataclass(slots=True)
class ImportCounts:
    """What was found, and how much of it was new."""

    conversations: int = 0
    new_conversations: int = 0
    turns: int = 0
    new_turns: int = 0
    messages: int = 0
    new_messages: int = 0
    bad: list[BadRecord] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        def pair(found: int, new: int) -> dict[str, int]:
            return {"found": found, "new": new, "known": found - new}

        return {
            "conversations": pair(self.conversations, self.new_conversations),
            "turns": pair(self.turns, self.new_turns),
            "messages": pair(self.messages, self.new_messages),
            "bad": [{"place": one.location, "problem": one.problem} for one in self.bad],
        }


class Loader:
    """Settles what a reader finds. What it has counted stands in ``tally``, also after an error."""

    def __init__(self, backbone: Backbone, on_bad: Callable[[BadRecord], None]) -> None:
        self.counts = ImportCounts()
        self._backbone = backbone
        self._on_bad = on_bad
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._busy: dict[str, asyncio.Task[None]] = {}

    async def load(self, found: Iterator[Found], stop: asyncio.Event) -> None:
        """Everything up to the end, or up to the turns that are under way when ``stop`` is set.

        Raises InvalidInput where the file cannot be read on, and StoreError; turns are settled whole or not at all.
        """
        more, problem = True, None
        async with asyncio.TaskGroup() as group:
            while more and not stop.is_set():
                # In a thread, because a reader may go through a whole mailbox before it yields.
                batch, more, problem = await asyncio.to_thread(_take, found)
                for one in batch:
                    if stop.is_set():
                        break
                    if isinstance(one, BadRecord):
                        self._bad(one)
                    else:
                        await self._start(group, one, stop)
                if problem is not None:
                    break
        if problem is not None:
            raise problem

    async def _start(self, group: asyncio.TaskGroup, one: ImportedConversation, stop: asyncio.Event) -> None:
        one = await self._at_home(one)
        if earlier := self._busy.get(one.meta.id):
            await asyncio.wait([earlier])
        await self._slots.acquire()
        task = group.create_task(self._settle(one, stop))
        self._busy[one.meta.id] = task
        task.add_done_callback(lambda done: self._done(one.meta.id, done))

    async def _at_home(self, one: ImportedConversation) -> ImportedConversation:
        """A Telegram group that has moved goes where what comes in of it goes by now."""
        if one.meta.channel is not Channel.TELEGRAM:
            return one
        home = await merged_into(self._backbone.store, one.meta.id)
        if home == one.meta.id:
            return one
        meta = one.meta.model_copy(update={"id": home})
        return replace(one, meta=meta, turns=tuple(t.model_copy(update={"conversation": meta}) for t in one.turns))

    def _done(self, conversation_id: str, task: asyncio.Task[None]) -> None:
        self._slots.release()
        if self._busy.get(conversation_id) is task:
            del self._busy[conversation_id]

    async def _settle(self, one: ImportedConversation, stop: asyncio.Event) -> None:
        if stop.is_set():
            return
        store = self._backbone.store
        before = await store.conversation(one.meta.id)
        if before is None and not one.turns:
            await self._backbone.save_conversation(one.meta)
        tally = self.counts
        tally.conversations += 1
        tally.new_conversations += before is None
        settled = 0
        for number, turn in enumerate(one.turns, 1):
            if stop.is_set():
                break
            try:
                new = not await self._is_known(turn) and (await self._backbone.settle(turn)).new
            except InvalidRecord as error:
                self._bad(BadRecord(f"{one.location}, turn {number}", str(error)))
                continue
            tally.turns += 1
            tally.new_turns += new
            tally.messages += len(turn.messages)
            if new:
                settled += len(turn.messages)
                tally.new_messages += len(turn.messages)
        if settled and (after := await store.conversation(one.meta.id)):
            # A new turn can bring messages that are known, so what really came in is told by the count.
            tally.new_messages += after.message_count - (before.message_count if before else 0) - settled

    async def _is_known(self, turn: Turn) -> bool:
        """Whether a turn without messages, out of an export of this very store, stands here under another key."""
        if turn.messages or turn.at is None:
            return False
        at = floor_millis(turn.at)
        found = await self._backbone.store.turns(turn.conversation.id, after=at - MILLISECOND, limit=1)
        return bool(found) and found[0].occurred_at - at < timedelta(milliseconds=1)

    def _bad(self, record: BadRecord) -> None:
        self.counts.bad.append(record)
        self._on_bad(record)


def first(found: Iterator[Found], limit: int | None) -> Iterator[Found]:
    """Up to so many conversations, and the bad records among them; everything where there is no limit."""
    if limit is None:
        yield from found
        return
    conversations = 0
    for one in found:
        yield one
        conversations += isinstance(one, ImportedConversation)
        if conversations == limit:
            return


def _take(found: Iterator[Found]) -> tuple[list[Found], bool, InvalidInput | None]:
    """The next few, whether there may be more, and what made the reader stop."""
    batch: list[Found] = []
    try:
        for one in found:
            batch.append(one)
            if len(batch) == _READ_AHEAD:
                return batch, True, None
    except InvalidInput as error:
        return batch, False, error
    return batch, False, None
