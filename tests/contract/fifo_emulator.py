"""The AWS emulator with its clock in our hands: its time stands still until a test moves it."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.contract.samples import T0
from tests.emulator import FOLDER, ROOT

from afterturn.local import ministack
from afterturn.stream.port import MAX_RECEIVES
from afterturn.stream.sqs import QueueUrls
from afterturn.testing import ManualClock

_TAKE_TIME_FROM = """
import mmap, struct, time
_file = open({path!r}, "r+b")
_told = mmap.mmap(_file.fileno(), 8)
time.time = lambda: struct.unpack("d", _told)[0]
"""


class SharedClock(ManualClock):
    """A clock whose time an emulator takes for its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._told = mmap.mmap(file.fileno(), 8)
        super().__init__(T0)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "now":
            self._told[:] = struct.pack("d", value.timestamp())

    def restart(self) -> SharedClock:
        self.set(T0)
        return self


@contextmanager
def emulator_on(clock_path: Path) -> Iterator[str]:
    """The endpoint of an emulator that takes its time from a file."""
    python = ministack.install(FOLDER, [ROOT / "constraints-emulator.txt"])
    prelude = _TAKE_TIME_FROM.format(path=str(clock_path))
    with mock.patch.object(ministack, "_RUN", prelude + ministack._RUN), ministack.running(python) as endpoint:
        yield endpoint


async def create_queues(client: Any, *, max_receives: int = MAX_RECEIVES) -> QueueUrls:
    """The four queues of a lane."""

    async def create(name: str, **attributes: str) -> str:
        made = await client.create_queue(QueueName=name, Attributes={"FifoQueue": "true", **attributes})
        return str(made["QueueUrl"])

    async def pair(name: str) -> tuple[str, str]:
        dead = await create(f"{name}-dead.fifo")
        arn = (await client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"]))["Attributes"]["QueueArn"]
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": str(max_receives)})
        return await create(f"{name}.fifo", RedrivePolicy=policy), dead

    main, main_dead = await pair("events")
    retry, retry_dead = await pair("retry")
    return QueueUrls(main, retry, main_dead, retry_dead)
