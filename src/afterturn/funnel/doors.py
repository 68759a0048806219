"""Where providers call: each door verifies, reads, takes in, and answers what its provider wants to hear.

A provider that is answered with an error sends the same again, so errors are for what may come right: the store is out,
a mail cannot be fetched yet. What was sent in good faith and means nothing to us is answered with success.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from afterturn.clock import Clock
from afterturn.errors import AfterturnError
from afterturn.funnel.answers import Answer, answer_of, refused
from afterturn.funnel.arrivals import Arrival, Fetch, Reply, Request, Upkeep
from afterturn.funnel.intake import Intake

MAX_BODY_BYTES = 1_000_000
"""Of what a provider sends; none of them sends as much."""

Verify = Callable[[Request, datetime], Awaitable[None]]
Read = Callable[[Request, datetime], Sequence[Arrival]]
Fetched = Callable[[Fetch, datetime], Awaitable[Arrival]]
"""Gets what a notification only names. Raises AfterturnError where it cannot be had now."""

Upkept = Callable[[Upkeep], Awaitable[None]]

NO_WORDS = Answer(200)
TWIML = Answer(200, "<Response/>", {"content-type": "text/xml"})
"""What Twilio reads as: do nothing more."""


@dataclass(frozen=True, slots=True)
class Door:
    """Of one provider. ``verify`` raises Rejected; ``done``: what it is told when everything is safe."""

    verify: Verify
    read: Read
    done: Answer = NO_WORDS
    max_body: int = MAX_BODY_BYTES
    methods: frozenset[str] = frozenset({"POST"})


@dataclass(frozen=True, slots=True)
class Doors:
    """All of them, by path. ``fetchers``: by the source of a Fetch; ``upkeep``: by the source of an Upkeep."""

    intake: Intake
    clock: Clock
    doors: Mapping[str, Door]
    fetchers: Mapping[str, Fetched] = field(default_factory=dict)
    upkeep: Mapping[str, Upkept] = field(default_factory=dict)

    async def __call__(self, path: str, request: Request) -> Answer:
        """The answer to one call; raises nothing that is ours."""
        door = self.doors.get(path.rstrip("/"))
        if door is None:
            return refused(404, "not_found", "nothing is called here; is the channel set up?")
        if request.method not in door.methods:
            return refused(405, "method", f"send a {' or '.join(sorted(door.methods))}", {"allow": _allow(door)})
        if len(request.body) > door.max_body:
            return refused(413, "too_large", f"at most {door.max_body:,} bytes")
        now = self.clock()
        try:
            await door.verify(request, now)
            for arrival in door.read(request, now):
                if isinstance(arrival, Reply):
                    return Answer(arrival.status, arrival.body, {"content-type": arrival.content_type})
                await self._take(arrival, now)
        except AfterturnError as error:
            return answer_of(error)
        return door.done

    async def _take(self, arrival: Arrival, now: datetime) -> None:
        if isinstance(arrival, Upkeep):
            if keep := self.upkeep.get(arrival.source):
                await keep(arrival)
            return
        if isinstance(arrival, Fetch):
            arrival = await self.fetchers[arrival.source](arrival, now)
        await self.intake.take(arrival)


def _allow(door: Door) -> str:
    return ", ".join(sorted(door.methods))
