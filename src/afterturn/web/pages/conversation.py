"""``/conversations/{id}``: messages, stamps and work orders, with the reply form and other changes."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import JsonValue

from afterturn.channels.outbox import DeliverySummary, SendOutcome, delivery_summary, send_outcomes
from afterturn.channels.state import ContactName, MessageDetails, Route, message_key
from afterturn.channels.types import SuppressReason
from afterturn.clock import MILLISECOND
from afterturn.errors import Conflict, InvalidRecord
from afterturn.inbox import InboxRow
from afterturn.inbox.presentation import count
from afterturn.model import UNASSIGNED, Channel, ConversationPatch, Direction, Message, SettledTurn, StoredStamp, parse
from afterturn.reactions.state import ReactionState
from afterturn.web.api import conversations
from afterturn.web.api.common import ConversationId, OpenBackbone, Operator, StoreOfCaller
from afterturn.web.api.scoped_store import ScopedStore
from afterturn.web.errors import HttpError
from afterturn.web.pages.inbox import row_view
from afterturn.web.pages.rendering import address, conversation_path, render
from afterturn.web.pages.routing import FormData, PageRoute, redirect
from afterturn.web.pages.sse import event_stream

router = APIRouter(prefix="/conversations", route_class=PageRoute, include_in_schema=False)

_MESSAGES = 100
_TURNS = 1_000
_ORDERS = 100
_WATCHED = 3
_WATCHED_FOR = timedelta(hours=1)
"""The newest outbound messages whose delivery status an open page follows, and for how long after they were sent."""
_NONE: list[str] = []

_NUMBER = re.compile(r"[0-9]{1,9}\Z")

_DONE = {
    "reply": "Reply saved. It is sent if the channel is configured.",
    "again": "This reply was saved before; nothing changed.",
    "updated": "Saved.",
    "closed": "Work order closed.",
}


@router.get("/{conversation_id}")
async def show_conversation(
    request: Request,
    scoped: StoreOfCaller,
    caller: Operator,
    conversation_id: ConversationId,
    cursor: str | None = None,
    upto: str = "",
    done: str = "",
) -> Response:
    """The newest messages, or those before a cursor. ``upto``: the number of messages up to the last one shown."""
    row = await scoped.row(conversation_id)
    page = await scoped.messages(conversation_id, limit=_MESSAGES, cursor=cursor)
    last = int(upto) if _NUMBER.match(upto) else row.conversation.message_count
    first = max(last - len(page.items), 0)
    turns = await scoped.backbone.store.turns(conversation_id, after=before(page.items), limit=_TURNS)
    orders = await scoped.orders(conversation_id=conversation_id, open_only=False, limit=_ORDERS, cursor=None)
    here = conversation_path(conversation_id)
    names = await _names(scoped, row.conversation.participants)
    sending = [message.id for message in page.items if _is_recent(message, scoped.backbone.clock())][-_WATCHED:]
    sent, details = await _sending_and_details(scoped, conversation_id, page.items)
    older = [] if page.next_cursor is None else [("cursor", page.next_cursor), ("upto", str(first))]
    return render(
        request,
        "conversation.html",
        conversation=row.conversation,
        about=row_view(row),
        names=names,
        items=list(items(row, page.items, turns, first, sent, details)),
        stamps=[stamp_view(row, name) for name in row.states],
        orders=orders.items,
        here=here,
        older=address(here, older) if older else None,
        newest=cursor is None,
        stopped=cursor is None and await _is_stopped(scoped, row),
        key=secrets.token_urlsafe(18),
        properties=sorted((caller.scope.properties or frozenset()) - {UNASSIGNED}),
        done=_DONE.get(done),
        known=_fingerprint(row, [sent.get(message_id) for message_id in sending]),
        live=address(f"{here}/live", [("sending", message_id) for message_id in sending]),
    )


@router.get("/{conversation_id}/live")
async def stream_changes(
    request: Request,
    scoped: StoreOfCaller,
    conversation_id: ConversationId,
    sending: Annotated[list[str], Query()] = _NONE,
) -> Response:
    """Server-sent events: a fingerprint of the conversation whenever it changes.

    ``sending``: messages whose delivery status is part of it.
    """
    await scoped.row(conversation_id)
    watched = sending[:_WATCHED]

    async def look(scoped: ScopedStore) -> dict[str, object]:
        row = await scoped.row(conversation_id)
        sent = await send_outcomes(scoped.backbone.store, conversation_id, watched)
        return {"known": _fingerprint(row, [sent.get(message_id) for message_id in watched])}

    return event_stream(request, look)


@router.post("/{conversation_id}/reply")
async def reply(
    scoped: StoreOfCaller, backbone: OpenBackbone, conversation_id: ConversationId, form: FormData
) -> Response:
    """Save an operator's reply. The form carries a key, so that a second click sends nothing twice."""
    text = form.get("text", "").replace("\r\n", "\n").strip()
    if not text:
        raise InvalidRecord("text", "Write a text first: an empty reply is not sent.")
    body = parse(conversations.ReplyBody, {"text": text})
    key = f"form-{form.get('key', '')}"[:200]
    try:
        answer = await conversations.reply(scoped, backbone, conversation_id, key, body)
    except HttpError as refused:
        if refused.status_code != 409:
            raise
        raise HttpError(409, "This form has already sent another reply. Reload the page to write a new one.") from None
    return redirect(conversation_path(conversation_id), ("done", "reply" if answer.status_code == 201 else "again"))


