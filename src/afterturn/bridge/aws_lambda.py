"""The bridge as a Lambda function that SQS invokes, with partial batch responses.

The event source mapping needs ``ReportBatchItemFailures``; its queue's visibility timeout should be six times the
function's. What is not named in the answer is deleted by Lambda, so nothing is acknowledged here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from afterturn.bridge.bridge import Bridge
from afterturn.stream.port import Delivery

Answer = dict[str, list[dict[str, str]]]
"""``{"batchItemFailures": [{"itemIdentifier": "<message id>"}]}``: any other spelling counts as full success."""


class Invocations(Protocol):
    """A stream that can read Lambda's events."""

    def deliveries(self, event: Any) -> Sequence[tuple[str, Delivery]]:
        """The records of an event, with the ids that name them in an answer. Raises ValueError for a foreign event."""
        ...


Opener = Callable[[], AbstractAsyncContextManager[tuple[Bridge, Invocations]]]


async def respond(bridge: Bridge, stream: Invocations, event: Any) -> Answer:
    """Handle the records of an event; names those that are to come again.

    A record that fails takes along what stands behind it in its group. An engine that does not answer fails all.
    """
    named = stream.deliveries(event)
    outcome = await bridge.deliver([delivery for _, delivery in named])
    failed = {delivery.receipt for delivery in outcome.failed}
    return {"batchItemFailures": [{"itemIdentifier": name} for name, received in named if received.receipt in failed]}


class Handler:
    """What Lambda calls. Bridge and clients are opened at the first call and stay open for the next ones."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._loop = asyncio.Runner()
        self._opening: AbstractAsyncContextManager[tuple[Bridge, Invocations]] | None = None
        self._opened: tuple[Bridge, Invocations] | None = None

    def __call__(self, event: Any, context: object = None) -> Answer:
        return self._loop.run(self._respond(event))

    def close(self) -> None:
        """Close them; Lambda never says when it ends."""
        if self._opening is not None and self._opened is not None:
            self._loop.run(self._opening.__aexit__(None, None, None))
        self._loop.close()

    async def _respond(self, event: Any) -> Answer:
        if self._opened is None:
            self._opening = self._opener()
            self._opened = await self._opening.__aenter__()
        return await respond(*self._opened, event)
