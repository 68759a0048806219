"""What an operator has written is not lost with a session or a connection, and does not arrive twice."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Route, expect
from tests.web.pages.browser import Visit
from tests.web.pages.demo import Site

from afterturn.model import Role

ID = "gas-smell-2b"
PATH = f"/conversations/{ID}"
WORDS = "The line is shut off.\nSomebody comes at nine."
MORE = "And another thing."


async def _log_out(site: Site, cookie: str) -> None:
    site.access.log_out({"cookie": f"afterturn_session={cookie}"})


async def _replies(site: Site) -> list[str]:
    messages = await site.backbone.store.messages(ID, limit=500)
    return [one.text for one in messages if one.role is Role.OPERATOR and one.text in (WORDS, MORE)]


def _field(seen: Visit) -> Any:
    return seen.page.get_by_label("Reply as an operator")


def _send(seen: Visit) -> None:
    seen.page.get_by_role("button", name="Send reply").click()


def test_words_that_a_session_ended_under_are_there_after_the_next_login(seen: Visit) -> None:
    seen.go(PATH)
    _field(seen).fill(WORDS)
    cookie = next(one["value"] for one in seen.page.context.cookies() if one["name"] == "afterturn_session")
    seen.served.call(_log_out(seen.served.site, cookie))
    _send(seen)
    expect(seen.page.get_by_role("heading", name="Please sign in")).to_be_visible()
    seen.errors.clear()  # the browser tells of the 401
    seen.go(f"/login?key={seen.served.site.access.make_link()}")
    seen.go(PATH)
    expect(_field(seen)).to_have_value(WORDS)
    _send(seen)
    expect(seen.page.get_by_role("status").filter(has_text="Reply saved")).to_be_visible()
    assert seen.served.call(_replies(seen.served.site)) == [WORDS]
    seen.page.reload()
    expect(_field(seen)).to_have_value("")


def test_words_that_arrived_though_their_connection_broke_are_sent_once(seen: Visit) -> None:
    def arrive_and_break(route: Route) -> None:
        route.fetch(max_redirects=0)
        route.abort()

    seen.go(PATH)
    _field(seen).fill(WORDS)
    seen.page.route("**/reply", arrive_and_break)
    _send(seen)
    seen.page.wait_for_url("chrome-error://**")
    seen.page.unroute("**/reply")
    seen.errors.clear()  # the browser tells of the broken connection
    seen.go(PATH)
    expect(_field(seen)).to_have_value(WORDS)
    _send(seen)
    expect(seen.page.get_by_role("status").filter(has_text="This reply was saved before")).to_be_visible()
    expect(_field(seen)).to_have_value("")
    _field(seen).fill(MORE)
    _send(seen)
    expect(seen.page.get_by_role("status").filter(has_text="Reply saved")).to_be_visible()
    assert sorted(seen.served.call(_replies(seen.served.site))) == sorted([WORDS, MORE])


def test_words_are_not_shown_to_whoever_signs_in_next(seen: Visit) -> None:
    seen.go(PATH)
    _field(seen).fill(WORDS)
    seen.page.reload()
    expect(_field(seen)).to_have_value(WORDS)
    seen.page.evaluate(
        """() => { for (const name of Object.keys(sessionStorage)) {
            sessionStorage.setItem(name.replace("login-link", "somebody-else"), sessionStorage.getItem(name));
            sessionStorage.removeItem(name);
        } }"""
    )
    seen.page.reload()
    expect(_field(seen)).to_have_value("")
