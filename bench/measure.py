"""Figures with their spread, ratios against a baseline of the same run, and how both are shown and kept."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Took:
    """What so many turns took: seconds on the wall, and of the processor in all threads of this process."""

    turns: int
    seconds: float
    processor: float

    @property
    def rate(self) -> float:
        return self.turns / self.seconds

    @property
    def processor_micros(self) -> float:
        """Of each turn. Hardly moved by what else the machine does, unlike the rate."""
        return self.processor / self.turns * 1e6


class Stopwatch:
    """Runs from when it is made."""

    def __init__(self) -> None:
        self._began, self._processor = time.perf_counter(), time.process_time()

    def took(self, turns: int) -> Took:
        return Took(turns, time.perf_counter() - self._began, time.process_time() - self._processor)


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of several rounds, with the smallest and the largest of them.

    ``p99``: what 99 of 100 single readings do not exceed, where single readings were taken.
    """

    name: str
    unit: str
    median: float
    low: float
    high: float
    rounds: int
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of each round's own ratio, so that what slows a whole round down cancels out.

    ``aim``: what it should reach, or stay within where ``at_most``; None where there is no aim.
    """

    name: str
    median: float
    low: float
    high: float
    rounds: int
    aim: float | None = None
    at_most: bool = False

    @property
    def met(self) -> bool | None:
        if self.aim is None:
            return None
        return self.median <= self.aim if self.at_most else self.median >= self.aim


@dataclass(frozen=True, slots=True)
class Report:
    """What one benchmark found. ``facts``: what else has to be known to read the figures.

    ``broken``: promises that did not hold meanwhile; then the figures are worth nothing, and the run fails.
    """

    benchmark: str
    figures: tuple[Figure, ...]
    ratios: tuple[Ratio, ...]
    facts: dict[str, Any]
    broken: tuple[str, ...] = ()


def figure(name: str, unit: str, rounds: Sequence[float]) -> Figure:
    return Figure(name, unit, statistics.median(rounds), min(rounds), max(rounds), len(rounds))


def ratio(
    name: str,
    subject: Sequence[float],
    baseline: Sequence[float],
    *,
    aim: float | None = None,
    at_most: bool = False,
) -> Ratio:
    """Subject over baseline, round by round."""
    ratios = [one / other for one, other in zip(subject, baseline, strict=True)]
    return Ratio(name, statistics.median(ratios), min(ratios), max(ratios), len(ratios), aim, at_most)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000 * len(ordered)) // 1000) - 1)]


def show(report: Report) -> None:
    """A table for people."""
    print(f"\n{report.benchmark}")
    width = max(len(name) for name in [one.name for one in report.figures] + [one.name for one in report.ratios])
    for one in report.figures:
        spread = f"{_round(one.low)} to {_round(one.high)}" if one.rounds > 1 else ""
        tail = "" if one.p99 is None else f"  p99 {_round(one.p99)}"
        print(f"  {one.name:<{width}}  {_round(one.median):>10} {one.unit:<9} {spread:<22} n={one.rounds}{tail}")
    for each in report.ratios:
        spread = f"{each.low:.3g} to {each.high:.3g}" if each.rounds > 1 else ""
        print(f"  {each.name:<{width}}  {each.median:>10.4g} {'×':<9} {spread:<22} {_verdict(each)}")
    for name, value in report.facts.items():
        print(f"  {name}: {value}")
    for promise in report.broken:
        print(f"  BROKEN: {promise}")


def write(report: Report, path: Path | None) -> Path:
    """JSON under bench/results, or where it is asked for."""
    target = path or RESULTS / f"{report.benchmark}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    body = {
        "benchmark": report.benchmark,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "figures": [asdict(one) for one in report.figures],
        "ratios": [{**asdict(one), "met": one.met} for one in report.ratios],
        "facts": report.facts,
        "broken": list(report.broken),
    }
    target.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return target


def set_switch_interval(seconds: float) -> None:
    """Here and in the processes that a benchmark starts (see :func:`apart`)."""
    sys.setswitchinterval(seconds)


def apart(module: str, *arguments: object) -> dict[str, Any]:
    """Run a module of ours in a process of its own, so that its memory is its own; returns the JSON that it prints."""
    interval = f"sys.setswitchinterval({sys.getswitchinterval()})"
    code = f"import runpy, sys; {interval}; runpy.run_module({module!r}, run_name='__main__')"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "switchInterval": sys.getswitchinterval(),
        "load": round(os.getloadavg()[0], 2),
    }


def _verdict(one: Ratio) -> str:
    if one.aim is None:
        return ""
    sign = "≤" if one.at_most else "≥"
    return f"aim {sign} {one.aim:g}: {'met' if one.met else 'NOT MET'}"


def _round(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
