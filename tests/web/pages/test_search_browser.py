"""Words of messages, looked for in a browser, with the demo's conversations."""

from __future__ import annotations

from importlib.resources import files

from playwright.sync_api import Browser, expect
from tests.web.pages.browser import RunningServer, Visit, too_wide, visit
from tests.web.pages.demo import Site

from afterturn.inbox import InboxQuery


async def _ids(site: Site, words: str) -> list[str]:
    return [row.conversation.id for row in (await site.backbone.inbox.page(InboxQuery(words=words))).rows]


def test_words_that_are_typed_lead_to_the_conversations_in_which_they_were_said(seen: Visit) -> None:
    page = seen.page
    page.get_by_role("searchbox").fill("Smell ga")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Take out Words: Smell ga")).to_be_visible()
    expected = seen.served.call(_ids(seen.served.site, "smell ga"))
    assert seen.ids() == expected != []
    assert len(expected) < 10
    for row in page.locator("ol.rows > li").all():
        marked = [one.lower() for one in row.locator("mark").all_inner_texts()]
        assert any("smell" in one for one in marked)
        assert any("gas" in one for one in marked)
    expect(page.get_by_role("searchbox")).to_have_value("Smell ga")

    seen.served.call(seen.served.site.settle("elsewhere", "the lift is stuck"))
    seen.served.call(seen.served.site.settle("just-in", "<i>GAS</i>, I can smell it!"))
    page.get_by_role("link", name="1 new").click()
    expect(page.locator('li[data-id="just-in"] mark').first).to_have_text("GAS")
    assert seen.ids() == ["just-in", *expected]
    assert page.locator("ol.rows i").count() == 0

    page.get_by_role("link", name="24h").click()
    page.wait_for_url("**window=24h**")
    assert "words=" in page.url
    assert seen.ids()[0] == "just-in"
    page.get_by_role("searchbox").fill("nobody said this")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.get_by_role("link", name="Search for a person of that name").click()
    expect(page.get_by_role("link", name="Take out nobody said this")).to_be_visible()


def test_a_checker_finds_no_fault_in_what_was_found_and_it_fits_on_a_phone(
    browser: Browser, server: RunningServer
) -> None:
    server.call(server.site.settle("long", "x" * 400 + " leak " + "y" * 400))
    checker = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    for scheme in ("light", "dark"):
        with visit(browser, server, color_scheme=scheme) as seen:
            seen.go("/?words=leak")
            assert seen.ids()[0] == "long"
            assert seen.page.locator("mark").count() > 0
            seen.page.evaluate(checker)
            found = seen.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []
            seen.page.set_viewport_size({"width": 375, "height": 812})
            assert too_wide(seen.page) == 0
            expect(seen.page.locator("mark").first).to_be_visible()
