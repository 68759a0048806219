"""How much is in each stage, for the API and for ``afterturn stats``."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from afterturn.backbone import Backbone
from afterturn.clock import to_text
from afterturn.errors import AfterturnError, EngineUnavailable, StreamUnavailable
from afterturn.web.api import shapes

T = TypeVar("T")

_ALL = 1_000_000


async def read_stats(backbone: Backbone) -> tuple[dict[str, Any], list[AfterturnError]]:
    """The counts of every stage, and the errors of the stages that are unavailable: their counts are None.

    Raises:
        StoreError: The store is unavailable.
    """
    problems: list[AfterturnError] = []

    async def or_none(answer: Awaitable[T]) -> T | None:
        try:
            return await answer
        except (StreamUnavailable, EngineUnavailable) as error:
            problems.append(error)
            return None

    failed = len(await backbone.store.failures(limit=_ALL))
    waiting = await or_none(backbone.engine.waiting())
    oldest = await or_none(backbone.engine.oldest()) if waiting is not None else None
    depth = await or_none(backbone.stream.depth())
    return {
        **await backbone.store.counts(),
        "stream": None if depth is None else shapes.depth(depth),
        "reactions": {
            "waiting": waiting,
            "failed": failed,
            "oldestAt": None if oldest is None else to_text(oldest),
        },
    }, problems
