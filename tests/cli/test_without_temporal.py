"""Commands on a lane whose Temporal is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.cli.command import call, interrupt, start, turn
from tests.emulator import access, emulator, provision, session  # noqa: F401

from afterturn.aws.account import open_account
from afterturn.aws.names import Names
from afterturn.aws.session import Access

DEV = Names.of("dev")


@pytest.fixture(autouse=True)
def lane(access: Access, session: Any, _alone: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A lane that has everything but a Temporal that answers."""

    async def make() -> None:
        async with open_account(access, session=session) as account:
            await provision(account, DEV)

    asyncio.run(make())
    variables = {
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_LANE": "dev",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AFTERTURN_AWS_REGION": "us-east-1",
        "AFTERTURN_TEMPORAL_ADDRESS": "127.0.0.1:1",
        "AFTERTURN_LONG_POLL": "0s",
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_stats_say_what_they_can_while_temporal_is_gone() -> None:
    """Whoever is on call asks just then."""
    assert call("settle", stdin=turn()).code == 0
    done = call("stats")
    assert done.code == 4
    shown = " ".join(done.out.split())
    assert "waiting reactions unavailable" in shown
    assert "stream, main queue 1" in shown
    assert done.err.startswith("error: Temporal at 127.0.0.1:1 cannot be reached")
    told = call("stats", "--json").json
    assert (told["reactions"]["waiting"], told["stream"]["main"], told["conversations"]) == (None, 1, 1)


def test_a_drain_that_is_stopped_while_temporal_is_gone_says_that_it_was_stopped() -> None:
    with start("drain", "--log-level", "info") as process:
        assert process.stderr is not None
        while b"worker_paused" not in process.stderr.readline():
            assert process.poll() is None
        interrupt(process)
        _, err = process.communicate()
    assert process.returncode == 130
    assert b"Stopped. What is left is unknown (Temporal at 127.0.0.1:1 cannot be reached (Connection refused); " in err
    assert b"Traceback" not in err
