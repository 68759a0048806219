"""What is remembered of the answers that a machine gave in a conversation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import JsonValue

from afterturn.clock import EPOCH, MILLISECOND
from afterturn.ids import digest
from afterturn.store.port import Job

MAX_TIMES = 200
"""So many of them are remembered: what is noted is small."""


@dataclass(frozen=True, slots=True)
class ReplyHistory:
    """``by``: the key of the job that the newest answer was for; ``messages``: digests of the ids of what it had in
    sight; ``times``: when there were answers, oldest first.
    """

    by: str | None = None
    messages: tuple[str, ...] = ()
    times: tuple[datetime, ...] = ()

    @classmethod
    def read(cls, noted: JsonValue) -> ReplyHistory:
        if not isinstance(noted, dict):
            return cls()
        by, messages, times = (noted.get(name) for name in ("by", "messages", "times"))
        return cls(
            by=None if by is None else str(by),
            messages=tuple(map(str, messages)) if isinstance(messages, list) else (),
            times=tuple(EPOCH + one * MILLISECOND for one in times or () if isinstance(one, int))
            if isinstance(times, list)
            else (),
        )

    def covers(self, job: Job) -> bool:
        """Whether the answer to a later message was made with this one's in sight, while this one was put off."""
        if not isinstance(job.value, dict) or self.by == job.key:
            return False
        return digest(str(job.value.get("message"))) in self.messages

    def earlier(self, job: Job, now: datetime) -> tuple[datetime, ...]:
        """When there were answers to others. What is noted for this job is of who died before it was settled; and
        what lies ahead was noted while a clock was wrong.
        """
        times = self.times[:-1] if self.by == job.key else self.times
        return tuple(one for one in times if one <= now)

    def seen(self, job: Job, messages: Sequence[JsonValue]) -> ReplyHistory:
        """After somebody was asked, whatever they said."""
        return ReplyHistory(job.key, tuple(map(str, messages)), self.times)

    def with_one_more(self, job: Job, messages: Sequence[JsonValue], now: datetime) -> ReplyHistory:
        """After somebody was asked and has answered. Where that is done again, as who did it died, it is still one."""
        times = self.times if self.by == job.key else (*self.times, now)
        return ReplyHistory(job.key, tuple(map(str, messages)), times[-MAX_TIMES:])

    def dump(self) -> JsonValue:
        times: list[JsonValue] = [(one - EPOCH) // timedelta(milliseconds=1) for one in self.times]
        return {"by": self.by, "messages": list(self.messages), "times": times}
