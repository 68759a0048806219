"""What is known of a mailbox in Outlook, and what has to be done about it. Pure, but for :class:`Mailboxes`' notes.

A subscription ends after some days, may be removed, and does not bring what came while nobody listened. So it is
renewed long before, made anew, and the mailbox is looked through periodically for mail that no notification named.
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
"""Renewed about daily; whoever renews may be out for nearly two days."""
LOOK_THROUGH_EVERY = timedelta(minutes=15)
OVERLAP = timedelta(minutes=30)
"""Looked at again each time: clocks differ, and a mail may be listed later than it was received."""

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
    """Whoever has subscribed looks through the mailbox afterwards, so that nothing falls in between."""

    subscribe: bool = False
    renew: bool = False
    look: bool = False

    def __bool__(self) -> bool:
        return self.subscribe or self.renew or self.look


def to_do(known: MailboxState | None, requests: Mapping[str, str], endpoint: str, now: datetime) -> MailboxActions:
    """``requests``: Graph's newest ones by action; ``endpoint``: ours."""
    if known is None:
        return MailboxActions(subscribe=True, look=True)
    open_ = {action for action, request in requests.items() if known.handled.get(action) != request}
    if known.subscription is None or requests.get("recreate", "").partition(" ")[0] != known.subscription:
        open_.discard("recreate")  # of a subscription that has a successor already
    is_over = known.expires is None or known.expires <= now
    subscribe = known.subscription is None or known.endpoint != endpoint or is_over or "recreate" in open_
    ends_soon = known.expires is not None and known.expires - now < RENEW_BELOW
    is_due = known.polled_at is None or abs(now - known.polled_at) >= LOOK_THROUGH_EVERY
    return MailboxActions(
        subscribe=subscribe,
        renew=not subscribe and (ends_soon or "reauthorize" in open_),
        look=is_due or "resynchronize" in open_,
    )


class Mailboxes:
    """What is remembered of those that are set up. ``names``: their addresses, in lower case."""

    def __init__(self, store: StateStore, clock: Clock, names: Collection[str]) -> None:
        self._store = store
        self._clock = clock
        self.names = tuple(dict.fromkeys(names))

    async def load(self, mailbox: str) -> tuple[MailboxState | None, dict[str, str]]:
        """What is known, and Graph's wishes: each as the subscription that it was about, and when it came."""
        keys = {f"{mailbox} {action}": action for action in ACTIONS}
        found = await self._store.get_many({MailboxState: [mailbox], LifecycleRequest: list(keys)})
        requests = {keys[key]: request.text for key, request in found.all(LifecycleRequest).items()}
        return found.get(MailboxState, mailbox), requests

    async def save(self, state: MailboxState) -> None:
        await self._store.put(state)

    async def remember(self, subscription: str, mailbox: str) -> None:
        """Before anything is told by it, or as good as: what is told too early is found by looking."""
        await self._store.put(SubscriptionOwner(key=subscription, mailbox=mailbox))

    async def of(self, subscription: str) -> str | None:
        """The mailbox of a subscription of ours, if it is still set up."""
        if not subscription:
            return None
        owner = await self._store.get(SubscriptionOwner, subscription)
        return owner.mailbox if owner is not None and owner.mailbox in self.names else None

    async def add_request(self, event: SubscriptionEvent) -> bool:
        """Write down what Graph wants done, for whoever does it; false for a subscription that is none of ours."""
        subscription = event.reference.get("subscription", "")
        mailbox = await self.of(subscription)
        if mailbox is None or event.action not in ACTIONS:
            return False
        request = f"{subscription} {to_text(self._clock())}"
        await self._store.put(LifecycleRequest(key=f"{mailbox} {event.action}", text=request))
        return True
