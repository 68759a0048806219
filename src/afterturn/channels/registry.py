"""The doors of the channels that are set up: a channel is, when its secret is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from pydantic import SecretStr

from afterturn.channels.outlook import webhook as outlook
from afterturn.channels.responses import WebhookResponse
from afterturn.channels.ses import sns
from afterturn.channels.ses import webhook as ses
from afterturn.channels.signed import SignatureVerifier
from afterturn.channels.telegram import webhook as telegram
from afterturn.channels.twilio import voice as twilio_voice
from afterturn.channels.twilio import webhook as twilio
from afterturn.channels.types import ChannelEvent, WebhookRequest
from afterturn.channels.voice import livekit, retell, vapi
from afterturn.channels.webchat import webhook as webchat
from afterturn.channels.webhooks import TWIML, Read, Verify, WebhookEndpoint

HOOKS = "/hooks"
MAX_MAIL_BYTES = 300_000
"""SNS sends no more in one call; larger mail lies in S3."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What each provider proves itself with; a channel without one is closed.

    ``own``: our mail addresses, or domains as ``@example.com``. ``region``: whose national phone numbers are completed.
    """

    twilio_auth_token: str | None = field(default=None, repr=False)
    telegram_secret: str | None = field(default=None, repr=False)
    telegram_bot: str = ""
    sns_topics: Collection[str] = ()
    graph_client_states: Collection[str] = field(default=(), repr=False)
    vapi_secret: str | None = field(default=None, repr=False)
    retell_api_key: str | None = field(default=None, repr=False)
    livekit_api_key: str | None = None
    livekit_api_secret: str | None = field(default=None, repr=False)
    web_secret: SecretStr | None = None
    own: Collection[str] = ()
    region: str | None = None


def doors_of(secrets: Secrets, certificates: sns.SigningCertificates) -> dict[str, WebhookEndpoint]:
    """By path, such as ``/hooks/twilio``."""
    region = secrets.region
    found: dict[str, WebhookEndpoint] = {}
    if token := secrets.twilio_auth_token:
        methods = frozenset({"GET", "POST"})
        check = _plain(lambda request, now: twilio.verify(request, token))
        found["twilio"] = WebhookEndpoint(check, _at(partial(twilio.parse, region=region)), TWIML, methods=methods)
        found["twilio/voice"] = WebhookEndpoint(
            check, _at(partial(twilio_voice.parse, region=region)), TWIML, methods=methods
        )
    if secret := secrets.telegram_secret:
        read = partial(telegram.parse, bot=secrets.telegram_bot)
        found["telegram"] = WebhookEndpoint(_plain(lambda request, now: telegram.verify(request, secret)), _at(read))
    if topics := frozenset(secrets.sns_topics):

        async def from_sns(request: WebhookRequest, now: datetime) -> None:
            await sns.verify(request, topics=topics, certificates=certificates, now=now)

        found["ses"] = WebhookEndpoint(
            from_sns, _at(partial(ses.parse, own=frozenset(secrets.own))), max_body=MAX_MAIL_BYTES
        )
    if states := frozenset(secrets.graph_client_states):
        found["graph"] = WebhookEndpoint(
            _plain(lambda request, now: outlook.verify(request, client_states=states)),
            lambda request, now: outlook.parse(request, client_states=states),
            WebhookResponse(202),
        )
    if vapi_secret := secrets.vapi_secret:
        check = _plain(lambda request, now: vapi.verify(request, vapi_secret))
        found["vapi"] = WebhookEndpoint(check, _at(partial(vapi.parse, region=region)))
    if retell_key := secrets.retell_api_key:
        check = _plain(lambda request, now: retell.verify(request, retell_key, now=now))
        found["retell"] = WebhookEndpoint(check, _at(partial(retell.parse, region=region)))
    if (key := secrets.livekit_api_key) and (livekit_secret := secrets.livekit_api_secret):
        check = _plain(lambda request, now: livekit.verify(request, key, livekit_secret, now=now))
        found["livekit"] = WebhookEndpoint(check, _at(partial(livekit.parse, region=region)))
    if secrets.web_secret is not None:
        found["web"] = WebhookEndpoint(_plain(SignatureVerifier(secrets.web_secret, "web").verify), _at(webchat.parse))
    return {f"{HOOKS}/{name}": door for name, door in found.items()}


def _plain(check: Callable[[WebhookRequest, datetime], None]) -> Verify:
    async def verify(request: WebhookRequest, now: datetime) -> None:
        check(request, now)

    return verify


def _at(read: Callable[..., Sequence[ChannelEvent]]) -> Read:
    return lambda request, now: read(request, now=now)
