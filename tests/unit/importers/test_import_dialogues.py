"""Research dialogues."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.unit.importers.helpers import SAMPLES, SHARED_DATA, read_all, texts

from afterturn.model import Channel

REAL = SHARED_DATA / "dialogues-dev.jsonl.gz"


def test_a_dialogue_becomes_a_conversation_with_channel_property_and_times() -> None:
    (lead, general), bad = read_all(SAMPLES / "dialogues.jsonl")
    assert not bad
    assert (lead.meta.id, lead.meta.type, general.meta.type) == ("d-1", "lead", "general")
    assert texts(lead)[2] == ""
    assert [m.id for m in lead.messages] == ["m1", "m2", "m3", "m4"]
    assert [len(turn.messages) for turn in lead.turns] == [2, 2]


def test_times_and_channels_never_change() -> None:
    """They are part of what an earlier import has stored."""
    (lead, _), _ = read_all(SAMPLES / "dialogues.jsonl")
    assert lead.meta.channel is Channel.VOICE
    assert lead.meta.property_id == "property-10"
    assert [m.to_json()["at"] for m in lead.messages][:2] == [
        "2025-05-14T04:53:23.482000Z",
        "2025-05-14T04:54:28.960000Z",
    ]


def test_a_bad_utterance_is_named_and_moves_no_other(tmp_path: Path) -> None:
    value = json.loads((SAMPLES / "dialogues.jsonl").read_text().splitlines()[0])
    (whole, _), _ = read_all(SAMPLES / "dialogues.jsonl")
    value["turns"][1] = {"speaker": "agent", "text": "\ud83d"}
    value["turns"].append({"speaker": "cat", "text": "meow"})
    value["turns"].append("meow")
    path = tmp_path / "d.jsonl"
    path.write_text(json.dumps(value) + "\n" + json.dumps(value) + '\n{"dialogue_id": 5}\n{"dialogue_id": "x"}\n')
    found, bad = read_all(path)
    assert [b.location for b in bad if b.location.startswith("d.jsonl:1")] == [
        "d.jsonl:1, turn 2",
        "d.jsonl:1, turn 5",
        "d.jsonl:1, turn 6",
    ]
    assert {b.location for b in bad} >= {"d.jsonl:2", "d.jsonl:3", "d.jsonl:4"}
    assert list(found[0].messages) == [m for m in whole.messages if m.id != "m2"]


@pytest.mark.skipif(not REAL.exists(), reason="the shared data is not here")
def test_the_real_dialogues_come_in_whole_in_order_and_with_rising_times() -> None:
    found, bad = read_all(REAL)
    assert not bad
    with gzip.open(REAL, "rt", encoding="utf-8") as file:
        source = [json.loads(line) for line in file]
    assert len(found) == len(source) == 1730
    for conversation, dialogue in zip(found, source, strict=True):
        assert conversation.meta.id == dialogue["dialogue_id"]
        assert texts(conversation) == [turn["text"] for turn in dialogue["turns"]]
        assert all(a.at < b.at for a, b in pairwise(conversation.messages))
        assert {m.at.year for m in conversation.messages} == {2025}
    assert sum(len(c.messages) for c in found) == 30_669
    channels = Counter(c.meta.channel for c in found)
    assert set(channels) == set(Channel)
    assert min(channels.values()) > 250
    properties = Counter(c.meta.property_id for c in found)
    assert len(properties) == 41
    assert 100 < properties[None] < 400
    assert read_all(REAL)[0] == found
