"""Points at which a worker kills or freezes itself: passes of a named place in the code are counted up to the n-th.

Everything here patches the process that it runs in, which therefore has to be one that is thrown away.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

CALLS: dict[str, tuple[str, str]] = {
    "prepare": ("afterturn.sqlite.schema", "prepare"),
    "settle": ("afterturn.settle", "Settler.settle"),
    "settle-unit": ("afterturn.store.sqlite.writer", "settle"),
    "save-unit": ("afterturn.store.sqlite.writer", "save_messages"),
    "receive": ("afterturn.stream.sqlite", "SqliteStream.receive"),
    "publish": ("afterturn.stream.sqlite", "SqliteStream.publish"),
    "signal": ("afterturn.reactions.embedded.engine", "EmbeddedEngine.signal"),
    "signal-unit": ("afterturn.reactions.embedded.due_queue", "signal"),
    "claim-unit": ("afterturn.reactions.embedded.due_queue", "claim"),
    "extend-unit": ("afterturn.reactions.embedded.due_queue", "extend"),
    "window": ("afterturn.store.sqlite.store", "SqliteStore.window"),
    "run": ("afterturn.reactions.embedded.worker", "run_consumer"),
    "pin": ("afterturn.store.sqlite.store", "SqliteStore.claim"),
    "done": ("afterturn.store.sqlite.store", "SqliteStore.finish_claim"),
    "finish": ("afterturn.reactions.embedded.worker", "EmbeddedWorker._finish"),
    "finish-unit": ("afterturn.reactions.embedded.due_queue", "finish"),
    "stamp-unit": ("afterturn.store.sqlite.stamps", "stamp"),
    "sweep": ("afterturn.ledger.ledger", "Ledger.sweep"),
}
"""Where the functions are. Each is a point ``name:before`` and a point ``name:after``; a unit is one inside a
transaction, and ``done:before`` is when an effect has happened and nothing says so yet."""

SQL = ("begin:after", "statement:before", "statement:after", "commit:before", "commit:after")
"""Points of the connection that writes."""

_WRITING = (*SQL, "prepare:before", "prepare:after", "settle:before", "settle:after", "settle-unit:after")
_REACTING = (
    *SQL,
    *("receive:after", "signal:before", "signal:after", "signal-unit:after", "claim-unit:after", "window:after"),
    *("run:before", "run:after", "pin:before", "pin:after", "done:before", "done:before", "done:after"),
    *("finish:before", "finish:after", "finish-unit:after", "stamp-unit:after", "extend-unit:after", "prepare:after"),
)
POINTS_OF: dict[str, tuple[str, ...]] = {
    "settle": (*_WRITING, "save-unit:after"),
    "import": _WRITING,
    "react": (*_REACTING, "sweep:before", "publish:after"),
    "drain": (*_REACTING, "sweep:before", "sweep:after", "publish:after"),
    "scenario": (),
}
"""The points that a worker of a role can come past."""

_STATEMENTS = ("INSERT", "UPDATE", "DELETE", "CREATE")
_passes: Counter[str] = Counter()
_lock = threading.Lock()
_target: tuple[str, int, signal.Signals] | None = None
_checkpoint: int | None = None


def arm(point: str, nth: int, ending: signal.Signals = signal.SIGKILL) -> None:
    """Kill this process at the ``nth`` pass of a point, or stop it there with SIGSTOP."""
    global _target  # noqa: PLW0603 - there is one death a process
    name, _, when = point.partition(":")
    if point in SQL:
        watch_connections()
    else:
        owner, attribute = locate(name)
        setattr(owner, attribute, _watched(getattr(owner, attribute), name, when))
    _target = (point, nth, ending)


def locate(name: str) -> tuple[Any, str]:
    """The module or class that holds a function of ``CALLS``, and its name there."""
    module, path = CALLS[name]
    owner: Any = importlib.import_module(module)
    *classes, attribute = path.split(".")
    for one in classes:
        owner = getattr(owner, one)
    return owner, attribute


def watch_connections(checkpoint: int | None = None) -> None:
    """Make new connections count their passes. ``checkpoint``: pages after which they move the log into the file."""
    global _checkpoint  # noqa: PLW0603 - as above
    _checkpoint = checkpoint or _checkpoint
    sqlite3.connect = functools.partial(_connect, factory=_Watched)  # type: ignore[assignment]


def passed(point: str) -> None:
    """A point was passed; this may be the end."""
    if _target is None or point != _target[0]:
        return
    with _lock:
        _passes[point] += 1
        if _passes[point] == _target[1]:
            os.kill(os.getpid(), _target[2])


def _watched(function: Callable[..., Any], name: str, when: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def watched_async(*args: Any, **kwargs: Any) -> Any:
            if when == "before":
                passed(f"{name}:before")
            result = await function(*args, **kwargs)
            passed(f"{name}:after")
            return result

        return watched_async

    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            passed(f"{name}:before")
        result = function(*args, **kwargs)
        passed(f"{name}:after")
        return result

    return watched


_connect = sqlite3.connect


class _Watched(sqlite3.Connection):
    reads_only = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if _checkpoint is not None:
            super().execute(f"PRAGMA wal_autocheckpoint = {_checkpoint}")

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        verb = sql.lstrip().split(None, 1)[0]
        if sql == "PRAGMA query_only = ON":
            self.reads_only = True
        point = "statement" if verb in _STATEMENTS else verb.lower()
        if self.reads_only:
            return super().execute(sql, parameters)
        passed(f"{point}:before")
        cursor = super().execute(sql, parameters)
        passed(f"{point}:after")
        return cursor
