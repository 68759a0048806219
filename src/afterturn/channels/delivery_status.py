"""What became of sending a message: what was noted of it, and how people are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from afterturn.channels.ingest import DELIVERY
from afterturn.channels.outbox import DISPATCHED, send_problem
from afterturn.model import SendProblem
from afterturn.store.port import Keeper

_SENDING = {
    "sent": "sent",
    "waiting": "waits to be sent",
    "undeliverable": "was not sent",
    "uncertain": "may not have been sent",
    "given-up": "was not sent, and is not tried any more",
}
_LOST = {"bounced", "canceled", "complained", "failed", "rejected", "undelivered"}
"""What a provider says where a message did not come to whom it was for."""

_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of sending a message. ``bad``: a person has to see to it."""

    text: str
    bad: bool


async def sending_of(keeper: Keeper, conversation_id: str, ids: Sequence[str]) -> dict[str, JsonValue]:
    """What was noted of sending, by message; ``told`` in it: what the provider said of each part since."""
    sent: dict[str, JsonValue] = {}
    for start in range(0, len(ids), _AT_A_TIME):
        sent.update(await noted_of(keeper, DISPATCHED, conversation_id, ids[start : start + _AT_A_TIME]))
    parts = {name: _provider_ids(value) for name, value in sent.items()}
    wanted = [one for each in parts.values() for one in each]
    told: dict[str, JsonValue] = {}
    for start in range(0, len(wanted), _AT_A_TIME):
        told.update(await keeper.noted(DELIVERY, wanted[start : start + _AT_A_TIME]))
    for name, value in sent.items():
        if isinstance(value, dict):
            sent[name] = {**value, "told": [told[one] for one in parts[name] if one in told]}
    return sent


async def noted_of(keeper: Keeper, name: str, conversation_id: str, ids: Sequence[str]) -> Mapping[str, JsonValue]:
    """Notes of a conversation's messages, by message."""
    keys = {f"{conversation_id} {one}": one for one in ids}
    noted = await keeper.noted(name, list(keys)) if keys else {}
    return {keys[key]: value for key, value in noted.items()}


def delivered(noted: JsonValue) -> Delivered | None:
    """What :func:`sending_of` has found of a message, in words; None where nobody was to send it."""
    if not isinstance(noted, dict) or noted.get("state") not in _SENDING:
        return None
    words = _SENDING[str(noted["state"])]
    reason = noted.get("reason")
    told = noted.get("told")
    heard = [one for one in told if isinstance(one, dict) and one.get("state")] if isinstance(told, list) else []
    if noted["state"] == "sent" and heard:
        worst = next((one for one in heard if one["state"] in _LOST), heard[-1])
        words = f"sent, {str(worst['state']).replace('_', ' ')}"
        return Delivered(f"{words}: {worst['error']}" if worst.get("error") else words, worst["state"] in _LOST)
    bad = send_problem(str(noted["state"]), reason if isinstance(reason, str) else None) is not None
    return Delivered(f"{words}: {reason}" if reason else words, bad)


def problem_text(problem: SendProblem) -> str:
    """The problem in words."""
    words = _SENDING.get(problem.state, problem.state)
    return f"{words}: {problem.reason}" if problem.reason else words


def _provider_ids(noted: JsonValue) -> list[str]:
    found = noted.get("providerIds") if isinstance(noted, dict) else None
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
