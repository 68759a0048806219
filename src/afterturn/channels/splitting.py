"""Long texts cut into what a channel carries. Pure.

The pieces put together are the text again. A cut falls on the best border that leaves a piece half full: between
paragraphs, lines, sentences, words; else between characters as people see them, outside of web addresses; and only
where there is no border at all, inside.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from afterturn.channels.sending import Reason, Undeliverable

Width = Callable[[str], int]
"""How much of the limit a character takes."""

GSM_EXTENSION = frozenset("^{}\\[~]|€\f")
"""Characters that take two in the alphabet of SMS."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[!-~]+|(?<![!-~])www\.[!-~]+|(?<![!-~])[!-~]+@[!-~]+")
_ENDS = frozenset(".!?…;:")
_ENDS_ALONE = frozenset("。！？；।॥")
_JOINER = "\u200d"
_VIRAMA = 9
"""The combining class of what ties two letters of India's scripts together."""


def utf16_width(char: str) -> int:
    """In UTF-16, as Telegram counts."""
    return 2 if ord(char) > 0xFFFF else 1


def sms_width(char: str) -> int:
    """As SMS counts, in whichever of its two alphabets is the worse."""
    return 2 if ord(char) > 0xFFFF or char in GSM_EXTENSION else 1


def split(text: str, limit: int, width: Width = utf16_width) -> tuple[str, ...]:
    """The pieces, none wider than ``limit``, which is 2 or more; none for an empty text."""
    pieces, start, spans = [], 0, _spans(text)
    while start < len(text):
        end = _reach(text, start, limit, width)
        if end < len(text):
            end = _border(text, start, end, spans)
        pieces.append(text[start:end])
        start = end
    return tuple(pieces)


def split_to_send(text: str, limit: int, width: Width, *, max_parts: int, provider: str) -> tuple[str, ...]:
    """The pieces that hold more than space: no channel sends the others. Raises Undeliverable for too many."""
    pieces: tuple[str, ...] = ()
    if len(text) <= limit * max_parts:  # bounded before the work begins
        pieces = tuple(piece for piece in split(text, limit, width) if piece.strip())
    if len(text) > limit * max_parts or len(pieces) > max_parts:
        raise Undeliverable(provider, Reason.TOO_LONG)
    return pieces


def _reach(text: str, start: int, limit: int, width: Width) -> int:
    """The furthest end that the limit allows."""
    used, end = 0, start
    while end < len(text) and (used := used + width(text[end])) <= limit:
        end += 1
    return max(end, start + 1)


def _border(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> int:
    half = start + (end - start) // 2
    near = [span for span in spans if span[0] < end and span[1] > start]
    for is_border, least in (
        (_paragraph, half),
        (_line, half),
        (_sentence, half),
        (_word, half),
        (_word, start),
        (_seen, start),
    ):
        for at in range(end, least, -1):
            if is_border(text, at) and (is_border is not _seen or not _inside(at, near)):
                return at
    return next((at for at in range(end, start, -1) if _seen(text, at)), end)


def _paragraph(text: str, at: int) -> bool:
    return text.endswith(("\n\n", "\r\n\r\n"), 0, at) and text[at] not in "\r\n"


def _line(text: str, at: int) -> bool:
    return text[at - 1] == "\n"


def _sentence(text: str, at: int) -> bool:
    if text[at - 1] in _ENDS_ALONE:
        return _seen(text, at)
    return text[at - 1].isspace() and at > 1 and text[at - 2] in _ENDS and _word(text, at)


def _word(text: str, at: int) -> bool:
    return text[at - 1].isspace() and not text[at].isspace() and _seen(text, at)


def _seen(text: str, at: int) -> bool:
    """Whether two characters that people see meet here (what matters of Unicode's annex 29)."""
    before, after = text[at - 1], text[at]
    if before in "\r\n" or after in "\r\n":
        return (before, after) != ("\r", "\n")
    if _JOINER in (before, after) or _extends(after) or unicodedata.combining(before) == _VIRAMA:
        return False
    if _flag(before) and _flag(after):
        return _flags_before(text, at) % 2 == 0
    return not _one_syllable(before, after)


def _extends(char: str) -> bool:
    """Whether it belongs to what stands before it: accents, tones of skin, parts of flags."""
    return (
        unicodedata.category(char) in ("Mn", "Me", "Mc")
        or char in "\u200c\u0e33\u0eb3\uff9e\uff9f"
        or _between(char, 0x1F3FB, 0x1F3FF)
        or _between(char, 0xE0020, 0xE007F)
    )


def _between(char: str, low: int, high: int) -> bool:
    return low <= ord(char) <= high


def _flag(char: str) -> bool:
    return _between(char, 0x1F1E6, 0x1F1FF)


def _flags_before(text: str, at: int) -> int:
    count = 0
    while at > count and _flag(text[at - count - 1]):
        count += 1
    return count


def _one_syllable(before: str, after: str) -> bool:
    """Letters of Hangul that make one syllable."""
    if _between(after, 0x1160, 0x11FF):
        return _between(before, 0x1100, 0x11FF) or _between(before, 0xAC00, 0xD7A3)
    return _between(before, 0x1100, 0x115F) and (_between(after, 0x1100, 0x115F) or _between(after, 0xAC00, 0xD7A3))


def _spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _URL.finditer(text)]


def _inside(at: int, spans: list[tuple[int, int]]) -> bool:
    return any(start < at < end for start, end in spans)
