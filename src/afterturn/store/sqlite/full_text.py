"""Full-text search in a SQLite file: an index that lags behind, and messages that decide.

A settle does not write the full-text index. A partial index lists the conversations with messages that are not indexed
yet; they are indexed in batches, and read directly until then. Every message that the index returns is compared, too,
so the index may return too much but never too little.

An entry is a message. Its number consists of a block (64 messages of one conversation) and the position in it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from afterturn import telemetry
from afterturn.errors import StoreError
from afterturn.model import Message
from afterturn.sqlite.database import Database
from afterturn.store.invariants import to_dump
from afterturn.store.port import Range, RecencyKey, Slice
from afterturn.store.search import Candidates, SearchResult
from afterturn.store.sqlite import rows
from afterturn.store.tokenizer import SearchTerms, tokens

BLOCK = 64
_EDITS_AT_ONCE = 50
LONG_CHARS = 2_000
"""A message counts once more for each of these."""
_LONGEST_WORD = 4_000
"""Longer than any query; FTS5 cuts words at 32,768 bytes, possibly within a character."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits of one request.

    ``tokens``: the longest words of the query, which are looked up. ``postings``: entries of a word that are counted; a
    word with more is frequent. ``candidates``: messages that the index may return. ``lagging``: conversations that are
    read because they are not indexed yet. ``words_per_prefix``: indexed words with one prefix. ``caught_up``: messages
    that a request indexes if the index is far behind. ``batch_messages``, ``batch_bytes``: in one transaction.
    ``read_at_once``: messages in one unit of work.
    """

    tokens: int = 8
    postings: int = 100_000
    candidates: int = 5_000
    lagging: int = 200
    words_per_prefix: int = 64
    caught_up: int = 20_000
    batch_messages: int = 500
    batch_bytes: int = 500_000
    read_at_once: int = 2_000


LIMITS = SearchLimits()


class SqliteSearch:
    """The searcher on a file. Without FTS5 there is no index, and messages are read, a bounded number at a time."""

    def __init__(self, database: Database, limits: SearchLimits = LIMITS) -> None:
        self._database = database
        self._limits = limits

    async def catch_up(self, *, limit: int) -> bool:
        done = 0
        while await self._database.read(_lags):
            if done >= limit:
                return True
            taken = await self._database.write(lambda c: index_batch(c, self._limits))
            if taken is None:
                return False
            done += taken
        return False

    async def candidates(self, terms: SearchTerms) -> Candidates | None:
        try:
            if await self._database.read(lambda c: _is_far_behind(c, self._limits)):
                await self.catch_up(limit=self._limits.caught_up)
            return await self._database.read(lambda c: _candidates(c, terms, self._limits))
        except StoreError as error:  # comparing messages finds the same
            telemetry.log("search_index_failed", level=logging.ERROR, error=type(error).__name__)
            return None

    async def recency_of(
        self, part: Range, ids: Sequence[str], *, before: RecencyKey | None = None, limit: int
    ) -> Slice:
        where, values = rows.recency_conditions(part, before)
        names = to_dump(list(ids))

        def unit(connection: sqlite3.Connection) -> Slice:
            fetched = connection.execute(
                f"SELECT {rows.CONVERSATION} FROM (SELECT value AS name FROM json_each(?)) CROSS JOIN conversations "
                f"ON conversations.id = name WHERE {where} ORDER BY recency DESC, id DESC LIMIT ?",
                (names, *values, limit),
            ).fetchall()
            return Slice(rows=rows.conversations(connection, fetched), exhausted=len(fetched) < limit)

        return await self._database.read(unit)

    async def by_property(self, ids: Sequence[str]) -> Mapping[str | None, tuple[str, ...]]:
        names = to_dump(list(ids))

        def unit(connection: sqlite3.Connection) -> dict[str | None, tuple[str, ...]]:
            ids_by_property: defaultdict[str | None, list[str]] = defaultdict(list)
            for property_id, name in connection.execute(
                "SELECT property_id, conversations.id FROM json_each(?) CROSS JOIN conversations "
                "ON conversations.id = value",
                (names,),
            ):
                ids_by_property[property_id].append(name)
            return {property_id: tuple(some) for property_id, some in ids_by_property.items()}

        return await self._database.read(unit)

    async def search(self, candidates: Candidates, terms: SearchTerms, *, limit: int) -> SearchResult:
        pending = list(candidates.items())
        matches: dict[str, Message] = {}
        begun = read = 0
        while begun < len(pending) and (begun == 0 or read < limit):
            unit = _search_unit(pending[begun:], terms, min(self._limits.read_at_once, limit - read))
            batch_matches, count, batch_read = await self._database.read(unit)
            matches.update(batch_matches)
            begun += count
            read += batch_read
        return SearchResult(matches, frozenset(name for name, _ in pending[begun:]), read)


def index_batch(connection: sqlite3.Connection, limits: SearchLimits) -> int | None:
    """Index a batch of messages. Returns their number; None if this SQLite has no FTS5.

    Each batch holds at least one message, so indexing always progresses.
    """
    if not _prepare(connection):
        return None
    messages, size = _take_edits(connection, limits)
    if messages >= limits.batch_messages or size >= limits.batch_bytes:
        return messages
    behind = connection.execute(
        "SELECT id, searched_seq, message_count FROM conversations WHERE searched_seq < message_count LIMIT ?",
        (limits.batch_messages,),
    ).fetchall()
    for conversation_id, searched, count in behind:
        reached = count
        entries: list[tuple[int, str]] = []
        blocks = _Blocks(connection, conversation_id)
        for seq, text in connection.execute(
            "SELECT seq, text FROM messages WHERE conversation_id = ? AND seq > ? ORDER BY seq",
            (conversation_id, searched),
        ):
            entries.append((blocks.entry(seq), _for_index(text)))
            messages += 1
            size += len(text)
            if messages >= limits.batch_messages or size >= limits.batch_bytes:
                reached = seq
                break
        connection.executemany("INSERT INTO message_words (rowid, words) VALUES (?,?)", entries)
        connection.execute("UPDATE conversations SET searched_seq = ? WHERE id = ?", (reached, conversation_id))
        if messages >= limits.batch_messages or size >= limits.batch_bytes:
            break
    return messages


def _take_edits(connection: sqlite3.Connection, limits: SearchLimits) -> tuple[int, int]:
    """Replace the entries of edited messages. Returns their number and the size of their texts."""
    messages = size = 0
    edits = connection.execute(
        "SELECT conversation_id, seq, before, text FROM search_edits JOIN messages USING (conversation_id, seq) "
        "LIMIT ?",
        (min(limits.batch_messages, _EDITS_AT_ONCE),),
    ).fetchall()
    for conversation_id, seq, before, after in edits:
        entry = _Blocks(connection, conversation_id).entry(seq)
        connection.execute(
            "INSERT INTO message_words (message_words, rowid, words) VALUES ('delete',?,?)", (entry, _for_index(before))
        )
        connection.execute("INSERT INTO message_words (rowid, words) VALUES (?,?)", (entry, _for_index(after)))
        connection.execute("DELETE FROM search_edits WHERE conversation_id = ? AND seq = ?", (conversation_id, seq))
        messages += 1
        size += len(before) + len(after)
        if size >= limits.batch_bytes:
            break
    return messages, size


def record_edit(connection: sqlite3.Connection, conversation_id: str, seq: int, before: str) -> None:
    """Record the old text of an edited message: removing its index entry requires exactly that text."""
    connection.execute(
        "INSERT INTO search_edits (conversation_id, seq, before) SELECT id, ?, ? FROM conversations "
        "WHERE id = ? AND searched_seq >= ? ON CONFLICT DO NOTHING",
        (seq, before, conversation_id, seq),
    )


def has_fts5(connection: sqlite3.Connection) -> bool:
    """Whether this build of SQLite has FTS5."""
    return connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is not None


def _prepare(connection: sqlite3.Connection) -> bool:
    """Create the index if it is missing. It is not in the schema because SQLite may lack FTS5."""
    if not has_fts5(connection):
        return False
    if not _is_there(connection):
        connection.execute(
            "CREATE VIRTUAL TABLE message_words USING fts5"
            "(words, content='', columnsize=0, detail=none, tokenize='ascii')"
        )
        connection.execute("CREATE VIRTUAL TABLE message_terms USING fts5vocab(message_words, instance)")
    return True


def _is_there(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'message_terms'").fetchone() is not None


def _for_index(text: str) -> str:
    """The text for the FTS5 tokenizer, which handles ASCII itself."""
    return text if text.isascii() else " ".join(word[:_LONGEST_WORD] for word in tokens(text))


class _Blocks:
    """The blocks of one conversation."""

    def __init__(self, connection: sqlite3.Connection, conversation_id: str) -> None:
        self._connection = connection
        self._id = conversation_id
        self._known: dict[int, int] = {}

    def entry(self, seq: int) -> int:
        number, offset = divmod(seq - 1, BLOCK)
        if number not in self._known:
            self._connection.execute(
                "INSERT INTO search_blocks (conversation_id, number) VALUES (?,?) ON CONFLICT DO NOTHING",
                (self._id, number),
            )
            (self._known[number],) = self._connection.execute(
                "SELECT block FROM search_blocks WHERE conversation_id = ? AND number = ?", (self._id, number)
            ).fetchone()
        return self._known[number] * BLOCK + offset


def _lags(connection: sqlite3.Connection) -> bool:
    return bool(_lagging(connection, 1))


def _lagging(connection: sqlite3.Connection, limit: int) -> list[str]:
    """Conversations with messages that are not indexed yet or were edited since."""
    fetched = connection.execute("SELECT DISTINCT conversation_id FROM search_edits LIMIT ?", (limit,)).fetchall()
    fetched += connection.execute(
        "SELECT id FROM conversations WHERE searched_seq < message_count LIMIT ?", (limit - len(fetched),)
    )
    return [row[0] for row in fetched]


def _is_far_behind(connection: sqlite3.Connection, limits: SearchLimits) -> bool:
    return len(_lagging(connection, limits.lagging + 1)) > limits.lagging


def _candidates(connection: sqlite3.Connection, terms: SearchTerms, limits: SearchLimits) -> Candidates | None:
    """On one snapshot: what the index returns, and the conversations that are not indexed yet."""
    lagging = _lagging(connection, limits.lagging + 1)
    if len(lagging) > limits.lagging or not has_fts5(connection) or not _is_there(connection):
        return None
    entries = _entries(connection, terms, limits)
    if entries is None:
        return None
    return {**_by_conversation(connection, entries), **dict.fromkeys(lagging)}


def _entries(connection: sqlite3.Connection, terms: SearchTerms, limits: SearchLimits) -> list[int] | None:
    """Entries of messages with every word; None if they are too many, or too expensive to find.

    An intersection costs as much as its rarest word, so one word has to be infrequent. A prefix of too many words is
    left out; the messages are compared anyway.
    """
    groups = [_quoted([token]) for token in _longest(terms.whole_tokens, limits.tokens)]
    for prefix in _longest(terms.prefixes, limits.tokens):
        words = _words_beginning(connection, prefix, limits.words_per_prefix + 1)
        if not words:
            return []
        if len(words) <= limits.words_per_prefix:
            groups.append(_quoted(words))
    if not groups:
        return None
    counted = sorted((_count(connection, group, limits.postings + 1), group) for group in groups)
    if counted[0][0] > limits.postings:
        return None
    asked = " AND ".join(group for _, group in counted)
    fetched = connection.execute(
        "SELECT rowid FROM message_words WHERE message_words MATCH ? LIMIT ?", (asked, limits.candidates + 1)
    ).fetchall()
    return None if len(fetched) > limits.candidates else [row[0] for row in fetched]


def _longest(words: Iterable[str], limit: int) -> list[str]:
    return sorted(words, key=lambda word: (-len(word), word))[:limit]


def _quoted(terms: Iterable[str]) -> str:
    """An FTS5 expression for any of these words. They hold only letters and digits, so quoting is safe."""
    return "(" + " OR ".join(f'"{term}"' for term in terms) + ")"


def _words_beginning(connection: sqlite3.Connection, beginning: str, limit: int) -> list[str]:
    """Indexed words with a prefix, one seek each; FTS5's own prefix query would read all their entries first."""
    words: list[str] = []
    at = beginning
    while len(words) < limit:
        row = connection.execute(
            "SELECT term FROM message_terms WHERE term >= ? AND term < ? LIMIT 1", (at, f"{beginning}\U0010ffff")
        ).fetchone()
        if row is None:
            break
        words.append(row[0])
        at = f"{row[0]}\0"
    return words


