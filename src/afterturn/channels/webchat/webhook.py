"""Web chat: what a customer writes on a page of yours, handed on by your server as signed JSON.

``{"conversationId": "visitor-31c8", "messageId": "m-1", "text": "Hello", "name": "Ada"}``; ``messageId`` makes a second
delivery change nothing. What is answered is read from the API, or comes to a consumer of yours.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import Field

from afterturn.channels.provider import ProviderContext, webhooks_only
from afterturn.channels.sanitize import clean_lines
from afterturn.channels.types import ChannelEvent, InboundMessage, Party, Thread, WebhookRequest
from afterturn.channels.webchat import WebChatSettings
from afterturn.channels.webhooks import SignatureVerifier, WebhookEndpoint
from afterturn.errors import InvalidInput
from afterturn.ids import digest, legal_id
from afterturn.model import Channel, Id, Record, Text
from afterturn.model import parse as parse_record
from afterturn.strict_json import read_json

ACCOUNT = "web"
"""Ours, in the directory, where the page says no other."""


class ChatMessage(Record):
    """What the page's server sends."""

    conversation_id: Id
    message_id: Id
    text: Annotated[Text, Field(min_length=1)]
    sender: Id | None = None
    account: Id = ACCOUNT
    name: Annotated[str, Field(max_length=200)] = ""


def endpoints(settings: WebChatSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.web_secret is None:
        return {}
    verifier = SignatureVerifier(settings.web_secret, "web")
    return {"web": WebhookEndpoint(verifier.verify, lambda request, now: parse(request, now=now))}


connect = webhooks_only(endpoints)


def parse(request: WebhookRequest, *, now: datetime) -> tuple[ChannelEvent, ...]:
    """The message. Raises InvalidInput that says what is wrong."""
    value = read_json(request.body, where="body")
    if not isinstance(value, dict):
        raise InvalidInput("body: is JSON, but not an object; give one message")
    message = parse_record(ChatMessage, value)
    conversation_id = legal_id("web:", message.conversation_id)
    sender = message.sender or message.conversation_id
    return (
        InboundMessage(
            channel=Channel.WEB,
            # A page counts its own messages: the first one of each visitor may be ``m-1``.
            provider_id=f"web-{digest(message.conversation_id, message.message_id)}",
            party=Party(message.account, sender),
            thread=Thread(conversation_id),
            at=now,
            text=message.text,
            participants=(sender,),
            extra=clean_lines(name=message.name or None),
        ),
    )
