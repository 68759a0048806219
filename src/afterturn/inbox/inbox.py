"""Reads pages of the inbox: rows of the index in order until the page is full, the range or the budget ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from afterturn.clock import Clock
from afterturn.errors import InvalidQuery
from afterturn.inbox.cursor import Cursor, decode, encode
from afterturn.inbox.filters import InboxQuery, consumers_named, property_ids, row_filter
from afterturn.inbox.page import InboxPage, InboxRow, row_of
from afterturn.inbox.search import RecencyReader, start_search
from afterturn.model import Conversation
from afterturn.store.pagination import key_of
from afterturn.store.port import Range, RecencyKey, Registration, StoreReader
from afterturn.store.search import Searcher

_LARGEST_READ = 1_000


class Inbox:
    """Pages and rows of the inbox.

    ``searcher``: full-text search, if the store has it. ``registrations_kept``: how long the registered consumers are
    cached; reading them takes a request on a remote store.
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
        """One page. The same query with the page's ``next_cursor`` continues after its last row.

        Raises InvalidCursor, and InvalidQuery for an unregistered consumer, or for words if the store has no search.
        """
        names = consumers_named(query)
        registrations = await self.registrations(names)
        for name in names:
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
            batch_size = read_size(query.limit - len(rows), scanned, len(rows), query.budget - scanned)
            batch = await reader.read(batch_size)
            passed = {candidate.id: row for candidate in batch if passes(row := row_of(candidate, registrations))}
            unread: Collection[str] = ()
            if words is not None and passed:
                unread = await words.search(list(passed))
                passed = {name: replace(row, hit=words.hits.get(name)) for name, row in passed.items()}
            for index, conversation in enumerate(batch):
                if len(rows) == query.limit or conversation.id in unread:
                    unseen = len(batch) - index
                    break
                scanned += 1
                last = conversation
                matching = passed.get(conversation.id)
                if matching is not None and (words is None or matching.hit is not None):
                    rows.append(matching)
            if len(batch) < batch_size and not unseen:
                return InboxPage(tuple(rows), None, complete=True, scanned=scanned)
        # The cursor is the last row read: rows between it and the last returned row did not match.
        assert last is not None
        more = unseen > 0 or len(rows) < query.limit or bool(await reader.read(1))
        next_cursor = encode(Cursor(key_of(last), since), fingerprint) if more else None
        return InboxPage(tuple(rows), next_cursor, complete=len(rows) == query.limit, scanned=scanned)

    async def row(self, conversation_id: str) -> InboxRow | None:
        """One conversation as the inbox shows it."""
        conversation = await self._store.conversation(conversation_id)
        return None if conversation is None else row_of(conversation, await self.registrations())

    async def registrations(self, names: Collection[str] = ()) -> Mapping[str, Registration]:
        """The cached registrations, read again if they are too old or lack a name that was just registered."""
        now = self._clock()
        if self._known is not None:
            at, known = self._known
            if timedelta(0) <= now - at < self._kept and known.keys() >= set(names):
                return known
        stored = await self._store.registrations()
        self._known = now, stored
        return stored


def read_size(missing: int, scanned: int, passed: int, budget: int) -> int:
    """How many rows to read next: enough to fill the page, judged by the share that matched so far."""
    if scanned == 0:
        size = missing
    elif passed == 0:
        size = max(missing, scanned * 2)
    else:
        size = -(-missing * scanned // passed)
    return max(1, min(size, budget, _LARGEST_READ))


def _ranges(query: InboxQuery, since: datetime | None, until: datetime | None) -> list[Range]:
    if not query.properties:
        return [Range(since, until)]
    return [Range(since, until, of_property=True, property_id=property_id) for property_id in property_ids(query)]


@dataclass(slots=True)
class _RangeCursor:
    """A range, its rows that were read and not returned yet, and where to continue."""

    part: Range
    before: RecencyKey | None
    rows: deque[Conversation] = field(default_factory=deque)
    exhausted: bool = False

    async def fill(self, store: RecencyReader, limit: int) -> None:
        if self.rows or self.exhausted:
            return
        page = await store.recency(self.part, before=self.before, limit=limit)
        self.rows.extend(page.rows)
        self.exhausted = page.exhausted
        if page.rows:
            self.before = key_of(page.rows[-1])


class _MergedRanges:
    """Several ranges merged, newest first; each is read only as far as needed."""

    def __init__(self, store: RecencyReader, parts: Sequence[Range], before: RecencyKey | None) -> None:
        self._store = store
        self._parts = [_RangeCursor(part, before) for part in parts]
        self._seen: set[str] = set()

    async def read(self, limit: int) -> list[Conversation]:
        """The next rows; fewer than ``limit`` only at the end.

        A row that moves from one range to another between two reads is returned once.
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
