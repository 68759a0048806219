"""The servers of the local profile: an AWS emulator and Temporal's development server.

Whoever comes first starts them and stops them when done; whoever comes meanwhile uses them. A lock on the folder says
whether they run: it goes with its owner, however that ends, so nothing stale is left.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from afterturn.errors import ConfigError
from afterturn.local import ministack, temporal

_STARTED_WITHIN = 60.0
"""How long to wait for servers that another command is just starting or stopping; it may install the emulator first."""
_GONE_WITHIN = 15.0
"""How long to wait for the servers of a command that was killed."""

MADE = ".made"
"""How the name of a note ends that says what was made on these servers. The notes go when servers start."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they are. ``started``: by us, so they go with us."""

    endpoint: str
    temporal: str
    web_page: str
    started: bool = False


@contextmanager
def open_servers(
    folder: Path, *, aws_port: int, temporal_port: int, ui_port: int, emulator: Path | None = None
) -> Iterator[Servers]:
    """Servers with their state in ``folder``, for as long as the block runs.

    Waits for those that another command is just starting or stopping, and until those of a command that was killed are
    gone. ``emulator``: where the AWS emulator is installed, or is to be; in the user's cache where nothing is said.
    Raises ConfigError where a port is in use or one does not start, and MissingExtra where one is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state_file = folder / "servers.json"
    with open(folder / "lock", "a+b") as lock, ExitStack() as stack:
        if (elsewhere := _take_lock(lock, state_file, folder)) is not None:
            yield elsewhere
            return
        state_file.unlink(missing_ok=True)
        serving = stack.enter_context(open(folder / "serving", "ab"))
        _wait_until_gone(serving, folder)
        for note in folder.glob(f"*{MADE}"):
            note.unlink()
        temporal.program()
        python = ministack.install((emulator or ministack.default_folder()).absolute())
        endpoint = stack.enter_context(
            ministack.running(python, port=aws_port, keep_in=folder / "aws", log=folder / "aws.log", hold=serving)
        )
        address = stack.enter_context(
            temporal.running(
                port=temporal_port,
                ui_port=ui_port,
                database=folder / "temporal.db",
                log=folder / "temporal.log",
                hold=serving,
            )
        )
        servers = Servers(endpoint, address, f"http://127.0.0.1:{ui_port}", started=True)
        state_file.write_text(json.dumps(asdict(servers)))
        stack.callback(state_file.unlink, missing_ok=True)
        yield servers


async def make_once(note: Path, make: Callable[[], Awaitable[None]]) -> None:
    """Make what a note stands for, unless these servers have it; who comes while somebody else makes it waits."""
    with _making(note) as is_ours:
        while (ours := is_ours()) is None:  # noqa: ASYNC110 - asks another process
            await asyncio.sleep(0.1)
        if ours:
            await make()


@contextmanager
def _making(note: Path) -> Iterator[Callable[[], bool | None]]:
    """A way to ask whether it is ours to make: none while somebody else is at it. Noted at the end of the block."""
    ours = False

    def is_ours() -> bool | None:
        nonlocal ours
        if note.exists():
            return False
        if not _try(lock):
            return None
        ours = not note.exists()
        return ours

    with open(note.with_suffix(".making"), "ab") as lock:
        yield is_ours
        if ours:
            note.touch()


def _try(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_lock(lock: IO[bytes], state_file: Path, folder: Path) -> Servers | None:
    """None where the lock is ours now; else the servers of whoever has it."""
    deadline = time.monotonic() + _STARTED_WITHIN
    while True:
        if _try(lock):
            return None
        if (servers := _read_state(state_file)) is not None:
            return servers
        if time.monotonic() > deadline:
            raise ConfigError(
                f"the local profile's servers in {folder} are still being started or stopped by another command; try "
                "again when it is done"
            )
        time.sleep(0.1)


def _read_state(state_file: Path) -> Servers | None:
    try:
        state = json.loads(state_file.read_text())
    except (OSError, ValueError):
        return None
    return Servers(state["endpoint"], state["temporal"], state["web_page"])


def _wait_until_gone(serving: IO[bytes], folder: Path) -> None:
    """Until no servers have this file any more: each gets it from us, locked, and keeps it as long as it lives.

    Those of a command that was killed find that out, save their state, and go; who started too soon would not see it.
    """
    deadline = time.monotonic() + _GONE_WITHIN
    while not _try(serving):
        if time.monotonic() > deadline:
            raise ConfigError(
                f"the servers of a command that was killed still run on {folder}; end them (ministack, temporal), "
                "and try again"
            )
        time.sleep(0.1)
