"""What one message says about repairs: pure reading by the rules of ``repairs.toml``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afterturn.consumers.phrases import Phrase, PhraseBook, ReadText, WordLists, compile_phrase, read
from afterturn.consumers.rules import RuleFile, agrees, load_answers, load_rules
from afterturn.model import Urgency

CATEGORIES = (
    "plumbing",
    "electrical",
    "heating-cooling",
    "appliance",
    "pest",
    "lock-security",
    "structural",
    "other",
)

_Mark = tuple[str, str, str]
"""What a phrase stands for: its kind, its section, and the thing or the phrase itself."""


@dataclass(frozen=True, slots=True)
class RepairNeed:
    """A kind of repair that a message asks for, and the things that it names (none: just "a leak")."""

    category: str
    urgency: Urgency
    things: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RepairSigns:
    """What one message says. ``urgent``: it presses, so that what is open already becomes urgent."""

    problems: tuple[RepairNeed, ...] = ()
    emergencies: tuple[str, ...] = ()
    urgent: bool = False
    follow_up: bool = False
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class RepairRules:
    """A loaded rule file."""

    urgency: Mapping[str, Urgency]
    emergencies: Mapping[str, str]
    customer: PhraseBook[_Mark]
    asked: PhraseBook[str]
    unless: PhraseBook[tuple[str, str]]
    agrees: PhraseBook[bool]


def load_repair_rules(path: str | Path | None = None) -> RepairRules:
    """The rules at ``path``, or those that ship; raises ConfigError that names file, section and problem."""
    return _rules(load_rules(path, "repairs.toml"))


def read_request(text: str, rules: RepairRules, asked: Collection[str] = ()) -> RepairSigns:
    """What a customer's message says; ``asked``: the emergencies that the agent has just asked about."""
    marks = _marks(read(text), rules)
    emergencies = {section for kind, section, _ in marks if kind == "emergencies"}
    if asked and agrees(text, rules.agrees):
        emergencies |= set(asked)
    pressing = any(kind == "urgent" for kind, _, _ in marks)
    problems = _problems(marks, rules, urgent=pressing)
    for emergency in sorted(emergencies):
        category = rules.emergencies[emergency]
        things = frozenset[str]().union(*(p.things for p in problems if p.category == category))
        problems = [problem for problem in problems if problem.category != category]
        problems.append(RepairNeed(category, Urgency.EMERGENCY, things))
    return RepairSigns(
        problems=tuple(problems),
        emergencies=tuple(kind for kind in rules.emergencies if kind in emergencies),
        urgent=pressing,
        follow_up=any(kind == "follow_up" for kind, _, _ in marks),
        resolved=not emergencies and any(kind == "resolved" for kind, _, _ in marks),
    )


def read_staff(text: str, rules: RepairRules) -> tuple[frozenset[str], bool]:
    """What the agent or an operator says: emergencies asked about, and whether a repair is reported as done."""
    line = read(text)
    resolved = any(kind == "resolved" for kind, _, _ in _marks(line, rules))
    asked = rules.asked.find(line)
    if asked:
        hidden = rules.unless.hide(line)
        asked = {kind for kind in asked if kind in rules.asked.find(hidden.get(("emergencies", kind), line))}
    return frozenset(asked), resolved


def _marks(text: ReadText, rules: RepairRules) -> set[_Mark]:
    """All phrases that still match when every section's look-alikes are hidden from it."""
    marks = rules.customer.find(text)
    if not marks:
        return marks
    hidden = rules.unless.hide(text)
    trouble = ("trouble", "")
    for section in {_section(mark) for mark in marks}:
        rest = hidden.get(section)
        if section[0] == "categories" and trouble in hidden:
            rest = rules.unless.hide(hidden[trouble]).get(section, hidden[trouble])
        if rest is not None:
            kept = {mark for mark in rules.customer.find(rest) if _section(mark) == section}
            marks = {mark for mark in marks if _section(mark) != section} | kept
    return marks


