"""The stream: its depth and its dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import JSONResponse
from pydantic import Field, model_validator

from afterturn.errors import NotFound
from afterturn.inbox.cursor import decode_position, encode_position
from afterturn.model import Record
from afterturn.stream.port import DeadLetterKey
from afterturn.web.api import shapes
from afterturn.web.api.common import (
    WITH_BODY,
    JsonRoute,
    ListParameters,
    OnCall,
    OpenBackbone,
    documented,
    documented_errors,
    json_response,
    list_response,
)
from afterturn.web.api.shapes import read_stats
from afterturn.web.middleware import unquoted

_ALL = 1_000_000

router = APIRouter(route_class=JsonRoute, tags=["stream"])


class RedriveBody(Record):
    """Which dead letters: some by id, or all."""

    ids: Annotated[tuple[Annotated[str, Field(max_length=500)], ...], Field(max_length=1_000)] = ()
    all: bool = False

    @model_validator(mode="after")
    def _some_or_all(self) -> Self:
        if bool(self.ids) == self.all:
            raise ValueError("name dead letters in ids, or say all: true")
        return self


def _letter_id(letter_id: Annotated[str, Path(description="The id of a dead letter.", max_length=2_000)]) -> str:
    return unquoted(letter_id)


@router.get(
    "/stream",
    responses={
        **documented(shapes.DepthShape, "Depth.", {"main": 3, "retry": 0, "dead": 0, "oldestAt": None}),
        **documented_errors(),
    },
)
async def show_depth(caller: OnCall, backbone: OpenBackbone) -> JSONResponse:
    """Count the records in the stream, including those in flight, and report the oldest."""
    return json_response(shapes.depth(await backbone.stream.depth()))


@router.get(
    "/stats",
    responses={
        **documented(
            shapes.StatsShape,
            "Each stage.",
            {
                "conversations": 85,
                "messages": 1210,
                "turns": 600,
                "stamps": 340,
                "jobs": 0,
                "openWorkOrders": 12,
                "stream": {"main": 3, "retry": 0, "dead": 0, "oldestAt": None},
                "reactions": {"waiting": 4, "failed": 0, "oldestAt": None},
            },
        ),
        **documented_errors(),
    },
)
async def show_stats(caller: OnCall, backbone: OpenBackbone) -> JSONResponse:
    """Count what is in each stage, and how old the oldest entry is."""
    body, problems = await read_stats(backbone)
    for problem in problems:
        raise problem
    return json_response(body)


@router.get(
    "/dead-letters",
    responses={
        **documented(
            shapes.DeadLettersShape,
            "Dead letters.",
            {"deadLetters": [shapes.LETTER], "nextCursor": None, "complete": True},
        ),
        **documented_errors(400),
    },
)
async def list_dead_letters(
    caller: OnCall, backbone: OpenBackbone, asked: Annotated[ListParameters, Query()]
) -> JSONResponse:
    """List dead letters, oldest first."""
    after = None if asked.cursor is None else _place(asked.cursor)
    found = await backbone.stream.dead_letters(after=after, limit=asked.limit + 1)
    last = found[asked.limit - 1] if len(found) > asked.limit else None
    return list_response(
        "deadLetters",
        [shapes.dead_letter(one) for one in found[: asked.limit]],
        None if last is None else encode_position("dead letters", last.died_at, last.id),
    )


@router.post(
    "/dead-letters/redrive",
    responses={
        **documented(shapes.RedrivenShape, "Sent to the stream again.", {"redriven": 1}),
        **documented_errors(404, *WITH_BODY),
    },
)
async def redrive(caller: OnCall, backbone: OpenBackbone, given: RedriveBody) -> JSONResponse:
    """Send dead letters to their queue again. Turns that were handled since are not handled twice."""
    known = [one.id for one in await backbone.stream.dead_letters(limit=_ALL)]
    if not set(given.ids) <= set(known):
        raise NotFound(_NO_LETTER)
    chosen = known if given.all else list(dict.fromkeys(given.ids))
    return json_response({"redriven": await backbone.stream.redrive(chosen)})


@router.get(
    "/dead-letters/{letter_id}",
    responses={**documented(shapes.DeadLetterShape, "The dead letter.", shapes.LETTER), **documented_errors(404)},
)
async def show_dead_letter(
    caller: OnCall, backbone: OpenBackbone, letter_id: Annotated[str, Depends(_letter_id)]
) -> JSONResponse:
    """Show a dead letter with its body."""
    found = await backbone.stream.dead_letters(limit=_ALL)
    letter = next((one for one in found if one.id == letter_id), None)
    if letter is None:
        raise NotFound(_NO_LETTER)
    return json_response(shapes.dead_letter(letter))


def _place(cursor: str) -> DeadLetterKey:
    died_at, letter_id = decode_position(cursor, "dead letters", datetime, str)
    assert isinstance(died_at, datetime)
    return DeadLetterKey(died_at, str(letter_id))


_NO_LETTER = "there is no such dead letter; GET /api/v1/dead-letters lists them"
