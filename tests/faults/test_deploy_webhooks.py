"""`aws deploy webhooks` against the emulator."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from tests.faults.deploying import (  # noqa: F401
    DEV,
    Rig,
    access,
    aws,
    emulator,
    handler_zip,
    open_rig,
    session,
    small_zip,
    temporal_server,
)


class TestWebhooks:
    async def test_it_is_called_at_a_url_that_stays_the_same(self, rig: Rig) -> None:
        answer = 'return {"lane": "dev", "table": "afterturn-dev", "emitter": "inbound-lambda"}'
        for note in ("one", "two"):
            zip_ = handler_zip(rig.folder / f"{note}.zip", f"{answer}  # {note}")
            done = await asyncio.to_thread(aws, "deploy", "webhooks", "--zip", zip_, "--json")
            assert done.code == 0, done.err
            assert done.json["url"].startswith("https://")
        assert done.json["version"] == "3"
        name = DEV.function("webhooks")
        policy = await rig.functions.get_policy(FunctionName=name, Qualifier="live")
        statements = json.loads(policy["Policy"])["Statement"]
        assert {each["Action"] for each in statements} == {"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"}
        there = await rig.functions.get_function_configuration(FunctionName=name)
        given = there["Environment"]["Variables"]
        assert given["AFTERTURN_EMITTER"] == "inbound-lambda"
        assert not [key for key in given if "TEMPORAL" in key]

    async def test_it_serves_only_with_the_secret_that_requests_are_signed_with(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        zip_ = small_zip(rig.folder / "real.zip", part="webhooks")
        bare = await asyncio.to_thread(aws, "deploy", "webhooks", "--zip", zip_)
        assert bare.code == 1
        assert "AFTERTURN_TURNS_SECRET" in bare.err
        secret = "whsec_" + base64.b64encode(b"a secret of thirty-two characters").decode()
        monkeypatch.setenv("AFTERTURN_TURNS_SECRET", secret)
        done = await asyncio.to_thread(aws, "deploy", "webhooks", "--zip", zip_, "--json")
        assert (done.code, done.json["version"]) == (0, "3"), done.err
        assert secret not in done.out + done.err
