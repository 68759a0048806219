"""Twilio's webhook for SMS, MMS and WhatsApp: inbound messages and the delivery status of ours.

A conversation belongs to one customer: ``sms:+15158226442``, as the importer writes it, or ``whatsapp:+15158226442``.
``whatsapp:`` stays in the addresses, because the reply has to go out the same way.

STOP and its synonyms set :attr:`SuppressReason.OPT_OUT` and ``extra["opt"] = "out"``; START sets ``in`` and HELP
``help``. Twilio replies to all three itself. From ``out`` until ``in`` the sender gets no automatic message. Twilio's
own ``OptOutType``, which knows the words of every language, takes precedence over ours.

Twilio signs no time, so a replayed request is accepted; it has the same ids and changes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from urllib.parse import parse_qsl

from afterturn.channels.sanitize import (
    attachment,
    clean_lines,
    clean_message_text,
    geo_attachment,
    limit_attachments,
    secrets_equal,
)
from afterturn.channels.types import (
    ChannelEvent,
    DeliveryUpdate,
    Ignored,
    InboundMessage,
    Party,
    Rejected,
    SuppressReason,
    Thread,
    WebhookRequest,
)
from afterturn.ids import digest, legal_id, normalise
from afterturn.model import Channel

SIGNATURE_HEADER = "x-twilio-signature"
MAX_FIELDS = 1_000

OPT_OUT = {"STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT"}
OPT_IN = {"START", "UNSTOP"}
"""Without YES, which mostly means yes. If Twilio takes it for an opt-in, ``OptOutType`` says so."""
HELP = {"HELP", "INFO"}

RANKS = {
    "accepted": 10,
    "scheduled": 10,
    "queued": 20,
    "sending": 30,
    "sent": 40,
    "canceled": 50,
    "failed": 50,
    "undelivered": 50,
    "partially_delivered": 55,
    "delivered": 60,
    "read": 70,
}
"""Delivery states. Delivered and read are final; a failure may be reported too early."""

_RECEIVED = {"received", "receiving"}
_URL = re.compile(r"(https?)://([^/?#]*)(.*)\Z", re.DOTALL)
_PORT = re.compile(r":[0-9]+\Z")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_MEDIA = re.compile(r"MediaUrl([0-9]{1,4})\Z")
_ERROR = re.compile(r"[0-9]{1,10}\Z")
_NOT_IN_WORDS = re.compile(r"[\s.!\"'\-]+")


def verify(request: WebhookRequest, auth_token: str) -> None:
    """Raises Rejected unless Twilio signed this request with the account's token.

    See https://www.twilio.com/docs/usage/security. The signed URL may contain the port or not; equal name and value
    pairs count once, sorted; blank values count; a body that is not a form is signed by its hash in the URL.
    """
    signature = request.headers.get(SIGNATURE_HEADER, "")
    if not signature:
        raise Rejected(401, "has no signature")
    body_hash = dict(_pairs(_query(request))).get("bodySHA256")
    if body_hash is not None:
        pairs = []
        if not secrets_equal(body_hash.lower(), hashlib.sha256(request.body).hexdigest()):
            raise Rejected(401, "the body is not the one that was signed")
    else:
        pairs = sorted(set(_pairs(_form(request))))
    signed = "".join(name + value for name, value in pairs)
    good = False
    for url in _spellings(request.url):
        good |= secrets_equal(signature, _signature(url + signed, auth_token) if auth_token else "")
    if not good:
        raise Rejected(
            401, "the signature is wrong: is the auth token this account's, and the public URL the one called?"
        )


def fields(request: WebhookRequest) -> Mapping[str, str]:
    """The form, or the query of a GET, with blank values. Raises Rejected for too many fields."""
    values: dict[str, str] = {}
    for name, value in _pairs(_query(request) if request.method == "GET" else _form(request)):
        values.setdefault(name, value)
    return values


def parse(request: WebhookRequest, *, now: datetime, region: str | None = None) -> tuple[ChannelEvent, ...]:
    """A message, a delivery update, or Ignored. ``region``: see :func:`afterturn.ids.normalise`."""
    form = fields(request)
    sid = form.get("MessageSid") or form.get("SmsSid") or form.get("SmsMessageSid") or ""
    state = (form.get("MessageStatus") or form.get("SmsStatus") or "").lower()
    if state in _RECEIVED or (not state and "Body" in form):
        return (_message(form, sid, now, region),)
    if state and sid:
        return (_delivery(form, sid, state, now),)
    return (Ignored("call" if "CallSid" in form else "unknown-kind"),)


def _message(form: Mapping[str, str], sid: str, now: datetime, region: str | None) -> InboundMessage:
    sender = legal_id("", normalise(form.get("From", ""), region) or "unknown")
    extra = clean_lines(name=form.get("ProfileName"))
    text = clean_message_text(form.get("Body", ""), extra)
    if opt := _opt(form.get("OptOutType", ""), text):
        extra["opt"] = opt
    return InboundMessage(
        channel=Channel.SMS,
        provider_id=legal_id("", sid) if sid else digest(*(part for pair in sorted(form.items()) for part in pair)),
        party=Party(legal_id("", normalise(form.get("To", ""), region) or "unknown"), sender),
        thread=Thread(legal_id("" if ":" in sender else "sms:", sender)),
        at=now,
        text=text,
        attachments=limit_attachments(
            [
                *(attachment(form[f"MediaUrl{n}"], form.get(f"MediaContentType{n}"), "") for n in _media(form)),
                *(
                    [geo_attachment(form["Latitude"], form.get("Longitude"), form.get("Label"))]
                    if form.get("Latitude")
                    else []
                ),
            ],
            extra,
        ),
        participants=(sender,),
        suppress=SuppressReason.OPT_OUT if opt == "out" else None,
        extra=extra,
    )


def _media(form: Mapping[str, str]) -> list[str]:
    """The numbers of the attachments, in order, whatever ``NumMedia`` says."""
    return sorted((match[1] for name in form if (match := _MEDIA.match(name))), key=int)


def _opt(opt_out_type: str, text: str) -> str | None:
    kind = opt_out_type.strip().upper()
    word = _NOT_IN_WORDS.sub("", text).upper() if len(text) <= 40 else ""
    for name, words in (("out", OPT_OUT), ("in", OPT_IN), ("help", HELP)):
        if (kind or word) in words:
            return name
    return None


def _delivery(form: Mapping[str, str], sid: str, state: str, now: datetime) -> DeliveryUpdate:
    error = form.get("ErrorCode", "")
    return DeliveryUpdate(
        provider_id=legal_id("", sid),
        state=state if state in RANKS else "unknown",
        rank=RANKS.get(state, 0),
        at=now,
        error=error if _ERROR.match(error) else None,
    )


def _spellings(url: str) -> Iterator[str]:
    """The URL without its port and with it: Twilio signs either."""
    if not (parts := _URL.match(url)):
        yield url
        return
    scheme, host, rest = parts.groups()
    port = _PORT.search(host)
    bare = host[: port.start()] if port else host
    yield f"{scheme}://{bare}{rest}"
    yield f"{scheme}://{bare}{port[0] if port else ':' + _DEFAULT_PORTS[scheme]}{rest}"


def _signature(signed: str, auth_token: str) -> str:
    made = hmac.new(auth_token.encode(), signed.encode("utf-8", "surrogatepass"), hashlib.sha1)
    return base64.b64encode(made.digest()).decode()


def _query(request: WebhookRequest) -> str:
    return request.url.partition("#")[0].partition("?")[2]


def _form(request: WebhookRequest) -> str:
    return request.body.decode("utf-8", "surrogateescape")


def _pairs(encoded: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(encoded, keep_blank_values=True, errors="surrogateescape", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Rejected(400, f"has more than {MAX_FIELDS} fields") from None
