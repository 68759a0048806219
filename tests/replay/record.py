"""Saves the histories that the replay test keeps: ``python -m tests.replay.record``.

Record again, under a new name, when the workflow takes a new path; keep the old ones for as long as workflows that were
started by the old code may run (a reaction closes when nothing waits: its longest ``max_wait``, and its back-offs).
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client
from tests.contract.reactions.rig import Probe, fail_times, one_probe
from tests.contract.reactions.temporal_servers import Server, dev_server
from tests.unit.temporal.rig import TemporalRig, eventually, open_temporal_rig

from afterturn.reactions.port import Signal
from afterturn.reactions.temporal import protocol

HISTORIES = Path(__file__).parent / "histories"


async def one_turn(rig: TemporalRig, _: Probe) -> None:
    await rig.send(await rig.settle())


async def a_burst_and_then_now(rig: TemporalRig, _: Probe) -> None:
    for number in range(3):
        signal = await rig.settle(message_id=f"m{number}")
        await rig.send(signal)
        await asyncio.sleep(0.1)
    await rig.send(Signal("probe", "c1", signal.occurred_at, immediate=True))


async def a_turn_during_a_run(rig: TemporalRig, probe: Probe) -> None:
    async def act(*_: Any) -> None:
        if len(probe.runs) == 1:
            await rig.send(await rig.settle(message_id="during"))

    probe.act = act
    await one_turn(rig, probe)


async def a_failure_that_passes(rig: TemporalRig, probe: Probe) -> None:
    probe.act = fail_times(1)
    await one_turn(rig, probe)


async def a_failure_for_good(rig: TemporalRig, probe: Probe) -> None:
    probe.act = fail_times(9)
    await one_turn(rig, probe)


async def odd_signals(rig: TemporalRig, probe: Probe) -> None:
    await one_turn(rig, probe)
    await rig.handle().signal(protocol.TURN_SETTLED, {"seq": "x"})
    await rig.handle().signal("unheard-of")
    await rig.handle().signal(protocol.FLUSH, {})
    await rig.handle().signal(protocol.RETRY, protocol.write_signal(protocol.SignalPayload(rig.policy())))


async def more_than_a_run_takes(rig: TemporalRig, probe: Probe) -> None:
    signal = await rig.settle()
    for _ in range(6):
        await rig.send(*[signal] * 100)
    await asyncio.sleep(0.5)
    await rig.send(Signal("probe", "c1", signal.occurred_at, immediate=True))


SCENARIOS: dict[Callable[[TemporalRig, Probe], Awaitable[None]], dict[str, Any]] = {
    one_turn: {"quiet": "100ms", "max_wait": "1s"},
    a_burst_and_then_now: {"quiet": "300ms", "max_wait": "1h"},
    a_turn_during_a_run: {"quiet": "100ms", "max_wait": "1s"},
    a_failure_that_passes: {"quiet": "0s", "max_wait": "0s"},
    a_failure_for_good: {"quiet": "0s", "max_wait": "0s", "attempts": 2},
    odd_signals: {"quiet": "1h", "max_wait": "1h"},
    more_than_a_run_takes: {"quiet": "1h", "max_wait": "1h"},
}


async def record(server: Server, folder: Path) -> None:
    for scenario, policy in SCENARIOS.items():
        probe = Probe()
        with tempfile.TemporaryDirectory() as temporary:
            async with open_temporal_rig(server, Path(temporary) / "afterturn.db", one_probe(probe, **policy)) as rig:
                async with rig.worker():
                    await scenario(rig, probe)
                    await rig.handle().result(follow_runs=True)
                await save(rig.client, rig.handle().id, folder, scenario.__name__)


async def save(client: Client, workflow_id: str, folder: Path, name: str) -> None:
    """All runs, first to last."""

    async def listed() -> bool:
        found = [one async for one in client.list_workflows(f'WorkflowId = "{workflow_id}"')]
        return bool(found) and all(one.close_time is not None for one in found)

    await eventually(listed)
    runs = [one async for one in client.list_workflows(f'WorkflowId = "{workflow_id}"')]
    for number, run in enumerate(sorted(runs, key=lambda one: one.start_time)):
        history = await client.get_workflow_handle(workflow_id, run_id=run.run_id).fetch_history()
        (folder / f"{name}-{number}.json").write_text(json.dumps(_plain(json.loads(history.to_json()))) + "\n", "utf-8")


_UNNEEDED = {"identity", "taskId", "requestId"}
"""Who did it, and where: a replay does not look at it."""


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "TASK_QUEUE_KIND_STICKY":
        return value | {"name": "sticky"}
    return {key: _plain(inner) for key, inner in value.items() if key not in _UNNEEDED}


if __name__ == "__main__":
    with dev_server() as started:
        asyncio.run(record(started, HISTORIES))
