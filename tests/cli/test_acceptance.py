"""Real dialogues, from the file to a clean audit, by the commands that the README names."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tests.cli.command import query, run

FILE = Path(__file__).parents[3] / "shared" / "data" / "dialogues-dev.jsonl.gz"
DIALOGUES = 1_730 if os.environ.get("AFTERTURN_TEST_THOROUGH") else 100

pytestmark = pytest.mark.skipif(not FILE.exists(), reason="needs the dialogues of ../shared")


def dialogues() -> Iterator[list[str]]:
    """The texts of each dialogue, read here without the importer."""
    with gzip.open(FILE, "rt", encoding="utf-8") as file:
        for row in islice(file, DIALOGUES):
            yield [turn["text"] for turn in json.loads(row)["turns"]]


def test_every_dialogue_comes_in_is_reacted_to_and_owes_nothing(db: Path) -> None:
    first = run("import", FILE, "--limit", DIALOGUES, "--json")
    assert first.code == 0, first.err
    expected = list(dialogues())
    total = sum(map(len, expected))
    assert first.json["conversations"] == {"found": DIALOGUES, "new": DIALOGUES, "known": 0}
    assert first.json["messages"] == {"found": total, "new": total, "known": 0}

    drained = run("drain", "--now", "--json")
    assert (drained.code, drained.json["clean"]) == (0, True), drained.err
    audit = run("audit", "--grace", "0s", "--json")
    assert (audit.code, audit.json["checked"], audit.json["owed"], audit.json["failed"]) == (0, DIALOGUES, 0, 0)
    assert query(
        db,
        "SELECT count(*) FROM conversations c WHERE (SELECT count(*) FROM stamps s WHERE "
        "s.conversation_id = c.id AND s.through = c.settled_at) = 4",
    ) == [(DIALOGUES,)]

    threads: dict[str, list[str]] = {}
    for conversation, text in query(db, "SELECT conversation_id, text FROM messages ORDER BY conversation_id, at, seq"):
        threads.setdefault(conversation, []).append(text)
    assert sorted(threads.values()) == sorted(expected)

    before = query(db, "SELECT * FROM conversations ORDER BY id")
    second = run("import", FILE, "--limit", DIALOGUES, "--json")
    assert second.code == 0
    assert {second.json[what]["new"] for what in ("conversations", "turns", "messages")} == {0}
    assert query(db, "SELECT * FROM conversations ORDER BY id") == before
    assert run("audit", "--grace", "0s").code == 0
