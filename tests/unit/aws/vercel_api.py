"""A server that speaks the part of Vercel's REST API that an audit reads, as strictly as its documents say.

https://vercel.com/docs/rest-api: what it does not know, it refuses.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "vcl_0123456789abcdef"
TEAM = {"teamId": "team_1a2b", "slug": "our-team"}


@dataclass
class VercelVariable:
    """``kind``: plain, encrypted, sensitive, secret or system. ``targets``: also one word, as old records have it."""

    key: str
    value: str
    targets: list[str] | str
    kind: str = "encrypted"
    branch: str | None = None


@dataclass
class Project:
    """``page``: variables a page; None for the answer without pages. ``hidden``: production variables not told."""

    name: str
    variables: list[VercelVariable]
    shared: list[VercelVariable] = field(default_factory=list)
    team: bool = False
    page: int | None = None
    hidden: int = 0

    @property
    def id(self) -> str:
        return f"prj_{self.name}"


@dataclass
class VercelApi:
    """``trouble``: what is answered first, in place of an answer: a status, or None for a connection that is cut."""

    url: str
    projects: list[Project] = field(default_factory=list)
    trouble: list[int | None] = field(default_factory=list)
    body: bytes | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        scope: dict[str, str] = {name: query.pop(name) for name in ("teamId", "slug") if name in query}
        if scope and scope.items() - TEAM.items():
            return 403, _error("forbidden", "Not authorized")
        words = [unquote(word) for word in path.strip("/").split("/")]
        if words == ["v1", "env"]:
            return self._shared(query, scope)
        if words[:2] == ["v1", "env"] and len(words) == 3 and scope:
            return _one([each for project in self.projects for each in project.shared], words[2])
        known = (("v9", "projects"), ("v10", "projects"), ("v1", "projects"))
        if tuple(words[:2]) not in known:
            return 404, _error("not_found", "The requested API endpoint was not found")
        project = next((one for one in self.projects if words[2] in (one.name, one.id)), None)
        if project is None or project.team is not bool(scope):
            return 404, _error("not_found", "Project not found")
        if words[0] == "v9" and len(words) == 3:
            return 200, {"id": project.id, "name": project.name, "accountId": TEAM["teamId"]}
        if words[0] == "v10" and words[3:] == ["env"]:
            return _listed(project, query)
        if words[0] == "v1" and words[3:4] == ["env"] and len(words) == 5:
            return _one(project.variables, words[4])
        return 404, _error("not_found", "The requested API endpoint was not found")

    def _shared(self, query: dict[str, str], scope: dict[str, str]) -> tuple[int, Any]:
        if not scope or set(query) - {"projectId", "until"}:
            return 400, _error("bad_request", "Invalid request")
        found = next((one.shared for one in self.projects if one.id == query.get("projectId")), [])
        page = {"count": len(found), "next": None, "prev": None}
        return 200, {"data": [_told(each, place) for place, each in enumerate(found)], "pagination": page}


def _listed(project: Project, query: dict[str, str]) -> tuple[int, Any]:
    if set(query) - {"until", "decrypt", "gitBranch"}:
        return 400, _error("bad_request", "Invalid request: unknown parameter")
    told = [_told(each, place) for place, each in enumerate(project.variables)]
    if project.page is None:
        return 200, {"envs": told, "hiddenProductionEnvCount": project.hidden}
    start = int(query.get("until", "0"))
    end = start + project.page
    page = {"count": len(told[start:end]), "next": end if end < len(told) else None, "prev": start or None}
    return 200, {"envs": told[start:end], "pagination": page}


def _told(one: VercelVariable, place: int) -> dict[str, Any]:
    """In a list, only what is plain can be read."""
    value = {"plain": one.value, "sensitive": ""}.get(one.kind, f"eyJ2IjoidjIi{place}")
    told = {"id": f"env_{place}", "key": one.key, "type": one.kind, "target": one.targets, "value": value}
    return told | ({"gitBranch": one.branch} if one.branch else {})


def _one(variables: list[VercelVariable], name: str) -> tuple[int, Any]:
    place = int(name.removeprefix("env_"))
    if not place < len(variables):
        return 404, _error("not_found", "Environment variable not found")
    told = _told(variables[place], place)
    if variables[place].kind in ("sensitive", "system"):
        del told["value"]
        return 200, {**told, "decrypted": False}
    return 200, {**told, "value": variables[place].value, "decrypted": True}


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


@contextmanager
def vercel_api() -> Iterator[VercelApi]:
    """The server, on a port of its own, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            api.requests.append((self.command, self.path))
            trouble = api.trouble.pop(0) if api.trouble else 200
            if trouble is None:
                self.close_connection = True
                return
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if trouble != 200:
                self._send(trouble, _error("rate_limited" if trouble == 429 else "internal_server_error", "no"))
            elif self.headers["authorization"] != f"Bearer {TOKEN}":
                self._send(403, {"error": {"code": "forbidden", "message": "Not authorized", "invalidToken": True}})
            else:
                self._send(*api.answer(parts.path, query))

        def do_POST(self) -> None:
            api.requests.append((self.command, self.path))
            self._send(405, _error("method_unknown", "This endpoint only responds to GET"))

        do_PUT = do_PATCH = do_DELETE = do_POST

        def _send(self, status: int, told: Any) -> None:
            body = api.body if api.body is not None else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if status == 429:
                self.send_header("retry-after", "0")
            if status in (301, 302, 307, 308):
                self.send_header("location", f"{api.url}/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api = VercelApi(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
