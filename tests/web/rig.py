"""An application on a file of its own, with conversations of two properties, and callers of every kind."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from afterturn import (
    App,
    Backbone,
    Channel,
    ConversationMeta,
    Direction,
    Message,
    ReactionContext,
    Stamp,
    Turn,
    TurnWindow,
    WorkOrder,
)
from afterturn import Role as Speaker
from afterturn.bootstrap import open_backbone
from afterturn.config import Settings
from afterturn.inbox import Inbox
from afterturn.ledger.ledger import Ledger
from afterturn.model import Urgency
from afterturn.settle import Settler
from afterturn.store.port import Store
from afterturn.stream.port import Queue
from afterturn.testing.clock import ManualClock
from afterturn.web.access import AccessControl
from afterturn.web.app import make_app
from afterturn.web.roles import CallerRole
from afterturn.web.tokens import Token, TokenFile, add_token, digest_of

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
BASE = "http://testserver"
API = "/api/v1"

CALLERS: dict[str, tuple[CallerRole, tuple[str, ...] | None]] = {
    "oak": (CallerRole.OPERATOR, ("oak",)),
    "elm": (CallerRole.OPERATOR, ("elm",)),
    "strays": (CallerRole.OPERATOR, ("UNASSIGNED",)),
    "desk": (CallerRole.OPERATOR, None),
    "duty": (CallerRole.ON_CALL, None),
    "root": (CallerRole.ADMIN, None),
}
"""A token each, whose text is ``aft_`` and the name."""


@dataclass
class Rig:
    """What a test needs of it. ``headers_of`` authenticates as one of CALLERS."""

    backbone: Backbone
    clock: ManualClock
    access: AccessControl
    tokens: Path
    app: FastAPI = field(repr=False)

    def headers_of(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer aft_{name}"}

    def client(self, name: str | None = None, **more: str) -> httpx.AsyncClient:
        """A client that calls the application in this process."""
        headers = {**({} if name is None else self.headers_of(name)), **more}
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=BASE, headers=headers)

    async def settle(self, conversation_id: str, *texts: str, property_id: str | None = None, **meta: Any) -> None:
        """A turn, a minute after whatever was before."""
        self.clock.advance(timedelta(minutes=1))
        known = await self.backbone.store.messages(conversation_id)
        messages = [
            Message(
                id=f"{conversation_id}-m{len(known) + place}",
                direction=Direction.INBOUND,
                role=Speaker.CUSTOMER,
                text=text,
                at=self.clock() + timedelta(milliseconds=place),
            )
            for place, text in enumerate(texts or ("Hello?",))
        ]
        meta.setdefault("channel", Channel.SMS)
        about = ConversationMeta(id=conversation_id, property_id=property_id, **meta)
        await self.backbone.settle(Turn(conversation=about, messages=tuple(messages)))

    async def fail(self, conversation_id: str, consumer: str = "topics") -> None:
        """Let a reaction be given up on."""
        settled = await self.backbone.store.conversation(conversation_id)
        assert settled is not None
        assert settled.settled_at is not None
        store = self.backbone.store
        await store.fail(conversation_id, consumer, through=settled.settled_at, error="RuntimeError", now=self.clock())

    async def order(self, conversation_id: str, property_id: str | None, name: str) -> None:
        """A work order of the maintenance consumer's kind."""
        settled = await self.backbone.store.conversation(conversation_id)
        assert settled is not None
        assert settled.settled_at is not None
        order = WorkOrder(
            id=name,
            conversation_id=conversation_id,
            property_id=property_id,
            category="locks",
            urgency=Urgency.URGENT,
            message_id=f"{conversation_id}-m0",
            opened_at=self.clock(),
        )
        stamp = Stamp(data={}, work_orders=(order,))
        await self.backbone.store.stamp(
            conversation_id, "maintenance", stamp, through=settled.settled_at, now=self.clock()
        )

    async def make_dead_letter(self) -> str:
        """Give up on the oldest record of the stream; returns its id among the dead letters."""
        taken = await self.backbone.stream.receive(Queue.MAIN, limit=1, visibility=timedelta(minutes=1))
        await self.backbone.stream.dead_letter(taken[0], reason="no good")
        return (await self.backbone.stream.dead_letters(limit=100))[-1].id


async def _sees(window: TurnWindow, ctx: ReactionContext) -> Stamp:
    return Stamp(data={"topics": ["keys"]})


@asynccontextmanager
async def open_rig(folder: Path, store: Store | None = None, **limits: Any) -> AsyncIterator[Rig]:
    """``store``: in place of the file, whose stream and engine stay. ``limits``: as ``make_app`` takes them."""
    clock = ManualClock(START)
    own = App(shipped=False)
    for name in ("topics", "maintenance"):
        own.consumer(name, quiet="1s", max_wait="2s")(_sees)
    tokens = folder / "tokens.toml"
    for name, (role, properties) in CALLERS.items():
        token = Token(name=name, role=role, sha256=digest_of(f"aft_{name}"), created_at=START, properties=properties)
        add_token(tokens, token)
    settings = Settings(db=folder / "web.db")
    async with open_backbone(own, settings, clock=clock) as opened:
        backbone = opened if store is None else await _on(store, opened)
        access = AccessControl(clock, TokenFile(tokens))
        yield Rig(backbone, clock, access, tokens, make_app(backbone, access, **limits))


async def _on(store: Store, backbone: Backbone) -> Backbone:
    other = copy.copy(backbone)
    other.store = store
    other.searcher = None
    other.inbox = Inbox(store, backbone.clock)
    other.ledger = Ledger(store, backbone.stream, backbone.clock, "web")
    other._settler = Settler(store, backbone.stream, backbone.clock, "web")
    await other.register()
    return other


def ids(answer: httpx.Response) -> Sequence[str]:
    """The conversations of a page."""
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["rows"]]


def error_of(answer: httpx.Response) -> dict[str, str]:
    """The error of an answer, after a look at its shape."""
    body = answer.json()
    assert set(body) == {"error"}
    assert {"code", "message"} <= set(body["error"]) <= {"code", "message", "field"}
    assert answer.headers["content-type"] == "application/json"
    error: dict[str, str] = body["error"]
    return error


def raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as they go over the wire, those that no client would send included."""
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
