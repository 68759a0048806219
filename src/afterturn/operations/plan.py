"""What has to be done so that what is found becomes what is wanted, pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from afterturn.errors import StoreForeign
from afterturn.operations.resources import Kind, Properties, Resource

Found = Mapping[tuple[Kind, str], Properties]
"""What is there, in the same words as what is wanted."""

TABLE_ELSEWHERE = frozenset({"AttributeDefinitions", "GlobalSecondaryIndexes"})
"""Of a table: its indexes are resources of their own, and its attribute definitions follow from them."""


class Act(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Change:
    """A property that is not as wanted."""

    name: str
    found: Any
    wanted: Any


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one resource."""

    resource: Resource
    act: Act
    changes: tuple[Change, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.resource.kind.value,
            "name": self.resource.name,
            "action": self.act.value,
            "changes": {one.name: {"found": one.found, "wanted": one.wanted} for one in self.changes},
        }


def plan(wanted: Iterable[Resource], found: Found) -> tuple[Step, ...]:
    """A step for each wanted resource, in their order.

    Raises StoreForeign where something of a wanted name is of another make and cannot become what is wanted.
    """
    return tuple(_step(one, found.get((one.kind, one.name))) for one in wanted)


def _step(resource: Resource, found: Properties | None) -> Step:
    if found is None:
        return Step(resource, Act.CREATE)
    changes = tuple(_changes(resource, found))
    for change in changes:
        if change.name in resource.immutable:
            raise StoreForeign(
                f"{resource.kind.value} {resource.name} has {change.name} {change.found!r} in place of "
                f"{change.wanted!r}, which cannot be changed: it is not afterturn's, or it has to be made anew"
            )
    return Step(resource, Act.UPDATE if changes else Act.UNCHANGED, changes)


def _changes(resource: Resource, found: Properties) -> Iterable[Change]:
    for name, wanted in resource.properties.items():
        if resource.kind is Kind.TABLE and name in TABLE_ELSEWHERE:
            continue
        there = found.get(name)
        if name == "Tags":
            there = {key: (there or {}).get(key) for key in wanted}
        if there != wanted:
            yield Change(name, there, wanted)
