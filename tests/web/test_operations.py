"""What the command tells and does, the API tells and does: ledger, stream, reactions, consumers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.cli.command import call
from tests.web.endpoint_calls import fill
from tests.web.rig import API, Rig, error_of

from afterturn.web.api.ledger import Replays

LEDGER = f"{API}/ledger"


def _without_ages(value: Any) -> Any:
    """What does not depend on the time of looking."""
    if isinstance(value, dict):
        return {key: _without_ages(one) for key, one in value.items() if key != "ageSeconds"}
    return [_without_ages(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/conversations", ["inbox"]),
        (
            "/conversations?limit=1&type=general&status=open",
            ["inbox", "--limit", 1, "--type", "general", "--status", "open"],
        ),
        ("/conversations?property=oak&failed=topics", ["inbox", "--property", "oak", "--failed", "topics"]),
        ("/conversations?owed=any&channel=sms&channel=web", ["inbox", "--owed", "any", "--channel", "sms"]),
        ("/work-orders", ["work-orders"]),
        ("/work-orders?limit=1", ["work-orders", "--limit", 1]),
        ("/stats", ["stats"]),
        ("/dead-letters", ["dead-letters", "list"]),
        ("/reactions/failed", ["reactions", "failed"]),
        ("/reactions/failed?limit=1", ["reactions", "failed", "--limit", 1]),
        ("/consumers", ["reactions", "list"]),
    ],
)
async def test_the_api_says_what_the_command_says(rig: Rig, path: str, command: list[object]) -> None:
    await fill(rig)
    async with rig.client("duty") as client:
        answer = await client.get(API + path)
    assert answer.status_code == 200
    told = await asyncio.to_thread(call, "--db", rig.backbone.settings.db, *command, "--json")
    assert told.code == 0
    body = answer.json()
    if "nextCursor" in body and "nextCursor" not in told.json:  # the command pages the inbox alone
        assert (body.pop("nextCursor") is None) is told.json["complete"]
    assert body == told.json


async def test_an_audit_names_what_is_owed_as_the_command_does(rig: Rig) -> None:
    await fill(rig)
    rig.clock.advance(timedelta(hours=1))
    async with rig.client("duty") as client:
        found = (await client.get(f"{LEDGER}/audit")).json()
        short = (await client.get(f"{LEDGER}/audit", params={"limit": 1})).json()
        oak = (await client.get(f"{LEDGER}/audit", params={"property": "oak"})).json()
    told = await asyncio.to_thread(call, "--db", rig.backbone.settings.db, "audit", "--json")
    assert told.code == 3
    assert (found.pop("complete"), found.pop("nextCursor")) == (True, None)
    assert _without_ages(found) == _without_ages(told.json)
    assert (len(short["reactions"]), short["complete"], short["failed"]) == (1, False, found["failed"])
    assert oak["checked"] == 1


async def test_a_sweep_puts_what_is_owed_into_the_stream_once(rig: Rig) -> None:
    await rig.settle("c-1")
    rig.clock.advance(timedelta(hours=1))
    async with rig.client("duty") as client:
        before = (await client.get(f"{API}/stream")).json()
        first = (await client.post(f"{LEDGER}/sweep", json={})).json()
        again = (await client.post(f"{LEDGER}/sweep", json={})).json()
        after = (await client.get(f"{API}/stream")).json()
    assert (first["swept"], again["swept"]) == (2, 0)
    assert {one["consumer"] for one in first["reactions"]} == {"topics", "maintenance"}
    assert after["retry"] == before["retry"] + 2


async def _ended(client: httpx.AsyncClient, replay_id: str) -> dict[str, Any]:
    while True:
        found: dict[str, Any] = (await client.get(f"{LEDGER}/replays/{replay_id}")).json()
        if found["state"] != "running":
            return found
        await asyncio.sleep(0.01)


async def test_a_replay_runs_on_its_own_and_once_for_its_key(rig: Rig) -> None:
    for number in range(3):
        await rig.settle(f"c-{number}")
    asked = {"consumers": ["topics"], "rate": 1000}
    async with rig.client("duty", **{"idempotency-key": "k-1"}) as client:
        started = await client.post(f"{LEDGER}/replays", json=asked)
        assert started.status_code == 202
        again = await client.post(f"{LEDGER}/replays", json=asked)
        assert again.json()["id"] == started.json()["id"]
        ended = await _ended(client, started.json()["id"])
        assert (ended["state"], ended["emitted"]) == ("done", 3)
        assert (await client.post(f"{LEDGER}/replays", json=asked)).json() == ended
        other = await client.post(f"{LEDGER}/replays", json={**asked, "property": "oak"})
        assert other.status_code == 409
        assert error_of(other)["field"] == "Idempotency-Key"
        unknown = await client.post(f"{LEDGER}/replays", json={"consumers": ["nobody"]})
        assert unknown.status_code == 404
        assert (await client.get(f"{API}/stream")).json()["retry"] == 3


async def test_one_replay_runs_at_a_time_and_ends_with_the_process(rig: Rig) -> None:
    for number in range(3):
        await rig.settle(f"c-{number}")
    slow = {"consumers": ["topics"], "rate": 0.001}
    async with rig.client("duty") as client:
        started = await client.post(f"{LEDGER}/replays", json=slow, headers={"idempotency-key": "k-1"})
        other = await client.post(f"{LEDGER}/replays", json=slow, headers={"idempotency-key": "k-2"})
        assert error_of(other)["code"] == "busy"
        replays: Replays = rig.app.state.replays
        await replays.stop()
        assert (await _ended(client, started.json()["id"]))["state"] == "stopped"


async def test_a_redriven_letter_is_in_the_stream_again(rig: Rig) -> None:
    await rig.settle("c-1")
    letter = await rig.make_dead_letter()
    async with rig.client("duty") as client:
        wrong: list[dict[str, Any]] = [{}, {"ids": [letter], "all": True}, {"ids": []}]
        for body in wrong:
            assert (await client.post(f"{API}/dead-letters/redrive", json=body)).status_code == 422
        unknown = await client.post(f"{API}/dead-letters/redrive", json={"ids": [letter, "none"]})
        assert unknown.status_code == 404
        assert (await client.get(f"{API}/stream")).json()["dead"] == 1
        answer = await client.post(f"{API}/dead-letters/redrive", json={"ids": [letter, letter]})
        assert answer.json() == {"redriven": 1}
        assert (await client.get(f"{API}/stream")).json()["dead"] == 0
        assert (await client.post(f"{API}/dead-letters/redrive", json={"all": True})).json() == {"redriven": 0}


async def test_a_retried_reaction_waits_again(rig: Rig) -> None:
    for name in ("c-1", "c-2"):
        await rig.settle(name)
        await rig.fail(name)
    async with rig.client("duty") as client:
        answer = await client.post(f"{API}/reactions/retry", json={"conversationIds": ["c-1"], "consumer": "topics"})
        assert answer.json() == {"retried": [{"conversationId": "c-1", "consumer": "topics"}]}
        left = (await client.get(f"{API}/reactions/failed")).json()["failures"]
        assert [one["conversationId"] for one in left] == ["c-2"]
        unknown: list[dict[str, Any]] = [{"conversationIds": ["c-1"]}, {"all": True, "consumer": "nobody"}]
        for body in unknown:
            assert (await client.post(f"{API}/reactions/retry", json=body)).status_code == 404
        assert (await client.post(f"{API}/reactions/retry", json={})).status_code == 422


async def test_a_retired_consumer_owes_nothing_until_it_is_promoted(rig: Rig) -> None:
    await rig.settle("c-1")
    rig.clock.advance(timedelta(hours=1))
    async with rig.client("root") as client:
        assert (await client.post(f"{API}/consumers/topics/retire")).json()["state"] == "retired"
        owed = (await client.get(f"{LEDGER}/audit")).json()["reactions"]
        assert [one["consumer"] for one in owed] == ["maintenance"]
        assert (await client.post(f"{API}/consumers/topics/promote")).json()["state"] == "live"
        assert len((await client.get(f"{LEDGER}/audit")).json()["reactions"]) == 2
        for name in ("nobody", "to%2Fpics", "%00", "a" * 401):
            answer = await client.post(f"{API}/consumers/{name}/retire")
            assert answer.status_code in (404, 422)
            error_of(answer)
