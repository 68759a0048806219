"""What DynamoDB does to its clients and no emulator does: throttling, conflicts, unread keys, lost answers, index lag.

Injected into an aiobotocore client by its own events, so everything above the wire runs as it would. All of it is
drawn from one seed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ConnectionClosedError

_READS = ("GetItem", "BatchGetItem", "Query", "Scan", "DescribeTable")
_MOST_IN_A_ROW = 2


@dataclass
class DynamoFaults:
    """Chances from 0 to 1, for each call. ``seen`` counts what was done; ``lagging``: conversations that the indexes
    do not show yet, by partition key."""

    seed: int = 0
    throttled: float = 0
    conflicting: float = 0
    unread: float = 0
    lost: float = 0
    lagging: set[str] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._in_a_row: Counter[Any] = Counter()

    def befall(self, client: Any) -> None:
        events = client.meta.events
        events.register("before-parameter-build.dynamodb.BatchGetItem", self._leave_unread)
        events.register("before-parameter-build.dynamodb.Query", self._note_index)
        events.register("before-call.dynamodb", self._refuse)
        events.register("after-call.dynamodb", self._spoil)

    def _happens(self, kind: str, chance: float) -> bool:
        """Never more than twice in a row to one caller, so that patience is always rewarded."""
        caller = asyncio.current_task()
        if self._chance.random() >= chance or self._in_a_row[caller] >= _MOST_IN_A_ROW:
            return False
        self._in_a_row[caller] += 1
        self.seen[kind] += 1
        return True

    def _refuse(self, model: Any, **_: Any) -> tuple[Any, dict[str, Any]] | None:
        operation = model.name
        if self._happens("throttled", self.throttled):
            if operation == "TransactWriteItems":
                return _answer("TransactionCanceledException", [{"Code": "None"}, {"Code": "ThrottlingError"}])
            return _answer("ProvisionedThroughputExceededException")
        if operation not in _READS and self._happens("conflicting", self.conflicting):
            if operation == "TransactWriteItems":
                return _answer("TransactionCanceledException", [{"Code": "TransactionConflict"}, {"Code": "None"}])
            return _answer("TransactionConflictException")
        return None

    def _leave_unread(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        for table, request in list(params["RequestItems"].items()):
            keys = request["Keys"]
            if len(keys) > 1 and self._happens("unread", self.unread):
                read = self._chance.randrange(1, len(keys))
                # The caller's own request stays whole: it is sent again where this one is refused.
                params["RequestItems"] = {**params["RequestItems"], table: {**request, "Keys": keys[:read]}}
                context["unread"] = {table: {"Keys": keys[read:], "ConsistentRead": True}}

    def _note_index(self, params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["index"] = params.get("IndexName")

    def _spoil(self, http_response: Any, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        if http_response.status_code >= 300:
            return
        if left := context.get("unread"):
            parsed["UnprocessedKeys"] = left
        if context.get("index") and self.lagging and "Items" in parsed:
            shown = [item for item in parsed["Items"] if item["PK"]["S"] not in self.lagging]
            self.seen["lagging"] += len(parsed["Items"]) - len(shown)
            parsed["Items"] = shown
        if model.name not in _READS and self._happens("lost", self.lost):
            raise ConnectionClosedError(endpoint_url="http://lost.test")
        self._in_a_row[asyncio.current_task()] = 0


def _answer(code: str, reasons: list[dict[str, str]] | None = None) -> tuple[Any, dict[str, Any]]:
    parsed: dict[str, Any] = {"Error": {"Code": code, "Message": "injected"}, "ResponseMetadata": {}}
    if reasons is not None:
        parsed["CancellationReasons"] = reasons
    return SimpleNamespace(status_code=400, headers={}), parsed