@router.post("/{conversation_id}/update")
async def patch_conversation(scoped: StoreOfCaller, conversation_id: ConversationId, form: FormData) -> Response:
    """Close, open, move, assign or unassign: the fields that the form has.

    The form has the revision that its page showed, so that nobody undoes a change of somebody else.
    """
    changes: dict[str, str | None] = {
        name: form.get(name, "").strip() or None for name in ("status", "propertyId", "assignee") if name in form
    }
    revision = form.get("revision", "")
    if not _NUMBER.match(revision):
        raise InvalidRecord("revision", "The form does not belong to this page. Reload the page and try again.")
    try:
        await scoped.patch_conversation(conversation_id, parse(ConversationPatch, changes), int(revision))
    except Conflict:
        raise HttpError(409, "Somebody else changed this conversation. Go back, reload and try again.") from None
    return redirect(conversation_path(conversation_id), ("done", "updated"))


@router.post("/{conversation_id}/close-order")
async def close_order(scoped: StoreOfCaller, conversation_id: ConversationId, form: FormData) -> Response:
    """Close a work order. A second click changes nothing."""
    await scoped.close(conversation_id, form.get("order", ""))
    return redirect(conversation_path(conversation_id), ("done", "closed"))


async def _sending_and_details(
    scoped: ScopedStore, conversation_id: str, messages: Sequence[Message]
) -> tuple[Mapping[str, SendOutcome], Mapping[str, MessageDetails]]:
    """The delivery status of outbound messages, and the channel's details of inbound ones, by message id."""
    store = scoped.backbone.store
    sent = [message.id for message in messages if message.direction is Direction.OUTBOUND]
    received = {
        message_key(conversation_id, message.id): message.id
        for message in messages
        if message.direction is Direction.INBOUND
    }
    details = await store.get_all(MessageDetails, list(received))
    return await send_outcomes(store, conversation_id, sent), {received[key]: record for key, record in details.items()}


async def _names(scoped: ScopedStore, people: Sequence[str]) -> Mapping[str, str]:
    """The known names of people: ``{"user77": "Ada Lovelace (@ada)"}``."""
    known = await scoped.backbone.store.get_all(ContactName, list(dict.fromkeys(people)))
    return {person: name.text for person, name in known.items() if name.text}


async def _is_stopped(scoped: ScopedStore, row: InboxRow) -> bool:
    """Whether the recipient of a reply has opted out with STOP, which exists in text messages only.

    The reply is sent nevertheless: only the provider knows to which number they wrote STOP.
    """
    conversation, store = row.conversation, scoped.backbone.store
    if conversation.channel is not Channel.SMS:
        return False
    route = await store.get(Route, conversation.id)
    if route is None or route.recipient not in conversation.participants:
        return False
    opt_out = await store.opt_out(Channel.SMS, route.recipient)
    return opt_out is not None and opt_out.opted_out


