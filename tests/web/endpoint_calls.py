"""How each address is called well, and who may: what the matrix of scopes and the test of the document go through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
from fastapi import FastAPI
from tests.web.rig import API, Rig

from afterturn.model import UNASSIGNED
from afterturn.web.roles import CallerRole

PROPERTIES = ("oak", "elm", UNASSIGNED)
SECRET = "marked-{}"
"""In every id and text of a property; nothing of it may show to whom the property is hidden."""


@dataclass(frozen=True)
class Call:
    """``needs``: the least role; None: anybody. ``about``: one conversation, named by ``{conversation}`` in the query
    or by the path. ``fill``: the path's other parameters."""

    needs: CallerRole | None
    about: bool = False
    good: int = 200
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    fill: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] | None = None


_KEY = {"idempotency-key": "k-{conversation}-{caller}"}

CALLS: dict[tuple[str, str], Call] = {
    ("GET", f"{API}/openapi.json"): Call(None),
    ("GET", "/login"): Call(None, good=401, query={"key": "guessed"}),
    ("GET", "/sign-in"): Call(None),
    ("POST", "/sign-in"): Call(None, good=303, form={"token": "aft_oak"}),
    ("POST", "/sign-out"): Call(CallerRole.OPERATOR, good=303, form={}),
    ("GET", "/"): Call(CallerRole.OPERATOR, query={"window": "all", "property": "{property}"}),
    ("GET", "/search"): Call(CallerRole.OPERATOR, good=303, query={"q": "+1 555 822 6442"}),
    ("GET", "/live"): Call(CallerRole.OPERATOR, query={"property": "{property}"}),
    ("GET", "/conversations/{conversation_id}"): Call(CallerRole.OPERATOR, about=True),
    ("GET", "/conversations/{conversation_id}/live"): Call(CallerRole.OPERATOR, about=True),
    ("POST", "/conversations/{conversation_id}/reply"): Call(
        CallerRole.OPERATOR, about=True, good=303, form={"text": "At nine.", "key": "{caller}"}
    ),
    ("POST", "/conversations/{conversation_id}/update"): Call(
        CallerRole.OPERATOR, about=True, good=303, form={"assignee": "ann", "revision": "{revision}"}
    ),
    ("POST", "/conversations/{conversation_id}/close-order"): Call(
        CallerRole.OPERATOR, about=True, good=303, form={"order": "wo-{conversation}"}
    ),
    ("GET", "/operations"): Call(CallerRole.ON_CALL),
    ("GET", "/operations/stages"): Call(CallerRole.ON_CALL),
    ("POST", "/operations/redrive"): Call(CallerRole.ON_CALL, good=303, form={"all": "1"}),
    ("POST", "/operations/retry"): Call(CallerRole.ON_CALL, good=303, form={"all": "1"}),
    ("POST", "/operations/emit"): Call(CallerRole.ON_CALL, good=303, form={"owed": "24h"}),
    ("POST", "/operations/consumers"): Call(CallerRole.ADMIN, good=303, form={"do": "promote", "name": "topics"}),
    ("GET", f"{API}/session"): Call(CallerRole.OPERATOR),
    ("POST", f"{API}/session"): Call(None, body={"token": "aft_oak"}),
    ("DELETE", f"{API}/session"): Call(CallerRole.OPERATOR, good=204),
    ("GET", f"{API}/conversations"): Call(CallerRole.OPERATOR, query={"window": "all", "property": "{property}"}),
    ("GET", f"{API}/conversations/{{conversation_id}}"): Call(CallerRole.OPERATOR, about=True),
    ("PATCH", f"{API}/conversations/{{conversation_id}}"): Call(
        CallerRole.OPERATOR, about=True, body={"assignee": "ann"}, headers={"if-match": "*"}
    ),
    ("GET", f"{API}/conversations/{{conversation_id}}/messages"): Call(CallerRole.OPERATOR, about=True),
    ("GET", f"{API}/conversations/{{conversation_id}}/turns"): Call(CallerRole.OPERATOR, about=True),
    ("GET", f"{API}/conversations/{{conversation_id}}/stamps"): Call(CallerRole.OPERATOR, about=True),
    ("POST", f"{API}/conversations/{{conversation_id}}/replies"): Call(
        CallerRole.OPERATOR, about=True, good=201, body={"text": "At nine."}, headers=_KEY
    ),
    ("GET", f"{API}/work-orders"): Call(CallerRole.OPERATOR, about=True, query={"conversation": "{conversation}"}),
    ("POST", f"{API}/conversations/{{conversation_id}}/work-orders/{{order_id}}/close"): Call(
        CallerRole.OPERATOR, about=True, fill={"order_id": "wo-{conversation}"}
    ),
    ("GET", f"{API}/ledger/audit"): Call(CallerRole.ON_CALL, query={"property": "{property}", "grace": "0s"}),
    ("POST", f"{API}/ledger/sweep"): Call(CallerRole.ON_CALL, body={"property": "{property}", "grace": "0s"}),
    ("POST", f"{API}/ledger/replays"): Call(
        CallerRole.ON_CALL, good=202, body={"consumers": ["topics"]}, headers={"idempotency-key": "replay"}
    ),
    ("GET", f"{API}/ledger/replays/{{replay_id}}"): Call(CallerRole.ON_CALL, good=404, fill={"replay_id": "none"}),
    ("GET", f"{API}/stream"): Call(CallerRole.ON_CALL),
    ("GET", f"{API}/stats"): Call(CallerRole.ON_CALL),
    ("GET", f"{API}/dead-letters"): Call(CallerRole.ON_CALL),
    ("POST", f"{API}/dead-letters/redrive"): Call(CallerRole.ON_CALL, body={"all": True}),
    ("GET", f"{API}/dead-letters/{{dead_letter_id}}"): Call(CallerRole.ON_CALL, fill={"dead_letter_id": "{letter}"}),
    ("GET", f"{API}/reactions/failed"): Call(CallerRole.ON_CALL),
    ("POST", f"{API}/reactions/retry"): Call(CallerRole.ON_CALL, body={"all": True}),
    ("GET", f"{API}/consumers"): Call(CallerRole.ON_CALL),
    ("POST", f"{API}/consumers/{{name}}/promote"): Call(CallerRole.ADMIN, fill={"name": "topics"}),
    ("POST", f"{API}/consumers/{{name}}/retire"): Call(CallerRole.ADMIN, fill={"name": "topics"}),
}


