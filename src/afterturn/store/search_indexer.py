"""Keeps the full-text index up to date without slowing down writers."""

from __future__ import annotations

import asyncio
import logging

from afterturn import telemetry
from afterturn.errors import StoreError
from afterturn.store.search import Searcher

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
