"""The servers of a run, an AWS emulator and Temporal's development server. They stop with it, however it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afterturn.aws import stack
from afterturn.aws.account import open_account
from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.local import free_port, ministack, temporal

ROOT = Path(__file__).resolve().parents[1]
LANE = "dev"
ACCOUNT = "100000000001"


@contextmanager
def emulator() -> Iterator[Access]:
    """The way into an emulator, which keeps everything in memory; its first use installs it."""
    python = ministack.install(ROOT / ".venv-ministack", [ROOT / "constraints-emulator.txt"])
    with ministack.running(python) as endpoint:
        yield Access(region="us-east-1", endpoint=endpoint, access_key=ACCOUNT, secret_key=ACCOUNT)


@contextmanager
def temporal_server(folder: Path) -> Iterator[str]:
    """The address of a development server with its state in a file of this folder."""
    log = folder / "temporal.log"
    with temporal.running(port=free_port(), ui_port=free_port(), database=folder / "temporal.db", log=log) as address:
        yield address


@asynccontextmanager
async def provisioned(access: Access) -> AsyncIterator[Names]:
    """Table and queues of a lane, made by afterturn's own tools."""
    names = Names.of(LANE)
    async with open_account(access) as account:
        await stack.execute(account, await stack.plan(account, names))
        yield names


@dataclass(slots=True)
class Requests:
    """Counts what clients send, by operation. A request that botocore sends again counts again."""

    sent: Counter[str] = field(default_factory=Counter)

    def watch(self, client: Any) -> None:
        client.meta.events.register("before-send", self._count)

    def taken(self) -> dict[str, int]:
        """What was counted since it was last asked."""
        found = dict(self.sent)
        self.sent.clear()
        return found

    def _count(self, event_name: str, **_: Any) -> None:
        self.sent[event_name.rpartition(".")[2]] += 1
