"""The bridge logs an outage twice: when it begins, and when it is over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from tests.faults.rig import open_rig, registry_of

from afterturn.bridge.bridge import Bridge, Outage, ReceiveOptions
from afterturn.stream.port import Receipt, Stream

ENGINE, STORE = "EngineUnavailable", "StoreBusy"


class OutageLog:
    """The log of a bridge, and a clock of its own."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger="afterturn")
        self.caplog = caplog
        self.now = 100.0
        self.outage = Outage(lambda: self.now)

    @property
    def releases(self) -> list[str]:
        messages = [record.getMessage() for record in self.caplog.records]
        return [message for message in messages if "records_released" in message]

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self.caplog.records if "action=bridge_" in record.getMessage()]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> OutageLog:
    return OutageLog(caplog)


def test_an_outage_of_many_loops_logs_its_begin_and_its_end_once(log: OutageLog) -> None:
    for attempt in range(3):
        for run in range(5):
            log.now += 1
            log.outage.begin(run, ENGINE)
        assert log.lines == ["action=bridge_paused error=EngineUnavailable"], attempt
    for run in range(5):
        log.now += 100
        log.outage.end(run)
    assert log.lines[1:] == ["action=bridge_resumed age_s=514"]


def test_an_outage_ends_when_the_engine_answers(log: OutageLog) -> None:
    log.outage.begin(0, ENGINE)
    log.outage.begin(1, ENGINE)
    log.now += 60
    log.outage.answered()
    for run in (0, 1):
        log.now += 20
        log.outage.end(run)
    assert log.lines[-1] == "action=bridge_resumed age_s=60"


def test_an_engine_that_fails_again_continues_the_outage(log: OutageLog) -> None:
    log.outage.begin(0, ENGINE)
    log.outage.answered()
    log.now += 60
    log.outage.begin(0, ENGINE)
    log.outage.end(0)
    assert log.lines[-1] == "action=bridge_resumed age_s=60"
    log.outage.end(0)
    assert len(log.lines) == 2


def test_another_kind_of_error_is_logged_too_and_the_next_outage_anew(log: OutageLog) -> None:
    for error in (ENGINE, STORE, ENGINE, STORE):
        log.outage.begin(0, error)
    log.outage.end(0)
    log.outage.begin(0, STORE)
    assert [line.partition(" ")[2] for line in log.lines] == [
        "error=EngineUnavailable",
        "error=StoreBusy",
        "age_s=0",
        "error=StoreBusy",
    ]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the bridge offers nothing to wait for
            await asyncio.sleep(0.001)


async def test_all_loops_of_a_bridge_log_one_outage(tmp_path: Path, log: OutageLog) -> None:
    with open_rig(tmp_path / "a.db", registry_of("topics")) as rig:
        for number in range(4):
            await rig.settle(f"c{number}", "m1")
        rig.signaler.down = 10**6
        stop = asyncio.Event()
        running = asyncio.create_task(
            rig.bridge.run(stop, asyncio.Event(), ReceiveOptions(batch=10, long_polls=4), poll=0.001)
        )
        await until(lambda: bool(log.releases))
        rig.clock.advance(timedelta(hours=13))
        rig.signaler.down = 0

        def over() -> bool:
            rig.clock.advance(timedelta(hours=13))
            handled = {signal.conversation_id for signal in rig.signaler.taken}
            return len(handled) == 4 and "bridge_resumed" in log.lines[-1]

        await until(over)
        stop.set()
        await running
    assert [line.partition(" ")[0] for line in log.lines] == ["action=bridge_paused", "action=bridge_resumed"]
    assert log.releases[0].endswith("count=4")


class SlowRelease:
    """A stream on which making a record visible again waits for ``let_go``."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.waiting = 0
        self.let_go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def release(self, receipts: Sequence[Receipt], *, after: timedelta) -> None:
        self.waiting += 1
        await self.let_go.wait()
        await self._stream.release(receipts, after=after)


async def test_a_batch_still_being_released_when_the_engine_answers_belongs_to_the_same_outage(
    tmp_path: Path, log: OutageLog
) -> None:
    with open_rig(tmp_path / "a.db", registry_of("topics")) as rig:
        for number in range(2):
            await rig.settle(f"c{number}", "m1")
        stream = SlowRelease(rig.stream)
        bridge = Bridge(cast("Stream", stream), rig.signaler, rig.registry.names, visibility=timedelta(seconds=30))
        rig.signaler.down = 2
        stop = asyncio.Event()
        running = asyncio.create_task(
            bridge.run(stop, asyncio.Event(), ReceiveOptions(batch=1, long_polls=2), poll=0.001)
        )
        await until(lambda: bool(stream.waiting))
        await until(lambda: not rig.signaler.down)
        await asyncio.sleep(0.02)
        assert len(log.lines) == 1
        stream.let_go.set()
        await until(lambda: "bridge_resumed" in log.lines[-1])
        stop.set()
        await running
    assert [line.partition(" ")[0] for line in log.lines] == ["action=bridge_paused", "action=bridge_resumed"]
