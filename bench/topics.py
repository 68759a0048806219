"""How well the topic rules find the renting topics, and how fast they are.

    python bench/topics.py [--data PATH] [--json PATH]

The truth: a dialogue is about *leasing* where it has a turn of intent FindApartment, and about a *tour* where it has
one of ScheduleVisit. All dialogues count, so car rentals, hotels, restaurants and doctors' appointments are the
negatives. They are split in halves by a hash of their id: the rules were written looking at ``dev`` only, and
``held-out`` tells what they are worth. The classes are large, so one more figure is given as a baseline: a search for
the bare words (apartment; visit, tour, viewing) in what the customer says.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from afterturn.consumers.topics import TopicState, classify, follow, load_taxonomy
from afterturn.errors import AfterturnError
from afterturn.model import Direction, Message, Role

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "dialogues-dev.jsonl.gz"
INTENTS = {"leasing": "FindApartment", "tour": "ScheduleVisit"}
BARE_WORDS = {"leasing": re.compile(r"\bapartment", re.I), "tour": re.compile(r"\b(visit|tour|viewing)", re.I)}


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue with the topics that its labels stand for."""

    half: str
    messages: list[Message]
    truth: frozenset[str]


@dataclass(frozen=True, slots=True)
class Score:
    """How often a topic was found rightly, wrongly and not at all."""

    topic: str
    half: str
    dialogues: int
    precision: float
    recall: float
    f1: float
    true_positives: int
    false_positives: int
    false_negatives: int


def main() -> int:
    parser = argparse.ArgumentParser(description="Precision, recall and F1 of the topic rules, and their cost.")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA, help="labelled dialogues (default: %(default)s)")
    parser.add_argument("--taxonomy", type=Path, default=None, help="a taxonomy file (default: the one that ships)")
    parser.add_argument("--json", type=Path, default=None, metavar="PATH", help="also write the figures as JSON")
    options = parser.parse_args()
    try:
        dialogues = list(read_dialogues(options.data))
        taxonomy = load_taxonomy(options.taxonomy)
    except (OSError, ValueError, KeyError, EOFError, AfterturnError) as error:
        print(f"bench/topics.py: cannot run with {options.data}: {error}", file=sys.stderr)
        return 2

    found = [follow(TopicState(), dialogue.messages, taxonomy).topics for dialogue in dialogues]
    words = [bare_words(dialogue.messages) for dialogue in dialogues]
    scores = [score(dialogues, found, topic, half) for topic in INTENTS for half in ("dev", "held-out", "all")]
    bare = [score(dialogues, words, topic, "all") for topic in INTENTS]
    texts = [m.text for d in dialogues for m in d.messages if m.role is Role.CUSTOMER]
    started = time.perf_counter()
    for text in texts:
        classify(text, taxonomy)
    cost = (time.perf_counter() - started) / len(texts) * 1e6
    show(scores, bare)
    print(f"\n{len(texts)} customer messages, {cost:.1f} µs each")
    if options.json:
        figures: dict[str, Any] = {
            "rules": [asdict(entry) for entry in scores],
            "bareWords": [asdict(entry) for entry in bare],
            "microsecondsPerMessage": round(cost, 2),
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0


def read_dialogues(path: Path) -> Iterator[Dialogue]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            intents = {turn.get("intent") for turn in record["turns"] if isinstance(turn.get("intent"), str)}
            messages = [
                Message(
                    id=str(number),
                    direction=Direction.INBOUND if turn["speaker"] == "user" else Direction.OUTBOUND,
                    role=Role.CUSTOMER if turn["speaker"] == "user" else Role.AGENT,
                    text=turn["text"],
                    at=start + timedelta(seconds=number),
                )
                for number, turn in enumerate(record["turns"])
            ]
            even = hashlib.sha256(record["dialogue_id"].encode()).digest()[0] % 2 == 0
            truth = frozenset(topic for topic, intent in INTENTS.items() if intent in intents)
            yield Dialogue(half="dev" if even else "held-out", messages=messages, truth=truth)


def bare_words(messages: list[Message]) -> frozenset[str]:
    said = [message.text for message in messages if message.role is Role.CUSTOMER]
    return frozenset(topic for topic, words in BARE_WORDS.items() if any(words.search(text) for text in said))


def score(dialogues: list[Dialogue], predicted: list[frozenset[str]], topic: str, half: str) -> Score:
    pairs = [
        (topic in dialogue.truth, topic in topics)
        for dialogue, topics in zip(dialogues, predicted, strict=True)
        if half in (dialogue.half, "all")
    ]
    hit, extra, missed = pairs.count((True, True)), pairs.count((False, True)), pairs.count((True, False))
    return Score(
        topic=topic,
        half=half,
        dialogues=len(pairs),
        precision=round(hit / max(hit + extra, 1), 4),
        recall=round(hit / max(hit + missed, 1), 4),
        f1=round(2 * hit / max(2 * hit + extra + missed, 1), 4),
        true_positives=hit,
        false_positives=extra,
        false_negatives=missed,
    )


def show(scores: list[Score], bare: list[Score]) -> None:
    print(f"{'topic':<10}{'half':<12}{'dialogues':>10}{'precision':>11}{'recall':>9}{'F1':>9}")
    rows = [(entry, entry.half) for entry in scores] + [(entry, "bare words") for entry in bare]
    for entry, label in rows:
        print(
            f"{entry.topic:<10}{label:<12}{entry.dialogues:>10}{entry.precision:>11.4f}{entry.recall:>9.4f}"
            f"{entry.f1:>9.4f}"
        )


if __name__ == "__main__":
    sys.exit(main())
