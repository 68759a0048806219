"""Calls: the common part of the reports of all voice providers.

A conversation belongs to one caller, ``voice:+15158226442``; without a number (a call from a web page, a withheld
number) it belongs to the call, ``voice:<call id>``. States are Twilio's.

Only words of caller and agent become utterances, not instructions of the model, tools and their results. An
utterance's id consists of the call's id and its time or position, so that it is the same in each delivery.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from afterturn.channels.sanitize import clean_message_text, clean_string
from afterturn.channels.types import CallEvent, Party, Thread, Utterance, WebhookRequest
from afterturn.ids import digest, legal_id, normalise
from afterturn.model import Direction, Role

ENDED = {"completed", "busy", "failed", "no-answer", "canceled"}
STATES = {"queued", "initiated", "ringing", "in-progress", *ENDED}

_SIDES = {
    "user": (Direction.INBOUND, Role.CUSTOMER),
    "customer": (Direction.INBOUND, Role.CUSTOMER),
    "caller": (Direction.INBOUND, Role.CUSTOMER),
    "agent": (Direction.OUTBOUND, Role.AGENT),
    "ai": (Direction.OUTBOUND, Role.AGENT),
    "assistant": (Direction.OUTBOUND, Role.AGENT),
    "bot": (Direction.OUTBOUND, Role.AGENT),
    "transfer_target": (Direction.OUTBOUND, Role.OPERATOR),
}
"""Direction and role by speaker. Entries of other speakers (system, developer, tool …) are left out."""

_WITHHELD = {"", "anonymous", "blocked", "private", "restricted", "unavailable", "unknown"} | {
    # The words above as Twilio dials them.
    *("+266696687", "+2562533", "+8656696", "+7378742883", "+86282452253"),
}


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One entry of a provider's transcript. ``key``: what tells it from the call's others, if the provider does."""

    role: object
    text: object
    at: datetime | None = None
    key: str | None = None


def call_event(
    *,
    call_id: object,
    customer: object,
    account: object,
    agent: object = None,
    region: str | None,
    at: datetime,
    state: str,
    transcript: Iterable[TranscriptEntry] = (),
    started_at: datetime | None = None,
    extra: Mapping[str, str] | None = None,
    request: WebhookRequest,
    is_final: bool = True,
) -> CallEvent:
    """A call. ``customer``, ``account``: their number and ours; ``agent``: our id if no number was dialled;
    ``started_at``: the time of utterances that have none.

    A call without an id gets the digest of its request, so that at least a second delivery changes nothing.
    """
    known = legal_id("", call_id if isinstance(call_id, str) and call_id else digest(request.body.decode("latin-1")))
    facts = dict(extra or {})
    number = normalise(clean_string(customer), region)
    withheld = number.lower() in _WITHHELD
    return CallEvent(
        provider_id=known,
        party=Party(
            account=legal_id("", normalise(clean_string(account), region) or clean_string(agent) or "unknown"),
            sender="anonymous" if withheld else legal_id("", number),
        ),
        thread=Thread(legal_id("voice:", known if withheld else number)),
        at=at,
        state=state if state in STATES else "unknown",
        ended=state in ENDED,
        utterances=_utterances(known, transcript, started_at or at, at, facts),
        extra=facts,
        is_final=is_final,
    )


def has_speech(transcript: Iterable[TranscriptEntry]) -> bool:
    """Whether caller or agent said anything."""
    return any(_side(entry) and clean_string(entry.text).strip() for entry in transcript)


def parse_lines(transcript: object, names: Mapping[str, str]) -> list[TranscriptEntry]:
    """The entries of a transcript that is one text, ``AI: Hello.`` line by line; ``names``: the roles of its names.

    What comes before the first name is the agent's, who opens a call.
    """
    entries_: list[TranscriptEntry] = []
    for line in clean_string(transcript).splitlines():
        name, colon, rest = line.partition(":")
        role = names.get(name.strip().lower()) if colon else None
        if role:
            entries_.append(TranscriptEntry(role, rest.strip()))
        elif entries_:
            entries_[-1] = TranscriptEntry(entries_[-1].role, f"{entries_[-1].text}\n{line}".rstrip())
        elif line.strip():
            entries_.append(TranscriptEntry("agent", line.strip()))
    return entries_


def entries(value: object) -> list[dict[str, Any]]:
    """The objects of a list; of anything else, none."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def seconds_after(start: datetime | None, seconds: object) -> datetime | None:
    """The time so many seconds after the start; None if either is unknown or implausible."""
    if start is None or isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return start + timedelta(seconds=seconds) if 0 <= seconds <= 86_400 else None


def _side(entry: TranscriptEntry) -> tuple[Direction, Role] | None:
    return _SIDES.get(entry.role.lower()) if isinstance(entry.role, str) else None


def _utterances(
    call: str, entries: Iterable[TranscriptEntry], begun: datetime, now: datetime, extra: dict[str, str]
) -> tuple[Utterance, ...]:
    utterances: dict[str, Utterance] = {}
    transcript = list(entries)
    at = min(next((entry.at for entry in transcript if entry.at), begun), now)
    for entry in transcript:
        side, text = _side(entry), clean_message_text(entry.text, extra)
        if side is None or not text.strip():
            continue
        at = min(max(at, entry.at or at), now)
        name = f"{call}:{entry.key or len(utterances) + 1}"
        while (provider_id := legal_id("", name)) in utterances:
            name += "+"
        utterances[provider_id] = Utterance(provider_id, *side, at, text)
    return tuple(utterances.values())
