"""Whether a short answer agrees, so that "yes please" is understood from the question before it."""

from __future__ import annotations

from afterturn.consumers.phrases import PhraseBook, read
from afterturn.consumers.rules import load_rules

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
