"""Reactions: failures, retries and consumers."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import Field, model_validator

from afterturn.backbone import Backbone
from afterturn.errors import NotFound
from afterturn.inbox.cursor import decode_position, encode_position
from afterturn.model import Id, Label, Record
from afterturn.store.port import ConsumerState, FailureKey
from afterturn.web.api import shapes
from afterturn.web.api.common import (
    WITH_BODY,
    Admin,
    JsonRoute,
    ListParameters,
    OnCall,
    OpenBackbone,
    documented,
    documented_errors,
    json_response,
    list_response,
)

_ALL = 1_000_000
_NAME = {"conversationId": "c-17", "consumer": "topics"}
_FAILURE = {**_NAME, "failedThrough": "2026-03-01T12:00:06.000000Z", "error": "RuntimeError"}
_CONSUMER = {
    "name": "topics",
    "state": "live",
    "registeredAt": "2026-02-01T08:00:00.000000Z",
    "maxWaitSeconds": 300.0,
    "failed": 0,
}

router = APIRouter(route_class=JsonRoute, tags=["reactions"])


class RetryBody(Record):
    """Which failed reactions: of some conversations, or all; of one consumer where it is named."""

    conversation_ids: Annotated[tuple[Id, ...], Field(max_length=1_000)] = ()
    consumer: Label | None = None
    all: bool = False

    @model_validator(mode="after")
    def _some_or_all(self) -> Self:
        if bool(self.conversation_ids) == self.all:
            raise ValueError("name conversations in conversationIds, or say all: true")
        return self


Name = Annotated[str, Path(description="The name of a consumer.", examples=["topics"], max_length=400)]


@router.get(
    "/reactions/failed",
    responses={
        **documented(
            shapes.FailuresShape, "Failed reactions.", {"failures": [_FAILURE], "nextCursor": None, "complete": True}
        ),
        **documented_errors(400),
    },
)
async def list_failed(
    caller: OnCall, backbone: OpenBackbone, asked: Annotated[ListParameters, Query()]
) -> JSONResponse:
    """List failed reactions."""
    after = None if asked.cursor is None else _place(asked.cursor)
    found = await backbone.store.failures(after=after, limit=asked.limit + 1)
    shown = [shapes.failure(one) for one in found[: asked.limit]]
    last = found[asked.limit - 1] if len(found) > asked.limit else None
    return list_response(
        "failures", shown, None if last is None else encode_position("failures", last.consumer, last.conversation_id)
    )


@router.post(
    "/reactions/retry",
    responses={
        **documented(shapes.RetriedShape, "They will run again.", {"retried": [_NAME]}),
        **documented_errors(404, *WITH_BODY),
    },
)
async def retry(caller: OnCall, backbone: OpenBackbone, given: RetryBody) -> JSONResponse:
    """Retry failed reactions. A repetition finds nothing failed and answers 404."""
    if given.consumer is not None and given.consumer not in await backbone.store.registrations():
        raise NotFound(_NO_CONSUMER)
    wanted = set(given.conversation_ids)
    chosen = [
        (one.conversation_id, one.consumer)
        for one in await backbone.store.failures(limit=_ALL)
        if (given.all or one.conversation_id in wanted) and given.consumer in (None, one.consumer)
    ]
    if not wanted <= {conversation_id for conversation_id, _ in chosen}:
        raise NotFound("nothing has failed on one of these conversations; GET /api/v1/reactions/failed lists what has")
    retried = []
    for conversation_id, name in chosen:
        with suppress(NotFound):  # somebody else has retried it
            await backbone.engine.retry(name, conversation_id)
            retried.append({"conversationId": conversation_id, "consumer": name})
    return json_response({"retried": retried})


@router.get(
    "/consumers",
    responses={**documented(shapes.ConsumersShape, "Consumers.", {"consumers": [_CONSUMER]}), **documented_errors()},
)
async def list_consumers(caller: OnCall, backbone: OpenBackbone) -> JSONResponse:
    """List all registered consumers with the number of failed reactions."""
    return json_response({"consumers": await _consumers(backbone)})


@router.post(
    "/consumers/{name}/promote",
    responses={**documented(shapes.ConsumerShape, "It is live.", _CONSUMER), **documented_errors(404)},
)
async def promote(caller: Admin, backbone: OpenBackbone, name: Name) -> JSONResponse:
    """Make a consumer in shadow, or a retired one, live: its stamps are shown, and it owes every new turn."""
    return await _changed(backbone, name, ConsumerState.LIVE)


@router.post(
    "/consumers/{name}/retire",
    responses={
        **documented(shapes.ConsumerShape, "It is retired.", {**_CONSUMER, "state": "retired"}),
        **documented_errors(404),
    },
)
async def retire(caller: Admin, backbone: OpenBackbone, name: Name) -> JSONResponse:
    """Retire a consumer: it owes no reactions from now on. Its stamps stay."""
    return await _changed(backbone, name, ConsumerState.RETIRED)


def _place(cursor: str) -> FailureKey:
    consumer, conversation_id = decode_position(cursor, "failures", str, str)
    return FailureKey(str(consumer), str(conversation_id))


_NO_CONSUMER = "no consumer of that name was ever registered; GET /api/v1/consumers lists them"


async def _changed(backbone: Backbone, name: str, state: ConsumerState) -> JSONResponse:
    if name not in await backbone.store.registrations():
        raise NotFound(_NO_CONSUMER)
    await backbone.store.set_state(name, state)
    return json_response(next(one for one in await _consumers(backbone) if one["name"] == name))


async def _consumers(backbone: Backbone) -> list[dict[str, Any]]:
    return shapes.consumers(await backbone.store.registrations(), await backbone.store.failures(limit=_ALL))
