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
        replacement: str | None = " "
        if kind[0] == "M":
            selects = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF
            replacement = None if unicodedata.combining(char) in _ACCENTS or selects or kind == "Me" else char
        elif kind == "Cf":
            replacement = None
        elif kind[0] in "LN" or kind == "Co":
            replacement = _STROKES.get(char, char)
        self[code] = replacement
        return replacement


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
        for start in range(run.start(), end):
            yield word[start : min(start + 2, end)]
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
        return tuple(term.text for term in self.terms)

    def match(self, text: str) -> bool:
        normalized_text = normalized(text)
        return all(term_text in normalized_text for term_text in self._texts)

    @property
    def whole_tokens(self) -> frozenset[str]:
        """Whole tokens of a matching message."""
        return frozenset(
            token for term in self.terms for token in (term.tokens[:-1] if term.is_prefix else term.tokens)
        )

    @property
    def prefixes(self) -> frozenset[str]:
        """Prefixes of tokens of a matching message."""
        return frozenset(term.tokens[-1] for term in self.terms if term.is_prefix)

    def spans(self, text: str, *, within: int | None = None) -> list[tuple[int, int]]:
        """The spans of the terms in a text, in order, without overlaps.

        ``within``: only spans that start within this many characters of the first; the rest is not read.
        """
        placed = _placed(text)
        ahead = deque(islice(placed, max(len(term.tokens) for term in self.terms)))
        spans: list[tuple[int, int]] = []
        while ahead:
            token, start, _ = ahead[0]
            if spans and within is not None and start - spans[0][0] >= within:
                break
            for term in (*self._by_first_token.get(token, ()), *self._prefix_terms):
                if term.matches(ahead):
                    spans.append((start, ahead[len(term.tokens) - 1][2]))
            ahead.popleft()
            ahead.extend(islice(placed, 1))
        return _united(spans)

    @cached_property
    def _prefix_terms(self) -> tuple[SearchTerm, ...]:
        """Terms of a single prefix."""
        return tuple(term for term in self.terms if term.is_prefix and len(term.tokens) == 1)

    @cached_property
    def _by_first_token(self) -> dict[str, list[SearchTerm]]:
        """The other terms by their first token, so that a text is read once for any number of terms."""
        terms: dict[str, list[SearchTerm]] = {}
        for term in self.terms:
            if term not in self._prefix_terms:
                terms.setdefault(term.tokens[0], []).append(term)
        return terms


def parse_terms(words: str) -> SearchTerms | None:
    """Parse a search text; its last word may be a prefix. None if it holds no letter and no digit."""
    terms: list[SearchTerm] = []
    pieces = words.split()
    for number, piece in enumerate(pieces, 1):
        piece_tokens = tokens(piece)
        if not piece_tokens:
            continue
        lone = len(piece_tokens[-1]) == 1 and _UNSPACED.match(piece_tokens[-1]) is not None
        if lone and len(piece_tokens) > 1 and len(piece_tokens[-2]) == 2 and piece_tokens[-2][1] == piece_tokens[-1]:
            piece_tokens.pop()  # the sentence may go on behind the last pair
            terms.append(SearchTerm(tuple(piece_tokens), is_prefix=False))
        else:
            terms.append(SearchTerm(tuple(piece_tokens), is_prefix=lone or number == len(pieces)))
    return SearchTerms(tuple(dict.fromkeys(terms))) if terms else None


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
    span_tokens = tokens(text[start:end])
    one_by_one = len(span_tokens) == end - start and bool(span_tokens) and _UNSPACED.match(span_tokens[0]) is not None
    for start_at, token in enumerate(span_tokens, start):
        yield (token, start_at, min(start_at + 2, end)) if one_by_one else (token, start, end)


class _Shapes(dict[int, str]):
    """Maps characters of words to ``w`` and others to a blank, one to one, so that positions stay."""

    def __missing__(self, code: int) -> str:
        apart = unicodedata.normalize("NFKD", chr(code))
        self[code] = "w" if any(_LETTERS[ord(char)] != " " for char in apart) else " "
        return self[code]


_SHAPES = _Shapes()


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    united: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united
