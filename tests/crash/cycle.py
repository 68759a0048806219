"""One cycle: rounds of workers and kills on a fresh file, then the inspection."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.crash.checker import AcknowledgedTurn, Outcome, broken
from tests.crash.inspection import OUTCOME, acknowledged, inspect, left_over
from tests.crash.plan import Moment, Part, Plan, Round, Step, Verb, Worker, released
from tests.crash.workers import CRASHED, DATABASE, DIALOGUES, LOG, STACKS, CycleFolder, fork, work

MOMENT = "a moment"
STOP_WITHIN_S = 20.0
DRAIN_WITHIN_S = 45.0


@dataclass(slots=True)
class Result:
    """``kills``: deaths by the point that was passed, or ``MOMENT``. ``problems``: all that must not be.

    ``finished``: victims that were done before their time came. ``frozen``: workers that stood still for a while.
    ``revived``: reactions that were given up on because their workers died, and retried.
    """

    cycle: int
    kills: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    finished: int = 0
    frozen: int = 0
    revived: int = 0
    acknowledged: int = 0
    heard: int = 0
    seconds: float = 0.0


def run_cycle(cycle: int, plan: Plan, folder: Path, url: str) -> Result:
    """Run it in a new folder, which is kept where something is broken. Forks, so the caller has no threads."""
    began = time.monotonic()
    parent = os.getppid()
    place = CycleFolder(folder, url, plan.lease, plan.pace, plan.checkpoint, plan.deaf)
    folder.mkdir()
    (folder / DIALOGUES).write_text("".join(json.dumps(line) + "\n" for line in plan.dialogues))
    result = Result(cycle)
    given_up: set[tuple[str, int]] = set()
    for number, one in enumerate(plan.rounds, 1):
        threads = _left_to_do(plan, one, acknowledged(folder), given_up)
        _run_round(one, place, threads, result, f"round {number}")
        if os.getppid() != parent:
            raise SystemExit
        if result.problems:
            break
    if not result.problems and _inspected(place, plan, result):
        outcome: Outcome = pickle.loads((folder / OUTCOME).read_bytes())
        result.problems += broken(outcome)
        result.acknowledged, result.heard = len(outcome.acknowledged), len(outcome.heard)
        result.revived = outcome.revived
    result.seconds = time.monotonic() - began
    if not result.problems:
        shutil.rmtree(folder)
    return result


def _left_to_do(
    plan: Plan, one: Round, acks: Sequence[AcknowledgedTurn], given_up: set[tuple[str, int]]
) -> list[list[Step]]:
    """What a settler goes on with: the steps that it knows nothing of, or, in some rounds, all but the first of them.

    What it gives up was perhaps stored and perhaps not; the first step of a conversation is never given up.
    """
    known = {(ack.conversation_id, ack.message_ids or (ack.key,)) for ack in acks}
    threads = []
    for thread in released(plan.threads, one.steps):
        left = [
            (number, step)
            for number, step in enumerate(thread)
            if (step.conversation.id, step.message_ids or (step.key,)) not in known
            and (step.conversation.id, number) not in given_up
        ]
        if one.abandon and left and left[0][0] > 0 and left[0][1].verb is not Verb.COMPLETE:
            given_up.add((left[0][1].conversation.id, left[0][0]))
            left = left[1:]
        threads.append([step for _, step in left])
    return threads


def _run_round(one: Round, place: CycleFolder, threads: Sequence[Sequence[Step]], result: Result, where: str) -> None:
    children: list[Child] = []
    try:
        for worker in one.workers:
            opened, tell = os.pipe()
            pid = fork(partial(work, worker.part, place, threads, tell), place, worker)
            os.close(tell)
            children.append(Child(pid, worker, opened, freeze_s=place.lease.total_seconds() * 1.7))
        wait_for(children, lambda child: child.is_free)
        time.sleep(one.linger)
        for child in children:
            child.stop()
        wait_for(children, lambda child: child.status is not None, within=STOP_WITHIN_S)
        for child in children:
            child.tell(STACKS)
    finally:
        for child in children:
            child.end()
    for child in children:
        _judge(child, place, result, where)


def _judge(child: Child, place: CycleFolder, result: Result, where: str) -> None:
    part, kill, status = child.worker.part.value, child.worker.kill, child.status
    result.frozen += child.was_frozen
    if status is None:
        result.problems.append(f"{where}: {part} did not stop within {STOP_WITHIN_S:.0f} s")
    elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and kill is not None:
        result.kills[kill.point if kill.point and child.in_time else MOMENT] += 1
    elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM and kill is None:
        pass  # stopped before it had begun to listen
    elif status != 0:
        code = os.waitstatus_to_exitcode(status)
        told = _tail(place) if code == CRASHED else ""
        result.problems.append(f"{where}: {part} ended with {code} {told}".rstrip())
    elif kill is not None:
        result.finished += 1


def _inspected(place: CycleFolder, plan: Plan, result: Result) -> bool:
    child = Child(fork(partial(inspect, place, plan.threads), place), Worker(Part.DRAIN))
    try:
        wait_for([child], lambda child: child.status is not None, within=DRAIN_WITHIN_S)
        child.tell(STACKS)
    finally:
        child.end()
    if child.status is None:
        left = "; ".join(left_over(place.folder / DATABASE))
        result.problems.append(f"inspection: not drained within {DRAIN_WITHIN_S:.0f} s; left: {left}\n  {_tail(place)}")
    elif child.status != 0:
        result.problems.append(f"inspection: {_tail(place)}")
    return child.status == 0


def _tail(place: CycleFolder) -> str:
    lines = (place.folder / LOG).read_text(errors="replace").splitlines()
    return "\n  ".join(lines[-40:])


class Child:
    """A forked worker. ``opened``: the end of a pipe that tells when it has opened the file, closed by :meth:`end`.

    ``status`` is as ``waitpid`` gives it, None while it lives. ``in_time``: it died, if it was killed, at its point.
    """

    def __init__(self, pid: int, worker: Worker, opened: int | None = None, *, freeze_s: float = 0.0) -> None:
        self.pid = pid
        self.worker = worker
        self.status: int | None = None
        self.in_time = True
        self.was_frozen = False
        self._freeze_s = freeze_s
        self._born_at = time.monotonic()
        self._opened = opened
        self._opened_at: float | None = None
        self._thaws_at: float | None = None
        if opened is not None:
            os.set_blocking(opened, False)

    @property
    def is_free(self) -> bool:
        """Whether nothing is planned for it any more: it has ended, or it may be stopped."""
        if self.status is not None:
            return True
        to_be_frozen = self.worker.freeze is not None and (not self.was_frozen or self._thaws_at is not None)
        return self.worker.kill is None and not to_be_frozen

    def look(self) -> None:
        """See how it is, and do to it what is due."""
        if self.status is not None:
            return
        now = time.monotonic()
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            self.was_frozen, self._thaws_at = True, now + self._freeze_s
        elif pid:
            self.status = status
            return
        self._see_opened(now)
        if self._is_due(self.worker.kill, now):
            self.in_time = False
            self._kill()
        elif self._thaws_at is not None and now >= self._thaws_at:
            self._thaws_at = None
            os.kill(self.pid, signal.SIGCONT)
        elif not self.was_frozen and self._is_due(self.worker.freeze, now):
            self.was_frozen, self._thaws_at = True, now + self._freeze_s
            os.kill(self.pid, signal.SIGSTOP)

    def stop(self) -> None:
        """Ask it to stop."""
        if self.status is None:
            os.kill(self.pid, signal.SIGTERM)

    def tell(self, signal_: signal.Signals) -> None:
        """Send it a signal and give it a moment."""
        if self.status is None:
            os.kill(self.pid, signal_)
            time.sleep(0.2)

    def end(self) -> None:
        """Kill it if it is still there; its status then stays None."""
        if self.status is None:
            self._kill()
            self.status = None
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None

    def _see_opened(self, now: float) -> None:
        if self._opened is None or self._opened_at is not None:
            return
        try:
            told = os.read(self._opened, 1)
        except BlockingIOError:
            return
        if told:
            self._opened_at = now

    def _is_due(self, moment: Moment | None, now: float) -> bool:
        if moment is None:
            return False
        since = self._born_at if moment.at_birth else self._opened_at
        return since is not None and now >= since + moment.after

    def _kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        _, self.status = os.waitpid(self.pid, 0)


def wait_for(children: Sequence[Child], what: Callable[[Child], bool], *, within: float | None = None) -> None:
    """Look after the children until something is so for each of them, or the seconds are over."""
    until = None if within is None else time.monotonic() + within
    while not all(what(child) for child in children) and (until is None or time.monotonic() < until):
        for child in children:
            child.look()
        time.sleep(0.001)
