"""What providers send, signed as they sign it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.unit.channels.channels import NOW, sample
from tests.unit.channels.sns_rig import signed as sns_signed
from tests.unit.channels.test_turns import signed as webhook_signed
from tests.unit.channels.voice.test_signatures import retell_signed, token

from afterturn.clock import to_text

PUBLIC = "https://h"
BEHIND = "http://10.0.0.7:8080"
"""What providers call, and what the application sees behind its proxy."""

OURS, THEIRS = "+15555550100", "+15158226442"
DESK, ELM = "desk@homes.example", "elm@homes.example"
BOT = "110201543"
CHAT = 279058397
AUTH_TOKEN = "12345"
LOGIN = {"authorization": "Bearer aft_desk"}


@dataclass(frozen=True)
class Call:
    """One request of a provider. ``target``: path and query, as it called it."""

    target: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"


def twilio_call(fields: Sequence[tuple[str, str]], *, path: str = "/hooks/twilio", query: str = "") -> Call:
    """A form as Twilio posts and signs it, blanks included."""
    target = path + (f"?{query}" if query else "")
    return Call(target, urlencode(fields).encode(), {**_FORM, "x-twilio-signature": twilio_signature(target, fields)})


_FORM = {"content-type": "application/x-www-form-urlencoded"}


def twilio_signature(target: str, fields: Sequence[tuple[str, str]], *, public: str = PUBLIC) -> str:
    """https://www.twilio.com/docs/usage/security, over what Twilio called."""
    text = public + target + "".join(name + value for name, value in sorted(set(fields)))
    return base64.b64encode(hmac.new(AUTH_TOKEN.encode(), text.encode(), hashlib.sha1).digest()).decode()


def sms(number: int, text: str = "Hello", *, sender: str = THEIRS, to: str = OURS, **more: str) -> Call:
    given = {"MessageSid": f"SM{number:032x}", "SmsStatus": "received", "From": sender, "To": to, "Body": text}
    return twilio_call([*(given | more).items()])


def status(number: int, state: str) -> Call:
    """How a message of ours fares."""
    return twilio_call([("MessageSid", f"SM{number:032x}"), ("MessageStatus", state), ("To", THEIRS), ("From", OURS)])


def twilio_voice(state: str, **more: str) -> Call:
    given = {"CallSid": f"CA{1:032x}", "CallStatus": state, "From": THEIRS, "To": OURS, "Direction": "inbound"}
    return twilio_call([*(given | more).items()], path="/hooks/twilio/voice")


def telegram_call(update: object) -> Call:
    headers = {"x-telegram-bot-api-secret-token": "hush", "content-type": "application/json"}
    return Call("/hooks/telegram", json.dumps(update).encode(), headers)


def said(
    update: int, number: int, text: str, *, chat: int = CHAT, kind: str = "message", at: datetime = NOW, **more: Any
) -> Call:
    """A message of a chat, or with another ``kind`` its edit."""
    message = {
        "message_id": number,
        "date": int(NOW.timestamp()) - 10,
        "chat": {"id": chat, "type": "private" if chat > 0 else "group"},
        "from": {"id": CHAT, "is_bot": False, "first_name": "Ada"},
        **({"edit_date": int(at.timestamp())} if kind.startswith("edited") else {}),
        **({"text": text} if text else {}),
        **more,
    }
    return telegram_call({"update_id": update, kind: message})


def mail_call(
    raw: bytes,
    number: int = 1,
    *,
    at: datetime = NOW,
    to: Sequence[str] = (DESK,),
    encoding: str = "BASE64",
    signed_at: datetime | None = None,
    **verdicts: str,
) -> Call:
    """A mail as SES hands it to SNS and SNS to us. ``number``: SES's own name of it."""
    receipt = {
        "timestamp": to_text(at),
        "recipients": list(to),
        "action": {"type": "SNS", "encoding": encoding},
        **{f"{name}Verdict": {"status": value} for name, value in verdicts.items()},
    }
    content = base64.b64encode(raw).decode() if encoding == "BASE64" else raw.decode()
    mail = {"messageId": f"ses{number:030x}", "timestamp": to_text(at), "source": "bounces@tenants.example"}
    return sns_call(
        {"notificationType": "Received", "mail": mail, "receipt": receipt, "content": content}, signed_at or at
    )


