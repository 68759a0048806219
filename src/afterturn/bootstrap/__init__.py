"""The composition root: the only place that names concrete adapters.

An adapter is imported where its profile is opened, so that no profile pays for another one, or needs its extras.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from afterturn.clock import Clock, system_clock
from afterturn.config import Profile, Settings

if TYPE_CHECKING:
    from afterturn.app import App
    from afterturn.backbone import Backbone


@asynccontextmanager
async def open_backbone(
    app: App, settings: Settings, *, clock: Clock = system_clock, chance: random.Random | None = None
) -> AsyncIterator[Backbone]:
    """An app on the profile of its settings, closed when the block ends.

    Raises ConfigError for settings or consumers that make no sense, MissingExtra for a profile whose extras are not
    installed, and StoreError for a store that cannot be used.
    """
    from afterturn.reactions.registry import Registry  # noqa: PLC0415 - who only settles has no consumers

    registry = Registry()
    if app.shipped:
        from afterturn.consumers.shipped import register_shipped  # noqa: PLC0415 - who only settles has no consumers

        register_shipped(registry, settings)
    registry.extend(app.registry)
    if settings.profile is Profile.EMBEDDED:
        from afterturn.bootstrap.embedded import open_embedded  # noqa: PLC0415 - see above

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
