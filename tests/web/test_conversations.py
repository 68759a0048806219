"""What people change over HTTP: patches with ETags, work orders, and replies that are saved and settled once."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest
from tests.web.rig import API, Rig, error_of, ids, raw

from afterturn.errors import StreamUnavailable
from afterturn.model import Direction, Role

INBOX = f"{API}/conversations"


async def test_an_id_of_any_characters_is_one_segment_of_the_path(rig: Rig) -> None:
    names = ("a/b", "100%", "a%2Fb", "<x@y.example>", "ü ?#")
    for name in names:
        await rig.settle(name)
    async with rig.client("desk") as client:
        for name in names:
            answer = await client.get(f"{INBOX}/{quote(name, safe='')}/messages")
            assert answer.status_code == 200, answer.text
            assert answer.json()["messages"][0]["id"] == f"{name}-m0"


CONVERSATION = f"{API}/conversations/c-1"
ANY_REVISION = {"if-match": "*"}


async def test_a_change_is_based_on_what_was_read(rig: Rig) -> None:
    await rig.settle("c-1", property_id="oak")
    async with rig.client("oak") as client:
        read = await client.get(CONVERSATION)
        tag = {"if-match": read.headers["etag"]}
        closed = await client.patch(CONVERSATION, json={"status": "closed"}, headers=tag)
        assert closed.status_code == 200
        assert closed.json()["status"] == "closed"
        assert closed.headers["etag"] not in ("", read.headers["etag"])
        stale = await client.patch(CONVERSATION, json={"assignee": "ann"}, headers=tag)
        assert stale.status_code == 412
        assert error_of(stale)["code"] == "stale"
        again = await client.get(CONVERSATION)
        assert (again.json()["status"], again.json()["assignee"]) == ("closed", None)
        assert again.headers["etag"] == closed.headers["etag"]
        assert (await client.patch(CONVERSATION, json={"assignee": "ann"}, headers=ANY_REVISION)).json()[
            "assignee"
        ] == "ann"


@pytest.mark.parametrize("tag", ["0", 'W/"0"', '"x"', '"0", "1"', "", '"' + "9" * 30 + '"', '"-1"', "é"])
async def test_a_tag_that_is_none_changes_nothing(rig: Rig, tag: str) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        answer = await client.patch(
            CONVERSATION, json={"status": "closed"}, headers=[(b"if-match", tag.encode("latin-1"))]
        )
        assert answer.status_code == 412
        error_of(answer)
        assert (await client.get(CONVERSATION)).json()["status"] == "open"


async def test_without_a_tag_nothing_is_changed(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        answer = await client.patch(CONVERSATION, json={"status": "closed"})
    assert answer.status_code == 428
    assert error_of(answer)["field"] == "If-Match"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"status": None},
        {"status": "half"},
        {"propertyId": ""},
        {"propertyId": "UNASSIGNED"},
        {"assignee": 5},
        {"assignee": "a\x00"},
        {"channel": "sms"},
        {"status": "closed", "revision": 7},
    ],
    ids=str,
)
async def test_a_change_that_makes_no_sense(rig: Rig, body: dict[str, object]) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        before = (await client.get(CONVERSATION)).json()
        answer = await client.patch(CONVERSATION, json=body, headers=ANY_REVISION)
        assert answer.status_code == 422
        error_of(answer)
        assert (await client.get(CONVERSATION)).json() == before


async def test_a_conversation_shows_under_the_property_it_was_given(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as desk, rig.client("oak") as oak, rig.client("strays") as strays:
        assert ids(await strays.get(f"{API}/conversations")) == ["c-1"]
        moved = await desk.patch(CONVERSATION, json={"propertyId": "oak"}, headers=ANY_REVISION)
        assert moved.json()["propertyId"] == "oak"
        assert ids(await oak.get(f"{API}/conversations")) == ["c-1"]
        assert ids(await strays.get(f"{API}/conversations")) == []
        assert (await desk.patch(CONVERSATION, json={"propertyId": None}, headers=ANY_REVISION)).json()[
            "propertyId"
        ] is None
        assert ids(await strays.get(f"{API}/conversations")) == ["c-1"]


async def test_nobody_gives_a_conversation_to_a_property_out_of_his_scope(rig: Rig) -> None:
    await rig.settle("c-1", property_id="oak")
    await rig.settle("c-2", property_id="elm")
    async with rig.client("oak") as client:
        errors = []
        for other in ("elm", "no-such-property", None):
            answer = await client.patch(CONVERSATION, json={"propertyId": other}, headers=ANY_REVISION)
            assert answer.status_code == 422
            errors.append(error_of(answer))
        assert errors[0] == errors[1] == errors[2]
        hidden = await client.patch(f"{API}/conversations/c-2", json={"propertyId": "oak"}, headers=ANY_REVISION)
        assert hidden.status_code == 404
        assert (await client.get(CONVERSATION)).json()["propertyId"] == "oak"


async def test_a_work_order_is_closed_once_and_found_among_all(rig: Rig) -> None:
    await rig.settle("c-1", property_id="oak")
    await rig.settle("c-2", property_id="elm")
    await rig.order("c-1", "oak", "wo/1")
    await rig.order("c-2", "elm", "wo-2")
    async with rig.client("oak") as client:
        close = f"{CONVERSATION}/work-orders/{{}}/close"
        closed = await client.post(close.format("wo%2F1"))
        assert (closed.status_code, closed.json()["status"]) == (200, "closed")
        assert (await client.post(close.format("wo%2F1"))).json() == closed.json()
        assert (await client.get(f"{API}/work-orders")).json()["workOrders"] == []
        every = (await client.get(f"{API}/work-orders", params={"all": True})).json()["workOrders"]
        assert [order["id"] for order in every] == ["wo/1"]
        errors = []
        for path in (close.format("wo-2"), close.format("none"), close.format("%00")):
            answer = await client.post(path)
            assert answer.status_code == 404
            errors.append(error_of(answer))
        assert errors[0] == errors[1] == errors[2]
        assert (await client.post(f"{API}/conversations/c-2/work-orders/wo-2/close")).status_code == 404
    async with rig.client("elm") as client:
        assert [order["id"] for order in (await client.get(f"{API}/work-orders")).json()["workOrders"]] == ["wo-2"]


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
    texts = [message.text for message in await rig.backbone.store.messages("c-1")]
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
    assert [message.text for message in await rig.backbone.store.messages("c-1")] == ["Hello?", "Yes."]


@pytest.mark.parametrize("key", ["", " ", "a b", "a" * 201, "é", "a\tb"])
async def test_a_key_that_is_none_is_refused(rig: Rig, key: str) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        answer = await client.post(REPLIES, json={"text": "Yes."}, headers=raw({"idempotency-key": key}))
    assert answer.status_code == 422
    assert len(await rig.backbone.store.messages("c-1")) == 1


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
