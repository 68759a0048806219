"""What the inbox is asked for, out of an address and back into one. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from afterturn.channels.email.addresses import spelt
from afterturn.errors import InvalidQuery, InvalidRecord
from afterturn.ids import normalise
from afterturn.inbox import InboxQuery, Window
from afterturn.model import UNASSIGNED, parse
from afterturn.web.pages.format import CHANNELS

PAGE = 50

Pairs = tuple[tuple[str, str], ...]

_FIELDS = {
    "property": "properties",
    "channel": "channels",
    "type": "types",
    "topic": "topics",
    "grade": "grades",
    "owed": "owed",
    "failed": "failed",
}
"""Names in the address that may come several times, and their fields of a query."""

_SINGLE = ("window", "status", "participant", "words")
_TOGGLES = {"synthetic": "include_synthetic"}
_NAMES = (*_SINGLE, *_FIELDS, *_TOGGLES)

_CHANNELS = {channel.value: name for channel, name in CHANNELS.items()}

_PHONE = re.compile(r"[+(]?[0-9][0-9 ().\-/]{4,}\Z")


def read_query(pairs: Iterable[tuple[str, str]], *, limit: int = PAGE) -> InboxQuery:
    """The query in an address. Blank fields of the form ask nothing. Raises InvalidQuery and InvalidRecord."""
    asked: dict[str, object] = {"limit": limit}
    many: dict[str, list[str]] = {}
    for name, given in pairs:
        value = given.strip()
        if name not in _NAMES:
            raise InvalidQuery("the address asks for a filter that does not exist; start again from the inbox")
        if not value:
            continue
        if name in _FIELDS:
            kept = many.setdefault(_FIELDS[name], [])
            if value not in kept:
                kept.append(_spelt(name, value))
        elif name in _TOGGLES:
            asked[_TOGGLES[name]] = value == "1"
        else:
            asked[name] = value
    return _parsed({**asked, **many})


def pairs_of(query: InboxQuery) -> Pairs:
    """The address of a query; what is asked for twice in different order has the same one."""
    found: list[tuple[str, str]] = []
    if query.window is not None and query.window is not Window.ALL:
        found.append(("window", query.window.value))
    for name, field in _FIELDS.items():
        found += [(name, str(value)) for value in getattr(query, field)]
    if query.status is not None:
        found.append(("status", query.status.value))
    if query.participant is not None:
        found.append(("participant", query.participant))
    if query.words:
        found.append(("words", query.words))
    if query.include_synthetic:
        found.append(("synthetic", "1"))
    return tuple(found)


def without(pairs: Pairs, *taken: tuple[str, str]) -> Pairs:
    return tuple(pair for pair in pairs if pair not in taken)


def replaced(pairs: Pairs, name: str, value: str | None) -> Pairs:
    """The same with one field set, or taken out."""
    rest = tuple(pair for pair in pairs if pair[0] != name)
    return rest if value is None else ((name, value), *rest)


def told(name: str, value: str) -> str:
    """A filter in words."""
    any_reaction = "any reaction" if value == "any" else value
    words = {
        "property": "Unassigned" if value == UNASSIGNED else f"Property {value}",
        "channel": _CHANNELS.get(value, value),
        "owed": f"Owed: {any_reaction}",
        "failed": f"Failed: {any_reaction}",
        "status": value.capitalize(),
        "synthetic": "Tests shown",
        "window": f"Last {value}",
        "participant": value,
        "words": f"Words: {value}",
    }
    return words.get(name, f"{name.capitalize()} {value}")


def address_of_person(words: str, region: str | None = None) -> str | None:
    """A phone number or an e-mail address that was typed into the search box, spelt as conversations have it."""
    words = words.strip()
    if "@" in words and " " not in words:
        return spelt(words.removeprefix("mailto:"))
    return normalise(words, region) if _PHONE.match(words) else None


def _parsed(asked: dict[str, object]) -> InboxQuery:
    """Raises InvalidRecord that names what stands in the address."""
    try:
        return parse(InboxQuery, asked)
    except InvalidRecord as error:
        field = error.field.partition("[")[0]
        names = {one: name for name, one in (*_FIELDS.items(), *_TOGGLES.items())}
        raise InvalidRecord(names.get(field, error.field), error.problem) from None


def _spelt(name: str, value: str) -> str:
    return value.upper() if name == "grade" else value


def options(known: Iterable[str], chosen: Sequence[str]) -> tuple[str, ...]:
    """What can be ticked: what is known, and what is chosen already."""
    return tuple(dict.fromkeys([*sorted(set(known)), *chosen]))
