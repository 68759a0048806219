"""The engine port over a client: what it refuses, what it cannot do without Temporal, and what it can tell."""

from __future__ import annotations

import asyncio
import socket
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from tests.contract.reactions.rig import Probe, one_probe, registry_of
from tests.contract.reactions.temporal_servers import Server, dev_server
from tests.unit.temporal.rig import LATER, NOW, OpenRig, TemporalRig, eventually

from afterturn.clock import system_clock
from afterturn.errors import ConfigError, EngineUnavailable
from afterturn.event import read_event
from afterturn.reactions.port import Signal
from afterturn.reactions.registry import Registry
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.engine import Address, Connection, TemporalEngine
from afterturn.sqlite.database import Database


def a_dead_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class TestSignals:
    async def test_a_consumer_that_refuses_is_named_and_the_others_are_signalled(self, open_rig: OpenRig) -> None:
        registry = one_probe(Probe(), **LATER)
        registry.add_foreign("sick", workflow="w", signal="s", task_queue="q" * 2_000)
        async with open_rig(registry) as rig:
            signal = await rig.settle()
            bad = Signal("sick", "c1", signal.occurred_at, event=signal.event)
            accepted = await rig.engine.signal([signal, bad], [])
            assert [(one.signal.consumer, one.error) for one in accepted.refused] == [("sick", "invalid_argument")]
            assert not accepted.acknowledged
            assert (await rig.handle().describe()).id

    @pytest.mark.parametrize("kind", ["nobody listens", "no such namespace"])
    async def test_temporal_as_a_whole_is_unavailable(self, open_rig: OpenRig, server: Server, kind: str) -> None:
        """Nothing may be acknowledged; and it is found out in seconds."""
        target = f"127.0.0.1:{a_dead_port()}" if kind == "nobody listens" else server.target
        async with open_rig(one_probe(Probe())) as rig:
            connection = Connection(Address(target=target, namespace="elsewhere"), timeout=timedelta(milliseconds=500))
            engine = TemporalEngine(connection, rig.registry, rig.store, system_clock, lane=rig.lane)
            signal = await rig.settle()
            async with asyncio.timeout(60):
                for ask in (engine.signal([signal] * 3, []), engine.waiting(), engine.oldest(), engine.flush(set())):
                    with pytest.raises(EngineUnavailable):
                        await ask

    async def test_a_server_that_takes_calls_and_never_answers_is_unavailable(self, open_rig: OpenRig) -> None:
        with socket.socket() as mute:
            mute.bind(("127.0.0.1", 0))
            mute.listen()
            async with open_rig(one_probe(Probe())) as rig:
                address = Address(target=f"127.0.0.1:{mute.getsockname()[1]}")
                connection = Connection(address, timeout=timedelta(milliseconds=300))
                engine = TemporalEngine(connection, rig.registry, rig.store, system_clock, lane=rig.lane)
                async with asyncio.timeout(60):
                    with pytest.raises(EngineUnavailable, match="does not answer"):
                        await engine.signal([await rig.settle()], [])

    async def test_a_temporal_that_went_away_is_unavailable(self, tmp_path: Path) -> None:
        """Also for an engine that was connected."""
        with dev_server() as short_lived:
            client = await Client.connect(short_lived.target)
            with Database.open(tmp_path / "afterturn.db", readers=1) as database:
                rig = TemporalRig(short_lived, client, database, one_probe(Probe(), **LATER))
                signal = await rig.settle()
                await rig.send(signal)
                await asyncio.to_thread(short_lived.stop)
                async with asyncio.timeout(60):
                    with pytest.raises(EngineUnavailable):
                        await rig.engine.signal([signal], [])

    async def test_an_unknown_consumer_takes_nothing_with_it(self, open_rig: OpenRig) -> None:
        async with open_rig(one_probe(Probe(), **LATER)) as rig:
            signal = await rig.settle()
            with pytest.raises(ConfigError, match="stranger"):
                await rig.engine.signal([signal, Signal("stranger", "c1", signal.occurred_at)], [])
            assert [one async for one in rig.client.list_workflows(f'WorkflowId = "{rig.handle().id}"')] == []

    async def test_unregistered_search_attributes_stop_nothing(self, open_rig: OpenRig) -> None:
        probe = Probe()
        async with open_rig(one_probe(probe, **NOW)) as rig:
            rig.engine = rig.another_engine(search_attributes=True)
            await rig.send(await rig.settle())
            async with rig.worker():
                await rig.until_stamped()


