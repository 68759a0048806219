"""The JSON of the API and of the command's ``--json``: what the OpenAPI document describes, and how it is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, JsonValue

from afterturn.backbone import Backbone
from afterturn.clock import to_text
from afterturn.errors import AfterturnError, EngineUnavailable, StreamUnavailable
from afterturn.ledger.ledger import OwedState
from afterturn.model import Conversation, Direction, Id, Message, Record, Role, SettledTurn, Time, WorkOrder
from afterturn.reactions.state import ReactionState
from afterturn.store.port import ConsumerState, Failure, Registration
from afterturn.stream.port import DeadLetter, Depth, Queue

T = TypeVar("T")

_ALL = 1_000_000

NextCursor = Annotated[str | None, Field(description="Leads to the next page; null at the end.")]


class ListShape(Record):
    """A page of a list."""

    next_cursor: NextCursor
    complete: Annotated[bool, Field(description="True at the end: there is no next page.")]


class ReactionShape(Record):
    state: ReactionState
    through: Time | None
    data: Mapping[str, JsonValue]


class ConversationShape(Conversation):
    """A conversation with the state and the stamp of each live consumer."""

    reactions: Mapping[str, ReactionShape]  # type: ignore[assignment]


class PieceShape(Record):
    text: str
    hit: Annotated[bool, Field(description="Matches the search.")]


class HitShape(Record):
    """The newest matching message, and where in its text the words are."""

    message_id: Id
    at: Time
    direction: Direction
    role: Role
    snippet: tuple[PieceShape, ...]


class FoundShape(ConversationShape):
    hit: Annotated[HitShape | None, Field(description="Only in a full-text search.")] = None


class InboxShape(Record):
    """A page, newest first. ``complete`` is false if the read budget was spent before the page was full."""

    rows: tuple[FoundShape, ...]
    next_cursor: NextCursor
    complete: bool
    scanned: Annotated[int, Field(description="Index rows that were read.")]


class MessagesShape(Record):
    """Messages in thread order."""

    messages: tuple[Message, ...]
    next_cursor: Annotated[str | None, Field(description="Leads to the messages before these; null at the beginning.")]


class TurnsShape(Record):
    """Settled turns, oldest first."""

    turns: tuple[SettledTurn, ...]
    next_cursor: NextCursor


class StampShape(Record):
    consumer: str
    state: ReactionState
    through: Time | None
    at: Time | None
    data: Mapping[str, JsonValue]
    failed_through: Time | None
    error: str | None


class StampsShape(Record):
    stamps: tuple[StampShape, ...]


class ReplyShape(Record):
    """An operator's reply that was saved and settled. ``new`` is false if it was saved before."""

    conversation_id: Id
    message_id: Id
    event_id: str
    occurred_at: Time
    new: bool


class SettledShape(Record):
    """The event of a turn. ``new`` is false if it was settled before."""

    event_id: str
    occurred_at: str
    new: bool


class WorkOrdersShape(ListShape):
    work_orders: tuple[WorkOrder, ...]


class OwedReactionShape(Record):
    conversation_id: Id
    consumer: str
    state: OwedState
    settled_at: Time | None
    owed_since: Time
    age_seconds: int


class AuditShape(ListShape):
    """The reactions that are overdue or failed. ``owed`` also counts those that wait; the counts cover all pages."""

    clean: bool
    checked: int
    owed: int
    waiting: int
    overdue: int
    failed: int
    reactions: tuple[OwedReactionShape, ...]


class SweptShape(Record):
    swept: int
    reactions: tuple[OwedReactionShape, ...]
    complete: Annotated[bool, Field(description="False if there are more than are listed.")]


class ReplayShape(Record):
    """A replay, which runs in the background. ``state``: running, done, failed or stopped."""

    id: str
    state: Annotated[str, Field(pattern="^(running|done|failed|stopped)$")]
    emitted: int
    started_at: Time


class DepthShape(Record):
    """The number of waiting records, and when the oldest one was published."""

    main: int
    retry: int
    dead: int
    oldest_at: Time | None


class WaitingShape(Record):
    waiting: int
    failed: int
    oldest_at: Time | None


class StatsShape(Record):
    """The number of entries in each stage."""

    conversations: int
    messages: int
    turns: int
    stamps: int
    jobs: int
    open_work_orders: int
    stream: DepthShape
    reactions: WaitingShape


