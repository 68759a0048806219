"""SMS, MMS and WhatsApp through Twilio: https://www.twilio.com/docs/messaging/api/message-resource.

A text that is too long for Twilio is sent as several messages, in order; carriers split each into segments and join
them again. Attachments are sent as URLs, which Twilio fetches.
"""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from urllib.parse import quote, urlencode

from pydantic import SecretStr

from afterturn.channels.http_client import HttpClient, HttpResponse, failure_of, send_once
from afterturn.channels.sanitize import clean_string
from afterturn.channels.sending import (
    CONFIGURATION_PAUSE,
    OutboundMessage,
    ProviderErrors,
    Reason,
    SendFailed,
    SendReceipt,
    TryLater,
    Uncertain,
    Undeliverable,
    public_attachments,
)
from afterturn.channels.splitting import sms_width, split_to_send
from afterturn.clock import Clock
from afterturn.errors import ConfigError
from afterturn.ids import legal_id, normalise

API = "https://api.twilio.com"
MAX_TEXT = 1600
MAX_PARTS = 8
MAX_MEDIA = 10

_SID = re.compile(r"AC[0-9a-fA-F]{32}\Z")
_SERVICE = re.compile(r"MG[0-9a-fA-F]{32}\Z")
_MESSAGE_SID = re.compile(r"[A-Za-z]{2}[0-9a-fA-F]{32}\Z")
_WHATSAPP = "whatsapp:"

ERRORS = ProviderErrors(
    permanent={
        "21610": Reason.OPTED_OUT,
        "63014": Reason.BLOCKED,
        **dict.fromkeys(
            ("21211", "21214", "21217", "21265", "21266", "21268", "21604", "21614", "21635", "63003", "63024"),
            Reason.BAD_ADDRESS,
        ),
        **dict.fromkeys(("21219", "21408", "21608", "21612", "63032"), Reason.NOT_PERMITTED),
        "63016": Reason.WINDOW_CLOSED,
        **dict.fromkeys(("21602", "21619"), Reason.EMPTY),
        **dict.fromkeys(("21605", "21617", "21658"), Reason.TOO_LONG),
        **dict.fromkeys(("11751", "12300", "21620", "21623", "63019"), Reason.BAD_ATTACHMENT),
    },
    temporary={
        **dict.fromkeys(("14107", "20429", "21611", "30022", "63018", "63038"), Reason.THROTTLED),
        **dict.fromkeys(
            (
                *("10001", "20003", "20005", "20404", "21212", "21267", "21603", "21606", "21609", "21659", "21660"),
                *("21661", "21703", "21704", "21705", "63007"),
            ),
            Reason.CONFIGURATION,
        ),
    },
)
"""https://www.twilio.com/docs/api/errors. A code that is missing here is judged by the HTTP status."""


class TwilioSender:
    """Sends through one Twilio account. Raises ConfigError for an invalid account SID.

    ``status_callback``: the public URL that gets delivery updates; ``region``: see :func:`afterturn.ids.normalise`.
    """

    def __init__(
        self,
        http: HttpClient,
        *,
        account_sid: str,
        auth_token: SecretStr,
        clock: Clock,
        status_callback: str | None = None,
        region: str | None = None,
        api: str = API,
    ) -> None:
        if not _SID.match(account_sid):
            raise ConfigError(
                "AFTERTURN_TWILIO_ACCOUNT_SID: is not AC and 32 hexadecimal digits; copy it from Twilio's console"
            )
        self._http = http
        self._clock = clock
        self._status_callback = status_callback
        self._region = region
        self._url = f"{api.rstrip('/')}/2010-04-01/Accounts/{quote(account_sid)}/Messages.json"
        credentials = f"{account_sid}:{auth_token.get_secret_value()}".encode()
        self._headers = {
            "authorization": "Basic " + base64.b64encode(credentials).decode(),
            "content-type": "application/x-www-form-urlencoded",
            "accept": "application/json",
        }

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        """Attachments go with the first text; by WhatsApp each one is a message after the texts."""
        files = public_attachments(message, "twilio")
        text = clean_string(message.text)
        texts = split_to_send(text, MAX_TEXT, sms_width, max_parts=MAX_PARTS, provider="twilio")
        if len(files) > MAX_MEDIA:
            raise Undeliverable("twilio", Reason.BAD_ATTACHMENT)
        parts: list[OutboundMessage]
        if _is_whatsapp(message):
            parts = [replace(message, text=piece, attachments=()) for piece in texts]
            parts += [replace(message, text="", attachments=(file,)) for file in files]
        else:
            parts = [replace(message, text=piece, attachments=()) for piece in texts or ([""] if files else [])]
            parts[:1] = [replace(first, attachments=files) for first in parts[:1]]
        if not parts:
            raise Undeliverable("twilio", Reason.EMPTY)
        return tuple(replace(part, part=number) for number, part in enumerate(parts))

    async def send(self, part: OutboundMessage) -> SendReceipt:
        body = urlencode(self._form(part)).encode()
        response = await send_once(self._http, "twilio", "POST", self._url, self._headers, body)
        if response.status in (200, 201):
            return self._receipt(response)
        raise self._failure(response)

    def _form(self, part: OutboundMessage) -> list[tuple[str, str]]:
        if len(part.recipients) != 1:
            raise Undeliverable("twilio", Reason.BAD_ADDRESS)
        to, account = self._address(part.recipients[0]), self._address(part.account)
        if not to.removeprefix(_WHATSAPP):
            raise Undeliverable("twilio", Reason.BAD_ADDRESS)
        service = bool(_SERVICE.match(account))
        if _is_whatsapp(part):
            to = to if to.startswith(_WHATSAPP) else _WHATSAPP + to
            account = account if service or account.startswith(_WHATSAPP) else _WHATSAPP + account
        form = [("To", to), ("MessagingServiceSid" if service else "From", account)]
        if part.text:
            form.append(("Body", clean_string(part.text)))
        form += [("MediaUrl", file.url) for file in part.attachments]
        if self._status_callback:
            form.append(("StatusCallback", self._status_callback))
        return form

    def _address(self, address: str) -> str:
        return normalise(clean_string(address), self._region)

    def _receipt(self, response: HttpResponse) -> SendReceipt:
        sid = response.json().get("sid")
        if not isinstance(sid, str) or not _MESSAGE_SID.match(sid):
            raise Uncertain("twilio", Reason.RESPONSE_UNREADABLE)
        provider_id = legal_id("", sid)
        return SendReceipt(provider_id, self._clock(), (provider_id,))

    def _failure(self, response: HttpResponse) -> SendFailed:
        value = response.json().get("code")
        code = str(value) if isinstance(value, int) and not isinstance(value, bool) else str(response.status)
        general = failure_of("twilio", response, self._clock())
        if isinstance(general, Uncertain | TryLater) and response.status != 401:
            return general
        if known := ERRORS.error_of("twilio", code):
            return known
        if general:
            return general
        if response.status in (403, 404):
            return TryLater("twilio", Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
        if response.status < 300:
            return Uncertain("twilio", Reason.RESPONSE_UNREADABLE, code)
        return Undeliverable("twilio", Reason.REFUSED, code)


def _is_whatsapp(message: OutboundMessage) -> bool:
    """Whether one of the addresses is of WhatsApp: a conversation stays in its network."""
    return any(address.strip().startswith(_WHATSAPP) for address in (message.account, *message.recipients))
