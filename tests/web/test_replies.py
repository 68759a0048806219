"""An operator's reply is saved and settled once, whatever is sent twice; its text comes back as it is stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.web.rig import API, Rig, error_of, raw

from afterturn.errors import StreamUnavailable
from afterturn.model import Direction, Role

REPLIES = f"{API}/conversations/c-1/replies"
KEY = {"idempotency-key": "k-1"}


async def test_a_reply_is_a_settled_turn_on_top_of_the_inbox(rig: Rig) -> None:
    await rig.settle("c-1", property_id="oak")
    await rig.settle("c-2", property_id="oak")
    rig.clock.advance(timedelta(minutes=1))
    async with rig.client("oak") as client:
        answer = await client.post(REPLIES, json={"text": "The locksmith comes at nine."}, headers=KEY)
        assert answer.status_code == 201
        rows = (await client.get(f"{API}/conversations")).json()["rows"]
    message = (await rig.backbone.store.messages("c-1"))[-1]
    assert (message.direction, message.role) == (Direction.OUTBOUND, Role.OPERATOR)
    assert (message.id, message.text) == (answer.json()["messageId"], "The locksmith comes at nine.")
    assert message.at == rig.clock()
    assert [row["id"] for row in rows] == ["c-1", "c-2"]
    assert rows[0]["settledAt"] == answer.json()["occurredAt"]
    assert rows[0]["propertyId"] == "oak"
    assert rows[0]["reactions"]["topics"]["state"] == "owed"


async def test_sent_again_with_its_key_it_changes_nothing(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        first = await client.post(REPLIES, json={"text": "Yes."}, headers=KEY)
        rig.clock.advance(timedelta(hours=1))
        await rig.settle("c-1", "Thanks!")
        again = await client.post(REPLIES, json={"text": "Yes."}, headers=KEY)
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.json()["messageId"] == first.json()["messageId"]
        assert (first.json()["new"], again.json()["new"]) == (True, False)
        other = await client.post(REPLIES, json={"text": "Yes."}, headers={"idempotency-key": "k-2"})
        assert other.status_code == 201
    texts = [one.text for one in await rig.backbone.store.messages("c-1")]
    assert texts == ["Hello?", "Yes.", "Thanks!", "Yes."]


async def test_a_key_is_for_one_reply_on_one_conversation(rig: Rig) -> None:
    await rig.settle("c-1")
    await rig.settle("c-2")
    async with rig.client("desk") as client:
        assert (await client.post(REPLIES, json={"text": "Yes."}, headers=KEY)).status_code == 201
        answer = await client.post(REPLIES, json={"text": "No."}, headers=KEY)
        assert answer.status_code == 409
        assert error_of(answer)["field"] == "Idempotency-Key"
        elsewhere = REPLIES.replace("c-1", "c-2")
        assert (await client.post(elsewhere, json={"text": "No."}, headers=KEY)).status_code == 201
    assert [one.text for one in await rig.backbone.store.messages("c-1")] == ["Hello?", "Yes."]


@pytest.mark.parametrize("key", ["", " ", "a b", "a" * 201, "é", "a\tb"])
async def test_a_key_that_is_none_is_refused(rig: Rig, key: str) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        answer = await client.post(REPLIES, json={"text": "Yes."}, headers=raw({"idempotency-key": key}))
    assert answer.status_code == 422
    assert len(await rig.backbone.store.messages("c-1")) == 1


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (rb"a\u0000b", "a\ufffdb"),
        (rb"a\u000b\ufffeb", "a\ufffd\ufffdb"),
        (rb"\ud83d\ude00", "😀"),
        (rb"\ud83d\ude00 \u00fc\t\r\n", "😀 ü\t\r\n"),
        (rb"\u0085\u009f\u202e", "\ufffd\ufffd\u202e"),
    ],
)
async def test_every_text_comes_back_as_it_is_stored(rig: Rig, sent: bytes, kept: str) -> None:
    body = b'{"text": "' + sent + b'"}'
    await rig.settle("c-1")
    headers = {**KEY, "content-type": "application/json"}
    async with rig.client("desk") as client:
        assert (await client.post(REPLIES, content=body, headers=headers)).status_code == 201
        messages = (await client.get(f"{API}/conversations/c-1/messages")).json()["messages"]
        again = await client.post(REPLIES, content=body, headers=headers)
    assert messages[-1]["text"] == kept
    assert again.status_code == 200


async def test_a_text_that_is_too_long_is_refused_whole(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        assert (await client.post(REPLIES, json={"text": "ü" * 150_001}, headers=KEY)).status_code == 422
        assert len(await rig.backbone.store.messages("c-1")) == 1
        assert (await client.post(REPLIES, json={"text": "ü" * 150_000}, headers=KEY)).status_code == 201


async def test_a_stream_that_is_down_loses_no_reply(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn is saved; the sweep publishes it. On SQLite both are one transaction, so nothing is left to fail."""

    async def fails(*given: object, **named: object) -> None:
        raise StreamUnavailable("down")

    await rig.settle("c-1")
    monkeypatch.setattr(type(rig.backbone.stream), "publish", fails)
    async with rig.client("desk") as client:
        assert (await client.post(REPLIES, json={"text": "Yes."}, headers=KEY)).status_code == 201
    assert len(await rig.backbone.store.messages("c-1")) == 2
