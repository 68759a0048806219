"""Who answers: nobody (people do, from the inbox), a script, or the user's own agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from afterturn.model import Conversation, Message


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """A conversation that waits for an answer: its messages in thread order, the newest ones to be answered."""

    conversation: Conversation
    messages: Sequence[Message]
    account: str
    recipient: str


Responder = Callable[[ReplyRequest], Awaitable[str | None]]
"""The answer's text, or None where none is to be given. What it raises is tried again, later and later."""
