"""Reads the runtimes that a lane has by its names, and those that are named by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afterturn.aws.account import Account, LaneTarget, open_table
from afterturn.errors import AfterturnError, ConfigError, InvalidInput
from afterturn.lane_audit.dotenv_file import read_dotenv
from afterturn.lane_audit.ecs import read_service
from afterturn.lane_audit.functions import own_function, own_functions, read_event_sources, read_function, role_of
from afterturn.lane_audit.types import TARGETS, EventSource, Runtime, RuntimeKind, RuntimeRole

if TYPE_CHECKING:
    from afterturn.lane_audit.vercel import Vercel


@dataclass(frozen=True, slots=True)
class RuntimeTarget:
    """A runtime by name. ``part``: alias, container or Vercel target, where one is named."""

    kind: RuntimeKind
    name: str
    part: str | None = None
    role: RuntimeRole | None = None


@dataclass(slots=True)
class RuntimesRead:
    """What could be read, and what could not."""

    account: Account
    runtimes: list[Runtime] = field(default_factory=list)
    event_sources: tuple[EventSource, ...] = ()
    failures: list[AfterturnError] = field(default_factory=list)


_FORMS = {
    RuntimeKind.LAMBDA: "NAME[:ALIAS][=ROLE]",
    RuntimeKind.ECS: "CLUSTER/SERVICE[:CONTAINER][=ROLE]",
    RuntimeKind.VERCEL: "PROJECT[:TARGET][=ROLE]",
    RuntimeKind.DOTENV: "PATH[=ROLE]",
}


def parse_target(kind: RuntimeKind, text: str) -> RuntimeTarget:
    """Raises InvalidInput that shows the form."""
    body, _, word = text.rpartition("=")
    role = RuntimeRole(word) if word in set(RuntimeRole) else None
    if role is None:
        body = text
    if kind is RuntimeKind.DOTENV and body:
        return RuntimeTarget(kind, body, role=role)
    name, colon, part = body.partition(":")
    shaped = bool(name) and (bool(part) or not colon) and not set(part) & set(":=") and "=" not in name
    if kind is RuntimeKind.ECS:
        cluster, _, service = name.partition("/")
        shaped = shaped and bool(cluster and service) and "/" not in service
    elif kind is RuntimeKind.VERCEL:
        shaped = shaped and part in ("", *TARGETS.values())
    if kind is RuntimeKind.DOTENV or not shaped:
        raise InvalidInput(
            f"--{kind.value} {text!r}: has to be {_FORMS[kind]}; roles: {', '.join(RuntimeRole)}"
            + (f"; targets: {', '.join(TARGETS.values())}" if kind is RuntimeKind.VERCEL else "")
        )
    return RuntimeTarget(kind, name, part or None, role)


async def read_runtimes(
    lane: LaneTarget, targets: Sequence[RuntimeTarget], vercel: Callable[[], Vercel]
) -> RuntimesRead:
    """Every runtime of a lane. What cannot be read is told beside the rest: it must not hide what is found there.

    ``vercel`` is asked for only where a project is named. Raises ConfigError where lane, account and credentials
    disagree, and StoreError where the account or the lane's table cannot be looked at.
    """
    async with open_table(lane, "dynamodb", "lambda", "ecs") as account:
        read = RuntimesRead(account)
        named = {one.name for one in targets if one.kind is RuntimeKind.LAMBDA}
        functions = account.functions
        for name, role in own_functions(lane.names).items():
            if name not in named:
                await _add(read, _own(functions, name, role))
        for target in targets:
            if target.kind is not RuntimeKind.VERCEL:
                await _add(read, _read(account, target))
        await _add(read, _projects(lane, [one for one in targets if one.kind is RuntimeKind.VERCEL], vercel, read))
        try:
            invoked = [one for one in read.runtimes if one.kind is RuntimeKind.LAMBDA]
            read.event_sources = await read_event_sources(functions, account.location, lane.names, invoked)
        except AfterturnError as error:
            read.failures.append(error)
    return read


async def _add(read: RuntimesRead, reading: Awaitable[Iterable[Runtime]]) -> None:
    try:
        read.runtimes += await reading
    except AfterturnError as error:
        read.failures.append(error)


async def _own(client: Any, name: str, role: RuntimeRole) -> Iterable[Runtime]:
    found = await own_function(client, name, role)
    return () if found is None else (found,)


async def _read(account: Account, target: RuntimeTarget) -> Iterable[Runtime]:
    if target.kind is RuntimeKind.LAMBDA:
        role = target.role or role_of(target.name)
        return (await read_function(account.functions, target.name, target.part, role),)
    if target.kind is RuntimeKind.ECS:
        cluster, _, service = target.name.partition("/")
        role = target.role or RuntimeRole.WORKER
        return await read_service(account.clients["ecs"], cluster, service, target.part, role)
    return (read_dotenv(Path(target.name), target.role),)


async def _projects(
    lane: LaneTarget, targets: Sequence[RuntimeTarget], vercel: Callable[[], Vercel], read: RuntimesRead
) -> Iterable[Runtime]:
    if not targets:
        return ()
    from afterturn.lane_audit.vercel import open_vercel, read_project  # noqa: PLC0415 - loads an HTTP client

    async with open_vercel(vercel()) as api:
        for one in targets:
            target = one.part or TARGETS[lane.lane]
            await _add(read, read_project(api, one.name, target, one.role or RuntimeRole.WEB))
    return ()


def vercel_of(token: str | None, team: str | None, url: str) -> Vercel:
    """Raises ConfigError without a token."""
    from afterturn.lane_audit.vercel import Vercel  # noqa: PLC0415 - see above

    if not token:
        raise ConfigError("VERCEL_TOKEN is not set; make a token that may read the project, and put it there")
    return Vercel(token.strip(), team, url)
