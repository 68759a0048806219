"""State of an Outlook mailbox, and which actions are due. Pure, except for :class:`Mailboxes`.

A subscription expires after some days, may be removed, and does not repeat notifications that were missed. So it is
renewed early and recreated if needed, and the mailbox is polled for mail that no notification named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field

from afterturn.channels.types import SubscriptionEvent
from afterturn.clock import Clock, to_text
from afterturn.model import Time
from afterturn.store.state import StateRecord, StateStore, Ties

ACTIONS = ("reauthorize", "recreate", "resynchronize")

RENEW_BELOW = timedelta(hours=46)
"""Renewed about daily, so that an outage may last nearly two days."""
POLL_INTERVAL = timedelta(minutes=15)
OVERLAP = timedelta(minutes=30)
"""Polled again each time: clocks differ, and a mail may be listed later than it was received."""

GIVE_UP_AFTER = timedelta(days=3)
"""A mail that could not be fetched for so long is given up."""


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

    def __bool__(self) -> bool:
        return self.subscribe or self.renew or self.poll


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
    is_due = state.polled_at is None or abs(now - state.polled_at) >= POLL_INTERVAL
    return MailboxActions(
        subscribe=subscribe,
        renew=not subscribe and (ends_soon or "reauthorize" in open_),
        poll=is_due or "resynchronize" in open_,
    )


class Mailboxes:
    """Records of the mailboxes that are configured. ``names``: their addresses, in lower case."""

    def __init__(self, store: StateStore, clock: Clock, names: Collection[str]) -> None:
        self._store = store
        self._clock = clock
        self.names = tuple(dict.fromkeys(names))

    async def load(self, mailbox: str) -> tuple[MailboxState | None, dict[str, str]]:
        """The mailbox's state, and Graph's requests by action: each is the subscription's id and a time."""
        keys = {f"{mailbox} {action}": action for action in ACTIONS}
        records = await self._store.get_many({MailboxState: [mailbox], LifecycleRequest: list(keys)})
        requests = {keys[key]: request.text for key, request in records.all(LifecycleRequest).items()}
        return records.get(MailboxState, mailbox), requests

    async def save(self, state: MailboxState) -> None:
        await self._store.put(state)

    async def remember(self, subscription: str, mailbox: str) -> None:
        """Save a subscription's mailbox. Mail that is notified before that is found by polling."""
        await self._store.put(SubscriptionOwner(key=subscription, mailbox=mailbox))

    async def of(self, subscription: str) -> str | None:
        """The mailbox of a subscription, if it is still configured."""
        if not subscription:
            return None
        owner = await self._store.get(SubscriptionOwner, subscription)
        return owner.mailbox if owner is not None and owner.mailbox in self.names else None

    async def add_request(self, event: SubscriptionEvent) -> bool:
        """Save what Graph requests; false if the subscription is not ours."""
        subscription = event.reference.get("subscription", "")
        mailbox = await self.of(subscription)
        if mailbox is None or event.action not in ACTIONS:
            return False
        request = f"{subscription} {to_text(self._clock())}"
        await self._store.put(LifecycleRequest(key=f"{mailbox} {event.action}", text=request))
        return True
