"""What people decide over HTTP: based on what they have read, within what they may see, and not undone by a turn."""

from __future__ import annotations

import pytest
from tests.web.rig import API, Rig, error_of, ids

ONE = f"{API}/conversations/c-1"
ANY = {"if-match": "*"}


async def test_a_change_is_based_on_what_was_read(rig: Rig) -> None:
    await rig.settle("c-1", property_id="oak")
    async with rig.client("oak") as client:
        read = await client.get(ONE)
        tag = {"if-match": read.headers["etag"]}
        closed = await client.patch(ONE, json={"status": "closed"}, headers=tag)
        assert closed.status_code == 200
        assert closed.json()["status"] == "closed"
        assert closed.headers["etag"] not in ("", read.headers["etag"])
        stale = await client.patch(ONE, json={"assignee": "ann"}, headers=tag)
        assert stale.status_code == 412
        assert error_of(stale)["code"] == "stale"
        again = await client.get(ONE)
        assert (again.json()["status"], again.json()["assignee"]) == ("closed", None)
        assert again.headers["etag"] == closed.headers["etag"]
        assert (await client.patch(ONE, json={"assignee": "ann"}, headers=ANY)).json()["assignee"] == "ann"


@pytest.mark.parametrize("tag", ["0", 'W/"0"', '"x"', '"0", "1"', "", '"' + "9" * 30 + '"', '"-1"', "é"])
async def test_a_tag_that_is_none_changes_nothing(rig: Rig, tag: str) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        answer = await client.patch(ONE, json={"status": "closed"}, headers=[(b"if-match", tag.encode("latin-1"))])
        assert answer.status_code == 412
        error_of(answer)
        assert (await client.get(ONE)).json()["status"] == "open"


async def test_without_a_tag_nothing_is_changed(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as client:
        answer = await client.patch(ONE, json={"status": "closed"})
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
        before = (await client.get(ONE)).json()
        answer = await client.patch(ONE, json=body, headers=ANY)
        assert answer.status_code == 422
        error_of(answer)
        assert (await client.get(ONE)).json() == before


async def test_a_conversation_shows_under_the_property_it_was_given(rig: Rig) -> None:
    await rig.settle("c-1")
    async with rig.client("desk") as desk, rig.client("oak") as oak, rig.client("strays") as strays:
        assert ids(await strays.get(f"{API}/conversations")) == ["c-1"]
        moved = await desk.patch(ONE, json={"propertyId": "oak"}, headers=ANY)
        assert moved.json()["propertyId"] == "oak"
        assert ids(await oak.get(f"{API}/conversations")) == ["c-1"]
        assert ids(await strays.get(f"{API}/conversations")) == []
        assert (await desk.patch(ONE, json={"propertyId": None}, headers=ANY)).json()["propertyId"] is None
        assert ids(await strays.get(f"{API}/conversations")) == ["c-1"]


async def test_nobody_gives_a_conversation_to_a_property_out_of_his_scope(rig: Rig) -> None:
    await rig.settle("c-1", property_id="oak")
    await rig.settle("c-2", property_id="elm")
    async with rig.client("oak") as client:
        told = []
        for other in ("elm", "no-such-property", None):
            answer = await client.patch(ONE, json={"propertyId": other}, headers=ANY)
            assert answer.status_code == 422
            told.append(error_of(answer))
        assert told[0] == told[1] == told[2]
        hidden = await client.patch(f"{API}/conversations/c-2", json={"propertyId": "oak"}, headers=ANY)
        assert hidden.status_code == 404
        assert (await client.get(ONE)).json()["propertyId"] == "oak"


async def test_a_work_order_is_closed_once_and_found_among_all(rig: Rig) -> None:
    await rig.settle("c-1", property_id="oak")
    await rig.settle("c-2", property_id="elm")
    await rig.order("c-1", "oak", "wo/1")
    await rig.order("c-2", "elm", "wo-2")
    async with rig.client("oak") as client:
        close = f"{ONE}/work-orders/{{}}/close"
        closed = await client.post(close.format("wo%2F1"))
        assert (closed.status_code, closed.json()["status"]) == (200, "closed")
        assert (await client.post(close.format("wo%2F1"))).json() == closed.json()
        assert (await client.get(f"{API}/work-orders")).json()["workOrders"] == []
        every = (await client.get(f"{API}/work-orders", params={"all": True})).json()["workOrders"]
        assert [one["id"] for one in every] == ["wo/1"]
        told = []
        for path in (close.format("wo-2"), close.format("none"), close.format("%00")):
            answer = await client.post(path)
            assert answer.status_code == 404
            told.append(error_of(answer))
        assert told[0] == told[1] == told[2]
        assert (await client.post(f"{API}/conversations/c-2/work-orders/wo-2/close")).status_code == 404
    async with rig.client("elm") as client:
        assert [one["id"] for one in (await client.get(f"{API}/work-orders")).json()["workOrders"]] == ["wo-2"]
