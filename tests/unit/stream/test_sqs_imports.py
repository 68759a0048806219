"""What the emit path and the bridge load: no driver, no engine, no cloud, before a client is opened."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"aiobotocore", "boto3", "botocore", "temporalio", "aiohttp"}


@pytest.mark.parametrize(
    "module",
    ["afterturn", "afterturn.stream.sqs", "afterturn.settle", "afterturn.bridge.aws_lambda", "afterturn.testing.fifo"],
)
def test_no_driver_is_loaded(module: str) -> None:
    code = f"import {module}, sys; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {name.partition(".")[0] for name in done.stdout.split()} & HEAVY
