"""What happens in a cycle, out of its seed alone. Pure.

A cycle is a fresh file, some rounds in which workers are killed, and one inspection at the end. In each round some
workers run side by side; the victims among them are killed at a moment or at a point, the others are stopped. Some of
the others stand still meanwhile, as a process does whose machine is suspended.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tests.crash.points import POINTS_OF

from afterturn.model import Channel, ConversationMeta, Direction, Message, Role

INBOUND = (
    "The sink in the kitchen is leaking, can you send somebody?",
    "I smell gas in the hallway, what shall I do?",
    "Thank you, that works for me.",
    "When can I come and see the apartment?",
    "The heater is broken again and it is freezing in here.",
    "Water is pouring through the ceiling!",
    "ok",
    "¿Puedo pagar el alquiler mañana? 🙏",
    "My lease ends in June and I would like to renew it.",
    "Is water included in the rent?",
)
OUTBOUND = ("I will pass that on right away.", "Yes, gladly. Anything else?", "Somebody will call you today.", "👍")
IDS = ("c-{}", "#{}", "a:b:{}", "100%-{}", "mø{}", "with space {}")


class Part(StrEnum):
    """What a worker does."""

    SETTLE = "settle"
    IMPORT = "import"
    REACT = "react"
    DRAIN = "drain"
    SCENARIO = "scenario"
    """Settles everything, then drains."""


class Verb(StrEnum):
    SETTLE = "settle"
    SAVE = "save"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the writer; its messages are stored together or not at all."""

    verb: Verb
    conversation: ConversationMeta
    messages: tuple[Message, ...] = ()
    key: str | None = None

    @property
    def message_ids(self) -> tuple[str, ...]:
        return tuple(message.id for message in self.messages)


@dataclass(frozen=True, slots=True)
class Moment:
    """At the ``nth`` pass of a point, and after so many seconds at the latest; without a point just then.

    The seconds count from when the worker has opened the file, or from its birth where ``at_birth`` is set.
    """

    after: float
    point: str | None = None
    nth: int = 1
    at_birth: bool = False


@dataclass(frozen=True, slots=True)
class Worker:
    """``kill`` None: it is stopped once the victims of its round are dead.

    ``freeze``: when it stands still for longer than its leases hold, and then goes on as if nothing had been.
    """

    part: Part
    kill: Moment | None = None
    freeze: Moment | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """``steps``: how many steps of each conversation are released. ``abandon``: give up first unanswered calls."""

    workers: tuple[Worker, ...]
    steps: int
    linger: float = 0.0
    abandon: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """``checkpoint``: pages after which SQLite moves its log into the file. ``deaf``: one in so many calls is heard
    and not answered (0: none). ``pace``: the longest pause between two steps, and inside a reaction."""

    threads: tuple[tuple[Step, ...], ...]
    dialogues: tuple[dict[str, Any], ...]
    rounds: tuple[Round, ...]
    checkpoint: int = 1000
    deaf: int = 0
    pace: float = 0.02
    lease: timedelta = timedelta(milliseconds=300)


_S, _I, _R, _D = Part.SETTLE, Part.IMPORT, Part.REACT, Part.DRAIN
_CASES: tuple[tuple[tuple[Part, bool], ...], ...] = (
    ((_S, True),),
    ((_I, True),),
    ((_D, True),),
    ((_S, True), (_R, False)),
    ((_S, False), (_R, True)),
    ((_S, True), (_R, True)),
    ((_R, True), (_R, False), (_S, False)),
    ((_R, True), (_R, True), (_S, False)),
    ((_R, True), (_R, True), (_I, True)),
    ((_S, True), (_S, False), (_R, True)),
    ((_I, True), (_I, False), (_R, True)),
    ((_I, True), (_S, True), (_R, False)),
    ((_D, True), (_D, True)),
    ((_D, True), (_S, True), (_R, True)),
)
"""Who runs side by side, and who of them dies."""


