"""Records that only the store and those who use it know: jobs, and changes that people make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from pydantic import Field, JsonValue, model_validator

from afterturn.model import UNASSIGNED, Id, Label, Record, Status, Time

MAX_VALUE_BYTES = 10_000
"""Of the JSON of a note or a job: ids and small facts, no content."""
MAX_JOBS = 3
"""Beside a whole turn, two items each, they have to fit a DynamoDB transaction (100 items)."""


@dataclass(frozen=True, slots=True)
class Note:
    """What is to be written under a key of a name, and what it may replace; see ``Keeper.note``."""

    name: str
    key: str
    value: JsonValue
    rank: int = 0
    replace: bool = False
    kept: timedelta | None = None


class Job(Record):
    """What is to be done because of the messages that it is saved with. ``key``: unique among jobs of its kind."""

    kind: Label
    key: Id
    conversation_id: Id
    value: JsonValue = None
    due_at: Time


class WaitingJob(Job):
    """A job that is not done. ``visible_at``: not handed out before; ``attempts``: how often it was handed out."""

    visible_at: Time
    attempts: int


class LeasedJob(Job):
    """A job that was handed out, to nobody else before ``until``. ``attempts`` counts this time, too."""

    attempts: int
    until: Time
    lease: str = Field(repr=False)


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
