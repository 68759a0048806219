"""Payloads of every provider, damaged by a seed, and what may come of them: arrivals that fit records, or a refusal."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.fuzz import hooks
from tests.unit.channels.channels import NOW, SAMPLES, assert_fits, request, signed_sample
from tests.unit.channels.mutations import mutate, mutate_mail

from afterturn.channels.email.message import MailReceipt, read_mail
from afterturn.channels.outlook import fetch as outlook_fetch
from afterturn.channels.outlook import webhook as outlook
from afterturn.channels.ses import webhook as ses
from afterturn.channels.telegram import webhook as telegram
from afterturn.channels.twilio import webhook as twilio
from afterturn.channels.types import ChannelEvent, Rejected, WebhookRequest
from afterturn.channels.voice import livekit, retell, vapi

Mutate = Callable[[bytes, random.Random], bytes]
Read = Callable[[bytes], Iterable[Any]]

_PROVIDERS = ("email-raw", "graph", "ses-sns", "telegram", "twilio", "voice")

_VOICE: dict[str, Callable[..., Iterable[ChannelEvent]]] = {
    "vapi": vapi.parse,
    "retell": retell.parse,
    "livekit": livekit.parse,
}


@dataclass(frozen=True, slots=True)
class Target:
    """One sample, how it is damaged, and who reads it."""

    name: str
    body: bytes
    mutate: Mutate
    read: Read
    check: Callable[[Any], None]


def attempt(target: Target, seed: str) -> str | None:
    """What went wrong with the damage of a seed; None where nothing did."""
    damaged = target.mutate(target.body, random.Random(seed))
    try:
        for arrival in target.read(damaged):
            target.check(arrival)
    except Rejected as refused:
        return None if 400 <= refused.status < 500 or refused.status == 503 else f"refused with {refused.status}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return None


@cache
def targets() -> Sequence[Target]:
    """All samples, in the order of their names; then whole webhooks, by their paths."""
    samples = [f"{path.parent.name}/{path.name}" for path in sorted(SAMPLES.rglob("*.*")) if _is_payload(path)]
    return [*map(_target, samples), *map(_notification, sorted((SAMPLES / "ses-sns").glob("*.json"))), *_doors()]


def _notification(path: Path) -> Target:
    """What is in an envelope of SNS, whose signature is good."""
    value = json.loads(path.read_bytes())
    inner = value["Message"] if "Type" in value else json.dumps(value)

    def read(raw: bytes) -> Iterable[ChannelEvent]:
        return ses.parse_notification(raw.decode(errors="surrogateescape"), now=NOW)

    return Target(f"ses-sns/{path.name} within", inner.encode(), mutate, read, assert_fits)


def _doors() -> Iterable[Target]:
    for path, body in sorted(hooks.bodies().items()):
        yield Target(path, body, mutate, partial(hooks.with_body, path.partition(" ")[0]), hooks.assert_fits)
    for path in sorted(hooks.SIGNED):
        yield Target(
            f"{path} headers", hooks.good_headers(path), mutate, partial(hooks.with_headers, path), hooks.assert_fits
        )


def _is_payload(path: Path) -> bool:
    """What a provider sends; not what tells of it."""
    if path.parent.name not in _PROVIDERS or path.name.endswith((".meta.json", "vectors.json")):
        return False
    return path.suffix in (".json", ".eml") or path.name.endswith(".form.txt")


def _target(name: str) -> Target:
    provider, file = name.split("/")
    body = (SAMPLES / name).read_bytes()
    if provider == "email-raw":
        receipt = MailReceipt(at=NOW, accounts=("office@example.com",), mail_id="ses-1")
        return Target(name, body, mutate_mail, lambda raw: (read_mail(raw, receipt),), assert_fits)
    if provider == "ses-sns":
        return Target(name, body, mutate, lambda raw: ses.parse(request(raw), now=NOW), assert_fits)
    if provider == "graph":
        if "get" in file:
            return Target(
                name, body, mutate, lambda raw: (outlook_fetch.parse_fetched(_json(raw), now=NOW),), assert_fits
            )
        states = ("secretClientValue", "<secretClientState>")
        return Target(name, body, mutate, lambda raw: outlook.parse(request(raw), client_states=states), assert_fits)
    if provider == "telegram":
        return Target(
            name,
            body,
            mutate,
            lambda raw: telegram.parse(request(raw), now=NOW, bot="bot"),
            assert_fits,
        )
    if name.endswith(".form.txt"):
        signed, _ = signed_sample(name.removesuffix(".form.txt"))
        read: Callable[..., Iterable[ChannelEvent]] = twilio.parse if provider == "twilio" else twilio.parse_call

        def read_form(raw: bytes) -> Iterable[ChannelEvent]:
            return read(WebhookRequest(signed.method, signed.url, signed.headers, raw), now=NOW, region="US")

        return Target(name, body, mutate, read_form, assert_fits)
    voice = _VOICE[file.partition("-")[0]]
    return Target(name, body, mutate, lambda raw: voice(request(raw), now=NOW, region="US"), assert_fits)


def _json(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
