"""How things are said: politeness, anger, questions, putting off, handing over (rules of ``tone.toml``)."""

from __future__ import annotations

from functools import cache

from afterturn.consumers.phrases import PhraseBook, read
from afterturn.consumers.rules import load_rules

_SHOUTED_LETTERS = 12
_CLOSING_WORDS = 6


class ToneRules:
    """Loaded rules; ``signs`` returns the sections that match a text."""

    def __init__(self) -> None:
        file = load_rules(None, "tone.toml")
        says, unless = [], []
        for section, groups in file.sections("tone", ("en", "es", "de", "fr", "unless")):
            where = f"tone.{section}"
            phrases = {language: group for language, group in groups.items() if language != "unless"}
            says += [(section, phrase) for phrase in file.phrases(where, phrases)]
            unless += [(section, phrase) for phrase in file.phrases(f"{where}.unless", groups.get("unless"))]
        self._says: PhraseBook[str] = PhraseBook(says)
        self._unless: PhraseBook[str] = PhraseBook(unless)

    def signs(self, text: str) -> frozenset[str]:
        """The sections of the file that the text matches: ``polite``, ``upset``, ``asks``, ``holding``,
        ``hands_over``, ``wants_person``, ``closes``. Any question mark counts as ``asks``, shouting in capitals as
        ``upset``, and a short message without a question closes where it thanks, or holds no words at all."""
        line = read(text)
        sections = self._says.find(line)
        hidden = self._unless.hide(line) if sections or "?" in text else {}
        for section, rest in hidden.items():
            if section in sections and section not in self._says.find(rest):
                sections.discard(section)
        if " ?" in hidden.get("asks", line).line:
            sections.add("asks")
        if "asks" in sections or ("closes" in sections and len(line.words) > _CLOSING_WORDS):
            sections.discard("closes")
        elif not any(word[0].isalnum() for word in line.words):
            sections.add("closes")
        if _shouts(text):
            sections.add("upset")
        return frozenset(sections)


@cache
def load_tone_rules() -> ToneRules:
    """The rules that ship; read once, since nobody changes them while the process runs."""
    return ToneRules()


def _shouts(text: str) -> bool:
    letters = [char for char in text[:400] if char.isalpha()]
    return len(letters) >= _SHOUTED_LETTERS and all(char.isupper() for char in letters)
