"""Signals of every kind against a real server: nothing that is sent stops a conversation, and nothing good is lost."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import RawValue
from tests.contract.reactions.rig import Probe, one_probe
from tests.unit.temporal.house import LATER, NOW, House, Houses, eventually

from afterturn.clock import system_clock
from afterturn.reactions.port import Signal
from afterturn.reactions.registry import ReactionContext, TurnWindow
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.protocol import SignalPayload, WorkflowState
from afterturn.reactions.temporal.workflow import SIGNALS_A_RUN

ODD: list[tuple[str, list[Any]]] = [
    (protocol.TURN_SETTLED, [{"seq": "x"}]),
    (protocol.TURN_SETTLED, [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{not json"))]),
    (protocol.TURN_SETTLED, [RawValue(Payload(metadata={"encoding": b"binary/unheard-of"}, data=b"\xff"))]),
    (protocol.TURN_SETTLED, [RawValue(Payload())]),
    (protocol.TURN_SETTLED, []),
    (protocol.TURN_SETTLED, [None]),
    (protocol.RETRY, [[]]),
    ("unheard-of", [{"text": "Dear secret"}]),
]


def good(house: House, signal: Signal) -> dict[str, Any]:
    terms = house.terms()
    return protocol.write_signal(SignalPayload(terms, signal.occurred_at))


async def failed_tasks(house: House) -> int:
    history = await house.handle().fetch_history()
    return sum(one.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED for one in history.events)


async def test_odd_payloads_are_counted_and_the_next_one_works(
    houses: Houses, caplog: pytest.LogCaptureFixture
) -> None:
    """F1, F32: undecodable, missing keys, no time, no payload, an unknown name; then a good one of a newer bridge."""
    probe = Probe()
    async with houses(one_probe(probe, **NOW)) as house:
        signal = await house.settle()
        await house.client.start_workflow(
            protocol.REACTION,
            id=house.handle().id,
            task_queue=protocol.task_queue(house.lane),
            start_signal=protocol.TURN_SETTLED,
            start_signal_args=[good(house, signal) | {"occurredAt": "not-a-date"}],
        )
        for name, arguments in ODD:
            await house.handle().signal(name, args=arguments)
        await house.handle().signal(protocol.TURN_SETTLED, good(house, signal) | {"unheardOf": 1})
        with caplog.at_level(logging.ERROR, "afterturn"):
            async with house.worker():
                await house.until_stamped()
                result = await house.handle().result()
                progress = await house.progress()
        assert [run.messages for run in probe.runs] == [("m0",)]
        assert result["rejects"] == progress.rejects == len(ODD) + 1
        assert result["signals"] == len(ODD) + 2
        assert await failed_tasks(house) == 0
        lines = [one.getMessage() for one in caplog.records if one.name == "afterturn"]
        assert sum(line.startswith("action=signal_rejected consumer=probe conversation_id=c1") for line in lines) == 9
        assert not any("secret" in line or "not-a-date" in line for line in lines)


@pytest.mark.parametrize(
    "start", [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{")), 5, {"due_at": 5}]
)
async def test_an_undecodable_start_is_a_fresh_start(houses: Houses, start: Any) -> None:
    probe = Probe()
    async with houses(one_probe(probe, **NOW)) as house:
        signal = await house.settle()
        await house.client.start_workflow(
            protocol.REACTION,
            start,
            id=house.handle().id,
            task_queue=protocol.task_queue(house.lane),
            start_signal=protocol.TURN_SETTLED,
            start_signal_args=[good(house, signal)],
        )
        async with house.worker():
            await house.until_stamped()
            assert (await house.handle().result())["rejects"] == 1


@pytest.mark.parametrize("count", [1, 2])
async def test_signals_that_come_before_the_run_are_in_the_first_flush(houses: Houses, count: int) -> None:
    """F47: the first activation is [start, signal] and [start, signal, signal]."""
    probe = Probe()
    async with houses(one_probe(probe, **NOW)) as house:
        for number in range(count):
            await house.send(await house.settle(message_id=f"m{number}"))
        async with house.worker():
            assert (await house.handle().result())["runs"] == 1
        assert [run.messages for run in probe.runs] == [tuple(f"m{number}" for number in range(count))]


async def test_a_deadline_that_has_passed_means_now(houses: Houses) -> None:
    """F32: what is carried through continue-as-new is absolute, and may lie behind us, or before us for a clock
    that was set back."""
    probe = Probe()
    async with houses(one_probe(probe, **LATER)) as house:
        signal = await house.settle()
        progress = WorkflowState()
        long_ago = system_clock() - timedelta(days=400)
        progress.turn(SignalPayload(house.terms(), signal.occurred_at), long_ago)
        handle = await house.client.start_workflow(
            protocol.REACTION, progress, id=house.handle().id, task_queue=protocol.task_queue(house.lane)
        )
        async with house.worker():
            assert (await handle.result())["runs"] == 1
        assert len(probe.runs) == 1
        assert await failed_tasks(house) == 0


async def test_thousands_of_signals_are_carried_on_and_none_is_lost(houses: Houses) -> None:
    """Bounded history: it continues as new every 500 signals, keeping count and deadline; then one run sees all.

    Signals come in bursts all the while, so some arrive during continue-as-new.
    """
    probe = Probe()
    async with houses(one_probe(probe, **LATER)) as house:
        signal = await house.settle()
        async with house.worker():
            await house.send(signal)
            first = await house.progress()
            for _ in range(20):
                await house.send(*[signal] * 100)
            await eventually(lambda: _has(house, 2_001))
            progress = await house.progress()
            assert (progress.signals, progress.rejects, progress.runs) == (2_001, 0, 0)
            assert progress.pending is not None
            assert first.pending is not None
            assert progress.pending.first_at == first.pending.first_at
            assert progress.due_at == first.pending.first_at + timedelta(hours=1)
            await house.send(Signal("probe", "c1", signal.occurred_at, immediate=True))
            assert (await house.handle().result())["runs"] == 1
        lengths = []
        async for run in house.client.list_workflows(f'WorkflowId = "{house.handle().id}"'):
            lengths.append((run.status, run.history_length))
        assert sum(status is WorkflowExecutionStatus.CONTINUED_AS_NEW for status, _ in lengths) >= 2_001 // (
            SIGNALS_A_RUN + 200
        )
        assert max(length or 0 for _, length in lengths) < 4_500
        assert len(probe.runs) == 1


async def test_a_turn_that_is_signalled_again_has_its_effect_once(houses: Houses) -> None:
    """F17: before and after the workflow continues as new, and after it has closed."""
    sent: list[str] = []
    probe = Probe()

    async def effect(turns: TurnWindow, ctx: ReactionContext) -> None:
        for one in turns.messages:
            await ctx.once(one.id, send)

    async def send(key: str) -> None:
        sent.append(key)

    probe.act = effect
    async with houses(one_probe(probe, **LATER)) as house:
        signal = await house.settle()
        async with house.worker():
            await house.send(signal)
            (first,) = await _runs(house)
            await house.send(*[signal] * SIGNALS_A_RUN)

            async def continued() -> bool:
                return len(await _runs(house)) > 1

            await eventually(continued)
            await house.send(signal)
            await house.send(Signal("probe", "c1", signal.occurred_at, immediate=True))
            await eventually(lambda: _closed(house))
            closed = (await house.handle().describe()).run_id
            await house.send(Signal("probe", "c1", signal.occurred_at, immediate=True))

            async def closed_again() -> bool:
                return (await house.handle().describe()).run_id != closed and await _closed(house)

            await eventually(closed_again)
        assert first != closed
        assert sent == ["probe:c1:m0"]
        assert len(probe.runs) == 1


async def _runs(house: House) -> list[str]:
    """Ids of the workflow's runs, as far as visibility knows them."""

    async def known() -> bool:
        return bool([one async for one in house.client.list_workflows(f'WorkflowId = "{house.handle().id}"')])

    await eventually(known)
    return [one.run_id async for one in house.client.list_workflows(f'WorkflowId = "{house.handle().id}"')]


