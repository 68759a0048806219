"""A DynamoDB table: complete results, translated errors, and retries where they are safe."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from afterturn.aws.errors import Backoff, FailureKind, failure_kind, is_condition, is_foreign, translate
from afterturn.aws.table import Index, check_description
from afterturn.errors import StoreBusy
from afterturn.store.dynamodb.keys import Key
from afterturn.store.dynamodb.requests import (
    Attributes,
    Condition,
    ExpressionTerms,
    Query,
    WriteAction,
    from_item,
    key_item,
)

T = TypeVar("T")

_MAX_KEYS = 100
"""The limit of BatchGetItem."""
_UNKNOWN_OUTCOME_TRIES = 3
"""botocore retries each of them as well."""


class WriteConflict(Exception):
    """A concurrent write, or a failed condition: read and plan again. Internal to the store.

    ``item``: the stored item, if it was requested.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error
        answer = getattr(error, "response", None) or {}
        self.item = from_item(answer["Item"]) if answer.get("Item") else None
        self.is_condition = is_condition(error)


class Table:
    """One table behind a client of aiobotocore."""

    def __init__(self, client: Any, name: str, backoff: Backoff | None = None) -> None:
        self.name = name
        self._client = client
        self._backoff = backoff or Backoff()

    async def check(self, indexes: Iterable[Any]) -> None:
        """Refuse a table that is missing, foreign, not ready, or lacks an index. Raises StoreError."""
        response = await self._call("describe_table", {"TableName": self.name})
        check_description(response["Table"], indexes)

    async def get(self, key: Key, names: Sequence[str] = ()) -> Attributes | None:
        """The item as it is now (a consistent read)."""
        params: dict[str, Any] = {"TableName": self.name, "Key": key_item(key), "ConsistentRead": True}
        if names:
            placeholders = {f"#n{number}": name for number, name in enumerate(names)}
            params |= {"ProjectionExpression": ", ".join(placeholders), "ExpressionAttributeNames": placeholders}
        response = await self._call("get_item", params)
        return from_item(response["Item"]) if response.get("Item") else None

    async def get_many(self, keys: Iterable[Key]) -> dict[Key, Attributes]:
        """Those of the items that exist (strongly consistent). Unprocessed keys are requested again."""
        items_by_key: dict[Key, Attributes] = {}
        unique_keys = list(dict.fromkeys(keys))
        for start in range(0, len(unique_keys), _MAX_KEYS):
            pending = [key_item(key) for key in unique_keys[start : start + _MAX_KEYS]]
            stalls = 0
            while pending:
                request = {self.name: {"Keys": pending, "ConsistentRead": True}}
                response = await self._call("batch_get_item", {"RequestItems": request})
                items = [from_item(item) for item in response["Responses"].get(self.name, ())]
                items_by_key |= {(item["PK"], item["SK"]): item for item in items}
                pending = response.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
                stalls = 0 if items else stalls + 1
                if pending:
                    await self._again(stalls, "batch_get_item")
        return items_by_key

    async def query(self, query: Query, limit: int | None = None, start: Any = None) -> tuple[list[Attributes], Any]:
        """One page of at most ``limit`` items, and the next start key (None: the end)."""
        params = query.params(self.name)
        if limit is not None:
            params["Limit"] = limit
        if start is not None:
            params["ExclusiveStartKey"] = start
        response = await self._call("query", params)
        return [from_item(item) for item in response["Items"]], response.get("LastEvaluatedKey")

    async def items(self, query: Query, limit: int | None = None) -> AsyncIterator[Attributes]:
        """Every item of a query, or its first ``limit``, over all pages."""
        start, left = None, limit
        while left is None or left > 0:
            page, start = await self.query(query, None if query.only else left, start)
            for item in page if left is None else page[:left]:
                yield item
            left = None if left is None else left - len(page)
            if start is None:
                return

    async def scan(
        self,
        names: Sequence[str],
        *,
        only: Condition | None = None,
        index: Index | None = None,
        limit: int,
        start: Any = None,
    ) -> tuple[list[Attributes], Any, int]:
        """One page of the whole table, or of an index: some attributes of the items that fit, the key to go on from
        (None: this is the end), and how many items were looked at (at most ``limit``)."""
        terms = ExpressionTerms()
        params: dict[str, Any] = {
            "TableName": self.name,
            "Limit": limit,
            "ProjectionExpression": ", ".join(terms.name(name) for name in names),
        }
        if only is not None:
            params["FilterExpression"] = only(terms)
        params |= terms.params()
        params |= {"ConsistentRead": True} if index is None else {"IndexName": index.name}
        if start is not None:
            params["ExclusiveStartKey"] = start
        response = await self._call("scan", params)
        return (
            [from_item(item) for item in response["Items"]],
            response.get("LastEvaluatedKey"),
            response["ScannedCount"],
        )

    async def count(self, query: Query) -> int:
        """How many items a query has. Reads them all, and sends none."""
        params = query.params(self.name) | {"Select": "COUNT"}
        total = 0
        start: Any = None
        while True:
            response = await self._call("query", params if start is None else params | {"ExclusiveStartKey": start})
            total += int(response["Count"])
            start = response.get("LastEvaluatedKey")
            if start is None:
                return total

    async def write(self, action: WriteAction) -> Attributes:
        """One write of one item; returns the item as it is after an update. Raises Conflict."""
        params = action.params(self.name)
        if action.condition is not None and action.verb == "Put":
            params["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if action.verb == "Update":
            params["ReturnValues"] = "ALL_NEW"

        async def unit() -> Any:
            return await self._call(f"{action.verb.lower()}_item", params)

        # A write without a condition depends on no read, so it can be repeated as it is.
        response = await (unit() if action.condition is not None else self.until_done(unit))
        return from_item(response.get("Attributes", {}))

    async def transact(self, actions: Sequence[WriteAction]) -> None:
        """All of the writes or none. Raises Conflict.

        A request whose response was lost is sent again with the same token, so it is carried out once. A new plan after
        a conflict is another request with another token.
        """
        params = {
            "TransactItems": [{action.verb.value: action.params(self.name)} for action in actions],
            "ClientRequestToken": str(uuid.uuid4()),
        }
        await self._call("transact_write_items", params)

    async def commit(self, actions: Sequence[WriteAction]) -> None:
        """All of the writes or none; a single one without a transaction, which costs half."""
        if len(actions) == 1:
            await self.write(actions[0])
        else:
            await self.transact(actions)

    async def until_done(self, unit: Callable[[], Awaitable[T]]) -> T:
        """Repeat a read-plan-write cycle until it does not conflict. Raises StoreBusy after too many attempts."""
        attempt = 0
        while True:
            try:
                return await unit()
            except WriteConflict as conflict:
                if attempt + 1 >= 3 * self._backoff.tries:
                    raise translate(conflict.error, f"table {self.name}") from conflict.error
                await self._backoff.pause(attempt)
            attempt += 1

    async def _call(self, operation: str, params: dict[str, Any]) -> Any:
        attempt = 0
        while True:
            try:
                return await getattr(self._client, operation)(**params)
            except Exception as error:
                if not is_foreign(error):
                    raise
                kind = failure_kind(error)
                if kind is FailureKind.CONFLICT:
                    raise WriteConflict(error) from error
                max_attempts = {
                    FailureKind.THROTTLED: self._backoff.tries,
                    FailureKind.UNKNOWN_OUTCOME: _UNKNOWN_OUTCOME_TRIES,
                }.get(kind, 1)
                if attempt + 1 >= max_attempts:
                    raise translate(error, f"{operation} on table {self.name}") from error
            await self._backoff.pause(attempt)
            attempt += 1

    async def _again(self, stalls: int, operation: str) -> None:
        if stalls >= self._backoff.tries:
            raise StoreBusy(f"{operation} on table {self.name} is throttled by AWS; trying again later is safe")
        await self._backoff.pause(stalls)
