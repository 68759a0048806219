"""Runs cycles side by side, each in a forked process of its own, until enough workers were killed."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from tests.crash import receiver
from tests.crash.cycle import Result, run_cycle
from tests.crash.plan import Plan, make_plan, small_plan
from tests.crash.reactions import preload

CYCLE_WITHIN_S = 240


@dataclass(slots=True)
class Report:
    """What came of all cycles. ``kept``: where the files of the broken ones are."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    cycles: int = 0
    finished: int = 0
    frozen: int = 0
    revived: int = 0
    acknowledged: int = 0
    heard: int = 0
    seconds: float = 0.0
    broken: list[Result] = field(default_factory=list)
    kept: Path | None = None

    def add(self, result: Result) -> None:
        self.kills += result.kills
        self.cycles += 1
        self.finished += result.finished
        self.frozen += result.frozen
        self.revived += result.revived
        self.acknowledged += result.acknowledged
        self.heard += result.heard
        if result.problems:
            self.broken.append(result)

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "kills": self.kills.total(),
            "killsByPoint": dict(sorted(self.kills.items())),
            "cycles": self.cycles,
            "finishedBeforeTheirKill": self.finished,
            "frozenForAWhile": self.frozen,
            "revivedReactions": self.revived,
            "acknowledgedCalls": self.acknowledged,
            "webhooksAndAlerts": self.heard,
            "seconds": round(self.seconds, 1),
            "killsPerSecond": round(self.kills.total() / self.seconds, 1) if self.seconds else 0.0,
            "broken": [{"cycle": one.cycle, "problems": one.problems} for one in self.broken],
            "kept": None if self.kept is None else str(self.kept),
        }


@dataclass(frozen=True, slots=True)
class Job:
    """A cycle to run: its number, and how to plan it when its turn comes."""

    cycle: int
    plan: Callable[[datetime], Plan]


def random_jobs(seed: int, first: int = 0) -> Iterator[Job]:
    """One cycle after the other, for ever."""
    cycle = first
    while True:
        yield Job(cycle, partial(make_plan, seed, cycle))
        cycle += 1


def same_job(seed: int, cycle: int, times: int) -> Iterator[Job]:
    """One cycle, again and again."""
    for _ in range(times):
        yield Job(cycle, partial(make_plan, seed, cycle))


def every_pass(point: str) -> Iterator[Job]:
    """The same small scenario, killed at the first pass of a point, at the second, and so on."""
    nth = 1
    while True:
        yield Job(nth, partial(small_plan, point, nth))
        nth += 1


def run(
    jobs: Iterator[Job],
    report: Report,
    enough: Callable[[Report, Result], bool],
    *,
    side_by_side: int,
    progress: Callable[[Report], None],
    base: Path | None = None,
) -> None:
    """Run jobs until ``enough`` says so after one of them, or they end. The report is filled on the way.

    Forks, so the caller has no threads. Interrupted by KeyboardInterrupt, it ends its processes first.
    """
    began = time.monotonic()
    numbers = count(1)
    folder = Path(tempfile.mkdtemp(prefix="afterturn-crash-", dir=base))
    listener = receiver.listen()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    preload()
    gc.collect()
    gc.freeze()
    hearing = receiver.start(listener, folder)
    listener.close()
    running: dict[int, Path] = {}
    done = False
    try:
        while True:
            while not done and len(running) < side_by_side:
                if (job := next(jobs, None)) is None:
                    done = True
                else:
                    home = folder / f"{next(numbers)}-cycle-{job.cycle}"
                    running[_start(job, home, url)] = home
            if not running:
                break
            pid, status = os.waitpid(-1, 0)
            if pid == hearing:
                raise RuntimeError(f"the receiver ended with {os.waitstatus_to_exitcode(status)}")
            result = _result(running.pop(pid), status)
            report.add(result)
            report.seconds = time.monotonic() - began
            done = done or enough(report, result)
            progress(report)
    finally:
        _end([*running, hearing])
        report.seconds = time.monotonic() - began
        if report.broken:
            report.kept = folder
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _start(job: Job, home: Path, url: str) -> int:
    """Fork the process of one cycle; it leaves its result beside its folder."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _leave)
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(CYCLE_WITHIN_S)
        result = run_cycle(job.cycle, job.plan(datetime.now(UTC)), home, url)
        _result_file(home).write_bytes(pickle.dumps(result))
        code = 0
    except SystemExit:
        pass
    except BaseException as error:
        result = Result(job.cycle, problems=[f"driver: {error!r}\n{traceback.format_exc()}"])
        _result_file(home).write_bytes(pickle.dumps(result))
        code = 0
    finally:
        os._exit(code)


def _leave(*_: object) -> NoReturn:
    sys.exit()


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"the cycle took longer than {CYCLE_WITHIN_S} s")


def _result(home: Path, status: int) -> Result:
    file = _result_file(home)
    if not file.exists():
        cycle = int(home.name.rpartition("-")[2])
        return Result(cycle, problems=[f"driver: the cycle's process ended with {os.waitstatus_to_exitcode(status)}"])
    result: Result = pickle.loads(file.read_bytes())
    file.unlink()
    return result


def _result_file(home: Path) -> Path:
    return home.with_suffix(".result")


def _end(processes: list[int]) -> None:
    """Stop processes that this one has started, and wait for them: they end their own children first."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    for pid in processes:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
