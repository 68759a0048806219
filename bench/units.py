"""Read units of DynamoDB from the sizes of items, pure.

The emulator reports a constant. The rules: a unit is a consistent read of up to 4 KB, an eventually consistent one
costs half. A query rounds the sum of what it looked at, a lookup each item by itself; what finds nothing costs as much
as 4 KB. (Developer guide, "DynamoDB read and write operations".)
"""

from __future__ import annotations

from collections.abc import Iterable

UNIT_BYTES = 4096


def of_query(sizes: Iterable[int], *, consistent: bool = False) -> float:
    """Of one page of a query: ``sizes`` are those of all items that it looked at, filtered out or not."""
    return _units(sum(sizes)) * _factor(consistent)


def of_lookups(sizes: Iterable[int], *, consistent: bool = False) -> float:
    """Of GetItem or BatchGetItem: one size a key, 0 for a key that is not there."""
    return sum(map(_units, sizes)) * _factor(consistent)


def _units(size: int) -> int:
    return max(1, -(-size // UNIT_BYTES))


def _factor(consistent: bool) -> float:
    return 1.0 if consistent else 0.5
