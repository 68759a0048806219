"""Mail through Outlook, by Microsoft Graph: https://learn.microsoft.com/graph/outlook-send-mime-message.

The mail becomes a draft and the draft is sent. So its ``Message-ID`` is known, by which a later answer names it, and
only the second request can leave us uncertain: a draft that nobody knows of has been sent to nobody. It takes the
permissions ``Mail.ReadWrite`` and ``Mail.Send``. The mail is written here, as Graph lets no other say what it answers.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping
from urllib.parse import quote

from afterturn.channels.email.compose import compose, mail_addresses, one_part
from afterturn.channels.http_client import HttpResponse, failure_of, send_once, send_repeatable
from afterturn.channels.outlook.graph import AuthorizedCall, GraphClient
from afterturn.channels.sanitize import clean_label
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
)
from afterturn.ids import legal_id

MAX_RAW_BYTES = 2 * 2**20
"""Graph takes 4 MB a request, and base64 makes a third more of it."""

ERRORS = ProviderErrors(
    permanent={
        **dict.fromkeys(("ErrorInvalidRecipients", "ErrorInvalidSmtpAddress"), Reason.BAD_ADDRESS),
        **dict.fromkeys(("ErrorMessageSizeExceeded", "RequestEntityTooLarge"), Reason.TOO_LONG),
    },
    temporary={
        **dict.fromkeys(
            (
                *("ErrorAccessDenied", "AccessDenied", "Authorization_RequestDenied", "ErrorSendAsDenied"),
                *("ErrorInvalidUser", "MailboxNotEnabledForRESTAPI", "MailboxNotSupportedForRESTAPI"),
                *("Request_ResourceNotFound", "ErrorMessageSubmissionBlocked", "ErrorQuotaExceeded"),
                *("InvalidAuthenticationToken", "ErrorNonExistentMailbox", "ResourceNotFound"),
            ),
            Reason.CONFIGURATION,
        ),
        **dict.fromkeys(
            ("ApplicationThrottled", "ErrorExceededMessageLimit", "ErrorTooManyRequests"), Reason.THROTTLED
        ),
        **dict.fromkeys(("ErrorMailboxStoreUnavailable", "ErrorServerBusy", "ErrorTimeoutExpired"), Reason.UNAVAILABLE),
    },
)


class GraphSender:
    """The mailbox of :attr:`Outgoing.account` sends."""

    def __init__(self, access: GraphClient) -> None:
        self._access = access

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        mail_addresses((message.account,), "graph")
        return one_part(message, "graph")

    async def send(self, part: OutboundMessage) -> SendReceipt:
        now = self._access.clock()
        raw = compose(part, "graph", sender=part.account, region="", now=now)
        if len(raw) > MAX_RAW_BYTES:
            raise Undeliverable("graph", Reason.TOO_LONG)
        mailbox = f"{self._access.url}users/{quote(part.account.strip(), safe='@')}/messages"
        draft, message_id = await self._draft(mailbox, raw)
        url = f"{mailbox}/{quote(draft, safe='')}"
        try:
            answer = await self._access.call(self._sending(f"{url}/send"))
            if answer.status != 202:
                raise self._failed(answer)
        except (Undeliverable, TryLater):
            await self._thrown_away(url)
            raise
        provider_id = legal_id("", message_id)
        return SendReceipt(provider_id, self._access.clock(), (provider_id,))

    async def _draft(self, mailbox: str, raw: bytes) -> tuple[str, str]:
        """The draft's id and its Message-ID. Raises Undeliverable or TryLater: nobody has got anything yet."""
        body = base64.b64encode(raw)

        async def call(who: Mapping[str, str]) -> HttpResponse:
            # The id must outlive the draft's move to the sent mails.
            headers = {**who, "content-type": "text/plain", "prefer": 'IdType="ImmutableId"'}
            return await send_repeatable(self._access.http, "graph", "POST", mailbox, headers, body)

        answer = await self._access.call(call)
        if answer.status != 201:
            failed = self._failed(answer)
            if isinstance(failed, Uncertain):
                raise TryLater("graph", Reason.UNAVAILABLE, failed.code)
            raise failed
        response_body = answer.json()
        draft, message_id = response_body.get("id"), response_body.get("internetMessageId")
        name = message_id.strip().removeprefix("<").removesuffix(">") if isinstance(message_id, str) else ""
        if not isinstance(draft, str) or not draft or not name:
            raise TryLater("graph", Reason.UNAVAILABLE, "unreadable")
        return draft, name

    def _sending(self, url: str) -> AuthorizedCall:
        async def call(who: Mapping[str, str]) -> HttpResponse:
            headers = {**who, "prefer": 'IdType="ImmutableId"'}
            return await send_once(self._access.http, "graph", "POST", url, headers, b"")

        return call

    async def _thrown_away(self, url: str) -> None:
        """Each try makes a draft of its own; one that stays behind does no harm."""

        async def call(who: Mapping[str, str]) -> HttpResponse:
            headers = {**who, "prefer": 'IdType="ImmutableId"'}
            return await send_repeatable(self._access.http, "graph", "DELETE", url, headers)

        with contextlib.suppress(SendFailed):
            await self._access.call(call)

    def _failed(self, answer: HttpResponse) -> SendFailed:
        return graph_failure(answer, self._access) or Undeliverable("graph", Reason.REFUSED, _code(answer))


def graph_failure(answer: HttpResponse, access: GraphClient) -> SendFailed | None:
    """What Graph means by an answer that is no success; None for a refusal that nothing is known of."""
    code = _code(answer)
    if failure := failure_of("graph", answer, access.clock()) or ERRORS.error_of("graph", code):
        return failure
    if answer.status in (403, 404):
        return TryLater("graph", Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
    if answer.status == 413:
        return Undeliverable("graph", Reason.TOO_LONG, code)
    return Uncertain("graph", Reason.ANSWER_UNREADABLE, code) if answer.status < 300 else None


def _code(answer: HttpResponse) -> str:
    error = answer.json().get("error")
    return clean_label(error.get("code") if isinstance(error, dict) else None) or str(answer.status)
