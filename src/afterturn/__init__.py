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
    from afterturn.bootstrap import open_settler
    from afterturn.channels.responder import ReplyRequest
    from afterturn.clock import system_clock
    from afterturn.config import Lane, Profile, Settings
    from afterturn.errors import AfterturnError
    from afterturn.event import TurnSettled
    from afterturn.inbox import InboxPage, InboxQuery, InboxRow
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
        Urgency,
        WorkOrder,
    )
    from afterturn.reactions.registry import ReactionContext, TurnWindow
    from afterturn.settle import SettleResult
    from afterturn.store.pagination import all_conversations

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
    "InboxRow",
    "Lane",
    "Message",
    "Profile",
    "ReactionContext",
    "ReplyRequest",
    "Role",
    "Settings",
    "SettleResult",
    "Stamp",
    "Turn",
    "TurnSettled",
    "TurnWindow",
    "Urgency",
    "WorkOrder",
    "all_conversations",
    "open_settler",
    "system_clock",
]

_MODULES = {
    "AfterturnError": "errors",
    "App": "app",
    "Backbone": "backbone",
    "InboxPage": "inbox",
    "InboxQuery": "inbox",
    "InboxRow": "inbox",
    "Lane": "config",
    "Profile": "config",
    "ReactionContext": "reactions.registry",
    "ReplyRequest": "channels.responder",
    "SettleResult": "settle",
    "Settings": "config",
    "TurnSettled": "event",
    "TurnWindow": "reactions.registry",
    "all_conversations": "store.pagination",
    "open_settler": "bootstrap",
    "system_clock": "clock",
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
