"""Reading of rule files: TOML that says where it is wrong.

Phrases stand in groups by language (``en = [...]``, ``es = [...]``). The language is for the reader: every text is
tried on all of them. A top-level table ``words`` holds the word lists that phrases name in braces.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from afterturn.consumers.phrases import Phrase, PhraseBook, WordLists, compile_phrase, read
from afterturn.errors import ConfigError


class RuleFile:
    """A parsed rule file. Every problem becomes a ConfigError that names file and section."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{name}: not valid TOML: {error}") from None
        self.lists = WordLists({key: self._words(key, value) for key, value in self.table("words").items()})

    def table(self, name: str) -> Mapping[str, Any]:
        """A top-level table; an empty one where it is left out."""
        value = self.data.get(name, {})
        if not isinstance(value, dict):
            raise self.error(name, "must be a table")
        return value

    def sections(self, name: str, allowed: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The named tables below a top-level one, such as each ``[topics.<name>]``."""
        tables = self.table(name)
        if not tables:
            raise self.error(name, "is missing or empty")
        for key, value in tables.items():
            where = f"{name}.{key}"
            if not isinstance(value, dict):
                raise self.error(where, "must be a table")
            for unknown in value.keys() - set(allowed):
                raise self.error(where, f"unknown key {unknown!r}; known are {', '.join(allowed)}")
            yield key, value

    def phrases(self, where: str, groups: object) -> list[Phrase]:
        """The phrases of one section, all languages together."""
        if groups is None:
            return []
        if not isinstance(groups, dict):
            raise self.error(where, 'must be a table of languages, such as en = ["..."]')
        phrases = []
        for language, sources in groups.items():
            for source in self.strings(f"{where}.{language}", sources):
                try:
                    phrases.append(compile_phrase(source, self.lists))
                except ValueError as error:
                    raise self.error(f"{where}.{language}", str(error)) from None
        return phrases

    def strings(self, where: str, value: object) -> list[str]:
        """A list of texts; an empty one where it is left out."""
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise self.error(where, "must be a list of texts")
        return value

    def label(self, where: str, section: Mapping[str, Any], key: str) -> str:
        """The ``label`` of a section, or its key."""
        value = section.get("label", key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(where, "label must be a text")
        return value

    def error(self, where: str, problem: str) -> ConfigError:
        return ConfigError(f"{self.name}: {where}: {problem}")

    def _words(self, key: str, value: object) -> list[str]:
        """A word list: a list, or a table of languages whose lists are joined."""
        where = f"words.{key}"
        if isinstance(value, dict):
            return [word for lang, part in value.items() for word in self.strings(f"{where}.{lang}", part)]
        return self.strings(where, value)


def load_rules(path: str | Path | None, shipped: str) -> RuleFile:
    """The user's file where one is named, else the one that ships with the package."""
    if path is None:
        return RuleFile(shipped, files("afterturn.consumers").joinpath(shipped).read_text("utf-8"))
    try:
        return RuleFile(str(path), Path(path).read_text("utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None


_OPENING_CHARS = 200
_OPENING_WORDS = 8


def load_answers() -> PhraseBook[bool]:
    """The ways to say yes (True) and no (False)."""
    file = load_rules(None, "agreement.toml")
    return PhraseBook(
        (meaning == "yes", phrase)
        for meaning in ("yes", "no")
        for phrase in file.phrases(f"answers.{meaning}", file.table("answers").get(meaning))
    )


def agrees(text: str, answers: PhraseBook[bool]) -> bool:
    """Whether a message opens with a yes, and not with a no."""
    opening = " ".join(text[:_OPENING_CHARS].split()[:_OPENING_WORDS])
    return answers.find(read(opening)) == {True}
