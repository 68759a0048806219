"""The small language in which rules are written, and a fast search for many phrases at once.

Texts are compared word by word, without case, accents and punctuation; short forms are written out (``it's`` is
``it is``, ``isnt`` is ``isn't``). A phrase is a row of words:

=============  ====================================================================
``leak*``      any word that begins with ``leak``
``...``        up to five other words, not across the end of a sentence
``(a|b c)``    one of these
``{home}``     any entry of the word list ``home`` of the same file
``please?``    may be missing; also ``(the|my)?`` and ``{home}?``
``#``          a number
``.``          the beginning or the end of a sentence
``?``          a question mark
=============  ====================================================================

>>> taps = WordLists({"tap": ["tap", "kitchen faucet"]})
>>> book = PhraseBook([("leak", compile_phrase("{tap} ... leak*", taps))])
>>> book.find(read("The kitchen faucet in 4B is LEAKING!"))
{'leak'}
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

MAX_CHARS = 20_000
"""How much of one text is read: what comes later in a mail is quoted history."""

_GAP = r"(?: [^.? ]+){0,5}?"
_TOKENS = re.compile(r"(?<![^\W_])(?:[cdjlmnst]|qu)(?='[^\W\d_]{3})|[^\W_]+(?:'[^\W_]+)*|[.!?;:\n]")
"""French elisions (l'eau) are words of their own."""
_SHORT_FORMS = re.compile(r"'(s|re|m|ve|ll)\b")
_LONG_FORMS = {"s": " is", "re": " are", "m": " am", "ve": " have", "ll": " will"}
_NEGATED = ("aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "wasn", "weren", "wouldn")
_SPELLINGS = {
    "cant": "can't",
    "wont": "won't",
    **{f"{verb}t": f"{verb}'t" for verb in _NEGATED},
    **dict.fromkeys("!;:\n", "."),
}
_PARTS = re.compile(r"\s*(\.\.\.|\{[^{}]*\}\??|\([^()]*\)\??|[^\s(){}]+)")
_SIGNS = {"#": " [0-9]+", ".": " [.?]", "?": " [?]"}
_STEM_KEY = 3
_SHORT = 3
"""Words of so few letters are mostly the ones that every text has; they make poor anchors."""
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "`": "'", "\u00b4": "'"})

K = TypeVar("K")

_Row = tuple[str, ...]
"""One of the things that a part of a phrase stands for, word by word."""


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text made ready for the search: its words, and the line on which phrases are looked for."""

    words: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class Phrase:
    """A phrase. Every match holds one of ``anchors`` (``*``: a word that begins so)."""

    source: str
    expression: str
    anchors: frozenset[str]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled at the first use: most phrases of a file are never needed in a short-lived process."""
        return re.compile(self.expression)


def read(text: str) -> ReadText:
    """Prepare a text for any number of phrase books."""
    tokens = _tokens(text[:MAX_CHARS])
    return ReadText(words=tuple(dict.fromkeys(tokens)), line=f" . {' '.join(tokens)} . ")


class WordLists:
    """Named word lists. Each is expanded once, however many phrases name it."""

    def __init__(self, lists: Mapping[str, Sequence[str]], base: WordLists | None = None) -> None:
        self._lists = lists
        self._base = base
        self._rows: dict[str, list[_Row]] = {}
        self._branches: dict[str, tuple[str, frozenset[str] | None]] = {}

    def rows(self, name: str, path: tuple[str, ...] = ()) -> list[_Row]:
        """What ``{name}`` stands for; raises ValueError where it stands for nothing."""
        if name not in self._lists and self._base:
            return self._base.rows(name)
        if name not in self._lists:
            raise ValueError(f"there is no word list {name!r}")
        if name in path:
            raise ValueError(f"the word list {name!r} contains itself")
        if not self._lists[name]:
            raise ValueError(f"the word list {name!r} is empty")
        if name not in self._rows:
            inner = (*path, name)
            self._rows[name] = [row for entry in self._lists[name] for row in _rows(entry, self, inner)]
        return self._rows[name]

    def branches(self, part: str) -> tuple[str, frozenset[str] | None]:
        """One part of a phrase as an expression, with its anchors."""
        if part.startswith("{") and part[1:-1] not in self._lists and self._base:
            return self._base.branches(part)
        if part not in self._branches:
            rows = _choices(part, self, ())
            expression = "|".join("".join(_word_pattern(word) for word in row) for row in rows)
            self._branches[part] = f"(?:{expression})", _anchors(rows)
        return self._branches[part]


def compile_phrase(source: str, lists: WordLists | None = None) -> Phrase:
    """Compile one phrase; raises ValueError that says what is wrong with it."""
    lists = lists or WordLists({})
    expression = ""
    best: frozenset[str] | None = None
    for part in _split(source):
        if part == "...":
            expression += _GAP
            continue
        optional = part.endswith("?") and len(part) > 1
        branches, anchors = lists.branches(part[:-1] if optional else part)
        expression += branches + "?" * optional
        if not optional:
            best = _better(best, anchors)
    if best is None:
        raise ValueError(f"phrase {source!r}: has no word that must be there")
    return Phrase(source=source, expression=expression + "(?= )", anchors=best)


