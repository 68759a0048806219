"""Reactions: failures, retries and consumers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import Field, model_validator

from afterturn.backbone import Backbone
from afterturn.errors import NotFound
from afterturn.inbox.cursor import decode_position, encode_position
from afterturn.model import Id, Label, Record
from afterturn.store.port import ConsumerState, Failure, FailureKey
from afterturn.web.api import shapes
from afterturn.web.api.common import (
    WITH_BODY,
    Admin,
    JsonRoute,
    ListParameters,
    OnCall,
    OpenBackbone,
    json_response,
    list_response,
    responses,
)
from afterturn.web.errors import API

_ALL = 1_000_000

router = APIRouter(prefix=API, route_class=JsonRoute, tags=["reactions"])


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
    responses=responses(shapes.FailuresShape, "Failed reactions.", 400),
)
async def list_failed(
    caller: OnCall, backbone: OpenBackbone, parameters: Annotated[ListParameters, Query()]
) -> JSONResponse:
    """List failed reactions."""
    after = None
    if parameters.cursor is not None:
        after = FailureKey(*decode_position(parameters.cursor, "failures", str, str))
    failures = await backbone.store.failures(after=after, limit=parameters.limit + 1)
    return list_response(
        "failures",
        failures,
        parameters.limit,
        shapes.failure,
        lambda failure: encode_position("failures", failure.consumer, failure.conversation_id),
    )


@router.post(
    "/reactions/retry",
    responses=responses(shapes.RetriedShape, "They will run again.", 404, *WITH_BODY),
)
async def retry(caller: OnCall, backbone: OpenBackbone, body: RetryBody) -> JSONResponse:
    """Retry failed reactions. A repetition finds nothing failed and answers 404."""
    if body.consumer is not None and body.consumer not in await backbone.store.registrations():
        raise NotFound(_NO_CONSUMER)
    requested = set(body.conversation_ids)
    failures = [
        failure
        for failure in await backbone.store.failures(limit=_ALL)
        if (body.all or failure.conversation_id in requested) and body.consumer in (None, failure.consumer)
    ]
    if not requested <= {failure.conversation_id for failure in failures}:
        raise NotFound("nothing has failed on one of these conversations; GET /api/v1/reactions/failed lists what has")
    retried = [
        {"conversationId": failure.conversation_id, "consumer": failure.consumer}
        for failure in await retry_failures(backbone, failures)
    ]
    return json_response({"retried": retried})


async def retry_failures(backbone: Backbone, failures: Iterable[Failure]) -> list[Failure]:
    """Retry failed reactions. Returns those that nobody else has retried meanwhile."""
    retried = []
    for failure in failures:
        with suppress(NotFound):
            await backbone.engine.retry(failure.consumer, failure.conversation_id)
            retried.append(failure)
    return retried


@router.get(
    "/consumers",
    responses=responses(shapes.ConsumersShape, "Consumers."),
)
async def list_consumers(caller: OnCall, backbone: OpenBackbone) -> JSONResponse:
    """List all registered consumers with the number of failed reactions."""
    return json_response({"consumers": await _consumers(backbone)})


@router.post(
    "/consumers/{name}/promote",
    responses=responses(shapes.ConsumerShape, "It is live.", 404),
)
async def promote(caller: Admin, backbone: OpenBackbone, name: Name) -> JSONResponse:
    """Make a consumer in shadow, or a retired one, live: its stamps are shown, and it owes every new turn."""
    return await _changed(backbone, name, ConsumerState.LIVE)


@router.post(
    "/consumers/{name}/retire",
    responses=responses(shapes.ConsumerShape, "It is retired.", 404),
)
async def retire(caller: Admin, backbone: OpenBackbone, name: Name) -> JSONResponse:
    """Retire a consumer: it owes no reactions from now on. Its stamps stay."""
    return await _changed(backbone, name, ConsumerState.RETIRED)


_NO_CONSUMER = "no consumer of that name was ever registered; GET /api/v1/consumers lists them"


async def _changed(backbone: Backbone, name: str, state: ConsumerState) -> JSONResponse:
    if name not in await backbone.store.registrations():
        raise NotFound(_NO_CONSUMER)
    await backbone.store.set_state(name, state)
    return json_response(next(shape for shape in await _consumers(backbone) if shape["name"] == name))


async def _consumers(backbone: Backbone) -> list[dict[str, Any]]:
    return shapes.consumers(await backbone.store.registrations(), await backbone.store.failures(limit=_ALL))
