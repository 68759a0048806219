"""Conversations: the inbox, messages, turns, stamps, patches and replies."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import Field, create_model, model_validator

from afterturn.channels.outbox import reply_jobs
from afterturn.inbox import InboxQuery, InboxRow
from afterturn.inbox.filters import FILTERS, MAX_LIMIT
from afterturn.model import ConversationPatch, Direction, Message, Record, Role, StoredStamp, Text, Turn
from afterturn.web.api import shapes
from afterturn.web.api.common import (
    WITH_BODY,
    ConversationId,
    CursorText,
    IdempotencyKey,
    IfMatch,
    JsonRoute,
    OpenBackbone,
    PageParameters,
    Parameters,
    StoreOfCaller,
    derived,
    etag,
    json_response,
    read_etag,
    responses,
)
from afterturn.web.errors import API, HttpError

router = APIRouter(prefix=f"{API}/conversations", route_class=JsonRoute, tags=["conversations"])


class _InboxParameters(Parameters):
    """The filters of the inbox. A parameter that is given several times selects any of its values."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Conversations a page.")] = 50
    cursor: CursorText = None

    @model_validator(mode="after")
    def _makes_a_query(self) -> _InboxParameters:
        self.query()
        return self

    def query(self) -> InboxQuery:
        return InboxQuery(
            limit=self.limit, **{declared.field: getattr(self, declared.filter.name) for declared in FILTERS}
        )


_DECLARED: dict[str, Any] = {
    declared.filter.name: (
        Annotated[declared.annotation, Field(description=declared.filter.help)],
        declared.default,
    )
    for declared in FILTERS
}
_Parameters: Any = create_model("InboxParameters", __base__=_InboxParameters, **_DECLARED)


def _parameters(parameters: Annotated[_Parameters, Query()]) -> _InboxParameters:
    inbox_parameters: _InboxParameters = parameters
    return inbox_parameters


class ReplyBody(Record):
    """An operator's reply."""

    text: Annotated[Text, Field(min_length=1, examples=["The locksmith comes at nine."])]


@router.get(
    "",
    responses=responses(shapes.InboxShape, "A page.", 400),
)
async def list_conversations(
    scoped: StoreOfCaller, parameters: Annotated[_InboxParameters, Depends(_parameters)]
) -> JSONResponse:
    """List the conversations that match the filters, newest first, page by page."""
    page = await scoped.page(parameters.query(), parameters.cursor)
    return json_response(page.to_json())


@router.get(
    "/{conversation_id}",
    responses=responses(shapes.ConversationShape, "The conversation.", 404, tagged=True),
)
async def show_conversation(scoped: StoreOfCaller, conversation_id: ConversationId) -> JSONResponse:
    """One conversation, as the inbox shows it. Its ETag changes with what people change, not with its turns."""
    return _row(await scoped.row(conversation_id))


@router.patch(
    "/{conversation_id}",
    responses=responses(shapes.ConversationShape, "Changed.", 404, 412, 428, *WITH_BODY, tagged=True),
)
async def patch_conversation(
    scoped: StoreOfCaller, conversation_id: ConversationId, patch: ConversationPatch, if_match: IfMatch = None
) -> JSONResponse:
    """Close or open it, move it to another property (null: to none), or assign it to a person (null: to nobody).

    Fields that are left out stay as they are. Turns do not undo it; a closed conversation opens again when its
    customer writes.
    """
    revision = read_etag(if_match)
    return _row(await scoped.patch_conversation(conversation_id, patch, revision))


@router.get(
    "/{conversation_id}/messages",
    responses=responses(shapes.MessagesShape, "A page.", 400, 404),
)
async def list_messages(
    scoped: StoreOfCaller, conversation_id: ConversationId, parameters: Annotated[PageParameters, Query()]
) -> JSONResponse:
    """The newest messages in thread order; `nextCursor` leads to those before them."""
    page = await scoped.messages(conversation_id, limit=parameters.limit, cursor=parameters.cursor)
    return json_response({"messages": [message.to_json() for message in page.items], "nextCursor": page.next_cursor})


@router.get(
    "/{conversation_id}/turns",
    responses=responses(shapes.TurnsShape, "A page.", 400, 404),
)
async def list_turns(
    scoped: StoreOfCaller, conversation_id: ConversationId, parameters: Annotated[PageParameters, Query()]
) -> JSONResponse:
    """Settled turns, oldest first."""
    page = await scoped.turns(conversation_id, limit=parameters.limit, cursor=parameters.cursor)
    return json_response({"turns": [turn.to_json() for turn in page.items], "nextCursor": page.next_cursor})


@router.get(
    "/{conversation_id}/stamps",
    responses=responses(shapes.StampsShape, "The stamps.", 404),
)
async def list_stamps(scoped: StoreOfCaller, conversation_id: ConversationId) -> JSONResponse:
    """What each live consumer left on the conversation, how far it has seen, and how its last run failed."""
    row = await scoped.row(conversation_id)
    return json_response({"stamps": [_stamp(row, name) for name in row.states]})


@router.post(
    "/{conversation_id}/replies",
    status_code=201,
    responses={
        **responses(shapes.ReplyShape, "It was saved before, with this key."),
        **responses(shapes.ReplyShape, "Saved and settled.", 404, 409, *WITH_BODY, status=201),
    },
)
async def reply(
    scoped: StoreOfCaller,
    backbone: OpenBackbone,
    conversation_id: ConversationId,
    key: IdempotencyKey,
    body: ReplyBody,
) -> JSONResponse:
    """Save an operator's reply, settle it as a turn, so that every consumer sees it, and send it.

    It goes out by the channel that the conversation came in by, where `up` or a worker has that set up.
    """
    await scoped.row(conversation_id)
    meta = await backbone.store.meta(conversation_id)
    assert meta is not None  # conversations are never deleted
    name = derived(conversation_id, key)
    message = Message(
        id=f"reply-{name}", direction=Direction.OUTBOUND, role=Role.OPERATOR, text=body.text, at=backbone.clock()
    )
    jobs = await reply_jobs(backbone.store, meta, message)
    receipt = await backbone.settle(Turn(conversation=meta, messages=(message,), key=f"reply-{name}"), jobs=jobs)
    if not receipt.new:
        stored = await backbone.store.messages(conversation_id)
        if any(known.id == message.id and known.text != message.text for known in stored):
            raise HttpError(
                409,
                "this Idempotency-Key was used for another reply; take a new key for a new reply",
                field="Idempotency-Key",
            )
    event = receipt.event
    shape = shapes.ReplyShape(
        conversation_id=conversation_id,
        message_id=message.id,
        event_id=event.event_id,
        occurred_at=event.occurred_at,
        new=receipt.new,
    )
    return json_response(shape.to_json(), 201 if receipt.new else 200)


def _row(row: InboxRow) -> JSONResponse:
    return json_response(row.to_json(), headers={"etag": etag(row.conversation.revision)})


def _stamp(row: InboxRow, consumer: str) -> dict[str, Any]:
    stamp = row.conversation.reactions.get(consumer) or StoredStamp()
    return {"consumer": consumer, "state": row.states[consumer].value, **stamp.to_json()}
