"""Reads pages: one seek in the index, then on until the page is full, the window ends or the budget is spent."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from afterturn.clock import Clock
from afterturn.errors import InvalidQuery
from afterturn.inbox.cursor import Cursor, decode, encode
from afterturn.inbox.filters import consumers_named, row_filter
from afterturn.inbox.page import InboxPage, InboxRow, row_of
from afterturn.inbox.query import InboxQuery, property_ids
from afterturn.inbox.search import RecencyReader, start_search
from afterturn.model import Conversation
from afterturn.store.pagination import key_of
from afterturn.store.port import Range, RecencyKey, Registration, StoreReader
from afterturn.store.search import Searcher

_LARGEST_READ = 1_000


class Inbox:
    """The read side of the store, as operators ask it.

    ``searcher``: looks for words of messages, where the store can do that.
    ``registrations_kept``: how long a read of the registered consumers serves further pages; a store beyond a network
    takes a request for it.
    """

    def __init__(
        self,
        store: StoreReader,
        clock: Clock,
        *,
        searcher: Searcher | None = None,
        registrations_kept: timedelta = timedelta(0),
    ) -> None:
        self._store = store
        self._searcher = searcher
        self._clock = clock
        self._kept = registrations_kept
        self._known: tuple[datetime, Mapping[str, Registration]] | None = None

    async def page(self, query: InboxQuery, cursor: str | None = None) -> InboxPage:
        """One page. The same query with the page's ``next_cursor`` goes on below the last row that was returned.

        Raises InvalidCursor, and InvalidQuery for a consumer that is not registered, and for words where the store does
        not search them.
        """
        asked = consumers_named(query)
        registrations = await self.registrations(asked)
        for name in asked:
            if name not in registrations:
                raise InvalidQuery(f"no consumer {name!r} is registered (registered: {', '.join(registrations)})")
        fingerprint = query.fingerprint()
        start = None if cursor is None else decode(cursor, fingerprint)
        since, until = query.bounds(self._clock())
        if start is not None:
            since = start.since
        words = await start_search(query.words, self._searcher, budget=query.budget) if query.words else None
        if query.words and words is None:
            return InboxPage((), None, complete=True, scanned=0)
        store = self._store if words is None else words.reader(self._store)
        reader = _MergedRanges(store, _ranges(query, since, until), start.after if start else None)
        passes = row_filter(query)
        rows: list[InboxRow] = []
        scanned = 0
        last: Conversation | None = None
        unseen = 0
        while (
            len(rows) < query.limit
            and scanned < query.budget
            and not unseen
            and not (words and words.messages_left <= 0)
        ):
            wanted = read_size(query.limit - len(rows), scanned, len(rows), query.budget - scanned)
            batch = await reader.read(wanted)
            passed = {one.id: row for one in batch if passes(row := row_of(one, registrations))}
            unread: Collection[str] = ()
            if words is not None and passed:
                unread = await words.search(list(passed))
                passed = {name: replace(row, hit=words.hits.get(name)) for name, row in passed.items()}
            for place, conversation in enumerate(batch):
                if len(rows) == query.limit or conversation.id in unread:
                    unseen = len(batch) - place
                    break
                scanned += 1
                last = conversation
                found = passed.get(conversation.id)
                if found is not None and (words is None or found.hit is not None):
                    rows.append(found)
            if len(batch) < wanted and not unseen:
                return InboxPage(tuple(rows), None, complete=True, scanned=scanned)
        # The place is that of the last row looked at: rows between it and the last one returned did not match.
        assert last is not None
        more = unseen > 0 or len(rows) < query.limit or bool(await reader.read(1))
        next_cursor = encode(Cursor(key_of(last), since), fingerprint) if more else None
        return InboxPage(tuple(rows), next_cursor, complete=len(rows) == query.limit, scanned=scanned)

    async def row(self, conversation_id: str) -> InboxRow | None:
        """One conversation as the inbox would show it."""
        conversation = await self._store.conversation(conversation_id)
        return None if conversation is None else row_of(conversation, await self.registrations())

    async def registrations(self, asked: Collection[str] = ()) -> Mapping[str, Registration]:
        """Those that were kept, as long as they have every name that is asked for: else it may be a new one."""
        now = self._clock()
        if self._known is not None:
            at, known = self._known
            if timedelta(0) <= now - at < self._kept and known.keys() >= set(asked):
                return known
        found = await self._store.registrations()
        self._known = now, found
        return found


def read_size(missing: int, scanned: int, passed: int, budget: int) -> int:
    """How many rows to read next, from the share that passed so far: enough to fill the page, not far past it."""
    if scanned == 0:
        wanted = missing
    elif passed == 0:
        wanted = max(missing, scanned * 2)
    else:
        wanted = -(-missing * scanned // passed)
    return max(1, min(wanted, budget, _LARGEST_READ))


def _ranges(query: InboxQuery, since: datetime | None, until: datetime | None) -> list[Range]:
    if not query.properties:
        return [Range(since, until)]
    return [Range(since, until, of_property=True, property_id=one) for one in property_ids(query)]


@dataclass(slots=True)
class _RangeCursor:
    """A part of the index, the rows of it that were read and not handed out yet, and where to read on."""

    part: Range
    before: RecencyKey | None
    rows: deque[Conversation] = field(default_factory=deque)
    exhausted: bool = False

    async def fill(self, store: RecencyReader, limit: int) -> None:
        if self.rows or self.exhausted:
            return
        found = await store.recency(self.part, before=self.before, limit=limit)
        self.rows.extend(found.rows)
        self.exhausted = found.exhausted
        if found.rows:
            self.before = key_of(found.rows[-1])


class _MergedRanges:
    """Several parts of the index as one, newest first, each read no further than is needed."""

    def __init__(self, store: RecencyReader, parts: Sequence[Range], before: RecencyKey | None) -> None:
        self._store = store
        self._parts = [_RangeCursor(part, before) for part in parts]
        self._seen: set[str] = set()

    async def read(self, limit: int) -> list[Conversation]:
        """The next rows; fewer than ``limit`` only at the end.

        A row that moves from one part to another between two reads is met twice, and given once.
        """
        share = -(-limit // len(self._parts)) + 1  # one row more says whether there is a next page, without a request
        rows: list[Conversation] = []
        while len(rows) < limit:
            for part in self._parts:
                while not part.rows and not part.exhausted:
                    await part.fill(self._store, share)
            heads = [part for part in self._parts if part.rows]
            if not heads:
                break
            head = heads[0] if len(heads) == 1 else max(heads, key=lambda part: key_of(part.rows[0]))
            newest = head.rows.popleft()
            if newest.id not in self._seen:
                self._seen.add(newest.id)
                rows.append(newest)
        return rows
