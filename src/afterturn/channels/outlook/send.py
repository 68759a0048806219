"""Mail through Outlook, by Microsoft Graph: https://learn.microsoft.com/graph/outlook-send-mime-message.

A draft is created, then sent. So its ``Message-ID``, by which replies refer to it, is known, and only the second
request can have an uncertain outcome. Needs the permissions ``Mail.ReadWrite`` and ``Mail.Send``. The mail is composed
here, because Graph sets ``In-Reply-To`` in no other way.
"""

from __future__ import annotations

import base64
import contextlib
from urllib.parse import quote

from afterturn.channels.email.compose import compose, mail_addresses, single_part
from afterturn.channels.http_client import HttpResponse
from afterturn.channels.outlook.graph import GraphClient, error_code, internet_message_id
from afterturn.channels.sending import (
    OutboundMessage,
    Reason,
    SendFailed,
    SendReceipt,
    TryLater,
    Undeliverable,
)
from afterturn.ids import legal_id

MAX_RAW_BYTES = 2 * 2**20
"""Graph accepts 4 MB in a request, and base64 adds a third."""


class GraphSender:
    """The mailbox of :attr:`OutboundMessage.account` sends."""

    def __init__(self, graph: GraphClient) -> None:
        self._graph = graph

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        mail_addresses((message.account,), "graph")
        return single_part(message, "graph")

    async def send(self, part: OutboundMessage) -> SendReceipt:
        now = self._graph.clock()
        raw = compose(part, "graph", sender=part.account, region="", now=now)
        if len(raw) > MAX_RAW_BYTES:
            raise Undeliverable("graph", Reason.TOO_LONG)
        messages = f"users/{quote(part.account.strip(), safe='@')}/messages"
        draft, message_id = await self._create_draft(messages, raw)
        path = f"{messages}/{quote(draft, safe='')}"
        try:
            response = await self._graph.call("POST", f"{path}/send", repeatable=False)
            if response.status != 202:
                raise self._failure(response, repeatable=False)
        except (Undeliverable, TryLater):
            with contextlib.suppress(SendFailed):  # each attempt makes a draft of its own; one that stays does no harm
                await self._graph.call("DELETE", path)
            raise
        provider_id = legal_id("", message_id)
        return SendReceipt(provider_id, self._graph.clock(), (provider_id,))

    async def _create_draft(self, messages: str, raw: bytes) -> tuple[str, str]:
        """The draft's id and its Message-ID. Raises Undeliverable or TryLater: nothing was sent yet."""
        response = await self._graph.call("POST", messages, body=base64.b64encode(raw), content_type="text/plain")
        if response.status != 201:
            raise self._failure(response, repeatable=True)
        body = response.json()
        draft, message_id = body.get("id"), internet_message_id(body)
        if not isinstance(draft, str) or not draft or not message_id:
            raise TryLater("graph", Reason.UNAVAILABLE, "unreadable")
        return draft, message_id

    def _failure(self, response: HttpResponse, *, repeatable: bool) -> SendFailed:
        failure = self._graph.failure_of(response, repeatable=repeatable)
        return failure or Undeliverable("graph", Reason.REFUSED, error_code(response))
