"""The rules on real dialogues, where they are at hand: renting topics are found, nobody is woken up."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from afterturn.consumers.repairs import load_repair_rules, read_request, read_staff

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT.parent / "shared" / "data" / "dialogues-dev.jsonl.gz"
here = pytest.mark.skipif(not DATA.exists(), reason="the dialogues are not at hand")

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


@here
def test_renting_topics_are_found(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    subprocess.run(
        [sys.executable, ROOT / "bench" / "topics.py", "--data", DATA, "--json", figures],
        check=True,
        capture_output=True,
        env=ENVIRONMENT,
    )
    rules = json.loads(figures.read_text("utf-8"))["rules"]
    assert len(rules) == 6
    for score in rules:
        assert score["f1"] >= 0.93, score


def test_without_the_data_the_bench_says_so_and_exits_2() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "topics.py", "--data", "/nowhere/d.jsonl.gz"],
        check=False,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert done.returncode == 2
    assert "/nowhere/d.jsonl.gz" in done.stderr
    assert "Traceback" not in done.stderr


@here
def test_no_false_alarm_in_real_dialogues() -> None:
    """None of them is about an emergency; of 16,000 messages at most ten may look like a repair."""
    rules = load_repair_rules()
    alarms: list[str] = []
    repairs: Counter[str] = Counter()
    messages = 0
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        for line in lines:
            asked: frozenset[str] = frozenset()
            for turn in json.loads(line)["turns"]:
                if turn["speaker"] != "user":
                    asked, _ = read_staff(turn["text"], rules)
                    continue
                messages += 1
                reading = read_request(turn["text"], rules, asked)
                alarms += reading.emergencies
                repairs.update(problem.category for problem in reading.problems)
    assert messages > 16_000
    assert not alarms
    assert repairs.total() <= 10
