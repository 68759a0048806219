"""What stateful tests share: an event loop and a scratch folder for each example."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine

T = TypeVar("T")

_MEMORY = Path("/dev/shm")


@contextmanager
def fast_folder() -> Iterator[Path]:
    """A folder of one's own, in memory where there is such a place: a commit there waits for no disk."""
    folder = Path(tempfile.mkdtemp(prefix="afterturn-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class AsyncMachine(RuleBasedStateMachine):
    """A machine whose rules may await, and which owns a folder."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self.folder = self._stack.enter_context(fast_folder())

    def await_(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def close(self) -> None:
        """Close what the example opened."""

    def teardown(self) -> None:
        with self._stack:
            self.close()


def long_runs(examples: int, steps: int) -> settings:
    """Settings of a machine: so many examples in a usual run, twenty times as many in a search for new ones."""
    profile = settings()
    return settings(max_examples=examples if profile.derandomize else examples * 20, stateful_step_count=steps)
