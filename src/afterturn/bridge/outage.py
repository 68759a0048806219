"""An outage, told when it begins and when it is over, however many runs meet it and however often each tries."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from afterturn import telemetry


class Outage:
    """``seconds``: a clock that only goes forward. A ``run`` is any number that tells those who meet it apart."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._runs: set[int] = set()
        self._told: set[str] = set()
        self._begun = 0.0
        self._answered: float | None = None

    def begin(self, run: int, error: str) -> None:
        """``error``: the kind of it. A further kind is told, too."""
        if not self._runs:
            self._begun = self._seconds()
            self._told.clear()
        self._runs.add(run)
        self._answered = None
        if error not in self._told:
            self._told.add(error)
            telemetry.log("bridge_paused", level=logging.ERROR, error=error)

    def answered(self) -> None:
        """What did not answer does so again; it is over once every run has gone on."""
        if self._answered is None:
            self._answered = self._seconds()

    def end(self, run: int) -> None:
        """This run has gone on."""
        if run not in self._runs:
            return
        self._runs.discard(run)
        if not self._runs:
            ended = self._seconds() if self._answered is None else self._answered
            telemetry.log("bridge_resumed", level=logging.WARNING, age_s=round(ended - self._begun))
