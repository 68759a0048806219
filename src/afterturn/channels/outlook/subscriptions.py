"""Keeps each Outlook mailbox subscribed, and polls it for mail that no notification named.

A subscription expires after some days, may be removed, and does not repeat notifications that were missed. So it is
renewed early and recreated if needed, and the mailbox is polled. A recurring job updates each mailbox; a request of
Graph adds one that runs at once. An update may be repeated.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from afterturn import telemetry
from afterturn.channels.outlook.fetch import EXPAND, SELECT
from afterturn.channels.outlook.mailbox import GraphMailboxes, MailboxEntry
from afterturn.channels.sending import Reason, SendFailed, TryLater
from afterturn.channels.state import ThreadEntry
from afterturn.channels.types import ChannelEvent, FetchRequest, SubscriptionEvent
from afterturn.clock import EPOCH, Clock, to_text
from afterturn.errors import StoreError
from afterturn.ids import digest
from afterturn.jobs.runner import JobHandler, JobStore, RetryLater, RetryPolicy
from afterturn.model import Record, Time
from afterturn.store.jobs import Job, LeasedJob
from afterturn.store.state import StateRecord, Ties

UPDATE_MAILBOX = "update-mailbox"
"""Kind of jobs: a mailbox has to be subscribed to, renewed or polled."""

ACTIONS = ("reauthorize", "recreate", "resynchronize")

POLL_INTERVAL = timedelta(minutes=15)
RENEW_BELOW = timedelta(hours=46)
"""Renewed about daily, so that an outage may last nearly two days."""
OVERLAP = timedelta(minutes=30)
"""Polled again each time: clocks differ, and a mail may be listed later than it was received."""
CLOCK_TOLERANCE = timedelta(days=1)
"""How far our clock may be ahead of Graph's without mail being missed: the times of mail are Graph's."""
GIVE_UP_AFTER = timedelta(days=3)
"""A mail that could not be fetched for so long is given up."""
STARTUP_DELAY = timedelta(seconds=2)
"""Graph calls back before a subscription is made, and the webhooks may still be starting."""
LEASE = timedelta(minutes=10)
CONCURRENCY = 4

_DELAYS = (30, 60, 120, 300)
"""Seconds before the next attempt. After POLL_INTERVAL the next job of the mailbox takes over."""
_MAX_CONSECUTIVE_FAILURES = 20
"""After this many the mailbox fails, not the single mail."""
_SHARED_FAILURES = frozenset({Reason.UNREACHABLE, Reason.THROTTLED, Reason.CONFIGURATION})
"""Reasons that affect every mail."""

Receive = Callable[[ChannelEvent, datetime], Awaitable[None]]
"""Fetches and stores an event, as WebhookRouter.receive does for a notification."""


class MailboxJob(Record):
    """Value of a job that updates a mailbox."""

    mailbox: str


class MailboxState(StateRecord):
    """What is known of a mailbox. ``key``: its address.

    ``received_to``: up to when its mail was polled; ``endpoint``: the webhook that its subscription calls;
    ``handled``: the newest request of Graph that was met, by action.
    """

    kind = "outlook-mailbox"

    received_to: Time
    polled_at: Time | None = None
    subscription: str | None = None
    expires: Time | None = None
    endpoint: str = ""
    handled: Mapping[str, str] = Field(default_factory=dict)


class SubscriptionOwner(StateRecord):
    """The mailbox of a subscription. ``key``: the subscription's id."""

    kind = "outlook-subscription"
    ttl = timedelta(days=30)

    mailbox: str


class LifecycleRequest(StateRecord):
    """The newest request of Graph for a mailbox. ``key``: mailbox and action; ``text``: subscription and time."""

    kind = "outlook-request"

    text: str


class FetchedMail(StateRecord):
    """A mail that was fetched by polling. ``key``: digest of mailbox and id."""

    kind = "outlook-fetched"
    ties = Ties.FIRST
    ttl = GIVE_UP_AFTER + timedelta(days=1)


