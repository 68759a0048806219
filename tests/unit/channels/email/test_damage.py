"""Damaged mails and notifications: each is refused or arrives, and nothing else happens."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.channels.channels import NOW, SAMPLES, here, request
from tests.unit.channels.mails import RECEIPT, assert_fits
from tests.unit.channels.mutations import mutate, mutate_mail

from afterturn.channels.email.message import read_mail
from afterturn.channels.email.quoting import strip_quotes
from afterturn.channels.outlook import fetch as outlook_fetch
from afterturn.channels.outlook import webhook as outlook_webhook
from afterturn.channels.ses import webhook as ses_webhook
from afterturn.channels.types import ChannelEvent, InboundMessage, Rejected

ROUNDS = 60
MAILS = sorted((SAMPLES / "email-raw").glob("*.eml"))
REPLIES = sorted((SAMPLES / "email-reply-text").glob("*.txt"))
ENVELOPES = sorted((SAMPLES / "ses-sns").glob("*.json"))
NOTIFICATIONS = sorted((SAMPLES / "graph").glob("*.json"))
STATES = {"secretClientValue", "<secretClientState>"}


def _survives(
    what: str, read: Callable[..., ChannelEvent | tuple[ChannelEvent, ...]], *given: Any, **known: Any
) -> None:
    try:
        found = read(*given, **known)
        for arrival in found if isinstance(found, tuple) else (found,):
            assert_fits(arrival)
    except Rejected as refused:
        if refused.status not in {400, 413}:
            raise AssertionError(what) from refused
    except Exception as error:
        raise AssertionError(what) from error


@here
@pytest.mark.parametrize("path", MAILS, ids=lambda path: path.stem)
def test_a_damaged_mail_arrives(path: Path) -> None:
    sound = path.read_bytes()
    for seed in range(ROUNDS):
        damaged = mutate_mail(sound, random.Random(f"{path.stem}{seed}"))
        _survives(f"{path.stem}, seed {seed}", read_mail, damaged, RECEIPT)


@here
@pytest.mark.parametrize("path", REPLIES, ids=lambda path: path.stem)
def test_a_damaged_text_keeps_something_that_was_said(path: Path) -> None:
    sound = path.read_bytes()
    for seed in range(ROUNDS):
        text = mutate_mail(sound, random.Random(f"{path.stem}{seed}")).decode(errors="replace")
        assert not text.strip() or strip_quotes(text).strip(), f"seed {seed}"


@here
@pytest.mark.parametrize("path", ENVELOPES, ids=lambda path: path.stem)
def test_a_damaged_envelope_is_refused_or_arrives(path: Path) -> None:
    sound = path.read_bytes()
    inner = json.loads(sound).get("Message", sound.decode())
    for seed in range(ROUNDS * 4):
        chance = random.Random(f"{path.stem}{seed}")
        what = f"{path.stem}, seed {seed}"
        outer = mutate(sound, chance)
        _survives(what, ses_webhook.parse, request(outer), now=NOW)
        within = mutate(inner.encode(), chance).decode(errors="surrogateescape")
        _survives(what, ses_webhook.parse_notification, within, now=NOW)


@here
@pytest.mark.parametrize("path", NOTIFICATIONS, ids=lambda path: path.stem)
def test_a_damaged_notification_is_refused_or_arrives(path: Path) -> None:
    sound = path.read_bytes()
    for seed in range(ROUNDS * 4):
        damaged = mutate(sound, random.Random(f"{path.stem}{seed}"))
        what = f"{path.stem}, seed {seed}"
        _survives(what, outlook_webhook.parse, request(damaged), client_states=STATES)
        try:
            answer = json.loads(damaged)
        except (ValueError, RecursionError):
            continue
        _survives(what, outlook_fetch.parse_fetched, answer, now=NOW)


@here
def test_damage_is_the_same_in_every_run() -> None:
    raw = MAILS[0].read_bytes()
    first, second = (read_mail(mutate_mail(raw, random.Random("x")), RECEIPT) for _ in range(2))
    assert isinstance(first, InboundMessage)
    assert first == second
