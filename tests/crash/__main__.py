"""``python -m tests.crash``: kill afterturn again and again, and check every promise after each restart.

Results go to stdout, progress to stderr. Exit codes: 0 all promises held, 1 one was broken, 2 wrong usage,
130 interrupted. A failure replays by its seed and cycle: ``python -m tests.crash --seed N --cycle K``. Kills at a
moment depend on the machine's speed, so repeat such a cycle: ``--times 20``.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.crash.cycle import Result
from tests.crash.driver import Report, every_pass, random_jobs, run, same_job
from tests.crash.points import CALLS, SQL

MAX_BROKEN = 10
"""Broken cycles after which more of them tell nothing new."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    report = Report(seed)
    enough: Callable[[Report, Result], bool]
    if given.every:
        jobs, enough = every_pass(given.every), _nobody_died
    elif given.cycle is not None:
        jobs, enough = same_job(seed, given.cycle, given.times), _never
    else:
        jobs, enough = random_jobs(seed), _killed(given.kills)
    print(f"seed {seed}", file=sys.stderr, flush=True)
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    interrupted = False
    try:
        run(jobs, report, enough, side_by_side=given.jobs, progress=_progress(given.kills), base=given.folder)
    except KeyboardInterrupt:
        interrupted = True
    print(json.dumps(report.to_json(), indent=2) if given.json else _summary(report))
    for result in report.broken:
        _explain(report, result, given.every)
    return 130 if interrupted else 1 if report.broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    points = [*SQL, *(f"{name}:{when}" for name in CALLS for when in ("before", "after"))]
    parser.add_argument("--kills", type=_positive, default=200, help="stop after so many (default: 200)")
    parser.add_argument("--seed", type=int, help="of the plan (default: a new one, which is printed)")
    parser.add_argument("--cycle", type=int, help="only this cycle of the seed")
    parser.add_argument("--times", type=_positive, default=1, help="how often to run the cycle (default: 1)")
    parser.add_argument(
        "--every",
        metavar="POINT",
        choices=points,
        help=f"in place of random kills: a small scenario, killed at every pass of a point ({', '.join(points)})",
    )
    parser.add_argument("--jobs", type=_positive, default=2, help="cycles side by side (default: 2)")
    parser.add_argument("--folder", type=Path, help="where the files of the cycles are made (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _killed(wanted: int) -> Callable[[Report, Result], bool]:
    return lambda report, _: report.kills.total() >= wanted or len(report.broken) >= MAX_BROKEN


def _nobody_died(report: Report, result: Result) -> bool:
    return result.finished > 0 or len(report.broken) >= MAX_BROKEN


def _never(report: Report, result: Result) -> bool:
    return False


def _progress(wanted: int) -> Callable[[Report], None]:
    tty = sys.stderr.isatty()
    told = 0

    def progress(report: Report) -> None:
        nonlocal told
        kills = report.kills.total()
        line = f"{kills} kills (of {wanted}) in {report.cycles} cycles, {report.seconds:.0f} s, broken: "
        line += str(len(report.broken))
        if tty:
            print(f"\r{line}", end="" if kills < wanted else "\n", file=sys.stderr, flush=True)
        elif kills >= told + 50:
            told = kills
            print(line, file=sys.stderr, flush=True)

    return progress


def _summary(report: Report) -> str:
    told = report.to_json()
    return (
        f"{told['kills']} kills in {told['cycles']} cycles, {told['seconds']} s ({told['killsPerSecond']} a second), "
        f"{told['acknowledgedCalls']} acknowledged calls, {told['webhooksAndAlerts']} webhooks and alerts; "
        f"broken: {len(report.broken)}"
    )


def _explain(report: Report, result: Result, every: str | None) -> None:
    again = f"--every {every}" if every else f"--seed {report.seed} --cycle {result.cycle}"
    print(f"\ncycle {result.cycle} (python -m tests.crash {again}), files in {report.kept}:", file=sys.stderr)
    for problem in result.problems[:20]:
        print(f"  {problem}", file=sys.stderr)
    if len(result.problems) > 20:
        print(f"  … and {len(result.problems) - 20} more", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