def addresses(app: FastAPI) -> set[tuple[str, str]]:
    """Every method and path that the application answers."""
    return set(_walk(app.routes, ""))


def _walk(routes: Sequence[Any], prefix: str) -> Iterator[tuple[str, str]]:
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _walk(inner.routes, prefix + route.include_context.prefix)
            continue
        for method in (getattr(route, "methods", None) or set()) - {"HEAD"}:  # a mount has files, the same for all
            yield method, prefix + route.path


def name_of(property_id: str) -> str:
    """The conversation of a property."""
    return f"c-{SECRET.format(property_id)}"


async def fill(rig: Rig) -> dict[str, str]:
    """A conversation of each property, with a work order, a failure, and a dead letter among their records."""
    for property_id in PROPERTIES:
        own = None if property_id == UNASSIGNED else property_id
        conversation = name_of(property_id)
        await rig.settle(
            conversation, f"I {SECRET.format(property_id)}", property_id=own, participants=(f"+1 {conversation}",)
        )
        await rig.order(conversation, own, f"wo-{conversation}")
        await rig.fail(conversation)
    return {"letter": await rig.make_dead_letter()}


async def send(client: httpx.AsyncClient, where: tuple[str, str], call: Call, **values: str) -> httpx.Response:
    """The call, with the values in the places that are named after them."""
    method, path = where
    known = {"conversation": "c-none", "property": "oak", "letter": "0", "caller": "", "revision": "0", **values}

    def put(text: str) -> str:
        return text.format(**known)

    for name, text in {"conversation_id": "{conversation}", **call.fill}.items():
        path = path.replace(f"{{{name}}}", quote(put(text), safe=""))
    body = None
    if call.body is not None:
        body = {key: put(one) if isinstance(one, str) else one for key, one in call.body.items()}
    return await client.request(
        method,
        path,
        params={key: put(one) for key, one in call.query.items()},
        headers={key: put(one) for key, one in call.headers.items()},
        json=body,
        data=None if call.form is None else {"": "", **{key: put(one) for key, one in call.form.items()}},
    )