class DeadLetterShape(Record):
    id: str
    queue: Queue
    group: str
    consumer: str | None
    reason: str
    receives: int
    published_at: Time
    died_at: Time
    body: Annotated[str, Field(description="The record as it was in the stream, valid or not.")]


class DeadLettersShape(ListShape):
    dead_letters: tuple[DeadLetterShape, ...]


class RedrivenShape(Record):
    redriven: int


class FailureShape(Record):
    conversation_id: Id
    consumer: str
    failed_through: Time
    error: str


class FailuresShape(ListShape):
    failures: tuple[FailureShape, ...]


class ReactionNameShape(Record):
    conversation_id: Id
    consumer: str


class RetriedShape(Record):
    retried: tuple[ReactionNameShape, ...]


class ConsumerShape(Record):
    name: str
    state: ConsumerState
    registered_at: Time
    max_wait_seconds: float
    failed: int


class ConsumersShape(Record):
    consumers: tuple[ConsumerShape, ...]


def dead_letter(record: DeadLetter) -> dict[str, Any]:
    """A dead letter as JSON."""
    return DeadLetterShape.model_validate(record, from_attributes=True).to_json()


def failure(record: Failure) -> dict[str, Any]:
    """A failed reaction as JSON."""
    return FailureShape.model_validate(record, from_attributes=True).to_json()


def consumers(registrations: Mapping[str, Registration], failures: Iterable[Failure]) -> list[dict[str, Any]]:
    """The registered consumers as JSON, each with the number of its failed reactions."""
    failed = Counter(failure.consumer for failure in failures)
    return [
        ConsumerShape(
            name=name,
            state=registration.state,
            registered_at=registration.registered_at,
            max_wait_seconds=registration.max_wait.total_seconds(),
            failed=failed[name],
        ).to_json()
        for name, registration in registrations.items()
    ]


def depth(record: Depth) -> dict[str, Any]:
    """The depth of the stream as JSON."""
    return DepthShape(main=record.main, retry=record.retry, dead=record.dead_letters, oldest_at=record.oldest).to_json()


async def read_stats(backbone: Backbone) -> tuple[dict[str, Any], list[AfterturnError]]:
    """The counts of every stage, and the errors of the stages that are unavailable: their counts are None.

    Raises:
        StoreError: The store is unavailable.
    """
    problems: list[AfterturnError] = []

    async def or_none(answer: Awaitable[T]) -> T | None:
        try:
            return await answer
        except (StreamUnavailable, EngineUnavailable) as error:
            problems.append(error)
            return None

    failed = len(await backbone.store.failures(limit=_ALL))
    waiting = await or_none(backbone.engine.waiting())
    oldest = await or_none(backbone.engine.oldest()) if waiting is not None else None
    stream_depth = await or_none(backbone.stream.depth())
    return {
        **await backbone.store.counts(),
        "stream": None if stream_depth is None else depth(stream_depth),
        "reactions": {
            "waiting": waiting,
            "failed": failed,
            "oldestAt": None if oldest is None else to_text(oldest),
        },
    }, problems


class CallerShape(Record):
    """The caller. ``properties``: those that the caller may see, null for all. ``csrfToken``: null for tokens."""

    name: str
    role: Annotated[str, Field(pattern="^(operator|on-call|admin)$")]
    properties: tuple[str, ...] | None
    csrf_token: str | None


