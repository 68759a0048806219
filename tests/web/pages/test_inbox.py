"""The inbox as a browser without scripts gets it."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.web.pages.demo import Site, link, rows, value

from afterturn import Direction, Message, Role, Turn
from afterturn.clock import to_text
from afterturn.inbox import Inbox, InboxQuery
from afterturn.model import SendProblem
from afterturn.web.pages import inbox
from afterturn.web.pages.rendering import POLICY
from afterturn.web.pages.sse import EventStreams


async def everything(site: Site, **asked: object) -> list[str]:
    query = InboxQuery(limit=500, **asked)
    return [row.conversation.id for row in (await site.backbone.inbox.page(query)).rows]


async def test_older_links_lead_to_the_end_and_show_every_conversation_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox.read_query, "__kwdefaults__", {"limit": 9})
    shown: list[str] = []
    async with site.client() as client:
        address: str | None = "/"
        while address is not None:
            page = (await client.get(address)).text
            shown += rows(page)
            address = link(page, "next")
    assert shown == await everything(site)
    assert len(shown) > 60


async def test_rows_that_move_up_while_a_person_pages_come_neither_twice_nor_make_others_vanish(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox.read_query, "__kwdefaults__", {"limit": 9})
    before = await everything(site)
    async with site.client() as client:
        page = (await client.get("/")).text
        shown = rows(page)
        await site.settle(before[5], "again")
        await site.settle(before[30], "me too")
        while (address := link(page, "next")) is not None:
            page = (await client.get(address)).text
            shown += rows(page)
    assert shown == [one for one in before if one != before[30]]
    async with site.client() as client:
        assert rows((await client.get("/")).text)[:2] == [before[30], before[5]]


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("/?property=maple-court", {"properties": ("maple-court",)}),
        ("/?property=UNASSIGNED", {"properties": ("UNASSIGNED",)}),
        ("/?channel=voice&channel=email", {"channels": ("voice", "email")}),
        ("/?topic=maintenance", {"topics": ("maintenance",)}),
        ("/?type=tenant", {"types": ("tenant",)}),
        ("/?grade=d&grade=F", {"grades": ("D", "F")}),
        ("/?status=open&property=&type=", {"status": "open"}),
        ("/?participant=%2B15155550142", {"participant": "+15155550142"}),
        ("/?include_synthetic=1", {"include_synthetic": True}),
        ("/?owed=any", {"owed": ("any",)}),
        ("/?window=24h", {"window": "24h"}),
        ("/?words=smell+gas", {"words": "smell gas"}),
        (
            "/?words=the&property=maple-court&window=7d",
            {"words": "the", "properties": ("maple-court",), "window": "7d"},
        ),
    ],
)
async def test_an_address_shows_what_it_asks_for(site: Site, address: str, asked: dict[str, object]) -> None:
    expected = await everything(site, **asked)
    async with site.client() as client:
        page = (await client.get(address)).text
        shown = rows(page)
        while (further := link(page, "next")) is not None:
            page = (await client.get(further)).text
            shown += rows(page)
    assert shown == expected
    assert expected or "owed" in address


async def test_a_page_that_was_cut_short_says_so_and_leads_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def frugal(*given: object, **more: object) -> InboxQuery:
        return InboxQuery(grades=("C",), limit=500, budget=10)

    monkeypatch.setattr("afterturn.web.pages.inbox.read_query", frugal)
    async with site.client() as client:
        page = (await client.get("/?grade=C")).text
        assert "There may be more." in page
        further = link(page, "next")
        assert further is not None
        assert set(parse_qs(urlsplit(further).query)) == {"grade", "cursor"}


async def test_nothing_that_matches_is_said_in_words(site: Site) -> None:
    async with site.client() as client:
        page = (await client.get("/?participant=nobody")).text
    assert "Nothing matches" in page
    assert not rows(page)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/?grade=toolong", 422),
        ("/?colour=red", 422),
        ("/?owed=nobody", 422),
        ("/?window=5y", 422),
        ("/?cursor=werwer", 400),
        ("/?cursor=" + "a" * 3000, 400),
        ("/conversations/no-such", 404),
        ("/conversations/" + "x" * 900, 404),
        ("/operations?owed=5y", 422),
    ],
)
async def test_what_cannot_be_asked_is_a_page_that_says_so(site: Site, address: str, status: int) -> None:
    async with site.client() as client:
        answer = await client.get(address)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("/?channel=sms&channel=fax", "channel: has to be"),
        ("/?grade=Z", "grade: has to be A, B, C, D or F"),
        ("/?topic=Not+A+Label", "topic: has to be"),
        ("/?window=5y", "window: has to be"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_named_as_the_address_has_it(site: Site, address: str, told: str) -> None:
    async with site.client() as client:
        answer = await client.get(address)
    assert answer.status_code == 422
    assert told in answer.text


async def test_the_search_box_finds_ids_phones_mails_and_names(site: Site) -> None:
    async with site.client() as client:

        async def found(words: str) -> str:
            return (await client.get("/search", params={"q": words})).headers["location"]

        assert await found(" gas-smell-2b ") == "/conversations/gas-smell-2b"
        assert await found("+1 (515) 555-0142") == "/?participant=%2B15155550142"
        assert await found("b.whitlatch@example.com") == "/?participant=b.whitlatch%40example.com"
        assert await found("visitor-31c8") == "/?participant=visitor-31c8"
        assert await found("") == "/"
        assert rows((await client.get(await found("+1 (515) 555-0142"))).text) == ["gas-smell-2b"]


async def test_the_search_box_finds_words_of_messages_and_shows_where_they_stand(site: Site) -> None:
    await site.settle("gas-smell-2b", "Invoice 48213345 <b>is</b> wrong")
    async with site.client() as client:
        for words in ("invoice 4821", "48213345", "<b>is</b> wrong"):
            lead = (await client.get("/search", params={"q": words})).headers["location"]
            assert lead.startswith("/?words=")
            page = (await client.get(lead)).text
            assert rows(page) == ["gas-smell-2b"]
            assert "<b>is</b>" not in page
            assert "<mark>" in page
        assert "<mark>Invoice</mark> <mark>48213345</mark> &lt;b&gt;" in (await client.get("/?words=invoice+482")).text
        nobody = (await client.get("/?words=nobody-said-this")).text
        assert "Nothing matches" in nobody
        assert 'href="/?participant=nobody-said-this"' in nobody
        for hostile in ('"', "NEAR(", "* OR *", "\x00", "a" * 200):
            assert (await client.get("/", params={"words": hostile})).status_code == 200
            assert (await client.get("/search", params={"q": hostile})).status_code == 303
        assert (await client.get("/", params={"words": "a" * 201})).status_code == 422


async def test_where_words_are_not_searched_the_box_does_not_offer_them(site: Site) -> None:
    searcher, site.backbone.searcher = site.backbone.searcher, None
    inbox, site.backbone.inbox = site.backbone.inbox, Inbox(site.backbone.store, site.backbone.clock)
    async with site.client() as client:
        assert "words" not in (await client.get("/")).text.partition('id="q"')[2].partition(">")[0]
        assert (await client.get("/search", params={"q": "the lift"})).headers["location"] == "/?participant=the+lift"
        refused = await client.get("/", params={"words": "lift"})
        assert refused.status_code == 422
        assert "embedded profile" in refused.text
        told = (await client.get("/api/v1/conversations", params={"words": "lift"})).json()["error"]
        assert "embedded profile" in told["message"]
    site.backbone.searcher, site.backbone.inbox = searcher, inbox


async def test_a_caller_of_one_property_sees_nothing_of_another(site: Site) -> None:
    async with site.client("maple") as client:
        page = (await client.get("/")).text
        assert set(rows(page)) == set(await everything(site, properties=("maple-court",)))
        assert "harbor-12" not in page
        assert not rows((await client.get("/?property=harbor-12")).text)
        hidden = await client.get("/conversations/packages-sunday")
        nowhere = await client.get("/conversations/no-such")
        assert (hidden.status_code, hidden.text) == (404, nowhere.text.replace("no-such", "packages-sunday"))
        search = await client.get("/search", params={"q": "packages-sunday"})
        assert search.headers["location"] == "/?words=packages-sunday"
        assert not rows((await client.get(search.headers["location"])).text)
        assert (await client.get("/operations")).status_code == 403


async def test_a_stream_tells_how_many_came_after_the_page_was_made(site: Site) -> None:
    site.app.state.live = EventStreams(every=0.05, looks=40)
    async with site.client() as client:
        page = (await client.get("/?property=maple-court")).text
        address = value(page.replace('data-live="', 'name="live" value="'), "live")

        async def heard() -> list[dict[str, object]]:
            text = (await client.get(address)).text
            return [json.loads(one[6:]) for one in text.splitlines() if one.startswith("data: ")]

        listening = asyncio.create_task(heard())
        await asyncio.sleep(0.2)
        await site.settle("new-one", "hello", "maple-court")
        await site.settle("elsewhere", "hello", "harbor-12")
        assert await listening == [{"count": 0, "more": False}, {"count": 1, "more": False}]


async def test_a_stream_says_where_more_came_in_than_it_looks_through(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "_LOOKED_AT", 3)
    site.app.state.live = EventStreams(every=0.01, looks=1)
    after = {"after": to_text(site.backbone.clock())}
    told: list[str] = []
    async with site.client() as client:
        for number in range(5):
            await site.settle(f"other-{number}", "hello", "harbor-12")
            if number % 2 == 0:
                told.append((await client.get("/live", params={"channel": "email", **after})).text)
    assert [[json.loads(line[6:]) for line in one.splitlines() if line.startswith("data: ")] for one in told] == [
        [{"count": 0, "more": False}],
        [{"count": 0, "more": True}],
        [{"count": 0, "more": True}],
    ]


async def test_a_stream_ends_when_the_session_does(site: Site) -> None:
    site.app.state.live = EventStreams(every=0.05, looks=1_000)
    async with site.client(None) as client:
        await client.get("/login", params={"key": site.access.make_link()})
        listening = asyncio.create_task(client.get("/live"))
        await asyncio.sleep(0.2)
        site.access.log_out({"cookie": f"afterturn_session={client.cookies['afterturn_session']}"})
        assert (await listening).text.endswith("event: over\ndata: {}\n\n")


async def test_streams_of_open_pages_end_with_the_server(site: Site) -> None:
    site.app.state.live = live = EventStreams(every=3_600)
    async with site.client() as client:
        listening = [asyncio.create_task(client.get(path)) for path in ("/live", "/conversations/gas-smell-2b/live")]
        await asyncio.sleep(0.1)
        live.stop()
        assert [(await one).status_code for one in listening] == [200, 200]


async def test_a_look_for_arrivals_reads_the_same_number_of_rows_whatever_there_is(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[InboxQuery] = []
    real = site.backbone.inbox.page

    async def counted(query: InboxQuery, cursor: str | None = None) -> object:
        asked.append(query)
        return await real(query, cursor)

    monkeypatch.setattr(site.backbone.inbox, "page", counted)
    site.app.state.live = EventStreams(every=0.01, looks=2)
    async with site.client() as client:
        await client.get("/live", params={"topic": "maintenance", "after": "1999-01-01T00:00:00Z"})
    assert [query.budget for query in asked] == [200, 200]


async def test_pages_let_nothing_run_that_this_server_does_not_serve(site: Site) -> None:
    async with site.client() as client:
        for path in ("/", "/conversations/gas-smell-2b", "/operations", "/sign-in", "/conversations/none"):
            answer = await client.get(path)
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["cache-control"] == "no-store"
            for forbidden in ("<style", " style=", "onclick", "onload", "javascript:"):
                assert forbidden not in answer.text
            assert "<script>" not in answer.text
    assert "unsafe" not in POLICY
    assert "http" not in POLICY


async def test_a_row_says_that_its_last_answer_did_not_go_out_as_long_as_it_is_the_last(site: Site) -> None:
    words = "was not sent: opted-out"
    outcomes = (SendProblem(state="undeliverable", reason="opted-out"), None, None)
    meta = await site.backbone.store.meta("gas-smell-2b")
    assert meta is not None
    for number, problem in enumerate(outcomes, 1):
        said = Message(
            id=f"r-{number}",
            direction=Direction.OUTBOUND,
            role=Role.OPERATOR,
            text=f"Answer {number}",
            at=site.backbone.clock(),
        )
        await site.backbone.settle(Turn(conversation=meta, messages=(said,)))
        await site.backbone.store.set_send_problem("gas-smell-2b", f"r-{number}", problem)
        async with site.client() as client:
            page = (await client.get("/")).text
        row = page.partition('data-id="gas-smell-2b"')[2].partition("</li>")[0]
        assert f"Answer {number}" in row
        assert (words in row) is (number == 1)
        assert page.count(words) == (number == 1)
