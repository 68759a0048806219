"""``/conversations/{id}``: messages, stamps and work orders, with the reply form and other changes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from afterturn.channels.outbox import Sending, sending_of
from afterturn.channels.state import ContactName, MessageDetails, Route, message_key
from afterturn.errors import Conflict, InvalidRecord
from afterturn.inbox import InboxRow
from afterturn.model import UNASSIGNED, Channel, ConversationPatch, Direction, Message, parse
from afterturn.web.api import conversations
from afterturn.web.api.common import ConversationId, OpenBackbone, Operator, StoreOfCaller
from afterturn.web.api.scoped_store import ScopedStore
from afterturn.web.errors import HttpError
from afterturn.web.pages.inbox import events
from afterturn.web.pages.inbox_view import row_view
from afterturn.web.pages.query_params import address, conversation_path
from afterturn.web.pages.rendering import HEADERS, render
from afterturn.web.pages.routing import FormData, PageRoute, redirect
from afterturn.web.pages.thread import before, items, stamp_view

router = APIRouter(prefix="/conversations", route_class=PageRoute, include_in_schema=False)

_MESSAGES = 100
_TURNS = 1_000
_ORDERS = 100
_WATCHED = 3
_WATCHED_FOR = timedelta(hours=1)
"""The newest messages on their way out that an open page is told of, each look, as long as something may come."""
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
    """The newest messages, or those before a cursor. ``upto``: how many there are up to the last one shown."""
    row = await scoped.row(conversation_id)
    found = await scoped.messages(conversation_id, limit=_MESSAGES, cursor=cursor)
    last = int(upto) if _NUMBER.match(upto) else row.conversation.message_count
    first = max(last - len(found.items), 0)
    turns = await scoped.backbone.store.turns(conversation_id, after=before(found.items), limit=_TURNS)
    orders = await scoped.orders(conversation_id=conversation_id, open_only=False, limit=_ORDERS, cursor=None)
    here = conversation_path(conversation_id)
    names = await _names(scoped, row.conversation.participants)
    sending = [one.id for one in found.items if _may_change(one, scoped.backbone.clock())][-_WATCHED:]
    sent, details = await _sending_and_details(scoped, conversation_id, found.items)
    older = [] if found.next_cursor is None else [("cursor", found.next_cursor), ("upto", str(first))]
    return render(
        request,
        "conversation.html",
        conversation=row.conversation,
        about=row_view(row),
        names=names,
        items=list(items(row, found.items, turns, first, sent, details)),
        stamps=[stamp_view(row, name) for name in row.states],
        orders=orders.items,
        here=here,
        older=address(here, older) if older else None,
        newest=cursor is None,
        stopped=cursor is None and await _is_stopped(scoped, row),
        key=request.app.state.form_key(),
        properties=sorted((caller.scope.properties or frozenset()) - {UNASSIGNED}),
        done=_DONE.get(done),
        known=_known(row, [sent.get(one) for one in sending]),
        live=address(f"{here}/live", [("sending", one) for one in sending]),
    )


@router.get("/{conversation_id}/live")
async def tell_changes(
    request: Request,
    scoped: StoreOfCaller,
    conversation_id: ConversationId,
    sending: Annotated[list[str], Query()] = _NONE,
) -> Response:
    """Server-sent events: what tells the conversation as it is from one that changed since.

    ``sending``: messages whose way out is watched, too.
    """
    await scoped.row(conversation_id)
    watched = sending[:_WATCHED]

    async def look(scoped: ScopedStore) -> dict[str, object]:
        row = await scoped.row(conversation_id)
        sent = await sending_of(scoped.backbone.store, conversation_id, watched)
        return {"known": _known(row, [sent.get(one) for one in watched])}

    return StreamingResponse(
        events(request, look), media_type="text/event-stream", headers={**HEADERS, "x-accel-buffering": "no"}
    )


@router.post("/{conversation_id}/reply")
async def reply(
    scoped: StoreOfCaller, backbone: OpenBackbone, conversation_id: ConversationId, form: FormData
) -> Response:
    """Save an operator's reply. The form carries a key, so that a second click sends nothing twice."""
    text = form.one("text").replace("\r\n", "\n").strip()
    if not text:
        raise InvalidRecord("text", "Write a text first: an empty reply is not sent.")
    given = parse(conversations.ReplyBody, {"text": text})
    key = f"form-{form.one('key')}"[:200]
    try:
        answer = await conversations.reply(scoped, backbone, conversation_id, key, given)
    except HttpError as refused:
        if refused.status_code != 409:
            raise
        raise HttpError(
            409, "conflict", "This form has already sent another reply. Reload the page to write a new one."
        ) from None
    return redirect(conversation_path(conversation_id), ("done", "reply" if answer.status_code == 201 else "again"))


