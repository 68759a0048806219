"""Renders templates, with security headers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse

from afterturn.clock import to_text
from afterturn.inbox import presentation
from afterturn.web.roles import Caller, CallerRole

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Everything comes from this server, so a message cannot add scripts, styles or images."""

HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
}


_BODY_CHARS = 4_000

Pairs = tuple[tuple[str, str], ...]
"""The parameters of an address, in order."""


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page. Every template gets ``who`` (the caller; None before a login), ``now`` and ``path``."""
    caller: Caller | None = getattr(request.state, "caller", None)
    now: datetime = request.app.state.backbone.clock()
    body = (
        _templates()
        .get_template(template)
        .render(
            {
                "who": caller,  # `caller` means something else inside a macro
                "on_call": caller is not None and caller.role.covers(CallerRole.ON_CALL),
                "admin": caller is not None and caller.role.covers(CallerRole.ADMIN),
                "path": request.url.path,
                "now": now,
                **values,
            }
        )
    )
    return HTMLResponse(body, status, HEADERS)


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("afterturn.web", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        moment=presentation.moment,
        machine=to_text,
        count=presentation.count,
        conversation_path=conversation_path,
        readable=_readable,
    )
    environment.globals["age"] = _age
    return environment


def _age(now: datetime, at: datetime | timedelta) -> str:
    return presentation.age(at if isinstance(at, timedelta) else now - at)


def conversation_path(conversation_id: str) -> str:
    """The path of a conversation's page; an id may have any characters."""
    return f"/conversations/{quote(conversation_id, safe='')}"


def address(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """A path with a query."""
    query = urlencode(list(pairs))
    return f"{path}?{query}" if query else path


def _readable(body: str) -> str:
    """JSON with indentation, anything else unchanged; cut if it is long."""
    with contextlib.suppress(ValueError, RecursionError):
        body = json.dumps(json.loads(body), ensure_ascii=False, indent=2)
    return body if len(body) <= _BODY_CHARS else body[:_BODY_CHARS] + "…"
