"""Texts through Twilio: what it takes, what it refuses, and what is never sent twice."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr
from tests.unit.channels.sending.rig import (
    LOST,
    NOW,
    Call,
    Fault,
    Provider,
    ProviderAnswer,
    calling,
    clock,
    outgoing,
    patience,
    refusing_url,
    serving,
    told,
)

from afterturn.channels.http_client import HttpClient
from afterturn.channels.sending import OutboundMessage, Reason, SendReceipt, TryLater, Uncertain, Undeliverable
from afterturn.channels.splitting import GSM_EXTENSION
from afterturn.channels.twilio.send import MAX_MEDIA, MAX_PARTS, MAX_TEXT, TwilioSender
from afterturn.errors import ConfigError
from afterturn.model import Attachment, Channel

ACCOUNT = "AC" + "0a" * 16
TOKEN = "very-secret-auth-token"
CALLBACK = "https://hooks.example.com/twilio/status"
OURS, THEIRS = "+15155550100", "+15158226442"
PHOTO = Attachment(url="https://files.example.com/a.jpg?x=1", media_type="image/jpeg")


FIELDS = {"To", "From", "MessagingServiceSid", "Body", "MediaUrl", "StatusCallback"}


class Twilio(Provider):
    """https://www.twilio.com/docs/messaging/api/message-resource and https://www.twilio.com/docs/api/errors."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []
        self.opted_out: set[str] = set()

    def answer(self, call: Call) -> ProviderAnswer:
        if (call.method, call.path) != ("POST", f"/2010-04-01/Accounts/{ACCOUNT}/Messages.json"):
            return _refused(404, 20404)
        if call.headers.get("authorization") != "Basic " + base64.b64encode(f"{ACCOUNT}:{TOKEN}".encode()).decode():
            return _refused(401, 20003)
        if call.headers.get("content-type") != "application/x-www-form-urlencoded":
            return _refused(400, 20001)
        form = call.form()
        given = {name: [value for key, value in form if key == name] for name, _ in form}
        if problem := self._problem(given):
            return _refused(400, problem)
        self.sent.append({name: values if name == "MediaUrl" else values[0] for name, values in given.items()})
        sid = f"SM{len(self.sent):032x}"
        return told(201, {"sid": sid, "status": "queued", "error_code": None, "date_created": "Mon, 30 Nov 2026"})

    def _problem(self, given: dict[str, list[str]]) -> int | None:
        to, sender = given.get("To", [""])[0], given.get("From", given.get("MessagingServiceSid", [""]))[0]
        body, media = given.get("Body", [""])[0], given.get("MediaUrl", [])
        number = re.compile(r"(whatsapp:)?\+[1-9][0-9]{7,14}\Z")
        units = len(body.encode("utf-16-le")) // 2 + sum(char in GSM_EXTENSION for char in body)
        twice = any(len(values) > 1 for name, values in given.items() if name != "MediaUrl")
        both = {"From", "MessagingServiceSid"} <= given.keys()
        checks = {
            20001: bool(given.keys() - FIELDS) or twice or both,
            21604: not to,
            21211: not number.match(to),
            21603: not sender,
            21212: not (number.match(sender) or sender.startswith("MG")),
            21910: sender[:2] != "MG" and to.startswith("whatsapp:") != sender.startswith("whatsapp:"),
            21610: to in self.opted_out,
            21617: units > 1600,
            21602: not body.strip() and not media,
            21623: len(media) > (1 if to.startswith("whatsapp:") else 10),
            21620: not all(url.startswith("https://") for url in media),
            21609: not given.get("StatusCallback", ["https://"])[0].startswith("https://"),
        }
        return next((code for code, found in checks.items() if found), None)


def _refused(status: int, code: int, **headers: str) -> ProviderAnswer:
    words = "The message to +15158226442 was refused"
    return told(status, {"code": code, "message": words, "more_info": "https://…", "status": status}, **headers)


@pytest.fixture
async def twilio() -> AsyncIterator[Twilio]:
    provider = Twilio()
    async with serving(provider):
        yield provider


def sender(http: HttpClient, url: str, **given: Any) -> TwilioSender:
    secret = SecretStr(given.pop("token", TOKEN))
    return TwilioSender(http, account_sid=ACCOUNT, auth_token=secret, clock=clock, api=url, **given)


def sms(text: str = "The plumber comes at 9.", to: str = THEIRS, account: str = OURS, **given: Any) -> OutboundMessage:
    return outgoing(Channel.SMS, account, to, text, **given)


async def sent_by(twilio: Twilio, message: OutboundMessage, **given: Any) -> list[SendReceipt]:
    async with calling() as http:
        one = sender(http, twilio.url, **given)
        return [await one.send(part) for part in one.parts(message)]


async def test_a_text_goes_out_whole_and_its_sid_is_known(twilio: Twilio) -> None:
    (sent,) = await sent_by(twilio, sms("Grüße & 1+1=2 😀"), status_callback=CALLBACK)
    assert twilio.sent == [{"To": THEIRS, "From": OURS, "Body": "Grüße & 1+1=2 😀", "StatusCallback": CALLBACK}]
    assert sent == SendReceipt(f"SM{1:032x}", NOW, (f"SM{1:032x}",))


