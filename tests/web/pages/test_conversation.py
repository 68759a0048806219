"""A conversation's page, and what an operator does on it, without scripts."""

from __future__ import annotations

import re

import pytest
from tests.unit.channels.channel_rig import THEIRS, sms
from tests.web.pages.demo import Site, link, rows, value

from afterturn import Channel, ConversationMeta, Direction, Message, Role, Turn
from afterturn.channels.ingest import Ingest
from afterturn.channels.state import ContactName, SendState, SendStatus, message_key
from afterturn.model import Attachment

PATH = "/conversations/gas-smell-2b"


async def texts(site: Site, conversation_id: str) -> list[str]:
    return [one.text for one in await site.backbone.store.messages(conversation_id)]


async def test_the_thread_stands_in_order_with_its_turns_stamps_and_work_orders(site: Site) -> None:
    async with site.client() as client:
        page = (await client.get(PATH)).text
    places = [page.index(part) for part in ("i think i smell gas", "yes 2B. its strong", "fire truck just pulled up")]
    assert places == sorted(places)
    assert page.count("turn settled, seen by 4 consumers") == 4
    assert "handed-over, customer-polite" in page
    assert "emergency" in page
    assert "appliance" in page


async def test_of_a_mail_everything_can_be_unfolded(site: Site) -> None:
    said = Message(
        id="m-1",
        direction=Direction.INBOUND,
        role=Role.CUSTOMER,
        text="Yes!",
        whole="Yes!\n> <b>Shall we come at nine?</b>",
        at=site.backbone.clock(),
    )
    meta = ConversationMeta(id="mail:1", channel=Channel.EMAIL)
    await site.backbone.settle(Turn(conversation=meta, messages=(said,)))
    async with site.client() as client:
        page = (await client.get("/conversations/mail:1")).text
    assert "Show the full e-mail" in page
    assert "&gt; &lt;b&gt;Shall we come at nine?" in page


async def test_a_reply_is_saved_as_an_operators_and_settled(site: Site) -> None:
    async with site.client() as client:
        key = value((await client.get(PATH)).text, "key")
        answer = await client.post(f"{PATH}/reply", data={"key": key, "text": "Two lines,\r\nboth mine."})
        assert answer.status_code == 303
        after = (await client.get(answer.headers["location"])).text
    assert "Reply saved" in after
    last = (await site.backbone.store.messages("gas-smell-2b"))[-1]
    assert (last.text, last.role, last.direction) == ("Two lines,\nboth mine.", "operator", "outbound")
    settled = await site.backbone.store.conversation("gas-smell-2b")
    assert settled is not None
    assert settled.settled_at is not None
    assert settled.settled_at >= last.at.replace(microsecond=0)
    assert (await site.backbone.stream.depth()).main == 1


async def test_a_form_that_is_sent_twice_replies_once(site: Site) -> None:
    before = await texts(site, "gas-smell-2b")
    async with site.client() as client:
        form = {"key": value((await client.get(PATH)).text, "key"), "text": "Once."}
        first, second = [await client.post(f"{PATH}/reply", data=form) for _ in range(2)]
    assert first.headers["location"].endswith("done=reply")
    assert second.headers["location"].endswith("done=again")
    assert await texts(site, "gas-smell-2b") == [*before, "Once."]


@pytest.mark.parametrize("text", ["", "  \r\n ", "x" * 300_001])
async def test_a_reply_that_cannot_be_sent_is_refused_and_nothing_is_stored(site: Site, text: str) -> None:
    before = await texts(site, "gas-smell-2b")
    async with site.client() as client:
        answer = await client.post(f"{PATH}/reply", data={"key": "k", "text": text})
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert f'<a href="{PATH}">Back to the page</a>' in answer.text
    assert await texts(site, "gas-smell-2b") == before


async def test_a_form_that_was_refused_leads_back_to_its_page(site: Site) -> None:
    await site.settle("a/b c?d", "hello")
    page = "/conversations/a%2Fb%20c%3Fd"
    async with site.client() as client:
        refused = await client.post(f"{page}/update", data={"revision": "7", "status": "closed"})
        assert refused.status_code == 409
        [back] = re.findall('<a href="([^"]*)">Back to the page</a>', refused.text)
        assert (await client.get(back)).status_code == 200
        assert "Back to the page" not in (await client.post("/conversations/nobody/reply", data={"text": "x"})).text
    async with site.client(None) as client:
        ended = await client.post(f"{page}/reply", data={"text": "x"})
        [sign_in] = re.findall('<a href="([^"]*)">Sign in</a>', ended.text)
        assert (ended.status_code, value((await client.get(sign_in)).text, "next")) == (401, page)


