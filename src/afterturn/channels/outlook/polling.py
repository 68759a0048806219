"""What is known of a mailbox in Outlook, and what has to be done about it. Pure, but for :class:`Mailboxes`' notes.

A subscription ends after some days, may be removed, and does not bring what came while nobody listened. So it is
renewed long before, made anew, and the mailbox is looked through now and then for mail that nobody told of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import JsonValue

from afterturn.channels.types import SubscriptionEvent
from afterturn.clock import Clock, from_text, to_text
from afterturn.store.port import Keeper

MAILBOX = "graph-mailbox"
SUBSCRIPTION = "graph-subscription"
WANTED = "graph-wanted"
"""Notes: what is known of a mailbox; which mailbox a subscription is of; what Graph wants done about it."""

ACTIONS = ("reauthorize", "recreate", "resynchronize")

RENEW_BELOW = timedelta(hours=46)
"""Renewed about daily; whoever renews may be out for nearly two days."""
LOOK_THROUGH_EVERY = timedelta(minutes=15)
OVERLAP = timedelta(minutes=30)
"""Looked at again each time: clocks differ, and a mail may be listed later than it was received."""

_SUBSCRIPTIONS_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Known:
    """``seen``: up to when its mail was looked through; ``door``: what its subscription was made for; ``handled``: the
    newest wish of Graph's that was met, by action.
    """

    seen: datetime
    looked: datetime | None = None
    subscription: str | None = None
    expires: datetime | None = None
    door: str = ""
    handled: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, noted: JsonValue) -> Known | None:
        if not isinstance(noted, dict):
            return None
        looked, expires, subscription = noted.get("looked"), noted.get("expires"), noted.get("subscription")
        handled = noted.get("handled")
        return cls(
            seen=from_text(str(noted["seen"])),
            looked=None if looked is None else from_text(str(looked)),
            subscription=None if subscription is None else str(subscription),
            expires=None if expires is None else from_text(str(expires)),
            door=str(noted.get("door")),
            handled={str(key): str(value) for key, value in handled.items()} if isinstance(handled, dict) else {},
        )

    def dump(self) -> JsonValue:
        return {
            "seen": to_text(self.seen),
            "looked": None if self.looked is None else to_text(self.looked),
            "subscription": self.subscription,
            "expires": None if self.expires is None else to_text(self.expires),
            "door": self.door,
            "handled": dict(self.handled),
        }


@dataclass(frozen=True, slots=True)
class ToDo:
    """Whoever has subscribed looks through the mailbox afterwards, so that nothing falls in between."""

    subscribe: bool = False
    renew: bool = False
    look: bool = False

    def __bool__(self) -> bool:
        return self.subscribe or self.renew or self.look


def to_do(known: Known | None, wishes: Mapping[str, str], door: str, now: datetime) -> ToDo:
    """``wishes``: Graph's newest ones by action, as :meth:`Mailboxes.look_up` gives them; ``door``: as it has to be."""
    if known is None:
        return ToDo(subscribe=True, look=True)
    open_ = {action for action, wish in wishes.items() if known.handled.get(action) != wish}
    if known.subscription is None or wishes.get("recreate", "").partition(" ")[0] != known.subscription:
        open_.discard("recreate")  # of a subscription that has a successor already
    is_over = known.expires is None or known.expires <= now
    subscribe = known.subscription is None or known.door != door or is_over or "recreate" in open_
    ends_soon = known.expires is not None and known.expires - now < RENEW_BELOW
    is_due = known.looked is None or abs(now - known.looked) >= LOOK_THROUGH_EVERY
    return ToDo(
        subscribe=subscribe,
        renew=not subscribe and (ends_soon or "reauthorize" in open_),
        look=is_due or "resynchronize" in open_,
    )


class Mailboxes:
    """What is remembered of those that are set up. ``names``: their addresses, in lower case."""

    def __init__(self, keeper: Keeper, clock: Clock, names: Collection[str]) -> None:
        self._keeper = keeper
        self._clock = clock
        self.names = tuple(dict.fromkeys(names))

    async def look_up(self, mailbox: str) -> tuple[Known | None, dict[str, str]]:
        """What is known, and Graph's wishes: each as the subscription that it was about, and when it came."""
        keys = {f"{mailbox} {action}": action for action in ACTIONS}
        found = await self._keeper.notes({MAILBOX: [mailbox], WANTED: list(keys)})
        return Known.read(found[MAILBOX].get(mailbox)), {keys[key]: str(wish) for key, wish in found[WANTED].items()}

    async def save(self, mailbox: str, known: Known) -> None:
        await self._keeper.note(MAILBOX, mailbox, known.dump(), replace=True)

    async def remember(self, subscription: str, mailbox: str) -> None:
        """Before anything is told by it, or as good as: what is told too early is found by looking."""
        await self._keeper.note(SUBSCRIPTION, subscription, mailbox, replace=True, kept=_SUBSCRIPTIONS_KEPT)

    async def of(self, subscription: str) -> str | None:
        """The mailbox of a subscription of ours, if it is still set up."""
        if not subscription:
            return None
        found = (await self._keeper.noted(SUBSCRIPTION, [subscription])).get(subscription)
        return str(found) if found in self.names else None

    async def wish(self, upkeep: SubscriptionEvent) -> bool:
        """Write down what Graph wants done, for whoever does it; false for a subscription that is none of ours."""
        subscription = upkeep.reference.get("subscription", "")
        mailbox = await self.of(subscription)
        if mailbox is None or upkeep.action not in ACTIONS:
            return False
        wish = f"{subscription} {to_text(self._clock())}"
        await self._keeper.note(WANTED, f"{mailbox} {upkeep.action}", wish, replace=True)
        return True
