"""Twilio's webhooks: SMS, MMS and WhatsApp messages, the delivery status of ours, and calls.

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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from urllib.parse import parse_qsl

from afterturn.channels.http_client import open_http
from afterturn.channels.provider import ProviderConnection, ProviderContext, SenderBinding
from afterturn.channels.sanitize import (
    attachment,
    clean_label,
    clean_lines,
    clean_message_text,
    from_mail_date,
    geo_attachment,
    limit_attachments,
    public_url,
    secrets_equal,
)
from afterturn.channels.twilio import TwilioSettings
from afterturn.channels.twilio.send import TwilioSender
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
from afterturn.channels.voice.calls import TranscriptEntry, call_event
from afterturn.channels.webhooks import TWIML, WEBHOOKS_PATH, WebhookEndpoint
from afterturn.ids import digest, legal_id, normalise
from afterturn.model import Channel

METHODS = frozenset({"GET", "POST"})
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


def endpoints(settings: TwilioSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.twilio_auth_token is None:
        return {}
    token, region = settings.twilio_auth_token.get_secret_value(), context.phone_region

    def endpoint(parse: Callable[..., Sequence[ChannelEvent]]) -> WebhookEndpoint:
        return WebhookEndpoint(
            verify=lambda request, now: verify(request, token),
            parse=lambda request, now: parse(request, now=now, region=region),
            response=TWIML,
            methods=METHODS,
        )

    return {"twilio": endpoint(parse), "twilio/voice": endpoint(parse_call)}


@asynccontextmanager
async def connect(settings: TwilioSettings, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
    if not settings.twilio_account_sid or settings.twilio_auth_token is None:
        yield ProviderConnection(endpoints(settings, context))
        return
    async with open_http() as http:
        sender = TwilioSender(
            http,
            account_sid=settings.twilio_account_sid,
            auth_token=settings.twilio_auth_token,
            clock=context.clock,
            status_callback=context.public_url and public_url(context.public_url, f"{WEBHOOKS_PATH}/twilio"),
            region=context.phone_region,
        )
        yield ProviderConnection(endpoints(settings, context), [SenderBinding(Channel.SMS, sender)])


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


def parse_call(request: WebhookRequest, *, now: datetime, region: str | None = None) -> tuple[ChannelEvent, ...]:
    """A call, or Ignored. ``region``: see :func:`afterturn.ids.normalise`."""
    form = fields(request)
    if not form.get("CallSid"):
        return (Ignored("message" if "MessageSid" in form or "SmsSid" in form else "unknown-kind"),)
    text = form.get("TranscriptionText", "")
    state = "completed" if text else (form.get("CallStatus") or form.get("DialCallStatus") or "").lower()
    if not state:
        return (Ignored("call-detail"),)
    key = clean_label(form.get("TranscriptionSid")) or "tape"
    ours, theirs = form.get("To", ""), form.get("From", "")
    if form.get("Direction", "").startswith("outbound"):
        ours, theirs = theirs, ours
    return (
        call_event(
            call_id=form["CallSid"],
            customer=theirs,
            account=ours,
            region=region,
            at=now,
            state=state,
            transcript=[TranscriptEntry("customer", text, key=key)] if text else [],
            started_at=from_mail_date(form.get("Timestamp"), now),
            extra=_call_facts(form),
            request=request,
        ),
    )


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


def _call_facts(form: Mapping[str, str]) -> dict[str, str]:
    """``CallDuration`` is in seconds; ``Duration`` is in billed minutes."""
    seconds = form.get("CallDuration", "")
    return clean_lines(
        seconds=seconds if seconds.isdecimal() else "",
        recording=form.get("RecordingUrl"),
        reason=clean_label(form.get("SipResponseCode")),
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
