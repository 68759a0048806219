"""Ids that SQS takes: 1 to 128 ASCII letters, digits and punctuation. Pure."""

from __future__ import annotations

import hashlib
import re

_LEGAL = re.compile(r"[!-~]{1,128}\Z")
_MARK = "~"


def legal_id(text: str) -> str:
    """A legal id for any text, another one for every other text; a legal text stays as it is.

    What is too long or holds other characters becomes ``~`` and its SHA-256. A text that begins with ``~`` becomes one,
    too, so that no text is taken for another one's hash.

    >>> legal_id("c1")
    'c1'
    """
    if _LEGAL.match(text) and not text.startswith(_MARK):
        return text
    return _MARK + hashlib.sha256(text.encode()).hexdigest()


def is_legal(text: str) -> bool:
    """Whether SQS takes it as it is."""
    return _LEGAL.match(text) is not None


def group_id(conversation_id: str, consumer: str | None) -> str:
    """The message group: the conversation; in the direct queue, consumer and conversation.

    Unambiguous, because the name of a consumer holds no slash.
    """
    return legal_id(conversation_id if consumer is None else f"{consumer}/{conversation_id}")


def deduplication_id(event_id: str, consumer: str | None, emission: str | None) -> str:
    """The same for the same send tried again, and another one for every emission of an event.

    Unambiguous: neither consumer nor emission holds a slash or a colon, and an event id begins with ``turn:``.
    """
    return legal_id("/".join(part for part in (consumer, emission, event_id) if part is not None))
