"""The interface of a responder: a script, or the user's agent. Without one, people reply from the inbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from afterturn.model import Conversation, Message


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """A conversation that waits for a reply. ``messages``: in thread order, the newest ones to be answered."""

    conversation: Conversation
    messages: Sequence[Message]
    account: str
    recipient: str


Responder = Callable[[ReplyRequest], Awaitable[str | None]]
"""Returns the reply's text, or None for no reply. If it raises, it is called again with growing delays."""
