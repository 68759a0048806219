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
from afterturn.ledger.debts import Debt
from afterturn.ledger.ledger import Selection
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
    documented,
    documented_errors,
    json_response,
    list_response,
)
from afterturn.web.errors import HttpError

_MOST_DEBTS = 500
_REPLAY: dict[str, Any] = {
    "id": "0d1f2f3a4b5c6d7e8f90a1b2c3d4e5f6",
    "state": "running",
    "emitted": 0,
    "startedAt": "2026-03-01T12:00:06.000000Z",
}

router = APIRouter(prefix="/ledger", route_class=JsonRoute, tags=["ledger"])


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
    responses={
        **documented(
            shapes.AuditShape,
            "What the audit found.",
            {
                "clean": False,
                "checked": 85,
                "owed": 3,
                "waiting": 2,
                "overdue": 1,
                "failed": 0,
                "debts": [shapes.DEBT],
                "nextCursor": None,
                "complete": True,
            },
        ),
        **documented_errors(400),
    },
)
async def audit(caller: OnCall, backbone: OpenBackbone, asked: Annotated[AuditParameters, Query()]) -> JSONResponse:
    """List each reaction that is overdue or failed, and count those that are owed.

    Reads every row of the selection; `limit` applies to the debts in the response.
    """
    grace = _grace(asked.grace, backbone)
    bound = ("debts", asked.since, asked.until, asked.property, grace)
    after = None if asked.cursor is None else _place(asked.cursor, bound)
    found = await backbone.ledger.audit(_selection(asked), grace=grace)
    rest = sorted((debt for debt in found.debts if after is None or _place_of(debt) > after), key=_place_of)
    last = rest[asked.limit - 1] if len(rest) > asked.limit else None
    return list_response(
        "debts",
        [debt.to_json() for debt in rest[: asked.limit]],
        None if last is None else _cursor(last, bound),
        **found.counts(),
    )


@router.post(
    "/sweep",
    responses={
        **documented(shapes.SweptShape, "In the stream again.", {"swept": 1, "debts": [shapes.DEBT], "complete": True}),
        **documented_errors(*WITH_BODY),
    },
)
async def sweep(caller: OnCall, backbone: OpenBackbone, given: SweepBody) -> JSONResponse:
    """Re-emit overdue reactions into the stream, each at ages that double. Repeating the request changes nothing."""
    part = _selection(given)
    caught = await backbone.ledger.sweep(
        None if part == Selection() else part, grace=_grace(given.grace, backbone), everything=given.everything
    )
    shown = [debt.to_json() for debt in caught[:_MOST_DEBTS]]
    return json_response({"swept": len(caught), "debts": shown, "complete": len(caught) <= _MOST_DEBTS})


@router.post(
    "/replays",
    status_code=202,
    responses={
        **documented(shapes.ReplayShape, "It runs; GET it by its id to see how far it is.", _REPLAY, status=202),
        **documented_errors(404, 409, *WITH_BODY),
    },
)
async def start_replay(
    request: Request, caller: OnCall, backbone: OpenBackbone, key: IdempotencyKey, given: ReplayBody
) -> JSONResponse:
    """Re-run consumers over past conversations, in the background; those already seen are left out."""
    registered = await backbone.store.registrations()
    if not set(given.consumers) <= set(registered):
        raise NotFound("no consumer of that name was ever registered; GET /api/v1/consumers lists them")
    replays = _replays(request)
    replay_id = derived("replay", key)
    known = replays.find(replay_id)
    if known is not None and known.asked != given:
        text = "this Idempotency-Key was used for another replay; take a new key for a new one"
        raise HttpError(409, "conflict", text, field="Idempotency-Key")
    if known is None:
        if replays.running is not None:
            raise HttpError(409, "busy", "another replay is running; wait for its end")
        known = replays.start(replay_id, given, _selection(given), given.consumers, given.rate)
    return json_response(known.to_json(), 202)


@router.get(
    "/replays/{replay_id}",
    responses={**documented(shapes.ReplayShape, "The replay.", _REPLAY), **documented_errors(404)},
)
async def show_replay(
    request: Request, caller: OnCall, replay_id: Annotated[str, Path(description="The id of a replay.")]
) -> JSONResponse:
    """How far a replay of this process is."""
    found = _replays(request).find(replay_id)
    if found is None:
        raise NotFound("this process knows of no such replay; sending the same one again goes on where it ended")
    return json_response(found.to_json())


_DebtKey = tuple[timedelta, str, str]
"""The newest conversation first; those of one moment by id, those of one conversation by consumer."""


def _place_of(debt: Debt) -> _DebtKey:
    return _debt_key(key_of(debt.conversation), debt.consumer)


def _debt_key(row: RecencyKey, consumer: str) -> _DebtKey:
    return EPOCH - row.at, row.conversation_id, consumer


def _cursor(debt: Debt, bound: object) -> str:
    row = key_of(debt.conversation)
    return encode_position(bound, row.at, row.conversation_id, debt.consumer)


def _place(cursor: str, bound: object) -> _DebtKey:
    at, conversation_id, consumer = decode_position(cursor, bound, datetime, str, str)
    assert isinstance(at, datetime)
    return _debt_key(RecencyKey(at, str(conversation_id)), str(consumer))


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
    """A replay. ``asked``: the request, which a second one with the same key has to equal."""

    id: str
    asked: object
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
        return next((one for one in self._replays.values() if one.state is ReplayState.RUNNING), None)

    def start(self, replay_id: str, asked: object, part: Selection, consumers: Sequence[str], rate: float) -> Replay:
        """Begin one; nothing else may be running."""
        assert self.running is None
        replay = Replay(replay_id, asked, self._backbone.clock())
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