class MissingMail(StateRecord):
    """A mail that could not be fetched. ``key``: as of FetchedMail; ``since``: when it failed first."""

    kind = "outlook-missing"
    ties = Ties.FIRST
    ttl = 2 * GIVE_UP_AFTER

    since: Time


@dataclass(frozen=True, slots=True)
class MailboxActions:
    """Actions that are due. A mailbox is also polled after it was subscribed, so that no mail is missed in between."""

    subscribe: bool = False
    renew: bool = False
    poll: bool = False


def actions_due(
    state: MailboxState | None, requests: Mapping[str, str], endpoint: str, now: datetime
) -> MailboxActions:
    """The actions that are due. ``requests``: Graph's newest ones by action; ``endpoint``: of our webhook."""
    if state is None:
        return MailboxActions(subscribe=True, poll=True)
    open_ = {action for action, request in requests.items() if state.handled.get(action) != request}
    if state.subscription is None or requests.get("recreate", "").partition(" ")[0] != state.subscription:
        open_.discard("recreate")  # of a subscription that was replaced already
    is_over = state.expires is None or state.expires <= now
    subscribe = state.subscription is None or state.endpoint != endpoint or is_over or "recreate" in open_
    ends_soon = state.expires is not None and state.expires - now < RENEW_BELOW
    is_due = state.polled_at is None or _interval_of(state.polled_at) != _interval_of(now)
    return MailboxActions(
        subscribe=subscribe,
        renew=not subscribe and (ends_soon or "reauthorize" in open_),
        poll=is_due or "resynchronize" in open_,
    )


def _interval_of(at: datetime) -> int:
    return (at - EPOCH) // POLL_INTERVAL


