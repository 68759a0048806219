"""The ledger: audit, sweep and replay."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, Field, model_validator

from afterturn import telemetry
from afterturn.backbone import Backbone
from afterturn.clock import EPOCH, parse_duration, to_text
from afterturn.errors import NotFound
from afterturn.inbox.cursor import decode_position, encode_position
from afterturn.inbox.filters import BY_NAME
from afterturn.ledger.ledger import OwedReaction, Selection
from afterturn.model import Id, Label, Record, Time
from afterturn.store.pagination import key_of
from afterturn.store.port import RecencyKey
from afterturn.web.api import shapes
from afterturn.web.api.common import (
    WITH_BODY,
    IdempotencyKey,
    JsonRoute,
    ListParameters,
    OnCall,
    OpenBackbone,
    derived,
    json_response,
    list_response,
    responses,
)
from afterturn.web.errors import API, HttpError

_MOST_REACTIONS = 500

router = APIRouter(prefix=f"{API}/ledger", route_class=JsonRoute, tags=["ledger"])


def _is_duration(text: str) -> str:
    parse_duration(text)
    return text


Duration = Annotated[
    str,
    Field(
        max_length=20,
        pattern=r"^\d{1,9}(\.\d{1,6})?(ms|s|m|h|d)$",
        description="Time that a reaction may be owed beyond its own max_wait; 0s: none.",
        examples=["2m"],
    ),
    AfterValidator(_is_duration),
]
Since = Annotated[Time | None, Field(description="Conversations whose newest message is at or after this time.")]
Until = Annotated[Time | None, Field(description="Conversations whose newest message is before this time.")]
Property = Annotated[Id | None, Field(description=BY_NAME["property"].filter.help)]


class _Part(Record):
    since: Since = None
    until: Until = None
    property: Property = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("since is not before until")
        return self


class AuditParameters(_Part, ListParameters):
    grace: Duration | None = None


class SweepBody(_Part):
    """Which reactions to re-emit; by default every one that is overdue."""

    grace: Duration | None = None
    everything: Annotated[bool, Field(description="Include reactions that were re-emitted recently.")] = False


class ReplayBody(_Part):
    """Which part of history, and for which consumers; by default every one that is not retired."""

    consumers: Annotated[tuple[Label, ...], Field(max_length=100)] = ()
    rate: Annotated[float, Field(gt=0, le=1_000, description="Maximum number of events per second.")] = 50.0


@router.get(
    "/audit",
    responses=responses(shapes.AuditShape, "What the audit found.", 400),
)
async def audit(
    caller: OnCall, backbone: OpenBackbone, parameters: Annotated[AuditParameters, Query()]
) -> JSONResponse:
    """List each reaction that is overdue or failed, and count those that are owed.

    Reads every row of the selection; `limit` applies to the reactions in the response.
    """
    grace = _grace(parameters.grace, backbone)
    bound = ("reactions", parameters.since, parameters.until, parameters.property, grace)
    after = None
    if parameters.cursor is not None:
        at, conversation_id, consumer = decode_position(parameters.cursor, bound, datetime, str, str)
        after = _order(RecencyKey(at, conversation_id), consumer)
    report = await backbone.ledger.audit(_selection(parameters), grace=grace)
    reactions = sorted(report.reactions, key=_order_of)
    return list_response(
        "reactions",
        [reaction for reaction in reactions if after is None or _order_of(reaction) > after],
        parameters.limit,
        OwedReaction.to_json,
        lambda reaction: encode_position(
            bound, reaction.conversation.recency, reaction.conversation.id, reaction.consumer
        ),
        **report.counts(),
    )


@router.post(
    "/sweep",
    responses=responses(shapes.SweptShape, "In the stream again.", *WITH_BODY),
)
async def sweep(caller: OnCall, backbone: OpenBackbone, body: SweepBody) -> JSONResponse:
    """Re-emit overdue reactions into the stream, each at ages that double. Repeating the request changes nothing."""
    part = _selection(body)
    swept = await backbone.ledger.sweep(
        None if part == Selection() else part, grace=_grace(body.grace, backbone), everything=body.everything
    )
    shown = [reaction.to_json() for reaction in swept[:_MOST_REACTIONS]]
    return json_response({"swept": len(swept), "reactions": shown, "complete": len(swept) <= _MOST_REACTIONS})


@router.post(
    "/replays",
    status_code=202,
    responses=responses(
        shapes.ReplayShape, "Running; GET it by its id for its progress.", 404, 409, *WITH_BODY, status=202
    ),
)
async def start_replay(
    request: Request, caller: OnCall, backbone: OpenBackbone, key: IdempotencyKey, body: ReplayBody
) -> JSONResponse:
    """Re-run consumers over past conversations, in the background; those already seen are left out."""
    registered = await backbone.store.registrations()
    if not set(body.consumers) <= set(registered):
        raise NotFound("no consumer of that name was ever registered; GET /api/v1/consumers lists them")
    replays = _replays(request)
    replay_id = derived("replay", key)
    known = replays.find(replay_id)
    if known is not None and known.request != body:
        text = "this Idempotency-Key was used for another replay; take a new key for a new one"
        raise HttpError(409, text, field="Idempotency-Key")
    if known is None:
        if replays.running is not None:
            raise HttpError(409, "another replay is running; wait for its end", code="busy")
        known = replays.start(replay_id, body, _selection(body), body.consumers, body.rate)
    return json_response(known.to_json(), 202)


@router.get(
    "/replays/{replay_id}",
    responses=responses(shapes.ReplayShape, "The replay.", 404),
)
async def show_replay(
    request: Request, caller: OnCall, replay_id: Annotated[str, Path(description="The id of a replay.")]
) -> JSONResponse:
    """How far a replay of this process is."""
    replay = _replays(request).find(replay_id)
    if replay is None:
        raise NotFound("this process knows of no such replay; sending the same one again goes on where it ended")
    return json_response(replay.to_json())


def _order_of(reaction: OwedReaction) -> tuple[timedelta, str, str]:
    return _order(key_of(reaction.conversation), reaction.consumer)


def _order(row: RecencyKey, consumer: str) -> tuple[timedelta, str, str]:
    """The newest conversation first; those of one moment by id, those of one conversation by consumer."""
    return EPOCH - row.at, row.conversation_id, consumer


def _selection(part: _Part) -> Selection:
    return Selection(since=part.since, until=part.until, property_id=part.property)


def _grace(text: str | None, backbone: Backbone) -> timedelta:
    return backbone.settings.grace if text is None else parse_duration(text)


def _replays(request: Request) -> Replays:
    replays: Replays = request.app.state.replays
    return replays


_REMEMBERED = 100


class ReplayState(StrEnum):
    """``stopped``: the process was stopped. What was requested until then is owed, and swept."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(slots=True)