async def test_a_form_without_the_sessions_csrf_token_changes_nothing(site: Site) -> None:
    before = await texts(site, "gas-smell-2b")
    async with site.client(None) as client:
        await client.get("/login", params={"key": site.access.make_link()})
        page = (await client.get(PATH)).text
        form = {"key": value(page, "key"), "text": "Mine."}
        for csrf in ("", "wrong", value(page, "csrf")[:-1]):
            answer = await client.post(f"{PATH}/reply", data={**form, "csrf": csrf})
            assert answer.status_code == 403
        crossed = {"sec-fetch-site": "cross-site"}
        good = {**form, "csrf": value(page, "csrf")}
        assert (await client.post(f"{PATH}/reply", data=good, headers=crossed)).status_code == 403
        assert (await client.post(f"{PATH}/reply", json=good)).status_code == 415
        assert await texts(site, "gas-smell-2b") == before
        assert (await client.post(f"{PATH}/reply", data=good)).status_code == 303
    assert await texts(site, "gas-smell-2b") == [*before, "Mine."]


async def test_an_operator_moves_closes_and_takes_a_conversation(site: Site) -> None:
    async with site.client("desk") as client:

        async def updated(**form: str) -> str:
            revision = value((await client.get(PATH)).text, "revision")
            answer = await client.post(f"{PATH}/update", data={"revision": revision, **form})
            assert answer.headers["location"] == f"{PATH}?done=updated"
            return (await client.get("/?property=elm" if "propertyId" in form else PATH)).text

        assert 'data-id="gas-smell-2b"' in await updated(propertyId=" elm ")
        assert "Open again" in await updated(status="closed")
        assert "Unassign" in await updated(assignee="desk")
        assert "Assign to me" in await updated(assignee="")
        assert 'data-id="gas-smell-2b"' not in await updated(propertyId="")
    found = await site.backbone.store.conversation("gas-smell-2b")
    assert found is not None
    assert (found.property_id, found.status, found.assignee) == (None, "closed", None)


async def test_a_work_order_is_closed_once_and_for_all(site: Site) -> None:
    async with site.client("desk") as client:
        page = (await client.get(PATH)).text
        form = {"order": re.findall(r'name="order" value="([^"]*)"', page)[0]}
        for _ in range(2):
            answer = await client.post(f"{PATH}/close-order", data=form)
            assert "Work order closed." in (await client.get(answer.headers["location"])).text
        assert (await client.post(f"{PATH}/close-order", data={"order": "none"})).status_code == 404
        other = await client.post("/conversations/packages-sunday/close-order", data=form)
        assert other.status_code == 404
    orders = await site.backbone.store.work_orders(conversation_id="gas-smell-2b", open_only=True, limit=9)
    assert len(orders) == page.count('name="order"') - 1


async def test_nobody_undoes_what_somebody_else_has_just_decided(site: Site) -> None:
    async with site.client() as client:
        form = {"revision": value((await client.get(PATH)).text, "revision"), "status": "closed"}
        assert (await client.post(f"{PATH}/update", data=form)).status_code == 303
        late = await client.post(f"{PATH}/update", data={**form, "status": "open"})
        assert late.status_code == 409
        assert "Somebody else changed" in late.text
        for bad in ({}, {"revision": "x", "status": "open"}, {**form, "revision": "1", "status": "ajar"}):
            assert (await client.post(f"{PATH}/update", data={"": "", **bad})).status_code == 422
        nothing = {"revision": "1"}
        assert (await client.post(f"{PATH}/update", data=nothing)).status_code == 422
    found = await site.backbone.store.conversation("gas-smell-2b")
    assert found is not None
    assert found.status == "closed"


async def test_a_caller_of_one_property_moves_nothing_out_of_it(site: Site) -> None:
    async with site.client("maple") as client:
        answer = await client.post(f"{PATH}/update", data={"revision": "0", "propertyId": "elm"})
    assert answer.status_code == 422
    found = await site.backbone.store.conversation("gas-smell-2b")
    assert found is not None
    assert found.property_id == "maple-court"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (("sent", None), '<p class="dim sent">sent</p>'),
        (("waiting", "throttled"), '<p class="dim sent">waits to be sent: throttled</p>'),
        (("undeliverable", "opted-out"), '<p class="tag tag-failed">was not sent: opted-out</p>'),
        (("uncertain", "<b>"), '<p class="tag tag-failed">may not have been sent: &lt;b&gt;</p>'),
    ],
)
async def test_what_became_of_sending_a_reply_stands_below_it(
    site: Site, status: tuple[str, str | None], words: str
) -> None:
    async with site.client() as client:
        key = value((await client.get(PATH)).text, "key")
        await client.post(f"{PATH}/reply", data={"key": key, "text": "On my way."})
        last = (await site.backbone.store.messages("gas-smell-2b"))[-1]
        state, reason = status
        key, at = message_key("gas-smell-2b", last.id), site.backbone.clock()
        await site.backbone.store.put(SendStatus(key=key, state=SendState(state), reason=reason, at=at))
        page = (await client.get(PATH)).text
    assert words in page.partition("On my way.")[2]


