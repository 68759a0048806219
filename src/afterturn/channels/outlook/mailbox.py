"""Mailboxes in Outlook: their subscriptions and lists of received mail.

https://learn.microsoft.com/graph/api/subscription-post-subscriptions and .../api/user-list-messages. Identifiers are
immutable ones (https://learn.microsoft.com/graph/outlook-immutable-id): a mail that a rule moves is still found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from afterturn.channels.http_client import HttpResponse, json_body
from afterturn.channels.outlook.graph import GraphClient, error_code, internet_message_id
from afterturn.channels.sanitize import get_path, parse_iso
from afterturn.channels.sending import CONFIGURATION_PAUSE, Reason, TryLater
from afterturn.ids import legal_id

LIFETIME = timedelta(hours=70)
"""Of a subscription. Graph allows mail's 10,080 minutes, and 4,230 where an older limit still holds."""
PAGE = 500
MAX_PAGE_BYTES = 4 * 2**20

_GONE = (404, 410)
_COLUMNS = "id,receivedDateTime,internetMessageId,isDraft"


@dataclass(frozen=True, slots=True)
class Subscription:
    id: str
    expires: datetime


@dataclass(frozen=True, slots=True)
class MailboxEntry:
    """A mail in a mailbox. ``name``: its Message-ID as the webhook reports it, ``""`` if it has none."""

    id: str
    at: datetime
    name: str
    is_draft: bool


@dataclass(frozen=True, slots=True)
class MailPage:
    """``more``: there are further mails."""

    mails: Sequence[MailboxEntry]
    more: bool


class GraphMailboxes:
    """Raises TryLater for every failure: its cause may be corrected."""

    def __init__(self, graph: GraphClient) -> None:
        self._graph = graph

    async def subscribe(self, mailbox: str, *, url: str, client_state: str) -> Subscription:
        """Subscribe ``url`` to new mail and lifecycle events. Graph calls it before it responds."""
        until = self._graph.clock() + LIFETIME
        body = {
            "changeType": "created",
            "notificationUrl": url,
            "lifecycleNotificationUrl": url,
            "resource": f"users/{mailbox}/messages",
            "expirationDateTime": _time(until),
            "clientState": client_state,
        }
        response = await self._call("POST", "subscriptions", body)
        if response.status != 201:
            raise self._failure(response)
        return _subscription(response, until)

    async def renew(self, subscription: str) -> Subscription | None:
        """Extend a subscription, which also reauthorizes it; None if it no longer exists."""
        until = self._graph.clock() + LIFETIME
        response = await self._call("PATCH", _path(subscription), {"expirationDateTime": _time(until)})
        if response.status in _GONE:
            return None
        if response.status != 200:
            raise self._failure(response)
        return _subscription(response, until)

    async def unsubscribe(self, subscription: str) -> None:
        response = await self._call("DELETE", _path(subscription))
        if response.status not in (204, *_GONE):
            raise self._failure(response)

    async def received(self, mailbox: str, since: datetime) -> MailPage:
        """The first mails received since a time, oldest first, from all folders.

        Pages are requested by time: Graph's own next page counts rows, and would skip one if another was deleted
        meanwhile.
        """
        query = urlencode(
            {
                "$select": _COLUMNS,
                "$filter": f"receivedDateTime ge {_time(since)}",
                "$orderby": "receivedDateTime asc",
                "$top": str(PAGE),
            },
            quote_via=quote,
            safe="$,:",
        )
        response = await self._call("GET", f"users/{quote(mailbox, safe='@')}/messages?{query}")
        if response.status != 200:
            raise self._failure(response)
        body = response.json()
        listed = body.get("value")
        if not isinstance(listed, list):
            raise TryLater("graph", Reason.UNAVAILABLE, "unreadable")
        mails = [entry for item in listed if (entry := _received(item)) is not None]
        return MailPage(mails, bool(body.get("@odata.nextLink")))

    async def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> HttpResponse:
        data = b"" if body is None else json_body(body)
        return await self._graph.call(method, path, body=data, max_bytes=MAX_PAGE_BYTES)

    def _failure(self, response: HttpResponse) -> TryLater:
        failure = self._graph.failure_of(response)
        if failure is None:  # such as a notificationUrl that Graph cannot reach
            return TryLater("graph", Reason.CONFIGURATION, error_code(response), after=CONFIGURATION_PAUSE)
        return failure if isinstance(failure, TryLater) else TryLater("graph", Reason.UNAVAILABLE, failure.code)


def _path(subscription: str) -> str:
    return f"subscriptions/{quote(subscription, safe='')}"


def _time(at: datetime) -> str:
    """Graph filters by whole seconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _subscription(response: HttpResponse, until: datetime) -> Subscription:
    body = response.json()
    name = body.get("id")
    if not isinstance(name, str) or not name:
        raise TryLater("graph", Reason.UNAVAILABLE, "unreadable")
    return Subscription(name, min(parse_iso(body.get("expirationDateTime")) or until, until))


def _received(item: object) -> MailboxEntry | None:
    name, at = get_path(item, "id"), parse_iso(get_path(item, "receivedDateTime"))
    if not isinstance(name, str) or not name or at is None:
        return None
    message_id = internet_message_id(item)
    return MailboxEntry(name, at, legal_id("", message_id) if message_id else "", get_path(item, "isDraft") is True)
