"""The pages in the system's Chromium, in front of a server that runs everything."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright
from tests.web.pages.demo import Site, open_site

from afterturn.clock import Clock, system_clock
from afterturn.web.server import address_of, bind, serve

CHROMIUM = Path(os.environ.get("AFTERTURN_TEST_CHROMIUM", "/usr/bin/chromium-headless-shell"))
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

T = TypeVar("T")


@contextmanager
def chromium() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        reason = f"{CHROMIUM} is missing; on Debian: apt-get install chromium-headless-shell"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class RunningServer:
    """A site behind a port, in a thread of its own."""

    filled: Path
    folder: Path
    clock: Clock = system_clock
    url: str = ""
    problem: BaseException | None = None
    _site: Site | None = None
    _ready: threading.Event = field(default_factory=threading.Event)
    _loop: asyncio.AbstractEventLoop | None = None
    _stop: asyncio.Event | None = None

    @property
    def site(self) -> Site:
        assert self._site is not None
        return self._site

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:
            self.problem = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        async with open_site(self.filled, self.folder, every=0.2, clock=self.clock) as site:
            listener = bind("127.0.0.1", 0)
            self.url = address_of(listener)
            self._site, self._loop, self._stop = site, asyncio.get_running_loop(), asyncio.Event()
            serving = asyncio.create_task(serve(site.app, listener, self._stop))
            listener.listen()
            self._ready.set()
            await serving

    def call(self, doing: Coroutine[Any, Any, T]) -> T:
        """Do something in the loop of the server."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result(30)

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)


@contextmanager
def served(filled: Path, folder: Path, clock: Clock = system_clock) -> Iterator[RunningServer]:
    one = RunningServer(filled, folder, clock)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        one._ready.wait(60)
        if one.problem is not None:
            raise one.problem
        yield one
    finally:
        one.stop()
        thread.join(60)


@dataclass
class Visit:
    """A logged-in page. ``dialogs``, ``errors`` and ``strangers`` (requests to other hosts) have to stay empty."""

    page: Page
    url: str
    _served: RunningServer | None = None
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    @property
    def served(self) -> RunningServer:
        assert self._served is not None
        return self._served

    def go(self, path: str) -> None:
        self.page.goto(self.url + path)

    def ids(self) -> list[str]:
        """The rows that are on the screen."""
        found: list[str] = self.page.eval_on_selector_all("ol.rows > li", "rows => rows.map(row => row.dataset.id)")
        return found

    def check(self) -> None:
        assert (self.dialogs, self.errors, self.strangers) == ([], [], [])


@contextmanager
def visit(browser: Browser, served: RunningServer, **options: Any) -> Iterator[Visit]:
    """A browser of its own, logged in by a link; what must not happen is checked at the end."""
    link = f"{served.url}/login?key={served.site.access.make_link()}"
    with visit_by(browser, link, **options) as found:
        found._served = served
        yield found


@contextmanager
def visit_by(browser: Browser, link: str, **options: Any) -> Iterator[Visit]:
    """The same by a link that a server has printed."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(15_000)
    page = context.new_page()
    found = Visit(page, link.partition("/login")[0])

    def on_dialog(dialog: Any) -> None:
        found.dialogs.append(dialog.message)
        dialog.dismiss()

    def on_request(request: Any) -> None:
        if not request.url.startswith(found.url):
            found.strangers.append(request.url)

    page.on("dialog", on_dialog)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.on("console", lambda said: found.errors.extend([said.text] if said.type == "error" else []))
    page.on("request", on_request)
    page.goto(link)
    yield found
    found.check()
    context.close()


def scroll_until(page: Page, shown: Locator) -> None:
    """Scroll to the end, again and again, until an element is visible."""
    for _ in range(600):
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        if shown.is_visible():
            return
        page.wait_for_timeout(50)
    expect(shown).to_be_visible()


def too_wide(page: Page) -> float:
    """How many pixels a page is wider than the room that it has beside its scroll bar."""
    wide: float = page.evaluate("document.documentElement.scrollWidth - document.body.getBoundingClientRect().width")
    return max(wide, 0)
