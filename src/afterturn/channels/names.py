"""What people call themselves, beside the addresses that they have: for show, never for finding anybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from afterturn.channels.types import InboundMessage
from afterturn.store.port import Keeper, Note

MAX_NAME_CHARS = 200

NAMED = "named"
"""Notes: the name that somebody bears, by their address as conversations hold it."""


def name_notes(one: InboundMessage, rank: int) -> list[Note]:
    """The name that a channel tells with a message of somebody's. ``rank``: of its time; the newest one stays."""
    told: dict[str, JsonValue] = {key: one.extra[key] for key in ("name", "username") if one.extra.get(key)}
    return [Note(NAMED, one.party.sender, told, rank, replace=True)] if told and "direction" not in one.extra else []


def contact_name(one: InboundMessage) -> str | None:
    """The sender's name for the conversation's row, if the channel gives one."""
    return _shown({key: one.extra.get(key) for key in ("name", "username")})[:MAX_NAME_CHARS] or None


async def names_of(keeper: Keeper, people: Sequence[str]) -> Mapping[str, str]:
    """What to call those of the people who are known by a name: ``{"user77": "Ada Lovelace (@ada)"}``."""
    known = await keeper.noted(NAMED, list(dict.fromkeys(people))) if people else {}
    return {person: shown for person, value in known.items() if (shown := _shown(value))}


def _shown(value: JsonValue) -> str:
    if not isinstance(value, dict):
        return ""
    name, username = (str(value.get(key) or "") for key in ("name", "username"))
    handle = f"@{username.removeprefix('@')}" if username else ""
    return f"{name} ({handle})" if name and handle else name or handle
