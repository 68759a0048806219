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
        def pair(total: int, new: int) -> dict[str, int]:
            return {"found": total, "new": new, "known": total - new}

        return {
            "conversations": pair(self.conversations, self.new_conversations),
            "turns": pair(self.turns, self.new_turns),
            "messages": pair(self.messages, self.new_messages),
            "bad": [{"place": record.location, "problem": record.problem} for record in self.bad],
        }


class Loader:
    """Settles what a reader finds. What it has counted stands in ``tally``, also after an error."""

    def __init__(self, backbone: Backbone, on_bad: Callable[[BadRecord], None]) -> None:
        self.counts = ImportCounts()
        self._backbone = backbone
        self._on_bad = on_bad
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._busy: dict[str, asyncio.Task[None]] = {}

    async def load(self, records: Iterator[Found], stop: asyncio.Event) -> None:
        """Everything up to the end, or up to the turns that are under way when ``stop`` is set.

        Raises InvalidInput where the file cannot be read on, and StoreError; turns are settled whole or not at all.
        """
        more, problem = True, None
        async with asyncio.TaskGroup() as group:
            while more and not stop.is_set():
                # In a thread, because a reader may go through a whole mailbox before it yields.
                batch, more, problem = await asyncio.to_thread(_next_batch, records)
                for record in batch:
                    if stop.is_set():
                        break
                    if isinstance(record, BadRecord):
                        self._bad(record)
                    else:
                        await self._start(group, record, stop)
                if problem is not None:
                    break
        if problem is not None:
            raise problem

    async def _start(self, group: asyncio.TaskGroup, record: ImportedConversation, stop: asyncio.Event) -> None:
        record = await self._at_home(record)
        if earlier := self._busy.get(record.meta.id):
            await asyncio.wait([earlier])
        await self._slots.acquire()
        task = group.create_task(self._settle(record, stop))
        self._busy[record.meta.id] = task
        task.add_done_callback(lambda done: self._done(record.meta.id, done))

    async def _at_home(self, record: ImportedConversation) -> ImportedConversation:
        """A Telegram group that has moved goes where what comes in of it goes by now."""
        if record.meta.channel is not Channel.TELEGRAM:
            return record
        home = await merged_into(self._backbone.store, record.meta.id)
        if home == record.meta.id:
            return record
        meta = record.meta.model_copy(update={"id": home})
        return replace(
            record, meta=meta, turns=tuple(t.model_copy(update={"conversation": meta}) for t in record.turns)
        )

    def _done(self, conversation_id: str, task: asyncio.Task[None]) -> None:
        self._slots.release()
        if self._busy.get(conversation_id) is task:
            del self._busy[conversation_id]

    async def _settle(self, record: ImportedConversation, stop: asyncio.Event) -> None:
        if stop.is_set():
            return
        store = self._backbone.store
        before = await store.conversation(record.meta.id)
        if before is None and not record.turns:
            await self._backbone.save_conversation(record.meta)
        tally = self.counts
        tally.conversations += 1
        tally.new_conversations += before is None
        settled = 0
        for number, turn in enumerate(record.turns, 1):
            if stop.is_set():
                break
            try:
                new = not await self._is_known(turn) and (await self._backbone.settle(turn)).new
            except InvalidRecord as error:
                self._bad(BadRecord(f"{record.location}, turn {number}", str(error)))
                continue
            tally.turns += 1
            tally.new_turns += new
            tally.messages += len(turn.messages)
            if new:
                settled += len(turn.messages)
                tally.new_messages += len(turn.messages)
        if settled and (after := await store.conversation(record.meta.id)):
            # A new turn can bring messages that are known, so what really came in is told by the count.
            tally.new_messages += after.message_count - (before.message_count if before else 0) - settled

    async def _is_known(self, turn: Turn) -> bool:
        """Whether a turn without messages, out of an export of this very store, stands here under another key."""
        if turn.messages or turn.at is None:
            return False
        at = floor_millis(turn.at)
        turns = await self._backbone.store.turns(turn.conversation.id, after=at - MILLISECOND, limit=1)
        return bool(turns) and turns[0].occurred_at - at < timedelta(milliseconds=1)

    def _bad(self, record: BadRecord) -> None:
        self.counts.bad.append(record)
        self._on_bad(record)


def first(records: Iterator[Found], limit: int | None) -> Iterator[Found]:
    """Up to so many conversations, and the bad records among them; everything where there is no limit."""
    if limit is None:
        yield from records
        return
    conversations = 0
    for record in records:
        yield record
        conversations += isinstance(record, ImportedConversation)
        if conversations == limit:
            return


def _next_batch(records: Iterator[Found]) -> tuple[list[Found], bool, InvalidInput | None]:
    """The next few, whether there may be more, and what made the reader stop."""
    batch: list[Found] = []
    try:
        for record in records:
            batch.append(record)
            if len(batch) == _READ_AHEAD:
                return batch, True, None
    except InvalidInput as error:
        return batch, False, error
    return batch, False, None
