"""The composition root: the only place that names concrete adapters.

An adapter is imported when its profile is opened, so that no profile pays for another one or needs its extras.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from afterturn.aws.names import Names, check_names
from afterturn.aws.session import Access
from afterturn.clock import Clock, system_clock
from afterturn.config import Profile, Settings

if TYPE_CHECKING:
    from afterturn.app import App
    from afterturn.backbone import Backbone
    from afterturn.settle import Settler
    from afterturn.store.port import Store
    from afterturn.stream.port import Publisher


@asynccontextmanager
async def open_backbone(
    app: App, settings: Settings, *, clock: Clock = system_clock, chance: random.Random | None = None
) -> AsyncIterator[Backbone]:
    """Open an app on the profile of its settings; closed when the block ends.

    Raises:
        ConfigError: settings or consumers are invalid.
        MissingExtra: the profile's extras are not installed.
        StoreError: the store cannot be used.
    """
    from afterturn.reactions.registry import Registry  # noqa: PLC0415 - a process that only settles has no consumers

    registry = Registry()
    if app.shipped:
        from afterturn.consumers.shipped import register_shipped  # noqa: PLC0415 - see above

        register_shipped(registry, settings)
    registry.extend(app.registry)
    if settings.profile is Profile.EMBEDDED:
        from afterturn.bootstrap.embedded import open_embedded  # noqa: PLC0415 - no profile pays for another one

        opening = open_embedded(settings, registry, clock, chance or random.Random())
    elif settings.profile is Profile.LOCAL:
        from afterturn.bootstrap.local import open_local  # noqa: PLC0415 - see above

        opening = open_local(settings, registry, clock)
    else:
        from afterturn.bootstrap.aws import open_aws  # noqa: PLC0415 - see above

        opening = open_aws(settings, registry, clock)
    async with opening as backbone:
        await backbone.register()
        yield backbone


@asynccontextmanager
async def open_settler(settings: Settings, *, clock: Clock = system_clock) -> AsyncIterator[Settler]:
    """The emit path alone: for a process that only settles, with bridge and reactions elsewhere.

    Raises:
        MissingExtra: the profile's extra is not installed.
        StoreError: the store cannot be used.
        StreamUnavailable: the lane has no queues.
    """
    from afterturn.settle import Settler  # noqa: PLC0415 - see above

    async with open_writer(settings, clock) as (store, stream):
        yield Settler(store, stream, clock, settings.emitter.value)


@asynccontextmanager
async def open_writer(settings: Settings, clock: Clock) -> AsyncIterator[tuple[Store, Publisher]]:
    """The store and the publisher that a settler needs."""
    if settings.profile is Profile.EMBEDDED:
        from afterturn.bootstrap.embedded import open_file_writer  # noqa: PLC0415 - see above

        with open_file_writer(settings, clock) as writer:
            yield writer
        return
    from afterturn.bootstrap import aws  # noqa: PLC0415 - see above

    if settings.profile is Profile.AWS:
        async with aws.open_writer(settings, clock, access_of(settings)) as writer:
            yield writer
        return
    from afterturn.bootstrap.local import open_local_servers  # noqa: PLC0415 - see above

    async with open_local_servers(settings) as servers, aws.open_writer(settings, clock, servers.access) as writer:
        yield writer


def names_of(settings: Settings) -> Names:
    """The names of the settings' lane. Raises ConfigError if the table's name is that of another lane."""
    names = Names.of(settings.lane.value, settings.table)
    check_names(names)
    return names


def access_of(settings: Settings) -> Access:
    """Access to the AWS account of a deployment; credentials come from the AWS default chain."""
    return Access(region=settings.aws_region, endpoint=settings.aws_endpoint_url)
