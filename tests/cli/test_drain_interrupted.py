"""Ctrl-C on a drain is Ctrl-C, whatever else is out of order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.cli.command import interrupt, start
from tests.emulator import access, emulator, session  # noqa: F401

from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.operations.account import open_account
from afterturn.operations.provision import carry_out, plan_lane

DEV = Names.of("dev")


@pytest.fixture
def lane(access: Access, session: Any) -> dict[str, str]:  # noqa: F811
    """The variables of a lane that has everything but a Temporal that answers."""

    async def provision() -> None:
        async with open_account(access, session=session) as account:
            await carry_out(account, DEV, await plan_lane(account, DEV))

    asyncio.run(provision())
    return {
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_LANE": "dev",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AFTERTURN_AWS_REGION": "us-east-1",
        "AFTERTURN_TEMPORAL_ADDRESS": "127.0.0.1:1",
        "AFTERTURN_LONG_POLL": "0s",
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
    }


def test_a_drain_that_is_stopped_while_temporal_is_gone_says_that_it_was_stopped(lane: dict[str, str]) -> None:
    with start("drain", "--log-level", "info", env=lane) as process:
        assert process.stderr is not None
        while b"worker_paused" not in process.stderr.readline():
            assert process.poll() is None
        interrupt(process)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Stopped. Nobody says what is left (Temporal at 127.0.0.1:1 cannot be reached (Connection refused); " in err
    assert b"Traceback" not in err
