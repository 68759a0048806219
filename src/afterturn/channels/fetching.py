"""How a message that a provider only told of is had."""

from __future__ import annotations

from typing import Protocol

from afterturn.channels.types import ChannelEvent, FetchRequest


class Fetching(Protocol):
    """Fetches from one source."""

    async def fetch(self, asked: FetchRequest) -> ChannelEvent:
        """The message, or :class:`~afterturn.channels.types.Nothing` where it is no more.

        Raises :class:`~afterturn.channels.sending.TryLater` where it cannot be had now.
        """
        ...
