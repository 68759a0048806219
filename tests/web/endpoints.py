"""What the application answers, read out of its routes: a new one is tried with bad input without being named."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from tests.web.rig import API
from tests.web.signed_requests import SIGNED

from afterturn.web.pages.routing import OpenPageRoute, PageRoute

READING = frozenset({"GET", "HEAD", "OPTIONS"})
_CALLS_HOME = re.compile(r"/hooks|/turns")


@dataclass(frozen=True)
class Endpoint:
    """``kind``: ``json`` takes a JSON body, ``bare`` none, ``form`` a form of a page, ``hook`` what is signed."""

    method: str
    path: str
    kind: str
    known: bool
    """Whether a caller has to be known."""
    parameters: frozenset[str] = frozenset()
    """Of the query."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def address(self) -> str:
        """With something in the place of each parameter."""
        return re.sub(r"\{[a-z_:]+\}", "c-1", self.path)


def endpoints(app: FastAPI) -> list[Endpoint]:
    """All of them, but for files and the document; every path of a hook for itself."""
    found = list(_walk(app.routes, ""))
    return sorted(found, key=str)


def _walk(routes: Sequence[Any], prefix: str) -> Iterator[Endpoint]:
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _walk(inner.routes, prefix + route.include_context.prefix)
            continue
        path = prefix + getattr(route, "path", "")
        if _CALLS_HOME.match(path):
            for one in SIGNED:
                if one == path or (path.startswith("/hooks") and one.startswith("/hooks")):
                    yield Endpoint("POST", one, "hook", known=False)
            continue
        for method in (getattr(route, "methods", None) or set()) - {"HEAD"}:
            if hasattr(route, "dependant"):
                yield _endpoint(method, path, route)


def _endpoint(method: str, path: str, route: Any) -> Endpoint:
    page = isinstance(route, OpenPageRoute)
    if method in READING:
        kind = "page" if page else "read"
    elif page:
        kind = "form"
    else:
        kind = "bare" if route.body_field is None else "json"
    known = isinstance(route, PageRoute) or (path.startswith(API) and path != f"{API}/session")
    return Endpoint(method, path, kind, known, _parameters(route.dependant))


def _parameters(dependant: Any) -> frozenset[str]:
    found: set[str] = set()
    for one in dependant.query_params:
        fields = getattr(one.field_info.annotation, "model_fields", None)
        found |= set(fields) if fields else {one.alias}
    for inner in dependant.dependencies:
        found |= _parameters(inner)
    return frozenset(found)


def stored(path: Path) -> str:
    """Everything that a file holds."""
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump())
