"""afterturn: the durable backbone behind an AI agent that talks to customers.

Declare an :class:`App` and its consumers, open it, settle turns; read the inbox and the ledger.

Each name is loaded when it is first used, so a process that only settles does not load the inbox.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afterturn.app import App
    from afterturn.backbone import Backbone
    from afterturn.config import Settings
    from afterturn.errors import AfterturnError
    from afterturn.event import TurnSettled
    from afterturn.inbox import InboxPage, InboxQuery
    from afterturn.model import (
        Attachment,
        Channel,
        Conversation,
        ConversationMeta,
        Direction,
        FlushMode,
        Message,
        Role,
        Stamp,
        Turn,
        WorkOrder,
    )
    from afterturn.reactions.window import ReactionContext, TurnWindow

__all__ = [
    "AfterturnError",
    "App",
    "Attachment",
    "Backbone",
    "Channel",
    "Conversation",
    "ConversationMeta",
    "Direction",
    "FlushMode",
    "InboxPage",
    "InboxQuery",
    "Message",
    "ReactionContext",
    "Role",
    "Settings",
    "Stamp",
    "Turn",
    "TurnSettled",
    "TurnWindow",
    "WorkOrder",
]

_MODULES = {
    "AfterturnError": "errors",
    "App": "app",
    "Backbone": "backbone",
    "InboxQuery": "inbox",
    "InboxPage": "inbox",
    "ReactionContext": "reactions.window",
    "Settings": "config",
    "TurnSettled": "event",
    "TurnWindow": "reactions.window",
}
"""The module of each public name that is not in ``model``."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'model')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
