"""Whose number, mailbox or bot is which property's, and who lives where: a TOML file of the company's own.

::

    [accounts]                      # ours: a number, a mailbox, a bot
    "+15550100" = "oak"
    "oak@example.com" = "oak"

    [people]                        # theirs
    "+15158226442" = "elm"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from afterturn.channels.email import addresses
from afterturn.channels.types import Party
from afterturn.errors import ConfigError
from afterturn.ids import normalise
from afterturn.model import UNASSIGNED, check_id

_TABLES = ("accounts", "people")


@dataclass(frozen=True, slots=True)
class Directory:
    """Addresses, spelt as arrivals spell them, and their properties."""

    accounts: Mapping[str, str] = field(default_factory=dict)
    people: Mapping[str, str] = field(default_factory=dict)

    def property_of(self, party: Party) -> str | None:
        """Where a conversation belongs; none where nobody knows.

        People go before the account that was written to, which may be one for all houses.
        """
        return self.people.get(spelt(party.sender)) or self.accounts.get(spelt(party.account))


def spelt(address: str, region: str | None = None) -> str:
    """An address as it is looked up: mail as :func:`afterturn.channels.email.addresses.spelt` has it."""
    return addresses.spelt(normalise(address, region)) if "@" in address else normalise(address, region)


def load_directory(path: Path, region: str | None = None) -> Directory:
    """The directory in a file. Raises ConfigError that names the entry that is wrong."""
    try:
        told = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"directory {path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"directory {path}: is not TOML: {error}") from None
    if odd := sorted(set(told) - set(_TABLES)):
        raise ConfigError(f"directory {path}: {odd[0]!r} is unknown; there are [accounts] and [people]")
    return Directory(**{name: _table(path, name, told.get(name, {}), region) for name in _TABLES})


def _table(path: Path, name: str, told: object, region: str | None) -> dict[str, str]:
    if not isinstance(told, dict):
        raise ConfigError(f"directory {path}: {name} is no table; write [{name}]")
    found: dict[str, str] = {}
    for address, property_id in told.items():
        place = f"directory {path}: {name}.{address!r}"
        if not isinstance(property_id, str):
            raise ConfigError(f"{place}: its property has to be a text")
        try:
            check_id(property_id)
        except ValueError as error:
            raise ConfigError(f"{place}: its property {error}") from None
        if property_id == UNASSIGNED:
            raise ConfigError(f"{place}: {UNASSIGNED} is reserved; leave the entry out")
        key = spelt(address, region)
        if found.get(key, property_id) != property_id:
            raise ConfigError(f"{place}: the address stands twice, with two properties")
        found[key] = property_id
    return found
