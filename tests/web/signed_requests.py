"""A rig whose every channel is set up, and how each of them signs what it sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import parse_qsl

from pydantic import SecretStr
from tests.unit.channels.endpoints import SECRETS, endpoints_of
from tests.unit.channels.provider_calls import twilio_signature
from tests.unit.channels.sns_rig import signed as sns_signed
from tests.unit.channels.test_turns import SECRET
from tests.unit.channels.test_turns import signed as standard
from tests.unit.channels.voice.test_signatures import retell_signed, token
from tests.web.rig import BASE, Rig

from afterturn.channels.ingest import Ingest
from afterturn.channels.turns import TURNS_PATH, TurnEndpoint
from afterturn.channels.webhooks import WEBHOOKS_PATH, WebhookRouter
from afterturn.clock import to_text
from afterturn.web.webhooks import mount_webhooks


def hooks(rig: Rig) -> frozenset[str]:
    """Mount every webhook; returns their paths."""
    ingest = Ingest(rig.backbone, rig.backbone.store, rig.clock)
    router = WebhookRouter(ingest, rig.clock, endpoints_of(SECRETS))
    turns = TurnEndpoint(rig.backbone.settle, SecretStr(SECRET), rig.clock)
    mount_webhooks(rig.app, rig.clock, router, turns=turns, chat=True)
    return frozenset({TURNS_PATH, *router.endpoints})


def _twilio(path: str) -> Callable[[bytes, datetime], Mapping[str, str]]:
    def sign(body: bytes, now: datetime) -> Mapping[str, str]:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
        return {
            "x-twilio-signature": twilio_signature(path, pairs, public=BASE),
            "content-type": "application/x-www-form-urlencoded",
        }

    return sign


SIGNED: Mapping[str, Callable[[bytes, datetime], Mapping[str, str]]] = {
    TURNS_PATH: lambda body, now: standard(body, at=now).headers,
    f"{WEBHOOKS_PATH}/web": lambda body, now: standard(body, at=now).headers,
    f"{WEBHOOKS_PATH}/telegram": lambda body, now: {"x-telegram-bot-api-secret-token": "hush"},
    f"{WEBHOOKS_PATH}/twilio": _twilio(f"{WEBHOOKS_PATH}/twilio"),
    f"{WEBHOOKS_PATH}/twilio/voice": _twilio(f"{WEBHOOKS_PATH}/twilio/voice"),
    f"{WEBHOOKS_PATH}/vapi": lambda body, now: {"x-vapi-secret": "hush"},
    f"{WEBHOOKS_PATH}/retell": lambda body, now: retell_signed(body, now).headers,
    f"{WEBHOOKS_PATH}/livekit": lambda body, now: {
        "authorization": token(body, nbf=int(now.timestamp()), exp=int(now.timestamp()) + 60)
    },
    f"{WEBHOOKS_PATH}/ses": lambda body, now: {},
    f"{WEBHOOKS_PATH}/graph": lambda body, now: {},
}
"""The headers by which each path believes a body. Those of Amazon and Microsoft sign within the body."""


def good_bodies(now: datetime) -> Mapping[str, bytes]:
    """What each path stores something of, or takes note of."""
    at = to_text(now)
    said = {
        "message_id": 1,
        "date": int(now.timestamp()),
        "chat": {"id": 7, "type": "private"},
        "from": {"id": 7, "is_bot": False, "first_name": "Ada"},
        "text": "Hello",
    }
    turn = {
        "conversation": {"id": "c-turn", "channel": "web"},
        "messages": [{"id": "m-1", "direction": "inbound", "role": "customer", "text": "Hello", "at": at}],
    }
    told = {
        TURNS_PATH: turn,
        f"{WEBHOOKS_PATH}/web": {"conversationId": "visitor-1", "messageId": "m-1", "text": "Hello"},
        f"{WEBHOOKS_PATH}/telegram": {"update_id": 1, "message": said},
        f"{WEBHOOKS_PATH}/vapi": {"message": {"type": "status-update", "status": "ended", "call": {"id": "call-1"}}},
        f"{WEBHOOKS_PATH}/retell": {"event": "call_started", "call": {"call_id": "call-1"}},
        f"{WEBHOOKS_PATH}/livekit": {"event": "room_started", "id": "EV_1", "room": {"sid": "RM_1"}},
        f"{WEBHOOKS_PATH}/ses": sns_signed(Timestamp=at),
        f"{WEBHOOKS_PATH}/graph": {
            "value": [{"clientState": "hush", "subscriptionId": "s-1", "lifecycleEvent": "missed"}]
        },
    }
    form = b"MessageSid=SM1&AccountSid=AC1&From=%2B15158226442&To=%2B15550100&Body=Hello&NumMedia=0"
    call = b"CallSid=CA1&AccountSid=AC1&From=%2B15158226442&To=%2B15550100&CallStatus=completed&Timestamp=x"
    return {name: json.dumps(value).encode() for name, value in told.items()} | {
        f"{WEBHOOKS_PATH}/twilio": form,
        f"{WEBHOOKS_PATH}/twilio/voice": call,
    }
