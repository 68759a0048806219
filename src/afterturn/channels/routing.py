"""Which property a person's next conversation goes to: an operator's rule first, then the directory.

An operator of every property routes a person for good, before the directory. An operator of some properties routes only
what would have come to these: the rule remembers from where the person's conversation was moved, and holds for what the
directory sends there, or sends where the rule does. So nobody takes another property's mail away, neither by a person
in the directory nor by the mailbox that was written to.

The directory is a TOML file of the company's own::

    [accounts]                      # ours: a number, a mailbox, a bot
    "+15550100" = "oak"
    "oak@example.com" = "oak"

    [people]                        # theirs
    "+15158226442" = "elm"
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from afterturn.channels.email import addresses
from afterturn.channels.state import Route
from afterturn.channels.types import Party
from afterturn.errors import ConfigError
from afterturn.ids import normalise
from afterturn.model import UNASSIGNED, check_id
from afterturn.store.state import StateRecord, StateStore

_MAX_SOURCES = 10
"""Properties that a rule remembers, so that a state record holds them; the oldest are forgotten."""


class RoutingRule(StateRecord):
    """Where an operator sends a person's conversations. ``key``: the person's address.

    ``property_id``: None for a rule that was taken back. ``sources``: the rule holds for conversations that would go to
    one of these properties, None among them for nowhere; None: for all.
    """

    kind = "routing-rule"

    property_id: str | None = None
    sources: tuple[str | None, ...] | None = None

    def holds(self, listed: str | None) -> bool:
        """Whether it overrides the directory, which lists this property."""
        if self.property_id is None:
            return False
        return self.sources is None or listed == self.property_id or listed in self.sources


def resolve_property(directory: Directory, party: Party, rule: RoutingRule | None) -> str | None:
    """The property of a new conversation; None if it is not known."""
    listed = directory.property_of(party)
    return rule.property_id if rule is not None and rule.holds(listed) else listed


async def remember_move(
    store: StateStore,
    conversation_id: str,
    property_id: str | None,
    *,
    moved_from: str | None,
    scope: Collection[str | None] | None,
) -> None:
    """Route the next conversations of the same person to the property that this one was moved to.

    ``scope``: the operator's properties, None among them for nowhere; None: all.
    """
    route = await store.get(Route, conversation_id)
    if route is None or not route.sender:
        return
    rule = next_rule(route.sender, await store.get(RoutingRule, route.sender), moved_from, property_id, scope)
    if rule is not None:
        await store.put(rule)


def next_rule(
    person: str,
    rule: RoutingRule | None,
    moved_from: str | None,
    property_id: str | None,
    scope: Collection[str | None] | None,
) -> RoutingRule | None:
    """The person's rule after a move; None if the move changes nothing.

    ``rule``: the one until now. ``scope``: as for :func:`remember_move`.
    """
    active = rule if rule is not None and rule.property_id is not None else None
    if scope is None:
        return RoutingRule(key=person, property_id=property_id)
    if active is not None and active.property_id not in scope:
        return None
    if property_id is None:
        return RoutingRule(key=person)
    if active is not None and active.sources is None:  # all of the person's mail came into the scope
        return RoutingRule(key=person, property_id=property_id)
    known: Sequence[str | None] = () if active is None else (*(active.sources or ()), active.property_id)
    sources = [source for source in dict.fromkeys((*known, moved_from)) if source != property_id]
    return RoutingRule(key=person, property_id=property_id, sources=tuple(sources[-_MAX_SOURCES:]))


_TABLES = ("accounts", "people")


@dataclass(frozen=True, slots=True)
class Directory:
    """Addresses, spelt as channel events spell them, and their properties."""

    accounts: Mapping[str, str] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)

    def property_of(self, party: Party) -> str | None:
        """Where a conversation belongs; none where nobody knows.

        People go before the account that was written to, which may be one for all houses.
        """
        return self.people.get(normalise_party(party.sender)) or self.accounts.get(normalise_party(party.account))


def normalise_party(address: str, region: str | None = None) -> str:
    """An address as it is looked up: mail as :func:`afterturn.channels.email.addresses.normalise_address` has it."""
    return addresses.normalise_address(normalise(address, region)) if "@" in address else normalise(address, region)


def load_directory(path: Path, region: str | None = None) -> Directory:
    """The directory in a file. Raises ConfigError that names the entry that is wrong."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"directory {path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"directory {path}: is not TOML: {error}") from None
    if unknown := sorted(set(tables) - set(_TABLES)):
        raise ConfigError(f"directory {path}: {unknown[0]!r} is unknown; there are [accounts] and [people]")
    return Directory(**{name: _table(path, name, tables.get(name, {}), region) for name in _TABLES})


def _table(path: Path, name: str, entries: object, region: str | None) -> dict[str, str]:
    if not isinstance(entries, dict):
        raise ConfigError(f"directory {path}: {name} is no table; write [{name}]")
    properties: dict[str, str] = {}
    for address, property_id in entries.items():
        location = f"directory {path}: {name}.{address!r}"
        if not isinstance(property_id, str):
            raise ConfigError(f"{location}: its property has to be a text")
        try:
            check_id(property_id)
        except ValueError as error:
            raise ConfigError(f"{location}: its property {error}") from None
        if property_id == UNASSIGNED:
            raise ConfigError(f"{location}: {UNASSIGNED} is reserved; leave the entry out")
        key = normalise_party(address, region)
        if properties.get(key, property_id) != property_id:
            raise ConfigError(f"{location}: the address stands twice, with two properties")
        properties[key] = property_id
    return properties
