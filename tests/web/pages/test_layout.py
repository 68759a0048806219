"""Pages at every width, in light and dark, with little, with much, and with what is hard on them."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.web.pages.browser import RunningServer, scroll_until, served, too_wide, visit
from tests.web.pages.demo import Site
from tests.web.pages.hard_content import LONG, settle_hard_content

from afterturn import Channel, ConversationMeta, Direction, Message, Role, Turn

PAGES = (
    "/",
    "/?grade=F&window=7d&channel=email&owed=any",
    "/?participant=nobody",
    "/conversations/gas-smell-2b",
    "/conversations/rtl",
    "/conversations/faces",
    f"/conversations/{LONG}",
    "/operations",
    "/operations?plots=24h&owed=all",
    "/sign-in?link=used",
    "/conversations/no",
)
WIDTHS = (1440, 1280, 768, 375, 320)

_STICKING_OUT = """() => [...document.querySelectorAll("main *")].filter((one) => {
    const box = one.closest(".card, .message, form, .row, .chosen, .head");
    const cut = ".unseen, .scroll, .tags, bdi, svg, datalist"; // what is cut, or scrolls, on purpose
    if (!box || box === one || !one.checkVisibility() || one.closest(cut)) return false;
    const [inner, outer] = [one.getBoundingClientRect(), box.getBoundingClientRect()];
    return inner.width > 0 && (inner.right > outer.right + 1 || inner.left < outer.left - 1);
}).map((one) => `${one.tagName}.${one.className}: ${one.textContent.slice(0, 40)}`)"""

_OVERLAPPING = """() => {
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const kinds = "button, input, textarea, a, summary, .tag, .pips, .ago, .grade";
    const all = [...document.querySelectorAll(`main :is(${kinds})`)];
    const seen = all.filter((one) => one.checkVisibility() && !one.closest(".reply, .head, .unseen, .side"));
    const boxes = seen.map((one) => [one, one.getBoundingClientRect()]);
    return boxes.flatMap(([one, a], place) => boxes.slice(place + 1)
        .filter(([other, b]) => !one.contains(other) && meet(a, b))
        .map(([other]) => `${one.outerHTML.slice(0, 80)} / ${other.outerHTML.slice(0, 80)}`));
}"""


@pytest.fixture
def odd(server: RunningServer) -> RunningServer:
    server.call(settle_hard_content(server.site))
    return server


def test_nothing_sticks_out_or_lies_over_anything_at_any_width(browser: Browser, odd: RunningServer) -> None:
    def looked(page: Page) -> tuple[float, list[str], list[str]]:
        return too_wide(page), page.evaluate(_STICKING_OUT), page.evaluate(_OVERLAPPING)

    with visit(browser, odd) as seen:
        for path in PAGES:
            seen.go(path)
            seen.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            for width in WIDTHS:
                seen.page.set_viewport_size({"width": width, "height": 812})
                assert looked(seen.page) == (0, [], []), (path, width)
        seen.errors.clear()  # the page that is none is told by its status, and Chromium says so
        seen.go("/operations")
        seen.page.evaluate("document.querySelector('.windows').style.marginLeft = '200rem'")
        assert looked(seen.page)[0] > 0
        seen.go("/?grade=F&grade=D")
        seen.page.evaluate("document.querySelector('.chosen a').style.translate = '3rem'")
        assert looked(seen.page)[2], "the look finds nothing"
        seen.page.evaluate("document.querySelector('.chosen a').style.translate = '-9rem'")
        assert looked(seen.page)[1], "the look finds nothing"


@pytest.mark.parametrize(
    ("scheme", "width", "pages", "rules"),
    [
        ("light", 1280, PAGES, None),
        ("light", 375, PAGES[:1] + PAGES[6:8], None),  # a phone hides other things
        ("dark", 1280, PAGES[:2] + PAGES[6:8] + PAGES[-1:], ["color-contrast", "html-has-lang"]),
    ],
)
def test_a_checker_finds_no_fault_of_accessibility(
    browser: Browser, odd: RunningServer, scheme: str, width: int, pages: tuple[str, ...], rules: list[str] | None
) -> None:
    """``rules``: those that can differ; None for all."""
    checker = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    with visit(browser, odd, color_scheme=scheme, viewport={"width": width, "height": 812}) as seen:
        for path in pages:
            seen.go(path)
            seen.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            assert _faults(seen.page, checker, rules) == [], path
        seen.page.evaluate("document.documentElement.removeAttribute('lang')")
        assert any("html-has-lang" in one for one in _faults(seen.page, checker, rules)), "the checker finds nothing"
        seen.errors.clear()


def test_a_house_without_conversations_waits_for_the_first_one(browser: Browser, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    with served(empty, tmp_path) as server, visit(browser, server) as seen:
        page = seen.page
        expect(page.get_by_text("No conversations yet")).to_be_visible()
        server.call(server.site.settle("first", "Anybody there?"))
        page.get_by_role("link", name="1 new").click()
        expect(page.locator("ol.rows > li")).to_have_count(1)
        expect(page.get_by_text("No conversations yet")).to_have_count(0)
        seen.go("/operations")
        expect(page.get_by_text("1 conversation checked")).to_be_visible()


@pytest.mark.thorough
def test_a_thousand_rows_come_as_somebody_scrolls_each_once_and_in_order(browser: Browser, tmp_path: Path) -> None:
    async def settle_many(site: Site) -> list[str]:
        names = [f"c-{number:04d}" for number in range(1_000)]
        now = site.backbone.clock() - timedelta(hours=1)
        await asyncio.gather(
            *(_settle(site, name, now + timedelta(milliseconds=place)) for place, name in enumerate(names))
        )
        return names[::-1]

    many = tmp_path / "many.db"
    many.touch()
    with served(many, tmp_path) as server:
        names = server.call(settle_many(server.site))
        with visit(browser, server) as seen:
            end = seen.page.get_by_text("End of the list.")
            scroll_until(seen.page, end)
            assert seen.ids() == names
            assert too_wide(seen.page) == 0


def test_a_page_that_does_not_load_says_so_and_comes_when_asked_again(browser: Browser, server: RunningServer) -> None:
    with visit(browser, server) as seen:
        seen.page.route("**/?cursor=*", lambda route: route.abort())
        failed = seen.page.get_by_role("link", name="That did not load. Try again")
        scroll_until(seen.page, failed)
        seen.page.unroute("**/?cursor=*")
        failed.click()
        expect(seen.page.get_by_text("End of the list.")).to_be_visible()
        seen.errors.clear()  # the browser says so, too


def test_colours_of_text_stand_out_from_every_ground_that_they_stand_on() -> None:
    """By the contrast of WCAG 2.2, also where a checker cannot tell what lies below."""
    css = (files("afterturn.web") / "static" / "base.css").read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", part)) for part in css.split("prefers-color-scheme", 1)
    )
    grounds = {
        "ink": ("paper", "sheet", "raise", "line", "pine-wash", "sea-wash"),
        "soft": ("paper", "sheet", "raise", "pine-wash", "sea-wash"),
        "pine": ("paper", "sheet", "raise", "pine-wash", "sea-wash"),
        "red": ("paper", "sheet", "raise", "red-wash", "pine-wash"),
        "amber": ("paper", "sheet", "raise", "amber-wash", "pine-wash"),
        "plum": ("plum-wash",),
        "sea": ("sea-wash",),
        "sheet": ("pine",),
    }
    for colours in (light, dark):
        for text, below in grounds.items():
            for ground in below:
                assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


async def _settle(site: Site, name: str, at: datetime) -> None:
    said = Message(id=name, direction=Direction.INBOUND, role=Role.CUSTOMER, text=name, at=at)
    await site.backbone.settle(Turn(conversation=ConversationMeta(id=name, channel=Channel.SMS), messages=(said,)))


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _faults(page: Page, checker: str, rules: list[str] | None) -> list[str]:
    page.evaluate(checker)
    found = page.evaluate(
        "options => axe.run(document, options)", {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
    )
    return [
        f"{one['impact']} {one['id']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"]
    ]
