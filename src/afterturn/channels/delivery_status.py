"""Delivery status of outbound messages, in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from afterturn.channels.outbox import send_problem
from afterturn.channels.state import DeliveryStatus, SendState, SendStatus, message_key
from afterturn.model import SendProblem
from afterturn.store.state import StateStore

_WORDS = {
    SendState.SENT: "sent",
    SendState.WAITING: "waits to be sent",
    SendState.UNDELIVERABLE: "was not sent",
    SendState.UNCERTAIN: "may not have been sent",
    SendState.GIVEN_UP: "was not sent, and is not tried any more",
}
_LOST = {"bounced", "canceled", "complained", "failed", "rejected", "undelivered"}
"""What a provider reports if a message did not reach the recipient."""

_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class Sending:
    """A message's send status. ``deliveries``: what the provider reported of its parts."""

    status: SendStatus
    deliveries: tuple[DeliveryStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """A message's delivery status as text. ``bad``: a person has to act on it."""

    text: str
    bad: bool


async def sending_of(store: StateStore, conversation_id: str, ids: Sequence[str]) -> Mapping[str, Sending]:
    """The status of the conversation's messages that were to be sent, by message id."""
    messages = {message_key(conversation_id, message_id): message_id for message_id in ids}
    statuses: dict[str, SendStatus] = {}
    for part in _parts(list(messages)):
        statuses |= await store.get_all(SendStatus, part)
    deliveries: dict[str, DeliveryStatus] = {}
    for part in _parts([provider_id for status in statuses.values() for provider_id in status.provider_ids]):
        deliveries |= await store.get_all(DeliveryStatus, part)
    return {
        messages[key]: Sending(status, tuple(deliveries[name] for name in status.provider_ids if name in deliveries))
        for key, status in statuses.items()
    }


def delivery_summary(sending: Sending | None) -> DeliverySummary | None:
    """The status as text; None if the message was not to be sent."""
    if sending is None:
        return None
    status = sending.status
    words = _WORDS[status.state]
    if status.state is SendState.SENT and sending.deliveries:
        worst = next((delivery for delivery in sending.deliveries if delivery.state in _LOST), sending.deliveries[-1])
        words = f"sent, {worst.state.replace('_', ' ')}"
        return DeliverySummary(f"{words}: {worst.error}" if worst.error else words, worst.state in _LOST)
    bad = send_problem(status.state, status.reason) is not None
    return DeliverySummary(f"{words}: {status.reason}" if status.reason else words, bad)


def problem_text(problem: SendProblem) -> str:
    """The problem in words."""
    words = _WORDS[SendState(problem.state)] if problem.state in set(SendState) else problem.state
    return f"{words}: {problem.reason}" if problem.reason else words


def _parts(keys: Sequence[str]) -> Sequence[Sequence[str]]:
    return [keys[start : start + _AT_A_TIME] for start in range(0, len(keys), _AT_A_TIME)]