async def test_before_a_reply_it_is_said_that_the_person_wrote_stop(site: Site) -> None:
    ingest, path = Ingest(site.backbone, site.backbone.store, site.backbone.clock), f"/conversations/sms:{THEIRS}"
    words = "This person opted out (STOP):"
    async with site.client() as client:
        for number, (opt, said) in enumerate((("", False), ("out", True), ("in", False))):
            await ingest.handle(
                sms(number, opt or "Hello", at=site.backbone.clock(), extra={"opt": opt} if opt else {})
            )
            assert (words in (await client.get(path)).text) is said
        await ingest.handle(sms(9, "STOP", at=site.backbone.clock(), extra={"opt": "out"}))
        assert words not in (await client.get(PATH)).text


async def test_a_form_that_has_sent_one_reply_sends_no_other(site: Site) -> None:
    async with site.client() as client:
        key = value((await client.get(PATH)).text, "key")
        await client.post(f"{PATH}/reply", data={"key": key, "text": "One."})
        answer = await client.post(f"{PATH}/reply", data={"key": key, "text": "Another."})
    assert answer.status_code == 409
    assert "This form has already sent another reply." in answer.text
    assert (await texts(site, "gas-smell-2b"))[-1] == "One."


async def test_an_id_may_hold_anything(site: Site) -> None:
    name = 'a/b?c#d "<i>%2F&é'
    await site.settle(name, "hello")
    async with site.client() as client:
        page = (await client.get("/")).text
        href = re.search(r'class="row-link" href="([^"]*)"', page)
        assert href is not None
        shown = await client.get(href[1])
        assert shown.status_code == 200
        assert "<i>" not in shown.text
        answer = await client.post(f"{href[1]}/reply", data={"key": value(shown.text, "key"), "text": "hi"})
        assert answer.headers["location"] == f"{href[1]}?done=reply"
    assert await texts(site, name) == ["hello", "hi"]


async def test_a_long_thread_is_read_back_to_its_beginning(site: Site) -> None:
    for number in range(230):
        await site.settle("long", f"number {number}.")
    seen: list[str] = []
    async with site.client() as client:
        address: str | None = "/conversations/long"
        while address is not None:
            page = (await client.get(address)).text
            seen = re.findall(r"number \d+\.", page) + seen
            assert page.count("turn settled") == page.count('<li class="message')
            address = link(page, "prev")
    assert seen == [f"number {number}." for number in range(230)]


async def test_hostile_words_stay_words(site: Site) -> None:
    now = site.backbone.clock()
    text = (
        '</div><script>alert(1)</script><img src=x onerror="alert(2)"> javascript:alert(3) '
        "https://example.com/a?b=1&c=<script> https://example.com/\u202etxt.exe {{ 7 * 7 }}"
    )
    message = Message(
        id="m",
        direction=Direction.INBOUND,
        role=Role.CUSTOMER,
        text=text,
        at=now,
        attachments=(
            Attachment(url="javascript:alert(4)", name='"><script>alert(5)</script>'),
            Attachment(url="https://files.example.com/a.png", media_type="image/png", name="a.png"),
            Attachment(url="data:text/html,<script>alert(6)</script>", name="data"),
            Attachment(url="https://[broken", name="broken"),
        ),
    )
    meta = ConversationMeta(id="evil", channel=Channel.EMAIL, participants=("<b>\u202eevil@example.com",))
    await site.backbone.settle(Turn(conversation=meta, messages=(message,)))
    async with site.client() as client:
        for path in ("/conversations/evil", "/", "/?participant=%3Cb%3E%22"):
            page = (await client.get(path)).text
            assert "<script>" not in page
            assert "<img" not in page
            assert "<b>\u202e" not in page
            assert "49" not in re.findall(r"txt\.exe[^<]*", page)
            assert not re.findall(r'(?:href|src)="(?!/|https://|#)', page)
        page = (await client.get("/conversations/evil")).text
    links = re.findall(r'<a href="(https:[^"]*)"([^>]*)>', page)
    assert [href for href, _ in links] == [
        "https://example.com/a?b=1&amp;c=",
        "https://example.com/",
        "https://files.example.com/a.png",
    ]
    assert all('rel="noopener noreferrer nofollow"' in rest for _, rest in links)


async def test_people_are_called_by_the_name_that_their_channel_told(site: Site) -> None:
    meta = ConversationMeta(
        id="tg:7", channel=Channel.TELEGRAM, participants=("user77", "user78"), contact_name="Ada <b> (@ada)"
    )
    said = Message(id="m", direction=Direction.INBOUND, role=Role.CUSTOMER, text="Hi", at=site.backbone.clock())
    await site.backbone.settle(Turn(conversation=meta, messages=(said,)))
    await site.backbone.store.put(ContactName(key="user77", name="Ada <b>", username="ada"))
    async with site.client() as client:
        inbox = (await client.get("/")).text
        page = (await client.get("/conversations/tg:7")).text
        assert rows((await client.get("/?participant=user77")).text) == ["tg:7"]
    assert '<bdi title="user77">Ada &lt;b&gt; (@ada)</bdi>' in inbox
    assert "<bdi>Ada &lt;b&gt; (@ada)</bdi></h1>" in page
    assert "<bdi>user77</bdi></a>" in page
    assert "<bdi>user78</bdi></a>" in page
