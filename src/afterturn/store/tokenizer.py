"""Cuts texts into normalized words, and parses search terms. Pure.

Normalizing removes case, accents and everything but letters, digits and the vowel signs of other scripts. Words are
separated by one blank. Scripts without blanks between words (and Korean, which appends particles) are cut into
overlapping pairs of characters, the last one alone, so that any part of a sentence is found.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

MAX_WORDS_CHARS = 200

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff"
    "\uaa60-\uaa7f\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]+"
)
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese, Korean."""

_ASCII_WORD = re.compile("[a-z0-9]+")
_ACCENTS = frozenset({1, *range(10, 37), *range(200, 241)})
"""Canonical combining classes: strokes, the points of Hebrew, Arabic and Syriac, accents. Signs that make another
letter (Devanagari, Thai, the voice marks of Japanese) have others."""
_STROKES = {"ł": "l", "ø": "o", "đ": "d", "ħ": "h", "ı": "i", "ŧ": "t"}
"""Letters that people type without their stroke; Unicode does not decompose them."""


class _Letters(dict[int, str | None]):
    """The replacement of each character of a decomposed text; filled on demand."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        kind = unicodedata.category(char)
        found: str | None = " "
        if kind[0] == "M":
            selects = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
            found = None if unicodedata.combining(char) in _ACCENTS or selects or kind == "Me" else char
        elif kind == "Cf":
            found = None
        elif kind[0] in "LN" or kind == "Co":
            found = _STROKES.get(char, char)
        self[code] = found
        return found


_LETTERS = _Letters()


def normalized(text: str) -> str:
    """The words of a text, each between blanks: ``" cafe "``; a single blank if there are none."""
    return f" {' '.join(tokens(text))} "


def tokens(text: str) -> list[str]:
    """The words of a text in order; overlapping pairs in scripts without blanks."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    joined = unicodedata.normalize("NFC", apart.translate(_LETTERS))
    if not _UNSPACED.search(joined):
        return joined.split()
    return [token for word in joined.split() for token in _cut(word)]


def _cut(word: str) -> Iterator[str]:
    end = 0
    for run in _UNSPACED.finditer(word):
        if end < run.start():
            yield word[end : run.start()]
        end = run.end()
        for place in range(run.start(), end):
            yield word[place : min(place + 2, end)]
    if end < len(word):
        yield word[end:]


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """A word, or several with only punctuation between them.

    ``is_prefix``: the last token may be the beginning of a word.
    """

    tokens: tuple[str, ...]
    is_prefix: bool

    @property
    def text(self) -> str:
        """The term as part of a normalized text."""
        return f" {' '.join(self.tokens)}{'' if self.is_prefix else ' '}"

    def matches(self, placed: Sequence[tuple[str, int, int]]) -> bool:
        """Whether these tokens of a text begin with the term."""
        *head, last = self.tokens
        if len(placed) <= len(head) or any(placed[step][0] != token for step, token in enumerate(head)):
            return False
        token = placed[len(head)][0]
        return token.startswith(last) if self.is_prefix else token == last


@dataclass(frozen=True)
class SearchTerms:
    """The terms of a search: all of them in one message."""

    terms: tuple[SearchTerm, ...]

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(needle.text for needle in self.terms)

    def match(self, text: str) -> bool:
        spelt = normalized(text)
        return all(one in spelt for one in self._texts)

    @property
    def whole_tokens(self) -> frozenset[str]:
        """Whole tokens of a matching message."""
        return frozenset(token for one in self.terms for token in (one.tokens[:-1] if one.is_prefix else one.tokens))

    @property
    def prefixes(self) -> frozenset[str]:
        """Prefixes of tokens of a matching message."""
        return frozenset(one.tokens[-1] for one in self.terms if one.is_prefix)

    def spans(self, text: str, *, within: int | None = None) -> list[tuple[int, int]]:
        """The spans of the terms in a text, in order, without overlaps.

        ``within``: only spans that start within this many characters of the first; the rest is not read.
        """
        placed = _placed(text)
        ahead = deque(islice(placed, max(len(needle.tokens) for needle in self.terms)))
        found: list[tuple[int, int]] = []
        while ahead:
            token, start, _ = ahead[0]
            if found and within is not None and start - found[0][0] >= within:
                break
            for needle in (*self._by_first_token.get(token, ()), *self._prefix_terms):
                if needle.matches(ahead):
                    found.append((start, ahead[len(needle.tokens) - 1][2]))
            ahead.popleft()
            ahead.extend(islice(placed, 1))
        return _united(found)

    @cached_property
    def _prefix_terms(self) -> tuple[SearchTerm, ...]:
        """Terms of a single prefix."""
        return tuple(one for one in self.terms if one.is_prefix and len(one.tokens) == 1)

    @cached_property
    def _by_first_token(self) -> dict[str, list[SearchTerm]]:
        """The other terms by their first token, so that a text is read once for any number of terms."""
        found: dict[str, list[SearchTerm]] = {}
        for one in self.terms:
            if one not in self._prefix_terms:
                found.setdefault(one.tokens[0], []).append(one)
        return found


def parse_terms(words: str) -> SearchTerms | None:
    """Parse a search text; its last word may be a prefix. None if it holds no letter and no digit."""
    needles: list[SearchTerm] = []
    pieces = words.split()
    for number, piece in enumerate(pieces, 1):
        found = tokens(piece)
        if not found:
            continue
        lone = len(found[-1]) == 1 and _UNSPACED.match(found[-1]) is not None
        if lone and len(found) > 1 and len(found[-2]) == 2 and found[-2][1] == found[-1]:
            found.pop()  # the sentence may go on behind the last pair
            needles.append(SearchTerm(tuple(found), is_prefix=False))
        else:
            needles.append(SearchTerm(tuple(found), is_prefix=lone or number == len(pieces)))
    return SearchTerms(tuple(dict.fromkeys(needles))) if needles else None


def _placed(text: str) -> Iterator[tuple[str, int, int]]:
    """The tokens of a text with their start and end."""
    if text.isascii():
        yield from ((word.group(), *word.span()) for word in _ASCII_WORD.finditer(text.lower()))
        return
    for word in re.finditer("w+", text.translate(_SHAPES)):
        end = word.start()
        for run in _UNSPACED.finditer(text, word.start(), word.end()):
            yield from _spread(text, end, run.start())
            yield from _spread(text, run.start(), run.end())
            end = run.end()
        yield from _spread(text, end, word.end())


def _spread(text: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    found = tokens(text[start:end])
    one_by_one = len(found) == end - start and bool(found) and _UNSPACED.match(found[0]) is not None
    for place, token in enumerate(found, start):
        yield (token, place, min(place + 2, end)) if one_by_one else (token, start, end)


class _Shapes(dict[int, str]):
    """Maps characters of words to ``w`` and others to a blank, one to one, so that positions stay."""

    def __missing__(self, code: int) -> str:
        apart = unicodedata.normalize("NFKD", chr(code))
        self[code] = "w" if any(_LETTERS[ord(char)] != " " for char in apart) else " "
        return self[code]


_SHAPES = _Shapes()


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
