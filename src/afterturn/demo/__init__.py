"""The demo's sample: conversations of a fictional property manager, with times relative to now.

A line of ``sample.jsonl`` is ``{"conversation": {...}, "ago": "35m", "messages": [{"after": "12s", ...}]}``: ``ago`` is
how long before now the last message was, ``after`` how long after the message before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

from afterturn.clock import floor_millis, parse_duration
from afterturn.importers.records import ImportedConversation, make_turns
from afterturn.model import Channel, ConversationMeta, FlushMode, Message, Turn, parse


@dataclass(frozen=True, slots=True)
class Scripted:
    """A conversation to settle. ``spoken``: utterances of a voice call, saved one by one before its end."""

    spoken: tuple[Message, ...]
    conversation: ImportedConversation


def sample(now: datetime) -> Iterator[Scripted]:
    """The conversations of the sample, as if the last of them had ended just before ``now``."""
    text = (files(__package__) / "sample.jsonl").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        yield _scripted(json.loads(line), floor_millis(now), f"sample.jsonl:{number}")


def _scripted(script: dict[str, Any], now: datetime, location: str) -> Scripted:
    meta = parse(ConversationMeta, script["conversation"], where=location)
    steps = [parse_duration(message["after"]) for message in script["messages"]]
    at = now - parse_duration(script["ago"]) - sum(steps[1:], timedelta(0))
    messages = []
    for number, message in enumerate(script["messages"], 1):
        at += steps[number - 1] if number > 1 else timedelta(0)
        fields = {key: value for key, value in message.items() if key != "after"}
        messages.append(parse(Message, {**fields, "id": f"{meta.id}-{number}", "at": at}, where=location))
    if meta.channel is Channel.VOICE:
        end = Turn(conversation=meta, at=messages[-1].at, flush_mode=FlushMode.IMMEDIATE, key="demo:hung-up")
        return Scripted(tuple(messages), ImportedConversation(meta, (end,), location))
    return Scripted((), ImportedConversation(meta, make_turns(meta, messages), location))
