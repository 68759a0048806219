"""Ctrl-C: the first asks to stop, the second stops at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from afterturn.cli.exits import Exit

_AT_ONCE = 2.0
"""Seconds after which the second signal does not wait for code that does not listen."""


@contextmanager
def interruptible(first: Callable[[], object], second: Callable[[], object]) -> Iterator[Callable[[], int]]:
    """Call ``first`` in the loop at the first SIGINT or SIGTERM and ``second`` at the next; gives their number.

    Where ``second`` does not end the process soon, the process ends all the same: every write is a transaction, so
    it may end anywhere.
    """
    loop = asyncio.get_running_loop()
    received = 0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received += 1
        loop.call_soon_threadsafe(first if received == 1 else second)
        if received == 2:
            timer = threading.Timer(_AT_ONCE, _end)
            timer.daemon = True
            timer.start()

    before = {}
    for one in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError):  # not in the main thread: nobody can press Ctrl-C on us
            before[one] = signal.signal(one, on_signal)
    try:
        yield lambda: received
    finally:
        if received < 2:
            for one, handler in before.items():
                signal.signal(one, handler)


def _end() -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(Exit.INTERRUPTED)
