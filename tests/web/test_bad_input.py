"""Bad input at every address, read out of the routes: the documented 4xx in the one error shape, and nothing stored."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from tests.fuzz import hooks as fuzzed
from tests.unit.channels.channels import NOW
from tests.unit.channels.mutations import mutate
from tests.web.endpoint_calls import CALLS
from tests.web.endpoints import READING, Endpoint, endpoints, stored
from tests.web.rig import API, START, Rig, error_of, open_rig
from tests.web.signed_requests import SIGNED, good_bodies, hooks

from afterturn.backbone import Backbone
from afterturn.clock import system_clock
from afterturn.web.access import AccessControl
from afterturn.web.app import make_app
from afterturn.web.roles import CallerRole
from afterturn.web.tokens import Token, add_token, digest_of
from afterturn.web.webhooks import mount_webhooks

Test = Callable[..., Awaitable[None]]

MAX_BYTES = 2_000
TIMEOUT_S = 0.05
WRITES = {"idempotency-key": "k-1", "if-match": "*"}


def _all() -> list[Endpoint]:
    app = make_app(cast(Backbone, None), AccessControl(system_clock))
    nobody = cast(Any, None)
    mount_webhooks(app, system_clock, nobody, turns=cast(Any, object()))
    return endpoints(app)


ALL = _all()
CHANGING = [endpoint for endpoint in ALL if endpoint.method not in READING]
JSON = [endpoint for endpoint in CHANGING if endpoint.kind == "json"]
FORMS = [endpoint for endpoint in CHANGING if endpoint.kind == "form"]
HOOKS = [endpoint for endpoint in CHANGING if endpoint.kind == "hook"]
KNOWN = [endpoint for endpoint in ALL if endpoint.known]
PAGED = [one for one in ALL if "cursor" in one.parameters]


def each(given: list[Endpoint]) -> Callable[[Test], Test]:
    """The test at each of them, in one application: to open one takes longer than to ask it."""
    assert given

    def at_each(test: Test) -> Test:
        async def tested(rig: Rig, **more: Any) -> None:
            for where in given:
                try:
                    await test(rig, where, **more)
                except AssertionError as error:
                    raise AssertionError(f"{where}: {error}") from error

        told = inspect.signature(test)
        others = [one for name, one in told.parameters.items() if name != "where"]
        tested.__name__, tested.__doc__ = test.__name__, test.__doc__
        tested.__signature__ = told.replace(parameters=others)  # type: ignore[attr-defined]
        return tested

    return at_each


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, max_body_bytes=MAX_BYTES, body_timeout_s=TIMEOUT_S) as opened:
        hooks(opened)
        await opened.settle("c-1", property_id="oak")
        await opened.order("c-1", "oak", "c-1")
        await opened.fail("c-1")
        yield opened


@asynccontextmanager
async def unchanged(rig: Rig) -> AsyncIterator[None]:
    """Nothing is stored meanwhile."""
    before = stored(rig.backbone.settings.db)
    yield
    assert stored(rig.backbone.settings.db) == before


def body_of(where: Endpoint) -> dict[str, Any]:
    """A good one, as far as somebody has told one."""
    call = CALLS.get((where.method, where.path))
    return dict(call.body or {}) if call else {}


async def send(rig: Rig, where: Endpoint, caller: str | None = "root", **given: Any) -> httpx.Response:
    """With whatever headers a good call has."""
    kind = {"json": "application/json", "form": "application/x-www-form-urlencoded"}.get(where.kind, "")
    headers = {**WRITES, **({"content-type": kind} if kind else {}), **given.pop("headers", {})}
    async with rig.client(caller) as client:
        return await client.request(where.method, where.address, headers=headers, **given)


def refusal(where: Endpoint, answer: httpx.Response) -> Mapping[str, str]:
    """The error, in the one shape; the pages that answer forms show it to people instead."""
    if answer.headers["content-type"].startswith("text/html"):
        assert where.kind in ("form", "page")
        assert 'role="alert"' in answer.text
        return {"code": "", "message": answer.text}
    return error_of(answer)


def test_the_routes_are_read_as_the_matrix_has_them() -> None:
    """So that no endpoint escapes for being of a kind that nobody thought of."""
    told = {(one.method, one.path) for one in ALL if one.kind != "hook"}
    assert told == set(CALLS) - {("GET", f"{API}/openapi.json")}
    assert {one.path for one in HOOKS} == set(SIGNED)
    assert {(one.method, one.path) for one in JSON} == {where for where, call in CALLS.items() if call.body is not None}
    assert {(one.method, one.path) for one in FORMS} == {
        where for where, call in CALLS.items() if call.form is not None
    }
    public = {where for where, call in CALLS.items() if call.needs is None}
    assert {(one.method, one.path) for one in ALL if not one.known and one.kind != "hook"} >= public - {
        ("GET", f"{API}/openapi.json")
    }


@each(CHANGING)
async def test_a_body_that_is_too_large(rig: Rig, where: Endpoint) -> None:
    """Whether it says so or not."""

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(MAX_BYTES // 100 + 1):
            yield b"a" * 100

    async with unchanged(rig):
        for content in (b"a" * (MAX_BYTES + 1), parts()):
            answer = await send(rig, where, content=content)
            assert answer.status_code == 413
            assert error_of(answer)["code"] == "too_large"


@each(CHANGING)
async def test_a_body_that_does_not_come(rig: Rig, where: Endpoint) -> None:
    gone = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await gone.wait()

    async with unchanged(rig):
        answer = await send(rig, where, content=slow())
    assert answer.status_code == 408
    assert error_of(answer)["code"] == "slow"


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=x", "application/json; charset=utf-16", "json", "é", ""]
)
@each(JSON + FORMS)
async def test_a_body_of_another_type(rig: Rig, where: Endpoint, kind: str) -> None:
    async with unchanged(rig):
        answer = await send(rig, where, content=b'{"a": 1}', headers={"content-type": kind.encode("latin-1")})
    assert answer.status_code == 415
    refusal(where, answer)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"nonsense",
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b"\xff",
        b"[" * 1_900,
        b'"\\u0000',
        b" ",
        b'{"a": 1e999}',
        b"\x00",
        b'\xef\xbb\xbf{"a"',
    ],
)
@each(JSON)
async def test_bad_json(rig: Rig, where: Endpoint, body: bytes) -> None:
    async with unchanged(rig):
        answer = await send(rig, where, content=body)
    assert answer.status_code == 400
    assert error_of(answer)["field"] == "body"


@pytest.mark.parametrize("body", ["null", "[]", "5", '"text"', "true"])
@each(JSON)
async def test_json_that_is_no_object(rig: Rig, where: Endpoint, body: str) -> None:
    async with unchanged(rig):
        answer = await send(rig, where, content=body.encode())
    assert answer.status_code == 422
    assert error_of(answer)["field"] == "body"


@each(JSON)
async def test_an_unknown_field(rig: Rig, where: Endpoint) -> None:
    async with unchanged(rig):
        answer = await send(rig, where, json={**body_of(where), "surprise": "sink leaks"})
    assert answer.status_code == 422
    error = error_of(answer)
    assert error["field"] == "surprise"
    assert "sink" not in answer.text


@each(JSON)
async def test_fields_of_another_type(rig: Rig, where: Endpoint) -> None:
    known = body_of(where)
    assert known
    async with unchanged(rig):
        for name in known:
            wrong: list[Any] = [{"a": [1]}, [[]], "\ud83d" if isinstance(known[name], str) else "x" * 300]
            for value in wrong:
                answer = await send(rig, where, content=json.dumps({**known, name: value}).encode())
                assert answer.status_code == 422, (name, value)
                assert error_of(answer)["field"].startswith(name)


@each([endpoint for endpoint in ALL if endpoint.kind == "read" and endpoint.known])
async def test_an_unknown_parameter(rig: Rig, where: Endpoint) -> None:
    """A filter that was misspelt would show what was not asked for."""
    async with unchanged(rig):
        answer = await send(rig, where, params={"surprise": "1"})
    if where.parameters:
        assert answer.status_code == 422
        assert error_of(answer)["field"] == "surprise"
    else:
        assert answer.status_code < 500


@each(KNOWN)
async def test_an_expired_token(rig: Rig, where: Endpoint) -> None:
    name = f"old-{digest_of(str(where))[:12]}"
    token = Token(
        name=name,
        role=CallerRole.ADMIN,
        sha256=digest_of(f"aft_{name}"),
        created_at=START,
        expires_at=rig.clock() + timedelta(minutes=1),
    )
    add_token(rig.tokens, token)
    rig.clock.advance(timedelta(minutes=1))
    async with unchanged(rig):
        answer = await send(rig, where, name, json=body_of(where) if where.kind == "json" else None)
        foreign = await send(rig, where, "nobody", json=body_of(where) if where.kind == "json" else None)
    assert answer.status_code == foreign.status_code == 401
    refusal(where, answer)


@each([endpoint for endpoint in CHANGING if endpoint.known])
async def test_a_session_without_its_csrf_token(rig: Rig, where: Endpoint) -> None:
    async with rig.client() as client:
        await client.post(f"{API}/session", json={"token": "aft_root"})
        cookies = dict(client.cookies)
    async with unchanged(rig):
        for csrf in ("", "guessed"):
            headers = {"x-csrf-token": csrf, "cookie": "; ".join("=".join(one) for one in cookies.items())}
            if where.kind == "form":
                answer = await send(rig, where, None, headers=headers, data={"csrf": csrf, "do": "x"})
            else:
                answer = await send(rig, where, None, headers=headers, json=body_of(where))
            assert answer.status_code == 403
            refusal(where, answer)


@each(PAGED)
async def test_a_tampered_cursor(rig: Rig, where: Endpoint) -> None:
    async with unchanged(rig):
        for cursor in ("null", "werwer", "aW52YWxpZA==", "\x00", "a" * 1_000, "\N{SNOWMAN}"):
            answer = await send(rig, where, params={"cursor": cursor})
            assert answer.status_code == 400, cursor
            told = refusal(where, answer)
            assert told["code"] in ("", "invalid_cursor")
            assert cursor not in ("werwer",) or cursor not in told["message"]


@pytest.mark.parametrize("property_id", ["elm", "no-such", "", "a\x00b", "x" * 201, 5, ["oak"]])
@each([one for one in JSON if "property" in one.path or "propertyId" in str(body_of(one)) or one.method == "PATCH"])
async def test_a_property_outside_the_scope(rig: Rig, where: Endpoint, property_id: object) -> None:
    async with unchanged(rig):
        answer = await send(rig, where, "oak", json={"propertyId": property_id})
    assert answer.status_code == 422
    assert error_of(answer)["field"].startswith("propertyId")


@each(HOOKS)
async def test_a_good_request_is_accepted(rig: Rig, where: Endpoint) -> None:
    """Or the refusals below would mean nothing."""
    rig.clock.set(NOW)
    body = good_bodies(NOW)[where.path]
    answer = await send(rig, where, None, content=body, headers=SIGNED[where.path](body, NOW))
    assert answer.status_code in (200, 202), answer.text


@each(HOOKS)
async def test_no_role_replaces_a_webhook_s_signature(rig: Rig, where: Endpoint) -> None:
    body = b'{"TopicArn": "x", "value": [{"clientState": "guessed"}]}'
    async with unchanged(rig):
        for caller in (None, "oak", "desk", "duty", "root"):
            answer = await send(rig, where, caller, content=body)
            assert 400 <= answer.status_code <= 403
            error_of(answer)


@each(HOOKS)
async def test_an_altered_body_and_an_old_signature_are_refused(rig: Rig, where: Endpoint) -> None:
    if where.path in ("/hooks/telegram", "/hooks/vapi"):  # their secrets are of no body and no time
        return
    rig.clock.set(NOW)
    good = good_bodies(NOW)[where.path]
    headers = SIGNED[where.path](good, NOW)
    async with unchanged(rig):
        altered = good.replace(b"hush", b"hash") if where.path == "/hooks/graph" else good[:-2] + b"9" + good[-2:]
        answer = await send(rig, where, None, content=altered, headers=headers)
        assert answer.status_code in (400, 401, 403), answer.text
        error_of(answer)
        if where.path.startswith(("/hooks/twilio", "/hooks/graph", "/hooks/ses")):  # of no time, or of a long one
            return
        rig.clock.advance(timedelta(minutes=11))
        old = await send(rig, where, None, content=good, headers=headers)
        assert old.status_code == 401, old.text
        error_of(old)


@each(HOOKS)
async def test_a_signed_invalid_body_is_answered_as_its_provider_expects(rig: Rig, where: Endpoint) -> None:
    """A provider that is answered with an error sends the same again, so some of them are told: well."""
    rig.clock.set(NOW)
    ours = where.path in ("/turns", "/hooks/web")
    async with unchanged(rig):
        for body in (b"", b"{", b"null", b"[]", b'{"a": NaN}', b"\xff\xfe", b"[" * 1_900):
            answer = await send(rig, where, None, content=body, headers=SIGNED[where.path](body, NOW))
            if ours:
                assert answer.status_code in (400, 422), body
            assert answer.status_code in (200, 202, 400, 401, 403, 422)
            if answer.status_code >= 400:
                error_of(answer)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"surprise": "sink leaks"}, "surprise"),
        ({"What a customer wrote": 1}, "(a field)"),
        ({"messageId": 5, "conversation": 5}, None),
        ({"text": "", "messages": "sink leaks"}, None),
    ],
    ids=str,
)
@each([one for one in HOOKS if one.path in ("/turns", "/hooks/web")])
async def test_a_signed_call_whose_fields_make_no_sense_is_told_which(
    rig: Rig, where: Endpoint, changed: dict[str, object], field: str | None
) -> None:
    rig.clock.set(NOW)
    body = json.dumps({**json.loads(good_bodies(NOW)[where.path]), **changed}).encode()
    async with unchanged(rig):
        answer = await send(rig, where, None, content=body, headers=SIGNED[where.path](body, NOW))
    assert answer.status_code == 422
    error = error_of(answer)
    assert error["field"] == field if field else error["field"] in {*changed, "conversation", "messageId"}
    assert "sink" not in answer.text
    assert "customer" not in answer.text


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "GET"])
@each(HOOKS)
async def test_a_method_that_is_not_taken(rig: Rig, where: Endpoint, method: str) -> None:
    async with unchanged(rig), rig.client() as client:
        answer = await client.request(method, where.path)
    if method == "GET" and where.path.startswith("/hooks/twilio"):
        assert answer.status_code == 401
    else:
        assert answer.status_code == 405
        assert "POST" in answer.headers["allow"]
    error_of(answer)


async def test_damaged_calls_of_any_kind_are_no_fault_of_ours(tmp_path: Path) -> None:
    """On a real store: what is taken can be stored. More of it: ``make fuzz``."""
    async with open_rig(tmp_path) as rig:
        hooks(rig)
        rig.clock.set(NOW)
        for where in HOOKS:
            for name, good in fuzzed.bodies().items():
                if name.partition(" ")[0] != where.path:
                    continue
                for number in range(25):
                    body = mutate(good, random.Random(f"{name} {number}"))
                    answer = await send(rig, where, None, content=body, headers=SIGNED[where.path](body, NOW))
                    assert answer.status_code < 500, (name, number, answer.text)
                    if answer.status_code >= 400:
                        error_of(answer)
