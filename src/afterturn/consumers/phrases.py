"""The small language in which rules are written, and a fast search for many phrases at once.

Texts are compared without case, accents and punctuation, word by word. A phrase is a row of words:

=============  ====================================================================
``leak*``      any word that begins with ``leak``
``...``        up to five other words, not across the end of a sentence
``(a|b c)``    one of these
``{home}``     any entry of the word list ``home`` of the same file
``please?``    may be missing; also ``(the|my)?`` and ``{home}?``
``#``          a number
=============  ====================================================================

>>> book = PhraseBook([("leak", compile_phrase("{tap} ... leak*", {"tap": ["tap", "kitchen faucet"]}))])
>>> book.find(read("The kitchen faucet in 4B is LEAKING!"))
{'leak'}
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

MAX_CHARS = 20_000
"""How much of one text is read: what comes later in a mail is quoted history."""

_GAP = r"(?: [^.? ]+){0,5}"
_TOKENS = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[.!?;:\n]")
_PARTS = re.compile(r"\s*(\.\.\.|\{[^{}]*\}\??|\([^()]*\)\??|[^\s(){}]+)")
_STEM_KEY = 3
_SHORT = 3
"""Words of so few letters are mostly the ones that every text has; they make poor anchors."""
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "`": "'", "\u00b4": "'"})

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text made ready for the search: its words, and the line on which phrases are looked for."""

    words: frozenset[str]
    line: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A compiled phrase. Every match holds one of ``anchors`` (``*``: a word that begins so)."""

    source: str
    pattern: re.Pattern[str]
    anchors: frozenset[str]


def read(text: str) -> ReadText:
    """Prepare a text for any number of phrase books."""
    tokens = _tokens(text[:MAX_CHARS])
    return ReadText(words=frozenset(tokens), line=f" {' '.join(tokens)} ")


def compile_phrase(source: str, lists: Mapping[str, Sequence[str]] | None = None) -> Phrase:
    """Compile one phrase; raises ValueError that says what is wrong with it."""
    parts = _split(source)
    pattern = ""
    best: frozenset[str] | None = None
    for part in parts:
        if part == "...":
            pattern += _GAP
            continue
        optional = part.endswith("?") and len(part) > 1
        choices = _choices(part.removesuffix("?") if optional else part, lists or {}, ())
        branches = "|".join("".join(_word_pattern(word) for word in choice) for choice in choices)
        pattern += f"(?:{branches})" + ("?" if optional else "")
        if not optional:
            best = _better(best, _anchors(choices))
    if best is None:
        raise ValueError(f"phrase {source!r}: has no word that must be there")
    return Phrase(source=source, pattern=re.compile(pattern + "(?= )"), anchors=best)


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
        found: set[K] = set()
        line = text.line
        for key, phrase in self._candidates(text):
            if key not in found and phrase.pattern.search(line):
                found.add(key)
        return found

    def hide(self, text: ReadText) -> Mapping[K, ReadText]:
        """For each key with a match: the text with the matched words hidden."""
        hidden: dict[K, ReadText] = {}
        for key, phrase in self._candidates(text):
            line = hidden[key].line if key in hidden else text.line
            shorter, count = phrase.pattern.subn(" _", line)
            if count:
                hidden[key] = ReadText(words=text.words, line=shorter)
        return hidden

    def _candidates(self, text: ReadText) -> Iterable[tuple[K, Phrase]]:
        words, stems = self._words, self._stems
        for word in text.words:
            if word in words:
                yield from words[word]
            for stem, key, phrase in stems.get(word[:_STEM_KEY], ()):
                if word.startswith(stem):
                    yield key, phrase


def _tokens(text: str) -> list[str]:
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKD", text.translate(_APOSTROPHES).casefold())
        text = "".join(char for char in text if not unicodedata.combining(char))
    return ["." if word in "!;:\n" else word for word in _TOKENS.findall(text)]


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


def _choices(part: str, lists: Mapping[str, Sequence[str]], path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows of words that one part of a phrase stands for."""
    if part.startswith("{"):
        name = part[1:-1]
        if name not in lists:
            raise ValueError(f"there is no word list {name!r}")
        if name in path:
            raise ValueError(f"the word list {name!r} contains itself")
        if not lists[name]:
            raise ValueError(f"the word list {name!r} is empty")
        return [row for entry in lists[name] for row in _rows(entry, lists, (*path, name))]
    if part.startswith("("):
        return [row for entry in part[1:-1].split("|") for row in _rows(entry, lists, path)]
    return [_words(part)]


def _rows(entry: str, lists: Mapping[str, Sequence[str]], path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """An entry of a list or of a bracket: one row of words, or several where it holds lists itself."""
    parts = _split(entry)
    if "..." in parts or any(part.endswith("?") for part in parts):
        raise ValueError(f"{entry!r}: neither '...' nor '?' can stand inside a list or a bracket")
    rows: list[tuple[str, ...]] = [()]
    for part in parts:
        rows = [(*row, *more) for row in rows for more in _choices(part, lists, path)]
    return rows


def _words(part: str) -> tuple[str, ...]:
    if part == "#":
        return ("#",)
    words = [word for word in _tokens(part.removesuffix("*")) if word not in ".?"]
    if not words or "*" in part[:-1] or any(char in part for char in "{}()|#"):
        raise ValueError(f"{part!r} is neither a word nor a stem such as leak* nor a list such as {{home}}")
    if part.endswith("*"):
        if len(words[-1]) < _STEM_KEY:
            raise ValueError(f"the stem {part!r} needs at least {_STEM_KEY} letters")
        words[-1] += "*"
    return tuple(words)


def _word_pattern(word: str) -> str:
    if word == "#":
        return " [0-9]+"
    if word.endswith("*"):
        return " " + re.escape(word[:-1]) + "[^ ]*"
    return " " + re.escape(word)


def _anchors(choices: list[tuple[str, ...]]) -> frozenset[str] | None:
    anchors = set()
    for choice in choices:
        words = [word for word in choice if word != "#"]
        if not words:
            return None
        anchors.add(max(words, key=len))
    return frozenset(anchors)


def _better(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return one or other

    def cost(anchors: frozenset[str]) -> tuple[int, int]:
        return sum(len(anchor) <= _SHORT for anchor in anchors), len(anchors)

    return min(one, other, key=cost)
