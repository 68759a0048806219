"""What a person changes of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import model_validator

from afterturn.model import UNASSIGNED, Id, Record, Status


class ConversationPatch(Record):
    """What somebody changes of a conversation: only what is given, where None takes the property or the person away."""

    status: Status = Status.OPEN
    property_id: Id | None = None
    assignee: Id | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("changes nothing; give status, propertyId or assignee")
        if self.property_id == UNASSIGNED:
            raise ValueError(f"propertyId {UNASSIGNED!r} is reserved; give null to unassign the conversation")
        return self

    @property
    def changes(self) -> Mapping[str, Any]:
        """What was given, by the names of fields."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}
