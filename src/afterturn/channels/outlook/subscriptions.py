"""Mailboxes in Outlook are kept: each has a subscription that is valid, and no mail that nobody told of is missed.

One process at a time cares for a mailbox; whoever dies is followed by another one. What it does may be done twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from afterturn import telemetry
from afterturn.channels.outlook.mailbox import GraphMailboxes, MailboxEntry
from afterturn.channels.outlook.polling import (
    GIVE_UP_AFTER,
    OVERLAP,
    FetchedMail,
    MailboxActions,
    Mailboxes,
    MailboxState,
    MissingMail,
    to_do,
)
from afterturn.channels.outlook.webhook import EXPAND, SELECT
from afterturn.channels.sending import Reason, SendFailed, TryLater
from afterturn.channels.state import ThreadEntry
from afterturn.channels.types import ChannelEvent, FetchRequest, SubscriptionEvent
from afterturn.clock import Clock
from afterturn.errors import StoreError
from afterturn.ids import digest
from afterturn.jobs.locks import Locks
from afterturn.store.state import StateStore

KEEPING = "outlook"
"""Name of the locks of mailboxes."""

LEASE = timedelta(minutes=10)
SLACK = timedelta(days=1)
"""Times of mail are Graph's. By so much our clock may be ahead of it for a while, and no mail is passed over."""

_IN_A_ROW = 20
"""After so many failures one after the other it is not the mail that is sick."""
_OF_ALL = frozenset({Reason.UNREACHABLE, Reason.THROTTLED, Reason.CONFIGURATION})
"""What hits one mail hits the next one, too."""
_PAUSES = (30, 60, 120, 300, 900)
"""Seconds before the next try of what failed, each mailbox by itself; the last one again and again."""

Take = Callable[[ChannelEvent, datetime], Awaitable[None]]
"""The way that a notification goes: fetched, and taken in."""


