"""Every list goes on to its end: each entry once, in order, whatever is done with those before meanwhile."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from tests.web.endpoint_calls import CALLS
from tests.web.rig import API, Rig, error_of

from afterturn.model import Stamp, Urgency, WorkOrder
from afterturn.stream.port import Queue
from afterturn.web.api import scoped_store
from afterturn.web.api.common import ListParameters


@dataclass(frozen=True)
class List:
    """Where a list is, the name of its entries, and what tells one from another."""

    path: str
    name: str
    keys: tuple[str, ...]


LISTS = [
    List("/work-orders", "workOrders", ("id",)),
    List("/ledger/audit?grace=0s", "reactions", ("conversationId", "consumer")),
    List("/dead-letters", "deadLetters", ("id",)),
    List("/reactions/failed", "failures", ("consumer", "conversationId")),
]


async def fill(rig: Rig, number: int = 7) -> None:
    """Of everything so many."""
    for place in range(number):
        await rig.settle(f"c-{place}", property_id="oak" if place % 2 else "elm")
        await rig.order(f"c-{place}", "elm", f"wo-{place}")
        await rig.fail(f"c-{place}")
    for one in await rig.backbone.stream.receive(Queue.MAIN, limit=number, visibility=timedelta(minutes=1)):
        await rig.backbone.stream.dead_letter(one, reason="no good")


async def pages(
    rig: Rig, one: List, limit: int, caller: str = "root", most: int = 100, **asked: str
) -> list[list[Mapping[str, Any]]]:
    found: list[list[Mapping[str, Any]]] = []
    cursor: dict[str, str] = {}
    async with rig.client(caller) as client:
        while len(found) < most:
            answer = await client.get(API + one.path, params=_params(one, limit=str(limit), **asked, **cursor))
            assert answer.status_code == 200, answer.text
            body = answer.json()
            found.append(body[one.name])
            assert body["complete"] is (body["nextCursor"] is None)
            if body["complete"]:
                return found
            cursor = {"cursor": body["nextCursor"]}
    return found


def _params(one: List, **given: str) -> dict[str, str]:
    """A client of httpx drops the query of an address that is given parameters."""
    own = dict(part.split("=") for part in one.path.partition("?")[2].split("&") if part)
    return own | given


def told(one: List, entries: list[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [tuple(entry[key] for key in one.keys) for entry in entries]


def test_every_list_with_a_cursor_is_among_these(rig: Rig) -> None:
    takes = {
        path.removeprefix(API)
        for path, methods in rig.app.openapi()["paths"].items()
        if "get" in methods and any(one["name"] == "cursor" for one in methods["get"].get("parameters", ()))
    }
    elsewhere = {f"/conversations{more}" for more in ("", "/{conversation_id}/messages", "/{conversation_id}/turns")}
    assert takes - elsewhere == {one.path.partition("?")[0] for one in LISTS}
    assert all(("GET", API + path) in CALLS for path in takes)
    assert "cursor" in ListParameters.model_fields


@pytest.mark.parametrize("one", LISTS, ids=lambda one: one.name)
async def test_each_entry_is_met_once_and_in_order(rig: Rig, one: List) -> None:
    await fill(rig)
    (whole,) = await pages(rig, one, 500)
    assert len(whole) >= 7
    assert len(set(told(one, whole))) == len(whole)
    for limit in (1, 2, len(whole) - 1, len(whole), len(whole) + 1):
        found = await pages(rig, one, limit)
        assert [entry for page in found for entry in page] == whole
        assert all(len(page) == limit for page in found[:-1])


@pytest.mark.parametrize("listed", LISTS, ids=lambda listed: listed.name)
async def test_a_cursor_of_another_list_is_a_clear_400(rig: Rig, listed: List) -> None:
    """Whatever else is no cursor is in tests/unit/test_inbox_cursor.py, and at each address in test_bad_input.py."""
    await fill(rig)
    async with rig.client("root") as client:
        inbox = (await client.get(f"{API}/conversations", params={"limit": "1"})).json()["nextCursor"]
        others = [
            (await client.get(API + other.path, params=_params(other, limit="1"))).json()["nextCursor"]
            for other in LISTS
            if other is not listed
        ]
        for cursor in (inbox, *others):
            answer = await client.get(API + listed.path, params=_params(listed, cursor=cursor))
            assert answer.status_code == 400
            assert error_of(answer) == {
                "code": "invalid_cursor",
                "message": "the cursor was altered, cut, or belongs to another query; start again from the first page",
                "field": "cursor",
            }


async def test_what_is_done_with_those_before_meanwhile_leaves_none_out(rig: Rig) -> None:
    """Closed, redriven, retried, or moved to the top."""
    await fill(rig)
    heads = {}
    rest = {}
    for one in LISTS:
        (whole,) = await pages(rig, one, 500)
        heads[one.name] = whole[:3]
        rest[one.name] = told(one, whole[3:])
    async with rig.client("root") as client:
        cursors = {
            one.name: (await client.get(API + one.path, params=_params(one, limit="3"))).json()["nextCursor"]
            for one in LISTS
        }
        for order in heads["workOrders"]:
            await client.post(f"{API}/conversations/{order['conversationId']}/work-orders/{order['id']}/close")
        await client.post(f"{API}/dead-letters/redrive", json={"ids": [one["id"] for one in heads["deadLetters"]]})
        names = [one["conversationId"] for one in heads["failures"]]
        await rig.backbone.store.request(names[0], ["topics"], now=rig.clock())
        await rig.settle(heads["reactions"][1]["conversationId"], "More.")
        for one in LISTS:
            answer = await client.get(API + one.path, params=_params(one, limit="500", cursor=cursors[one.name]))
            met = told(one, answer.json()[one.name])
            assert met[-len(rest[one.name]) :] == rest[one.name], one.name
            assert len(set(met)) == len(met)


async def test_a_cursor_of_work_orders_belongs_to_its_query_and_its_scope(rig: Rig) -> None:
    await fill(rig)
    async with rig.client("oak") as oak, rig.client("desk") as desk, rig.client("elm") as elm:
        path = f"{API}/work-orders"
        cursors = {
            caller: (await client.get(path, params={"limit": "1"})).json()["nextCursor"]
            for caller, client in (("oak", oak), ("desk", desk), ("elm", elm))
        }
        assert len(set(cursors.values())) == 3
        for client, cursor in ((oak, cursors["desk"]), (desk, cursors["oak"]), (oak, cursors["elm"])):
            assert (await client.get(path, params={"cursor": cursor})).status_code == 400
        for other in ({"all": "true"}, {"conversation": "c-1"}):
            assert (await oak.get(path, params={"cursor": cursors["oak"], **other})).status_code == 400
        assert (await oak.get(path, params={"cursor": cursors["oak"]})).status_code == 200


async def _orders(rig: Rig, conversation_id: str, number: int, urgency: Urgency) -> None:
    settled = await rig.backbone.store.conversation(conversation_id)
    assert settled is not None
    assert settled.settled_at is not None
    for begin in range(0, number, 500):
        stamp = Stamp(
            work_orders=tuple(
                WorkOrder(
                    id=f"wo-{conversation_id}-{place:05}",
                    conversation_id=conversation_id,
                    property_id="elm",
                    category="locks",
                    urgency=urgency,
                    message_id=f"{conversation_id}-m0",
                    opened_at=rig.clock(),
                )
                for place in range(begin, min(begin + 500, number))
            )
        )
        await rig.backbone.store.stamp(
            conversation_id, f"maintenance-{begin}", stamp, through=settled.settled_at, now=rig.clock()
        )


async def test_a_scope_finds_its_own_behind_any_number_of_others(rig: Rig) -> None:
    """A request looks through a bounded number; what it hands out to go on names nothing that is hidden."""
    many = 2 * scoped_store.MAX_ORDERS_READ + 100
    await rig.settle("c-marked-elm", property_id="elm")
    await _orders(rig, "c-marked-elm", many, Urgency.EMERGENCY)
    await rig.settle("c-oak", property_id="oak")
    await _orders(rig, "c-oak", 3, Urgency.ROUTINE)
    found: list[str] = []
    lengths: list[int] = []
    cursor: dict[str, str] = {}
    async with rig.client("oak") as client, rig.client("elm") as other:
        while True:
            page = (await client.get(f"{API}/work-orders", params={"limit": "2", **cursor})).json()
            found += [one["id"] for one in page["workOrders"]]
            lengths.append(len(page["workOrders"]))
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
            decoded = base64.urlsafe_b64decode(cursor["cursor"] + "===")
            assert b"elm" not in decoded
            assert b"2026" not in decoded or b"wo-c-oak" in decoded
            assert (await other.get(f"{API}/work-orders", params=cursor)).status_code == 400
    assert found == ["wo-c-oak-00000", "wo-c-oak-00001", "wo-c-oak-00002"]
    assert lengths == [0, 0, 2, 1]


async def test_a_place_that_the_store_has_forgotten_is_a_clear_400(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoped_store, "MAX_ORDERS_READ", 200)
    await rig.settle("c-elm", property_id="elm")
    await _orders(rig, "c-elm", 300, Urgency.EMERGENCY)
    async with rig.client("oak") as client:
        cursor = (await client.get(f"{API}/work-orders")).json()["nextCursor"]
        assert (await client.get(f"{API}/work-orders", params={"cursor": cursor})).json()["complete"]
        again = (await client.get(f"{API}/work-orders")).json()["nextCursor"]
        assert again != cursor
        assert await rig.backbone.store.get(scoped_store.ListPosition, _name_in(again)) is not None
        monkeypatch.setattr(scoped_store.ListPosition, "kind", "expired")
        assert (await client.get(f"{API}/work-orders", params={"cursor": again})).status_code == 400


def _name_in(cursor: str) -> str:
    return base64.urlsafe_b64decode(cursor + "===")[8:].decode().strip('["]')
