"""The OpenAPI document says what the application does: no server error, and no answer that it does not tell of."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, cast

import pytest
import requests
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.unit.channels.channels import NOW
from tests.web.endpoint_calls import CALLS, fill, name_of, send
from tests.web.rig import API, Rig
from tests.web.running_server import served
from tests.web.signed_requests import SIGNED, hooks
from tests.web.test_errors import THEIRS

from afterturn.backbone import Backbone
from afterturn.channels.turns import TURNS_PATH
from afterturn.clock import system_clock
from afterturn.web.access import AccessControl
from afterturn.web.app import make_app
from afterturn.web.webhooks import CHAT_PATH

EXAMPLES = 60 if os.environ.get("AFTERTURN_TEST_THOROUGH") else 5
"""For each operation: so many that fit the document, and so many that do not."""


def _operations() -> list[tuple[str, str]]:
    app: FastAPI = make_app(cast(Backbone, None), AccessControl(system_clock))
    return [(path, method) for path, methods in app.openapi()["paths"].items() for method in methods]


_PATHS = {path for path, _ in _operations()}
_ROOT = {"Authorization": "Bearer aft_root"}


async def _prepare(rig: Rig) -> None:
    for number in range(30):
        await rig.settle(f"c-{number}", "Hello?", "Anybody?", property_id=("oak", "elm", None)[number % 3])
    await fill(rig)
    hooks(rig)
    rig.clock.set(NOW)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("schema"), _prepare) as address:
        yield address


@pytest.fixture(scope="module")
def document(url: str) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{url}{API}/openapi.json")


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize(("path", "method"), _operations())
def test_every_answer_is_documented(
    document: schemathesis.BaseSchema, path: str, method: str, mode: GenerationMode
) -> None:
    operation = document[path][method]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    def check(case: schemathesis.Case[Any]) -> None:
        # What a document cannot say is refused as well: since after until, a consumer that is not there.
        answer = case.call_and_validate(headers=_ROOT, timeout=30, excluded_checks=[positive_data_acceptance])
        if answer.status_code >= 400:
            assert not THEIRS.search(answer.json()["error"]["message"])

    check()


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", [TURNS_PATH, CHAT_PATH])
def test_every_answer_to_a_signed_call_is_documented(
    document: schemathesis.BaseSchema, url: str, path: str, mode: GenerationMode
) -> None:
    """Signed well, so that the body is what decides."""
    operation = document[path]["POST"]
    statuses: set[int] = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=3 * EXAMPLES, suppress_health_check=list(HealthCheck))
    def check(case: schemathesis.Case[Any]) -> None:
        sent = requests.Request(**case.as_transport_kwargs(base_url=url)).prepare()
        body = sent.body.encode() if isinstance(sent.body, str) else cast(bytes, sent.body or b"")
        sent.headers.update(SIGNED[path](body, NOW))
        with requests.Session() as session:
            answer = session.send(sent, timeout=30)
        statuses.add(answer.status_code)
        case.validate_response(answer, excluded_checks=[positive_data_acceptance, negative_data_rejection])
        if answer.status_code >= 400:
            assert not THEIRS.search(answer.json()["error"]["message"])

    check()
    assert (200 if mode is GenerationMode.POSITIVE else 422) in statuses
    assert statuses <= {200, 400, 422}


async def test_the_document_tells_of_signed_calls_where_there_are_some(rig: Rig) -> None:
    async with rig.client() as client:
        assert not {TURNS_PATH, CHAT_PATH} & set((await client.get(f"{API}/openapi.json")).json()["paths"])
        hooks(rig)
        document = (await client.get(f"{API}/openapi.json")).json()
        assert {TURNS_PATH, CHAT_PATH} <= set(document["paths"])
        rig.clock.set(NOW)
        for path in (TURNS_PATH, CHAT_PATH):
            told = document["paths"][path]["post"]
            body = json.dumps(told["requestBody"]["content"]["application/json"]["example"]).encode()
            answer = await client.post(path, content=body, headers=SIGNED[path](body, NOW))
            assert answer.status_code == 200, answer.text
    loaded = schemathesis.openapi.from_dict(document)
    loaded[CHAT_PATH]["POST"].validate_response(answer)


@pytest.mark.parametrize("where", [where for where in CALLS if where[1] in _PATHS], ids=" ".join)
async def test_a_good_answer_is_as_documented(rig: Rig, where: tuple[str, str]) -> None:
    method, path = where
    made = await fill(rig)
    async with rig.client("root") as client:
        document = schemathesis.openapi.from_dict((await client.get(f"{API}/openapi.json")).json())
        answer = await send(client, where, CALLS[where], conversation=name_of("oak"), caller="root", **made)
    assert answer.status_code == CALLS[where].good, answer.text
    document[path][method.lower()].validate_response(answer)


async def test_every_success_and_every_body_has_an_example(rig: Rig) -> None:
    hooks(rig)
    async with rig.client() as client:
        document = (await client.get(f"{API}/openapi.json")).json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                for content in answer.get("content", {}).values():
                    assert "example" in content, (path, method, status)
