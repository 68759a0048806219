"""How a message that a provider only told of is had."""

from __future__ import annotations

from typing import Protocol

from afterturn.funnel.arrivals import Arrival, Fetch


class Fetching(Protocol):
    """Fetches from one source."""

    async def fetch(self, asked: Fetch) -> Arrival:
        """The message, or :class:`~afterturn.funnel.arrivals.Nothing` where it is no more.

        Raises :class:`~afterturn.funnel.sending.port.TryLater` where it cannot be had now.
        """
        ...
