"""A responder in another process, in any language, called by a signed POST.

The body is ``{"conversationId", "propertyId", "channel", "messages": [{"id", "direction", "role", "text", "at"}]}``.
The agent returns 200 with ``{"text": "…"}``; or 204, ``{"text": null}`` or ``{}`` for no reply. After any other
response it is called again, with growing pauses.
"""

from __future__ import annotations

import json

from pydantic import SecretStr

from afterturn.channels.http_client import HttpClient, HttpTimeouts, RequestNotSent, ResponseLost
from afterturn.channels.responder import ReplyRequest
from afterturn.clock import Clock, to_text
from afterturn.errors import DeliveryFailed, InvalidInput
from afterturn.ids import digest
from afterturn.signing import signed_headers, signer
from afterturn.strict_json import read_json

TIMEOUTS = HttpTimeouts(connect=5.0, read=60.0, total=60.0)
"""A language model may need a minute."""

MAX_REPLY_BYTES = 1_000_000


class AgentWebhook:
    """A responder. ``http``: opened with :data:`TIMEOUTS`. Raises ConfigError for an invalid secret."""

    def __init__(self, http: HttpClient, url: str, secret: SecretStr, clock: Clock) -> None:
        self._webhook = signer(secret, "agent")
        self._http = http
        self._url = url
        self._clock = clock

    async def __call__(self, request: ReplyRequest) -> str | None:
        """Raises DeliveryFailed if there is no reply now; the error holds no content."""
        body = _body(request)
        webhook_id = digest(request.conversation.id, request.messages[-1].id if request.messages else "")
        headers = signed_headers(self._webhook, webhook_id, self._clock(), body)
        try:
            response = await self._http.call(
                "POST", self._url, headers=headers, body=body.encode(), max_bytes=MAX_REPLY_BYTES
            )
        except (RequestNotSent, ResponseLost) as error:
            raise DeliveryFailed(f"agent: no response ({type(error).__name__}: {error})") from None
        if response.status == 204:
            return None
        if response.status != 200 or response.truncated:
            raise DeliveryFailed(f"agent: the response has status {response.status}")
        return _text(response.body)


def _body(request: ReplyRequest) -> str:
    conversation = request.conversation
    messages = [
        {
            "id": message.id,
            "direction": message.direction.value,
            "role": message.role.value,
            "text": message.text,
            "at": to_text(message.at),
        }
        for message in request.messages
    ]
    payload = {
        "conversationId": conversation.id,
        "propertyId": conversation.property_id,
        "channel": conversation.channel.value,
        "messages": messages,
    }
    return json.dumps(payload, separators=(",", ":"))


def _text(body: bytes) -> str | None:
    try:
        value = read_json(body, where="response")
    except InvalidInput as error:
        raise DeliveryFailed(f"agent: {error}") from None
    text = value.get("text", 0 if value else None) if isinstance(value, dict) else 0
    if text is not None and not isinstance(text, str):
        raise DeliveryFailed('agent: the response is not {"text": "…"}')
    return text
