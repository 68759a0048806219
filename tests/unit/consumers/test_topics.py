"""Topics: what a property manager's customers write about, in four languages, over several windows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.consumers.helpers import agent, context, customer, run_in_windows, thread, window

from afterturn.consumers.topics import (
    Taxonomy,
    TopicState,
    by_rules,
    classify,
    follow,
    load_taxonomy,
    topics_handler,
)
from afterturn.model import Message

TEXTS = [
    ("I'm looking for a two bedroom apartment downtown", {"leasing"}),
    ("Do you have any studios to rent?", {"leasing"}),
    ("Busco un piso de tres habitaciones", {"leasing"}),
    ("Ich suche eine Wohnung mit Balkon", {"leasing"}),
    ("Je cherche un appartement à louer", {"leasing"}),
    ("Can I schedule a tour for Saturday?", {"tour"}),
    ("I'd like to see the apartment on Friday", {"leasing", "tour"}),
    ("Wann wäre eine Besichtigung möglich?", {"tour"}),
    ("The kitchen sink is leaking", {"maintenance"}),
    ("La calefacción no funciona", {"maintenance"}),
    ("Die Heizung ist kaputt", {"maintenance"}),
    ("Le robinet fuit", {"maintenance"}),
    ("How do I pay my rent online?", {"rent-payment"}),
    ("Ich habe die Miete gestern überwiesen", {"rent-payment"}),
    ("I want to renew my lease for another year", {"renewal"}),
    ("When can we move in?", {"move-in"}),
    ("Estamos planeando la mudanza", {"move-in"}),
    ("I'm giving my 60 days notice", {"move-out"}),
    ("Ich möchte kündigen", {"move-out"}),
    ("When do I get my security deposit back?", {"deposit"}),
    ("Quand la caution est-elle rendue ?", {"deposit"}),
    ("Somebody is in my parking spot", {"parking"}),
    ("Are dogs allowed?", {"pets"}),
    ("¿Aceptan mascotas?", {"pets"}),
    ("My neighbor plays loud music every night", {"noise"}),
    ("Die Nachbarn sind zu laut", {"noise"}),
    ("I locked myself out", {"access-keys"}),
    ("J'ai perdu mes clés", {"access-keys"}),
    ("Is the pool open on Sundays?", {"amenities"}),
    ("Why was I charged a late fee twice?", {"billing-dispute", "rent-payment"}),
    ("I want to file a complaint with your manager", {"complaint"}),
    ("Congratulations, you have won! Click here to claim your prize", {"spam"}),
    ("I want to rent a car", set()),
    ("My flat tire needs fixing", set()),
    ("I have a doctor's appointment on Friday", set()),
    ("Play some music please", set()),
    ("thanks", set()),
    ("", set()),
]


@pytest.fixture(scope="module")
def taxonomy() -> Taxonomy:
    return load_taxonomy()


@pytest.mark.parametrize(("text", "topics"), TEXTS)
def test_a_message_is_about(taxonomy: Taxonomy, text: str, topics: set[str]) -> None:
    assert classify(text, taxonomy) == topics


def test_a_hint_counts_in_the_right_company_only(taxonomy: Taxonomy) -> None:
    text = "Can I book a visit on Friday?"
    assert classify(text, taxonomy) == set()
    assert classify(text, taxonomy, known={"leasing"}) == {"tour"}


@pytest.mark.parametrize(
    ("answer", "agreed"),
    [
        ("Yes please", True),
        ("Sure, Friday works", True),
        ("ja gerne", True),
        ("No thanks", False),
        ("Not yet", False),
        ("What is the rent?", False),
    ],
)
def test_a_short_answer_is_understood_from_the_question_before_it(
    taxonomy: Taxonomy, answer: str, agreed: bool
) -> None:
    lines = thread("c: I need an apartment", "a: Would you like to schedule a visit?", f"c: {answer}")
    assert ("tour" in follow(TopicState(), lines, taxonomy).topics) is agreed


def test_an_offer_stands_for_one_answer_only(taxonomy: Taxonomy) -> None:
    lines = thread("c: I need an apartment", "a: Would you like to visit?", "c: no", "a: Anything else?", "c: yes")
    assert follow(TopicState(), lines, taxonomy).topics == {"leasing"}


async def test_the_stamp_accumulates_and_a_yes_in_the_next_window_is_understood(taxonomy: Taxonomy) -> None:
    lines = thread("c: I need an apartment", "a: Would you like to schedule a visit?", "c: yes", "c: are dogs allowed?")
    first, second, third = await run_in_windows(topics_handler(by_rules(taxonomy)), lines, cuts=[2, 3])
    assert first.data == {"topics": ["leasing"], "latest": ["leasing"], "offered": ["tour"]}
    assert second.data == {"topics": ["leasing", "tour"], "latest": ["tour"], "offered": []}
    assert third.data == {"topics": ["leasing", "pets", "tour"], "latest": ["pets"], "offered": []}


async def test_a_conversation_about_nothing_known_is_other_until_it_has_a_topic(taxonomy: Taxonomy) -> None:
    handler = topics_handler(by_rules(taxonomy))
    first, second = await run_in_windows(handler, [customer("hi"), customer("my sink leaks", 1)], cuts=[1])
    assert first.data["topics"] == ["other"]
    assert second.data["topics"] == ["maintenance"]


async def test_where_only_the_agent_wrote_there_is_no_topic_yet(taxonomy: Taxonomy) -> None:
    stamp = await topics_handler(by_rules(taxonomy))(window([agent("Happy new year!")]), context())
    assert stamp.data["topics"] == []


def test_a_file_of_ones_own_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[topics.bees]\nlabel = 'Beekeeping'\nsays.en = ['(bee|bees|hive*)']\n", "utf-8")
    mine = load_taxonomy(path)
    assert classify("There is a hive on my balcony", mine) == {"bees"}
    assert mine.labels["bees"] == "Beekeeping"
    assert classify("I need an apartment", mine) == set()


LINES = st.lists(
    st.sampled_from(
        ["c:yes", "c:no", "c:hello", "a:Would you like to visit it?", "a:Your visit is booked", "s:call ended"]
        + [f"c:{text}" for text, _ in TEXTS if text]
    ),
    max_size=12,
).map(lambda lines: thread(*lines))


@given(messages=LINES, cut=st.integers(0, 12))
def test_windows_may_be_cut_anywhere(messages: list[Message], cut: int) -> None:
    taxonomy = SHIPPED
    whole = follow(TopicState(), messages, taxonomy)
    assert follow(follow(TopicState(), messages[:cut], taxonomy), messages[cut:], taxonomy) == whole


SHIPPED = load_taxonomy()
