"""Cursors over HTTP: a bad one is the same clear 400 on every store, a good one neither skips nor repeats."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_store_dynamodb import DynamoFactory
from tests.emulator import access, emulator, session  # noqa: F401
from tests.web.rig import API, Rig, error_of, ids, open_rig

from afterturn.aws.session import Access
from afterturn.web.api import scoped_store

INBOX = f"{API}/conversations"


@asynccontextmanager
async def open_rig_on(store: str, folder: Path, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    if store == "sqlite":
        async with open_rig(folder) as rig:
            yield rig
        return
    given: Access = request.getfixturevalue("access")
    loaded: Any = request.getfixturevalue("session")
    async with DynamoFactory(given, loaded).open() as dynamo, open_rig(folder, store=dynamo) as rig:
        yield rig


@pytest.fixture(params=["sqlite", "dynamodb"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig_on(request.param, tmp_path, request) as opened:
        yield opened


async def test_a_cursor_belongs_to_its_query(rig: Rig) -> None:
    for number in range(4):
        await rig.settle(f"c-{number}", property_id="oak")
    async with rig.client("desk") as client:
        cursor = (await client.get(INBOX, params={"limit": 1})).json()["nextCursor"]
        for other in ({"status": "open"}, {"property": "oak"}, {"channel": "sms"}, {"window": "all"}):
            answer = await client.get(INBOX, params={"limit": 1, "cursor": cursor, **other})
            assert answer.status_code == 400, other
        assert ids(await client.get(INBOX, params={"limit": 2, "cursor": cursor})) == ["c-2", "c-1"]


async def test_rows_that_move_to_the_top_are_not_met_twice_and_make_no_gap(rig: Rig) -> None:
    for number in range(1, 10):
        await rig.settle(f"c{number}")
    async with rig.client("desk") as client:
        first = await client.get(INBOX, params={"limit": 3})
        assert ids(first) == ["c9", "c8", "c7"]
        await rig.settle("c3", "More.")
        await rig.settle("c8", "And more.")
        second = await client.get(INBOX, params={"limit": 3, "cursor": first.json()["nextCursor"]})
        assert ids(second) == ["c6", "c5", "c4"]
        third = await client.get(INBOX, params={"limit": 3, "cursor": second.json()["nextCursor"]})
        assert ids(third) == ["c2", "c1"]
        assert third.json()["nextCursor"] is None
        assert ids(await client.get(INBOX, params={"limit": 3})) == ["c8", "c3", "c9"]


async def test_messages_and_turns_are_met_once_each_page_by_page(rig: Rig) -> None:
    for number in range(4):
        await rig.settle("c-1", *(f"{number}.{place}" for place in range(3)))
    async with rig.client("desk") as client:
        whole = await rig.backbone.store.messages("c-1")
        for limit in (1, 4, 5, 11, 12, 13):
            pages: list[list[str]] = []
            cursor: dict[str, str] = {}
            while True:
                page = (await client.get(f"{INBOX}/c-1/messages", params={"limit": limit, **cursor})).json()
                pages.insert(0, [one["id"] for one in page["messages"]])
                if page["nextCursor"] is None:
                    break
                cursor = {"cursor": page["nextCursor"]}
            assert [one for page in pages for one in page] == [one.id for one in whole]
            assert all(len(page) == limit for page in pages[1:])
        turns: list[str] = []
        cursor = {}
        while True:
            page = (await client.get(f"{INBOX}/c-1/turns", params={"limit": 3, **cursor})).json()
            turns += [one["occurredAt"] for one in page["turns"]]
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
    assert len(set(turns)) == len(turns) == 4
    assert turns == sorted(turns)


async def test_a_page_that_the_budget_cut_short_says_so(rig: Rig) -> None:
    """What a filter leaves is found all the same, by asking on."""
    for number in range(6):
        await rig.settle(f"c-{number}", type="rent" if number == 0 else "general")
    async with rig.client("desk") as client:
        page = await client.get(INBOX, params={"type": "rent", "limit": 1})
        assert ids(page) == ["c-0"]
        assert page.json()["complete"]
        assert page.json()["scanned"] == 6
        assert error_of(await client.get(INBOX, params={"type": "rent", "cursor": "x"}))["field"] == "cursor"


async def test_lists_are_met_once_each_page_by_page_on_every_store(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where others' work orders use up what one request may look through."""
    monkeypatch.setattr(scoped_store, "MAX_ORDERS_READ", 2)
    monkeypatch.setattr(scoped_store, "_READ", 2)
    for number in range(6):
        await rig.settle(f"c-{number}", property_id="oak" if number in (1, 5) else "elm")
        await rig.order(f"c-{number}", "elm", f"wo-{number}")
        await rig.fail(f"c-{number}")
    for caller, path, name, met in (
        ("oak", f"{API}/work-orders", "workOrders", ["c-1", "c-5"]),
        ("desk", f"{API}/work-orders", "workOrders", [f"c-{number}" for number in range(6)]),
        ("duty", f"{API}/reactions/failed", "failures", [f"c-{number}" for number in range(6)]),
    ):
        found: list[str] = []
        cursor: dict[str, str] = {}
        async with rig.client(caller) as client:
            while True:
                page = (await client.get(path, params={"limit": 1, **cursor})).json()
                found += [one["conversationId"] for one in page[name]]
                if page["nextCursor"] is None:
                    break
                cursor = {"cursor": page["nextCursor"]}
        assert found == met
