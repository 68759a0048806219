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

from afterturn.aws import stack
from afterturn.local import ministack
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


async def create_queues(client: Any) -> QueueUrls:
    """The four queues of a lane, with the properties that ``infra/template.json`` gives them."""
    resources = json.loads(stack.template())["Resources"]

    async def create(resource: str, **attributes: str) -> str:
        properties = resources[resource]["Properties"]
        name = properties["QueueName"]["Fn::Sub"].replace("${Lane}", "test")
        plain = {key: str(value).lower() for key, value in properties.items() if isinstance(value, bool | int)}
        plain |= {key: value for key, value in properties.items() if isinstance(value, str)}
        created = await client.create_queue(QueueName=name, Attributes=plain | attributes)
        return str(created["QueueUrl"])

    async def pair(queue: str, dead_letters: str) -> tuple[str, str]:
        dead = await create(dead_letters)
        arn = (await client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"]))["Attributes"]["QueueArn"]
        policy = resources[queue]["Properties"]["RedrivePolicy"] | {"deadLetterTargetArn": arn}
        return await create(queue, RedrivePolicy=json.dumps(policy)), dead

    main, main_dead = await pair("EventsQueue", "EventsDeadLetters")
    retry, retry_dead = await pair("RetryQueue", "RetryDeadLetters")
    return QueueUrls(main, retry, main_dead, retry_dead)
