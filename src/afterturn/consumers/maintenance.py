"""Repair requests become work orders; emergencies raise a red alert.

The stamp: ``open``, the work orders that are taken to be open, newest last (at most 8; each with ``id``, ``category``,
``urgency``, ``things``, ``messageId``, ``openedAt``, ``lastAt``); ``categories`` and ``urgency``, the same in short
for lists and filters; ``workOrders``, how many there ever were; ``alert``, the kind of the newest emergency, or null;
``alerts``, all kinds so far; ``episodes``, each kind's present emergency; ``asked``, what the agent has just asked.

A problem that is mentioned again, while a work order of its category is open, opens no second one, unless both name
things and have none in common (the sink, then the toilet) and the message does not ask after something old. What is
reported as repaired, or was not mentioned for 30 days, is taken to be over. An emergency of one kind is one alert
until it was not mentioned for 12 hours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field, JsonValue

from afterturn.consumers.repairs import RepairNeed, RepairRules, RepairSigns, read_request, read_staff
from afterturn.model import Direction, Message, Record, Role, Stamp, Time, Urgency, WorkOrder
from afterturn.reactions.registry import Handler, ReactionContext, TurnWindow

MAX_OPEN = 8
FORGOTTEN_AFTER = timedelta(days=30)
EPISODE_ENDS_AFTER = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Alert:
    """An emergency, told without content; ``at`` is the time of the message that raised it.

    A repeat of the same alert is equal to the first one, ``idempotency_key`` included.
    """

    conversation_id: str
    property_id: str | None
    kind: str
    message_id: str
    at: datetime
    idempotency_key: str


AlertSink = Callable[[Alert], Awaitable[None]]
"""Wakes somebody up. May be called again with the same key after a crash."""


class OpenRepair(Record):
    """A work order that is taken to be open."""

    id: str
    category: str
    urgency: Urgency
    things: tuple[str, ...] = ()
    message_id: str
    opened_at: Time
    last_at: Time


class Episode(Record):
    """One emergency of a kind: the message that raised it, when, and when it was last spoken of."""

    message_id: str
    at: Time
    last_at: Time


class MaintenanceState(Record):
    """What is carried from message to message; of constant size."""

    open: tuple[OpenRepair, ...] = ()
    work_orders: int = 0
    alert: str | None = None
    alerts: tuple[str, ...] = ()
    episodes: dict[str, Episode] = Field(default_factory=dict)
    asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageReport:
    """A message with what it says about repairs. ``asked``: what stands open as a question after it."""

    message: Message
    reading: RepairSigns
    asked: frozenset[str] = frozenset()


RepairJudge = Callable[[TurnWindow, frozenset[str]], Awaitable[list[MessageReport]]]
"""Reads a window's messages, given the emergencies that the agent asked about just before them."""


def by_rules(rules: RepairRules) -> RepairJudge:
    """The judge that needs no key and no download."""

    async def judge(window: TurnWindow, asked: frozenset[str]) -> list[MessageReport]:
        return read_messages(window.messages, rules, asked)

    return judge


