"""Fetches mail from Outlook, by the reference in a change notification.

A message's id is its ``internetMessageId``, which stays the same when the message moves to another folder and its Graph
id changes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from email.message import Message as MailMessage
from urllib.parse import quote, unquote, urlencode

from afterturn import telemetry
from afterturn.channels.email.addresses import normalise_address
from afterturn.channels.email.message import MailReceipt, ReceivedMail, inbound_message, received_time
from afterturn.channels.email.reader import PARSE_ERRORS, html_to_text, message_ids, parse_date, raw_header
from afterturn.channels.email.suppression import OWN_HEADER, READ_HEADERS
from afterturn.channels.http_client import HttpResponse
from afterturn.channels.outlook.graph import GraphClient, internet_message_id
from afterturn.channels.sanitize import clean_line, clean_string, get_path, parse_iso
from afterturn.channels.sending import Reason, TryLater
from afterturn.channels.types import ChannelEvent, FetchRequest, Ignored, SuppressReason
from afterturn.ids import digest

MAX_MESSAGE_BYTES = 32 * 2**20
"""Of JSON, without attachments: several times the longest text that can be stored."""

MAX_HEADERS = 10_000
MAX_RESULTS_CHARS = 4_000
MAX_RECIPIENTS = 500
MAX_FILES = 500
MAX_HTML_CHARS = 4_000_000

SELECT = (
    "subject,body,uniqueBody,bodyPreview,from,sender,replyTo,toRecipients,ccRecipients,receivedDateTime,sentDateTime,"
    "internetMessageId,internetMessageHeaders,conversationId,isDraft,hasAttachments"
)
"""Fields to request: Graph omits ``uniqueBody`` and the headers by default."""
EXPAND = "attachments($select=id,name,contentType)"

_GONE = (404, 410)
_DMARC_FAILED = re.compile(r"(?<![\w.-])dmarc=fail\b")
_READ_HEADERS = {name.lower() for name in (*READ_HEADERS, "References", "In-Reply-To")}
_GUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?=@|\Z)")
_QUOTED = re.compile(r"messages\('([^']+)'\)", re.IGNORECASE)
_SAFE = "=()'@,-_.~"


Mailbox = Callable[[str], Awaitable[str | None]]
"""The mailbox of a subscription; None if it is not ours."""


class GraphFetcher:
    """Fetches mail that a notification names.

    ``accounts``: mailboxes by user id and by address; ``own_addresses``: our addresses, or domains such as
    ``@example.com``; ``mailbox_of``: if set, only mail of our mailboxes is fetched.
    """

    def __init__(
        self,
        graph: GraphClient,
        *,
        accounts: Mapping[str, str] | None = None,
        own_addresses: Collection[str] = frozenset(),
        mailbox_of: Mailbox | None = None,
    ) -> None:
        self._graph = graph
        self._accounts = {user.lower(): account for user, account in (accounts or {}).items()}
        self._own_addresses = own_addresses
        self._mailbox_of = mailbox_of

    async def fetch(self, request: FetchRequest) -> ChannelEvent:
        resource = request.reference.get("resource", "")
        steps = resource.split("/")
        if not resource or any(step in ("", ".", "..") for step in map(unquote, steps)):
            return Ignored("bad-reference")
        if self._mailbox_of is not None:
            mailbox = await self._mailbox_of(request.reference.get("subscription", ""))
            mailbox = mailbox or self._accounts.get(_user(steps).lower())
            if mailbox is None:
                telemetry.log("mailbox_refused", level=logging.WARNING, stage="graph")
                return Ignored("foreign-mailbox")
            # Read from our mailbox, whichever one the notification names.
            quoted = _QUOTED.fullmatch(steps[-1])
            steps = ["users", mailbox, "messages", quoted[1] if quoted else steps[-1]]
        query = urlencode(
            {
                "$select": request.reference.get("select", SELECT),
                "$expand": request.reference.get("expand", EXPAND),
            },
            quote_via=quote,
            safe="$(),=",
        )
        path = "/".join(quote(step, safe=_SAFE) for step in steps)
        response = await self._graph.call("GET", f"{path}?{query}", max_bytes=MAX_MESSAGE_BYTES)
        return self._parse(response, steps)

    def _parse(self, response: HttpResponse, steps: list[str]) -> ChannelEvent:
        if response.status in _GONE:
            return Ignored("message-gone")
        if response.status != 200:
            failure = self._graph.failure_of(response)
            if failure is None:
                return Ignored("fetch-refused")
            raise failure if isinstance(failure, TryLater) else TryLater("graph", Reason.UNAVAILABLE, failure.code)
        if response.truncated:
            return Ignored("message-too-large")
        message = response.json()
        if not message:
            raise TryLater("graph", Reason.UNAVAILABLE, "unreadable")
        accounts = (account,) if (account := self._account(steps)) else ()
        return parse_fetched(message, now=self._graph.clock(), accounts=accounts, own_addresses=self._own_addresses)

    def _account(self, steps: list[str]) -> str | None:
        """The mailbox of ``users/<id>/messages/<id>`` or ``users('<id>')/…``, where ``id`` may name the tenant too."""
        user = _user(steps)
        return self._accounts.get(user.lower(), user if "@" in user else None)


def _user(steps: list[str]) -> str:
    kind, _, quoted = steps[0].partition("(")
    user = quoted.rstrip(")").strip("'") if quoted else (steps[1] if len(steps) > 1 else "")
    if kind.lower() != "users":
        return ""
    guid = _GUID.match(user)
    return guid[0] if guid else user


def parse_fetched(
    message: object, *, now: datetime, accounts: tuple[str, ...] = (), own_addresses: Collection[str] = frozenset()
) -> ChannelEvent:
    """The message that :func:`parse` requested, as the JSON that Graph answered. Raises MissingExtra and nothing else.

    ``accounts``: the mailbox that was read; ``own_addresses``: addresses of ours, or domains as ``@example.com``.
    """
    if not isinstance(message, dict) or not message.get("id"):
        return Ignored("message-gone" if get_path(message, "error") else "not-a-message")
    if message.get("isDraft") is True:
        return Ignored("draft")
    ours = tuple(account.lower() for account in accounts)
    mail = _parse_message(message)
    receipt = MailReceipt(
        at=received_time(message.get("receivedDateTime"), now),
        accounts=ours,
        own_addresses=frozenset(own_addresses),
        # With neither a name nor content there is only the id that it has in this folder.
        mail_id=None if mail.sender or mail.text else f"graph-{clean_line(message['id'])}",
        extra={"dmarc": "FAIL"} if _is_disowned(message.get("internetMessageHeaders")) else {},
    )
    event = inbound_message(mail, receipt)
    if event.suppress is SuppressReason.OWN and "direction" in event.extra and mail.headers.get(OWN_HEADER.lower()):
        return Ignored("own-message")
    return event


def _parse_message(message: dict[str, object]) -> ReceivedMail:
    carried = _headers(message.get("internetMessageHeaders"))
    sent = clean_string(message.get("sentDateTime"))
    sender = _address(message.get("from")) or _address(message.get("sender"))
    subject = clean_string(message.get("subject"))
    text = _body(message.get("body")) or clean_string(message.get("bodyPreview"))
    message_id = internet_message_id(message)
    fingerprint = digest(sender, subject, sent, text)
    group = clean_line(message.get("conversationId"))
    new = _body(message.get("uniqueBody"))
    return ReceivedMail(
        message_id=message_id,
        sender=sender,
        recipients=(*_addresses(message.get("toRecipients")), *_addresses(message.get("ccRecipients"))),
        subject=subject,
        text=text,
        fingerprint=fingerprint,
        sent_at=parse_date(raw_header(carried, "Date")) or parse_iso(sent),
        reply_to="".join(_addresses(message.get("replyTo"))[:1]),
        references=(*message_ids(carried, "References"), *message_ids(carried, "In-Reply-To")),
        attachments=_attachments(message, message_id or f"sha256-{fingerprint}"),
        headers={name: raw_header(carried, name) for name in _READ_HEADERS},
        new_text=new or None,
        group=f"graph-{group}" if group else None,
    )


def _headers(listed: object) -> MailMessage:
    """The headers as a mail has them, so that they are parsed alike."""
    mail = MailMessage()
    for item in listed[:MAX_HEADERS] if isinstance(listed, list) else []:
        name, value = clean_string(get_path(item, "name")), clean_string(get_path(item, "value"))
        if name.lower() in _READ_HEADERS or name.lower() == "date":
            mail[name] = value
    return mail


def _is_disowned(listed: object) -> bool:
    """Whether the sender's domain disowns a mail, according to Exchange.

    Exchange's header is the first one; those below may be the sender's.
    """
    for item in listed[:MAX_HEADERS] if isinstance(listed, list) else []:
        if clean_string(get_path(item, "name")).lower() == "authentication-results":
            results = clean_string(get_path(item, "value"))[:MAX_RESULTS_CHARS].lower()
            return bool(_DMARC_FAILED.search(results)) and "compauth=pass" not in results
    return False


def _body(body: object) -> str:
    text = clean_string(get_path(body, "content"))
    if str(get_path(body, "contentType")).lower() != "html":
        return text.replace("\r\n", "\n").replace("\r", "\n").strip()
    try:
        return html_to_text(text[:MAX_HTML_CHARS])
    except PARSE_ERRORS:
        return text


def _address(party: object) -> str:
    return normalise_address(clean_line(get_path(party, "emailAddress", "address")))


def _addresses(parties: object) -> list[str]:
    listed = parties[:MAX_RECIPIENTS] if isinstance(parties, list) else []
    return [address for address in map(_address, listed) if address]


def _attachments(message: dict[str, object], message_id: str) -> list[dict[str, str]]:
    url = f"mid:{quote(message_id, safe='@')}"[:4000]
    listed = message.get("attachments")
    if isinstance(listed, list) and listed:
        return [
            {
                "url": f"{url}/{number}"[:4000],
                "mediaType": clean_string(get_path(item, "contentType")),
                "name": clean_string(get_path(item, "name")),
            }
            for number, item in enumerate(listed[:MAX_FILES], 1)
        ]
    return [{"url": url, "name": "attachments"}] if message.get("hasAttachments") is True else []
