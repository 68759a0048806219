"""Words of messages over a SQLite file: what is found is what the messages say, however far the index has come."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.inbox.pages import ids
from tests.contract.machines import fast_folder
from tests.contract.samples import at, message, meta
from tests.contract.store.factory import settle_new
from tests.unit.search_fixture import SearchRig, index_always_used, rig, rig_at

from afterturn.errors import InvalidQuery
from afterturn.inbox import Inbox, InboxQuery
from afterturn.inbox import search as inbox_search
from afterturn.model import Channel, Status
from afterturn.store.sqlite import SqliteSearch, full_text
from afterturn.store.sqlite.full_text import LIMITS, SearchLimits
from afterturn.store.tokenizer import parse_terms
from afterturn.testing import ManualClock

__all__ = ["index_always_used", "rig"]


NARROW = SearchLimits(
    postings=6,
    candidates=2,
    lagging=1,
    words_per_prefix=2,
    caught_up=2,
    batch_messages=2,
    batch_bytes=40,
    read_at_once=2,
)
"""So small that a handful of messages is a large fleet."""


WORD = st.sampled_from(
    ["heat", "heating", "Café", "cafe", "key", "keyed", "keys", "暖气", "坏", "暖气坏了", "ß", "ss", "don't"]
)
TEXT = st.lists(WORD, max_size=4).map(" ".join)
STEP = st.one_of(
    st.tuples(st.just("settle"), st.integers(0, 5), TEXT),
    st.tuples(st.just("settle"), st.integers(0, 5), TEXT),
    st.tuples(st.just("save"), st.integers(0, 5), TEXT),
    st.tuples(st.just("edit"), st.integers(0, 5), TEXT),
    st.tuples(st.just("index"), st.integers(0, 5), TEXT),
    st.tuples(st.just("reopen"), st.integers(0, 5), TEXT),
)


@given(
    st.lists(STEP, max_size=24),
    st.lists(st.one_of(WORD, TEXT), min_size=1, max_size=4),
    st.sampled_from([LIMITS, NARROW]),
    st.sampled_from([3, 5_000]),
    st.booleans(),
)
async def test_search_finds_what_a_look_at_every_message_finds_newest_first(
    steps: Sequence[tuple[str, int, str]], asked: Sequence[str], limits: SearchLimits, budget: int, caught_up: bool
) -> None:
    said: dict[str, list[str]] = {}
    order: list[str] = []
    with fast_folder() as folder:
        path = folder / "a.db"
        opened = rig_at(path, limits)
        rig = opened.__enter__()
        try:
            for second, (do, number, text) in enumerate(steps):
                name = f"c{number}"
                texts = said.setdefault(name, [])
                given_id = f"m{len(texts)}"
                new = message(given_id, second, text=text, provider_id=given_id)
                if do == "settle":
                    await settle_new(rig.store, name, new, now=at(second))
                    texts.append(text)
                    order = [name, *(one for one in order if one != name)]
                elif do == "save" and name in order:
                    await rig.store.save_messages(meta(name), [new], now=at(second))
                    texts.append(text)
                elif do == "edit" and texts:
                    place = second % len(texts)
                    await rig.store.edit_message(name, f"m{place}", text, at=at(1_000 + second))
                    texts[place] = text
                elif do == "index":
                    await rig.database.write(lambda c: full_text.index_batch(c, limits))
                elif do == "reopen":
                    opened.__exit__(None, None, None)
                    opened = rig_at(path, limits)
                    rig = opened.__enter__()
            if caught_up:
                await rig.index()
            for words in asked:
                looked_for = parse_terms(words)
                expected = [one for one in order if looked_for and any(map(looked_for.match, said[one]))]
                found = await rig.found(words, limit=2, budget=budget)
                assert found == (expected if words else order)
        finally:
            opened.__exit__(None, None, None)


async def test_all_words_have_to_be_in_one_message(rig: SearchRig) -> None:
    await rig.say("apart", "the heating", "is broken")
    await rig.say("together", "the heating is broken")
    for _ in range(2):
        assert await rig.found("broken heating") == ["together"]
        await rig.index()


async def test_a_message_that_the_index_lacks_is_found_beside_one_that_it_names_in_vain(rig: SearchRig) -> None:
    await rig.say("c1", "t don")
    await rig.index()
    await rig.say("c1", "I don't", now=1)
    assert await rig.found("don't") == ["c1"]


async def test_every_word_with_a_beginning_is_found(rig: SearchRig) -> None:
    for number, word in enumerate(["heat", "heater", "heating", "heatz"]):
        await rig.say(f"c{number}", word, now=number)
    await rig.index()
    assert await rig.found("heat") == ["c3", "c2", "c1", "c0"]
    assert await rig.found("heate") == ["c1"]


async def test_a_beginning_of_very_many_words_hides_none(rig: SearchRig) -> None:
    for number in range(LIMITS.words_per_prefix + 5):
        await rig.say(f"c{number}", f"a{number} key", now=number)
    await rig.index()
    assert len(await rig.found("key a")) == len(await rig.found("a")) == LIMITS.words_per_prefix + 5


async def test_a_word_without_end_keeps_the_index_from_nobody(rig: SearchRig) -> None:
    """FTS5 cuts it, within a character, and what it has of it then is no text."""
    await rig.say("c1", "x" + "я" * 20_000)
    await rig.say("c2", "xя", now=1)
    await rig.index()
    for typed, names in (("xя", ["c2", "c1"]), ("x" + "я" * 9, ["c1"]), ("x", ["c2", "c1"])):
        looked_for = parse_terms(typed)
        assert looked_for is not None
        assert set(await rig.search.candidates(looked_for) or ()) == set(names)
        assert await rig.found(typed) == names


async def test_a_long_conversation_is_found_by_each_of_its_messages(rig: SearchRig) -> None:
    for start in range(0, 150, 30):
        await rig.say("long", *(f"word{number} said" for number in range(start, start + 30)), now=start)
    await rig.index()
    for number in (0, 63, 64, 100, 127, 128, 149):
        page = await rig.inbox.page(InboxQuery(words=f"word{number} said"))
        assert [row.hit and row.hit.message.id for row in page.rows] == [f"m{number}"]
    assert await rig.store.edit_message("long", "p100", "another", at=at(999))
    assert await rig.found("word100 said") == []
    assert await rig.found("another") == ["long"]


async def test_the_message_that_arrived_last_is_shown_around_what_was_found(rig: SearchRig) -> None:
    await rig.say("c1", "heating one", "x" * 80 + " my <b>HEATING</b> two " + "y" * 200, "none")
    await rig.index()
    page = await rig.inbox.page(InboxQuery(words="heat"))
    hit = page.rows[0].hit
    assert hit is not None
    assert hit.message.id == "m1"
    assert [(piece.text, piece.hit) for piece in hit.snippet][1:3] == [("my <b>", False), ("HEATING", True)]
    told = page.to_json()["rows"][0]["hit"]
    assert told["messageId"] == "m1"
    assert {"text": "HEATING", "hit": True} in told["snippet"]
    assert "hit" not in (await rig.inbox.page(InboxQuery())).to_json()["rows"][0]


async def test_an_edit_replaces_what_is_found(rig: SearchRig) -> None:
    for indexed in (False, True):
        name = f"c-{indexed}"
        await rig.say(name, "the boiler", now=1)
        if indexed:
            await rig.index()
        assert await rig.store.edit_message(name, "p0", "the door", at=at(8))
        assert await rig.store.edit_message(name, "p0", "the lift", at=at(9))
        assert name not in await rig.found("boiler")
        assert name in await rig.found("lift")
        await rig.index()
        assert await rig.found("boiler") == []
        for gone in ("boiler", "door"):
            assert await rig.search.candidates(parse_terms(gone)) == {}, "the index still names it"  # type: ignore[arg-type]
        assert name in await rig.found("lift")


async def test_filters_windows_and_properties_are_as_exact_as_without_words(rig: SearchRig) -> None:
    await rig.say("old", "key", now=1, property_id="oak")
    await rig.say("oak", "key", now=100, property_id="oak", channel=Channel.EMAIL)
    await rig.say("elm", "key", now=200, property_id="elm")
    await rig.say("test", "key", now=300, synthetic=True)
    await rig.say("shut", "key", now=400, status=Status.CLOSED)
    await rig.say("other", "lift", now=500, property_id="oak")
    for _ in range(2):
        assert await rig.found("key") == ["shut", "elm", "oak", "old"]
        assert await rig.found("key", properties=("oak",)) == ["oak", "old"]
        assert await rig.found("key", properties=("elm", "UNASSIGNED"), limit=1) == ["shut", "elm"]
        assert await rig.found("key", include_synthetic=True, status="open") == ["test", "elm", "oak", "old"]
        assert await rig.found("key", since=at(50), until=at(250)) == ["elm", "oak"]
        assert await rig.found("key", channels=("email",)) == ["oak"]
        assert await rig.found("lift", properties=("elm",)) == []
        await rig.index()
    await rig.store.save_conversation(meta("oak", property_id="elm"), now=at(600))
    assert await rig.found("key", properties=("oak",)) == ["old"]
    assert await rig.found("key", properties=("elm",)) == ["elm", "oak"]


async def test_pages_neither_skip_nor_repeat_while_messages_come(rig: SearchRig) -> None:
    for number in range(12):
        await rig.say(f"c{number:02}", "key", now=number)
    await rig.index()
    query = InboxQuery(words="key", limit=3)
    pages = [await rig.inbox.page(query)]
    second = 100
    while (cursor := pages[-1].next_cursor) is not None:
        second += 1
        await rig.say(f"new{second}", "key", now=second)
        await rig.say("c11", "me again", now=second)
        pages.append(await rig.inbox.page(query, cursor))
    shown = [name for page in pages for name in ids(page)]
    assert shown == [f"c{number:02}" for number in reversed(range(12))]


@pytest.mark.parametrize(
    "words",
    [
        *(
            '"',
            "*",
            "heat*",
            "NEAR(heating broken)",
            "heating NOT broken",
            "words:heating",
            "-heating",
            "^heating",
            "((",
        ),
        *("heating\0broken", "heat\ud800ing", "'; DROP TABLE messages; --", "{heating}", "+heating", "\\", "%", "_"),
        *("heating AND", "OR", "a" * 200, "\u202eheating", "暖\ufffd", "½", "\ufdfa", "heating" + "\u0301" * 100),
    ],
)
async def test_what_is_typed_is_never_syntax(rig: SearchRig, words: str) -> None:
    said = "the heating and near, it is not broken: or so"
    await rig.say("c1", said)
    for _ in range(2):
        looked_for = parse_terms(InboxQuery(words=words).words or "")
        expected = ["c1"] if looked_for is not None and looked_for.match(said) else []
        assert await rig.found(words) == expected
        await rig.index()


async def test_without_fts5_the_same_is_found(rig: SearchRig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.say("indexed", "the heating")
    await rig.index()
    monkeypatch.setattr(full_text, "has_fts5", lambda _: False)
    await rig.say("later", "my heating", now=1)
    assert await rig.store.edit_message("indexed", "p0", "heating, edited", at=at(2))
    assert not await rig.search.catch_up(limit=10)
    assert await rig.found("heat") == ["later", "indexed"]
    monkeypatch.undo()
    await rig.index()
    assert await rig.found("heat") == ["later", "indexed"]
    assert await rig.found("edited") == ["indexed"]


async def test_a_damaged_index_costs_time_and_hides_nothing(rig: SearchRig) -> None:
    await rig.say("c1", "the heating")
    await rig.index()
    await rig.database.write(lambda c: c.execute("DROP TABLE message_words_data").rowcount)
    assert await rig.found("heat") == ["c1"]
    assert await rig.store.edit_message("c1", "p0", "the lift", at=at(1))
    assert await rig.found("heat") == []
    assert await rig.found("lift") == ["c1"]


async def test_a_request_for_few_rows_asks_no_index(rig: SearchRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look for arrivals: what lies above the newest row of a page, mostly nothing."""
    await rig.say("c1", "the heating")
    monkeypatch.setattr(inbox_search, "MIN_BUDGET_FOR_INDEX", 200)
    monkeypatch.setattr(SqliteSearch, "candidates", None)
    assert await rig.found("heat", budget=200) == ["c1"]
    with pytest.raises(TypeError):
        await rig.found("heat", budget=201)


async def test_a_store_that_cannot_look_says_so(rig: SearchRig) -> None:
    with pytest.raises(InvalidQuery, match="embedded profile"):
        await Inbox(rig.store, ManualClock(at(0))).page(InboxQuery(words="heat"))
