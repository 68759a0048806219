"""The state of a reaction, from the newest settled turn, the consumer's stamp and its registration: pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from afterturn.model import Conversation, StoredStamp
from afterturn.store.port import ConsumerState, Registration


class ReactionState(StrEnum):
    """``fresh``: has seen the newest turn, or owes nothing. ``owed``: has not yet. ``failed``: has given up on it."""

    FRESH = "fresh"
    OWED = "owed"
    FAILED = "failed"


def reaction_state(conversation: Conversation, stamp: StoredStamp | None, registration: Registration) -> ReactionState:
    """A consumer owes every turn that was recorded since its registration, and all of a conversation it was asked for.

    The presence of a stamp, even an empty one, means that the ledger holds the consumer to this conversation.
    """
    settled_at = conversation.settled_at
    if settled_at is None or registration.state is ConsumerState.RETIRED:
        return ReactionState.FRESH
    if stamp is None:
        recorded_at = conversation.recorded_at
        began_before = recorded_at is None or recorded_at < registration.registered_at
        return ReactionState.FRESH if began_before else ReactionState.OWED
    if stamp.through is not None and stamp.through >= settled_at:
        return ReactionState.FRESH
    if stamp.failed_through is not None and stamp.failed_through >= settled_at:
        return ReactionState.FAILED
    return ReactionState.OWED


def reaction_states(conversation: Conversation, registrations: Mapping[str, Registration]) -> dict[str, ReactionState]:
    """The state of each consumer that is not retired."""
    return {
        name: reaction_state(conversation, conversation.reactions.get(name), registration)
        for name, registration in registrations.items()
        if registration.state is not ConsumerState.RETIRED
    }
