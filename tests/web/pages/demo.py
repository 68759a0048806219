"""The demo's conversations in a file, reacted to, and the pages on a copy of it."""

from __future__ import annotations

import asyncio
import html
import re
import shutil
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from fastapi import FastAPI

from afterturn import App, Backbone, Channel, ConversationMeta, Direction, Message, Role, Turn
from afterturn.bootstrap import open_backbone
from afterturn.clock import Clock, system_clock
from afterturn.config import Settings
from afterturn.demo import sample
from afterturn.web.access import AccessControl
from afterturn.web.app import make_app
from afterturn.web.pages.sse import EventStreams
from afterturn.web.roles import CallerRole as Caller
from afterturn.web.tokens import Token, TokenFile, add_token, digest_of

BASE = "http://testserver"
CALLERS: dict[str, tuple[Caller, tuple[str, ...] | None]] = {
    "root": (Caller.ADMIN, None),
    "duty": (Caller.ON_CALL, None),
    "desk": (Caller.OPERATOR, None),
    "maple": (Caller.OPERATOR, ("maple-court",)),
}


def fill(path: Path) -> None:
    """Settle the sample and drain it: in a thread, since a browser that is open has a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(_fill(path))).result()


async def _fill(path: Path) -> None:
    async with open_backbone(App(), Settings(db=path)) as backbone:
        for scripted in sample(backbone.clock()):
            for message in scripted.spoken:
                await backbone.save_messages(scripted.conversation.meta, [message])
            for turn in scripted.conversation.turns:
                await backbone.settle(turn)
        await backbone.register()
        await backbone.drain(eager=True)


@dataclass
class Site:
    """The pages on a store of their own."""

    backbone: Backbone
    access: AccessControl
    app: FastAPI = field(repr=False)

    def client(self, name: str | None = "root", **headers: str) -> httpx.AsyncClient:
        """A browser without scripts that carries a token of CALLERS."""
        if name is not None:
            headers["authorization"] = f"Bearer aft_{name}"
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url=BASE, headers={"accept": "text/html", **headers}
        )

    async def settle(self, conversation_id: str, text: str, property_id: str | None = "maple-court") -> None:
        """Something that a customer says, now."""
        now = self.backbone.clock()
        message = Message(
            id=f"{conversation_id}-{now:%H%M%S%f}", direction=Direction.INBOUND, role=Role.CUSTOMER, text=text, at=now
        )
        meta = await self.backbone.store.meta(conversation_id) or ConversationMeta(
            id=conversation_id, channel=Channel.SMS, property_id=property_id, participants=("+15155550199",)
        )
        await self.backbone.settle(Turn(conversation=meta, messages=(message,)))

    async def fail(self, conversation_id: str, consumer: str) -> None:
        """Let a reaction be given up on."""
        found = await self.backbone.store.conversation(conversation_id)
        assert found is not None
        assert found.settled_at is not None
        await self.backbone.store.fail(
            conversation_id, consumer, through=found.settled_at, error="RuntimeError", now=self.backbone.clock()
        )


@asynccontextmanager
async def open_site(
    filled: Path, folder: Path, *, every: float = 0.05, clock: Clock = system_clock
) -> AsyncIterator[Site]:
    """A copy of a filled file in ``folder``. ``every``: how often open pages are told of new messages."""
    path = folder / "site.db"
    shutil.copy(filled, path)
    tokens = folder / "tokens.toml"
    for name, (role, properties) in CALLERS.items():
        token = Token(
            name=name, role=role, sha256=digest_of(f"aft_{name}"), created_at=system_clock(), properties=properties
        )
        add_token(tokens, token)
    async with open_backbone(App(), Settings(db=path), clock=clock) as backbone:
        await backbone.register()
        access = AccessControl(backbone.clock, TokenFile(tokens))
        app = make_app(backbone, access)
        app.state.live = EventStreams(every=every)
        yield Site(backbone, access, app)


def rows(page: str) -> list[str]:
    """The conversations of a page, in their order."""
    return [html.unescape(one) for one in re.findall(r'<li class="row[^>]*data-id="([^"]*)"', page)]


def link(page: str, rel: str) -> str | None:
    """Where a link of this relation leads."""
    found = re.search(rf'rel="{rel}" href="([^"]*)"', page)
    return None if found is None else html.unescape(found[1])


def value(page: str, name: str) -> str:
    """A hidden field of the page's last form that has it."""
    return html.unescape(re.findall(rf'name="{name}" value="([^"]*)"', page)[-1])