async def test_an_answer_goes_back_by_the_network_that_it_came_by(twilio: Twilio) -> None:
    await sent_by(twilio, sms(to=f"whatsapp:{THEIRS}", account=OURS))
    await sent_by(twilio, sms(to=THEIRS, account=f"whatsapp:{OURS}"))
    await sent_by(twilio, sms(to=f"whatsapp:{THEIRS}", account="MG" + "0b" * 16))
    await sent_by(twilio, sms(to="(515) 822-6442", account=OURS), region="US")
    assert [(one["To"], one.get("From", "service")) for one in twilio.sent] == [
        (f"whatsapp:{THEIRS}", f"whatsapp:{OURS}"),
        (f"whatsapp:{THEIRS}", f"whatsapp:{OURS}"),
        (f"whatsapp:{THEIRS}", "service"),
        (THEIRS, OURS),
    ]


@pytest.mark.parametrize("letter", ["a", "ß", "€", "😀", "字"])
async def test_a_long_text_goes_out_in_order_in_messages_that_twilio_takes(twilio: Twilio, letter: str) -> None:
    text = " ".join(letter * 9 for _ in range(400))
    sent = await sent_by(twilio, sms(text))
    assert "".join(one["Body"] for one in twilio.sent) == text
    assert len({one.provider_id for one in sent}) == len(twilio.sent) > 1


async def test_files_go_with_the_first_text_and_by_whatsapp_one_by_one(twilio: Twilio) -> None:
    long = "word " * 400
    await sent_by(twilio, sms(long, attachments=(PHOTO, PHOTO)))
    assert [len(one.get("MediaUrl", [])) for one in twilio.sent] == [2, 0]
    twilio.sent.clear()
    await sent_by(twilio, sms("Look", to=f"whatsapp:{THEIRS}", attachments=(PHOTO, PHOTO)))
    assert [one.get("Body", one.get("MediaUrl")) for one in twilio.sent] == ["Look", [PHOTO.url], [PHOTO.url]]
    twilio.sent.clear()
    await sent_by(twilio, sms("", attachments=(PHOTO,)))
    assert [(one["MediaUrl"], "Body" in one) for one in twilio.sent] == [([PHOTO.url], False)]


async def test_the_parts_of_a_message_are_the_same_each_time_and_numbered() -> None:
    async with calling() as http:
        one = sender(http, "https://twilio.example")
        message = sms("word " * 900, attachments=(PHOTO,))
        assert one.parts(message) == one.parts(message)
        assert [part.part for part in one.parts(message)] == list(range(len(one.parts(message))))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (sms(""), Reason.EMPTY),
        (sms(" \n\t"), Reason.EMPTY),
        (sms("x" * (MAX_TEXT * MAX_PARTS + 1)), Reason.TOO_LONG),
        (sms("€" * (MAX_TEXT * MAX_PARTS)), Reason.TOO_LONG),
        (sms("", attachments=(PHOTO,) * (MAX_MEDIA + 1)), Reason.BAD_ATTACHMENT),
        *(
            (sms("Look", attachments=(Attachment(url=url),)), Reason.BAD_ATTACHMENT)
            for url in ("http://a.example/b", "s3://bucket/key", "telegram:abc", "geo:1,2", "file:///etc/passwd", "x")
        ),
    ],
)
async def test_what_no_text_message_can_be_is_refused_before_anything_is_sent(
    message: OutboundMessage, reason: Reason
) -> None:
    async with calling() as http:
        with pytest.raises(Undeliverable) as refused:
            sender(http, refusing_url()).parts(message)
    assert refused.value.reason is reason


@pytest.mark.parametrize("recipients", [(), ("",), (" ",), (THEIRS, "+15158226443"), ("whatsapp:",)])
async def test_a_text_has_one_recipient(recipients: tuple[str, ...]) -> None:
    message = OutboundMessage("c", "m", Channel.SMS, OURS, recipients, "Hi")
    async with calling() as http:
        with pytest.raises(Undeliverable) as refused:
            await sender(http, refusing_url()).send(message)
    assert refused.value.reason is Reason.BAD_ADDRESS


async def test_who_has_opted_out_is_never_tried_again(twilio: Twilio) -> None:
    twilio.opted_out.add(THEIRS)
    with pytest.raises(Undeliverable) as refused:
        await sent_by(twilio, sms())
    assert (refused.value.reason, refused.value.code) == (Reason.OPTED_OUT, "21610")
    assert THEIRS not in str(refused.value)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (21211, Reason.BAD_ADDRESS),
        (21614, Reason.BAD_ADDRESS),
        (21408, Reason.NOT_PERMITTED),
        (63016, Reason.WINDOW_CLOSED),
        (21620, Reason.BAD_ATTACHMENT),
        (21617, Reason.TOO_LONG),
        (99999, Reason.REFUSED),
    ],
)
async def test_what_twilio_will_never_take_is_undeliverable(twilio: Twilio, code: int, reason: Reason) -> None:
    twilio.next = [_refused(400, code)]
    with pytest.raises(Undeliverable) as refused:
        await sent_by(twilio, sms())
    assert (refused.value.reason, refused.value.code) == (reason, str(code))


