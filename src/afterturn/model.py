"""The domain's records. All are frozen and validated when they are created.

Python code uses snake_case names; JSON, in and out, uses camelCase. Times are aware UTC datetimes.
Texts are cleaned in one way only: control characters other than tab, newline and carriage return become U+FFFD
(stores and queues disagree on them). What cannot be encoded at all is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

from afterturn.clock import parse_time, to_text, to_utc
from afterturn.errors import InvalidRecord
from afterturn.validation_messages import path_of, problem_of

MAX_ID_CHARS = 200
MAX_TEXT_BYTES = 300_000
"""One message has to fit a DynamoDB item (400 KB) with its attributes."""
MAX_MESSAGE_BYTES = 350_000
"""Of a message's texts together, for the same reason."""
MAX_PARTICIPANTS = 100
MAX_PREVIEW_CHARS = 200
MAX_TURN_MESSAGES = 30
MAX_TURN_BYTES = 3_500_000
"""One turn has to fit a DynamoDB transaction (100 items, up to three for a message, and 4 MB)."""

UNASSIGNED = "UNASSIGNED"
"""The property of a conversation that belongs to none yet, as events and property views name it."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_IN_IDS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def clean_text(text: str) -> str:
    """The text as it will be stored; raises ValueError where it cannot be encoded."""
    if text.isascii():
        return _CONTROLS.sub("\ufffd", text)
    if surrogate := _SURROGATE.search(text):
        raise ValueError(f"has a lone surrogate at character {surrogate.start()}, which no encoding can hold")
    return _CONTROLS.sub("\ufffd", text)


def check_id(value: str) -> str:
    """An id as given: 1 to 200 characters, any of them but control characters, line ends and lone surrogates."""
    if not value.strip():
        raise ValueError("is empty")
    if len(value) > MAX_ID_CHARS:
        raise ValueError(f"has {len(value)} characters; at most {MAX_ID_CHARS} are allowed")
    if _NOT_IN_IDS.search(value):
        raise ValueError("has a control character, a line end or a lone surrogate")
    return value


def _check_size(text: str) -> str:
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_TEXT_BYTES:
        raise ValueError(f"has {size} bytes in UTF-8; at most {MAX_TEXT_BYTES} are allowed")
    return text


def _read_time(value: object) -> datetime:
    if isinstance(value, datetime):
        return to_utc(value)
    if isinstance(value, str):
        return parse_time(value)
    raise ValueError("is not an ISO 8601 time with an offset, such as 2026-03-01T12:00:05Z")


Id = Annotated[
    str,
    AfterValidator(check_id),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARS}),
]
Text = Annotated[str, AfterValidator(clean_text), AfterValidator(_check_size)]
Label = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
"""A short name out of a fixed vocabulary, such as a topic, a type or a consumer."""
Time = Annotated[datetime, BeforeValidator(_read_time), PlainSerializer(to_text, when_used="json")]


class Channel(StrEnum):
    """How a conversation reaches us."""

    SMS = "sms"
    EMAIL = "email"
    VOICE = "voice"
    TELEGRAM = "telegram"
    WEB = "web"


class Direction(StrEnum):
    INBOUND = "inbound"
    OUTBOUND = "outbound"


class Role(StrEnum):
    """Who speaks."""

    CUSTOMER = "customer"
    AGENT = "agent"
    OPERATOR = "operator"
    SYSTEM = "system"


class Status(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class Origin(StrEnum):
    TEXT = "text"
    VOICE = "voice"


class FlushMode(StrEnum):
    """``immediate`` asks reactions to skip their quiet period (a voice call ended)."""

    DEBOUNCED = "debounced"
    IMMEDIATE = "immediate"


class Emitter(StrEnum):
    """The runtime that settled a turn."""

    WEB = "web"
    INBOUND_LAMBDA = "inbound-lambda"
    WORKER = "worker"
    CLI = "cli"


class Urgency(StrEnum):
    """How soon somebody has to come; sorts from most to least urgent by :attr:`rank`."""

    EMERGENCY = "emergency"
    URGENT = "urgent"
    ROUTINE = "routine"

    @property
    def rank(self) -> int:
        return list(Urgency).index(self)


class Record(BaseModel):
    """Base of every record: frozen, no unknown fields, camelCase in JSON."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, ser_json_inf_nan="null"
    )

    def to_json(self) -> dict[str, Any]:
        """Attributes JSON values under camelCase keys."""
        return self.model_dump(mode="json", by_alias=True)


