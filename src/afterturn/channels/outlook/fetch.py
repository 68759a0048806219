"""Mail in Outlook, by the reference that a change notification gave."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from urllib.parse import quote, unquote, urlencode

from afterturn import telemetry
from afterturn.channels.http_client import HttpResponse, send_repeatable
from afterturn.channels.outlook.graph import GraphClient
from afterturn.channels.outlook.mailbox import IMMUTABLE
from afterturn.channels.outlook.send import graph_failure
from afterturn.channels.outlook.webhook import EXPAND, SELECT, parse_fetched
from afterturn.channels.sending import Reason, TryLater
from afterturn.channels.types import ChannelEvent, FetchRequest, Ignored

MAX_MESSAGE_BYTES = 32 * 2**20
"""Of JSON, without attachments: several times the longest text that can be stored."""

_GONE = (404, 410)
_GUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?=@|\Z)")
_QUOTED = re.compile(r"messages\('([^']+)'\)", re.IGNORECASE)
_SAFE = "=()'@,-_.~"


Mailbox = Callable[[str], Awaitable[str | None]]
"""The mailbox of a subscription; None where it is none of ours."""


class GraphFetcher:
    """Fetches mail that a notification names.

    ``accounts``: mailboxes by user id and by address; ``own_addresses``: our addresses, or domains such as
    ``@example.com``; ``mailbox_of``: if set, only mail of our mailboxes is fetched.
    """

    def __init__(
        self,
        access: GraphClient,
        *,
        accounts: Mapping[str, str] | None = None,
        own_addresses: Collection[str] = frozenset(),
        mailbox_of: Mailbox | None = None,
    ) -> None:
        self._access = access
        self._accounts = {user.lower(): account for user, account in (accounts or {}).items()}
        self._own_addresses = own_addresses
        self._mailbox_of = mailbox_of

    async def fetch(self, asked_for: FetchRequest) -> ChannelEvent:
        resource = asked_for.reference.get("resource", "")
        steps = resource.split("/")
        if not resource or any(step in ("", ".", "..") for step in map(unquote, steps)):
            return Ignored("bad-reference")
        if self._mailbox_of is not None:
            mailbox = await self._mailbox_of(asked_for.reference.get("subscription", ""))
            mailbox = mailbox or self._accounts.get(_user(steps).lower())
            if mailbox is None:
                telemetry.log("mailbox_refused", level=logging.WARNING, stage="graph")
                return Ignored("foreign-mailbox")
            # Whosever mailbox the notification names: a mail that is not in ours is not found.
            quoted = _QUOTED.fullmatch(steps[-1])
            steps = ["users", mailbox, "messages", quoted[1] if quoted else steps[-1]]
        query = urlencode(
            {
                "$select": asked_for.reference.get("select", SELECT),
                "$expand": asked_for.reference.get("expand", EXPAND),
            },
            quote_via=quote,
            safe="$(),=",
        )
        path = "/".join(quote(step, safe=_SAFE) for step in steps)
        url = f"{self._access.url}{path}?{query}"

        async def call(who: Mapping[str, str]) -> HttpResponse:
            headers = {**who, **IMMUTABLE}
            return await send_repeatable(self._access.http, "graph", "GET", url, headers, max_bytes=MAX_MESSAGE_BYTES)

        answer = await self._access.call(call)
        return self._read(answer, steps)

    def _read(self, answer: HttpResponse, steps: list[str]) -> ChannelEvent:
        if answer.status in _GONE:
            return Ignored("message-gone")
        if answer.status != 200:
            failed = graph_failure(answer, self._access)
            if isinstance(failed, TryLater):
                raise failed
            if failed is None:
                return Ignored("fetch-refused")
            raise TryLater("graph", Reason.UNAVAILABLE, failed.code)
        if answer.truncated:
            return Ignored("message-too-large")
        message = answer.json()
        if not message:
            raise TryLater("graph", Reason.UNAVAILABLE, "unreadable")
        accounts = (account,) if (account := self._account(steps)) else ()
        return parse_fetched(message, now=self._access.clock(), accounts=accounts, own_addresses=self._own_addresses)

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
