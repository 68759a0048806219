"""A Vercel project as runtimes, through its REST API. Reads only.

https://vercel.com/docs/rest-api/projects/retrieve-the-environment-variables-of-a-project-by-id-or-name
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from afterturn.errors import AfterturnError, ConfigError, InvalidInput, NotFound
from afterturn.lane_audit.settings import SECRET, is_read
from afterturn.lane_audit.types import Environment, Runtime, RuntimeKind, RuntimeRole

API = "https://api.vercel.com"
_ATTEMPTS = 4
_LONGEST_WAIT_S = 30.0
_PAGES = 100


@dataclass(frozen=True, slots=True)
class Vercel:
    """Where the API is and who asks. ``team``: its id (``team_…``) or its slug."""

    token: str = field(repr=False)
    team: str | None = None
    url: str = API

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        here = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and here)):
            raise InvalidInput("--vercel-url: has to be an https address, since the token goes there")
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise ConfigError("VERCEL_TOKEN: is no token; it has letters and digits alone")

    @property
    def scope(self) -> dict[str, str]:
        if self.team is None:
            return {}
        return {"teamId" if self.team.startswith("team_") else "slug": self.team}


@dataclass(frozen=True, slots=True)
class _Variable:
    """``path``: where its value is told; none where it is not."""

    name: str
    value: str | None
    path: str | None
    branch: str | None


@dataclass(frozen=True, slots=True)
class _Api:
    client: httpx.AsyncClient
    scope: Mapping[str, str]
    sleep: Callable[[float], Awaitable[object]]

    async def get(self, path: str, what: str, **params: str) -> Mapping[str, Any]:
        """Raises ConfigError for a token that is not taken, NotFound, and AfterturnError without a usable answer."""
        for attempt in range(_ATTEMPTS):
            wait = 0.5 * 2**attempt
            try:
                response = await self.client.get(path, params={**self.scope, **params})
            except httpx.RequestError as error:
                problem = f"no answer ({type(error).__name__}); check the network"
            else:
                if response.status_code != 429 and response.status_code < 500:
                    return _answer(response, what)
                problem = f"answered {response.status_code}, time after time; try again later"
                wait = _retry_after(response, wait)
            if attempt + 1 < _ATTEMPTS:
                await self.sleep(min(wait, _LONGEST_WAIT_S))
        raise AfterturnError(f"{what}: {problem}")


@asynccontextmanager
async def open_vercel(
    vercel: Vercel, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> AsyncIterator[_Api]:
    """The API, closed when the block ends. No redirect is followed: it would get the token."""
    async with httpx.AsyncClient(
        base_url=vercel.url,
        headers={"authorization": f"Bearer {vercel.token}", "user-agent": "afterturn"},
        timeout=httpx.Timeout(15, connect=5),
        follow_redirects=False,
    ) as client:
        yield _Api(client, vercel.scope, sleep)


async def read_project(api: _Api, project: str, target: str, role: RuntimeRole) -> tuple[Runtime, ...]:
    """What a deployment to ``target`` gets; for preview, one runtime more for each git branch with values of its own.

    A variable of the project wins over one that the team shares, and one of a branch over both. Values of secrets are
    not asked for. Raises as :meth:`_Api.get`.
    """
    what = f"vercel {project}"
    own, whole = await _own(api, project, target, what)
    variables = [*(await _shared(api, project, target, what)), *own]
    branches = sorted({one.branch for one in variables if one.branch is not None})
    name = f"{project}:{target}"
    told: dict[str, str | None] = {}
    runtimes = []
    for branch in (None, *branches):
        chosen = {one.name: one for one in variables if one.branch is None}
        chosen |= {one.name: one for one in variables if branch is not None and one.branch == branch}
        environment = await _values(api, chosen.values(), told, what)
        label = name if branch is None else f"{name} (branch {branch})"
        runtimes.append(Runtime(RuntimeKind.VERCEL, label, environment, role, complete=whole))
    return tuple(runtimes)


async def _own(api: _Api, project: str, target: str, what: str) -> tuple[list[_Variable], bool]:
    """The project's variables, and whether that is all: production's can be hidden from a token."""
    path = f"/v10/projects/{quote(project, safe='')}/env"
    one = f"/v1/projects/{quote(project, safe='')}/env"
    found: list[_Variable] = []
    hidden = 0
    async for page in _pages(api, path, what):
        told = [page] if "key" in page else _list(page, "envs", what)
        found += [_variable(each, one, what) for each in told if _is_for(each, target)]
        hidden += page.get("hiddenProductionEnvCount") or 0
    return found, not (hidden and target == "production")


async def _shared(api: _Api, project: str, target: str, what: str) -> list[_Variable]:
    """What a team shares among projects; an account of one person has no such."""
    if not api.scope:
        return []
    told = await api.get(f"/v9/projects/{quote(project, safe='')}", what)
    found: list[_Variable] = []
    async for page in _pages(api, "/v1/env", what, projectId=str(told.get("id"))):
        found += [_variable(each, "/v1/env", what) for each in _list(page, "data", what) if _is_for(each, target)]
    return found


async def _pages(api: _Api, path: str, what: str, **params: str) -> AsyncIterator[Mapping[str, Any]]:
    more: dict[str, str] = {}
    for _ in range(_PAGES):
        page = await api.get(path, what, **params, **more)
        yield page
        following = (page.get("pagination") or {}).get("next")
        if following is None:
            return
        if more == {"until": str(following)}:
            break
        more = {"until": str(following)}
    raise AfterturnError(f"{what}: the list of variables does not come to an end")


def _is_for(told: Mapping[str, Any], target: str) -> bool:
    targets = told.get("target") or ()
    named = [targets] if isinstance(targets, str) else targets
    return target in named and is_read(str(told.get("key", "")))


def _variable(told: Mapping[str, Any], path: str, what: str) -> _Variable:
    """Only what is stored encrypted has to be asked for; what is sensitive is told to nobody."""
    name, kind = str(told["key"]), told.get("type")
    if kind == "plain" and isinstance(told.get("value"), str) and name.upper() not in SECRET:
        return _Variable(name, told["value"], None, told.get("gitBranch"))
    asked = kind == "encrypted" and name.upper() not in SECRET
    if asked and not told.get("id"):
        raise AfterturnError(f"{what}: the answer gives {name} no id; is this the API of Vercel?")
    return _Variable(name, None, f"{path}/{quote(str(told['id']), safe='')}" if asked else None, told.get("gitBranch"))


async def _values(api: _Api, variables: Iterable[_Variable], told: dict[str, str | None], what: str) -> Environment:
    """``told``: values by path that were asked for already."""
    found: dict[str, str | None] = {}
    for one in variables:
        if one.path is not None and one.path not in told:
            answer = await api.get(one.path, f"{what}: {one.name}")
            value = answer.get("value")
            told[one.path] = value if isinstance(value, str) and answer.get("decrypted") is not False else None
        found[one.name] = one.value if one.path is None else told[one.path]
    return found


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
        told = response.json()
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise AfterturnError(f"{what}: the answer is no JSON object; is --vercel-url the API of Vercel?")
    return told


def _list(page: Mapping[str, Any], name: str, what: str) -> list[Mapping[str, Any]]:
    told = page.get(name)
    if not isinstance(told, list) or not all(isinstance(each, dict) for each in told):
        raise AfterturnError(f"{what}: the answer has no list {name}; is --vercel-url the API of Vercel?")
    return told


def _retry_after(response: httpx.Response, otherwise: float) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else otherwise