class Replay:
    """A replay. ``request``: its body, which a second one with the same key has to equal."""

    id: str
    request: object
    started_at: datetime
    state: ReplayState = ReplayState.RUNNING
    emitted: int = 0
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "state": self.state.value,
            "emitted": self.emitted,
            "startedAt": to_text(self.started_at),
        }


class Replays:
    """The last hundred of this process."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self._replays: OrderedDict[str, Replay] = OrderedDict()

    def find(self, replay_id: str) -> Replay | None:
        return self._replays.get(replay_id)

    @property
    def running(self) -> Replay | None:
        return next((replay for replay in self._replays.values() if replay.state is ReplayState.RUNNING), None)

    def start(self, replay_id: str, request: object, part: Selection, consumers: Sequence[str], rate: float) -> Replay:
        """Begin one; nothing else may be running."""
        assert self.running is None
        replay = Replay(replay_id, request, self._backbone.clock())
        replay.task = asyncio.create_task(self._run(replay, part, consumers, rate))
        self._replays[replay_id] = replay
        while len(self._replays) > _REMEMBERED:
            self._replays.popitem(last=False)
        return replay

    async def stop(self) -> None:
        """End what runs."""
        replay = self.running
        if replay is not None and replay.task is not None:
            replay.task.cancel()
            await asyncio.wait([replay.task])

    async def _run(self, replay: Replay, part: Selection, consumers: Sequence[str], rate: float) -> None:
        def progress(emitted: int) -> None:
            replay.emitted = emitted

        try:
            await self._backbone.ledger.replay(part, consumers=consumers, rate=rate, progress=progress)
            replay.state = ReplayState.DONE
        except asyncio.CancelledError:
            replay.state = ReplayState.STOPPED
        except Exception as error:  # any error ends the replay, which its state reports
            telemetry.log("replay_failed", level=logging.ERROR, error=type(error).__name__)
            replay.state = ReplayState.FAILED
