"""Reads the runtimes that a lane has by its names, and those that are named by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afterturn.errors import AfterturnError, ConfigError, InvalidInput
from afterturn.operations.account import Account, Whose, open_table
from afterturn.operations.wires.dotenv_file import read_dotenv
from afterturn.operations.wires.functions import own_function, own_functions, read_feeds, read_function, role_of
from afterturn.operations.wires.runtime import Feed, Kind, Role, Runtime
from afterturn.operations.wires.services import read_service
from afterturn.operations.wires.vercel import TARGETS, Vercel, open_vercel, read_project


@dataclass(frozen=True, slots=True)
class Target:
    """A runtime by name. ``part``: alias, container or Vercel target, where one is named."""

    kind: Kind
    name: str
    part: str | None = None
    role: Role | None = None


@dataclass(slots=True)
class Seen:
    """What could be read, and what could not."""

    account: Account
    runtimes: list[Runtime] = field(default_factory=list)
    feeds: tuple[Feed, ...] = ()
    failures: list[AfterturnError] = field(default_factory=list)


_FORMS = {
    Kind.LAMBDA: "NAME[:ALIAS][=ROLE]",
    Kind.ECS: "CLUSTER/SERVICE[:CONTAINER][=ROLE]",
    Kind.VERCEL: "PROJECT[:TARGET][=ROLE]",
    Kind.DOTENV: "PATH[=ROLE]",
}


def parse_target(kind: Kind, text: str) -> Target:
    """Raises InvalidInput that shows the form."""
    body, _, word = text.rpartition("=")
    role = Role(word) if word in set(Role) else None
    if role is None:
        body = text
    if kind is Kind.DOTENV and body:
        return Target(kind, body, role=role)
    name, colon, part = body.partition(":")
    shaped = bool(name) and (bool(part) or not colon) and not set(part) & set(":=") and "=" not in name
    if kind is Kind.ECS:
        cluster, _, service = name.partition("/")
        shaped = shaped and bool(cluster and service) and "/" not in service
    elif kind is Kind.VERCEL:
        shaped = shaped and part in ("", *TARGETS.values())
    if kind is Kind.DOTENV or not shaped:
        raise InvalidInput(
            f"--{kind.value} {text!r}: has to be {_FORMS[kind]}; roles: {', '.join(Role)}"
            + (f"; targets: {', '.join(TARGETS.values())}" if kind is Kind.VERCEL else "")
        )
    return Target(kind, name, part or None, role)


async def look(whose: Whose, targets: Sequence[Target], vercel: Callable[[], Vercel]) -> Seen:
    """Every runtime of a lane. What cannot be read is told beside the rest: it must not hide what is found there.

    ``vercel`` is asked for only where a project is named. Raises ConfigError where lane, account and credentials
    disagree, and StoreError where the account or the lane's table cannot be looked at.
    """
    async with open_table(whose, "lambda", "ecs") as (account, _):
        seen = Seen(account)
        named = {one.name for one in targets if one.kind is Kind.LAMBDA}
        functions = account.clients["lambda"]
        for name, role in own_functions(whose.names).items():
            if name not in named:
                await _note(seen, _own(functions, name, role))
        for target in targets:
            if target.kind is not Kind.VERCEL:
                await _note(seen, _read(account, target))
        await _note(seen, _projects(whose, [one for one in targets if one.kind is Kind.VERCEL], vercel, seen))
        try:
            invoked = [one for one in seen.runtimes if one.kind is Kind.LAMBDA]
            seen.feeds = await read_feeds(functions, account.place, whose.names, invoked)
        except AfterturnError as error:
            seen.failures.append(error)
    return seen


async def _note(seen: Seen, reading: Awaitable[Iterable[Runtime]]) -> None:
    try:
        seen.runtimes += await reading
    except AfterturnError as error:
        seen.failures.append(error)


async def _own(client: Any, name: str, role: Role) -> Iterable[Runtime]:
    found = await own_function(client, name, role)
    return () if found is None else (found,)


async def _read(account: Account, target: Target) -> Iterable[Runtime]:
    if target.kind is Kind.LAMBDA:
        role = target.role or role_of(target.name)
        return (await read_function(account.clients["lambda"], target.name, target.part, role),)
    if target.kind is Kind.ECS:
        cluster, _, service = target.name.partition("/")
        role = target.role or Role.WORKER
        return await read_service(account.clients["ecs"], cluster, service, target.part, role)
    return (read_dotenv(Path(target.name), target.role),)


async def _projects(
    whose: Whose, targets: Sequence[Target], vercel: Callable[[], Vercel], seen: Seen
) -> Iterable[Runtime]:
    if not targets:
        return ()
    async with open_vercel(vercel()) as api:
        for one in targets:
            target = one.part or TARGETS[whose.lane]
            await _note(seen, read_project(api, one.name, target, one.role or Role.WEB))
    return ()


def vercel_of(token: str | None, team: str | None, url: str) -> Vercel:
    """Raises ConfigError without a token."""
    if not token:
        raise ConfigError("VERCEL_TOKEN is not set; make a token that may read the project, and put it there")
    return Vercel(token.strip(), team, url)
