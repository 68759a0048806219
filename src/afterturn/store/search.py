"""The interface of a store with full-text search; not every store has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterturn.model import Message
from afterturn.store.port import Range, RecencyKey, Slice
from afterturn.store.tokenizer import SearchTerms

Candidates = Mapping[str, tuple[int, ...] | None]
"""Conversations, and the arrival numbers of the messages to read; None: all messages."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The last matching message of each conversation.

    ``unread``: conversations that were not read because the limit was reached. ``messages_read``: long messages count
    more than once.
    """

    matches: Mapping[str, Message]
    unread: frozenset[str]
    messages_read: int


class Searcher(Protocol):
    """Full-text search over messages. Results are exact even if the index lags: messages are compared."""

    async def catch_up(self, *, limit: int) -> bool:
        """Index at most about ``limit`` messages. Returns whether there are more."""
        ...

    async def candidates(self, terms: SearchTerms) -> Candidates | None:
        """The only conversations that can match; None if there are too many to list."""
        ...

    async def recency_of(
        self, part: Range, ids: Sequence[str], *, before: RecencyKey | None = None, limit: int
    ) -> Slice:
        """As ``StoreReader.recency``, but only these conversations."""
        ...

    async def by_property(self, ids: Sequence[str]) -> Mapping[str | None, tuple[str, ...]]:
        """These conversations by property; None: unassigned."""
        ...

    async def search(self, candidates: Candidates, terms: SearchTerms, *, limit: int) -> SearchResult:
        """Compare the messages of these conversations, in this order.

        After ``limit`` messages no further conversation is started; the first one always is.
        """
        ...
