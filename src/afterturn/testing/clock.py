"""A clock that is set by hand."""

from __future__ import annotations

from datetime import datetime, timedelta


class ManualClock:
    """Tells the time that it was set to. It may be set back, as machines' clocks are."""

    def __init__(self, start: datetime) -> None:
        self.now = start

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> datetime:
        """Let time pass; returns the new time."""
        self.now += by
        return self.now

    def set(self, at: datetime) -> datetime:
        self.now = at
        return at
