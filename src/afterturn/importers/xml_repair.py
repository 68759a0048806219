"""Makes legal XML of what "SMS Backup & Restore" writes: emojis as two references to surrogates.

``&#55357;&#56832;`` names two halves of one character, which XML forbids and every parser refuses. The halves are
joined. What can't be repaired gets a marker, so that its record can be named and the rest of the file comes in.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

LONE_SURROGATE = "\ufdd0"
NOT_UTF8 = "\ufdd1"
"""Markers: noncharacters, which are legal XML and which a text that comes in never holds."""

_REFERENCE = re.compile(r"&#(?:x([0-9a-fA-F]{1,10})|([0-9]{1,10}));")
_UNFINISHED = re.compile(r"[\ud800-\udbff]?(?:&(?:#(?:x[0-9a-fA-F]{0,10}|[0-9]{0,10})?)?)?\Z")
_UNFINISHED_CHARS = 16
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_LONE = re.compile("[\ud800-\udfff]")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
# A text is stored with U+FFFD in place of these (afterturn.model), and XML can't hold most of them.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufdd0\ufdd1\ufffe\uffff]")


def repair(chunks: Iterable[bytes]) -> Iterator[str]:
    """The text of the chunks in pieces, in which every character and every reference is legal."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    carry, begun = "", False
    for chunk in chunks:
        text = _REFERENCE.sub(_resolved, carry + _legal(decoder.decode(chunk)))
        tail = max(0, len(text) - _UNFINISHED_CHARS)
        found = _UNFINISHED.search(text, tail)
        end = found.start() if found else len(text)
        carry = text[end:]
        # An XML declaration has to be the very first thing; an editor may have put a line before it.
        yield _joined(text[:end] if begun else text[:end].lstrip())
        begun = begun or bool(text[:end].strip())
    yield _joined(carry + _legal(decoder.decode(b"", final=True)))


def _legal(text: str) -> str:
    return _ESCAPED_BYTE.sub(NOT_UTF8, _ILLEGAL.sub("\ufffd", text))


def _resolved(reference: re.Match[str]) -> str:
    """The half of a character itself, U+FFFD for what XML can't hold, and any other reference as it is."""
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    if 0xD800 <= code <= 0xDFFF:
        return chr(code)
    if code > 0x10FFFF or _ILLEGAL.match(chr(code)):
        return "\ufffd"
    return reference[0]


def _joined(text: str) -> str:
    return _LONE.sub(LONE_SURROGATE, _PAIR.sub(_character, text))


def _character(pair: re.Match[str]) -> str:
    return chr(0x10000 + ((ord(pair[1]) - 0xD800) << 10) + (ord(pair[2]) - 0xDC00))
