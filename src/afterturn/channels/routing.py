"""Which property a person's next conversation goes to: what an operator has put them to, and the directory. Pure.

Who has a say in every property puts a person somewhere for good: that goes before the directory. Who has a say in some
only rules over what would have come to these: the rule remembers where the person's conversation was taken from, and
holds for what the directory sends there, or sends where the rule does. So nobody takes another house's mail away, be it
by a person in the directory or by the mailbox that was written to.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from afterturn.channels.directory import Directory
from afterturn.channels.types import Party

_MOST_STARTS = 10
"""Properties that a rule remembers, so that a note holds them; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class RoutingRule:
    """A person's conversations go to ``property_id``: all of them, or where ``starts`` is set those that would go to
    one of these, None among them for nowhere.
    """

    property_id: str
    starts: tuple[str | None, ...] | None = None

    def holds(self, told: str | None) -> bool:
        """Whether it says more than the directory, which has told this."""
        return self.starts is None or told == self.property_id or told in self.starts

    def to_note(self) -> JsonValue:
        return self.property_id if self.starts is None else {"property": self.property_id, "from": list(self.starts)}


def rule_of(note: JsonValue) -> RoutingRule | None:
    """The rule in a note; None where there is none, or it was taken back."""
    match note:
        case {"property": str(property_id), "from": list(starts)}:
            return RoutingRule(property_id, tuple(one if isinstance(one, str) else None for one in starts))
        case str(property_id) if property_id:
            return RoutingRule(property_id)
        case _:
            return None


def resolve_property(directory: Directory, party: Party, note: JsonValue) -> str | None:
    """The property of a new conversation; None where nobody knows."""
    told = directory.property_of(party)
    rule = rule_of(note)
    return rule.property_id if rule is not None and rule.holds(told) else told


def learn(
    before: JsonValue, taken_from: str | None, property_id: str | None, scope: Collection[str | None] | None
) -> tuple[bool, JsonValue]:
    """Whether anything is learned from a move, and the note of it.

    ``before``: the person's note until now. ``scope``: the properties that whoever moved it has a say in, None among
    them for nowhere; None: in all of them.
    """
    known = rule_of(before)
    if scope is None:
        return True, property_id
    if known is not None and known.property_id not in scope:
        return False, before
    if property_id is None:
        return True, None
    if known is not None and known.starts is None:  # all of the person's mail came into the scope
        return True, property_id
    starts: Sequence[str | None] = () if known is None else (*(known.starts or ()), known.property_id)
    kept = [one for one in dict.fromkeys((*starts, taken_from)) if one != property_id]
    return True, RoutingRule(property_id, tuple(kept[-_MOST_STARTS:])).to_note()