class Attachment(Record):
    """Where a file that came with a message is, not the file."""

    url: Annotated[Text, Field(max_length=4000)]
    media_type: Annotated[Text, Field(max_length=200)] = "application/octet-stream"
    name: Annotated[Text, Field(max_length=400)] = ""


class Message(Record):
    """One utterance. Its ``id`` is unique in its conversation; so is ``provider_id`` where there is one.

    ``edited_at``: when its sender last edited the text. ``whole``: a mail's complete text; ``text`` is the mail without
    quotes.
    """

    id: Id
    direction: Direction
    role: Role
    text: Text
    at: Time
    provider_id: Id | None = None
    attachments: Annotated[tuple[Attachment, ...], Field(max_length=50)] = ()
    edited_at: Time | None = None
    whole: Text | None = None

    @model_validator(mode="after")
    def _fits_one_item(self) -> Self:
        if self.whole is not None:
            size = len(self.text.encode()) + len(self.whole.encode())
            if size > MAX_MESSAGE_BYTES:
                raise ValueError(f"text and whole have {size} bytes; at most {MAX_MESSAGE_BYTES} are allowed together")
        return self


class ConversationMeta(Record):
    """The attributes of a conversation that the writer owns.

    ``contact_name``: what the first participant calls themselves. It is shown beside the address and identifies nobody.
    """

    id: Id
    channel: Channel
    property_id: Id | None = None
    type: Label = "general"
    participants: Annotated[tuple[Id, ...], Field(max_length=MAX_PARTICIPANTS)] = ()
    contact_name: Annotated[Text, Field(max_length=200)] | None = None
    status: Status = Status.OPEN
    synthetic: bool = False
    gauntlet: bool = False
    created_at: Time | None = None

    @model_validator(mode="after")
    def _property_is_not_the_reserved_one(self) -> Self:
        if self.property_id == UNASSIGNED:
            raise ValueError(f"propertyId {UNASSIGNED!r} is reserved; leave it out for an unassigned conversation")
        return self


class StoredStamp(Record):
    """The result of a consumer's last successful run on a conversation, and its failure if a later run failed.

    ``through``: the newest turn that the consumer has seen; None if it was requested and has not run yet.
    ``failed_through``: the newest turn that it failed on; ``error``: the kind of error, without content.
    """

    through: Time | None = None
    at: Time | None = None
    data: Mapping[str, JsonValue] = Field(default_factory=dict)
    failed_through: Time | None = None
    error: str | None = None


class SendProblem(Record):
    """Why a message was not sent, where a person has to act: the outbox's state and its reason."""

    state: Label
    reason: Annotated[Text, Field(max_length=MAX_PREVIEW_CHARS)] | None = None


class MessagePreview(Record):
    """The newest message of a conversation as the inbox shows it.

    ``text``: the beginning in one line, at most 200 characters and 300 bytes of UTF-8. ``attachments``: their number.
    """

    message_id: Id
    direction: Direction
    role: Role
    at: Time
    text: Annotated[Text, Field(max_length=MAX_PREVIEW_CHARS)]
    attachments: int = 0
    send_problem: SendProblem | None = None