async def _has(house: House, signals: int) -> bool:
    return (await house.progress()).signals >= signals


async def test_a_steady_reaction_continues_as_new_between_its_runs(houses: Houses) -> None:
    """A consumer that is never idle: each run finds a turn that has arrived meanwhile."""
    probe = Probe()
    async with houses(one_probe(probe, **NOW)) as house:

        async def next_turn(*_: Any) -> None:
            number = len(probe.runs)
            if number <= 14:
                signal = await house.settle(message_id=f"m{number}")
                await house.send(*[signal] * 50)

        probe.act = next_turn
        async with house.worker():
            await house.send(await house.settle())
            await eventually(lambda: _closed(house))
            await house.until_stamped()
        assert [message for run in probe.runs for message in run.messages] == [f"m{n}" for n in range(15)]
        runs = [one.status async for one in house.client.list_workflows(f'WorkflowId = "{house.handle().id}"')]
        assert WorkflowExecutionStatus.CONTINUED_AS_NEW in runs


async def _closed(house: House) -> bool:
    return (await house.handle().describe()).status is WorkflowExecutionStatus.COMPLETED


async def test_signals_while_it_closes_are_never_swallowed(houses: Houses) -> None:
    """Forty turns, each signalled as soon as the one before has run: the workflow is closing just then."""
    probe = Probe()
    async with houses(one_probe(probe, **NOW)) as house:
        async with house.worker():
            for number in range(40):
                await house.send(await house.settle(message_id=f"m{number}"))
                await house.until_stamped()
        assert [message for run in probe.runs for message in run.messages] == [f"m{n}" for n in range(40)]


async def test_no_history_holds_content(houses: Houses) -> None:
    """Promise 7: neither what people said nor what a consumer's error says of it."""

    async def fails(turns: Any, _: Any) -> None:
        raise ValueError(f"cannot make sense of {turns.messages[0].text}")

    probe = Probe(act=fails)
    async with houses(one_probe(probe, attempts=1, **NOW)) as house:
        signal = await house.settle()
        async with house.worker():
            await house.send(signal)
            assert (await house.handle().result())["failed"] is True
        history = (await house.handle().fetch_history()).to_json()
        payloads = [base64.b64decode(data).decode() for data in re.findall(r'"data": "([^"]*)"', history)]
        assert any('"error":"ValueError"' in payload for payload in payloads)
        for part in ("text of", "make sense"):
            assert not any(part in text for text in (history, *payloads))
        values = [json.loads(payload) for payload in payloads]
        keys = {key for value in values if isinstance(value, dict) for key in value}
        assert keys == {
            *("quietMs", "maxWaitMs", "attempts", "timeoutMs", "leaseMs", "occurredAt", "immediate"),
            *("consumer", "conversation_id", "attempt"),
            *("outcome", "through", "error"),
            *("runs", "signals", "rejects", "failed"),
        }


async def test_many_bridges_at_once_start_one_workflow(houses: Houses) -> None:
    async with houses(one_probe(Probe(), **LATER)) as house:
        signal = await house.settle()
        await asyncio.gather(*(house.send(signal) for _ in range(10)))
        history = await house.handle().fetch_history()
        assert sum(one.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED for one in history.events) == 10
