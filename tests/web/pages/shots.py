"""Takes the pictures of the documents anew: ``python -m tests.web.pages.shots``.

The demo's conversations, and an hour in which reactions stood still for a while. Debian's fonts-inter and
fonts-noto-color-emoji make them as most people see the pages.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.web.pages.browser import Visit, chromium, served, visit
from tests.web.pages.demo import Site, fill

from afterturn import Channel, ConversationMeta, Direction, Message, Role, Turn
from afterturn.clock import system_clock
from afterturn.stream.port import Queue
from afterturn.testing.clock import ManualClock

IMAGES = Path(__file__).parents[3] / "docs" / "images"
MINUTE = timedelta(minutes=1)
STOOD_STILL = range(22, 37)
"""Minutes of the hour in which nothing reacted."""


def main() -> None:
    with TemporaryDirectory() as folder:
        filled = Path(folder) / "demo.db"
        fill(filled)
        clock = ManualClock(system_clock() - timedelta(hours=1))
        with (
            chromium() as browser,
            served(filled, Path(folder), clock) as server,
            visit(browser, server) as seen,
        ):
            server.call(_live_an_hour(server.site, clock))
            take(seen, "/", "inbox")
            take(seen, "/conversations/gas-smell-2b", "conversation")
            take(seen, "/operations", "operations")


def take(seen: Visit, path: str, name: str) -> None:
    seen.go(path)
    seen.page.wait_for_load_state("load")
    seen.page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
    print(IMAGES / f"{name}.png")


async def _live_an_hour(site: Site, clock: ManualClock) -> None:
    for minute in range(60):
        clock.advance(MINUTE)
        await _probe(site, "probe-one", f"minute {minute}")
        await _probe(site, f"probe-{minute % 7}", f"minute {minute}")
        if minute not in STOOD_STILL and minute <= 56:
            await site.backbone.drain(eager=True)
        if minute == 30:
            taken = await site.backbone.stream.receive(Queue.MAIN, limit=1, visibility=MINUTE)
            await site.backbone.stream.dead_letter(
                taken[0], reason="channel: 'fax' is none of sms, email, voice, telegram, web"
            )
        if minute > 55:
            await _probe(site, "probe-two", f"minute {minute}")
            await site.fail("probe-two", "inbound-package")
        await site.app.state.history.look()
    await _probe(site, "probe-one", "just now")
    clock.advance(timedelta(seconds=12))


async def _probe(site: Site, name: str, text: str) -> None:
    """A message of a test conversation, which inboxes hide."""
    now = site.backbone.clock()
    said = Message(id=f"{name}-{now:%H%M%S}", direction=Direction.INBOUND, role=Role.CUSTOMER, text=text, at=now)
    meta = ConversationMeta(id=name, channel=Channel.WEB, synthetic=True)
    await site.backbone.settle(Turn(conversation=meta, messages=(said,)))


if __name__ == "__main__":
    main()