class TestLooking:
    async def test_what_waits_is_counted_and_the_longest_wait_is_reported(self, open_rig: OpenRig) -> None:
        """Visibility comes a little later than the truth."""
        async with open_rig(registry_of(probe=(Probe(), LATER), other=(Probe(), LATER))) as rig:
            assert (await rig.engine.waiting(), await rig.engine.oldest()) == (0, None)
            for conversation_id in ("a", 'b"\\', "c/d"):
                await rig.send(await rig.settle(conversation_id))

            async def all_three() -> bool:
                return await rig.engine.waiting() == 3

            await eventually(all_three)
            oldest = await rig.engine.oldest()
            assert isinstance(oldest, datetime)
            assert oldest == (await rig.handle("a").describe()).start_time

    async def test_another_lane_is_not_looked_at(self, open_rig: OpenRig) -> None:
        async with open_rig(one_probe(Probe(), **LATER)) as rig:
            await rig.send(await rig.settle())
            other = rig.another_engine(lane=f"{rig.lane}-x")
            await eventually(lambda: _waits(rig))
            assert await other.waiting() == 0

    async def test_an_eager_drain_skips_quiet_periods(self, open_rig: OpenRig) -> None:
        """Of what waits already, and of what is signalled meanwhile."""
        probe = Probe()
        async with open_rig(one_probe(probe, **LATER)) as rig:
            await rig.send(await rig.settle("a"))
            await eventually(lambda: _waits(rig))
            async with rig.worker(engine=rig.engine, eager=True):
                await rig.until_stamped("a")
                await rig.send(await rig.settle("b"))
                await rig.until_stamped("b")
            assert [run.conversation_id for run in probe.runs] == ["a", "b"]

    async def test_an_eager_drain_skips_what_a_bridge_elsewhere_signals_meanwhile(self, open_rig: OpenRig) -> None:
        """That one knows of no drain; and the reaction was signalled once already, before it had this turn."""
        probe = Probe()
        async with open_rig(one_probe(probe, **LATER)) as rig:
            elsewhere = rig.another_engine()

            async def another_turn(*_: Any) -> None:
                probe.act = None
                await elsewhere.signal([await rig.settle(message_id="m1")], [])

            probe.act = another_turn
            await rig.send(await rig.settle())
            await eventually(lambda: _waits(rig))
            async with rig.worker(engine=rig.engine, eager=True):
                await rig.until_stamped()
            assert [run.messages for run in probe.runs] == [("m0",), ("m1",)]


async def _waits(rig: TemporalRig) -> bool:
    return await rig.engine.waiting() == 1


class TestWorkers:
    async def test_a_worker_without_the_consumer_says_so_and_loses_nothing(self, open_rig: OpenRig) -> None:
        """Others are unaffected; the run happens as soon as a worker with it comes."""
        strange, well = Probe(), Probe()
        async with open_rig(registry_of(probe=(strange, NOW), well=(well, NOW))) as rig:
            signal = await rig.settle()
            await rig.send(signal, Signal("well", "c1", signal.occurred_at))
            async with rig.worker(registry_of(well=(well, NOW))):
                await rig.until_stamped(consumer="well")

                async def logged() -> bool:
                    pending = (await rig.handle().describe()).raw_description.pending_activities
                    return any("has no consumer 'probe' (it has: well)" in one.last_failure.message for one in pending)

                await eventually(logged)
                assert strange.runs == []
            async with rig.worker():
                await rig.until_stamped()
            assert [run.attempt for run in strange.runs] == [1]

    async def test_a_consumer_that_hangs_delays_no_other(self, open_rig: OpenRig) -> None:
        """Its slots are taken; what finds none free comes back later, and is run then."""
        gate = asyncio.Event()

        async def hang(*_: Any) -> None:
            await gate.wait()

        sick, well = Probe(act=hang), Probe()
        registry = registry_of(probe=(sick, NOW), well=(well, NOW))
        async with open_rig(registry) as rig, rig.worker(slots=2, grace=timedelta(seconds=5)):
            for number in range(8):
                signal = await rig.settle(f"c{number}")
                await rig.send(signal, Signal("well", signal.conversation_id, signal.occurred_at))
            for number in range(8):
                await rig.until_stamped(f"c{number}", "well")
            assert len(sick.runs) == 2
            gate.set()
            for number in range(8):
                await rig.until_stamped(f"c{number}")

    async def test_stopping_lets_what_has_begun_finish(self, open_rig: OpenRig) -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def hold(*_: Any) -> None:
            begun.set()
            await gate.wait()

        probe = Probe(act=hold)
        async with open_rig(one_probe(probe, **NOW)) as rig:
            async with rig.worker(grace=timedelta(seconds=10)):
                await rig.send(await rig.settle())
                await begun.wait()
                asyncio.get_running_loop().call_later(0.3, gate.set)
            stamp = (await rig.conversation()).reactions["probe"]
            assert stamp.through is not None
            assert len(probe.runs) == 1

    async def test_what_is_cut_off_by_a_stop_is_run_by_the_next_worker(self, open_rig: OpenRig) -> None:
        """Soon, and without using up an attempt."""
        begun, gate = asyncio.Event(), asyncio.Event()

        async def hold(*_: Any) -> None:
            begun.set()
            await gate.wait()

        probe = Probe(act=hold)
        async with open_rig(one_probe(probe, attempts=1, **NOW)) as rig:
            async with rig.worker():
                await rig.send(await rig.settle())
                await begun.wait()
            gate.set()
            async with rig.worker():
                await rig.until_stamped()
            assert [run.attempt for run in probe.runs] == [1, 1]

    async def test_a_worker_that_is_killed_in_a_run_is_replaced_soon(self, open_rig: OpenRig, tmp_path: Path) -> None:
        """SIGKILL: no heartbeat comes any more, and after the lease another worker has the run."""
        probe = Probe()
        async with open_rig(one_probe(probe, attempts=1, **NOW)) as rig:
            rig.engine = rig.another_engine(lease=timedelta(seconds=1))
            target = rig.connection.address.target
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.unit.temporal.hanging_worker"),
                *(target, rig.lane, tmp_path / "afterturn.db"),
                stdout=asyncio.subprocess.PIPE,
            )
            await rig.send(await rig.settle())
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), 240) == b"running c1\n"
            process.kill()
            await process.wait()
            killed = system_clock()
            async with rig.worker():
                await rig.until_stamped()
            assert system_clock() - killed < timedelta(seconds=15)
            assert [run.attempt for run in probe.runs] == [1]

    @pytest.mark.parametrize(("lease", "most"), [(2, 2), (300, 5)])
    async def test_the_next_step_of_a_dead_workers_reaction_waits_no_longer_than_its_lease(
        self, open_rig: OpenRig, lease: int, most: int
    ) -> None:
        """By default Temporal keeps ten seconds for the worker that had a workflow in memory, on top of the lease."""
        async with open_rig(one_probe(Probe(), **NOW)) as rig:
            runner = rig.runner(lease=timedelta(seconds=lease))
            assert runner.worker(rig.client).config()["sticky_queue_schedule_to_start_timeout"] == timedelta(
                seconds=most
            )

    async def test_a_worker_waits_for_a_temporal_that_is_down(self, open_rig: OpenRig) -> None:
        async with open_rig(one_probe(Probe())) as rig:
            rig.connection = Connection(Address(target=f"127.0.0.1:{a_dead_port()}"))
            async with rig.worker() as task:
                await asyncio.sleep(0.3)
                assert not task.done()


