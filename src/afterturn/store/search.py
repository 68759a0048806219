"""What the inbox asks of a store that can look for the words of messages; not every store can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterturn.model import Message
from afterturn.store.port import Range, RecencyKey, Slice
from afterturn.store.tokenizer import SearchTerms

Candidates = Mapping[str, tuple[int, ...] | None]
"""Conversations, and the arrival numbers of the messages to look at; None: any of them."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a look into messages found: in each conversation the message with the words that arrived last.

    ``unread``: conversations that were not looked at any more; ``read``: messages that were; a long one counts more.
    """

    matches: Mapping[str, Message]
    unread: frozenset[str]
    messages_read: int


class Searcher(Protocol):
    """Looks for words. What it finds is what the messages say, however far its index has come."""

    async def catch_up(self, *, limit: int) -> bool:
        """Take at most about ``limit`` messages into the index; returns whether there are more."""
        ...

    async def candidates(self, terms: SearchTerms) -> Candidates | None:
        """Where the words may be, and nowhere else; None where that is in too many places to be named."""
        ...

    async def recency_of(
        self, part: Range, ids: Sequence[str], *, before: RecencyKey | None = None, limit: int
    ) -> Slice:
        """As ``Reader.recency``, of these conversations only."""
        ...

    async def by_property(self, ids: Sequence[str]) -> Mapping[str | None, tuple[str, ...]]:
        """These conversations by the property that each belongs to; None: the unassigned ones."""
        ...

    async def search(self, candidates: Candidates, terms: SearchTerms, *, limit: int) -> SearchResult:
        """Read the messages of these conversations, in this order.

        Once ``limit`` messages were read no further conversation is begun; the first one always is.
        """
        ...
