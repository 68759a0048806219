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
from tests.unit.temporal.rig import LATER, NOW, OpenRig, TemporalRig, eventually

from afterturn.clock import system_clock
from afterturn.reactions.port import Signal
from afterturn.reactions.registry import ReactionContext, TurnWindow
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.protocol import SignalPayload
from afterturn.reactions.temporal.workflow import SIGNALS_A_RUN
from afterturn.reactions.temporal.workflow_state import WorkflowState

INVALID: list[tuple[str, list[Any]]] = [
    (protocol.TURN_SETTLED, [{"seq": "x"}]),
    (protocol.TURN_SETTLED, [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{not json"))]),
    (protocol.TURN_SETTLED, [RawValue(Payload(metadata={"encoding": b"binary/unheard-of"}, data=b"\xff"))]),
    (protocol.TURN_SETTLED, [RawValue(Payload())]),
    (protocol.TURN_SETTLED, []),
    (protocol.TURN_SETTLED, [None]),
    (protocol.RETRY, [[]]),
    ("unheard-of", [{"text": "Dear secret"}]),
]


def good(rig: TemporalRig, signal: Signal) -> dict[str, Any]:
    policy = rig.policy()
    return protocol.write_signal(SignalPayload(policy, signal.occurred_at))


async def failed_tasks(rig: TemporalRig) -> int:
    history = await rig.handle().fetch_history()
    return sum(one.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED for one in history.events)


async def test_invalid_payloads_are_counted_and_the_next_one_works(
    open_rig: OpenRig, caplog: pytest.LogCaptureFixture
) -> None:
    """F1, F32: undecodable, missing keys, no time, no payload, an unknown name; then a good one of a newer bridge."""
    probe = Probe()
    async with open_rig(one_probe(probe, **NOW)) as rig:
        signal = await rig.settle()
        await rig.client.start_workflow(
            protocol.REACTION,
            id=rig.handle().id,
            task_queue=protocol.task_queue(rig.lane),
            start_signal=protocol.TURN_SETTLED,
            start_signal_args=[good(rig, signal) | {"occurredAt": "not-a-date"}],
        )
        for name, arguments in INVALID:
            await rig.handle().signal(name, args=arguments)
        await rig.handle().signal(protocol.TURN_SETTLED, good(rig, signal) | {"unheardOf": 1})
        with caplog.at_level(logging.ERROR, "afterturn"):
            async with rig.worker():
                await rig.until_stamped()
                result = await rig.handle().result()
                state = await rig.state()
        assert [run.messages for run in probe.runs] == [("m0",)]
        assert result["rejects"] == state.rejects == len(INVALID) + 1
        assert result["signals"] == len(INVALID) + 2
        assert await failed_tasks(rig) == 0
        lines = [one.getMessage() for one in caplog.records if one.name == "afterturn"]
        assert sum(line.startswith("action=signal_rejected consumer=probe conversation_id=c1") for line in lines) == 9
        assert not any("secret" in line or "not-a-date" in line for line in lines)


@pytest.mark.parametrize(
    "start", [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{")), 5, {"due_at": 5}]
)
async def test_an_undecodable_start_is_a_fresh_start(open_rig: OpenRig, start: Any) -> None:
    probe = Probe()
    async with open_rig(one_probe(probe, **NOW)) as rig:
        signal = await rig.settle()
        await rig.client.start_workflow(
            protocol.REACTION,
            start,
            id=rig.handle().id,
            task_queue=protocol.task_queue(rig.lane),
            start_signal=protocol.TURN_SETTLED,
            start_signal_args=[good(rig, signal)],
        )
        async with rig.worker():
            await rig.until_stamped()
            assert (await rig.handle().result())["rejects"] == 1


@pytest.mark.parametrize("count", [1, 2])
async def test_signals_that_come_before_the_run_are_in_the_first_flush(open_rig: OpenRig, count: int) -> None:
    """F47: the first activation is [start, signal] and [start, signal, signal]."""
    probe = Probe()
    async with open_rig(one_probe(probe, **NOW)) as rig:
        for number in range(count):
            await rig.send(await rig.settle(message_id=f"m{number}"))
        async with rig.worker():
            assert (await rig.handle().result())["runs"] == 1
        assert [run.messages for run in probe.runs] == [tuple(f"m{number}" for number in range(count))]


async def test_a_deadline_that_has_passed_means_now(open_rig: OpenRig) -> None:
    """F32: what is carried through continue-as-new is absolute, and may lie behind us, or before us for a clock
    that was set back."""
    probe = Probe()
    async with open_rig(one_probe(probe, **LATER)) as rig:
        signal = await rig.settle()
        state = WorkflowState()
        long_ago = system_clock() - timedelta(days=400)
        state.turn(SignalPayload(rig.policy(), signal.occurred_at), long_ago)
        handle = await rig.client.start_workflow(
            protocol.REACTION, state, id=rig.handle().id, task_queue=protocol.task_queue(rig.lane)
        )
        async with rig.worker():
            assert (await handle.result())["runs"] == 1
        assert len(probe.runs) == 1
        assert await failed_tasks(rig) == 0


@pytest.mark.thorough
async def test_thousands_of_signals_are_carried_on_and_none_is_lost(open_rig: OpenRig) -> None:
    """Bounded history: it continues as new every 500 signals, keeping count and deadline; then one run sees all.

    Signals come in bursts all the while, so some arrive during continue-as-new.
    """
    probe = Probe()
    async with open_rig(one_probe(probe, **LATER)) as rig:
        signal = await rig.settle()
        async with rig.worker():
            await rig.send(signal)
            first = await rig.state()
            for _ in range(20):
                await rig.send(*[signal] * 100)
            await eventually(lambda: _has(rig, 2_001))
            state = await rig.state()
            assert (state.signals, state.rejects, state.runs) == (2_001, 0, 0)
            assert state.pending is not None
            assert first.pending is not None
            assert state.pending.first_at == first.pending.first_at
            assert state.due_at == first.pending.first_at + timedelta(hours=1)
            await rig.send(Signal("probe", "c1", signal.occurred_at, immediate=True))
            assert (await rig.handle().result())["runs"] == 1
        lengths = []
        async for run in rig.client.list_workflows(f'WorkflowId = "{rig.handle().id}"'):
            lengths.append((run.status, run.history_length))
        assert sum(status is WorkflowExecutionStatus.CONTINUED_AS_NEW for status, _ in lengths) >= 2_001 // (
            SIGNALS_A_RUN + 200
        )
        assert max(length or 0 for _, length in lengths) < 4_500
        assert len(probe.runs) == 1


async def test_a_turn_that_is_signalled_again_has_its_effect_once(open_rig: OpenRig) -> None:
    """F17: before and after the workflow continues as new, and after it has closed."""
    sent: list[str] = []
    probe = Probe()

    async def effect(turns: TurnWindow, ctx: ReactionContext) -> None:
        for one in turns.messages:
            await ctx.once(one.id, send)

    async def send(key: str) -> None:
        sent.append(key)

    probe.act = effect
    async with open_rig(one_probe(probe, **LATER)) as rig:
        signal = await rig.settle()
        async with rig.worker():
            await rig.send(signal)
            (first,) = await _runs(rig)
            await rig.send(*[signal] * SIGNALS_A_RUN)

            async def continued() -> bool:
                return len(await _runs(rig)) > 1

            await eventually(continued)
            await rig.send(signal)
            await rig.send(Signal("probe", "c1", signal.occurred_at, immediate=True))
            await eventually(lambda: _closed(rig))
            closed = (await rig.handle().describe()).run_id
            await rig.send(Signal("probe", "c1", signal.occurred_at, immediate=True))

            async def closed_again() -> bool:
                return (await rig.handle().describe()).run_id != closed and await _closed(rig)

            await eventually(closed_again)
        assert first != closed
        assert sent == ["probe:c1:m0"]
        assert len(probe.runs) == 1


async def _runs(rig: TemporalRig) -> list[str]:
    """Ids of the workflow's runs, as far as visibility knows them."""

    async def known() -> bool:
        return bool([one async for one in rig.client.list_workflows(f'WorkflowId = "{rig.handle().id}"')])

    await eventually(known)
    return [one.run_id async for one in rig.client.list_workflows(f'WorkflowId = "{rig.handle().id}"')]


async def _has(rig: TemporalRig, signals: int) -> bool:
    return (await rig.state()).signals >= signals


async def test_a_steady_reaction_continues_as_new_between_its_runs(open_rig: OpenRig) -> None:
    """A consumer that is never idle: each run finds a turn that has arrived meanwhile."""
    probe = Probe()
    async with open_rig(one_probe(probe, **NOW)) as rig:

        async def next_turn(*_: Any) -> None:
            number = len(probe.runs)
            if number <= 14:
                signal = await rig.settle(message_id=f"m{number}")
                await rig.send(*[signal] * 50)

        probe.act = next_turn
        async with rig.worker():
            await rig.send(await rig.settle())
            await eventually(lambda: _closed(rig))
            await rig.until_stamped()
        assert [message for run in probe.runs for message in run.messages] == [f"m{n}" for n in range(15)]
        runs = [one.status async for one in rig.client.list_workflows(f'WorkflowId = "{rig.handle().id}"')]
        assert WorkflowExecutionStatus.CONTINUED_AS_NEW in runs


async def _closed(rig: TemporalRig) -> bool:
    return (await rig.handle().describe()).status is WorkflowExecutionStatus.COMPLETED


async def test_signals_while_it_closes_are_never_swallowed(open_rig: OpenRig) -> None:
    """Forty turns, each signalled as soon as the one before has run: the workflow is closing just then."""
    probe = Probe()
    async with open_rig(one_probe(probe, **NOW)) as rig:
        async with rig.worker():
            for number in range(40):
                await rig.send(await rig.settle(message_id=f"m{number}"))
                await rig.until_stamped()
        assert [message for run in probe.runs for message in run.messages] == [f"m{n}" for n in range(40)]


async def test_no_history_holds_content(open_rig: OpenRig) -> None:
    """Promise 7: neither what people said nor what a consumer's error says of it."""

    async def fails(turns: Any, _: Any) -> None:
        raise ValueError(f"cannot make sense of {turns.messages[0].text}")

    probe = Probe(act=fails)
    async with open_rig(one_probe(probe, attempts=1, **NOW)) as rig:
        signal = await rig.settle()
        async with rig.worker():
            await rig.send(signal)
            assert (await rig.handle().result())["failed"] is True
        history = (await rig.handle().fetch_history()).to_json()
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


async def test_many_bridges_at_once_start_one_workflow(open_rig: OpenRig) -> None:
    async with open_rig(one_probe(Probe(), **LATER)) as rig:
        signal = await rig.settle()
        await asyncio.gather(*(rig.send(signal) for _ in range(10)))
        history = await rig.handle().fetch_history()
        assert sum(one.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED for one in history.events) == 10