def _count(connection: sqlite3.Connection, group: str, limit: int) -> int:
    (number,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM message_words WHERE message_words MATCH ? LIMIT ?)", (group, limit)
    ).fetchone()
    return int(number)


def _by_conversation(connection: sqlite3.Connection, entries: Sequence[int]) -> dict[str, tuple[int, ...]]:
    names = {
        block: (conversation_id, number)
        for block, conversation_id, number in connection.execute(
            "SELECT block, conversation_id, number FROM json_each(?) CROSS JOIN search_blocks ON block = value",
            (to_dump(sorted({entry // BLOCK for entry in entries})),),
        )
    }
    seqs_by_id: defaultdict[str, list[int]] = defaultdict(list)
    for block, offset in (divmod(entry, BLOCK) for entry in entries):
        conversation_id, number = names[block]
        seqs_by_id[conversation_id].append(number * BLOCK + offset + 1)
    return {name: tuple(numbers) for name, numbers in seqs_by_id.items()}


_Part = list[tuple[str, tuple[int, ...] | None]]


def _search_unit(
    part: _Part, terms: SearchTerms, limit: int
) -> Callable[[sqlite3.Connection], tuple[dict[str, Message], int, int]]:
    """Returns matching messages, the number of conversations read, and of messages (long ones count more)."""

    def unit(connection: sqlite3.Connection) -> tuple[dict[str, Message], int, int]:
        matches: dict[str, Message] = {}
        read = looked_at = 0
        for conversation_id, numbers in part:
            if looked_at and read >= limit:
                break
            looked_at += 1
            for seq, text in _newest_first(connection, conversation_id, numbers):
                read += 1 + len(text) // LONG_CHARS
                if terms.match(text):
                    matches[conversation_id] = _message(connection, conversation_id, seq)
                    break
        return matches, looked_at, read

    return unit


def _newest_first(
    connection: sqlite3.Connection, conversation_id: str, numbers: tuple[int, ...] | None
) -> Iterator[tuple[int, str]]:
    if numbers is None:
        yield from connection.execute(
            "SELECT seq, text FROM messages WHERE conversation_id = ? ORDER BY seq DESC", (conversation_id,)
        )
        return
    for number in sorted(numbers, reverse=True):
        yield from connection.execute(
            "SELECT seq, text FROM messages WHERE conversation_id = ? AND seq = ?", (conversation_id, number)
        )


def _message(connection: sqlite3.Connection, conversation_id: str, seq: int) -> Message:
    return rows.message(
        connection.execute(
            f"SELECT {rows.MESSAGE} FROM messages WHERE conversation_id = ? AND seq = ?", (conversation_id, seq)
        ).fetchone()
    )
