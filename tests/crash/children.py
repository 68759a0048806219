"""The processes of a round, as their parent sees them: when each has opened the file, stands still, and dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from tests.crash.plan import Moment, Worker


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
