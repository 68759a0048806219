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
    json_response,
    list_response,
    responses,
)
from afterturn.web.api.shapes import read_stats
from afterturn.web.errors import API
from afterturn.web.middleware import unquoted

_ALL = 1_000_000

router = APIRouter(prefix=API, route_class=JsonRoute, tags=["stream"])


class RedriveBody(Record):
    """Which dead letters: some by id, or all."""

    ids: Annotated[tuple[Annotated[str, Field(max_length=500)], ...], Field(max_length=1_000)] = ()
    all: bool = False

    @model_validator(mode="after")
    def _some_or_all(self) -> Self:
        if bool(self.ids) == self.all:
            raise ValueError("name dead letters in ids, or say all: true")
        return self


def _dead_letter_id(
    dead_letter_id: Annotated[str, Path(description="The id of a dead letter.", max_length=2_000)],
) -> str:
    return unquoted(dead_letter_id)


@router.get(
    "/stream",
    responses=responses(shapes.DepthShape, "Depth."),
)
async def show_depth(caller: OnCall, backbone: OpenBackbone) -> JSONResponse:
    """Count the records in the stream, including those in flight, and report the oldest."""
    return json_response(shapes.depth(await backbone.stream.depth()))


@router.get(
    "/stats",
    responses=responses(shapes.StatsShape, "Each stage."),
)
async def show_stats(caller: OnCall, backbone: OpenBackbone) -> JSONResponse:
    """Count what is in each stage, and how old the oldest entry is."""
    stats, problems = await read_stats(backbone)
    for problem in problems:
        raise problem
    return json_response(stats)


@router.get(
    "/dead-letters",
    responses=responses(shapes.DeadLettersShape, "Dead letters.", 400),
)
async def list_dead_letters(
    caller: OnCall, backbone: OpenBackbone, parameters: Annotated[ListParameters, Query()]
) -> JSONResponse:
    """List dead letters, oldest first."""
    after = None
    if parameters.cursor is not None:
        after = DeadLetterKey(*decode_position(parameters.cursor, "dead letters", datetime, str))
    dead_letters = await backbone.stream.dead_letters(after=after, limit=parameters.limit + 1)
    return list_response(
        "deadLetters",
        dead_letters,
        parameters.limit,
        shapes.dead_letter,
        lambda dead_letter: encode_position("dead letters", dead_letter.died_at, dead_letter.id),
    )


@router.post(
    "/dead-letters/redrive",
    responses=responses(shapes.RedrivenShape, "Sent to the stream again.", 404, *WITH_BODY),
)
async def redrive(caller: OnCall, backbone: OpenBackbone, body: RedriveBody) -> JSONResponse:
    """Send dead letters to their queue again. Turns that were handled since are not handled twice."""
    known = [dead_letter.id for dead_letter in await backbone.stream.dead_letters(limit=_ALL)]
    if not set(body.ids) <= set(known):
        raise NotFound(_NO_LETTER)
    chosen = known if body.all else list(dict.fromkeys(body.ids))
    return json_response({"redriven": await backbone.stream.redrive(chosen)})


@router.get(
    "/dead-letters/{dead_letter_id}",
    responses=responses(shapes.DeadLetterShape, "The dead letter.", 404),
)
async def show_dead_letter(
    caller: OnCall, backbone: OpenBackbone, dead_letter_id: Annotated[str, Depends(_dead_letter_id)]
) -> JSONResponse:
    """Show a dead letter with its body."""
    dead_letters = await backbone.stream.dead_letters(limit=_ALL)
    dead_letter = next((dead_letter for dead_letter in dead_letters if dead_letter.id == dead_letter_id), None)
    if dead_letter is None:
        raise NotFound(_NO_LETTER)
    return json_response(shapes.dead_letter(dead_letter))


_NO_LETTER = "there is no such dead letter; GET /api/v1/dead-letters lists them"
