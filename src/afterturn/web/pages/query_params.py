"""The query of the inbox in a page's address, and the address of a query. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from urllib.parse import quote, urlencode

from afterturn.channels.email.addresses import normalise_address
from afterturn.clock import to_text
from afterturn.errors import InvalidQuery, InvalidRecord
from afterturn.ids import normalise
from afterturn.inbox import InboxQuery, TimeWindow
from afterturn.inbox.filters import BY_FIELD, BY_NAME, FILTERS
from afterturn.model import parse

PAGE = 50

Pairs = tuple[tuple[str, str], ...]

_PHONE = re.compile(r"[+(]?[0-9][0-9 ().\-/]{4,}\Z")


def read_query(pairs: Iterable[tuple[str, str]], *, limit: int = PAGE) -> InboxQuery:
    """The query of an address. Blank fields of the form select everything. Raises InvalidQuery and InvalidRecord."""
    asked: dict[str, object] = {"limit": limit}
    for name, text in pairs:
        value = text.strip()
        if name not in BY_NAME:
            raise InvalidQuery("the address asks for a filter that does not exist; start again from the inbox")
        declared = BY_NAME[name]
        if not value:
            continue
        if declared.many:
            values = asked.setdefault(declared.field, [])
            assert isinstance(values, list)
            if value not in values:
                values.append(value)
        else:
            asked[declared.field] = value
    try:
        return parse(InboxQuery, asked)
    except InvalidRecord as error:
        field = error.field.partition("[")[0]
        name = BY_FIELD[field].filter.name if field in BY_FIELD else error.field
        raise InvalidRecord(name, error.problem) from None


def pairs_of(query: InboxQuery) -> Pairs:
    """The address of a query; the order in which it was asked for makes no difference."""
    return tuple(
        (one.filter.name, _text(value)) for one in FILTERS for value in one.values(query) if value is not TimeWindow.ALL
    )


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return to_text(value)
    return "1" if value is True else str(value)


def without(pairs: Pairs, *taken: tuple[str, str]) -> Pairs:
    return tuple(pair for pair in pairs if pair not in taken)


def replaced(pairs: Pairs, name: str, value: str | None) -> Pairs:
    """The same with one field set, or taken out."""
    rest = tuple(pair for pair in pairs if pair[0] != name)
    return rest if value is None else ((name, value), *rest)


def address_of_person(words: str, region: str | None = None) -> str | None:
    """A phone number or an e-mail address that was typed into the search box, spelt as conversations have it."""
    words = words.strip()
    if "@" in words and " " not in words:
        return normalise_address(words.removeprefix("mailto:"))
    return normalise(words, region) if _PHONE.match(words) else None


def conversation_path(conversation_id: str) -> str:
    """Where its page is; an id may hold any character."""
    return f"/conversations/{quote(conversation_id, safe='')}"


def address(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """A path with a query."""
    query = urlencode(list(pairs))
    return f"{path}?{query}" if query else path
