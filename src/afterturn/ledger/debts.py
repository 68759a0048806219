"""Debts: which consumer owes a reaction to which conversation, since when, and when a sweep re-emits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from afterturn.clock import to_text
from afterturn.model import Conversation
from afterturn.reactions.state import ReactionState, reaction_states
from afterturn.store.port import Registration, StoreReader


class DebtState(StrEnum):
    """``waiting``: the debounce may still run. ``overdue``: it should have run. ``failed``: its attempts are used up.

    A reaction in any of these states is owed.
    """

    WAITING = "waiting"
    OVERDUE = "overdue"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Debt:
    """A consumer has not seen a conversation's newest turns.

    ``since``: when the store recorded the first turn that it has not seen. ``age`` is counted from there, so that
    imported history is not overdue the moment it arrives, and a busy conversation cannot hide a consumer that is dead.
    For history that was asked for by a replay: since the request.
    """

    conversation: Conversation
    consumer: str
    state: DebtState
    since: datetime
    age: timedelta

    def to_json(self) -> dict[str, Any]:
        settled_at = self.conversation.settled_at
        return {
            "conversationId": self.conversation.id,
            "consumer": self.consumer,
            "state": self.state.value,
            "settledAt": None if settled_at is None else to_text(settled_at),
            "owedSince": to_text(self.since),
            "ageSeconds": int(self.age.total_seconds()),
        }


async def debts_of(
    conversation: Conversation,
    registrations: Mapping[str, Registration],
    store: StoreReader,
    now: datetime,
    grace: timedelta,
) -> list[Debt]:
    """Every reaction that is owed to a conversation."""
    debts = []
    for name, state in reaction_states(conversation, registrations).items():
        if state is ReactionState.FRESH:
            continue
        registration = registrations[name]
        since = await _owed_since(conversation, name, registration, store)
        age = max(now - since, timedelta(0))
        debts.append(Debt(conversation, name, debt_state(state, age, registration, grace), since, age))
    return debts


def debt_state(state: ReactionState, age: timedelta, registration: Registration, grace: timedelta) -> DebtState:
    """The state of a reaction that is owed for ``age``.

    A consumer's own ``max_wait`` is added to the grace period: waiting that long is its debounce at work.
    """
    if state is ReactionState.FAILED:
        return DebtState.FAILED
    return DebtState.OVERDUE if age >= overdue_after(registration, grace) else DebtState.WAITING


def overdue_after(registration: Registration, grace: timedelta) -> timedelta:
    """The age from which a debt is overdue; without a grace period every debt is."""
    return grace + registration.max_wait if grace else timedelta(0)


def remind(age: timedelta, age_before: timedelta | None, first: timedelta) -> bool:
    """Whether a sweep re-emits a debt: at ages that double from ``first``, so that a hopeless one costs little.

    ``age_before``: the debt's age at the sweep before this one (None where there was none, or no debt yet).
    """
    if age < first:
        return False
    if age_before is None or age_before < first or not first:
        return True
    return doublings(age, first) > doublings(age_before, first)


def doublings(age: timedelta, first: timedelta) -> int:
    """How often ``first`` doubles before it exceeds ``age``."""
    return (age // first).bit_length() - 1


async def _owed_since(
    conversation: Conversation, consumer: str, registration: Registration, store: StoreReader
) -> datetime:
    stamp = conversation.reactions.get(consumer)
    if stamp is not None and stamp.through is None and stamp.at is not None:
        return stamp.at
    after = None if stamp is None else stamp.through
    while turns := await store.turns(conversation.id, after=after, limit=100):
        for turn in turns:
            if stamp is not None or turn.recorded_at >= registration.registered_at:
                return turn.recorded_at
        after = turns[-1].occurred_at
    return conversation.recorded_at or registration.registered_at
