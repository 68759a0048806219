"""The interface of a store with full-text search, which not every store has, and the task that keeps its index up to
date without slowing down writers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from afterturn import telemetry
from afterturn.errors import StoreError
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


BATCH_MESSAGES = 2_000
"""Messages indexed before each pause."""
REST_FACTOR = 19
"""A pause lasts this many times as long as the batch before it, so indexing takes 5% of the writer's time."""
AFTER_FAILURE_S = 60.0


async def run_search_indexer(searcher: Searcher, stop: asyncio.Event, *, poll: float) -> None:
    """Index new messages until stopped, with pauses of at least ``poll`` seconds: a few large batches cost less.

    Search is exact without it, only slower.
    """
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        started_at = loop.time()
        try:
            await searcher.catch_up(limit=BATCH_MESSAGES)
            pause = max(REST_FACTOR * (loop.time() - started_at), poll)
        except StoreError as error:
            telemetry.log("search_index_failed", level=logging.ERROR, error=type(error).__name__)
            pause = AFTER_FAILURE_S
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            continue
