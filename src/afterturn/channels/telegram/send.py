"""Messages of a Telegram bot: https://core.telegram.org/bots/api#sendmessage.

Texts are sent plain, without markup, and attachments as links. If a group has become a supergroup, Telegram's refusal
names the new chat: the message is sent there, and :attr:`SendReceipt.moved` records it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from pydantic import SecretStr

from afterturn.channels.http_client import HttpClient, HttpResponse, failure_of, json_body, seconds, send_once
from afterturn.channels.sanitize import clean_string
from afterturn.channels.sending import (
    CONFIGURATION_PAUSE,
    OutboundMessage,
    Reason,
    SendFailed,
    SendReceipt,
    TryLater,
    Uncertain,
    Undeliverable,
    text_with_links,
)
from afterturn.channels.splitting import split_to_send, utf16_width
from afterturn.channels.types import ThreadMigrated
from afterturn.clock import Clock
from afterturn.errors import ConfigError
from afterturn.ids import legal_id

API = "https://api.telegram.org"
MAX_TEXT = 4096
MAX_PARTS = 10
PREFIX = "telegram:"

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}\Z")
_CHAT = re.compile(r"-?[0-9]{1,19}\Z")
_NUMBER = re.compile(r"[0-9]{1,19}\Z")

_WORDS = (
    (("chat not found", "peer_id_invalid", "user not found", "chat_id is empty"), Reason.BAD_ADDRESS),
    (("blocked", "kicked", "deactivated", "not a member", "initiate conversation", "chat was deleted"), Reason.BLOCKED),
    (("not enough rights", "no rights", "chat_write_forbidden", "chat_restricted"), Reason.NOT_PERMITTED),
    (("message is too long", "message_too_long"), Reason.TOO_LONG),
    (("text is empty", "text must be non-empty"), Reason.EMPTY),
)
"""Telegram has no error codes: words of its descriptions, in lower case."""


class TelegramSender:
    """Sends as one bot. Raises ConfigError for an invalid token."""

    def __init__(self, http: HttpClient, *, token: SecretStr, clock: Clock, api: str = API) -> None:
        if not _TOKEN.match(token.get_secret_value()):
            raise ConfigError("AFTERTURN_TELEGRAM_TOKEN: is not a number, a colon and a key; copy it from @BotFather")
        self._http = http
        self._clock = clock
        self._url = f"{api.rstrip('/')}/bot{token.get_secret_value()}/sendMessage"

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        text = clean_string(text_with_links(message, "telegram"))
        texts = split_to_send(text, MAX_TEXT, utf16_width, max_parts=MAX_PARTS, provider="telegram")
        if not texts:
            raise Undeliverable("telegram", Reason.EMPTY)
        return tuple(replace(message, text=piece, attachments=(), part=number) for number, piece in enumerate(texts))

    async def send(self, part: OutboundMessage) -> SendReceipt:
        chat = part.recipients[0].strip().removeprefix(PREFIX) if len(part.recipients) == 1 else ""
        if not _CHAT.match(chat):
            raise Undeliverable("telegram", Reason.BAD_ADDRESS)
        response = await self._call(_body(part, chat))
        now = _parameter(response, "migrate_to_chat_id")
        if response.status != 400 or not isinstance(now, int) or str(now) == chat:
            return self._receipt(response)
        after = await self._call(_body(part, str(now)))
        accepted = self._receipt(after)
        before = legal_id(PREFIX, chat)
        return replace(accepted, moved=ThreadMigrated(before, legal_id(PREFIX, str(now)), accepted.accepted_at))

    async def _call(self, body: dict[str, Any]) -> HttpResponse:
        headers = {"content-type": "application/json", "accept": "application/json"}
        return await send_once(self._http, "telegram", "POST", self._url, headers, json_body(body))

    def _receipt(self, response: HttpResponse) -> SendReceipt:
        if response.status != 200:
            raise self._failure(response)
        body = response.json()
        result = body.get("result")
        result = result if body.get("ok") is True and isinstance(result, dict) else {}
        chat = result.get("chat")
        chat_id, number = chat.get("id") if isinstance(chat, dict) else None, result.get("message_id")
        if not _is_number(chat_id) or not _is_number(number):
            raise Uncertain("telegram", Reason.RESPONSE_UNREADABLE)
        provider_id = legal_id("", f"{chat_id}:{number}")
        return SendReceipt(provider_id, self._clock(), (provider_id,))

    def _failure(self, response: HttpResponse) -> SendFailed:
        code = str(response.status)
        if response.status == 429 and (pause := seconds(_parameter(response, "retry_after"))) is not None:
            return TryLater("telegram", Reason.THROTTLED, code, after=pause)
        if failure := failure_of("telegram", response, self._clock()):
            return failure
        if response.status == 404:  # of the method, that is of the token; a chat that is not found is a 400
            return TryLater("telegram", Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
        if response.status < 300:
            return Uncertain("telegram", Reason.RESPONSE_UNREADABLE, code)
        description = str(response.json().get("description", "")).lower()
        otherwise = Reason.BLOCKED if response.status == 403 else Reason.REFUSED
        reason = next((reason for words, reason in _WORDS if any(word in description for word in words)), otherwise)
        return Undeliverable("telegram", reason, code)


def _body(part: OutboundMessage, chat: str) -> dict[str, Any]:
    body: dict[str, Any] = {"chat_id": int(chat), "text": clean_string(part.text)}
    if part.topic is not None and _NUMBER.match(part.topic):
        body["message_thread_id"] = int(part.topic)
    # Numbers are counted anew in each chat.
    where, _, number = (part.in_reply_to or "").rpartition(":")
    if part.part == 0 and where == chat and _NUMBER.match(number):
        body["reply_parameters"] = {"message_id": int(number), "allow_sending_without_reply": True}
    return body


def _parameter(response: HttpResponse, name: str) -> object:
    parameters = response.json().get("parameters")
    value = parameters.get(name) if isinstance(parameters, dict) else None
    return value if _is_number(value) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