def _is_recent(message: Message, now: datetime) -> bool:
    """Whether it was sent so recently that its delivery status may still change."""
    return message.direction is Direction.OUTBOUND and now - message.at < _WATCHED_FOR


def _fingerprint(row: InboxRow, sent: Sequence[SendOutcome | None]) -> str:
    """A fingerprint of what the page shows, without any text of it."""
    conversation = row.conversation
    state = [
        conversation.message_count,
        conversation.revision,
        str(conversation.settled_at),
        conversation.status,
        conversation.property_id,
        [[name, state, str(row.conversation.reactions.get(name))] for name, state in row.states.items()],
        [
            None
            if sending is None
            else [sending.status.to_json(), [delivery.to_json() for delivery in sending.deliveries]]
            for sending in sent
        ],
    ]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:20]


LONG_CHARS = 4_000
"""A text longer than this is folded."""
SHOWN_CHARS = 1_500

_LINK = re.compile(r"https?://[^\s<>\"'\u200e\u200f\u202a-\u202e\u2066-\u2069]{1,2000}", re.IGNORECASE)
_TRAILING = ".,;:!?)]}»…"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text; ``href`` if it is a web address."""

    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class FileView:
    """An attachment; ``href`` only if it is a web address. Nothing is fetched."""

    name: str
    media_type: str
    href: str | None


@dataclass(frozen=True, slots=True)
class MessageView:
    id: str
    at: datetime
    outbound: bool
    role: str
    parts: tuple[TextPart, ...]
    rest: str
    """The rest of a long text, folded."""
    whole: str
    """The full e-mail with its quotes, folded."""
    files: tuple[FileView, ...]
    edited_at: datetime | None
    delivery: DeliverySummary | None
    unknown_sender: str | None
    """The sender, if it is not a participant."""
    unanswered: str | None
    """Why it got no automatic reply."""
    kind: str = "message"


@dataclass(frozen=True, slots=True)
class TurnView:
    """A settled turn with the state of each consumer: ``seen``, ``owed``, ``failed`` or ``not owed``."""

    at: datetime
    emitter: str
    immediate: bool
    reactions: tuple[tuple[str, str], ...]
    kind: str = "turn"

    @property
    def label(self) -> str:
        """Such as ``turn settled, seen by 3 of 4 consumers``."""
        owing = [state for _, state in self.reactions if state in ("owed", "failed")]
        seen = sum(state == "seen" for _, state in self.reactions)
        return (
            f"turn settled, seen by {count(seen + len(owing), 'consumer')}"
            if not owing
            else (f"turn settled, seen by {seen} of {count(seen + len(owing), 'consumer')}")
        )


@dataclass(frozen=True, slots=True)
class DayView:
    at: datetime
    kind: str = "day"


Item = MessageView | TurnView | DayView


@dataclass(frozen=True, slots=True)
class StampView:
    """A consumer's stamp: readable labels and values, and all of it as JSON."""

    consumer: str
    state: str
    at: datetime | None
    through: datetime | None
    error: str | None
    facts: tuple[tuple[str, str], ...]
    raw: str


def items(
    row: InboxRow,
    messages: Sequence[Message],
    turns: Sequence[SettledTurn],
    first: int,
    sent: Mapping[str, SendOutcome],
    details: Mapping[str, MessageDetails],
) -> Iterator[Item]:
    """Messages in thread order, each turn after its last message, with a separator before each day.

    ``first``: the number of messages before these; turns that end elsewhere are left out. ``sent`` and ``details``: the
    delivery status and the channel's details, by message id.
    """
    ends: dict[int, list[SettledTurn]] = {}
    for turn in turns:
        ends.setdefault(turn.last_seq, []).append(turn)
    day = None
    for number, message in enumerate(messages, first + 1):
        if message.at.date() != day:
            day = message.at.date()
            yield DayView(message.at)
        yield message_view(message, delivery_summary(sent.get(message.id)), details.get(message.id))
        for turn in ends.get(number, ()):
            yield turn_view(row, turn)
    if not messages:
        for turn in turns:
            yield turn_view(row, turn)


def before(messages: Sequence[Message]) -> datetime | None:
    """The time after which the turns of these messages are: a turn's time may be rounded down to a millisecond."""
    return messages[0].at - 2 * MILLISECOND if messages else None


