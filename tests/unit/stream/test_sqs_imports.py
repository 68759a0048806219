"""What the emit path and the bridge load: no driver, no engine, no cloud, before a client is opened."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.contract.samples import T0

from afterturn.aws.session import Access
from afterturn.errors import MissingExtra
from afterturn.stream.sqs import QueueUrls, open_publisher, open_stream
from afterturn.testing import ManualClock

HEAVY = {"aiobotocore", "boto3", "botocore", "temporalio", "aiohttp"}


@pytest.mark.parametrize(
    "module",
    ["afterturn", "afterturn.stream.sqs", "afterturn.settle", "afterturn.bridge.aws_lambda", "tests.fifo"],
)
def test_no_driver_is_loaded(module: str) -> None:
    code = f"import {module}, sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & HEAVY


async def test_without_the_driver_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("aiobotocore", "aiobotocore.session"):
        monkeypatch.setitem(sys.modules, module, None)
    queues = QueueUrls("q/a.fifo", "q/b.fifo", "q/c.fifo", "q/d.fifo")
    for opening in (open_publisher, open_stream):
        with pytest.raises(MissingExtra, match=r"pip install 'afterturn\[aws\]'"):
            await opening(Access(), queues, ManualClock(T0)).__aenter__()