def _section(mark: _Mark) -> tuple[str, str]:
    return mark[0], mark[1]


def _problems(marks: set[_Mark], rules: RepairRules, *, urgent: bool) -> list[RepairNeed]:
    categories = {section for kind, section, _ in marks if kind == "categories"}
    if len(categories) > 1:
        categories.discard("other")
    return [
        RepairNeed(
            category=category,
            urgency=Urgency.URGENT if urgent else rules.urgency[category],
            things=frozenset(name for kind, section, name in marks if section == category and name),
        )
        for category in CATEGORIES
        if category in categories
    ]


def _rules(file: RuleFile) -> RepairRules:
    urgency: dict[str, Urgency] = {}
    emergencies: dict[str, str] = {}
    customer: list[tuple[_Mark, Phrase]] = []
    asked: list[tuple[str, Phrase]] = []
    unless: list[tuple[tuple[str, str], Phrase]] = []

    def look_alikes(section: tuple[str, str], where: str, table: Mapping[str, Any]) -> None:
        unless.extend((section, phrase) for phrase in file.phrases(f"{where}.unless", table.get("unless")))

    for category, section in file.sections("categories", ("label", "urgency", "things", "says", "unless")):
        where = f"categories.{category}"
        if category not in CATEGORIES:
            raise file.error(where, f"no such category; known are {', '.join(CATEGORIES)}")
        urgency[category] = _urgency(file, where, section)
        customer += [(("categories", category, ""), p) for p in file.phrases(f"{where}.says", section.get("says"))]
        for thing, names in _table(file, f"{where}.things", section.get("things")).items():
            customer += [
                (("categories", category, thing), phrase)
                for phrase in _thing_phrases(file, f"{where}.things.{thing}", names)
            ]
        look_alikes(("categories", category), where, section)
    for kind, section in file.sections("emergencies", ("label", "category", "says", "asked", "unless")):
        where = f"emergencies.{kind}"
        emergencies[kind] = section.get("category", "other")
        if emergencies[kind] not in CATEGORIES:
            raise file.error(where, f"no such category: {emergencies[kind]!r}")
        customer += [(("emergencies", kind, ""), p) for p in file.phrases(f"{where}.says", section.get("says"))]
        asked += [(kind, phrase) for phrase in file.phrases(f"{where}.asked", section.get("asked"))]
        look_alikes(("emergencies", kind), where, section)
    for kind in ("urgent", "follow_up", "resolved", "trouble"):
        groups = dict(file.table(kind))
        look_alikes((kind, ""), kind, groups)
        groups.pop("unless", None)
        customer += [((kind, "", ""), phrase) for phrase in file.phrases(kind, groups)]
    return RepairRules(
        urgency={category: urgency.get(category, Urgency.ROUTINE) for category in CATEGORIES},
        emergencies=emergencies,
        customer=PhraseBook(customer),
        asked=PhraseBook(asked),
        unless=PhraseBook(unless),
        agrees=load_answers(),
    )


def _thing_phrases(file: RuleFile, where: str, names: object) -> list[Phrase]:
    """A thing makes a request together with a word of trouble, before it or after it."""
    if not isinstance(names, dict):
        raise file.error(where, 'must be a table of languages, such as en = ["sink"]')
    entries = [name for language, part in names.items() for name in file.strings(f"{where}.{language}", part)]
    lists = WordLists({"thing": entries}, base=file.lists)
    try:
        return [compile_phrase(source, lists) for source in ("{thing} ... {trouble}", "{trouble} ... {thing}")]
    except ValueError as error:
        raise file.error(where, str(error)) from None


def _urgency(file: RuleFile, where: str, section: Mapping[str, Any]) -> Urgency:
    value = section.get("urgency", Urgency.ROUTINE.value)
    try:
        return Urgency(value)
    except ValueError:
        raise file.error(where, f"urgency must be one of {', '.join(Urgency)}") from None


def _table(file: RuleFile, where: str, value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise file.error(where, "must be a table")
    return value
