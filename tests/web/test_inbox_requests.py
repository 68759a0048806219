"""How many requests a page of the inbox makes, where the store is a DynamoDB table."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import httpx
import pytest
from tests.contract.samples import at, message, turn
from tests.emulator import access, emulator, session  # noqa: F401
from tests.unit.aws.strict import StrictDynamo
from tests.web.pages.demo import rows

from afterturn.aws.session import Access as AwsAccess
from afterturn.aws.session import open_client
from afterturn.aws.table import INDEXES, table_definition
from afterturn.backbone import Backbone
from afterturn.cli import inbox
from afterturn.config import Profile, Settings
from afterturn.inbox import InboxQuery
from afterturn.reactions.registry import Registry
from afterturn.store.dynamodb import open_store
from afterturn.store.port import ConsumerState, Registration
from afterturn.testing import ManualClock
from afterturn.web.access import AccessControl
from afterturn.web.app import make_app
from afterturn.web.roles import CallerRole
from afterturn.web.tokens import Token, TokenFile, add_token, digest_of

TABLE = "afterturn-test"
CONVERSATIONS = 60
SHOWN = [f"c{number:02}" for number in range(CONVERSATIONS)][::-1][:50]


class Process:
    """What one process holds: a backbone on the table, and a count of the requests of its client."""

    def __init__(self, backbone: Backbone, web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.backbone = backbone
        self.web = web
        self.requests: Counter[str] = Counter()

        @asynccontextmanager
        async def open_existing(_: object) -> AsyncIterator[Backbone]:
            yield backbone

        monkeypatch.setattr(inbox, "open_existing", open_existing)
        monkeypatch.setattr(inbox, "settings_of", lambda *_: None)

    def count(self, model: Any, **_: Any) -> None:
        self.requests[model.name] += 1

    async def page(self) -> None:
        text = (await self.web.get("/", headers={"accept": "text/html"})).text
        assert rows(text) == SHOWN
        assert "text of c59" in text

    async def api(self) -> None:
        body = (await self.web.get("/api/v1/conversations")).json()
        assert [row["preview"]["text"] for row in body["rows"]] == [f"text of {name}" for name in SHOWN]

    async def command(self) -> None:
        await inbox._inbox(cast("Any", None), None, InboxQuery(), None, as_json=False)


@pytest.fixture
async def process(
    access: AwsAccess,  # noqa: F811
    session: Any,  # noqa: F811
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Process]:
    """One that has just been started, on a table with 60 conversations."""
    definition = table_definition(TABLE, INDEXES)
    async with open_client("dynamodb", access, session) as client:
        await client.create_table(**definition)
    async with open_store(TABLE, access) as store:
        await store.register([Registration("topics", at(0), ConsumerState.LIVE, timedelta(minutes=1))])
        for number in range(CONVERSATIONS):
            name = f"c{number:02}"
            await store.settle(turn(name, message(name, number)), now=at(number), emitter="worker")
    tokens = tmp_path / "tokens.toml"
    add_token(tokens, Token(name="desk", role=CallerRole.OPERATOR, sha256=digest_of("aft_desk"), created_at=at(0)))
    clock = ManualClock(at(1_000))
    anything = cast("Any", None)
    async with open_store(TABLE, access) as store:
        backbone = Backbone(
            settings=Settings(profile=Profile.AWS, db=tmp_path / "none"),
            registry=Registry(),
            clock=clock,
            store=store,
            stream=anything,
            engine=anything,
            runner=anything,
            bridge=anything,
            wake=asyncio.Event(),
        )
        app = make_app(backbone, AccessControl(clock, TokenFile(tokens)))
        headers = {"authorization": "Bearer aft_desk"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=headers) as web:
            started = Process(backbone, web, monkeypatch)
            dynamo = store._table._client
            StrictDynamo(definition).watch(dynamo)
            dynamo.meta.events.register("before-call.dynamodb", started.count)
            yield started


@pytest.mark.parametrize("entry", ["page", "api", "command"])
async def test_a_page_is_one_request(process: Process, entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A process that has just been started also reads its registrations; opening it has read the layout."""
    await getattr(process, entry)()
    assert process.requests == {"Query": 2}
    process.requests.clear()
    for _ in range(3):
        await getattr(process, entry)()
    assert process.requests == {"Query": 3}
    if entry == "command":
        assert "customer: text of c59" in capsys.readouterr().out