class PhraseBook(Generic[K]):
    """Phrases, each filed under a key; a text is tried only on those that have a word in common with it."""

    def __init__(self, entries: Iterable[tuple[K, Phrase]]) -> None:
        self._words: dict[str, list[tuple[K, Phrase]]] = {}
        self._stems: dict[str, list[tuple[str, K, Phrase]]] = {}
        for key, phrase in entries:
            for anchor in phrase.anchors:
                if anchor.endswith("*"):
                    stem = anchor[:-1]
                    self._stems.setdefault(stem[:_STEM_KEY], []).append((stem, key, phrase))
                else:
                    self._words.setdefault(anchor, []).append((key, phrase))

    def find(self, text: ReadText) -> set[K]:
        """The keys of all phrases that the text holds."""
        matched: set[K] = set()
        line = text.line
        for key, phrase in self._candidates(text):
            if key not in matched and phrase.pattern.search(line):
                matched.add(key)
        return matched

    def hide(self, text: ReadText) -> dict[K, ReadText]:
        """For each key with a match: the text with all the matched words hidden."""
        spans: dict[K, set[tuple[int, int]]] = {}
        for key, phrase in self._candidates(text):
            for match in phrase.pattern.finditer(text.line):
                spans.setdefault(key, set()).add(match.span())
        return {key: ReadText(text.words, _hidden(text.line, hits)) for key, hits in spans.items()}

    def _candidates(self, text: ReadText) -> Iterable[tuple[K, Phrase]]:
        words, stems = self._words, self._stems
        for word in text.words:
            if word in words:
                yield from words[word]
            for stem, key, phrase in stems.get(word[:_STEM_KEY], ()):
                if word.startswith(stem):
                    yield key, phrase


def _hidden(line: str, spans: set[tuple[int, int]]) -> str:
    """The line with a placeholder for each word inside one of the spans, so that gaps keep their length."""
    pieces = []
    position = 0
    for start, end in sorted(spans):
        if end > position:
            pieces += [line[position:start], " _" * line.count(" ", max(start, position), end)]
            position = end
    return "".join(pieces) + line[position:]


def _tokens(text: str) -> list[str]:
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKD", text.translate(_APOSTROPHES).casefold())
        text = "".join(char for char in text if not unicodedata.combining(char))
    if "'" in text:
        text = _SHORT_FORMS.sub(lambda match: _LONG_FORMS[match[1]], text)
    return [_SPELLINGS.get(word, word) for word in _TOKENS.findall(text)]


def _split(source: str) -> list[str]:
    parts: list[str] = []
    position = 0
    end = len(source.rstrip())
    while position < end:
        match = _PARTS.match(source, position)
        if not match:
            raise ValueError(f"phrase {source!r}: unbalanced bracket at character {position}")
        parts.append(match[1])
        position = match.end()
    if not parts:
        raise ValueError("a phrase is empty")
    if "..." in (parts[0], parts[-1]):
        raise ValueError(f"phrase {source!r}: '...' stands between words, not at an end")
    return parts


def _choices(part: str, lists: WordLists, path: tuple[str, ...]) -> list[_Row]:
    """The rows of words that one part of a phrase stands for."""
    if part.startswith("{"):
        return lists.rows(part[1:-1], path)
    if part.startswith("("):
        return [row for entry in part[1:-1].split("|") for row in _rows(entry, lists, path)]
    return [_words(part)]


def _rows(entry: str, lists: WordLists, path: tuple[str, ...]) -> list[_Row]:
    """An entry of a list or of a bracket: one row of words, or several where it holds lists itself."""
    parts = _split(entry)
    if "..." in parts or any(part.endswith("?") for part in parts):
        raise ValueError(f"{entry!r}: neither '...' nor '?' can stand inside a list or a bracket")
    rows: list[_Row] = [()]
    for part in parts:
        rows = [(*row, *more) for row in rows for more in _choices(part, lists, path)]
    return rows


def _words(part: str) -> _Row:
    if part in _SIGNS:
        return (part,)
    words = [word for word in _tokens(part.removesuffix("*")) if word not in ".?"]
    if not words or "*" in part[:-1] or any(char in part for char in "{}()|#"):
        raise ValueError(f"{part!r} is neither a word nor a stem such as leak* nor a list such as {{home}}")
    if part.endswith("*"):
        if len(words[-1]) < _STEM_KEY:
            raise ValueError(f"the stem {part!r} needs at least {_STEM_KEY} letters")
        words[-1] += "*"
    return tuple(words)


def _word_pattern(word: str) -> str:
    if word in _SIGNS:
        return _SIGNS[word]
    if word.endswith("*"):
        return " " + re.escape(word[:-1]) + "[^ ]*"
    return " " + re.escape(word)


def _anchors(choices: list[_Row]) -> frozenset[str] | None:
    anchors = set()
    for choice in choices:
        words = [word for word in choice if word not in _SIGNS]
        if not words:
            return None
        anchors.add(max(words, key=len))
    return frozenset(anchors)


def _better(current: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if current is None or other is None:
        return current or other

    def cost(anchors: frozenset[str]) -> tuple[int, int]:
        return sum(len(anchor) <= _SHORT for anchor in anchors), len(anchors)

    return min(current, other, key=cost)
