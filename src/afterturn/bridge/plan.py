"""What to do with a batch of deliveries: pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from afterturn.errors import InvalidEvent
from afterturn.event import TurnSettled, read_event
from afterturn.model import FlushMode
from afterturn.reactions.port import Signal
from afterturn.stream.port import Delivery

_BACKOFF = (timedelta(seconds=5), timedelta(minutes=2), timedelta(hours=1), timedelta(hours=12))


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """``valid``: deliveries with their event, in order. ``invalid``: deliveries for the dead letters, with the reason.

    ``unknown_consumer``: records of the retry queue whose consumer this bridge does not know (another version may).
    ``signals``: one for each consumer and conversation.
    """

    valid: tuple[tuple[Delivery, TurnSettled], ...]
    invalid: tuple[tuple[Delivery, str], ...]
    unknown_consumer: tuple[Delivery, ...]
    signals: tuple[Signal, ...]


def plan_batch(batch: Sequence[Delivery], consumers: Collection[str]) -> BatchPlan:
    """Validate each record, and merge the events of one conversation: the newest time, and immediate wins."""
    valid: list[tuple[Delivery, TurnSettled]] = []
    invalid: list[tuple[Delivery, str]] = []
    unknown: list[Delivery] = []
    signals: dict[tuple[str, str], Signal] = {}
    for delivery in batch:
        if not delivery.group:
            invalid.append((delivery, "the record has no message group"))
            continue
        try:
            event = read_event(delivery.body)
        except InvalidEvent as error:
            invalid.append((delivery, str(error)))
            continue
        if delivery.consumer is not None and delivery.consumer not in consumers:
            unknown.append(delivery)
            continue
        valid.append((delivery, event))
        for consumer in consumers if delivery.consumer is None else (delivery.consumer,):
            key = (consumer, event.conversation_id)
            signal = Signal(consumer, event.conversation_id, event.occurred_at, event.immediate, event)
            signals[key] = _merged(signals.get(key), signal)
    return BatchPlan(tuple(valid), tuple(invalid), tuple(unknown), tuple(signals.values()))


def held_up(batch: Sequence[Delivery], failed: Collection[Delivery]) -> list[Delivery]:
    """The deliveries that must not be handled: the failed ones, and those behind them in their groups."""
    blocked: set[tuple[str | None, str]] = set()
    held = []
    for delivery in batch:
        group = (delivery.consumer, delivery.group)
        if delivery in failed or group in blocked:
            blocked.add(group)
            held.append(delivery)
    return held


def backoff(receives: int) -> timedelta:
    """How long a record stays invisible after its n-th receive failed: seconds first, hours in the end.

    The last of five receives comes 13 hours after the first, so records outlast an outage of half a day. A record that
    fails then goes to the dead letters without another wait.
    """
    return _BACKOFF[receives - 1] if receives <= len(_BACKOFF) else timedelta(0)


def _merged(known: Signal | None, signal: Signal) -> Signal:
    if known is None:
        return signal
    newest = known if known.occurred_at >= signal.occurred_at else signal
    immediate = known.immediate or signal.immediate
    event = newest.event
    if event is not None and immediate and not newest.immediate:
        event = event.model_copy(update={"flush_mode": FlushMode.IMMEDIATE})
    return replace(newest, immediate=immediate, event=event)