def make_plan(seed: int, cycle: int, now: datetime) -> Plan:
    """The same for the same seed and cycle; ``now`` only dates the messages."""
    chance = random.Random(f"afterturn crash {seed} {cycle}")
    threads = tuple(_thread(chance, number, now) for number in range(chance.randint(4, 7)))
    count = chance.randint(5, 7)
    longest = max(map(len, threads))
    rounds = tuple(_round(chance, -(-longest * (number + 1) // count)) for number in range(count))
    return Plan(
        threads=threads,
        dialogues=tuple(_dialogue(chance, number) for number in range(chance.randint(4, 10))),
        rounds=rounds,
        checkpoint=chance.choice((1000, 1000, 4, 16)),
        deaf=chance.choice((0, 0, 0, 0, 0, 0, 0, 9)),
        pace=chance.choice((0.0, 0.005, 0.02)),
    )


def small_plan(point: str, nth: int, now: datetime) -> Plan:
    """A scenario that ends by itself, killed at one exact point: walk ``nth`` until nobody dies."""
    chance = random.Random("afterturn crash scenario")
    threads = tuple(_thread(chance, number, now, turns=2) for number in range(3))
    killed = Worker(Part.SCENARIO, Moment(after=20.0, point=point, nth=nth))
    return Plan(
        threads=threads,
        dialogues=(),
        rounds=(Round((killed,), steps=max(map(len, threads))),),
        checkpoint=16,
        pace=0.0,
        lease=timedelta(milliseconds=150),
    )


def _round(chance: random.Random, steps: int) -> Round:
    case = chance.choice(_CASES)
    twins = sum(part is Part.SETTLE for part, _ in case) > 1
    return Round(
        workers=tuple(_worker(chance, part, dies=dies) for part, dies in case),
        steps=steps,
        linger=chance.uniform(0, 0.05),
        # Two settlers that gave up on different calls would settle one conversation out of order.
        abandon=not twins and chance.random() < 0.4,
    )


def _worker(chance: random.Random, part: Part, *, dies: bool) -> Worker:
    if dies:
        return Worker(part, kill=_moment(chance, part))
    return Worker(part, freeze=_moment(chance, part) if chance.random() < 0.25 else None)


def _moment(chance: random.Random, part: Part) -> Moment:
    drawn = chance.random()
    if drawn < 0.1:
        return Moment(after=chance.uniform(0, 0.04), at_birth=True)
    if drawn < 0.4:
        return Moment(after=chance.choice((chance.uniform(0, 0.05), chance.uniform(0.03, 0.25))))
    nth = 1 + min(int(chance.expovariate(1 / 4)), 40)
    return Moment(after=0.3, point=chance.choice(POINTS_OF[part.value]), nth=nth)


def _thread(chance: random.Random, number: int, now: datetime, turns: int | None = None) -> tuple[Step, ...]:
    meta = ConversationMeta(
        id=chance.choice(IDS).format(number),
        channel=list(Channel)[number % len(Channel)],
        property_id=chance.choice((None, "oak", "elm")),
    )
    at = now - timedelta(hours=3)
    steps: list[Step] = []
    count = 0
    keyed = chance.random() < 0.5
    for turn in range(turns or chance.randint(8, 20)):
        messages = []
        for inbound in (True, False) if chance.random() < 0.6 else (True, True, False):
            at += timedelta(milliseconds=chance.randint(1, 60_000))
            count += 1
            messages.append(_message(chance, f"m{count}", at, inbound=inbound))
        if meta.channel is Channel.VOICE:
            steps += [Step(Verb.SAVE, meta, (message,)) for message in messages]
            steps.append(Step(Verb.COMPLETE, meta, key=f"call-{turn}"))
        else:
            steps.append(Step(Verb.SETTLE, meta, tuple(messages), key=f"turn-{turn}" if keyed else None))
    return tuple(steps)


def _message(chance: random.Random, message_id: str, at: datetime, *, inbound: bool) -> Message:
    return Message(
        id=message_id,
        direction=Direction.INBOUND if inbound else Direction.OUTBOUND,
        role=Role.CUSTOMER if inbound else Role.AGENT,
        text=chance.choice(INBOUND if inbound else OUTBOUND),
        at=at,
    )


def _dialogue(chance: random.Random, number: int) -> dict[str, Any]:
    turns: list[dict[str, str]] = []
    for _ in range(chance.randint(1, 5)):
        turns += [{"speaker": "user", "text": chance.choice(INBOUND)}] * chance.choice((1, 1, 2))
        turns.append({"speaker": "agent", "text": chance.choice(OUTBOUND)})
    return {"dialogue_id": f"imported-{number}", "services": ["Homes_1"], "turns": turns}


def released(threads: Sequence[Sequence[Step]], steps: int) -> list[list[Step]]:
    """The first steps of each conversation."""
    return [list(thread[:steps]) for thread in threads]