class Conversation(ConversationMeta):
    """A stored conversation.

    ``settled_at`` is the newest settled turn (the ledger's number, whole milliseconds), ``recorded_at`` when the
    store took it (later than ``settled_at`` for imported history), ``reactions`` each consumer's stamp.
    ``assignee`` is the person who handles it, ``revision`` how often people have changed it,
    ``preview`` its newest message.
    """

    created_at: Time
    last_message_at: Time | None = None
    settled_at: Time | None = None
    recorded_at: Time | None = None
    message_count: int = 0
    assignee: Id | None = None
    revision: int = 0
    preview: MessagePreview | None = None
    reactions: Mapping[str, StoredStamp] = Field(default_factory=dict)

    @property
    def recency(self) -> datetime:
        """What the inbox sorts by."""
        return self.last_message_at or self.created_at


class ConversationPatch(Record):
    """A person's change of a conversation. Omitted fields stay; None removes the property or the assignee."""

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
        """The fields to change, by name."""
        return {name: getattr(self, name) for name in sorted(self.model_fields_set)}


class Turn(Record):
    """What came in and the agent's answer, to be settled in one piece.

    ``messages`` may be empty where they were saved before (a voice call that ended). ``at`` is left out for live
    turns; an import gives the original time. A turn with a ``key`` is settled once, however often it is sent.
    """

    conversation: ConversationMeta
    messages: Annotated[tuple[Message, ...], Field(max_length=MAX_TURN_MESSAGES)] = ()
    flush_mode: FlushMode = FlushMode.DEBOUNCED
    at: Time | None = None
    key: Id | None = None

    @model_validator(mode="after")
    def _fits_one_transaction(self) -> Self:
        texts = [text for message in self.messages for text in (message.text, message.whole) if text]
        size = sum(len(text) * (1 if text.isascii() else 4) for text in texts)
        if size > MAX_TURN_BYTES:
            raise ValueError(
                f"the messages have {size} bytes; a turn holds at most {MAX_TURN_BYTES}: "
                "save earlier ones with save_messages first"
            )
        return self

    @property
    def origin(self) -> Origin:
        return Origin.VOICE if self.conversation.channel is Channel.VOICE else Origin.TEXT


class SettledTurn(Record):
    """The mark that a settled turn leaves: ids, enums and times only.

    ``occurred_at`` is monotonic and unique in its conversation; ``last_seq`` the arrival number of its newest
    message.
    """

    conversation_id: Id
    property_id: Id | None
    occurred_at: Time
    recorded_at: Time
    last_seq: int
    origin: Origin
    channel: Channel
    emitter: Label
    flush_mode: FlushMode


class WorkOrder(Record):
    """A repair to be done. Its id is derived from its cause, so that the same cause never opens two."""

    id: Id
    conversation_id: Id
    property_id: Id | None = None
    category: Label
    urgency: Urgency
    message_id: Id
    opened_at: Time
    status: Status = Status.OPEN


class Stamp(Record):
    """What a consumer returns: data for its stamp, and work orders that are written with it in one transaction."""

    data: Mapping[str, JsonValue] = Field(default_factory=dict)
    work_orders: tuple[WorkOrder, ...] = ()


R = TypeVar("R", bound=BaseModel)


def unchecked(kind: type[R], **values: Any) -> R:
    """A record from values that were checked when they were stored; every field has to be given.

    What ``model_construct`` does, without looking for aliases and defaults, in a fifth of the time.
    """
    record = kind.__new__(kind)
    _set(record, "__dict__", values)
    _set(record, "__pydantic_fields_set__", _fields_of(kind))
    _set(record, "__pydantic_extra__", None)
    _set(record, "__pydantic_private__", None)
    return record


_set = object.__setattr__


@cache
def _fields_of(kind: type[BaseModel]) -> set[str]:
    """The names of a kind's fields; all its records share them, since a copy of a record copies them."""
    return set(kind.model_fields)


def parse(kind: type[R], value: object, *, where: str = "") -> R:
    """A record from plain values (as ``json.loads`` gives them); raises InvalidRecord that names the field."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise invalid(error, where) from None


def invalid(error: ValidationError, where: str = "") -> InvalidRecord:
    """The first problem that pydantic found, with its path and without the content that caused it."""
    first = error.errors(include_url=False, include_input=False)[0]
    return InvalidRecord(path_of(first["loc"], where), problem_of(first))