class GraphSubscriptions:
    """``url``: where Graph tells; ``client_state``: what it has to say there; ``take``: for what it did not tell."""

    def __init__(
        self,
        graph: GraphMailboxes,
        mailboxes: Mailboxes,
        store: StateStore,
        clock: Clock,
        *,
        url: str,
        client_state: str,
        take: Take,
    ) -> None:
        self._graph = graph
        self._mailboxes = mailboxes
        self._store = store
        self._clock = clock
        self._url = url
        self._client_state = client_state
        self._endpoint = digest(url, client_state)
        self._take = take
        self._locks = Locks(store, clock, KEEPING)
        self._failures: dict[tuple[str, str], tuple[int, datetime]] = {}
        self.requested = asyncio.Event()

    async def once(self) -> None:
        """Do what is to be done for each mailbox; one that fails keeps no other waiting. Raises StoreError."""
        for mailbox in self._mailboxes.names:
            if not (await self._look_up(mailbox))[2]:
                continue
            lease = await self._locks.acquire(mailbox, LEASE)
            if lease is not None:
                try:
                    await self._keep(mailbox)
                finally:
                    await self._locks.release(lease)

    async def handle(self, event: SubscriptionEvent) -> None:
        """What Graph wants done is written down; this process or another one does it."""
        known = await self._mailboxes.add_request(event)
        status = event.action if known else "foreign-subscription"
        telemetry.log("subscription_event", level=logging.WARNING, stage=event.source, status=status)
        self.requested.set()

    async def _look_up(self, mailbox: str) -> tuple[MailboxState | None, dict[str, str], MailboxActions]:
        known, requests = await self._mailboxes.load(mailbox)
        todo = to_do(known, requests, self._endpoint, self._clock())
        may = self._may(mailbox, "subscription")
        subscribe, renew, look = todo.subscribe and may, todo.renew and may, todo.look and self._may(mailbox, "look")
        return known, requests, MailboxActions(subscribe, renew, look)

    async def _keep(self, mailbox: str) -> None:
        known, requests, todo = await self._look_up(mailbox)
        if known is None:  # what was there before is for an import
            known = MailboxState(key=mailbox, received_to=self._clock())
            await self._mailboxes.save(known)
        handled = dict(known.handled)
        has_subscribed = False
        if todo.subscribe or todo.renew:
            updated = await self._tried(mailbox, "subscription", self._subscribed(mailbox, known, renew=todo.renew))
            if updated is not None:
                has_subscribed = True
                handled |= {action: request for action, request in requests.items() if action != "resynchronize"}
                known = _changed(updated, handled=handled)
                await self._mailboxes.save(known)
        if todo.look or (has_subscribed and self._may(mailbox, "look")):
            updated = await self._tried(mailbox, "look", self._looked_through(mailbox, known))
            if updated is not None:
                handled |= {action: request for action, request in requests.items() if action == "resynchronize"}
                await self._mailboxes.save(_changed(updated, handled=handled))

    async def _subscribed(self, mailbox: str, known: MailboxState, *, renew: bool) -> MailboxState:
        before = known.subscription
        found = await self._graph.renew(before) if renew and before is not None else None
        if found is not None:
            await self._mailboxes.remember(found.id, mailbox)  # or it would be forgotten, and what it tells refused
        else:
            found = await self._graph.subscribe(mailbox, url=self._url, client_state=self._client_state)
            await self._mailboxes.remember(found.id, mailbox)
            if before is not None:
                with contextlib.suppress(SendFailed):  # it ends by itself
                    await self._graph.unsubscribe(before)
        telemetry.log("subscribed", stage="graph", status="renewed" if found.id == before else "made")
        return _changed(known, subscription=found.id, expires=found.expires, endpoint=self._endpoint)

    async def _looked_through(self, mailbox: str, known: MailboxState) -> MailboxState:
        """Take in what came since it was looked through last. How far that is is saved page by page."""
        begun, missing = self._clock(), None
        since = min(known.received_to, begun) - OVERLAP
        while True:
            page = await self._graph.received(mailbox, since)
            failed = await self._all_taken(mailbox, page.mails)
            missing = min(filter(None, (missing, failed)), default=None)
            if not page.mails or not page.more:
                newest = max([known.received_to, *(one.at for one in page.mails)])
                return _changed(known, received_to=missing or max(min(newest, begun), begun - SLACK), polled_at=begun)
            newest = page.mails[-1].at
            if missing is None:
                known = _changed(known, received_to=max(known.received_to, newest))
                await self._mailboxes.save(known)
            if newest <= since:  # a page of mail of one second
                telemetry.log("mailbox_cut", level=logging.ERROR, stage="graph", count=len(page.mails))
                newest = since + timedelta(seconds=1)
            since = newest

    async def _all_taken(self, mailbox: str, mails: Sequence[MailboxEntry]) -> datetime | None:
        """When the oldest one came that could not be had, and may still be. Raises what no other mail will escape."""
        keys = {digest(mailbox, one.id): one for one in mails if not one.is_draft}
        names = [one.name for one in keys.values() if one.name]
        known = await self._store.get_many({FetchedMail: list(keys), MissingMail: list(keys), ThreadEntry: names})
        missing: list[datetime] = []
        in_a_row = 0
        for key, one in keys.items():
            if known.get(FetchedMail, key) is not None:
                continue
            try:
                await self._one_taken(mailbox, one)
                in_a_row = 0
            except StoreError:
                raise
            except Exception as error:
                if isinstance(error, TryLater) and error.reason in _OF_ALL:
                    raise
                if self._is_given_up(await self._tried_since(key, known.get(MissingMail, key)), error):
                    continue
                in_a_row += 1
                if in_a_row == _IN_A_ROW:
                    raise
                missing.append(one.at)
            else:
                await self._store.put(FetchedMail(key=key))
                if one.name and known.get(ThreadEntry, one.name) is None:
                    telemetry.mail_found.inc()
        return min(missing, default=None)

    async def _one_taken(self, mailbox: str, one: MailboxEntry) -> None:
        resource = f"users/{mailbox}/messages/{one.id}"
        await self._take(
            FetchRequest("graph", {"resource": resource, "select": SELECT, "expand": EXPAND}), self._clock()
        )

    async def _tried_since(self, key: str, missing: MissingMail | None) -> datetime:
        """When a mail could not be had first, however old it was by then: an outage of ours uses up no tries."""
        now = self._clock()
        if missing is not None:
            return missing.since
        await self._store.put(MissingMail(key=key, since=now))
        return now

    def _is_given_up(self, since: datetime, error: Exception) -> bool:
        is_over = self._clock() - since > GIVE_UP_AFTER
        telemetry.log(
            "mail_given_up" if is_over else "mail_missing",
            level=logging.ERROR if is_over else logging.WARNING,
            stage="graph",
            error=_reason(error),
        )
        return is_over

    async def _tried(self, mailbox: str, part: str, work: Awaitable[MailboxState]) -> MailboxState | None:
        """None where it failed, and is tried again later. Raises StoreError."""
        try:
            result = await work
        except StoreError:
            raise
        except Exception as error:
            count = self._failures.get((mailbox, part), (0, self._clock()))[0] + 1
            pause = timedelta(seconds=_PAUSES[min(count, len(_PAUSES)) - 1])
            if isinstance(error, TryLater) and error.after is not None:
                pause = max(pause, min(error.after, timedelta(seconds=_PAUSES[-1])))
            self._failures[mailbox, part] = (count, self._clock() + pause)
            telemetry.log(
                "mailbox_failed",
                level=logging.ERROR,
                stage="graph",
                kind=part,
                error=_reason(error),
                delay_s=int(pause.total_seconds()),
            )
            return None
        self._failures.pop((mailbox, part), None)
        return result

    def _may(self, mailbox: str, part: str) -> bool:
        _, until = self._failures.get((mailbox, part), (0, self._clock()))
        return not timedelta(0) < until - self._clock() <= timedelta(seconds=_PAUSES[-1])  # else our clock went back


def _reason(error: Exception) -> str:
    """Of a fixed vocabulary, and the provider's own word for it."""
    if isinstance(error, SendFailed):
        return " ".join(filter(None, (error.reason.value, error.code)))
    return type(error).__name__


def _changed(state: MailboxState, **fields: Any) -> MailboxState:
    return state.model_copy(update=fields)
