"""Runners of automatic replies and of sending alone, as the tests of channels need them."""

from __future__ import annotations

from typing import Any

from afterturn.channels.auto_reply import AutoReply
from afterturn.channels.outbox import Outbox
from afterturn.jobs.runner import JobRunner


def auto_reply(writer: Any, store: Any, conversations: Any, clock: Any, **options: Any) -> JobRunner:
    """Answers messages and finishes calls."""
    return JobRunner(store, clock, AutoReply(writer, store, conversations, clock, **options).handlers)


def outbox(store: Any, clock: Any, choose: Any, **options: Any) -> JobRunner:
    """Sends replies."""
    return JobRunner(store, clock, [Outbox(store, clock, choose, **options).handler])


def combined(*runners: JobRunner) -> JobRunner:
    """One runner for the jobs of several, on the store of the first."""
    handlers = [handler for runner in runners for handler in runner._handlers.values()]
    return JobRunner(runners[0]._store, runners[0]._clock, handlers)
