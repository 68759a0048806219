"""Messages of a bot: what Telegram takes, where a group has gone, and what is never sent twice."""

from __future__ import annotations

import logging
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
from afterturn.channels.telegram.send import MAX_PARTS, MAX_TEXT, TelegramSender
from afterturn.channels.types import ThreadMigrated
from afterturn.errors import ConfigError
from afterturn.model import Attachment, Channel

TOKEN = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
GROUP, SUPERGROUP, PERSON = -4518810793, -1002471352452, 279058397


FIELDS = {"chat_id", "text", "message_thread_id", "reply_parameters"}


class Telegram(Provider):
    """https://core.telegram.org/bots/api#sendmessage."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[dict[str, Any]] = []
        self.moved: dict[int, int] = {}
        self.closed: dict[int, str] = {}
        self.chats = {GROUP, SUPERGROUP, PERSON}

    def answer(self, call: Call) -> ProviderAnswer:
        token = re.fullmatch(r"/bot([^/]+)/sendMessage", call.path)
        if call.method != "POST" or not token:
            return _refused(404, "Not Found")
        if token[1] != TOKEN:
            return _refused(401, "Unauthorized")
        body = call.json() if call.headers.get("content-type") == "application/json" else {}
        text, chat = body.get("text"), body.get("chat_id")
        if body.keys() - FIELDS or not isinstance(chat, int) or not isinstance(text, str):
            return _refused(400, "Bad Request: parameters")
        if chat in self.moved:
            words = "Bad Request: group chat was upgraded to a supergroup chat"
            return _refused(400, words, migrate_to_chat_id=self.moved[chat])
        if chat not in self.chats:
            return _refused(400, "Bad Request: chat not found")
        if chat in self.closed:
            return _refused(403, self.closed[chat])
        if not text.strip():
            return _refused(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > 4096:
            return _refused(400, "Bad Request: message is too long")
        self.sent.append(body)
        message = {
            "message_id": len(self.sent),
            "date": 1796040000,
            "chat": {"id": chat, "type": "group"},
            "text": text,
        }
        return told(200, {"ok": True, "result": message})


def _refused(status: int, words: str, **parameters: int) -> ProviderAnswer:
    return told(status, {"ok": False, "error_code": status, "description": words, "parameters": parameters})


@pytest.fixture
async def telegram() -> AsyncIterator[Telegram]:
    provider = Telegram()
    async with serving(provider):
        yield provider


def sender(http: HttpClient, url: str, token: str = TOKEN) -> TelegramSender:
    return TelegramSender(http, token=SecretStr(token), clock=clock, api=url)


def message(text: str = "The plumber comes at 9.", to: str = f"telegram:{GROUP}", **given: Any) -> OutboundMessage:
    return outgoing(Channel.TELEGRAM, "110201543", to, text, **given)


async def sent_by(telegram: Telegram, given: OutboundMessage, token: str = TOKEN) -> list[SendReceipt]:
    async with calling() as http:
        one = sender(http, telegram.url, token)
        return [await one.send(part) for part in one.parts(given)]


async def test_a_message_goes_out_plain_and_its_id_is_the_one_that_updates_name(telegram: Telegram) -> None:
    (sent,) = await sent_by(telegram, message("*Hi* <b>you</b> _there_ 😀"))
    assert telegram.sent == [{"chat_id": GROUP, "text": "*Hi* <b>you</b> _there_ 😀"}]
    assert sent == SendReceipt(f"{GROUP}:1", NOW, (f"{GROUP}:1",))


async def test_an_answer_names_what_it_answers_in_the_same_chat_only(telegram: Telegram) -> None:
    await sent_by(telegram, message("a " * 3000, in_reply_to=f"{GROUP}:77", topic="5"))
    await sent_by(telegram, message("Hi", in_reply_to=f"{SUPERGROUP}:77"))
    await sent_by(telegram, message("Hi", in_reply_to="sha256-abc", topic="General"))
    first, second, *others = telegram.sent
    assert first["reply_parameters"] == {"message_id": 77, "allow_sending_without_reply": True}
    assert (first["message_thread_id"], second["message_thread_id"]) == (5, 5)
    assert not [one for one in (second, *others) if "reply_parameters" in one]
    assert not [one for one in others if "message_thread_id" in one]


@pytest.mark.parametrize("letter", ["a", "字", "😀", "👩\u200d👩\u200d👧"])
async def test_a_long_text_goes_out_in_order_in_messages_that_telegram_takes(telegram: Telegram, letter: str) -> None:
    text = " ".join([letter] * 5000)[:12_000]
    sent = await sent_by(telegram, message(text))
    assert "".join(one["text"] for one in telegram.sent) == text
    assert len({one.provider_id for one in sent}) == len(telegram.sent) > 1


async def test_files_go_out_as_links(telegram: Telegram) -> None:
    files = (Attachment(url="https://files.example.com/a.pdf", name="Lease"), Attachment(url="https://b.example/c"))
    await sent_by(telegram, message("Look:\n", attachments=files))
    await sent_by(telegram, message("", attachments=files[1:]))
    assert [one["text"] for one in telegram.sent] == [
        "Look:\n\nLease: https://files.example.com/a.pdf\nhttps://b.example/c",
        "https://b.example/c",
    ]


async def test_a_group_that_has_become_a_supergroup_gets_its_message_there_and_the_move_is_told(
    telegram: Telegram,
) -> None:
    telegram.moved[GROUP] = SUPERGROUP
    telegram.chats.remove(GROUP)
    (sent,) = await sent_by(telegram, message("Hi", in_reply_to=f"{GROUP}:77"))
    assert telegram.sent == [{"chat_id": SUPERGROUP, "text": "Hi"}]
    assert sent.provider_id == f"{SUPERGROUP}:1"
    assert sent.moved == ThreadMigrated(f"telegram:{GROUP}", f"telegram:{SUPERGROUP}", NOW)


async def test_a_move_that_leads_to_another_move_ends(telegram: Telegram) -> None:
    telegram.moved = {GROUP: SUPERGROUP, SUPERGROUP: GROUP}
    with pytest.raises(Undeliverable):
        await sent_by(telegram, message())
    assert len(telegram.calls) == 2


async def test_a_move_to_where_we_are_is_none(telegram: Telegram) -> None:
    telegram.moved[GROUP] = GROUP
    with pytest.raises(Undeliverable):
        await sent_by(telegram, message())
    assert len(telegram.calls) == 1


async def test_trouble_at_the_new_chat_is_that_chats_trouble(telegram: Telegram) -> None:
    telegram.moved[GROUP] = SUPERGROUP
    moved = _refused(400, "Bad Request: upgraded", migrate_to_chat_id=SUPERGROUP)
    telegram.next = [moved, _refused(429, "Too Many Requests", retry_after=3)]
    with pytest.raises(TryLater) as later:
        await sent_by(telegram, message())
    assert later.value.after == timedelta(seconds=3)
    telegram.next = [moved, Fault.CLOSED_READ]
    with pytest.raises(Uncertain):
        await sent_by(telegram, message())
    assert len(telegram.sent) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Forbidden: bot was blocked by the user", Reason.BLOCKED),
        ("Forbidden: user is deactivated", Reason.BLOCKED),
        ("Forbidden: bot was kicked from the supergroup chat", Reason.BLOCKED),
        ("Forbidden: bot can't initiate conversation with a user", Reason.BLOCKED),
        ("Forbidden: something new", Reason.BLOCKED),
        ("Forbidden: not enough rights to send text messages to the chat", Reason.NOT_PERMITTED),
    ],
)
async def test_who_has_blocked_the_bot_is_never_tried_again(telegram: Telegram, words: str, reason: Reason) -> None:
    telegram.closed[GROUP] = words
    with pytest.raises(Undeliverable) as refused:
        await sent_by(telegram, message())
    assert (refused.value.reason, refused.value.code) == (reason, "403")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Bad Request: chat not found", Reason.BAD_ADDRESS),
        ("Bad Request: message is too long", Reason.TOO_LONG),
        ("Bad Request: message text is empty", Reason.EMPTY),
        ("Bad Request: not enough rights to send text messages to the chat", Reason.NOT_PERMITTED),
        ("Bad Request: what was said is 4711", Reason.REFUSED),
    ],
)
async def test_what_telegram_will_never_take_is_undeliverable(telegram: Telegram, words: str, reason: Reason) -> None:
    telegram.next = [_refused(400, words)]
    with pytest.raises(Undeliverable) as refused:
        await sent_by(telegram, message())
    assert (refused.value.reason, refused.value.code) == (reason, "400")
    assert "4711" not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "reason", "after"),
    [
        (_refused(429, "Too Many Requests: retry after 35", retry_after=35), Reason.THROTTLED, timedelta(seconds=35)),
        (_refused(429, "Too Many Requests", retry_after=10**12), Reason.THROTTLED, timedelta(days=1)),
        (ProviderAnswer(429, b"<html>", {"retry-after": "4"}), Reason.THROTTLED, timedelta(seconds=4)),
        (_refused(500, "Internal Server Error"), Reason.UNAVAILABLE, None),
        (_refused(401, "Unauthorized"), Reason.CONFIGURATION, timedelta(minutes=15)),
        (_refused(404, "Not Found"), Reason.CONFIGURATION, timedelta(minutes=15)),
    ],
)
async def test_what_passes_or_can_be_put_right_is_tried_later(
    telegram: Telegram, answer: ProviderAnswer, reason: Reason, after: timedelta | None
) -> None:
    telegram.next = [answer]
    with pytest.raises(TryLater) as later:
        await sent_by(telegram, message())
    assert (later.value.reason, later.value.after) == (reason, after)
    assert len(telegram.calls) == 1


@pytest.mark.parametrize("fault", LOST)
async def test_a_lost_answer_is_never_made_up_for_by_sending_again(telegram: Telegram, fault: Fault) -> None:
    telegram.next = [fault]
    async with calling(patience(fault)) as http:
        with pytest.raises(Uncertain) as lost:
            await sender(http, telegram.url).send(message())
    assert lost.value.reason is Reason.RESPONSE_LOST
    assert len(telegram.sent) == (0 if fault is Fault.CLOSED_UNREAD else 1)


@pytest.mark.parametrize(
    "answer",
    [
        ProviderAnswer(200, b"{"),
        told(200, {"ok": True}),
        told(200, {"ok": True, "result": True}),
        told(200, {"ok": False, "result": {"message_id": 1, "chat": {"id": 1}}}),
        told(200, {"ok": True, "result": {"message_id": "1", "chat": {"id": 1}}}),
        told(200, {"ok": True, "result": {"message_id": 1, "chat": []}}),
        told(204, {}),
    ],
)
async def test_a_success_that_cannot_be_read_may_have_been_one(telegram: Telegram, answer: ProviderAnswer) -> None:
    telegram.next = [answer]
    with pytest.raises(Uncertain) as lost:
        await sent_by(telegram, message())
    assert lost.value.reason is Reason.RESPONSE_UNREADABLE


@pytest.mark.parametrize(
    "to", ["", "telegram:", "user279058397", "@channel", "+15158226442", "1.5", "-", "9" * 20, "１"]
)
async def test_only_a_chat_can_be_written_to(to: str) -> None:
    async with calling() as http:
        with pytest.raises(Undeliverable) as refused:
            await sender(http, refusing_url()).send(message(to=to))
    assert refused.value.reason is Reason.BAD_ADDRESS


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (message(" \n"), Reason.EMPTY),
        (message("x" * (MAX_TEXT * MAX_PARTS + 1)), Reason.TOO_LONG),
        (message("😀" * (MAX_TEXT * MAX_PARTS)), Reason.TOO_LONG),
        (message("Look", attachments=(Attachment(url="telegram:abc"),)), Reason.BAD_ATTACHMENT),
    ],
)
async def test_what_no_message_can_be_is_refused_before_anything_is_sent(
    given: OutboundMessage, reason: Reason
) -> None:
    async with calling() as http:
        with pytest.raises(Undeliverable) as refused:
            sender(http, refusing_url()).parts(given)
    assert refused.value.reason is reason


async def test_the_token_is_in_no_log_and_in_no_error(telegram: Telegram, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await sent_by(telegram, message())
    with pytest.raises(TryLater) as later:
        await sent_by(telegram, message(), token="1:" + "x" * 30 + "secret")
    assert "sendMessage" not in caplog.text + repr(later.value)
    assert not [part for part in (TOKEN, "secret") if part in caplog.text + repr(later.value)]


@pytest.mark.parametrize(
    "token", ["", "x", "123", "123:short", "123:" + "/" * 30, TOKEN + "\n", "1:" + "x" * 30 + "?a"]
)
async def test_a_token_that_is_none_is_refused_at_the_start_and_not_shown(token: str) -> None:
    async with calling() as http:
        with pytest.raises(ConfigError, match="AFTERTURN_TELEGRAM_TOKEN") as refused:
            TelegramSender(http, token=SecretStr(token), clock=clock)
    assert not token or token not in str(refused.value)
