"""Reads a Vercel project's variables through its REST API.

https://vercel.com/docs/rest-api/projects/retrieve-the-environment-variables-of-a-project-by-id-or-name
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from afterturn.aws.lane_audit.settings import SECRET, is_read
from afterturn.aws.lane_audit.types import Runtime, RuntimeKind, RuntimeRole
from afterturn.errors import AfterturnError, ConfigError, InvalidInput, NotFound

API = "https://api.vercel.com"
_ATTEMPTS = 4
_LONGEST_WAIT_S = 30.0
_PAGES = 100


@dataclass(frozen=True, slots=True)
class Vercel:
    """Where the API is, and the credentials. ``team``: its id (``team_…``) or its slug."""

    token: str | None = field(repr=False)
    team: str | None = None
    url: str = API


@dataclass(frozen=True, slots=True)
class _Variable:
    """``path``: where its encrypted value can be read; None if the value is known, or must not be read."""

    name: str
    value: str | None
    path: str | None
    branch: str | None


@dataclass(frozen=True, slots=True)
class _Api:
    client: httpx.AsyncClient
    sleep: Callable[[float], Awaitable[object]]

    @property
    def is_of_team(self) -> bool:
        return bool(self.client.params)

    async def get(self, path: str, what: str, **params: str) -> Mapping[str, Any]:
        """A JSON object. Raises ConfigError for a refused token, NotFound, AfterturnError for an unusable answer."""
        for attempt in range(_ATTEMPTS):
            wait = 0.5 * 2**attempt
            try:
                response = await self.client.get(path, params=params)
            except httpx.RequestError as error:
                problem = f"no answer ({type(error).__name__}); check the network"
            else:
                if response.status_code != 429 and response.status_code < 500:
                    return _answer(response, what)
                problem = f"answered {response.status_code}, time after time; try again later"
                after = response.headers.get("retry-after", "")
                wait = float(after) if after.isascii() and after.isdigit() else wait
            if attempt + 1 < _ATTEMPTS:
                await self.sleep(min(wait, _LONGEST_WAIT_S))
        raise AfterturnError(f"{what}: {problem}")

    async def variables(self, path: str, what: str, key: str, **params: str) -> AsyncIterator[Mapping[str, Any]]:
        """Pages with their variables under ``key``."""
        more: dict[str, str] = {}
        for _ in range(_PAGES):
            page = await self.get(path, what, **params, **more)
            if "key" in page:
                page = {key: [page]}
            listed = page.get(key)
            if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
                raise AfterturnError(f"{what}: the answer has no list {key}; is --vercel-url the API of Vercel?")
            yield page
            following = (page.get("pagination") or {}).get("next")
            if following is None:
                return
            if more == {"until": str(following)}:
                break
            more = {"until": str(following)}
        raise AfterturnError(f"{what}: the list of variables does not come to an end")


@asynccontextmanager
async def open_vercel(
    vercel: Vercel, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> AsyncIterator[_Api]:
    """Open the API. Redirects are not followed: they would get the token.

    Raises:
        ConfigError: There is no token, or it is malformed.
        InvalidInput: The address is not one that may get the token.
    """
    token, parts = (vercel.token or "").strip(), urlsplit(vercel.url)
    if not token:
        raise ConfigError("VERCEL_TOKEN is not set; make a token that may read the project, and put it there")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("VERCEL_TOKEN: is no token; it has letters and digits alone")
    is_local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or not (parts.scheme == "https" or is_local):
        raise InvalidInput("--vercel-url: has to be an https address, since the token goes there")
    team = vercel.team
    async with httpx.AsyncClient(
        base_url=vercel.url,
        params={} if team is None else {"teamId" if team.startswith("team_") else "slug": team},
        headers={"authorization": f"Bearer {token}", "user-agent": "afterturn"},
        timeout=httpx.Timeout(15, connect=5),
        follow_redirects=False,
    ) as client:
        yield _Api(client, sleep)


async def read_project(api: _Api, project: str, target: str, role: RuntimeRole) -> tuple[Runtime, ...]:
    """The variables of a deployment to ``target``; for preview, also one runtime for each git branch with its own.

    A variable of the project wins over one that the team shares, and one of a branch over both. Values of secrets are
    not read. Raises as :meth:`_Api.get`.
    """
    what, name = f"vercel {project}", quote(project, safe="")
    variables: list[_Variable] = []
    if api.is_of_team:
        about = await api.get(f"/v9/projects/{name}", what)
        async for page in api.variables("/v1/env", what, "data", projectId=str(about.get("id"))):
            variables += _of_target(page["data"], target, "/v1/env", what)
    hidden = 0
    async for page in api.variables(f"/v10/projects/{name}/env", what, "envs"):
        variables += _of_target(page["envs"], target, f"/v1/projects/{name}/env", what)
        hidden += page.get("hiddenProductionEnvCount") or 0
    decrypted: dict[str, str | None] = {}
    runtimes = []
    for branch in (None, *sorted({each.branch for each in variables if each.branch is not None})):
        chosen = {each.name: each for each in variables if each.branch is None}
        chosen |= {each.name: each for each in variables if branch is not None and each.branch == branch}
        environment: dict[str, str | None] = {}
        for variable in chosen.values():
            if (path := variable.path) is not None and path not in decrypted:
                answer = await api.get(path, f"{what}: {variable.name}")
                value = answer.get("value")
                decrypted[path] = value if isinstance(value, str) and answer.get("decrypted") is not False else None
            environment[variable.name] = variable.value if path is None else decrypted[path]
        label = f"{project}:{target}" + ("" if branch is None else f" (branch {branch})")
        complete = not (hidden and target == "production")  # a token may not see production's
        runtimes.append(Runtime(RuntimeKind.VERCEL, label, environment, role, complete=complete))
    return tuple(runtimes)


def _of_target(listed: list[Mapping[str, Any]], target: str, path: str, what: str) -> Iterator[_Variable]:
    """The variables that a deployment to ``target`` gets and that matter here."""
    for entry in listed:
        targets = entry.get("target") or ()
        name, kind, branch = str(entry.get("key", "")), entry.get("type"), entry.get("gitBranch")
        if target not in ([targets] if isinstance(targets, str) else targets) or not is_read(name):
            continue
        is_secret = name.upper() in SECRET
        if kind == "plain" and isinstance(entry.get("value"), str) and not is_secret:
            yield _Variable(name, entry["value"], None, branch)
        elif kind != "encrypted" or is_secret:
            yield _Variable(name, None, None, branch)
        elif entry.get("id"):
            yield _Variable(name, None, f"{path}/{quote(str(entry['id']), safe='')}", branch)
        else:
            raise AfterturnError(f"{what}: the answer gives {name} no id; is this the API of Vercel?")


def _answer(response: httpx.Response, what: str) -> Mapping[str, Any]:
    if response.status_code in (401, 403):
        raise ConfigError(
            f"{what}: Vercel does not let this token in ({response.status_code}); check VERCEL_TOKEN, that it has not "
            "expired, and --vercel-team"
        )
    if response.status_code == 404:
        raise NotFound(f"{what}: Vercel knows no such project for this token; check its name and --vercel-team")
    if not response.is_success:
        raise AfterturnError(f"{what}: Vercel answered {response.status_code}; check --vercel-url")
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise AfterturnError(f"{what}: the answer is no JSON object; is --vercel-url the API of Vercel?")
    return answer