@router.post("/{conversation_id}/update")
async def patch_conversation(scoped: StoreOfCaller, conversation_id: ConversationId, form: FormData) -> Response:
    """Close or open it, put it under another property, take it or give it back: what the form names.

    The form carries the revision that its page showed, so that nobody undoes what somebody else has just decided.
    """
    asked: dict[str, str | None] = {
        name: form.one(name).strip() or None for name in ("status", "propertyId", "assignee") if form.has(name)
    }
    revision = form.one("revision")
    if not _NUMBER.match(revision):
        raise InvalidRecord("revision", "The form does not belong to this page. Reload the page and try again.")
    try:
        await scoped.patch_conversation(conversation_id, parse(ConversationPatch, asked), int(revision))
    except Conflict:
        raise HttpError(
            409, "conflict", "Somebody else changed this conversation. Go back, reload and try again."
        ) from None
    return redirect(conversation_path(conversation_id), ("done", "updated"))


@router.post("/{conversation_id}/close-order")
async def close_order(scoped: StoreOfCaller, conversation_id: ConversationId, form: FormData) -> Response:
    """Close a work order: the repair is done. A second click changes nothing."""
    await scoped.close(conversation_id, form.one("order"))
    return redirect(conversation_path(conversation_id), ("done", "closed"))


async def _sending_and_details(
    scoped: ScopedStore, conversation_id: str, messages: Sequence[Message]
) -> tuple[Mapping[str, Sending], Mapping[str, MessageDetails]]:
    """What became of sending each of these messages, and what their channel says of those that came in."""
    store = scoped.backbone.store
    sent = [message.id for message in messages if message.direction is Direction.OUTBOUND]
    received = {
        message_key(conversation_id, message.id): message.id
        for message in messages
        if message.direction is Direction.INBOUND
    }
    details = await store.get_all(MessageDetails, list(received))
    return await sending_of(store, conversation_id, sent), {received[key]: one for key, one in details.items()}


async def _names(scoped: ScopedStore, people: Sequence[str]) -> Mapping[str, str]:
    """What to call those people whose names are known: ``{"user77": "Ada Lovelace (@ada)"}``."""
    known = await scoped.backbone.store.get_all(ContactName, list(dict.fromkeys(people)))
    return {person: name.text for person, name in known.items() if name.text}


async def _is_stopped(scoped: ScopedStore, row: InboxRow) -> bool:
    """Whether the person whom a reply would go to wrote STOP, which is a word of text messages alone.

    The reply is sent nevertheless: only the provider knows to which of our numbers they wrote it.
    """
    conversation, store = row.conversation, scoped.backbone.store
    if conversation.channel is not Channel.SMS:
        return False
    route = await store.get(Route, conversation.id)
    if route is None or route.recipient not in conversation.participants:
        return False
    opt_out = await store.opt_out(Channel.SMS, route.recipient)
    return opt_out is not None and opt_out.opted_out


def _may_change(message: Message, now: datetime) -> bool:
    """Whether it went out so lately that its provider may still have something to say."""
    return message.direction is Direction.OUTBOUND and now - message.at < _WATCHED_FOR


def _known(row: InboxRow, sent: Sequence[Sending | None]) -> str:
    """What tells one look at a conversation from a later one, without a word of it."""
    conversation = row.conversation
    looked = [
        conversation.message_count,
        conversation.revision,
        str(conversation.settled_at),
        conversation.status,
        conversation.property_id,
        [[name, state, str(row.conversation.reactions.get(name))] for name, state in row.states.items()],
        [None if one is None else [one.status.to_json(), [each.to_json() for each in one.deliveries]] for one in sent],
    ]
    return hashlib.sha256(json.dumps(looked).encode()).hexdigest()[:20]
