"""Keeps each Outlook mailbox subscribed, and polls it for mail that no notification named.

One process at a time updates a mailbox, under a lock that expires. An update may be repeated.
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
    actions_due,
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

LOCK_NAME = "outlook"
"""Prefix of the mailboxes' lock keys."""

LEASE = timedelta(minutes=10)
CLOCK_TOLERANCE = timedelta(days=1)
"""How far our clock may be ahead of Graph's without mail being missed: the times of mail are Graph's."""

_MAX_CONSECUTIVE_FAILURES = 20
"""After this many the mailbox fails, not the single mail."""
_SHARED_FAILURES = frozenset({Reason.UNREACHABLE, Reason.THROTTLED, Reason.CONFIGURATION})
"""Reasons that affect every mail."""
_DELAYS = (30, 60, 120, 300, 900)
"""Seconds before the next attempt, for each mailbox and operation; the last one repeats."""

Receive = Callable[[ChannelEvent, datetime], Awaitable[None]]
"""Fetches and stores an event, as WebhookRouter.receive does for a notification."""


class GraphSubscriptions:
    """Subscribes, renews and polls the mailboxes.

    ``url``: the webhook that Graph calls; ``client_state``: the secret in its requests; ``receive``: called for each
    mail that was found by polling.
    """

    def __init__(
        self,
        graph: GraphMailboxes,
        mailboxes: Mailboxes,
        store: StateStore,
        clock: Clock,
        *,
        url: str,
        client_state: str,
        receive: Receive,
    ) -> None:
        self._graph = graph
        self._mailboxes = mailboxes
        self._store = store
        self._clock = clock
        self._url = url
        self._client_state = client_state
        self._endpoint = digest(url, client_state)
        self._receive = receive
        self._locks = Locks(store, clock, LOCK_NAME)
        self._failures: dict[tuple[str, str], tuple[int, datetime]] = {}
        self.requested = asyncio.Event()

    async def once(self) -> None:
        """Run the actions that are due. A mailbox that fails does not affect the others. Raises StoreError."""
        for mailbox in self._mailboxes.names:
            if not (await self._load(mailbox))[2]:
                continue
            lease = await self._locks.acquire(mailbox, LEASE)
            if lease is not None:
                try:
                    await self._update(mailbox)
                finally:
                    await self._locks.release(lease)

    async def handle(self, event: SubscriptionEvent) -> None:
        """Save Graph's request; this process or another one runs it."""
        is_ours = await self._mailboxes.add_request(event)
        status = event.action if is_ours else "foreign-subscription"
        telemetry.log("subscription_event", level=logging.WARNING, stage=event.source, status=status)
        self.requested.set()

    async def _load(self, mailbox: str) -> tuple[MailboxState | None, dict[str, str], MailboxActions]:
        state, requests = await self._mailboxes.load(mailbox)
        due = actions_due(state, requests, self._endpoint, self._clock())
        may_subscribe = self._may_try(mailbox, "subscription")
        subscribe, renew, poll = (
            due.subscribe and may_subscribe,
            due.renew and may_subscribe,
            due.poll and self._may_try(mailbox, "poll"),
        )
        return state, requests, MailboxActions(subscribe, renew, poll)

    async def _update(self, mailbox: str) -> None:
        state, requests, due = await self._load(mailbox)
        if state is None:  # older mail is left to an import
            state = MailboxState(key=mailbox, received_to=self._clock())
            await self._mailboxes.save(state)
        handled = dict(state.handled)
        has_subscribed = False
        if due.subscribe or due.renew:
            updated = await self._with_backoff(
                mailbox, "subscription", self._subscribe(mailbox, state, renew=due.renew)
            )
            if updated is not None:
                has_subscribed = True
                handled |= {action: request for action, request in requests.items() if action != "resynchronize"}
                state = _with_fields(updated, handled=handled)
                await self._mailboxes.save(state)
        if due.poll or (has_subscribed and self._may_try(mailbox, "poll")):
            updated = await self._with_backoff(mailbox, "poll", self._poll(mailbox, state))
            if updated is not None:
                handled |= {action: request for action, request in requests.items() if action == "resynchronize"}
                await self._mailboxes.save(_with_fields(updated, handled=handled))

    async def _subscribe(self, mailbox: str, state: MailboxState, *, renew: bool) -> MailboxState:
        previous = state.subscription
        subscription = await self._graph.renew(previous) if renew and previous is not None else None
        if subscription is not None:
            # Otherwise the record expires, and the subscription's notifications are refused.
            await self._mailboxes.remember(subscription.id, mailbox)
        else:
            subscription = await self._graph.subscribe(mailbox, url=self._url, client_state=self._client_state)
            await self._mailboxes.remember(subscription.id, mailbox)
            if previous is not None:
                with contextlib.suppress(SendFailed):  # it expires
                    await self._graph.unsubscribe(previous)
        telemetry.log("subscribed", stage="graph", status="renewed" if subscription.id == previous else "created")
        return _with_fields(state, subscription=subscription.id, expires=subscription.expires, endpoint=self._endpoint)

    async def _poll(self, mailbox: str, state: MailboxState) -> MailboxState:
        """Ingest mail that was received since the last poll. Progress is saved after each page."""
        now, missing = self._clock(), None
        since = min(state.received_to, now) - OVERLAP
        while True:
            page = await self._graph.received(mailbox, since)
            oldest_failed = await self._ingest_page(mailbox, page.mails)
            missing = min(filter(None, (missing, oldest_failed)), default=None)
            if not page.mails or not page.more:
                newest = max([state.received_to, *(mail.at for mail in page.mails)])
                return _with_fields(
                    state, received_to=missing or max(min(newest, now), now - CLOCK_TOLERANCE), polled_at=now
                )
            newest = page.mails[-1].at
            if missing is None:
                state = _with_fields(state, received_to=max(state.received_to, newest))
                await self._mailboxes.save(state)
            if newest <= since:  # the whole page was received within one second
                telemetry.log("mailbox_mail_skipped", level=logging.ERROR, stage="graph", count=len(page.mails))
                newest = since + timedelta(seconds=1)
            since = newest

    async def _ingest_page(self, mailbox: str, mails: Sequence[MailboxEntry]) -> datetime | None:
        """Ingest a page of mail; return when the oldest mail was received that has to be retried.

        Raises errors that affect every mail.
        """
        keys = {digest(mailbox, mail.id): mail for mail in mails if not mail.is_draft}
        names = [mail.name for mail in keys.values() if mail.name]
        records = await self._store.get_many({FetchedMail: list(keys), MissingMail: list(keys), ThreadEntry: names})
        missing: list[datetime] = []
        failures_in_a_row = 0
        for key, mail in keys.items():
            if records.get(FetchedMail, key) is not None:
                continue
            try:
                await self._ingest_mail(mailbox, mail)
                failures_in_a_row = 0
            except StoreError:
                raise
            except Exception as error:
                if isinstance(error, TryLater) and error.reason in _SHARED_FAILURES:
                    raise
                if self._is_given_up(await self._missing_since(key, records.get(MissingMail, key)), error):
                    continue
                failures_in_a_row += 1
                if failures_in_a_row == _MAX_CONSECUTIVE_FAILURES:
                    raise
                missing.append(mail.at)
            else:
                await self._store.put(FetchedMail(key=key))
                if mail.name and records.get(ThreadEntry, mail.name) is None:
                    telemetry.mail_found.inc()
        return min(missing, default=None)

    async def _ingest_mail(self, mailbox: str, mail: MailboxEntry) -> None:
        resource = f"users/{mailbox}/messages/{mail.id}"
        await self._receive(
            FetchRequest("graph", {"resource": resource, "select": SELECT, "expand": EXPAND}), self._clock()
        )

    async def _missing_since(self, key: str, missing: MissingMail | None) -> datetime:
        """When fetching a mail failed first. The mail's age does not count, so an outage of ours uses up no time."""
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

    async def _with_backoff(self, mailbox: str, part: str, work: Awaitable[MailboxState]) -> MailboxState | None:
        """The result of ``work``; None if it failed and is retried later. Raises StoreError."""
        try:
            result = await work
        except StoreError:
            raise
        except Exception as error:
            count = self._failures.get((mailbox, part), (0, self._clock()))[0] + 1
            pause = timedelta(seconds=_DELAYS[min(count, len(_DELAYS)) - 1])
            if isinstance(error, TryLater) and error.after is not None:
                pause = max(pause, min(error.after, timedelta(seconds=_DELAYS[-1])))
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

    def _may_try(self, mailbox: str, part: str) -> bool:
        _, until = self._failures.get((mailbox, part), (0, self._clock()))
        # A longer wait than the longest delay means that our clock was set back.
        return not timedelta(0) < until - self._clock() <= timedelta(seconds=_DELAYS[-1])


def _reason(error: Exception) -> str:
    """The reason, and the provider's error code."""
    if isinstance(error, SendFailed):
        return " ".join(filter(None, (error.reason.value, error.code)))
    return type(error).__name__


def _with_fields(state: MailboxState, **fields: Any) -> MailboxState:
    return state.model_copy(update=fields)
