"""An agent in another process, in any language: asked by a signed POST, answering with a text.

It gets ``{"conversationId", "propertyId", "channel", "messages": [{"id", "direction", "role", "text", "at"}]}`` and
answers 200 with ``{"text": "…"}``; or 204, ``{"text": null}`` or ``{}`` where nothing is to be said. Anything else is
asked again, later and later.
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
"""A model takes its time."""

MAX_ANSWER_BYTES = 1_000_000


class AgentWebhook:
    """A responder. ``http``: opened with :data:`LIMITS`. Raises ConfigError for a secret that is none."""

    def __init__(self, http: HttpClient, url: str, secret: SecretStr, clock: Clock) -> None:
        self._webhook = signer(secret, "agent")
        self._http = http
        self._url = url
        self._clock = clock

    async def __call__(self, request: ReplyRequest) -> str | None:
        """Raises DeliveryFailed where no answer can be had now; it holds nothing of what was said."""
        body = _body(request)
        webhook_id = digest(request.conversation.id, request.messages[-1].id if request.messages else "")
        headers = signed_headers(self._webhook, webhook_id, self._clock(), body)
        try:
            answer = await self._http.call(
                "POST", self._url, headers=headers, body=body.encode(), max_bytes=MAX_ANSWER_BYTES
            )
        except (RequestNotSent, ResponseLost) as error:
            raise DeliveryFailed(f"agent: no answer ({type(error).__name__}: {error})") from None
        if answer.status == 204:
            return None
        if answer.status != 200 or answer.truncated:
            raise DeliveryFailed(f"agent: it answered {answer.status}")
        return _text(answer.body)


def _body(asked: ReplyRequest) -> str:
    conversation = asked.conversation
    messages = [
        {
            "id": one.id,
            "direction": one.direction.value,
            "role": one.role.value,
            "text": one.text,
            "at": to_text(one.at),
        }
        for one in asked.messages
    ]
    told = {
        "conversationId": conversation.id,
        "propertyId": conversation.property_id,
        "channel": conversation.channel.value,
        "messages": messages,
    }
    return json.dumps(told, separators=(",", ":"))


def _text(body: bytes) -> str | None:
    try:
        value = read_json(body, where="answer")
    except InvalidInput as error:
        raise DeliveryFailed(f"agent: its {error}") from None
    text = value.get("text", 0 if value else None) if isinstance(value, dict) else 0
    if text is not None and not isinstance(text, str):
        raise DeliveryFailed('agent: its answer is not {"text": "…"}')
    return text
