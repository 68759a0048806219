"""Keeps the index of words near the messages, and out of the way of those who write them."""

from __future__ import annotations

import asyncio
import logging

from afterturn import telemetry
from afterturn.errors import StoreError
from afterturn.store.search import Searcher

BATCH_MESSAGES = 2_000
"""Messages that are taken into the index before the next pause."""
REST_FACTOR = 19
"""A pause is so many times as long as what was done before it: the index takes a twentieth of the writer's time."""
AFTER_FAILURE_S = 60.0


async def run_search_indexer(searcher: Searcher, stop: asyncio.Event, *, poll: float) -> None:
    """Catch up until stopped, and rest in between, ``poll`` seconds at least: few large batches cost less than many.

    Whoever looks for words finds them without this, too; it only takes longer.
    """
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        began = loop.time()
        try:
            await searcher.catch_up(limit=BATCH_MESSAGES)
            pause = max(REST_FACTOR * (loop.time() - began), poll)
        except StoreError as error:
            telemetry.log("search_index_failed", level=logging.ERROR, error=type(error).__name__)
            pause = AFTER_FAILURE_S
        try:
            await asyncio.wait_for(stop.wait(), pause)
        except TimeoutError:
            continue
