"""The embedded rooms wired by hand, so that any of them can fail."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from tests.contract.samples import T0, message, turn

from afterturn.bridge.bridge import Bridge
from afterturn.errors import EngineUnavailable
from afterturn.event import TurnSettled, read_event
from afterturn.ledger.ledger import Ledger
from afterturn.model import Stamp, Turn
from afterturn.reactions.embedded import EmbeddedEngine, EmbeddedWorker
from afterturn.reactions.port import RefusedSignal, Signal, Signaler, SignalResult
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow
from afterturn.reactions.run import EffectsPolicy
from afterturn.settle import Settler, SettleResult
from afterturn.sqlite.database import Database
from afterturn.store.port import ConsumerState, Registration, Store
from afterturn.store.sqlite import SqliteStore
from afterturn.stream import port, sqlite
from afterturn.stream.port import Queue, Stream
from afterturn.stream.sqlite import SqliteStream
from afterturn.testing import Faults, ManualClock, faulty

LEASE = timedelta(seconds=30)
GRACE = timedelta(minutes=2)


class EffectLog:
    """The idempotency keys of all effects, in the order of the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def send(self, key: str) -> None:
        self.calls.append(key)


class RecordingConsumer:
    """Stamps the ids of all messages that it has ever seen, and sends one effect for each."""

    def __init__(self, effects: EffectLog | None = None) -> None:
        self.effects = effects or EffectLog()

    async def __call__(self, turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        before = turns.previous.data.get("seen", []) if turns.previous is not None else []
        assert isinstance(before, list)
        ids = [received.id for received in turns.messages]
        for message_id in ids:
            await ctx.once(message_id, self.effects.send)
        return Stamp(data={"seen": [*before, *ids]})


class FlakyEngine:
    """Records the signals that it accepts, and passes them on to ``inner``.

    ``down``: the next calls that fail. ``refusing``: the next signals of a consumer that are refused.
    ``refusals``: the batches that came while it was down.
    """

    def __init__(self, inner: Signaler | None = None) -> None:
        self._inner = inner
        self.down = 0
        self.refusing: dict[str, int] = {}
        self.refusals = 0
        self.taken: list[Signal] = []

    async def ready(self) -> None:
        if self.down:
            self.down -= 1
            raise EngineUnavailable("no answer")

    async def signal(self, signals: Sequence[Signal], receipts: Sequence[port.Receipt]) -> SignalResult:
        if self.down:
            self.down -= 1
            self.refusals += 1
            raise EngineUnavailable("no answer")
        refused = []
        for signal in signals:
            if self.refusing.get(signal.consumer, 0):
                self.refusing[signal.consumer] -= 1
                refused.append(signal)
        accepted = [signal for signal in signals if signal not in refused]
        self.taken += accepted
        acknowledged = (await self._inner.signal(accepted, receipts)).acknowledged if self._inner else False
        assert not (refused and acknowledged)
        return SignalResult([RefusedSignal(signal, "RPCError") for signal in refused], acknowledged)

    def seen(self, consumer: str = "topics") -> list[str]:
        """``c1@3``: the conversation and the second of each signal to a consumer."""
        return [
            f"{signal.conversation_id}@{(signal.occurred_at - T0).seconds}"
            for signal in self.taken
            if signal.consumer == consumer
        ]


class Rig:
    """``one_file``: stream, store and engine share transactions, as in the embedded profile; else each is apart."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        clock: ManualClock,
        *,
        one_file: bool = True,
        faults: Faults | None = None,
        stream_faults: Faults | None = None,
    ) -> None:
        self.faults = faults or Faults.none()
        self.database = faulty(database, self.faults)
        self.registry = registry
        self.clock = clock
        self.store: Store = SqliteStore(self.database, outbox=sqlite.outbox if one_file else None)
        self.stream: Stream = faulty(SqliteStream(self.database, clock), stream_faults or Faults.none())
        self.worker = EmbeddedWorker(
            self.database,
            self.store,
            registry,
            clock,
            random.Random(0),
            name=f"worker-{id(self)}",
            policy=EffectsPolicy(),
            lease=LEASE,
        )
        self.engine = EmbeddedEngine(self.database, registry, clock, acknowledge=sqlite.ack if one_file else None)
        self.signaler = FlakyEngine(self.engine)
        self.bridge = Bridge(self.stream, self.signaler, registry.names, visibility=LEASE)
        self.ledger = Ledger(self.store, self.stream, clock, "worker")
        self.settler = Settler(self.store, self.stream, clock, "worker")

    async def register(self, *names: str, state: ConsumerState = ConsumerState.LIVE) -> None:
        now = self.clock()
        chosen = [one for one in self.registry if not names or one.name in names]
        await self.store.register([Registration(one.name, now, state, one.debounce.max_wait) for one in chosen])

    def turn(self, conversation_id: str, message_id: str) -> Turn:
        return turn(conversation_id, message(message_id, (self.clock() - T0).total_seconds()))

    async def settle(self, conversation_id: str, message_id: str) -> SettleResult:
        return await self.settler.settle(self.turn(conversation_id, message_id))

    async def pump(self, limit: int = 10) -> int:
        """Everything that is visible now, through the bridge."""
        handled = 0
        for queue in Queue:
            while batch := await self.bridge.pump(queue, limit=limit):
                handled += batch
        return handled

    async def work(self) -> None:
        """Everything that can be done now."""
        while await self.pump() + await self.worker.run_due(eager=True):
            pass

    async def drain(self, *, only: Collection[str] | None = None) -> None:
        """What `afterturn drain` does, with hours passing where something waits."""
        for _ in range(60):
            await self.work()
            depth = await self.stream.depth()
            if depth.main + depth.retry + await self.engine.waiting() == 0:
                if not await self.ledger.sweep(grace=timedelta(0), everything=True, only=only):
                    return
            else:
                self.clock.advance(timedelta(hours=1))
        raise AssertionError("this does not end")

    async def seen(self, consumer: str, conversation_id: str) -> object:
        found = await self.store.conversation(conversation_id)
        assert found is not None
        stamp = found.reactions.get(consumer)
        return None if stamp is None else stamp.data.get("seen")

    async def waiting_events(self, queue: Queue = Queue.MAIN) -> list[TurnSettled]:
        """What waits, without taking it."""
        table = {Queue.MAIN: "stream_main", Queue.RETRY: "stream_retry"}[queue]
        rows = await self.database.read(lambda c: c.execute(f"SELECT body FROM {table} ORDER BY position").fetchall())
        return [read_event(body) for (body,) in rows]

    async def put_raw(self, group: str, body: str) -> None:
        """A record that no emitter of ours would write."""
        await self.database.write(lambda c: sqlite.put(c, group, f"raw:{group}:{body[:40]}", body, self.clock(), ""))


def registry_of(*names: str, consumer: RecordingConsumer | None = None, **policy: str) -> Registry:
    """Consumers that count, without a quiet period."""
    registry = Registry()
    for name in names:
        registry.add(name, consumer or RecordingConsumer(), **{"quiet": "0s", "max_wait": "0s", **policy})  # type: ignore[arg-type]
    return registry


@contextmanager
def open_rig(
    path: Path,
    registry: Registry,
    clock: ManualClock | None = None,
    *,
    one_file: bool = True,
    faults: Faults | None = None,
    stream_faults: Faults | None = None,
) -> Iterator[Rig]:
    with Database.open(path, readers=1) as database:
        yield Rig(
            database,
            registry,
            clock or ManualClock(T0),
            one_file=one_file,
            faults=faults,
            stream_faults=stream_faults,
        )
