"""For processes that only settle: the emit path alone, with no reaction engine, its library or its connection.

An adapter is imported where its profile is opened, so that no profile pays for another one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from afterturn.clock import Clock, system_clock
from afterturn.config import Profile, Settings
from afterturn.settle import Settler
from afterturn.store.port import Store
from afterturn.stream.port import Publisher


@asynccontextmanager
async def open_settler(settings: Settings, *, clock: Clock = system_clock) -> AsyncIterator[Settler]:
    """The writer of a deployment whose bridge and reactions run elsewhere, closed when the block ends.

    What it settles, they come to see. Raises MissingExtra for a profile whose extra is not installed, StoreError for
    a store that cannot be used, and StreamUnavailable where the lane has no queues.
    """
    async with open_ends(settings, clock) as (store, stream):
        yield Settler(store, stream, clock, settings.emitter.value)


@asynccontextmanager
async def open_ends(settings: Settings, clock: Clock) -> AsyncIterator[tuple[Store, Publisher]]:
    """What a settler is made of."""
    if settings.profile is Profile.EMBEDDED:
        from afterturn.bootstrap.embedded import open_writer as open_file  # noqa: PLC0415 - see above

        with open_file(settings, clock) as ends:
            yield ends
        return
    from afterturn.bootstrap.access import access_of  # noqa: PLC0415 - see above
    from afterturn.bootstrap.emit import open_writer  # noqa: PLC0415 - see above

    if settings.profile is Profile.AWS:
        async with open_writer(settings, clock, access_of(settings)) as written:
            yield written
        return
    from afterturn.bootstrap.local import open_local_servers  # noqa: PLC0415 - see above

    async with open_local_servers(settings) as place, open_writer(settings, clock, place.access) as written:
        yield written