@workflow.defn(name="foreign", sandboxed=False)
class ForeignWorkflow:
    """Stands for a workflow of another program: takes one event, and stamps through afterturn's activity."""

    def __init__(self) -> None:
        self.event: dict[str, Any] = {}

    @workflow.signal(name="turn_settled")
    def take(self, event: dict[str, Any]) -> None:
        self.event = event

    @workflow.run
    async def run(self) -> dict[str, Any]:
        await workflow.wait_condition(lambda: bool(self.event))
        self.event["stamped"] = await workflow.execute_activity(
            protocol.STAMP,
            {
                "consumer": "foreign",
                "conversationId": self.event["conversationId"],
                "through": self.event["occurredAt"],
                "data": {"by": "foreign"},
            },
            task_queue=f"{workflow.info().workflow_id.split('/')[0]}-reactions",
            start_to_close_timeout=timedelta(seconds=10),
        )
        return self.event


class TestForeign:
    async def test_it_receives_the_event_and_stamps_through_an_activity(self, open_rig: OpenRig) -> None:
        registry = one_probe(Probe(), **LATER)
        async with open_rig(registry) as rig:
            registry.add_foreign(
                "foreign", workflow="foreign", signal="turn_settled", task_queue=f"{rig.lane}-f", max_wait="5m"
            )
            signal = await rig.settle()
            assert signal.event is not None
            await rig.send(Signal("foreign", "c1", signal.occurred_at, event=signal.event))
            foreign = Worker(
                rig.client,
                task_queue=f"{rig.lane}-f",
                workflows=[ForeignWorkflow],
                workflow_runner=UnsandboxedWorkflowRunner(),
            )
            async with rig.worker(), foreign:
                event = await rig.handle(consumer="foreign").result()
            assert event.pop("stamped") is True
            assert event == signal.event.model_dump(mode="json", by_alias=True, exclude_none=True)
            assert read_event(signal.event.to_json()) == signal.event
            stamp = (await rig.conversation()).reactions["foreign"]
            assert (stamp.through, dict(stamp.data)) == (signal.occurred_at, {"by": "foreign"})

    def test_a_declaration_has_to_make_sense(self) -> None:
        registry = one_probe(Probe())
        with pytest.raises(ConfigError, match="declared twice"):
            registry.add_foreign("probe", workflow="w", signal="s", task_queue="q")
        with pytest.raises(ConfigError, match="task_queue is empty"):
            registry.add_foreign("f", workflow="w", signal="s", task_queue=" ")
        with pytest.raises(ConfigError, match="not a duration"):
            registry.add_foreign("f", workflow="w", signal="s", task_queue="q", max_wait="soon")
        assert registry.signalled == ("probe",)
        registry.add_foreign("f", workflow="w", signal="s", task_queue="q")
        other = Registry()
        other.extend(registry)
        assert other.signalled == ("probe", "f")
        assert other.names == ("probe",)
