"""The app of the workers: the shipped consumers, and one more that writes down what it saw."""

from __future__ import annotations

import asyncio
import importlib
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from afterturn import App, Conversation, Message, ReactionContext, Settings, Stamp, TurnWindow, WorkOrder
from afterturn.consumers import shipped, topics
from afterturn.reactions.registry import Registry

SECRET = "whsec_YWZ0ZXJ0dXJuLWNyYXNoLXRlc3Q="
WHOLE = {"tally": None, "topics": None, "maintenance": None, "inbound-package": ("messages",)}
"""Consumers whose stamp doesn't depend on how the turns were cut into windows, and the keys that this holds for."""


def make_app(pace: float = 0.0) -> App:
    """``pace``: the longest pause in the middle of a tally."""
    app = App(shipped=True)
    chance = random.Random()

    @app.consumer("tally", quiet="20ms", max_wait="100ms")
    async def tally(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        """Every message that it was ever given, in the order in which it was given."""
        before = window.previous.data.get("seen", []) if window.previous else []
        await asyncio.sleep(chance.uniform(0, pace))
        return Stamp(data={"seen": [*before, *(message.id for message in window.messages)]})  # type: ignore[misc]

    return app


def preload() -> None:
    """Import and load once what the workers need, so that they start at once and all run the same code.

    Leaves no thread and no open file behind.
    """
    for loader in ("load_repair_rules", "load_tone_rules"):
        setattr(shipped, loader, cache(getattr(shipped, loader)))
    topics.load_taxonomy = cache(topics.load_taxonomy)
    for module in ("anyio._backends._asyncio", "httpcore"):
        importlib.import_module(module)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_open_and_close(Settings(db=Path(folder) / "preload.db")))


async def _open_and_close(settings: Settings) -> None:
    async with make_app().open(settings):
        pass


def registry_of(app: App, settings: Settings) -> Registry:
    """All consumers of the app."""
    registry = Registry()
    shipped.register_shipped(registry, settings)
    registry.extend(app.registry)
    return registry


@dataclass(frozen=True, slots=True)
class CleanRun:
    """What the consumers of ``WHOLE`` stamp and order when they see a conversation once and whole."""

    stamps: dict[str, dict[str, Any]]
    orders: tuple[WorkOrder, ...]


async def clean_run(registry: Registry, conversation: Conversation, messages: Sequence[Message]) -> CleanRun:
    """Run them over all settled messages at once, without a store and without effects."""
    assert conversation.settled_at is not None
    bare = conversation.model_copy(update={"reactions": {}})
    window = TurnWindow(conversation=bare, messages=tuple(messages), through=conversation.settled_at)
    stamps: dict[str, dict[str, Any]] = {}
    orders: list[WorkOrder] = []
    for name, keys in WHOLE.items():
        context = ReactionContext(
            consumer=name,
            conversation_id=conversation.id,
            now=datetime.now(UTC),
            attempt=1,
            quiet=False,
            claims=_EverythingDone(),
        )
        stamp = await registry[name].handler(window, context)
        data = stamp.model_dump(mode="json")["data"]
        stamps[name] = data if keys is None else {key: data[key] for key in keys}
        orders += stamp.work_orders
    return CleanRun(stamps, tuple(orders))


class _EverythingDone:
    """Claims of which each was done before, so that no effect is repeated."""

    async def claim(self, name: str, key: str, value: JsonValue = None) -> JsonValue:
        return value

    async def claim_done(self, name: str, key: str) -> bool:
        return True

    async def finish_claim(self, name: str, key: str) -> None:
        return None
