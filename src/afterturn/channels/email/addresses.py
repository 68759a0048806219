"""The addresses in a header, as the programs read them that people read mail with. Pure.

After RFC 5322, 3.4, and what is sent that does not follow it. A name is no address where one stands beside it, also
where it looks like one or is encoded: ``ceo@bank.example <jo@x.example>`` is Jo's. Nor is the inside of a quoted local
part: ``"ceo@bank.example"@x.example`` is somebody's at x.example.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator

MAX_CHARS = 65_536
"""So much of a header is looked at."""

_WORD = r"[^\s<>,;:\"()\[\]\\@]{1,64}"
_QUOTED = r"\"(?:[^\"\\]|\\.){0,200}\""
_DOMAIN = r"(?:[^\s<>,;:\"()\[\]\\@]{1,255}|\[[0-9A-Za-z.:]{2,60}\])"
_ADDRESS = re.compile(rf"({_WORD}|{_QUOTED})@({_DOMAIN})")
_PLAIN = re.compile(_WORD)
_ENCODED = re.compile(r"=\?[^?\s]{1,60}\?[bBqQ]\?[^?]{0,2000}\?=")
_QUOTE = re.compile(r"\"[^\"\\]*+(?:\\.[^\"\\]*+)*+(\"?)", re.DOTALL)
_COMMENT = re.compile(r"\([^()\\]*+(?:\\.[^()\\]*+)*+(\)?)", re.DOTALL)
_BRACKETS = re.compile(r"<[^<>]*+(>?)")
_TEXT = re.compile(r"[,;]|.[^\"(<,;]*", re.DOTALL)
_ROUTE = re.compile(r"(?:@[^:]*|mailto):", re.I)
_AT = re.compile(r" ?@ ?")
_APART = re.compile(r"[\s<>]+")


def parse_addresses(header: str) -> list[str]:
    """Each as :func:`normalise_address` spells it, in order."""
    addresses = map(_mailbox, _entries(_ENCODED.sub(" ", header[:MAX_CHARS])))
    return [address for address in addresses if address]


def normalise_address(address: str) -> str:
    """The one spelling of an address: in lower case, its domain in ASCII, its local part without needless quotes.

    >>> normalise_address('"Jo.Roe"@Bücher.example.')
    'jo.roe@xn--bcher-kva.example'
    """
    local, at, domain = address.strip().rpartition("@")
    if not at:
        return address.strip().lower()
    domain = domain.rstrip(".").lower()
    if not domain.isascii():
        with contextlib.suppress(UnicodeError):  # no domain that anybody can look up
            domain = domain.encode("idna").decode()
    if len(local) > 2 and local[0] == local[-1] == '"':
        bare = re.sub(r"\\(.)", r"\1", local[1:-1])
        local = bare if _PLAIN.fullmatch(bare) else local
    return f"{local.lower()}@{domain}"


def is_own(address: str, own_addresses: Collection[str]) -> bool:
    """Whether an address is ours, by itself or by its domain (``@example.com``)."""
    return address in own_addresses or f"@{address.rpartition('@')[2]}" in own_addresses


def _entries(header: str) -> Iterator[list[str]]:
    """What stands between commas, in tokens and without comments."""
    entry: list[str] = []
    for token in _tokens(header):
        if token in {",", ";"}:
            yield entry
            entry = []
        elif not (token.startswith("(") and token.endswith(")")):
            entry.append(token)
    yield entry


def _tokens(header: str) -> Iterator[str]:
    """Quotes, comments and brackets that are closed, commas, and what is between them."""
    delimited = {'"': _QUOTE, "(": _COMMENT, "<": _BRACKETS}
    position = 0
    while position < len(header):
        pattern = delimited.get(header[position])
        match = pattern.match(header, position) if pattern else None
        if match and not match[1]:
            if match.end() >= len(header) - 1:  # none that begins later is closed either
                del delimited[header[position]]
            match = None
        match = match or _TEXT.match(header, position)
        assert match is not None
        yield match[0]
        position = match.end()


def _mailbox(entry: list[str]) -> str | None:
    bracketed = [token[1:-1] for token in entry if token.startswith("<") and token.endswith(">")]
    if bracketed:
        return next(filter(None, (_address(_ROUTE.sub("", token.strip(), count=1)) for token in bracketed)), None)
    text = _joined("".join(entry))
    # What stands before a colon is the name of a group.
    if address := _address(text) or _address(text.rpartition(":")[2]):
        return address
    words = (word for token in entry if not token.startswith('"') for word in _APART.split(_joined(token)))
    return next(filter(None, map(_address, words)), None)


def _address(text: str) -> str | None:
    text = _joined(text)
    address = normalise_address(text) if _ADDRESS.fullmatch(text) else ""
    return address if _ADDRESS.fullmatch(address) else None  # a domain of dots alone leaves none


def _joined(text: str) -> str:
    """Without the spaces that may stand around an at sign."""
    return _AT.sub("@", " ".join(text.split()))