class GraphSubscriptions:
    """Subscribes, renews and polls the mailboxes.

    ``mailboxes``: addresses in lower case; ``url``: the webhook that Graph calls; ``client_state``: the secret in its
    requests; ``receive``: called for each mail that was found by polling.
    """

    def __init__(
        self,
        graph: GraphMailboxes,
        store: JobStore,
        clock: Clock,
        *,
        mailboxes: Collection[str],
        url: str,
        client_state: str,
        receive: Receive,
    ) -> None:
        self._graph = graph
        self._store = store
        self._clock = clock
        self._mailboxes = tuple(dict.fromkeys(mailboxes))
        self._url = url
        self._client_state = client_state
        self._endpoint = digest(url, client_state)
        self._receive = receive

    @property
    def handler(self) -> JobHandler:
        """One process at a time updates a mailbox. One that stops does not wait until it has caught up."""
        return JobHandler(
            kind=UPDATE_MAILBOX,
            run=self._run,
            lease=LEASE,
            retry=RetryPolicy(_DELAYS, give_up_after=POLL_INTERVAL),
            concurrency=CONCURRENCY,
            is_shared=lambda job: True,
            recurring=self._recurring_jobs,
        )

    async def mailbox_of(self, subscription: str) -> str | None:
        """The mailbox of a subscription, if it is configured."""
        owner = await self._store.get(SubscriptionOwner, subscription) if subscription else None
        return owner.mailbox if owner is not None and owner.mailbox in self._mailboxes else None

    async def handle(self, event: SubscriptionEvent) -> None:
        """Save what Graph requests, with a job that does it at once."""
        subscription, now = event.reference.get("subscription", ""), self._clock()
        mailbox = await self.mailbox_of(subscription)
        is_ours = mailbox is not None and event.action in ACTIONS
        status = event.action if is_ours else "foreign-subscription"
        telemetry.log("subscription_event", level=logging.WARNING, stage=event.source, status=status)
        if mailbox is not None and is_ours:
            request = f"{subscription} {to_text(now)}"
            await self._store.put(LifecycleRequest(key=f"{mailbox} {event.action}", text=request))
            await self._store.add_jobs([_job(mailbox, f"{event.action} {request}", due_at=now)])

    def _recurring_jobs(self, now: datetime) -> Sequence[Job]:
        """A job for each mailbox and interval, and at once after the webhook's URL or secret changed."""
        name = f"{self._endpoint} {_interval_of(now)}"
        return [_job(mailbox, name, due_at=now + STARTUP_DELAY) for mailbox in self._mailboxes]

    async def _run(self, job: LeasedJob) -> bool:
        """Run the actions that are due. If the mailbox cannot be subscribed to, it is polled nevertheless."""
        mailbox = MailboxJob.model_validate(job.value).mailbox
        if mailbox not in self._mailboxes:
            return True
        state, requests = await self._load(mailbox)
        due = actions_due(state, requests, self._endpoint, self._clock())
        if state is None:  # older mail is left to an import
            state = MailboxState(key=mailbox, received_to=self._clock())
            await self._store.put(state)
        failures: list[RetryLater] = []
        if due.subscribe or due.renew:
            with _failure_collected("subscription", failures):
                state = await self._subscribe(mailbox, state, renew=due.renew)
                state = await self._save_handled(state, requests, ("reauthorize", "recreate"))
        if due.poll or ((due.subscribe or due.renew) and not failures):
            with _failure_collected("poll", failures):
                state = await self._poll(mailbox, state)
                await self._save_handled(state, requests, ("resynchronize",))
        if failures:
            raise RetryLater(", ".join(failure.reason for failure in failures), failures[0].after)
        return True

    async def _load(self, mailbox: str) -> tuple[MailboxState | None, dict[str, str]]:
        """The mailbox's state, and Graph's requests by action: each is the subscription's id and a time."""
        keys = {f"{mailbox} {action}": action for action in ACTIONS}
        records = await self._store.get_many({MailboxState: [mailbox], LifecycleRequest: list(keys)})
        requests = {keys[key]: request.text for key, request in records.all(LifecycleRequest).items()}
        return records.get(MailboxState, mailbox), requests

    async def _save_handled(
        self, state: MailboxState, requests: Mapping[str, str], actions: Collection[str]
    ) -> MailboxState:
        handled = {action: request for action, request in requests.items() if action in actions}
        state = _with_fields(state, handled={**state.handled, **handled})
        await self._store.put(state)
        return state

    async def _subscribe(self, mailbox: str, state: MailboxState, *, renew: bool) -> MailboxState:
        previous = state.subscription
        subscription = await self._graph.renew(previous) if renew and previous is not None else None
        if subscription is not None:
            # Otherwise the record expires, and the subscription's notifications are refused.
            await self._store.put(SubscriptionOwner(key=subscription.id, mailbox=mailbox))
        else:
            subscription = await self._graph.subscribe(mailbox, url=self._url, client_state=self._client_state)
            await self._store.put(SubscriptionOwner(key=subscription.id, mailbox=mailbox))
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
                await self._store.put(state)
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


def _job(mailbox: str, name: str, *, due_at: datetime) -> Job:
    """``name``: unique among the mailbox's jobs. Ids are digests, because they appear in logs."""
    value = MailboxJob(mailbox=mailbox).model_dump(mode="json")
    key = digest(mailbox, name)
    return Job(kind=UPDATE_MAILBOX, key=key, conversation_id=f"outlook:{digest(mailbox)}", value=value, due_at=due_at)


@contextlib.contextmanager
def _failure_collected(part: str, failures: list[RetryLater]) -> Iterator[None]:
    """Collect an error as a RetryLater. Raises StoreError."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        after = error.after if isinstance(error, TryLater) else None
        failures.append(RetryLater(f"{part} {_reason(error)}", None if after is None else min(after, POLL_INTERVAL)))


def _reason(error: Exception) -> str:
    """The reason, and the provider's error code."""
    if isinstance(error, SendFailed):
        return " ".join(filter(None, (error.reason.value, error.code)))
    return type(error).__name__


def _with_fields(state: MailboxState, **fields: Any) -> MailboxState:
    return state.model_copy(update=fields)
