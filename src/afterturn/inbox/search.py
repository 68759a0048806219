"""Full-text search in the inbox: what a page reads, and the part of a message that it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from afterturn.clock import to_text
from afterturn.errors import InvalidQuery
from afterturn.model import Message
from afterturn.store.port import Range, RecencyKey, Slice
from afterturn.store.search import Candidates, Searcher
from afterturn.store.tokenizer import SearchTerms, parse_terms

MAX_MESSAGES_READ = 20_000
"""Messages that one request may read; the conversation that exceeds it is read to its end."""

MIN_BUDGET_FOR_INDEX = 500
"""A request with a smaller row budget does not use the index: reading the rows costs less."""

SNIPPET_CHARS = 160
_LEAD_CHARS = 50


class RecencyReader(Protocol):
    """What a page reads."""

    async def recency(self, part: Range, *, before: RecencyKey | None = None, limit: int) -> Slice: ...


@dataclass(frozen=True, slots=True)
class SnippetPart:
    """A part of a snippet; ``hit``: it matches the search."""

    text: str
    hit: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """The last matching message, and the part of its text that matches, in one line."""

    message: Message
    snippet: tuple[SnippetPart, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "messageId": self.message.id,
            "at": to_text(self.message.at),
            "direction": self.message.direction.value,
            "role": self.message.role.value,
            "snippet": [{"text": piece.text, "hit": piece.hit} for piece in self.snippet],
        }


@dataclass(slots=True)
class TextSearch:
    """The search of one request."""

    searcher: Searcher
    terms: SearchTerms
    candidates: Candidates | None
    messages_left: int
    hits: dict[str, Hit] = field(default_factory=dict)

    async def search(self, ids: Sequence[str]) -> frozenset[str]:
        """Search these conversations in order. Returns those that were not read because the budget is spent."""
        candidates: dict[str, tuple[int, ...] | None] = {
            conversation_id: None if self.candidates is None else self.candidates.get(conversation_id, ())
            for conversation_id in ids
        }
        result = await self.searcher.search(candidates, self.terms, limit=max(self.messages_left, 0))
        self.messages_left -= result.messages_read
        for name, message in result.matches.items():
            spans = self.terms.spans(message.text, within=SNIPPET_CHARS)
            self.hits[name] = Hit(message, snippet(message.text, spans))
        return result.unread

    def reader(self, store: RecencyReader) -> RecencyReader:
        """The rows of the recency index that can match."""
        return store if self.candidates is None else _CandidateReader(self.searcher, tuple(self.candidates))


async def start_search(words: str, searcher: Searcher | None, *, budget: int) -> TextSearch | None:
    """What a request looks for; None where nothing can have it. Raises InvalidQuery for a store that cannot look.

    ``budget``: rows of the inbox that it may read.
    """
    if searcher is None:
        raise InvalidQuery(
            "words: of messages are searched in the embedded profile only; leave them out, or ask for the participant"
        )
    looked_for = parse_terms(words)
    if looked_for is None:
        return None
    places = None if budget <= MIN_BUDGET_FOR_INDEX else await searcher.candidates(looked_for)
    return TextSearch(searcher, looked_for, places, MAX_MESSAGES_READ)


def snippet(text: str, spans: Sequence[tuple[int, int]]) -> tuple[SnippetPart, ...]:
    """About SNIPPET_CHARS of a text in one line, from a little before the first span on; marked where spans are."""
    first = spans[0][0] if spans else 0
    start = 0 if first <= _LEAD_CHARS else _word_start(text, first - _LEAD_CHARS, first)
    end = min(len(text), start + SNIPPET_CHARS)
    pieces: list[SnippetPart] = [SnippetPart("…")] if start else []
    at = start
    for begin, until in (span for span in spans if span[0] < end):
        pieces += [SnippetPart(text[at:begin]), SnippetPart(text[begin : min(until, end)], hit=True)]
        at = min(until, end)
    pieces.append(SnippetPart(text[at:end] + ("…" if end < len(text) else "")))
    return tuple(SnippetPart(_one_line(piece.text), piece.hit) for piece in pieces if piece.text)


def _word_start(text: str, start: int, end: int) -> int:
    """Behind the first blank, so that no word begins in its middle; ``start`` where there is none."""
    blank = text.find(" ", start, end)
    return start if blank < 0 else blank + 1


def _one_line(text: str) -> str:
    """Runs of blanks and line ends as one blank, also at the ends: there another piece may go on."""
    words = " ".join(text.split())
    if not words:
        return " " if text else ""
    return f"{' ' if text[0].isspace() else ''}{words}{' ' if text[-1].isspace() else ''}"


@dataclass(slots=True)
class _CandidateReader:
    """``by_property``: so that each of many properties is asked for its own alone."""

    searcher: Searcher
    ids: tuple[str, ...]
    by_property: Mapping[str | None, tuple[str, ...]] | None = None

    async def recency(self, part: Range, *, before: RecencyKey | None = None, limit: int) -> Slice:
        ids = self.ids
        if part.of_property:
            if self.by_property is None:
                self.by_property = await self.searcher.by_property(ids)
            ids = self.by_property.get(part.property_id, ())
            if not ids:
                return Slice((), exhausted=True)
        return await self.searcher.recency_of(part, ids, before=before, limit=limit)
