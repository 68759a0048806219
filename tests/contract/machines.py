"""What stateful tests share: an event loop and a scratch folder for each example."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

T = TypeVar("T")

_MEMORY = Path("/dev/shm")


class AsyncMachine(RuleBasedStateMachine):
    """A machine whose rules may await, and which owns a folder."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="afterturn-", dir=_MEMORY if _MEMORY.is_dir() else None))

    def await_(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def close(self) -> None:
        """Close what the example opened."""

    def teardown(self) -> None:
        try:
            self.close()
        finally:
            self._runner.close()
            shutil.rmtree(self.folder, ignore_errors=True)
