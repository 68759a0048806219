"""An import of Telegram's history and what bots are told meet in one conversation, whichever comes first."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import call, query

from afterturn import App, Settings
from afterturn.channels.ingest import Ingest
from afterturn.channels.telegram import webhook as telegram
from afterturn.channels.types import WebhookRequest

AT = 1_772_366_400
GROUP, SUPERGROUP = -4518810793, -1002471352452


def said(number: int, text: str) -> dict[str, Any]:
    return {
        "id": number,
        "type": "message",
        "date": "2026-03-01T12:00:00",
        "date_unixtime": str(AT + number % 1000),
        "from": "Jo",
        "from_id": "user5",
        "text": text,
    }


def update(chat: int, number: int, **content: object) -> dict[str, Any]:
    sender = {"id": 5, "is_bot": False, "first_name": "Jo"}
    message = {"message_id": number, "date": AT + number, "chat": {"id": chat}, "from": sender, **content}
    return {"update_id": number, "message": message}


def export(path: Path, kind: str, bare: int, *messages: dict[str, Any]) -> Path:
    file = path / "result.json"
    file.write_text(json.dumps({"name": "House", "type": kind, "id": bare, "messages": messages}))
    return file


async def take(db: Path, *updates: dict[str, Any]) -> None:
    async with App(shipped=False).open(Settings(db=db)) as backbone:
        intake = Ingest(backbone, backbone.store, backbone.clock)
        for one in updates:
            request = WebhookRequest("POST", "https://example.com/hook", {}, json.dumps(one).encode())
            for arrival in telegram.parse(request, now=datetime(2026, 3, 2, tzinfo=UTC), bot="9"):
                await intake.handle(arrival)


def stored(db: Path) -> tuple[list[Any], list[Any]]:
    """The conversations that are shown, and the texts of each message."""
    shown = [one for (one,) in query(db, "SELECT id FROM conversations WHERE synthetic = 0")]
    return shown, sorted(one for (one,) in query(db, "SELECT DISTINCT text FROM messages"))


@pytest.mark.parametrize("first", ["import", "webhook"])
async def test_a_supergroups_history_and_its_webhooks_are_one_conversation_and_nothing_stands_twice(
    db: Path, tmp_path: Path, first: str
) -> None:
    file = export(tmp_path, "private_supergroup", 2471352452, said(1, "one"), said(2, "two"))
    live = [update(SUPERGROUP, 2, text="two"), update(SUPERGROUP, 3, text="three")]
    if first == "webhook":
        await take(db, *live)
    assert await _import(file) == 0
    if first == "import":
        await take(db, *live)
    assert stored(db) == ([f"telegram:{SUPERGROUP}"], ["one", "three", "two"])
    assert query(db, "SELECT count(*) FROM messages") == [(3,)]


async def test_a_groups_history_and_its_webhooks_are_one_conversation(db: Path, tmp_path: Path) -> None:
    await take(db, update(GROUP, 7, text="live"))
    assert await _import(export(tmp_path, "private_group", -GROUP, said(7, "another 7, of the exporting account"))) == 0
    assert stored(db) == ([f"telegram:{GROUP}"], ["another 7, of the exporting account", "live"])


@pytest.mark.parametrize("moved", ["migrate_to", "migrate_from"])
async def test_history_of_a_group_that_moved_goes_where_its_webhooks_go(db: Path, tmp_path: Path, moved: str) -> None:
    """F34: the export has the supergroup, with what was said before; the conversation keeps the id of the group."""
    service = (
        update(GROUP, 8, migrate_to_chat_id=SUPERGROUP)
        if moved == "migrate_to"
        else update(SUPERGROUP, 1, migrate_from_chat_id=GROUP)
    )
    await take(db, update(GROUP, 7, text="before"), service, update(SUPERGROUP, 2, text="after"))
    file = export(
        tmp_path, "private_supergroup", 2471352452, said(-999_999_996, "older"), said(2, "after"), said(3, "newer")
    )
    assert await _import(file) == 0
    assert stored(db) == ([f"telegram:{GROUP}"], ["after", "before", "newer", "older"])
    assert await _import(file) == 0
    assert query(db, "SELECT count(*) FROM messages") == [(4,)]


async def _import(file: Path) -> int:
    """In a thread, since the command runs a loop of its own."""
    import asyncio

    return (await asyncio.to_thread(call, "import", file)).code
