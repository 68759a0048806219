"""Mail through SES: what it takes, by which name an answer will come, and what is never sent twice."""

from __future__ import annotations

import base64
import email
import email.policy
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.channels.sending.rig import (
    LOST,
    NOW,
    Call,
    Fault,
    Provider,
    ProviderAnswer,
    clock,
    outgoing,
    patience,
    refusing_url,
    serving,
    told,
)

from afterturn.aws.session import Access
from afterturn.channels.email.message import MailReceipt, read_mail
from afterturn.channels.sending import OutboundMessage, Reason, SendReceipt, TryLater, Uncertain, Undeliverable
from afterturn.channels.ses.send import MAX_RAW_BYTES, SesSender, open_ses
from afterturn.errors import ConfigError
from afterturn.model import Channel

OURS, THEIRS = "office@homes.example", "ada@tenant.example"
MAIL_ID = "010001890abcdef0-12345678-1234-1234-1234-123456789abc-000000"
ONCE = {"Date", "From", "In-Reply-To", "Message-ID", "MIME-Version", "References", "Reply-To", "Subject"}
"""https://docs.aws.amazon.com/ses/latest/dg/header-fields.html: what may stand there once."""


class Ses(Provider):
    """https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def answer(self, call: Call) -> ProviderAnswer:
        if (call.method, call.path) != ("POST", "/v2/email/outbound-emails"):
            return refused(404, "NotFoundException")
        if not call.headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 Credential="):
            return refused(403, "MissingAuthenticationTokenException")
        body = call.json()
        if body.keys() != {"FromEmailAddress", "Destination", "Content"} or body["Content"].keys() != {"Raw"}:
            return refused(400, "BadRequestException")
        raw = base64.b64decode(body["Content"]["Raw"]["Data"], validate=True)
        mail = email.message_from_bytes(raw, policy=email.policy.default)
        names = [name for name in mail if name in ONCE]
        sender = mail["From"].addresses[0].addr_spec
        if not raw.isascii() or len(names) != len(set(names)) or mail.defects or sender != body["FromEmailAddress"]:
            return refused(400, "BadRequestException")
        if not 0 < len(body["Destination"]["ToAddresses"]) <= 50:
            return refused(400, "BadRequestException")
        self.sent.append(raw)
        return told(200, {"MessageId": MAIL_ID})


def refused(status: int, code: str, words: str = "about ada@tenant.example", **headers: str) -> ProviderAnswer:
    return told(status, {"message": words}, x_amzn_errortype=code, **headers)


@pytest.fixture
async def ses() -> AsyncIterator[Ses]:
    provider = Ses()
    async with serving(provider):
        yield provider


@asynccontextmanager
async def opened(url: str, driver: Any, **given: Any) -> AsyncIterator[SesSender]:
    way = Access(region="eu-west-1", endpoint=url, access_key="1" * 12, secret_key="test", **given)
    async with open_ses(way, driver) as client:
        yield SesSender(client, clock=clock)


def letter(text: str = "The plumber comes at 9.", **given: Any) -> OutboundMessage:
    return outgoing(Channel.EMAIL, OURS, given.pop("to", THEIRS), text, subject="Re: Leak", **given)


async def sent_by(ses: Ses, message: OutboundMessage, driver: Any, **given: Any) -> SendReceipt:
    async with opened(ses.url, driver, **given) as sender:
        (part,) = sender.parts(message)
        return await sender.send(part)


async def test_a_mail_goes_out_and_an_answer_to_it_finds_its_conversation(ses: Ses, session: Any) -> None:
    sent = await sent_by(ses, letter(automatic=True), session)
    name = f"{MAIL_ID}@eu-west-1.amazonses.com"
    assert sent == SendReceipt(MAIL_ID, NOW, (MAIL_ID, name))
    (raw,) = ses.sent
    assert b"Auto-Submitted: auto-replied" in raw
    answer = f"From: {THEIRS}\r\nTo: {OURS}\r\nIn-Reply-To: <{name}>\r\nSubject: Re: Leak\r\n\r\nThanks".encode()
    after = read_mail(answer, MailReceipt(at=NOW, accounts=(OURS,))).thread.after
    assert set(sent.thread_ids) & set(after) == {MAIL_ID, name}


async def test_the_emulator_takes_a_mail(access: Access, emulator: str, session: Any) -> None:
    async with open_ses(access, session) as client:
        await client.create_email_identity(EmailIdentity=OURS)
        sender = SesSender(client, clock=clock, sender=f"Homes <{OURS}>")
        (part,) = sender.parts(letter("Grüße 😀"))
        sent = await sender.send(part)
    assert sent.provider_id
    mine = f"{emulator}/_ministack/ses/messages?account={access.access_key}"
    with urllib.request.urlopen(mine) as answer:  # noqa: ASYNC210
        told = json.load(answer)
    assert THEIRS in json.dumps(told)


async def test_a_mail_that_is_too_large_is_refused_before_it_is_sent(ses: Ses, session: Any) -> None:
    with pytest.raises(Undeliverable) as too_long:
        await sent_by(ses, letter("x" * (MAX_RAW_BYTES + 1)), session)
    assert too_long.value.reason is Reason.TOO_LONG
    assert not ses.calls


@pytest.mark.parametrize(
    ("answer", "reason", "after"),
    [
        (refused(429, "TooManyRequestsException"), Reason.THROTTLED, None),
        (refused(400, "Throttling", "Maximum sending rate exceeded."), Reason.THROTTLED, None),
        (refused(400, "LimitExceededException", "Daily message quota exceeded."), Reason.THROTTLED, timedelta(hours=1)),
        (refused(500, "InternalFailure"), Reason.UNAVAILABLE, None),
        (refused(503, "ServiceUnavailable", retry_after="9"), Reason.UNAVAILABLE, timedelta(seconds=9)),
        *(
            (answer, Reason.CONFIGURATION, timedelta(minutes=15))
            for answer in (
                refused(400, "SendingPausedException"),
                refused(400, "AccountSuspendedException"),
                refused(400, "MailFromDomainNotVerifiedException"),
                refused(404, "NotFoundException"),
                refused(403, "AccessDeniedException"),
                refused(403, "SomethingNewException"),
                refused(400, "MessageRejected", "Email address is not verified. The following identities failed: …"),
            )
        ),
    ],
)
async def test_what_passes_or_can_be_put_right_is_tried_later(
    ses: Ses, session: Any, answer: ProviderAnswer, reason: Reason, after: timedelta | None
) -> None:
    ses.next = [answer]
    with pytest.raises(TryLater) as later:
        await sent_by(ses, letter(), session)
    assert (later.value.reason, later.value.after) == (reason, after)
    assert THEIRS not in repr(later.value)
    assert len(ses.calls) == 1, "the driver tried again by itself"


@pytest.mark.parametrize("code", ["MessageRejected", "BadRequestException", "SomethingNew"])
async def test_what_ses_will_never_take_is_undeliverable(ses: Ses, session: Any, code: str) -> None:
    ses.next = [refused(400, code, "Invalid content about ada@tenant.example")]
    with pytest.raises(Undeliverable) as never:
        await sent_by(ses, letter(), session)
    assert (never.value.reason, never.value.code) == (Reason.REFUSED, code)
    assert THEIRS not in repr(never.value)


@pytest.mark.parametrize("fault", LOST)
async def test_a_lost_answer_is_never_made_up_for_by_sending_again(ses: Ses, session: Any, fault: Fault) -> None:
    ses.next = [fault]
    with pytest.raises(Uncertain) as lost:
        await sent_by(ses, letter(), session, read_timeout=patience(fault).read, attempts=5)
    assert lost.value.reason is Reason.RESPONSE_LOST
    assert len(ses.sent) == (0 if fault is Fault.CLOSED_UNREAD else 1)


@pytest.mark.parametrize("status", [502, 504])
async def test_a_gateway_that_lost_the_server_behind_it_knows_nothing(ses: Ses, session: Any, status: int) -> None:
    ses.next = [ProviderAnswer(status, b"<html>")]
    with pytest.raises(Uncertain):
        await sent_by(ses, letter(), session)


@pytest.mark.parametrize("answer", [told(200, {}), told(200, {"MessageId": ""}), told(200, {"MessageId": "a\nb"})])
async def test_a_success_that_cannot_be_read_may_have_been_one(ses: Ses, session: Any, answer: ProviderAnswer) -> None:
    ses.next = [answer]
    with pytest.raises(Uncertain) as lost:
        await sent_by(ses, letter(), session)
    assert lost.value.reason is Reason.RESPONSE_UNREADABLE


async def test_where_ses_cannot_be_reached_nothing_was_sent(session: Any) -> None:
    async with opened(refusing_url(), session) as sender:
        with pytest.raises(TryLater) as later:
            await sender.send(letter())
    assert later.value.reason is Reason.UNREACHABLE


@pytest.mark.parametrize("sender", ["", "Homes", "Homes <office>", "a@b.example, c@d.example <x>", "<>"])
async def test_a_sender_that_is_no_address_is_refused_at_the_start(sender: str) -> None:
    with pytest.raises(ConfigError, match="AFTERTURN_SES_FROM"):
        SesSender(object(), clock=clock, sender=sender)


async def test_whom_nobody_can_write_to_gets_nothing(ses: Ses, session: Any) -> None:
    async with opened(ses.url, session) as sender:
        for message in (letter(to="nobody"), replace(letter(), account="unknown")):
            with pytest.raises(Undeliverable):
                await sender.send(message)
    assert not ses.calls