def maintenance_handler(judge: RepairJudge, alert: AlertSink | None = None) -> Handler:
    """The consumer: writes work orders with its stamp, and raises each alert once, behind a claim."""

    async def maintenance(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        before = _restore(window)
        reports = await judge(window, frozenset(before.asked))
        state, orders = follow(before, reports, window.conversation.id, window.conversation.property_id)
        if alert is not None:
            for kind in dict.fromkeys(kind for report in reports for kind in report.reading.emergencies):
                await _raise_alert(alert, window, ctx, kind, state.episodes[kind])
        return Stamp(data=_data(state), work_orders=orders)

    return maintenance


def read_messages(messages: Iterable[Message], rules: RepairRules, asked: frozenset[str]) -> list[MessageReport]:
    """Only what the customer writes is a request; the staff's words tell what was asked, and what is done."""
    reports = []
    for message in messages:
        if message.direction is Direction.INBOUND and message.role is Role.CUSTOMER:
            reading, asked = read_request(message.text, rules, asked), frozenset()
        elif message.role is Role.SYSTEM:
            continue
        else:
            asked, done = read_staff(message.text, rules)
            reading = RepairSigns(resolved=done)
        reports.append(MessageReport(message, reading, asked))
    return reports


def follow(
    state: MaintenanceState, reports: Iterable[MessageReport], conversation_id: str, property_id: str | None
) -> tuple[MaintenanceState, tuple[WorkOrder, ...]]:
    """The state after some more messages, and the work orders to write: new ones, and those that became more urgent.

    The state is the same however the messages are cut into windows.
    """
    changed: dict[str, OpenRepair] = {}
    for report in reports:
        before = {repair.id: repair.urgency for repair in state.open}
        state = _after(state, report, conversation_id)
        for repair in state.open:
            if before.get(repair.id) != repair.urgency:
                changed[repair.id] = repair
    orders = tuple(
        WorkOrder(
            id=repair.id,
            conversation_id=conversation_id,
            property_id=property_id,
            category=repair.category,
            urgency=repair.urgency,
            message_id=repair.message_id,
            opened_at=repair.opened_at,
        )
        for repair in changed.values()
    )
    return state, orders


def work_order_id(conversation_id: str, category: str, message_id: str) -> str:
    """The same cause has the same id; hashed, since the three together can be longer than an id may be."""
    cause = "\0".join((conversation_id, category, message_id))
    return f"wo-{hashlib.sha256(cause.encode()).hexdigest()[:32]}"


def _after(state: MaintenanceState, report: MessageReport, conversation_id: str) -> MaintenanceState:
    message, reading = report.message, report.reading
    repairs = [repair for repair in state.open if message.at - repair.last_at <= FORGOTTEN_AFTER]
    if reading.resolved:
        repairs = _without_resolved(repairs, reading)
    elif reading.urgent and not reading.problems and repairs:
        repairs[-1] = _raised(repairs[-1], Urgency.URGENT, message.at)
    opened = 0
    for problem in reading.problems if not reading.resolved else ():
        index = _same(repairs, problem, follow_up=reading.follow_up)
        if index is None:
            repairs.append(_opened(problem, message, conversation_id))
            opened += 1
        else:
            same = _raised(repairs[index], problem.urgency, message.at)
            repairs[index] = same.model_copy(update={"things": tuple(sorted({*same.things, *problem.things}))})
    episodes = dict(state.episodes)
    for kind in reading.emergencies:
        episodes[kind] = _spoken_of(episodes.get(kind), message)
    return MaintenanceState(
        open=tuple(repairs[-MAX_OPEN:]),
        work_orders=state.work_orders + opened,
        alert=reading.emergencies[0] if reading.emergencies else state.alert,
        alerts=tuple(sorted({*state.alerts, *reading.emergencies})),
        episodes=episodes,
        asked=tuple(sorted(report.asked)),
    )


def _spoken_of(present: Episode | None, message: Message) -> Episode:
    """The emergency that a mention belongs to: the present one, or a new one where that is long over."""
    if present is None or message.at - present.last_at > EPISODE_ENDS_AFTER:
        return Episode(message_id=message.id, at=message.at, last_at=message.at)
    return present.model_copy(update={"last_at": max(present.last_at, message.at)})


def _same(repairs: list[OpenRepair], problem: RepairNeed, *, follow_up: bool) -> int | None:
    """Where the open work order stands that this problem belongs to; the newest first."""
    for index in range(len(repairs) - 1, -1, -1):
        repair = repairs[index]
        if repair.category != problem.category:
            continue
        if follow_up or not repair.things or not problem.things or problem.things.intersection(repair.things):
            return index
    if problem.category == "other" and repairs and follow_up:
        return len(repairs) - 1
    return None


def _without_resolved(repairs: list[OpenRepair], reading: RepairSigns) -> list[OpenRepair]:
    """What is done is over: the categories that the message names, or the newest one where it names none."""
    named = {problem.category for problem in reading.problems}
    return [repair for repair in repairs if repair.category not in named] if named else repairs[:-1]


def _opened(problem: RepairNeed, message: Message, conversation_id: str) -> OpenRepair:
    return OpenRepair(
        id=work_order_id(conversation_id, problem.category, message.id),
        category=problem.category,
        urgency=problem.urgency,
        things=tuple(sorted(problem.things)),
        message_id=message.id,
        opened_at=message.at,
        last_at=message.at,
    )


def _raised(repair: OpenRepair, urgency: Urgency, at: datetime) -> OpenRepair:
    higher = min(repair.urgency, urgency, key=lambda value: value.rank)
    return repair.model_copy(update={"urgency": higher, "last_at": max(repair.last_at, at)})


async def _raise_alert(sink: AlertSink, window: TurnWindow, ctx: ReactionContext, kind: str, episode: Episode) -> None:
    async def effect(idempotency_key: str) -> None:
        await sink(
            Alert(
                conversation_id=window.conversation.id,
                property_id=window.conversation.property_id,
                kind=kind,
                message_id=episode.message_id,
                at=episode.at,
                idempotency_key=idempotency_key,
            )
        )

    await ctx.once(f"red-alert:{kind}:{episode.message_id}", effect)


def _restore(window: TurnWindow) -> MaintenanceState:
    data = dict(window.previous.data) if window.previous else {}
    known = {field.alias or name for name, field in MaintenanceState.model_fields.items()}
    return MaintenanceState.model_validate({key: value for key, value in data.items() if key in known})


def _data(state: MaintenanceState) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = state.to_json()
    urgencies = [repair.urgency for repair in state.open]
    data["categories"] = list[JsonValue](sorted({repair.category for repair in state.open}))
    data["urgency"] = min(urgencies, key=lambda urgency: urgency.rank).value if urgencies else None
    return data
