"""What of a lane's function is there. Reads only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from typing import Any

from afterturn.aws.names import Names
from afterturn.errors import ConfigError
from afterturn.operations.account import Account, missing
from afterturn.operations.deploy.calls import functions, told
from afterturn.operations.deploy.functions import ALIAS, Part
from afterturn.operations.deploy.plan import Found, Source, Told, check_owner, read_policy
from afterturn.operations.lanes import check_lane, check_names
from afterturn.operations.looking import bearers, look
from afterturn.operations.resources import Kind, Properties, resources


async def look_for(account: Account, part: Part, names: Names, *, expected: str | None = None) -> Found:
    """A function with its alias and what calls it.

    Raises ConfigError where lane, account and credentials disagree, and StoreForeign for a lane without its table or
    queues.
    """
    check_names(names)
    if part is Part.WEBHOOKS:
        _check_driver(account)
    needed = [one for one in resources(names, account.place) if one.kind in (Kind.TABLE, Kind.QUEUE)]
    there = await look(account, needed)
    found = await _function(account, part, names)
    owned = [*bearers(there), *check_owner(names.function(part), found)]
    check_lane(names, account.identity, owned, account=expected, emulated=account.emulated)
    for one in needed:
        if (one.kind, one.name) not in there:
            raise missing(names, one.kind.value, one.name, account)
    if found.latest is not None:
        found = replace(found, aliases=await _aliases(functions(account), names.function(part)))
    if part is Part.WEBHOOKS:
        return found
    sources = [await _source(account, name, there[Kind.QUEUE, name]) for name in (names.main, names.retry)]
    return replace(found, sources=tuple(sources))


async def look_at_function(account: Account, part: Part, names: Names, *, expected: str | None = None) -> Found:
    """The function alone. Raises ConfigError as above."""
    check_names(names)
    found = await _function(account, part, names)
    owned = check_owner(names.function(part), found)
    check_lane(names, account.identity, owned, account=expected, emulated=account.emulated)
    return found


async def version_of(account: Account, name: str, version: str) -> Told | None:
    """The configuration of a published version; none where there is no such."""
    client = functions(account)
    with told(f"version {version} of function {name}"):
        answer = await _if_there(client, client.get_function_configuration(FunctionName=name, Qualifier=version))
    # An emulator answers for any number with what is not published.
    return answer if answer is not None and str(answer.get("Version")) == version else None


def _check_driver(account: Account) -> None:
    """Raise ConfigError for a driver from before a URL needed two permissions."""
    asked = functions(account).meta.service_model.operation_model("AddPermission").input_shape.members
    if "InvokedViaFunctionUrl" not in asked:
        raise ConfigError("the AWS driver here is too old to open a function's URL: pip install -U aiobotocore")


async def _function(account: Account, part: Part, names: Names) -> Found:
    client, name = functions(account), names.function(part)
    with told(f"function {name}"):
        answer = await _if_there(client, client.get_function(FunctionName=name))
        if answer is None:
            return Found()
        numbers = [int(one["Version"]) async for one in _versions(client, name) if one["Version"] != "$LATEST"]
        alias = await _if_there(client, client.get_alias(FunctionName=name, Name=ALIAS))
        url, policy = None, None
        if alias is not None and part is Part.WEBHOOKS:
            url = await _if_there(client, client.get_function_url_config(FunctionName=name, Qualifier=ALIAS))
            policy = await _if_there(client, client.get_policy(FunctionName=name, Qualifier=ALIAS))
    newest = await version_of(account, name, str(max(numbers))) if numbers else None
    return Found(
        latest=answer["Configuration"],
        newest=newest,
        tags=answer.get("Tags") or {},
        alias=alias,
        url=url,
        policy=read_policy(policy["Policy"]) if policy else {},
        versions=tuple(sorted(numbers)),
    )


async def _aliases(client: Any, name: str) -> tuple[Told, ...]:
    found: list[Told] = []
    start: dict[str, str] = {}
    with told(f"aliases of function {name}"):
        while True:
            page = await client.list_aliases(FunctionName=name, **start)
            found += page["Aliases"]
            if not page.get("NextMarker"):
                return tuple(found)
            start = {"Marker": page["NextMarker"]}


async def _versions(client: Any, name: str) -> AsyncIterator[Told]:
    start: dict[str, str] = {}
    while True:
        page = await client.list_versions_by_function(FunctionName=name, **start)
        for one in page["Versions"]:
            yield one
        if not page.get("NextMarker"):
            return
        start = {"Marker": page["NextMarker"]}


async def _source(account: Account, name: str, queue: Properties) -> Source:
    client, arn = functions(account), account.place.queue_arn(name)
    mappings: list[Told] = []
    start: dict[str, str] = {}
    with told(f"mappings of queue {name}"):
        while True:
            page = await client.list_event_source_mappings(EventSourceArn=arn, **start)
            mappings += page["EventSourceMappings"]
            if not page.get("NextMarker"):
                return Source(name, arn, int(queue.get("VisibilityTimeout", 30)), tuple(mappings))
            start = {"Marker": page["NextMarker"]}


async def _if_there(client: Any, call: Awaitable[Any]) -> Any:
    try:
        return await call
    except client.exceptions.ResourceNotFoundException:
        return None
