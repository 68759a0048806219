"""The pages as people meet them: in a browser, with the demo's conversations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from playwright.sync_api import expect
from tests.web.pages.browser import Visit, scroll_until, too_wide
from tests.web.pages.demo import Site

from afterturn import Channel, ConversationMeta, Direction, Message, Role, Stamp, Turn
from afterturn.inbox import InboxQuery
from afterturn.model import Attachment
from afterturn.stream.port import Queue

PATH = "/conversations/gas-smell-2b"

_FOCUS_IS_SEEN = """() => {
    const focused = document.activeElement, box = focused.getBoundingClientRect();
    const at = document.elementFromPoint(box.left + Math.min(box.width / 2, 200), box.top + box.height / 2);
    return at !== null && (focused.contains(at) || at.closest("li.row")?.contains(focused) === true);
}"""
"""Whether nothing lies over what has the focus."""


async def _ids(site: Site, **asked: Any) -> list[str]:
    return [row.conversation.id for row in (await site.backbone.inbox.page(InboxQuery(limit=500, **asked))).rows]


def test_scrolling_on_brings_every_conversation_once_also_where_some_move_up(seen: Visit) -> None:
    before = seen.served.call(_ids(seen.served.site))
    assert seen.ids() == before[:50]
    seen.served.call(seen.served.site.settle(before[3], "me again"))
    seen.served.call(seen.served.site.settle(before[60], "me too"))
    scroll_until(seen.page, seen.page.get_by_text("End of the list."))
    assert seen.ids() == [one for one in before if one != before[60]]
    seen.page.get_by_text("2 new").click()
    expect(seen.page.locator(f'ol.rows > li[data-id="{before[60]}"]')).to_be_visible()
    assert seen.ids()[:2] == [before[60], before[3]]
    assert len(seen.ids()) == len(set(seen.ids()))


def test_arrivals_announce_themselves_and_move_nothing(seen: Visit) -> None:
    row = seen.page.locator("ol.rows > li").nth(4)
    row.locator("a").focus()
    before, place = seen.ids(), row.bounding_box()
    seen.served.call(seen.served.site.settle("just-in", "Anybody there?"))
    status = seen.page.get_by_role("status").get_by_role("link", name="1 new")
    expect(status).to_be_visible()
    assert (seen.ids(), row.bounding_box()) == (before, place)
    expect(row.locator("a")).to_be_focused()
    seen.served.call(seen.served.site.settle("also-in", "And me?"))
    seen.page.get_by_role("link", name="2 new").click()
    expect(seen.page.locator("ol.rows > li").first).to_contain_text("And me?")
    assert seen.ids()[:3] == ["also-in", "just-in", before[0]]
    expect(seen.page.locator("ol.rows > li a").first).to_be_focused()


def test_filters_end_in_an_address_that_shows_the_same_again(seen: Visit) -> None:
    seen.page.get_by_text("Filters").click()
    seen.page.get_by_role("checkbox", name="E-mail").check()
    seen.page.get_by_label("Property, another").fill("foundry-lofts")
    seen.page.get_by_role("button", name="Apply").click()
    expect(seen.page.get_by_role("link", name="property foundry-lofts")).to_be_visible()
    assert seen.page.url == f"{seen.served.url}/?property=foundry-lofts&channel=email"
    expected = seen.served.call(_ids(seen.served.site, properties=("foundry-lofts",), channels=("email",)))
    assert seen.ids() == expected != []
    seen.page.reload()
    assert seen.ids() == expected
    seen.page.get_by_role("link", name="Take out E-mail").click()
    assert len(seen.ids()) > len(expected)


def test_somebody_without_a_mouse_finds_reads_and_answers_a_conversation(seen: Visit) -> None:
    """Keys only, from the top of the page; whatever has the focus is seen."""
    page = seen.page

    def tab_to(wanted: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            assert page.evaluate(_FOCUS_IS_SEEN), page.evaluate("document.activeElement.outerHTML")
            if page.evaluate(f"document.activeElement.matches({wanted!r})"):
                return
        raise AssertionError(wanted)

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to("[type=search]")
    tab_to(".row-link")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".row-link").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{PATH}")
    tab_to(".turn summary")
    page.keyboard.press("Enter")
    expect(page.get_by_text("topics: seen").first).to_be_visible()
    tab_to("textarea")
    page.keyboard.type("The line is shut off.")
    tab_to(".reply button")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Reply saved")).to_be_visible()
    expect(page.locator(".message").last).to_contain_text("The line is shut off.")
    stored = seen.served.call(seen.served.site.backbone.store.messages("gas-smell-2b", limit=1))
    assert (stored[0].text, stored[0].role) == ("The line is shut off.", "operator")
    tab_to("[data-part=conversation] button")
    tab_to("[data-part=orders] button")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Work order closed.")).to_be_visible()


def test_an_operator_moves_a_conversation_and_is_told_of_what_comes_meanwhile(seen: Visit) -> None:
    seen.go(PATH)
    seen.page.get_by_label("Property, blank for none").fill("elm")
    seen.page.get_by_role("button", name="Move").click()
    expect(seen.page.locator("dl.facts").first).to_contain_text("elm")
    seen.page.get_by_role("button", name="Close", exact=True).click()
    expect(seen.page.get_by_role("button", name="Open again")).to_be_visible()
    seen.page.get_by_label("Reply as an operator").fill("half a sentence")
    seen.served.call(seen.served.site.settle("gas-smell-2b", "one more thing"))
    expect(seen.page.get_by_role("link", name="1 new message")).to_be_visible()
    expect(seen.page.get_by_label("Reply as an operator")).to_have_value("half a sentence")
    seen.go("/?property=elm")
    assert seen.ids() == ["gas-smell-2b"]


def test_on_call_inspects_and_redrives_a_dead_letter_and_retries_a_failure(seen: Visit) -> None:
    async def break_it(site: Site) -> None:
        await site.settle("gas-smell-2b", "hello?")
        taken = await site.backbone.stream.receive(Queue.MAIN, limit=1, visibility=timedelta(minutes=1))
        await site.backbone.stream.dead_letter(taken[0], reason="nobody takes it")
        await site.fail("packages-sunday", "topics")
        await site.settle("packages-sunday", "hello?")
        await site.fail("packages-sunday", "topics")

    seen.served.call(break_it(seen.served.site))
    seen.go("/operations")
    seen.page.get_by_text("nobody takes it").click()
    expect(seen.page.get_by_text("conversation.turn_settled")).to_be_visible()
    seen.page.get_by_role("button", name="Redrive the dead letter of gas-smell-2b").click()
    expect(seen.page.get_by_text("1 dead letter sent to the stream again.")).to_be_visible()
    seen.page.get_by_role("button", name="Retry topics of packages-sunday").click()
    expect(seen.page.get_by_text("1 reaction will run again.")).to_be_visible()
    assert seen.served.call(seen.served.site.backbone.store.failures(limit=9)) == ()
    assert seen.served.call(seen.served.site.backbone.stream.depth()).dead_letters == 0


def test_hostile_words_run_nothing_and_call_nobody(seen: Visit) -> None:
    words = [
        "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>",
        "<iframe src='https://evil.example'></iframe><img src='https://evil.example/pixel.png'>",
        "javascript:alert(4) https://evil.example/\"onmouseover=alert(5) ' {{ 7 * 7 }} ${alert(6)}",
        "\u202e\u2066 backwards \u2069 </textarea></title><style>*{display:none}</style>",
        "\u05e9\u05dc\u05d5\u05dd \u202eevil.exe",
        "long " * 20_000,
    ]

    async def settle(site: Site) -> None:
        now = site.backbone.clock()
        files = tuple(
            Attachment(url=url, name=words[0]) for url in ("javascript:alert(9)", "https://evil.example/a.svg")
        )
        messages = tuple(
            Message(
                id=f"m{place}",
                direction=Direction.INBOUND,
                role=Role.CUSTOMER,
                text=text,
                whole=text + words[1],
                attachments=files,
                at=now,
            )
            for place, text in enumerate(words)
        )
        name = '"><img src=x onerror=alert(7)>'
        meta = ConversationMeta(id="evil", channel=Channel.EMAIL, participants=(name,), property_id=name)
        await site.backbone.settle(Turn(conversation=meta, messages=messages))
        await site.backbone.drain(eager=True)
        await site.settle("evil", words[0])
        taken = await site.backbone.stream.receive(Queue.MAIN, limit=1, visibility=timedelta(minutes=1))
        await site.backbone.stream.dead_letter(taken[0], reason=words[0] + words[1])
        stamp = Stamp(data={"topics": words[:2], "alerts": words[:1], words[1]: words[0]})
        now = site.backbone.clock()
        await site.backbone.store.stamp("evil", "maintenance", stamp, through=now, now=now)
        await site.fail("evil", "grade")

    seen.served.call(settle(seen.served.site))
    for path in ("/", "/conversations/evil", "/?participant=%22%3E%3Cimg%20src=x%20onerror=alert(8)%3E", "/operations"):
        seen.go(path)
        expect(seen.page.locator("main")).to_be_visible()
        assert seen.page.locator("main img, main iframe, main script, main style").count() == 0
        assert too_wide(seen.page) == 0
    seen.go("/conversations/evil")
    for word in words[:2]:
        expect(seen.page.locator(".said").get_by_text(word).first).to_be_visible()
    seen.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert seen.page.locator("main img, main iframe, main script, main style").count() == 0
    assert seen.page.locator("main a[href^='javascript']").count() == 0
    assert too_wide(seen.page) == 0


def test_words_that_did_run_or_call_would_be_seen(seen: Visit) -> None:
    """So that the tests of what must not happen can fail."""
    seen.page.evaluate("alert('one')")
    assert seen.dialogs == ["one"]
    seen.page.evaluate("document.body.append(Object.assign(new Image(), {src: 'https://evil.example/pixel.png'}))")
    expect(seen.page.locator("body > img")).to_have_js_property("complete", True)
    assert any("Content Security Policy" in one for one in seen.errors)
    with seen.page.expect_event("requestfailed", lambda one: one.url == "https://evil.example/"):
        seen.page.evaluate("setTimeout(() => { location.href = 'https://evil.example/' })")
    assert "https://evil.example/" in seen.strangers
    for told in (seen.dialogs, seen.strangers, seen.errors):
        told.clear()
