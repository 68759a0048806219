"""The one table: what it is made of, and whether a table in AWS is it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from afterturn.errors import StoreBusy, StoreForeign


@dataclass(frozen=True, slots=True)
class Index:
    """A global secondary index. Its key attributes are named after ``prefix``; without ``whole`` it holds keys only.

    ``parameter``: the parameter of the template that turns it on.
    """

    name: str
    prefix: str
    whole: bool
    parameter: str

    @property
    def pk(self) -> str:
        return f"{self.prefix}PK"

    @property
    def sk(self) -> str:
        return f"{self.prefix}SK"

    def definition(self) -> dict[str, Any]:
        """As CreateTable and UpdateTable take it."""
        return {
            "IndexName": self.name,
            "KeySchema": _key_schema(self.pk, self.sk),
            "Projection": {"ProjectionType": "ALL" if self.whole else "KEYS_ONLY"},
        }


PHONE = Index("phone-index", "GSI1", whole=False, parameter="PhoneIndex")
ENTITY = Index("entityType-createdAt-index", "GSI3", whole=False, parameter="CreatedAtIndex")
RECENCY = Index("conv-recency-index", "GSI5", whole=True, parameter="RecencyIndex")
PROPERTY_RECENCY = Index("property-recency-index", "GSI6", whole=True, parameter="PropertyIndex")
WORK_ORDER = Index("work-order-index", "GSI7", whole=True, parameter="WorkOrderIndex")
RECENCY_B = Index("conv-recency-index-b", "GSI8", whole=True, parameter="RecencyIndexB")
"""A second recency index: there only while the layout of the first one is being changed (or after an odd number of
changes), so that rows can stand in both layouts at once."""

INDEXES = (PHONE, ENTITY, RECENCY, PROPERTY_RECENCY, WORK_ORDER)
"""What a new table is born with. GSI2 has no work here; GSI4 stays reserved (ADR-0049)."""

ALL_INDEXES = (*INDEXES, RECENCY_B)

TTL_ATTRIBUTE = "expiresAt"


def table_definition(name: str, indexes: Iterable[Index] = INDEXES) -> dict[str, Any]:
    """The parameters of CreateTable."""
    indexes = tuple(indexes)
    keys = ["PK", "SK", *(key for index in indexes for key in (index.pk, index.sk))]
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in keys],
        "KeySchema": _key_schema("PK", "SK"),
        "GlobalSecondaryIndexes": [index.definition() for index in indexes],
    }


def check_description(description: Mapping[str, Any], indexes: Iterable[Index] = INDEXES) -> None:
    """Refuse a table that is not ours, or not ready, by what DescribeTable says of it.

    An index is ready when the index itself is active and not backfilling; the table's own state says nothing of it.
    """
    name = description["TableName"]
    if description["KeySchema"] != _key_schema("PK", "SK"):
        raise StoreForeign(f"table {name} is not afterturn's: its key is not PK and SK; name another one")
    if description.get("TableStatus") not in ("ACTIVE", "UPDATING"):
        raise StoreBusy(f"table {name} is {description.get('TableStatus')}; try again when it is ACTIVE")
    existing = {index["IndexName"]: index for index in description.get("GlobalSecondaryIndexes", [])}
    for index in indexes:
        current = existing.get(index.name)
        if current is None:
            raise StoreForeign(
                f"table {name} has no index {index.name}; add it with `afterturn aws index add {index.name}`"
            )
        if current["KeySchema"] != _key_schema(index.pk, index.sk):
            raise StoreForeign(f"index {index.name} of table {name} has other keys than {index.pk} and {index.sk}")
        if index.whole and current["Projection"]["ProjectionType"] != "ALL":
            raise StoreForeign(f"index {index.name} of table {name} does not hold whole rows (projection ALL)")
        if not is_ready(current):
            raise StoreBusy(
                f"index {index.name} of table {name} is still being filled; `afterturn aws index add {index.name}` "
                "waits until it is ready"
            )


def is_ready(index: Mapping[str, Any]) -> bool:
    """Whether an index of DescribeTable can be read. The emulator gives no status to one that came with its table."""
    return index.get("IndexStatus", "ACTIVE") in ("ACTIVE", "UPDATING") and not index.get("Backfilling")


def _key_schema(pk: str, sk: str) -> list[dict[str, str]]:
    return [{"AttributeName": pk, "KeyType": "HASH"}, {"AttributeName": sk, "KeyType": "RANGE"}]
