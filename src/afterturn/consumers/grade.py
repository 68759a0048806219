"""How well a conversation was answered: counters, points, and the reasons for them.

A grade starts at 100 points. Each reason takes some away, at most once where no number is named:

========================  ======  ==============================================================================
reason                    points  when
========================  ======  ==============================================================================
``no-answer``             60      the customer wrote and nobody has answered at all
``unanswered-question``   15      for each question that is open at the end (at most 3): nothing but being put off
                                  came after it
``slow-first-answer``     10      the first answer took longer than is good for the channel
``very-slow-first-answer`` 25     … or longer than is bearable (see ``PACE``)
``slow-answers``          10      the median answer took longer than is good for the channel
``repeated-question``     10      for each question that the customer had to ask again (at most 3)
``customer-upset``        15      the customer sounded more upset than polite
``person-not-reached``    20      the customer asked for a person and none has come since
``handed-over``           0       a person took part, or was promised by the agent
``customer-polite``       0       the customer was polite and never upset
``nothing-to-grade``      0       the customer wrote nothing that wants an answer: no grade
========================  ======  ==============================================================================

90 points and more are an A, 75 a B, 60 a C, 45 a D, and less an F.

The stamp: ``grade``, ``score``, ``reasons``, ``answered`` (true where no question is open), ``firstResponseS`` and
``medianResponseS`` in seconds (the median is the upper bound of its class in ``CLASSES_S``), ``tone`` (``polite``,
``neutral``, ``upset``), ``handedOver``, ``questions``, ``repeatedQuestions``, and ``state``: what is carried to the
next run. It has constant size, and it is the same however the messages are cut into windows.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from afterturn.consumers.phrases import read
from afterturn.consumers.tone import ToneRules
from afterturn.model import Channel, Direction, Message, Record, Role, Stamp, Time
from afterturn.reactions.registry import Handler, ReactionContext, TurnWindow

CLASSES_S = (5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800)
GRADES = ((90, "A"), (75, "B"), (60, "C"), (45, "D"), (0, "F"))

_KEPT_QUESTIONS = 6
_KEPT_WORDS = 12
_SAME_QUESTION = 0.6
_LONG_WORD = 3
_PUT_OFF_CHARS = 140
"""A longer text that says "let me check" mostly goes on with the answer."""


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """Seconds until an answer: good up to ``good``, unbearable from ``bearable`` on."""

    good: int
    bearable: int


ANSWER_TIMES = {
    Channel.VOICE: AnswerTimes(good=15, bearable=60),
    Channel.WEB: AnswerTimes(good=120, bearable=1800),
    Channel.SMS: AnswerTimes(good=300, bearable=3600),
    Channel.TELEGRAM: AnswerTimes(good=300, bearable=3600),
    Channel.EMAIL: AnswerTimes(good=14400, bearable=86400),
}


class GradeState(Record):
    """What is carried from message to message.

    ``wants`` counts the customer's messages that want an answer (a plain "thanks" does not); ``waits`` the answers by
    class of ``CLASSES_S`` (one more class for longer ones); ``asked`` holds the newest questions as hashes of their
    words.
    """

    customer_messages: int = 0
    wants: int = 0
    answers: int = 0
    questions: int = 0
    open_questions: int = 0
    repeated: int = 0
    polite: int = 0
    upset: int = 0
    handed_over: bool = False
    wants_person: bool = False
    waiting_since: Time | None = None
    first_response_s: float | None = None
    waits: tuple[int, ...] = (0,) * (len(CLASSES_S) + 1)
    asked: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Grading:
    """A grade with its reasons; ``grade`` is none where there is nothing to grade."""

    grade: str | None
    score: int
    reasons: tuple[str, ...]


GradeJudge = Callable[[TurnWindow, GradeState], Awaitable[Grading]]
"""Grades a conversation, given the counters after the window."""


def grade_handler(tone: ToneRules, judge: GradeJudge | None = None) -> Handler:
    """The consumer: counts by rules, and grades by them or by another judge."""

    async def grade(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        state = follow(_restore(window), window.messages, tone)
        verdict = await judge(window, state) if judge else decide(state, window.conversation.channel)
        return Stamp(data=_data(state, verdict))

    return grade


def follow(state: GradeState, messages: Iterable[Message], tone: ToneRules) -> GradeState:
    """The counters after some more messages."""
    for message in messages:
        if message.role is Role.SYSTEM:
            continue
        if message.direction is Direction.INBOUND:
            state = _customer_wrote(state, message, tone)
        else:
            state = _staff_wrote(state, message, tone)
    return state


def decide(state: GradeState, channel: Channel) -> Grading:
    """Points and reasons for the counters: pure, and the whole of the judgement."""
    if not state.wants and not state.answers:
        return Grading(None, 100, ("nothing-to-grade",))
    pace = ANSWER_TIMES[channel]
    lost: dict[str, int] = {}
    if not state.answers:
        lost["no-answer"] = 60
    if state.open_questions:
        lost["unanswered-question"] = 15 * min(state.open_questions, 3)
    if state.first_response_s is not None and state.first_response_s > pace.good:
        very = state.first_response_s > pace.bearable
        lost["very-slow-first-answer" if very else "slow-first-answer"] = 25 if very else 10
    median = median_response(state)
    if median is not None and median > pace.good:
        lost["slow-answers"] = 10
    if state.repeated:
        lost["repeated-question"] = 10 * min(state.repeated, 3)
    tone = tone_of(state)
    if tone == "upset":
        lost["customer-upset"] = 15
    if state.wants_person:
        lost["person-not-reached"] = 20
    if state.handed_over:
        lost["handed-over"] = 0
    if tone == "polite" and not state.upset:
        lost["customer-polite"] = 0
    score = max(0, 100 - sum(lost.values()))
    return Grading(letter(score), score, tuple(lost))


def letter(score: int) -> str:
    """The grade for a number of points."""
    return next(grade for least, grade in GRADES if score >= least)


def tone_of(state: GradeState) -> str:
    """``upset`` where anger outweighs politeness, ``polite`` where there is only that, else ``neutral``."""
    if state.upset > state.polite:
        return "upset"
    return "polite" if state.polite > state.upset else "neutral"


def median_response(state: GradeState) -> int | None:
    """The upper bound, in seconds, of the class in which the median answer lies; none without answers."""
    total = sum(state.waits)
    seen = 0
    for bound, count in zip((*CLASSES_S, 2 * CLASSES_S[-1]), state.waits, strict=True):
        seen += count
        if 2 * seen >= total > 0:
            return bound
    return None


def _customer_wrote(state: GradeState, message: Message, tone: ToneRules) -> GradeState:
    signs = tone.signs(message.text)
    question = "asks" in signs
    wants = "closes" not in signs
    words = _words(message.text) if question else ()
    again = bool(words) and any(_alike(words, earlier) for earlier in state.asked)
    asked = (*state.asked, words)[-_KEPT_QUESTIONS:] if words and not again else state.asked
    return state.model_copy(
        update={
            "customer_messages": state.customer_messages + 1,
            "wants": state.wants + wants,
            "questions": state.questions + question,
            "open_questions": state.open_questions + (question and not (again and state.open_questions)),
            "repeated": state.repeated + again,
            "polite": state.polite + ("polite" in signs),
            "upset": state.upset + ("upset" in signs),
            "wants_person": state.wants_person or "wants_person" in signs,
            "waiting_since": state.waiting_since or (message.at if wants else None),
            "asked": asked,
        }
    )


def _staff_wrote(state: GradeState, message: Message, tone: ToneRules) -> GradeState:
    signs = tone.signs(message.text)
    person = message.role is Role.OPERATOR
    put_off = "holding" in signs and len(message.text) <= _PUT_OFF_CHARS
    waits = state.waits
    first = state.first_response_s
    if state.waiting_since is not None:
        wait = _seconds(state.waiting_since, message.at)
        bucket = bisect_left(CLASSES_S, wait)
        waits = (*waits[:bucket], waits[bucket] + 1, *waits[bucket + 1 :])
        first = wait if first is None else first
    return state.model_copy(
        update={
            "answers": state.answers + (state.customer_messages > 0),
            "open_questions": state.open_questions if put_off else 0,
            "handed_over": state.handed_over or person or "hands_over" in signs,
            "wants_person": state.wants_person and not person,
            "waiting_since": None,
            "first_response_s": first,
            "waits": waits,
        }
    )


def _seconds(since: datetime, until: datetime) -> float:
    return max(0.0, round((until - since).total_seconds(), 3))


def _words(text: str) -> tuple[int, ...]:
    """The longer words of a question as hashes: enough to know it again, too little to read it."""
    words = {word for word in read(text).words if len(word) > _LONG_WORD}
    return tuple(sorted(zlib.crc32(word.encode()) & 0xFFFFFF for word in words)[:_KEPT_WORDS])


def _alike(words: tuple[int, ...], other: tuple[int, ...]) -> bool:
    shared = len(set(words) & set(other))
    return shared >= _SAME_QUESTION * len(set(words) | set(other))


def _restore(window: TurnWindow) -> GradeState:
    state = window.previous.data.get("state") if window.previous else None
    return GradeState.model_validate(state) if isinstance(state, dict) else GradeState()


def _data(state: GradeState, verdict: Grading) -> dict[str, JsonValue]:
    return {
        "grade": verdict.grade,
        "score": verdict.score,
        "reasons": list[JsonValue](verdict.reasons),
        "answered": state.open_questions == 0 and (state.answers > 0 or state.wants == 0),
        "firstResponseS": state.first_response_s,
        "medianResponseS": median_response(state),
        "tone": tone_of(state),
        "handedOver": state.handed_over,
        "questions": state.questions,
        "repeatedQuestions": state.repeated,
        "state": state.to_json(),
    }