def sns_call(message: object, at: datetime = NOW) -> Call:
    body = sns_signed(Message=json.dumps(message), Timestamp=to_text(at))
    return Call("/hooks/ses", json.dumps(body).encode(), {"content-type": "text/plain; charset=UTF-8"})


def mime(
    body: bytes | str = "The boiler is cold.", *, name: str | None = "m1@tenants.example", **headers: str | bytes | None
) -> bytes:
    """A mail; headers by their names with ``_`` for ``-``; None leaves one out."""
    given: dict[str, str | bytes | None] = {
        "From": "Jo <jo@tenants.example>",
        "To": DESK,
        "Subject": "Boiler",
        "Message-ID": None if name is None else f"<{name}>",
        **{key.replace("_", "-"): value for key, value in headers.items()},
    }
    lines = [
        key.encode() + b": " + (value if isinstance(value, bytes) else value.encode())
        for key, value in given.items()
        if value is not None
    ]
    return b"\r\n".join([*lines, b"", body if isinstance(body, bytes) else body.encode()])


def graph_call(*resources: str, state: str = "secretClientValue") -> Call:
    value = [
        {
            "subscriptionId": "sub-1",
            "clientState": state,
            "changeType": "created",
            "resource": resource,
            "tenantId": "t-1",
            "resourceData": {"@odata.type": "#Microsoft.Graph.Message"},
        }
        for resource in resources
    ]
    return Call("/hooks/graph", json.dumps({"value": value}).encode(), {"content-type": "application/json"})


def vapi_call(message: object) -> Call:
    headers = {"x-vapi-secret": "hush", "content-type": "application/json"}
    return Call("/hooks/vapi", json.dumps({"message": message}).encode(), headers)


def retell_call(value: object, at: datetime = NOW) -> Call:
    request = retell_signed(json.dumps(value).encode(), at)
    return Call("/hooks/retell", request.body, request.headers)


def livekit_call(body: bytes) -> Call:
    return Call("/hooks/livekit", body, {"authorization": token(body)})


def web_call(conversation: str, number: int, text: str, at: datetime = NOW) -> Call:
    value = {"conversationId": conversation, "messageId": f"m-{number}", "text": text}
    request = webhook_signed(json.dumps(value).encode(), at=at)
    return Call("/hooks/web", request.body, request.headers)


def turn_call(value: object, at: datetime = NOW) -> Call:
    request = webhook_signed(json.dumps(value).encode(), at=at)
    return Call("/turns", request.body, request.headers)


def sample_call(name: str, at: datetime = NOW) -> Call:
    """A file of the samples by its door, signed for this application."""
    folder, file = name.split("/")
    body = sample(name)
    if name.endswith(".form.txt"):
        path = "/hooks/twilio" if folder == "twilio" else "/hooks/twilio/voice"
        fields = parse_qsl(body.decode(), keep_blank_values=True)
        return Call(path, body, {**_FORM, "x-twilio-signature": twilio_signature(path, fields)})
    if folder == "email-raw":
        return mail_call(body, sum(body), at=at)
    if folder == "telegram":
        return telegram_call(json.loads(body))
    if folder == "ses-sns":
        value = json.loads(body)
        if "Type" not in value:
            return sns_call(value)
        kept = ("Type", "Message", "Subject", "SubscribeURL", "Token")
        envelope = sns_signed(**{key: value[key] for key in kept if key in value})
        return Call("/hooks/ses", json.dumps(envelope).encode(), {"content-type": "text/plain; charset=UTF-8"})
    if folder == "graph":
        if file.endswith(".http"):
            target = urlsplit(body.decode().split(" ")[1])
            return Call(f"/hooks/graph?{target.query}", b"")
        return Call("/hooks/graph", body, {"content-type": "application/json"})
    if file.startswith("vapi"):
        return Call("/hooks/vapi", body, {"x-vapi-secret": "hush"})
    if file.startswith("retell"):
        request = retell_signed(body, NOW)
        return Call("/hooks/retell", request.body, request.headers)
    return livekit_call(body)
