"""Callers, their roles and the properties that they can see."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from afterturn.model import UNASSIGNED, Conversation


class CallerRole(StrEnum):
    """``operator``: conversations. ``on-call``: also ledger, stream and reactions. ``admin``: also consumers.

    Each may do what those before it may.
    """

    OPERATOR = "operator"
    ON_CALL = "on-call"
    ADMIN = "admin"

    def covers(self, needed: CallerRole) -> bool:
        order = list(CallerRole)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Scope:
    """The properties whose conversations a caller may see: ids, or ``UNASSIGNED``; None: every one."""

    properties: frozenset[str] | None = None

    @property
    def whole(self) -> bool:
        return self.properties is None

    def sees(self, conversation: Conversation) -> bool:
        """Whether the conversation's current property is in the scope."""
        return self.holds(conversation.property_id)

    def holds(self, property_id: str | None) -> bool:
        """Whether a property, or None for unassigned, is in the scope."""
        return self.properties is None or (property_id or UNASSIGNED) in self.properties

    @property
    def property_ids(self) -> frozenset[str | None] | None:
        """The properties as conversations have them: None for the unassigned."""
        if self.properties is None:
            return None
        return frozenset(None if name == UNASSIGNED else name for name in self.properties)

    def narrow(self, properties: Sequence[str]) -> tuple[str, ...] | None:
        """The requested properties that are in the scope; all of the scope's if none is requested.

        None: no requested property is in the scope, so the result is empty.
        """
        if self.properties is None:
            return tuple(properties)
        if not properties:
            return tuple(sorted(self.properties))
        return tuple(name for name in properties if name in self.properties) or None


@dataclass(frozen=True, slots=True)
class Caller:
    """``name``: of the token or the login. ``csrf``: of a session; None for a bearer token, which no browser sends
    automatically.
    """

    name: str
    role: CallerRole
    scope: Scope
    csrf: str | None = None


def check_scope(role: CallerRole, properties: Collection[str] | None) -> None:
    """Raise ValueError if a role cannot be limited to properties, or if there are none."""
    if properties is None:
        return
    if role is not CallerRole.OPERATOR:
        raise ValueError(f"{role.value} is a role over all properties; leave the properties out, or use operator")
    if not properties:
        raise ValueError("the list of properties is empty; leave it out for all, or name some")
