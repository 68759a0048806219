"""The servers of the local profile: an AWS emulator and Temporal's development server.

Whoever comes first starts them and stops them when done; whoever comes meanwhile uses them. A lock on the folder says
whether they run: it goes with its owner, however that ends, so nothing stale is left.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from afterturn.errors import ConfigError
from afterturn.local import ministack, temporal

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

    ``emulator``: where the AWS emulator is installed, or is to be; in the user's cache where nothing is said. Raises
    ConfigError where a port is in use or one does not start, and MissingExtra where one is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = folder / "servers.json"
    with open(folder / "lock", "a+b") as lock, ExitStack() as stack:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield _running_elsewhere(told, folder)
            return
        told.unlink(missing_ok=True)
        for note in folder.glob(f"*{MADE}"):
            note.unlink()
        temporal.program()
        python = ministack.install((emulator or ministack.default_folder()).absolute())
        endpoint = stack.enter_context(
            ministack.running(python, port=aws_port, keep_in=folder / "aws", log=folder / "aws.log")
        )
        address = stack.enter_context(
            temporal.running(
                port=temporal_port, ui_port=ui_port, database=folder / "temporal.db", log=folder / "temporal.log"
            )
        )
        servers = Servers(endpoint, address, f"http://127.0.0.1:{ui_port}", started=True)
        told.write_text(json.dumps(asdict(servers)))
        stack.callback(told.unlink, missing_ok=True)
        yield servers


def _running_elsewhere(told: Path, folder: Path) -> Servers:
    try:
        found = json.loads(told.read_text())
    except (OSError, ValueError):
        raise ConfigError(
            f"the local profile's servers in {folder} are just being started or stopped by another command; try again"
        ) from None
    return Servers(found["endpoint"], found["temporal"], found["web_page"])
