"""The keys of every record, pure.

Ids inside composed keys are escaped so that no two ids collide: an escaped id has no ``#``. The escape keeps the order
of ids (``"`` and ``#`` are neighbours in it), so rows of one time come in the same order as in every other store.
Times are of fixed width. An id has at most 200 characters of at most 4 bytes, which no escape makes longer, so sort
keys stay below DynamoDB's 1,024 bytes and partition keys below its 2,048.

One item collection, ``CONV#<id>``, holds all of a conversation::

    KNOWN#ID#<message id>          a message that was stored, by its id …
    KNOWN#PROVIDER#<provider id>   … and by its provider's: what makes a redelivery change nothing
    KNOWN#TURN#<key>               a turn that was settled under a key
    META                           the conversation and its stamps
    MSG#<at>#<seq>#<message id>
    TURN#<occurred_at>
    WO#<work order id>
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from afterturn.clock import to_text
from afterturn.errors import InvalidRecord
from afterturn.model import UNASSIGNED

Key = tuple[str, str]
"""Partition key and sort key."""

META = "META"
MESSAGES = "MSG#"
TURNS = "TURN#"
WORK_ORDERS = "WO#"

CONVERSATIONS = "ENTITY_CONVERSATION"
"""The partition of GSI3; its sort key is the conversation id as it is, by contract."""
OPEN_WORK_ORDERS = "WORK_ORDERS#open"
CLOSED_WORK_ORDERS = "WORK_ORDERS#closed"
FAILURES = "FAILURES"
OPT_OUTS = "OPT_OUTS"
REGISTRATIONS = "REGISTRATIONS"
CHECKPOINTS = "CHECKPOINTS"
MONTHS = "CONV_RECENCY_MONTHS"
OPERATIONS = "OPERATIONS"
JOB_KINDS = "JOB_KINDS"

_MAX_FREE_BYTES = 900
_ESCAPES = str.maketrans({'"': '"1', "#": '"2'})


def escape(text: str) -> str:
    """Without ``#``; different for different texts; in the order of the texts.

    >>> escape('a#b"c')
    'a"2b"1c'
    """
    return text.translate(_ESCAPES)


def free(text: str) -> str:
    """A key part from any text, also an empty or a very long one; different for different texts. Ids are only escaped.

    Raises InvalidRecord for text that cannot be encoded.
    """
    if not text:
        return '"0'
    escaped = escape(text)
    if len(encoded(escaped)) <= _MAX_FREE_BYTES:
        return escaped
    return '"9' + hashlib.sha256(encoded(text)).hexdigest()


def encoded(text: str) -> bytes:
    """The text in UTF-8. Raises InvalidRecord for text that cannot be encoded."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        problem = f"has a lone surrogate at character {error.start}, which no encoding can hold"
        raise InvalidRecord("", problem) from None


def conversation(conversation_id: str) -> str:
    """The partition of all that belongs to a conversation. For a text that is no id, one that is always empty."""
    return f"CONV#{free(conversation_id)}"


def meta(conversation_id: str) -> Key:
    return conversation(conversation_id), META


def message(conversation_id: str, at: datetime, seq: int, message_id: str) -> Key:
    return conversation(conversation_id), f"{MESSAGES}{to_text(at)}#{seq:012}#{escape(message_id)}"


def known_message(conversation_id: str, message_id: str) -> Key:
    return conversation(conversation_id), f"KNOWN#ID#{escape(message_id)}"


def known_provider(conversation_id: str, provider_id: str) -> Key:
    return conversation(conversation_id), f"KNOWN#PROVIDER#{free(provider_id)}"


def known_turn(conversation_id: str, key: str) -> Key:
    return conversation(conversation_id), f"KNOWN#TURN#{escape(key)}"


def turn(conversation_id: str, occurred_at: datetime) -> Key:
    return conversation(conversation_id), f"{TURNS}{to_text(occurred_at)}"


def work_order(conversation_id: str, order_id: str) -> Key:
    return conversation(conversation_id), f"{WORK_ORDERS}{free(order_id)}"


def claim(name: str, key: str) -> Key:
    return f"CLAIM#{free(name)}", free(key)


def state(kind: str, key: str) -> Key:
    return f"STATE#{free(kind)}", free(key)


def opt_out(channel: str, address: str) -> Key:
    """Opt-outs have a partition of their own, in the order in which they are listed."""
    return OPT_OUTS, f"{channel}#{free(address)}"


def job(kind: str, key: str) -> Key:
    """What makes a job known, waiting or done: a partition each, because many are written at once."""
    return f"JOB#{escape(kind)}#{escape(key)}", "JOB"


def waiting_jobs(kind: str) -> str:
    """The partition of what is not done of a kind, in the order in which it can be taken."""
    return f"JOBS#{escape(kind)}"


def waiting_job(kind: str, visible_at: datetime, key: str) -> Key:
    return waiting_jobs(kind), f"{to_text(visible_at)}#{escape(key)}"


def job_kind(kind: str) -> Key:
    return JOB_KINDS, free(kind)


def failure(consumer: str, conversation_id: str) -> Key:
    """Failures have a partition of their own, in the order in which they are listed."""
    return FAILURES, f"{free(consumer)}#{escape(conversation_id)}"


def registration(consumer: str) -> Key:
    return REGISTRATIONS, free(consumer)


def checkpoint(name: str) -> Key:
    return CHECKPOINTS, free(name)


def month(name: str) -> Key:
    return MONTHS, name


def layout() -> Key:
    """Where the recency index is written and read; there only where that was ever changed."""
    return OPERATIONS, "recency-layout"


def operation(name: str) -> Key:
    """What a tool has to remember to go on where it was stopped."""
    return OPERATIONS, f"tool#{free(name)}"


def recency(at: datetime, conversation_id: str) -> str:
    """The sort key of the recency indexes."""
    return f"{to_text(at)}#{escape(conversation_id)}"


def of_property(property_id: str | None) -> str:
    """The partition of GSI6. No property has the name of the unassigned ones: the model reserves it."""
    return f"PROPERTY#{UNASSIGNED if property_id is None else escape(property_id)}"


def phone(participant: str) -> str:
    """The partition of GSI1: a conversation stands under its first participant."""
    return f"PHONE#{escape(participant)}"


def urgency(rank: int, opened_at: datetime, order_id: str) -> str:
    """The sort key of GSI7: most urgent first, then oldest first."""
    return f"{rank}#{to_text(opened_at)}#{escape(order_id)}"
