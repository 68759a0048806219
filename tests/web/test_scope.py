"""Role × address × property: nobody sees or does more than the token says, and what is hidden does not exist."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any

import pytest
from tests.web.endpoint_calls import CALLS, PROPERTIES, SECRET, addresses, fill, name_of, send
from tests.web.rig import API, CALLERS, Rig, error_of, ids

from afterturn.model import UNASSIGNED
from afterturn.web.pages.sse import EventStreams
from afterturn.web.tokens import remove_token

INBOX = f"{API}/conversations"
_WHERE = sorted(CALLS)


def hidden_from(caller: str | None) -> list[str]:
    """The properties that a caller may not see."""
    if caller is None:
        return list(PROPERTIES)
    visible = CALLERS[caller][1]
    return [] if visible is None else [one for one in PROPERTIES if one not in visible]


async def revision_of(rig: Rig, conversation_id: str) -> str:
    found = await rig.backbone.store.conversation(conversation_id)
    return str(found.revision if found else 0)


async def test_every_address_is_in_the_matrix(rig: Rig) -> None:
    assert addresses(rig.app) == set(CALLS)


@pytest.mark.parametrize("where", _WHERE, ids=" ".join)
async def test_a_caller_reaches_what_the_token_says_and_nothing_else(rig: Rig, where: tuple[str, str]) -> None:
    call = CALLS[where]
    made = await fill(rig)
    rig.app.state.live = EventStreams(every=0.01, looks=1)  # so that a stream ends
    for caller in (None, *CALLERS):
        async with rig.client(caller) as client:
            for property_id in PROPERTIES:
                given = {**made, "conversation": name_of(property_id), "property": property_id, "caller": caller or ""}
                given["revision"] = await revision_of(rig, given["conversation"])
                rig.clock.advance(timedelta(minutes=1))  # so that no login is one too many
                answer = await send(client, where, call, **given)
                hidden = hidden_from(caller)
                if call.needs is None:
                    expected = call.good
                elif caller is None:
                    expected = 401
                elif not CALLERS[caller][0].covers(call.needs):
                    expected = 403
                elif call.about and property_id in hidden:
                    expected = 404
                    nowhere = await send(client, where, call, **{**given, "conversation": "c-none"})
                    assert (answer.status_code, answer.content) == (nowhere.status_code, nowhere.content)
                else:
                    expected = call.good
                assert answer.status_code == expected, (caller, property_id, answer.text)
                if answer.status_code >= 400 and where[1].startswith(API):
                    error_of(answer)
                if call.needs is not None:
                    for one in hidden:
                        shown = answer.text + str(answer.headers)
                        if answer.status_code in (401, 403):  # where a refused form was sent from, as the caller said
                            shown = shown.replace(f"%2Fconversations%2F{name_of(property_id)}", "")
                            shown = shown.replace(f'"/conversations/{name_of(property_id)}"', "")
                        assert SECRET.format(one) not in shown, (caller, property_id)
                if where[1].endswith("/redrive") and answer.status_code == call.good:
                    made = {"letter": await rig.make_dead_letter()}


@pytest.mark.parametrize("caller", CALLERS)
async def test_a_list_without_filters_holds_the_whole_scope_and_no_more(rig: Rig, caller: str) -> None:
    await fill(rig)
    visible = {name_of(one) for one in PROPERTIES if one not in hidden_from(caller)}
    async with rig.client(caller) as client:
        assert set(ids(await client.get(INBOX, params={"window": "all"}))) == visible
        orders = (await client.get(f"{API}/work-orders")).json()
        assert {one["conversationId"] for one in orders["workOrders"]} == visible
        assert orders["complete"]


@pytest.mark.parametrize("property_id", ["elm", UNASSIGNED, "no-such-property"])
async def test_a_filter_on_a_hidden_property_finds_what_one_on_no_property_finds(rig: Rig, property_id: str) -> None:
    await fill(rig)
    async with rig.client("oak") as client:
        hidden = await client.get(INBOX, params={"property": property_id})
        both = await client.get(INBOX, params={"property": ["oak", property_id]})
        found = await client.get(INBOX, params={"participant": f"+1 {name_of('elm')}"})
    assert hidden.json() == {"rows": [], "nextCursor": None, "complete": True, "scanned": 0}
    assert ids(both) == [name_of("oak")]
    assert ids(found) == []


async def test_a_cursor_leads_nobody_into_anothers_scope(rig: Rig) -> None:
    for number in range(6):
        await rig.settle(f"c-{number}", property_id=("oak", "elm")[number % 2])
    cursors = {}
    for caller in ("oak", "elm", "desk"):
        async with rig.client(caller) as client:
            cursors[caller] = (await client.get(INBOX, params={"limit": 1})).json()["nextCursor"]
    async with rig.client("oak") as client:
        for caller in ("elm", "desk"):
            answer = await client.get(INBOX, params={"limit": 1, "cursor": cursors[caller]})
            assert answer.status_code == 400
            assert error_of(answer)["code"] == "invalid_cursor"
            answer = await client.get(INBOX, params={"limit": 1, "property": "elm", "cursor": cursors[caller]})
            assert answer.status_code == 400
        assert ids(await client.get(INBOX, params={"limit": 1, "cursor": cursors["oak"]})) == ["c-2"]


async def test_a_conversation_leaves_the_scope_with_its_property(rig: Rig) -> None:
    await rig.settle("c-1")
    await rig.order("c-1", None, "wo-1")
    async with rig.client("strays") as before, rig.client("oak") as after:
        assert ids(await before.get(INBOX)) == ["c-1"]
        await rig.settle("c-1", property_id="oak")
        assert ids(await before.get(INBOX)) == []
        assert (await before.get(f"{INBOX}/c-1")).status_code == 404
        assert (await before.get(f"{API}/work-orders")).json()["workOrders"] == []
        assert ids(await after.get(INBOX)) == ["c-1"]
        assert [one["id"] for one in (await after.get(f"{API}/work-orders")).json()["workOrders"]] == ["wo-1"]


async def test_the_messages_cursor_of_one_conversation_is_none_of_another(rig: Rig) -> None:
    for name in ("c-1", "c-2"):
        await rig.settle(name, "1", "2", "3", property_id="oak")
    async with rig.client("oak") as client:
        cursor = (await client.get(f"{INBOX}/c-1/messages", params={"limit": 1})).json()["nextCursor"]
        assert (await client.get(f"{INBOX}/c-1/messages", params={"limit": 1, "cursor": cursor})).status_code == 200
        answer = await client.get(f"{INBOX}/c-2/messages", params={"limit": 1, "cursor": cursor})
    assert answer.status_code == 400


async def test_a_live_stream_tells_of_no_arrival_that_is_hidden(rig: Rig) -> None:
    await fill(rig)
    rig.app.state.live = EventStreams(every=0.01, looks=1)
    told = {}
    for caller, query in (("oak", {}), ("oak", {"property": "elm"}), ("desk", {}), ("desk", {"property": "elm"})):
        async with rig.client(caller) as client:
            stream = (await client.get("/live", params=query)).text
        told[caller, query.get("property")] = re.findall(r'"count": ([0-9]+)', stream)
    assert told == {
        ("oak", None): ["1"],
        ("oak", "elm"): ["0"],
        ("desk", None): ["3"],
        ("desk", "elm"): ["1"],
    }


async def test_the_search_of_a_page_finds_what_is_hidden_as_it_finds_what_is_not_there(rig: Rig) -> None:
    await fill(rig)
    leads = []
    async with rig.client("oak") as client:
        for words in (name_of("elm"), "c-none", f"+1 {name_of('elm')}"):
            answer = await client.get("/search", params={"q": words})
            leads.append(answer.headers["location"].partition("=")[0])
            for name in ("participant", "words"):
                page = await client.get("/", params={name: words})
                assert f"/conversations/{name_of('elm')}" not in page.text
        shown = await client.get("/search", params={"q": name_of("oak")})
    assert set(leads) == {"/?words"}
    assert shown.headers["location"] == f"/conversations/{name_of('oak')}"


@pytest.mark.parametrize("indexed", [False, True])
async def test_words_of_a_hidden_property_are_found_as_words_that_nobody_said(rig: Rig, indexed: bool) -> None:
    await fill(rig)
    if indexed:
        assert rig.backbone.searcher is not None
        await rig.backbone.searcher.catch_up(limit=1_000)
    for caller in CALLERS:
        hidden = hidden_from(caller)
        async with rig.client(caller) as client:
            said = await client.get(INBOX, params={"words": "marked", "window": "all"})
            assert set(ids(said)) == {name_of(one) for one in PROPERTIES if one not in hidden}
            nothing = await client.get(INBOX, params={"words": "nobody-said-this"})
            for one in PROPERTIES:
                words = SECRET.format(one)
                found = await client.get(INBOX, params={"words": words})
                page = await client.get("/", params={"words": words, "property": one})
                if one in hidden:
                    assert found.json() == nothing.json()
                    assert name_of(one) not in page.text
                else:
                    assert ids(found) == [name_of(one)]
                    assert f"/conversations/{name_of(one)}" in page.text


async def test_a_cursor_for_words_is_none_for_others(rig: Rig) -> None:
    for number in range(3):
        await rig.settle(f"c-{number}", "a leak", property_id="oak")
    async with rig.client("oak") as client:
        asked = {"words": "leak", "limit": "1"}
        cursor = (await client.get(INBOX, params=asked)).json()["nextCursor"]
        assert ids(await client.get(INBOX, params={**asked, "cursor": cursor})) == ["c-1"]
        assert (await client.get(INBOX, params={**asked, "words": "lea", "cursor": cursor})).status_code == 400
    async with rig.client("desk") as client:
        assert (await client.get(INBOX, params={**asked, "cursor": cursor})).status_code == 400


async def test_words_find_what_is_hidden_as_they_find_what_nobody_said(rig: Rig) -> None:
    """By the API, the pages, the search box and the live stream; with a filter on the property, and without."""
    await fill(rig)
    rig.app.state.live = EventStreams(every=0.01, looks=1)
    for caller in CALLERS:
        visible = {name_of(one) for one in PROPERTIES if one not in hidden_from(caller)}
        async with rig.client(caller) as client:
            every = await client.get(INBOX, params={"window": "all", "words": "marked"})
            assert set(ids(every)) == visible
            assert all(row["hit"] for row in every.json()["rows"])
            for one in hidden_from(caller):
                said, nobody = SECRET.format(one).replace("-", " "), "marked zebra"
                parts: list[dict[str, str]] = [{}, {"window": "all"}, {"property": one}]
                for more in parts:
                    told = [await client.get(INBOX, params={"words": words, **more}) for words in (said, nobody)]
                    assert told[0].json() == told[1].json(), (caller, one)
                    assert told[0].json()["rows"] == []
                    pages = [await client.get("/", params={"words": words, **more}) for words in (said, nobody)]
                    plain = [page.text.replace("+", " ") for page in pages]
                    assert plain[0].replace(said, nobody) == plain[1]
                    streams = [await client.get("/live", params={"words": words}) for words in (said, nobody)]
                    assert streams[0].text == streams[1].text
                leads = [await client.get("/search", params={"q": words}) for words in (said, nobody)]
                assert {lead.headers["location"].partition("=")[0] for lead in leads} == {"/?words"}
                assert SECRET.format(one) not in every.text


async def test_a_cursor_of_words_leads_nobody_into_anothers_scope_and_names_nothing_hidden(rig: Rig) -> None:
    for number in range(12):
        property_id = ("oak", "elm")[number % 2]
        await rig.settle(f"c-{property_id}-{number}", "The heating is cold", property_id=property_id)
    asked = {"limit": "1", "words": "heating"}
    cursors = {}
    for caller in ("oak", "elm", "desk"):
        async with rig.client(caller) as client:
            cursors[caller] = (await client.get(INBOX, params=asked)).json()["nextCursor"]
    async with rig.client("oak") as client:
        for caller in ("elm", "desk"):
            assert (await client.get(INBOX, params={**asked, "cursor": cursors[caller]})).status_code == 400
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await client.get(INBOX, params={**asked, **cursor})
            found += ids(page)
            if page.json()["nextCursor"] is None:
                break
            cursor = {"cursor": page.json()["nextCursor"]}
            assert b"elm" not in base64.urlsafe_b64decode(cursor["cursor"] + "===")
        assert (await client.get(INBOX, params={"words": "cold", "limit": "1", **cursor})).status_code == 400
    assert found == [f"c-oak-{number}" for number in (10, 8, 6, 4, 2, 0)]


async def test_a_live_stream_ends_with_the_right_to_see_it(rig: Rig) -> None:
    """Each look asks again: a token that is revoked, a conversation that has gone to another property."""
    await rig.settle("c-oak", "Hello", property_id="oak")
    rig.app.state.live = EventStreams(every=0.01, looks=3)
    async with rig.client("oak") as client:
        lines = (await client.get("/conversations/c-oak/live")).text
        assert "event: over" not in lines
        moved = await rig.client("root").patch(f"{INBOX}/c-oak", json={"propertyId": "elm"}, headers={"if-match": "*"})
        assert moved.status_code == 200
        gone = await client.get("/conversations/c-oak/live")
        assert gone.status_code == 404 or "event: over" in gone.text
        looks = 0
        whole = rig.backbone.inbox.page

        async def page(*given: Any, **named: Any) -> Any:
            nonlocal looks
            looks += 1
            remove_token(rig.tokens, "oak")
            return await whole(*given, **named)

        rig.backbone.inbox.page = page  # type: ignore[method-assign]
        stream = (await client.get("/live")).text
    assert looks == 1
    assert "event: over" in stream