def message_view(
    message: Message, sending: DeliverySummary | None = None, details: MessageDetails | None = None
) -> MessageView:
    """``details``: the channel's details of the message."""
    text, rest = message.text, ""
    if len(text) > LONG_CHARS:
        text, rest = text[:SHOWN_CHARS], text[SHOWN_CHARS:]
    return MessageView(
        id=message.id,
        at=message.at,
        outbound=message.direction is Direction.OUTBOUND,
        role=message.role.value,
        parts=tuple(text_parts(text)),
        rest=rest,
        whole=message.whole or "",
        files=tuple(
            FileView(file.name or file.media_type, file.media_type, web_link(file.url)) for file in message.attachments
        ),
        edited_at=message.edited_at,
        delivery=sending,
        unknown_sender=None if details is None else details.facts.get("from"),
        unanswered=None if details is None else _UNANSWERED.get(details.suppress or ""),
    )


_UNANSWERED: Mapping[str, str] = {
    SuppressReason.AUTO_REPLY: "automatic message",
    SuppressReason.BOUNCE: "delivery failure notice",
    SuppressReason.BULK: "bulk mail",
    SuppressReason.RECEIPT: "receipt",
    SuppressReason.COMPLAINT: "complaint about our mail",
    SuppressReason.SPAM: "spam",
    SuppressReason.OPT_OUT: "opted out",
    SuppressReason.OWN: "sent by us",
    SuppressReason.RATE_LIMIT: "rate limit for automatic replies reached",
}
"""Unknown senders have their own line."""


def turn_view(row: InboxRow, turn: SettledTurn) -> TurnView:
    reactions = tuple(
        (name, _state_at(row.conversation.reactions.get(name), state, turn.occurred_at))
        for name, state in row.states.items()
    )
    return TurnView(turn.occurred_at, turn.emitter, turn.flush_mode == "immediate", reactions)


def stamp_view(row: InboxRow, consumer: str) -> StampView:
    stamp = row.conversation.reactions.get(consumer) or StoredStamp()
    data = row.stamp(consumer)
    return StampView(
        consumer=consumer,
        state=row.states[consumer].value,
        at=stamp.at,
        through=stamp.through,
        error=stamp.error if row.states[consumer] is ReactionState.FAILED else None,
        facts=tuple(readable(data)),
        raw=json.dumps(dict(data), ensure_ascii=False, indent=2) if data else "",
    )


def readable(data: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """The values of a stamp that fit in a line each; nested values are only in the JSON."""
    for key, value in data.items():
        if isinstance(value, list):
            if value and all(isinstance(entry, str | int | float) for entry in value) and len(value) <= 12:
                yield _words(key), ", ".join(str(entry) for entry in value)
        elif isinstance(value, bool):
            yield _words(key), "yes" if value else "no"
        elif value is not None and not isinstance(value, dict) and value != "":
            yield _words(key), str(value)


def text_parts(text: str) -> Iterator[TextPart]:
    """A text split at its web addresses. No other scheme becomes a link."""
    end = 0
    for match in _LINK.finditer(text):
        address = match[0].rstrip(_TRAILING)
        href = web_link(address)
        if href is None:
            continue
        if match.start() > end:
            yield TextPart(text[end : match.start()])
        yield TextPart(address, href)
        end = match.start() + len(address)
    if end < len(text):
        yield TextPart(text[end:])


def web_link(url: str) -> str | None:
    """The address, if it is a web address."""
    try:
        parts = urlsplit(url.strip())
        host = parts.hostname
    except ValueError:
        return None
    return url.strip() if parts.scheme in ("http", "https") and host else None


def _state_at(stamp: StoredStamp | None, now: ReactionState, at: datetime) -> str:
    if stamp is not None and stamp.through is not None and stamp.through >= at:
        return "seen"
    if stamp is not None and stamp.failed_through is not None and stamp.failed_through >= at:
        return "failed"
    return "not owed" if now is ReactionState.FRESH else "owed"


def _words(key: str) -> str:
    """``firstResponseS`` as ``first response (s)``."""
    words = _WORD.sub(" ", key)
    return words[:-2].lower() + " (s)" if words.endswith(" S") else words.lower()