@pytest.mark.parametrize(
    ("answer", "reason", "after"),
    [
        (_refused(429, 20429, retry_after="7"), Reason.THROTTLED, timedelta(seconds=7)),
        (_refused(429, 20429), Reason.THROTTLED, None),
        (_refused(400, 21611), Reason.THROTTLED, None),
        (_refused(500, 20500), Reason.UNAVAILABLE, None),
        (_refused(503, 20503, retry_after="Mon, 30 Nov 2026 12:01:00 GMT"), Reason.UNAVAILABLE, timedelta(minutes=1)),
        (_refused(400, 21606), Reason.CONFIGURATION, timedelta(minutes=15)),
        (_refused(401, 20003), Reason.CONFIGURATION, timedelta(minutes=15)),
        (_refused(403, 20005), Reason.CONFIGURATION, timedelta(minutes=15)),
        (ProviderAnswer(403, b"<html>"), Reason.CONFIGURATION, timedelta(minutes=15)),
        (ProviderAnswer(500, b"<html>oops"), Reason.UNAVAILABLE, None),
        (
            ProviderAnswer(302, headers={"location": "https://elsewhere.example"}),
            Reason.CONFIGURATION,
            timedelta(minutes=15),
        ),
    ],
)
async def test_what_passes_or_can_be_put_right_is_tried_later(
    twilio: Twilio, answer: ProviderAnswer, reason: Reason, after: timedelta | None
) -> None:
    twilio.next = [answer]
    with pytest.raises(TryLater) as later:
        await sent_by(twilio, sms())
    assert (later.value.reason, later.value.after) == (reason, after)
    assert len(twilio.calls) == 1
    await sent_by(twilio, sms())


async def test_wrong_credentials_wait_for_the_right_ones_and_are_not_shown(twilio: Twilio) -> None:
    with pytest.raises(TryLater) as later:
        await sent_by(twilio, sms(), token="wrong-token")
    assert (later.value.reason, later.value.code) == (Reason.CONFIGURATION, "20003")
    assert "wrong-token" not in repr(later.value)


async def test_where_twilio_cannot_be_reached_nothing_was_sent() -> None:
    async with calling() as http:
        with pytest.raises(TryLater) as later:
            await sender(http, refusing_url()).send(sms())
    assert later.value.reason is Reason.UNREACHABLE


@pytest.mark.parametrize("fault", LOST)
async def test_a_lost_answer_is_never_made_up_for_by_sending_again(twilio: Twilio, fault: Fault) -> None:
    twilio.next = [fault]
    async with calling(patience(fault)) as http:
        with pytest.raises(Uncertain) as lost:
            await sender(http, twilio.url).send(sms("The code is 4711"))
    assert lost.value.reason is Reason.RESPONSE_LOST
    assert len(twilio.sent) == (0 if fault is Fault.CLOSED_UNREAD else 1)
    assert not [secret for secret in ("4711", THEIRS, TOKEN) if secret in repr(lost.value)]


@pytest.mark.parametrize(
    "answer",
    [
        ProviderAnswer(201, b"{"),
        ProviderAnswer(201, b""),
        told(201, {}),
        told(201, {"sid": 7}),
        told(201, {"sid": "x\ny"}),
        told(202, {"sid": f"SM{1:032x}"}),
        ProviderAnswer(201, b" " * 2_000_000),
    ],
)
async def test_a_success_that_cannot_be_read_may_have_been_one(twilio: Twilio, answer: ProviderAnswer) -> None:
    twilio.next = [answer]
    with pytest.raises(Uncertain) as lost:
        await sent_by(twilio, sms())
    assert lost.value.reason is Reason.RESPONSE_UNREADABLE


@pytest.mark.parametrize("status", [502, 504])
async def test_a_gateway_that_lost_the_server_behind_it_knows_nothing(twilio: Twilio, status: int) -> None:
    twilio.next = [ProviderAnswer(status, b"<html>")]
    with pytest.raises(Uncertain):
        await sent_by(twilio, sms())


@pytest.mark.parametrize("sid", ["", "AC123", "SK" + "0a" * 16, "AC" + "0a" * 16 + "\n", "../" + "0a" * 16])
async def test_an_account_that_is_none_is_named_at_the_start(sid: str) -> None:
    async with calling() as http:
        with pytest.raises(ConfigError, match="AFTERTURN_TWILIO_ACCOUNT_SID"):
            TwilioSender(http, account_sid=sid, auth_token=SecretStr(TOKEN), clock=clock)


def test_a_message_that_is_printed_shows_nothing_of_itself() -> None:
    shown = f"{sms('The code is 4711')} {sms('The code is 4711')!r}"
    assert "m-1" in shown
    assert not [secret for secret in ("4711", THEIRS, OURS) if secret in shown]
