"""What a conversation is about: rules out of a taxonomy file, or any other judge.

The stamp: ``topics``, all so far, sorted (``["other"]`` where the customer wrote and nothing matched); ``latest``,
those of the newest customer message that had any; ``offered``, what the agent last asked, so that a plain "yes" in
the next window is understood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from afterturn.consumers.phrases import Phrase, PhraseBook, ReadText, read
from afterturn.consumers.rules import RuleFile, agrees, load_answers, load_rules
from afterturn.model import Direction, Message, Role, Stamp
from afterturn.reactions.registry import Handler, ReactionContext, TurnWindow

OTHER = "other"

_KINDS = ("says", "hints", "offers", "confirms", "unless")


@dataclass(frozen=True, slots=True)
class TopicState:
    """What is carried from message to message; of constant size."""

    topics: frozenset[str] = frozenset()
    latest: tuple[str, ...] = ()
    offered: frozenset[str] = frozenset()


TopicJudge = Callable[[TurnWindow, TopicState], Awaitable[TopicState]]
"""Takes the state before the window and tells the state after it."""


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """A loaded taxonomy file; ``labels`` by topic, in the order of the file."""

    labels: Mapping[str, str]
    near: Mapping[str, frozenset[str]]
    customer: PhraseBook[tuple[str, str, str]]
    agent: PhraseBook[tuple[str, str]]
    unless: PhraseBook[str]
    agrees: PhraseBook[bool]


def load_taxonomy(path: str | Path | None = None) -> Taxonomy:
    """The taxonomy at ``path``, or the one that ships; raises ConfigError that names file, topic and problem."""
    return _taxonomy(load_rules(path, "taxonomy.toml"))


def classify(text: str, taxonomy: Taxonomy, known: Collection[str] = ()) -> frozenset[str]:
    """The topics of one customer message; ``known``: those that the conversation has already."""
    return _classify(read(text), taxonomy, known)


def follow(state: TopicState, messages: Iterable[Message], taxonomy: Taxonomy) -> TopicState:
    """The state after some more messages: the same however they are cut into windows."""
    for message in messages:
        state = _after(state, message, taxonomy)
    return state


def by_rules(taxonomy: Taxonomy) -> TopicJudge:
    """The judge that needs no key and no download."""

    async def judge(window: TurnWindow, state: TopicState) -> TopicState:
        return follow(state, window.messages, taxonomy)

    return judge


def topics_handler(judge: TopicJudge) -> Handler:
    """The consumer: stamps what the conversation is about."""

    async def topics(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        before = _restore(window.previous.data if window.previous else {})
        return Stamp(data=_data(await judge(window, before)))

    return topics


def _after(state: TopicState, message: Message, taxonomy: Taxonomy) -> TopicState:
    if message.direction is Direction.INBOUND and message.role is Role.CUSTOMER:
        text = read(message.text)
        topics = _classify(text, taxonomy, state.topics)
        if state.offered and agrees(message.text, taxonomy.agrees):
            topics |= state.offered
        return _add(state, topics, customer=True)
    if message.role is Role.SYSTEM:
        return state
    claims = {
        (kind, topic)
        for kind, topic in taxonomy.agent.find(read(message.text))
        if not taxonomy.near[topic] or not taxonomy.near[topic].isdisjoint(state.topics)
    }
    confirmed = frozenset(topic for kind, topic in claims if kind == "confirms")
    offered = frozenset(topic for kind, topic in claims if kind == "offers")
    after = _add(state, confirmed, customer=False)
    return TopicState(topics=after.topics, latest=after.latest, offered=offered)


def _add(state: TopicState, topics_now: frozenset[str], *, customer: bool) -> TopicState:
    topics = state.topics | topics_now
    if len(topics) > 1:
        topics -= {OTHER}
    elif not topics and customer:
        topics = frozenset({OTHER})
    latest = tuple(sorted(topics_now)) if topics_now and customer else state.latest
    return TopicState(topics=topics, latest=latest, offered=frozenset() if customer else state.offered)


def _classify(text: ReadText, taxonomy: Taxonomy, known: Collection[str]) -> frozenset[str]:
    hits = taxonomy.customer.find(text)
    if not hits:
        return frozenset()
    hidden = taxonomy.unless.hide(text)
    if hidden:
        hits = {hit for hit in hits if hit[0] not in hidden}
        for topic, rest in hidden.items():
            hits |= {hit for hit in taxonomy.customer.find(rest) if hit[0] == topic}
    stated = {topic for topic, kind, _ in hits if kind == "says"}
    hinted = Counter(topic for topic, kind, _ in hits if kind == "hints" and topic not in stated)
    around = stated.union(known)
    return frozenset(stated.union(topic for topic, count in hinted.items() if _counts(taxonomy, topic, count, around)))


def _counts(taxonomy: Taxonomy, topic: str, hints: int, around: Collection[str]) -> bool:
    """Whether hints are enough: in the right company, or two of them where the topic names no company."""
    near = taxonomy.near[topic]
    return not near.isdisjoint(around) if near else hints > 1


def _restore(data: Mapping[str, JsonValue]) -> TopicState:
    return TopicState(
        topics=frozenset(_strings(data.get("topics"))),
        latest=tuple(_strings(data.get("latest"))),
        offered=frozenset(_strings(data.get("offered"))),
    )


def _data(state: TopicState) -> dict[str, JsonValue]:
    return {
        "topics": list[JsonValue](sorted(state.topics)),
        "latest": list[JsonValue](state.latest),
        "offered": list[JsonValue](sorted(state.offered)),
    }


def _strings(value: JsonValue) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _taxonomy(file: RuleFile) -> Taxonomy:
    labels: dict[str, str] = {}
    near: dict[str, frozenset[str]] = {}
    book: dict[str, list[tuple[str, Phrase]]] = {kind: [] for kind in _KINDS}
    for topic, section in file.sections("topics", ("label", "near", *_KINDS)):
        where = f"topics.{topic}"
        if not _is_label(topic):
            raise file.error(where, "a topic is named with lower-case letters, digits and hyphens")
        labels[topic] = file.label(where, section, topic)
        near[topic] = frozenset(file.strings(f"{where}.near", section.get("near")))
        for kind in _KINDS:
            book[kind] += [(topic, phrase) for phrase in file.phrases(f"{where}.{kind}", section.get(kind))]
        if not any(section.get(kind) for kind in ("says", "hints", "offers", "confirms")):
            raise file.error(where, "has no phrases (says, hints, offers or confirms)")
    for topic, others in near.items():
        for unknown in others - labels.keys():
            raise file.error(f"topics.{topic}.near", f"there is no topic {unknown!r}")
    return Taxonomy(
        labels={**labels, OTHER: labels.get(OTHER, "Something else")},
        near=near,
        customer=PhraseBook(
            ((topic, kind, phrase.source), phrase) for kind in ("says", "hints") for topic, phrase in book[kind]
        ),
        agent=PhraseBook(((kind, topic), phrase) for kind in ("offers", "confirms") for topic, phrase in book[kind]),
        unless=PhraseBook(book["unless"]),
        agrees=load_answers(),
    )


def _is_label(topic: str) -> bool:
    return 0 < len(topic) <= 64 and topic.isascii() and topic.replace("-", "a").isalnum() and topic == topic.lower()