_AT = "2026-03-01T12:00:05.000000Z"
_SETTLED = "2026-03-01T12:00:06.000000Z"
_LAST = {"nextCursor": None, "complete": True}
_STAMP = {"state": "fresh", "through": _SETTLED, "data": {"topics": ["keys"]}}
_ROW = {
    "id": "c-17",
    "channel": "sms",
    "propertyId": "oak",
    "type": "general",
    "participants": ["+15558226442"],
    "contactName": None,
    "status": "open",
    "synthetic": False,
    "gauntlet": False,
    "createdAt": _AT,
    "lastMessageAt": _AT,
    "settledAt": _SETTLED,
    "recordedAt": _SETTLED,
    "messageCount": 2,
    "assignee": None,
    "revision": 0,
    "preview": {
        "messageId": "m-2",
        "direction": "outbound",
        "role": "agent",
        "at": _AT,
        "text": "The locksmith comes at nine.",
        "attachments": 0,
        "sendProblem": None,
    },
    "reactions": {"topics": _STAMP},
}
_MESSAGE: dict[str, Any] = {
    "id": "m-1",
    "direction": "inbound",
    "role": "customer",
    "text": "My key is stuck!",
    "at": _AT,
    "providerId": None,
    "attachments": [],
}
_TURN = {
    "conversationId": "c-17",
    "propertyId": "oak",
    "occurredAt": _SETTLED,
    "recordedAt": _SETTLED,
    "lastSeq": 2,
    "origin": "text",
    "channel": "sms",
    "emitter": "worker",
    "flushMode": "debounced",
}
_ORDER = {
    "id": "wo-1",
    "conversationId": "c-17",
    "propertyId": "oak",
    "category": "locks",
    "urgency": "urgent",
    "messageId": "m-1",
    "openedAt": _SETTLED,
    "status": "open",
}
_REACTION = {"conversationId": "c-17", "consumer": "topics"}
_OWED_REACTION = {**_REACTION, "state": "overdue", "settledAt": _SETTLED, "owedSince": _SETTLED, "ageSeconds": 431}
_DEPTH = {"main": 3, "retry": 0, "dead": 0, "oldestAt": None}
_DEAD_LETTER = {
    "id": "17",
    "queue": "main",
    "group": "c-17",
    "consumer": None,
    "reason": "is not JSON",
    "receives": 1,
    "publishedAt": _SETTLED,
    "diedAt": "2026-03-01T12:00:07.000000Z",
    "body": "…",
}
_CONSUMER = {
    "name": "topics",
    "state": "live",
    "registeredAt": "2026-02-01T08:00:00.000000Z",
    "maxWaitSeconds": 300.0,
    "failed": 0,
}
_EVENT = {"eventId": "turn:c-17:1772366405000", "occurredAt": _AT, "new": True}

EXAMPLES: Mapping[type[Record], Mapping[str, Any]] = {
    InboxShape: {"rows": [_ROW], **_LAST, "scanned": 1},
    ConversationShape: _ROW,
    MessagesShape: {"messages": [_MESSAGE], "nextCursor": None},
    TurnsShape: {"turns": [_TURN], "nextCursor": None},
    StampsShape: {
        "stamps": [{"consumer": "topics", **_STAMP, "at": _SETTLED, "failedThrough": None, "error": None}],
    },
    ReplyShape: {"conversationId": "c-17", "messageId": "reply-0d1f2f3a4b5c6d7e8f90a1b2c3d4e5f6", **_EVENT},
    SettledShape: _EVENT,
    WorkOrder: {**_ORDER, "status": "closed"},
    WorkOrdersShape: {"workOrders": [_ORDER], **_LAST},
    AuditShape: {
        "clean": False,
        "checked": 85,
        "owed": 3,
        "waiting": 2,
        "overdue": 1,
        "failed": 0,
        "reactions": [_OWED_REACTION],
        **_LAST,
    },
    SweptShape: {"swept": 1, "reactions": [_OWED_REACTION], "complete": True},
    ReplayShape: {"id": "0d1f2f3a4b5c6d7e8f90a1b2c3d4e5f6", "state": "running", "emitted": 0, "startedAt": _SETTLED},
    DepthShape: _DEPTH,
    StatsShape: {
        "conversations": 85,
        "messages": 1210,
        "turns": 600,
        "stamps": 340,
        "jobs": 0,
        "openWorkOrders": 12,
        "stream": _DEPTH,
        "reactions": {"waiting": 4, "failed": 0, "oldestAt": None},
    },
    DeadLetterShape: _DEAD_LETTER,
    DeadLettersShape: {"deadLetters": [_DEAD_LETTER], **_LAST},
    RedrivenShape: {"redriven": 1},
    FailuresShape: {"failures": [{**_REACTION, "failedThrough": _SETTLED, "error": "RuntimeError"}], **_LAST},
    RetriedShape: {"retried": [_REACTION]},
    ConsumerShape: _CONSUMER,
    ConsumersShape: {"consumers": [_CONSUMER]},
    CallerShape: {"name": "desk", "role": "operator", "properties": ["oak"], "csrfToken": None},
}
"""An example of each response, for the OpenAPI document."""
