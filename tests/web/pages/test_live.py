"""Pages that stay open: what changes comes in place, and moves nothing of what a person reads or writes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Route, expect
from tests.web.pages.browser import RunningServer, Visit, visit
from tests.web.pages.demo import Site
from tests.web.pages.test_operations import make_dead_letter

from afterturn.channels.state import DeliveryStatus, SendState, SendStatus, message_key
from afterturn.model import ConversationPatch

NAME = "gas-smell-2b"
PATH = f"/conversations/{NAME}"


def places(*parts: Locator) -> list[object]:
    return [part.bounding_box() for part in parts]


@pytest.mark.parametrize("width", [1280, 375])
def test_reactions_and_messages_come_to_an_open_conversation_and_move_nothing(seen: Visit, width: int) -> None:
    page, site = seen.page, seen.served.site
    seen.served.call(site.settle(NAME, "are you there?"))
    page.set_viewport_size({"width": width, "height": 812})
    seen.go(PATH)
    reactions = page.locator("[data-part=reactions]")
    expect(reactions.locator("h3 .tag-owed")).to_have_count(4)
    page.get_by_label("Reply as an operator").fill("half a sentence")
    read = (page.locator(".message").last, page.locator(".reply"), page.locator(".head"))
    before = places(*read)

    seen.served.call(site.backbone.drain(eager=True))
    expect(reactions.locator("h3 .tag-fresh")).to_have_count(4)
    expect(page.locator(".turn").last).to_contain_text("seen by 4 consumers")
    assert places(*read) == before

    seen.served.call(site.settle(NAME, "still waiting"))
    seen.served.call(site.settle(NAME, "hello??"))
    told = page.get_by_role("status").get_by_role("link", name="2 new messages")
    expect(told).to_be_visible()
    expect(page).to_have_title("(2) +15155550142 · afterturn")
    assert places(*read) == before
    expect(page.get_by_text("still waiting")).to_have_count(0)

    told.click()
    expect(page.locator(".message").last).to_contain_text("hello??")
    expect(page.locator(".message").last).to_be_in_viewport()
    expect(page.locator(".message", has_text="still waiting")).to_be_focused()
    expect(page.get_by_label("Reply as an operator")).to_have_value("half a sentence")
    expect(told).to_be_hidden()


def test_what_somebody_is_changing_is_left_alone_until_they_leave_it(seen: Visit) -> None:
    page, store = seen.page, seen.served.site.backbone.store
    seen.go(PATH)
    place = page.get_by_label("Property, blank for none")
    place.fill("el")
    now = seen.served.site.backbone.clock()
    seen.served.call(store.patch_conversation(NAME, ConversationPatch(assignee="ada"), revision=None, now=now))
    seen.served.call(seen.served.site.settle(NAME, "another thing"))
    expect(page.get_by_role("link", name="1 new message")).to_be_visible()
    expect(place).to_have_value("el")
    facts = page.locator("[data-part=conversation]")
    expect(facts).to_contain_text("nobody")
    place.fill("maple-court")
    page.get_by_label("Reply as an operator").focus()
    expect(facts).to_contain_text("ada")
    page.get_by_role("button", name="Unassign").click()
    expect(facts).to_contain_text("nobody")
    expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()


def test_what_became_of_a_reply_stands_below_it_without_a_reload(seen: Visit) -> None:
    page, store = seen.page, seen.served.site.backbone.store
    seen.go(PATH)
    page.get_by_label("Reply as an operator").fill("On my way.")
    page.get_by_label("Reply as an operator").press("Control+Enter")
    expect(page.get_by_text("Reply saved")).to_be_visible()
    last = seen.served.call(store.messages(NAME, limit=1))[0]
    shown = page.locator(".message").last
    at, key = last.at, message_key(NAME, last.id)
    seen.served.call(store.put(SendStatus(key=key, state=SendState.SENT, at=at, provider_ids=("SM1",))))
    expect(shown.locator(".sent")).to_have_text("sent")
    seen.served.call(store.put(DeliveryStatus(key="SM1", state="undelivered", at=at, error="30003")))
    expect(shown.locator(".tag-failed")).to_have_text("sent, undelivered: 30003")


def test_rows_that_are_owed_become_fresh_in_place(browser: Browser, server: RunningServer) -> None:
    server.call(server.site.settle(NAME, "are you there?"))
    with visit(browser, server) as seen:
        seen.page.clock.install()
        seen.go("/")
        rows = seen.page.locator("ol.rows > li")
        expect(rows.first.get_by_text("4 owed")).to_be_visible()
        before = places(rows.first, rows.nth(1), rows.nth(7))
        server.call(server.site.backbone.drain(eager=True))
        seen.page.clock.run_for(6_000)
        expect(rows.first.get_by_text("4 owed")).to_have_count(0)
        expect(rows.first.locator(".pip-fresh")).to_have_count(4)
        assert places(rows.first, rows.nth(1), rows.nth(7)) == before


@pytest.mark.parametrize("path", ["/", PATH])
def test_a_page_that_is_cut_off_says_so(browser: Browser, server: RunningServer, path: str) -> None:
    with visit(browser, server) as seen:
        seen.page.clock.install()
        seen.go(path)
        said = seen.page.locator(".offline")
        expect(said).to_be_empty()
        with seen.page.expect_event("requestfailed"):
            server.stop()
        seen.page.clock.run_for(7_000)
        expect(said).to_contain_text("Not connected: what you see may be old.")
        seen.errors.clear()  # the browser says so, too


def test_a_page_that_nobody_looks_at_asks_for_nothing(browser: Browser, server: RunningServer) -> None:
    """Also where it knew, when it was hidden, that what it shows is not the newest."""
    asked: list[str] = []

    def older(route: Route) -> None:
        asked.append(route.request.url)
        answer = route.fetch()
        route.fulfill(response=answer, body=re.sub(r'data-known="\w+"', 'data-known="older"', answer.text()))

    with visit(browser, server) as seen:
        page = seen.page
        page.clock.install()
        seen.go(PATH)
        page.route(f"**{PATH}", older)
        with page.expect_response(f"**{PATH}"):
            server.call(server.site.settle(NAME, "are you there?"))
        page.clock.run_for(2_500)
        expect(page.get_by_role("link", name="1 new message")).to_be_visible()
        page.evaluate(
            """() => {
              Object.defineProperty(document, "hidden", { value: true, configurable: true });
              document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )
        page.clock.run_for(2_500)
        asked.clear()
        for _ in range(5):
            page.clock.run_for(3_000)
            page.wait_for_timeout(100)
        assert asked == []
        page.unroute(f"**{PATH}", older)
        page.evaluate(
            """() => {
              Object.defineProperty(document, "hidden", { value: false, configurable: true });
              document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )
        server.call(server.site.settle(NAME, "still there?"))
        expect(page.get_by_role("link", name="2 new messages")).to_be_visible()


@pytest.mark.parametrize("end", ["connection", "session"])
def test_operations_that_are_cut_off_say_so(browser: Browser, server: RunningServer, end: str) -> None:
    """Until they are renewed again; a request that the browser still waits for does not matter."""
    with visit(browser, server) as seen:
        page = seen.page
        page.clock.install()
        seen.go("/operations")
        note = page.locator(".offline")

        def note_after_the_next_renewal() -> str:
            page.clock.run_for(11_000)
            page.wait_for_timeout(50)
            return note.inner_text()

        def comes(text: str) -> bool:
            return any(note_after_the_next_renewal() == text for _ in range(200))

        with page.expect_response("**/operations/stages*"):
            page.clock.run_for(11_000)
        expect(note).to_be_empty()
        if end == "connection":
            page.route("**/operations/stages*", lambda route: route.abort())
        else:
            page.context.clear_cookies()
        assert comes("Not renewed: what you see may be old. Reload")
        if end == "connection":
            page.unroute("**/operations/stages*")
            assert comes("")
        seen.errors.clear()  # the browser says so, too


def test_a_session_that_ended_is_said_on_the_open_page(seen: Visit) -> None:
    def log_out(site: Site, cookie: str) -> None:
        site.access.log_out({"cookie": f"afterturn_session={cookie}"})

    cookie = next(one["value"] for one in seen.page.context.cookies() if one["name"] == "afterturn_session")
    seen.go("/")
    expect(seen.page.locator("ol.rows > li").first).to_be_visible()
    log_out(seen.served.site, cookie)
    expect(seen.page.locator(".offline")).to_contain_text("Your session has ended.")
    seen.page.get_by_role("link", name="Reload").click()
    expect(seen.page.get_by_label("Token")).to_be_focused()


def test_operations_keep_their_numbers_and_say_when_a_list_is_old(browser: Browser, server: RunningServer) -> None:
    with visit(browser, server) as seen:
        page, site = seen.page, server.site
        page.clock.install()
        seen.go("/operations?owed=7d")
        dead = page.locator("[data-stage=dead] .number")
        expect(dead).to_have_text("0")
        heads = page.locator("main h2")
        before = [one.bounding_box() for one in heads.all()]
        server.call(site.settle(NAME, "hello?"))
        server.call(make_dead_letter(site))
        page.clock.run_for(11_000)
        expect(dead).to_have_text("1")
        assert [one.bounding_box() for one in heads.all()] == before
        page.get_by_role("link", name="The lists have changed: reload").click()
        expect(page.get_by_role("button", name=f"Redrive the dead letter of {NAME}")).to_be_visible()
        expect(page).to_have_url(re.compile("owed=7d"))
