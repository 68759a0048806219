"""The turn-settled event, version 1: the fact that a turn was settled, without its content.

The JSON form is JSON with camelCase keys, the same for emitters and consumers in any language. Its JSON Schema stands
in ``docs/reference/event.schema.json``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from afterturn.clock import floor_millis, to_millis
from afterturn.errors import InvalidEvent
from afterturn.model import UNASSIGNED, Channel, FlushMode, Id, Label, Origin, SettledTurn, Time, invalid, unchecked


def _whole_millis(at: datetime) -> datetime:
    if at != floor_millis(at):
        raise ValueError("is finer than a millisecond")
    return at


def _to_millis_text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")[:-6] + "Z"


class TurnSettled(BaseModel):
    """``conversation.turn_settled``. Ids, enums and times only; the keys are pinned by a test."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    event_version: Literal[1] = 1
    event_type: Literal["conversation.turn_settled"] = "conversation.turn_settled"
    conversation_id: Id
    property_id: Id
    origin: Origin
    channel: Channel
    emitter: Label
    occurred_at: Annotated[Time, AfterValidator(_whole_millis), PlainSerializer(_to_millis_text)]
    event_id: str
    flush_mode: FlushMode | None = None

    @model_validator(mode="after")
    def _id_follows_from_the_rest(self) -> Self:
        if self.event_id != event_id(self.conversation_id, self.occurred_at):
            raise ValueError("eventId is not turn:{conversationId}:{occurredAt in milliseconds}")
        return self

    @property
    def immediate(self) -> bool:
        return self.flush_mode is FlushMode.IMMEDIATE

    def to_json(self) -> str:
        """The JSON form."""
        return self.model_dump_json(by_alias=True, exclude_none=True)


def event_id(conversation_id: str, occurred_at: datetime) -> str:
    """Unique, because ``occurred_at`` is unique in its conversation."""
    return f"turn:{conversation_id}:{to_millis(occurred_at)}"


def make_event(
    *,
    conversation_id: str,
    property_id: str | None,
    origin: Origin,
    channel: Channel,
    emitter: str,
    occurred_at: datetime,
    flush_mode: FlushMode,
) -> TurnSettled:
    """The event of a turn, from values that were checked when its conversation was stored."""
    return unchecked(
        TurnSettled,
        event_version=1,
        event_type="conversation.turn_settled",
        conversation_id=conversation_id,
        property_id=property_id or UNASSIGNED,
        origin=origin,
        channel=channel,
        emitter=emitter,
        occurred_at=occurred_at,
        event_id=event_id(conversation_id, occurred_at),
        flush_mode=flush_mode,
    )


def event_of(turn: SettledTurn) -> TurnSettled:
    """The event of a turn that was settled before."""
    return make_event(
        conversation_id=turn.conversation_id,
        property_id=turn.property_id,
        origin=turn.origin,
        channel=turn.channel,
        emitter=turn.emitter,
        occurred_at=turn.occurred_at,
        flush_mode=turn.flush_mode,
    )


def _known_version(value: object) -> object:
    if type(value) is not int:
        raise ValueError("is not the number 1")
    if value > 1:
        raise ValueError("is newer than 1, the only version that this afterturn reads; upgrade it")
    return value


class _EventJson(TurnSettled):
    """As read: by its camelCase keys, and version and type must be there, though a writer need not name them."""

    model_config = ConfigDict(populate_by_name=False)

    event_version: Annotated[Literal[1], BeforeValidator(_known_version)]
    event_type: Literal["conversation.turn_settled"]


def read_event(body: str | bytes) -> TurnSettled:
    """An event from its JSON form. Unknown further keys are accepted: a newer emitter may add some.

    Raises InvalidEvent that names the key and says nothing of the value.
    """
    try:
        parsed = _EventJson.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise InvalidEvent("the record is not JSON") from None
        raise InvalidEvent(f"the record is not an event: {invalid(error)}") from None
    return unchecked(TurnSettled, **dict(parsed))


def event_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the JSON form."""
    schema = _EventJson.model_json_schema(by_alias=True, mode="validation")
    for key in schema["properties"].values():
        key.pop("title", None)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "conversation.turn_settled, version 1"
    schema["description"] = "A turn was settled. Ids, enums and times only. Unknown further keys are allowed."
    return schema
