"""afterturn: the durable backbone behind an AI agent that talks to customers.

Declare an :class:`App` and its consumers, open it, settle turns; read the inbox and the ledger.
"""

from afterturn.app import App
from afterturn.backbone import Backbone
from afterturn.config import Settings
from afterturn.errors import AfterturnError
from afterturn.event import TurnSettled
from afterturn.inbox import InboxQuery, Page
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
    "InboxQuery",
    "Message",
    "Page",
    "ReactionContext",
    "Role",
    "Settings",
    "Stamp",
    "Turn",
    "TurnSettled",
    "TurnWindow",
    "WorkOrder",
]
