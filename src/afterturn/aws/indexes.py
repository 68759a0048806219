"""The indexes of a lane's table, each turned on and off by a parameter of its stack.

An index is ready when it is active itself and no longer backfilling; the state of the table says nothing about it. AWS
creates one index at a time, so an update changes one parameter. AWS continues with an index that it has begun even if
nobody waits for it, so a wait can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from afterturn.aws import stack
from afterturn.aws.account import Account
from afterturn.aws.errors import translated
from afterturn.aws.names import Names
from afterturn.aws.stack import Patience, TimedOut
from afterturn.aws.table import ALL_INDEXES, RECENCY_B, Index, is_ready
from afterturn.errors import NotFound, StoreBusy, StoreForeign

_HOLDS = {"ALL": "whole rows", "KEYS_ONLY": "keys"}


class IndexAction(StrEnum):
    """What adding an index takes."""

    CREATE = "create"
    WAIT = "wait"
    NOTHING = "unchanged"


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far an index is. AWS reports only its state."""

    index: str
    status: str
    backfilling: bool
    waited: float


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index in a listing. ``items``: a count that AWS renews every six hours; None if there is no index.

    ``state``: ``ready``, ``missing``, ``not needed`` (used only while a layout changes), AWS's own status, what is
    wrong with its definition, or ``not afterturn's``.
    """

    name: str
    state: str
    holds: str
    items: int | None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "state": self.state, "holds": self.holds, "items": self.items}


def find_index(name: str) -> Index:
    """The index of this name. Raises NotFound."""
    for index in ALL_INDEXES:
        if index.name == name:
            return index
    raise NotFound(f"there is no index {name!r}; there are {', '.join(index.name for index in ALL_INDEXES)}")


class TableIndexes:
    """The indexes of a lane's table."""

    def __init__(self, account: Account, names: Names, patience: Patience | None = None) -> None:
        self._account = account
        self._names = names
        self._patience = patience or Patience()

    async def states(self) -> tuple[IndexState, ...]:
        """Every index that afterturn knows, then any other index of the table."""
        return index_states(await self._describe())

    async def item_count(self) -> int | None:
        """The number of items in the table, which AWS renews every six hours; None if it is unknown."""
        return (await self._describe()).get("ItemCount") or None

    async def add(self, index: Index, report: Callable[[IndexProgress], None] = lambda progress: None) -> IndexAction:
        """Create an index, if it is missing, and wait until it is ready.

        Raises:
            TimedOut: AWS is still creating it.
            StoreBusy: The table or another index is being changed.
            StoreForeign: There is such an index with other keys.
        """
        action = index_action(await self._describe(), index)

        async def look(waited: float) -> None:
            current = _indexes_of(await self._describe()).get(index.name)
            if current is not None:
                progress = IndexProgress(index.name, _status(current), bool(current.get("Backfilling")), waited)
                report(progress)

        if action is IndexAction.CREATE:
            await stack.change(self._account, self._names, {index.parameter: "on"}, self._patience, look=look)
        if action is not IndexAction.NOTHING:
            await self._wait(index, look)
        return action

    async def remove(self, index: Index) -> None:
        """Delete an index, if it is there. Raises as :meth:`add`."""
        if index.name in _indexes_of(await self._describe()):
            await stack.change(self._account, self._names, {index.parameter: "off"}, self._patience)

    async def _wait(self, index: Index, look: Callable[[float], Any]) -> None:
        state = "missing"
        async for waited in self._patience.looks():
            current = _indexes_of(await self._describe()).get(index.name)
            if current is not None and is_ready(current):
                return
            if current is not None and _status(current) == "DELETING":
                raise StoreForeign(f"index {index.name} of table {self._names.table} is being deleted by someone else")
            state = "missing" if current is None else _state(current)
            await look(waited)
        raise TimedOut(
            f"index {index.name} of table {self._names.table} is {state} after {self._patience.timeout:.0f} s; AWS "
            "continues: run the same command again to wait on"
        )

    async def _describe(self) -> Mapping[str, Any]:
        with translated(f"table {self._names.table}"):
            answer = await self._account.dynamodb.describe_table(TableName=self._names.table)
        description: Mapping[str, Any] = answer["Table"]
        return description


def index_action(description: Mapping[str, Any], index: Index) -> IndexAction:
    """Decide from DescribeTable what adding an index takes. Raises as :meth:`TableIndexes.add`."""
    table = description["TableName"]
    existing = _indexes_of(description)
    current = existing.pop(index.name, None)
    if current is not None:
        if (problem := _definition_problem(current, index)) is not None:
            raise StoreForeign(f"index {index.name} of table {table} {problem}")
        if _status(current) == "DELETING":
            raise StoreBusy(f"index {index.name} of table {table} is being deleted; run this again later")
        return IndexAction.NOTHING if is_ready(current) else IndexAction.WAIT
    for name, other in existing.items():
        if not is_ready(other):
            raise StoreBusy(
                f"index {name} of table {table} is {_state(other)}, and AWS changes one index at a time; "
                f"`afterturn aws index add {name}` waits for one that is being created"
            )
    if description.get("TableStatus") != "ACTIVE":
        raise StoreBusy(f"table {table} is {description.get('TableStatus')}; run this again when it is ACTIVE")
    return IndexAction.CREATE


def index_states(description: Mapping[str, Any]) -> tuple[IndexState, ...]:
    """The states of all indexes, by DescribeTable."""
    existing = _indexes_of(description)
    known = [_index_state(index, existing.pop(index.name, None)) for index in ALL_INDEXES]
    others = [
        IndexState(
            name, "not afterturn's", _HOLDS.get(current["Projection"]["ProjectionType"], "some"), _count(current)
        )
        for name, current in existing.items()
    ]
    return (*known, *others)


def _index_state(index: Index, current: Mapping[str, Any] | None) -> IndexState:
    holds = "whole rows" if index.whole else "keys"
    if current is None:
        return IndexState(index.name, "not needed" if index is RECENCY_B else "missing", holds, None)
    state = _definition_problem(current, index) or ("ready" if is_ready(current) else _state(current))
    return IndexState(index.name, state, holds, _count(current))


def _definition_problem(current: Mapping[str, Any], index: Index) -> str | None:
    if current["KeySchema"] != index.definition()["KeySchema"]:
        return f"has other keys than {index.pk} and {index.sk}"
    if index.whole and current["Projection"]["ProjectionType"] != "ALL":
        return "does not hold whole rows (projection ALL)"
    return None


def _indexes_of(description: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {current["IndexName"]: current for current in description.get("GlobalSecondaryIndexes", ())}


def _status(current: Mapping[str, Any]) -> str:
    return str(current.get("IndexStatus", "ACTIVE"))


def _state(current: Mapping[str, Any]) -> str:
    return f"{_status(current)}, backfilling" if current.get("Backfilling") else _status(current)


def _count(current: Mapping[str, Any]) -> int | None:
    return current.get("ItemCount")
