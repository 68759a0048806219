"""The grade: every reason has its case, and windows may be cut anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.consumers.helpers import START, agent, context, customer, run_in_windows, said, thread, window

from afterturn.consumers.grade import (
    CLASSES_S,
    GradeState,
    decide,
    follow,
    grade_handler,
    letter,
    median_response,
    tone_of,
)
from afterturn.consumers.tone import load_tone_rules
from afterturn.inbox import InboxQuery
from afterturn.model import Channel, Message, Role

MANNERS = load_tone_rules()


def counted(messages: Sequence[Message]) -> GradeState:
    return follow(GradeState(), messages, MANNERS)


def reasons(*lines: str, channel: Channel = Channel.SMS) -> tuple[str, ...]:
    return decide(counted(thread(*lines)), channel).reasons


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["c: When is rent due?", "a: On the first of the month."], ()),
        (["c: When is rent due?", "a: On the first.", "c: thank you!"], ("customer-polite",)),
        (["c: When is rent due?"], ("no-answer", "unanswered-question")),
        (["c: The sink leaks."], ("no-answer",)),
        (["c: When is rent due?", "a: Let me check and get back to you."], ("unanswered-question",)),
        (["c: When is rent due?", "a: Let me check.", "a: It is due on the 1st."], ()),
        (
            ["c: When is my rent due?", "a: Soon.", "c: But when is the rent due?", "a: On the 1st."],
            ("repeated-question",),
        ),
        (["c: This is unacceptable.", "a: I am sorry."], ("customer-upset",)),
        (["c: FIX THE SINK RIGHT NOW", "a: I am sorry."], ("customer-upset",)),
        (["c: Let me talk to a human.", "a: How can I help?"], ("person-not-reached",)),
        (["c: Let me talk to a human.", "o: Hi, this is Ana."], ("handed-over",)),
        (["a: Happy new year!"], ("nothing-to-grade",)),
        (["c: ok"], ("nothing-to-grade",)),
        (["c: 👍"], ("nothing-to-grade",)),
        (["c: ok?"], ("nothing-to-grade",)),
        (["c: thanks, but when?"], ("no-answer", "unanswered-question", "customer-polite")),
        (["c: ¿Cuándo vence el alquiler", "a: El día uno."], ()),
    ],
)
def test_reasons(lines: list[str], found: tuple[str, ...]) -> None:
    assert reasons(*lines) == found


@pytest.mark.parametrize(
    ("channel", "minutes", "reason"),
    [
        (Channel.SMS, 4, None),
        (Channel.SMS, 20, "slow-first-answer"),
        (Channel.SMS, 90, "very-slow-first-answer"),
        (Channel.EMAIL, 90, None),
        (Channel.EMAIL, 60 * 30, "very-slow-first-answer"),
        (Channel.VOICE, 2, "very-slow-first-answer"),
    ],
)
def test_slow_is_what_is_slow_for_the_channel(channel: Channel, minutes: int, reason: str | None) -> None:
    messages = [customer("hello"), agent("hi", 1, at=START + timedelta(minutes=minutes))]
    found = [entry for entry in decide(counted(messages), channel).reasons if "first-answer" in entry]
    assert found == ([reason] if reason else [])


def test_a_conversation_that_went_wrong_is_an_f_and_never_less_than_nothing() -> None:
    lines = ["c: WHERE IS THE PLUMBER", "c: WHERE IS THE PLUMBER", "c: let me talk to a human, this is ridiculous?"]
    verdict = decide(counted(thread(*lines)), Channel.SMS)
    assert (verdict.grade, verdict.score) == ("F", 0)


@pytest.mark.parametrize(("score", "grade"), [(100, "A"), (90, "A"), (89, "B"), (60, "C"), (45, "D"), (0, "F")])
def test_letters(score: int, grade: str) -> None:
    assert letter(score) == grade


def test_the_inbox_can_be_asked_for_every_letter_and_for_no_other() -> None:
    letters = {letter(score) for score in range(101)}
    for one in (chr(code) for code in range(0x21, 0x7F)):
        if one.upper() in letters:
            assert InboxQuery(grades=(one,)).grades == (one.upper(),)
        else:
            with pytest.raises(ValidationError):
                InboxQuery(grades=(one,))


def test_a_question_that_is_asked_again_while_open_is_open_once() -> None:
    state = counted(thread("c: When will the plumber come?", "c: When is the plumber coming?? When will he come?"))
    assert state.open_questions <= 2
    same = counted(thread("c: When will the plumber come?", "c: When will the plumber come?"))
    assert (same.questions, same.open_questions, same.repeated) == (2, 1, 1)


def test_the_median_is_a_class_of_waits() -> None:
    assert median_response(GradeState()) is None
    assert median_response(counted(thread("c: a", "a: b"))) == 15
    waits = (1, *(0,) * (len(CLASSES_S) - 1), 2)
    assert median_response(GradeState(waits=waits)) == 2 * CLASSES_S[-1]


def test_tone() -> None:
    assert tone_of(GradeState(polite=1)) == "polite"
    assert tone_of(GradeState(polite=1, upset=1)) == "neutral"
    assert tone_of(GradeState(upset=1)) == "upset"


async def test_the_stamp_has_these_keys() -> None:
    handler = grade_handler(MANNERS)
    stamp = await handler(window(thread("c: When is rent due?", "a: On the 1st.", "c: thanks")), context())
    state = stamp.data["state"]
    assert isinstance(state, dict)
    assert stamp.data == {
        "grade": "A",
        "score": 100,
        "reasons": ["customer-polite"],
        "answered": True,
        "firstResponseS": 10.0,
        "medianResponseS": 15,
        "tone": "polite",
        "handedOver": False,
        "questions": 1,
        "repeatedQuestions": 0,
        "state": state,
    }


async def test_where_nobody_wrote_there_is_no_grade() -> None:
    stamp = await grade_handler(MANNERS)(window([agent("Happy new year!")]), context())
    assert stamp.data["grade"] is None
    assert stamp.data["reasons"] == ["nothing-to-grade"]


async def test_the_stamp_has_constant_size() -> None:
    texts = [f"c: When is number {number} of the very many questions due?" for number in range(300)]
    stamps = await run_in_windows(grade_handler(MANNERS), thread(*texts), cuts=range(0, 300, 20))
    assert len(stamps[-1].model_dump_json()) < 2_000


MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["customer", "agent", "operator", "system"]),
        st.sampled_from(
            [
                "When is my rent due?",
                "when will my rent be due",
                "Thanks!",
                "this is RIDICULOUS",
                "let me talk to a human",
                "Let me check and get back to you",
                "I will connect you with a colleague",
                "The rent is due on the 1st.",
                "👍",
                "¿Cuándo viene el fontanero?",
            ]
        ),
        st.integers(0, 200_000),
    ),
    min_size=1,
    max_size=12,
)


@given(lines=MESSAGES, cuts=st.sets(st.integers(1, 11)))
async def test_many_windows_give_the_stamp_of_one(lines: list[tuple[str, str, int]], cuts: set[int]) -> None:
    at = START
    messages = []
    for number, (role, text, wait) in enumerate(lines):
        at += timedelta(milliseconds=wait * 10)
        messages.append(said(Role(role), text, number, at=at))
    handler = grade_handler(MANNERS)
    whole = await run_in_windows(handler, messages)
    parts = await run_in_windows(handler, messages, [cut for cut in cuts if cut < len(messages)])
    assert parts[-1].data == whole[-1].data
