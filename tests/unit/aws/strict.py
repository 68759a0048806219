"""What DynamoDB refuses and an emulator accepts: a check of every request, before it is sent.

Rules from the API reference and the developer guide ("Service, account, and table quotas", "Expressions"). In one thing
it is stricter than AWS: attribute names always go through placeholders, so that no reserved word can slip in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from afterturn.store.dynamodb.requests import from_item, item_bytes

Params = Mapping[str, Any]
Path = tuple[str, ...]

_TOKEN = re.compile(r"\s*(#\w+|:\w+|[A-Za-z_]\w*|\d+|<>|<=|>=|[=<>(),.+\[\]-])")
_WORDS = frozenset(
    {"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "BETWEEN", "IN", "size", "contains", "begins_with"}
    | {"attribute_exists", "attribute_not_exists", "attribute_type", "if_not_exists", "list_append"}
)
_OPERATORS = frozenset({"=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "BETWEEN", "IN"})
_EXPRESSIONS = (
    "KeyConditionExpression",
    "FilterExpression",
    "ConditionExpression",
    "ProjectionExpression",
    "UpdateExpression",
)


class Refused(AssertionError):
    """AWS would answer with a ValidationException."""


class StrictDynamo:
    """The check for one table, by its CreateTable parameters."""

    def __init__(self, definition: Params) -> None:
        self._table: str = definition["TableName"]
        self._indexes = {
            index["IndexName"]: tuple(key["AttributeName"] for key in index["KeySchema"])
            for index in definition["GlobalSecondaryIndexes"]
        }
        self._index_keys = {key: place for keys in self._indexes.values() for place, key in enumerate(keys)}

    def watch(self, client: Any) -> None:
        """Check every request of an aiobotocore client from now on."""
        client.meta.events.register("before-parameter-build.dynamodb", self._on_request)

    def _on_request(self, params: Params, model: Any, **_: Any) -> None:
        self.check(model.name, params)

    def check(self, operation: str, params: Params) -> None:
        """Raises Refused."""
        check = getattr(self, f"_check_{operation}", None)
        if check is not None:
            check(params)

    def _check_PutItem(self, params: Params) -> None:
        item = params["Item"]
        self._check_key({name: item[name] for name in ("PK", "SK") if name in item})
        self._check_attributes(item)
        size = item_bytes(from_item(item))
        _refuse_if(size > 400 * 1024, f"the item has {size} bytes")
        _check_terms(params)

    def _check_UpdateItem(self, params: Params) -> None:
        self._check_key(params["Key"])
        terms = _check_terms(params)
        paths = list(_updated_paths(_tokens(params["UpdateExpression"]), terms))
        for (one, _), (other, _) in combinations(paths, 2):
            shorter = min(len(one), len(other))
            _refuse_if(one[:shorter] == other[:shorter], f"two document paths overlap: {one}, {other}")
        for path, _ in paths:
            _refuse_if(path[0] in ("PK", "SK"), f"{path[0]} is part of the key and cannot be updated")
        written = {path[0]: params["ExpressionAttributeValues"][value] for path, value in paths if value}
        self._check_attributes(written)

    def _check_DeleteItem(self, params: Params) -> None:
        self._check_key(params["Key"])
        _check_terms(params)

    _check_ConditionCheck = _check_DeleteItem

    def _check_GetItem(self, params: Params) -> None:
        self._check_key(params["Key"])
        _check_terms(params)

    def _check_BatchGetItem(self, params: Params) -> None:
        for request in params["RequestItems"].values():
            keys = [tuple(sorted((name, str(value)) for name, value in key.items())) for key in request["Keys"]]
            _refuse_if(not 1 <= len(keys) <= 100, f"{len(keys)} keys in one batch")
            _refuse_if(len(set(keys)) < len(keys), "one key twice in a batch")
            for key in request["Keys"]:
                self._check_key(key)

    def _check_TransactWriteItems(self, params: Params) -> None:
        entries = params["TransactItems"]
        _refuse_if(not 1 <= len(entries) <= 100, f"{len(entries)} items in one transaction")
        _refuse_if(not 1 <= len(params.get("ClientRequestToken", "x")) <= 36, "the request token is too long")
        seen: set[str] = set()
        total = 0
        for entry in entries:
            _refuse_if(len(entry) != 1, "one item of a transaction is one action")
            ((verb, action),) = entry.items()
            self.check(verb if verb == "ConditionCheck" else f"{verb}Item", action)
            _refuse_if("ReturnValues" in action, "a transaction returns no values")
            key = action.get("Key") or {name: action["Item"][name] for name in ("PK", "SK")}
            _refuse_if(str(key) in seen, f"two actions on one item: {key}")
            seen.add(str(key))
            total += item_bytes(from_item(action.get("Item") or {**key, **action.get("ExpressionAttributeValues", {})}))
        _refuse_if(total > 4 * 1024 * 1024, f"the transaction has {total} bytes")

    def _check_Query(self, params: Params) -> None:
        index = params.get("IndexName")
        _refuse_if(index is not None and params.get("ConsistentRead", False), "an index has no consistent reads")
        _refuse_if(index is not None and index not in self._indexes, f"there is no index {index}")
        _refuse_if(params.get("Limit", 1) < 1, "a limit below 1")
        keys = self._indexes[index] if index else ("PK", "SK")
        terms = _check_terms(params)
        self._check_key_condition(params, keys, terms)
        names = {terms[token] for token in _tokens(params.get("FilterExpression", "")) if token.startswith("#")}
        _refuse_if(bool(names & set(keys)), f"a filter over a key: {names & set(keys)}")
        if start := params.get("ExclusiveStartKey"):
            wanted = {"PK", "SK", *keys}
            _refuse_if(set(start) != wanted, f"a start key of {set(start)} in place of {wanted}")

    def _check_Scan(self, params: Params) -> None:
        index = params.get("IndexName")
        _refuse_if(index is not None and params.get("ConsistentRead", False), "an index has no consistent reads")
        _refuse_if(index is not None and index not in self._indexes, f"there is no index {index}")
        _refuse_if(params.get("Limit", 1) < 1, "a limit below 1")
        _check_terms(params)
        if start := params.get("ExclusiveStartKey"):
            wanted = {"PK", "SK", *(self._indexes[index] if index else ())}
            _refuse_if(set(start) != wanted, f"a start key of {set(start)} in place of {wanted}")

    def _check_key_condition(self, params: Params, keys: Sequence[str], terms: Mapping[str, str]) -> None:
        tokens = [terms.get(token, token) for token in _tokens(params["KeyConditionExpression"])]
        told = " ".join("?" if token.startswith(":") else token for token in tokens)
        pk, sk = keys
        partition = rf"{pk} = \?"
        sort = rf"(?:{sk} (?:=|<|<=|>|>=) \?|{sk} BETWEEN \? AND \?|begins_with \( {sk} , \? \))"
        _refuse_if(not re.fullmatch(rf"{partition}(?: AND {sort})?", told), f"no key condition: {told}")
        for token in tokens:
            if token.startswith(":"):
                value = params["ExpressionAttributeValues"][token]
                _refuse_if(set(value) != {"S"} or not value["S"], f"an empty or mistyped key value: {value}")

    def _check_key(self, key: Params) -> None:
        _refuse_if(set(key) != {"PK", "SK"}, f"the key is {set(key)} in place of PK and SK")
        for name, limit in (("PK", 2048), ("SK", 1024)):
            _check_key_value(name, key[name], limit)

    def _check_attributes(self, item: Params) -> None:
        for name, value in item.items():
            _check_value(name, value)
            if name in self._index_keys:
                _check_key_value(name, value, 1024 if self._index_keys[name] else 2048)


def _refuse_if(wrong: bool, problem: str) -> None:
    if wrong:
        raise Refused(problem)


def _check_key_value(name: str, value: Params, limit: int) -> None:
    _refuse_if(set(value) != {"S"}, f"{name} is no string: {value}")
    size = len(value["S"].encode())
    _refuse_if(not 1 <= size <= limit, f"{name} has {size} bytes")


def _check_value(name: str, value: Params, depth: int = 1) -> None:
    _refuse_if(depth > 32, f"{name} is nested too deeply")
    _refuse_if(len(value) != 1, f"{name} has {len(value)} types")
    ((kind, content),) = value.items()
    if kind == "N":
        _refuse_if(len(content.lstrip("-").replace(".", "")) > 38, f"{name} has more than 38 digits")
    for part in content.values() if kind == "M" else content if kind == "L" else ():
        _check_value(name, part, depth + 1)


def _check_terms(params: Params) -> Mapping[str, str]:
    """Every placeholder is defined and used. Returns the attribute names by placeholder."""
    names = params.get("ExpressionAttributeNames")
    values = params.get("ExpressionAttributeValues")
    for given, what in ((names, "names"), (values, "values")):
        _refuse_if(given is not None and not given, f"no expression attribute {what}, but the parameter for them")
    used: set[str] = set()
    for kind in _EXPRESSIONS:
        if kind in params:
            expression = params[kind]
            _refuse_if(not expression, f"an empty {kind}")
            _refuse_if(len(expression.encode()) > 4096, f"{kind} has {len(expression.encode())} bytes")
            tokens = _tokens(expression)
            _refuse_if(sum(token in _OPERATORS for token in tokens) > 300, f"{kind} has more than 300 operators")
            used |= {token for token in tokens if token[0] in "#:"}
            _check_ranges(tokens, values or {})
    defined = {*(names or {}), *(values or {})}
    _refuse_if(used != defined, f"placeholders not defined: {used - defined}, not used: {defined - used}")
    for name in (names or {}).values():
        _refuse_if(
            not 1 <= len(name.encode()) <= 255, f"an attribute name of {len(name.encode())} bytes in expressions"
        )
    for name, value in (values or {}).items():
        _check_value(name, value)
    return names or {}


def _check_ranges(tokens: Sequence[str], values: Params) -> None:
    for place, token in enumerate(tokens):
        if token == "BETWEEN" and tokens[place + 1] in values and tokens[place + 3] in values:
            low, high = from_item(values)[tokens[place + 1]], from_item(values)[tokens[place + 3]]
            _refuse_if(low > high, f"BETWEEN with its upper bound below its lower one: {low}, {high}")


def _tokens(expression: str) -> list[str]:
    found: list[str] = []
    place = 0
    while place < len(expression.rstrip()):
        match = _TOKEN.match(expression, place)
        if match is None:
            raise Refused(f"not an expression from character {place}: {expression}")
        token = match[1]
        _refuse_if(token[0].isalpha() and token not in _WORDS, f"a name without a placeholder: {token}")
        found.append(token)
        place = match.end()
    return found


def _updated_paths(tokens: Sequence[str], names: Mapping[str, str]) -> Iterator[tuple[Path, str | None]]:
    """Each path of an update expression, and the value where it is set to one."""
    clauses: dict[str, list[list[str]]] = {}
    current: list[str] = []
    depth = 0
    for token in tokens:
        if token in ("SET", "REMOVE", "ADD", "DELETE"):
            _refuse_if(token in clauses, f"two {token} clauses")
            current = []
            clauses[token] = [current]
            clause = clauses[token]
        elif token == "," and not depth:
            current = []
            clause.append(current)
        else:
            depth += (token == "(") - (token == ")")
            current.append(token)
    for kind, parts in clauses.items():
        for part in parts:
            end = part.index("=") if kind == "SET" else len(part) if kind == "REMOVE" else len(part) - 1
            right = part[end + 1 :] if kind == "SET" else part[end:]
            yield (
                tuple(names[token] for token in part[:end] if token != "."),
                right[0] if len(right) == 1 and right[0].startswith(":") else None,
            )
