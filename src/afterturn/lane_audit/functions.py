"""Lambda functions as runtimes, and who is invoked from a lane's queues. Reads only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from afterturn.aws.account import Location
from afterturn.aws.errors import code_of, translated
from afterturn.aws.names import Names
from afterturn.aws.stack import ALIAS, FIRST_VERSION
from afterturn.errors import NotFound, StoreReadOnly
from afterturn.lane_audit.types import EventSource, Runtime, RuntimeKind, RuntimeRole

_OWN = {"bridge": RuntimeRole.BRIDGE, "webhooks": RuntimeRole.INBOUND}


def own_functions(names: Names) -> dict[str, RuntimeRole]:
    """What a lane's functions are called, and what they do."""
    return {f"{names.prefix}-{word}": role for word, role in _OWN.items()}


def role_of(name: str) -> RuntimeRole:
    """By the end of its name, also in another lane; what is no bridge takes messages in."""
    return _OWN.get(name.rpartition("-")[2], RuntimeRole.INBOUND)


async def own_function(client: Any, name: str, role: RuntimeRole) -> Runtime | None:
    """A function of the lane at its alias; None if there is none, or nothing was deployed to it yet."""
    if (told := await _configuration(client, name, ALIAS)) is not None:
        is_deployed = told.get("Version") != FIRST_VERSION or told.get("Environment")
        return _runtime(told, name, ALIAS, role) if is_deployed else None
    if (told := await _configuration(client, name, None)) is None:
        return None
    return _runtime(told, name, ALIAS, role, lacks=f"alias {ALIAS}")


async def read_function(client: Any, name: str, alias: str | None, role: RuntimeRole) -> Runtime:
    """Raises NotFound, and StoreError where it cannot be read."""
    told = await _configuration(client, name, alias)
    if told is None:
        raise NotFound(
            f"lambda {name}{f':{alias}' if alias else ''}: there is no such function in this account and region, or it "
            "has no such alias; check the name, --region and the credentials"
        )
    return _runtime(told, name, alias, role)


async def read_event_sources(
    client: Any, location: Location, names: Names, functions: Iterable[Runtime]
) -> tuple[EventSource, ...]:
    """Every mapping of these functions, and every mapping of the lane's queues whosoever's it is."""
    found: dict[str, EventSource] = {}
    for runtime in functions:
        name, _, _ = runtime.name.partition(":")
        for asked in {name, f"{name}:{runtime.qualifier}" if runtime.qualifier else name}:
            async for told in _mappings(client, FunctionName=asked):
                found[told["UUID"]] = _feed(told)
    for queue in (names.main, names.retry):
        async for told in _mappings(client, EventSourceArn=location.queue_arn(queue)):
            found[told["UUID"]] = _feed(told)
    return tuple(found.values())


async def _configuration(client: Any, name: str, alias: str | None) -> dict[str, Any] | None:
    with translated(f"lambda {name}"):
        try:
            told: dict[str, Any] = await client.get_function_configuration(
                FunctionName=name, **({"Qualifier": alias} if alias else {})
            )
        except client.exceptions.ClientError as error:
            if code_of(error) == "ResourceNotFoundException":
                return None
            raise
    return told


def _runtime(
    told: dict[str, Any], name: str, alias: str | None, role: RuntimeRole, lacks: str | None = None
) -> Runtime:
    environment = told.get("Environment") or {}
    if environment.get("Error"):
        raise StoreReadOnly(
            f"lambda {name}: Lambda cannot decrypt its variables for these credentials "
            f"({environment['Error'].get('ErrorCode', 'no code')}); allow them kms:Decrypt on the function's key"
        )
    return Runtime(
        RuntimeKind.LAMBDA,
        f"{name}:{alias}" if alias else name,
        {key: _readable(value) for key, value in (environment.get("Variables") or {}).items()},
        role,
        region=told["FunctionArn"].split(":")[3],
        qualifier=alias,
        lacking=lacks,
    )


def _readable(value: str) -> str | None:
    """None for a reference that the function resolves when it starts."""
    return None if value.startswith(("arn:", "{{resolve:")) else value


async def _mappings(client: Any, **whose: str) -> AsyncIterator[dict[str, Any]]:
    start: dict[str, str] = {}
    while True:
        with translated("ListEventSourceMappings"):
            try:
                answer = await client.list_event_source_mappings(**whose, **start)
            except client.exceptions.ClientError as error:
                if code_of(error) == "ResourceNotFoundException":
                    return
                raise
        for told in answer.get("EventSourceMappings", ()):
            yield told
        if not answer.get("NextMarker"):
            return
        start = {"Marker": answer["NextMarker"]}


def _feed(told: dict[str, Any]) -> EventSource:
    """``arn:aws:lambda:region:account:function:name[:qualifier]``"""
    words = told["FunctionArn"].split(":")
    return EventSource(
        function=words[6],
        qualifier=words[7] if len(words) > 7 else None,
        source=told.get("EventSourceArn", ""),
        enabled=told.get("State") in ("Enabled", "Enabling", "Creating", "Updating"),
        reports_partial="ReportBatchItemFailures" in (told.get("FunctionResponseTypes") or ()),
        concurrency=(told.get("ScalingConfig") or {}).get("MaximumConcurrency"),
    )
