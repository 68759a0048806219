"""Microsoft Graph change notifications for Outlook mail.

https://learn.microsoft.com/graph/change-notifications-overview. A notification only names a message: :func:`parse`
returns a FetchRequest and :func:`parse_fetched` parses the response. The message id is its ``internetMessageId``, which
stays the same when the message moves to another folder and its Graph id changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from email.message import Message as MailMessage
from urllib.parse import parse_qsl, quote, urlsplit

from afterturn.channels.email.addresses import normalise_address
from afterturn.channels.email.message import MailReceipt, ReceivedMail, inbound_message, received_time
from afterturn.channels.email.reader import PARSE_ERRORS, html_to_text, message_ids, parse_date, raw_header
from afterturn.channels.email.suppression import OWN_HEADER, READ_HEADERS
from afterturn.channels.sanitize import clean_line, clean_string, get_path, json_object, secrets_equal
from afterturn.channels.types import (
    ChannelEvent,
    FetchRequest,
    Ignored,
    ImmediateResponse,
    Rejected,
    SubscriptionEvent,
    SuppressReason,
    WebhookRequest,
)
from afterturn.clock import parse_time
from afterturn.ids import digest

MAX_BODY_BYTES = 2 * 2**20
MAX_TOKEN_CHARS = 4096
MAX_HEADERS = 10_000
MAX_RESULTS_CHARS = 4_000
MAX_RECIPIENTS = 500
MAX_FILES = 500
MAX_HTML_CHARS = 4_000_000

SELECT = (
    "subject,body,uniqueBody,bodyPreview,from,sender,replyTo,toRecipients,ccRecipients,receivedDateTime,sentDateTime,"
    "internetMessageId,internetMessageHeaders,conversationId,isDraft,hasAttachments"
)
"""What has to be asked for: Graph leaves out ``uniqueBody`` and the headers unless they are named."""
EXPAND = "attachments($select=id,name,contentType)"

_RESOURCE = re.compile(r"(?:users|me|groups)(?:\([^()/?#%\\\s]{1,300}\))?(?:/[^/?#%\\\s]{1,600}){1,6}", re.I)
_DMARC_FAILED = re.compile(r"(?<![\w.-])dmarc=fail\b")
_LIFECYCLE = {
    "reauthorizationRequired": "reauthorize",
    "subscriptionRemoved": "recreate",
    "missed": "resynchronize",
}
_READ_HEADERS = {name.lower() for name in (*READ_HEADERS, "References", "In-Reply-To")}


def verify(request: WebhookRequest, *, client_states: Collection[str]) -> None:
    """Raises Rejected unless this is the handshake, or one notification at least names a secret of ours.

    ``client_states``: the secrets that our subscriptions were made with.
    """
    if _token(request) is None and not any(
        _is_ours(notification, client_states) for notification in _notifications(request)
    ):
        raise Rejected(401, "no notification names the clientState of a subscription of ours")


def parse(request: WebhookRequest, *, client_states: Collection[str]) -> tuple[ChannelEvent, ...]:
    """The events of a verified request, in order, each message once. A bad notification does not affect the others.

    Raises Rejected (400, 413) for a body that Graph would not send.
    """
    token = _token(request)
    if token is not None:
        return (ImmediateResponse(200, token),)
    events = (_event(notification, client_states) for notification in _notifications(request))
    return tuple(_without_repeats(events))


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
    mail = _written(message)
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


def _token(request: WebhookRequest) -> str | None:
    """What the handshake asks to have repeated, or None for what is no handshake."""
    try:
        query = parse_qsl(urlsplit(request.url).query, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise Rejected(400, "the address cannot be read") from None
    token = dict(query).get("validationToken")
    if token is not None and not (0 < len(token) <= MAX_TOKEN_CHARS and token.isprintable()):
        raise Rejected(400, "validationToken is empty, too long or not printable")
    return token


def _notifications(request: WebhookRequest) -> list[object]:
    if len(request.body) > MAX_BODY_BYTES:
        raise Rejected(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    value = get_path(json_object(request.body), "value")
    if not isinstance(value, list):
        raise Rejected(400, 'the body is not a JSON object with a list "value"')
    return value


def _is_ours(notification: object, client_states: Collection[str]) -> bool:
    client_state = get_path(notification, "clientState")
    return isinstance(client_state, str) and any(secrets_equal(client_state, state) for state in client_states)


def _event(notification: object, client_states: Collection[str]) -> ChannelEvent:
    if not _is_ours(notification, client_states):
        return Ignored("wrong-client-state")
    reference = {
        "subscription": clean_line(get_path(notification, "subscriptionId")),
        "tenant": clean_line(get_path(notification, "tenantId")),
    }
    event = get_path(notification, "lifecycleEvent")
    if event is not None:
        action = _LIFECYCLE.get(event) if isinstance(event, str) else None
        return SubscriptionEvent("graph", action, reference) if action else Ignored("unknown-lifecycle-event")
    change = get_path(notification, "changeType")
    if change != "created":
        return Ignored("message-changed" if change in ("updated", "deleted") else "unknown-change")
    kind = get_path(notification, "resourceData", "@odata.type")
    if isinstance(kind, str) and not kind.lower().endswith("message"):
        return Ignored("not-a-message")
    resource = clean_string(get_path(notification, "resource"))
    # It becomes part of an address that is called with our credentials.
    if not _RESOURCE.fullmatch(resource) or ".." in resource:
        return Ignored("bad-resource")
    return FetchRequest("graph", {"resource": resource, "select": SELECT, "expand": EXPAND, **reference})


def _without_repeats(events: Iterator[ChannelEvent]) -> Iterator[ChannelEvent]:
    seen: set[tuple[str, str, str]] = set()
    for event in events:
        if isinstance(event, FetchRequest):
            # Told by two subscriptions it is two: one of them may be none of ours. Case tells ids of mail apart.
            where, _, mail = event.reference["resource"].rpartition("/")
            name = (where.lower(), mail, event.reference["subscription"])
            if name in seen:
                continue
            seen.add(name)
        yield event


def _written(message: dict[str, object]) -> ReceivedMail:
    carried = _headers(message.get("internetMessageHeaders"))
    sent = clean_string(message.get("sentDateTime"))
    sender = _address(message.get("from")) or _address(message.get("sender"))
    subject = clean_string(message.get("subject"))
    text = _body(message.get("body")) or clean_string(message.get("bodyPreview"))
    message_id = clean_string(message.get("internetMessageId")).strip().removeprefix("<").removesuffix(">")
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
        sent_at=parse_date(raw_header(carried, "Date")) or _sent_at(sent),
        reply_to="".join(_addresses(message.get("replyTo"))[:1]),
        references=(*message_ids(carried, "References"), *message_ids(carried, "In-Reply-To")),
        attachments=_attachments(message, message_id or f"sha256-{fingerprint}"),
        headers={name: raw_header(carried, name) for name in _READ_HEADERS},
        new_text=new or None,
        group=f"graph-{group}" if group else None,
    )


def _headers(listed: object) -> MailMessage:
    """As if they stood in a mail, so that they are read as a mail's."""
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


def _sent_at(sent: str) -> datetime | None:
    try:
        return parse_time(sent)
    except ValueError:
        return None


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
