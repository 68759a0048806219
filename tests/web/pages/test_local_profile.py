"""The pages of ``afterturn up`` on the local profile: DynamoDB, SQS and Temporal, in programs of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.cli.command import CommandResult, call, message, start, turn, write_lines
from tests.emulator import FOLDER, ROOT
from tests.web.pages.browser import scroll_until, visit_by

from afterturn.clock import system_clock, to_text
from afterturn.local import free_port, ministack

CONVERSATIONS = 53
"""More than a page."""
PORTS = ("AFTERTURN_LOCAL_AWS_PORT", "AFTERTURN_LOCAL_TEMPORAL_PORT", "AFTERTURN_LOCAL_TEMPORAL_UI_PORT")
APP = """
from afterturn import App, Stamp

app = App(shipped=False)


@app.consumer("topics", quiet="0s", max_wait="1s")
async def topics(turns, ctx):
    return Stamp(data={"topics": ["keys"]})
"""


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Logs in to a server that runs on its own servers, with conversations in it."""
    monkeypatch.chdir(tmp_path)
    Path("reactions.py").write_text(APP)
    ministack.install(FOLDER, [ROOT / "constraints-emulator.txt"])
    settings = {name: str(free_port()) for name in PORTS} | {
        "AFTERTURN_PROFILE": "local",
        "AFTERTURN_APP": "reactions:app",
        "AFTERTURN_LOCAL_FOLDER": str(tmp_path / "state"),
        "AFTERTURN_LOCAL_EMULATOR": str(FOLDER),
        "AFTERTURN_LONG_POLL": "1s",
        "AFTERTURN_POLL": "100ms",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with start("up", "--port", "0", start_new_session=True) as process:
        try:
            assert process.stderr is not None
            said = b""
            while (found := re.search(rb"http://\S+/login\?key=\S+", said)) is None:
                line = process.stderr.readline()
                assert line, said.decode()
                said += line
            done = called("import", write_lines(tmp_path / "history.jsonl", history()))
            assert done.code == 0, done.err
            yield found[0].decode()
        finally:
            process.terminate()
            process.communicate()


def called(*arguments: object, stdin: str = "") -> CommandResult:
    """The command in this process, in a thread: a browser that is open has a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call, *arguments, stdin=stdin).result()


def history() -> Iterator[object]:
    """A conversation of each minute of the last hour, oldest first."""
    for number in range(CONVERSATIONS):
        at = to_text(system_clock() - timedelta(minutes=CONVERSATIONS - number))
        said = {"id": "m-1", "direction": "inbound", "role": "customer", "text": "My keys!", "at": at}
        yield {
            "conversation": {"id": f"c-{number:02d}", "channel": "sms"},
            "messages": [said],
            "turns": [{"through": "m-1", "at": at}],
        }


@pytest.mark.thorough
def test_an_operator_reads_pages_on_and_answers(browser: Browser, link: str) -> None:
    with visit_by(browser, link) as seen:
        page = seen.page
        newest = [f"c-{number:02d}" for number in reversed(range(CONVERSATIONS))]
        assert seen.ids() == newest[:50]
        scroll_until(page, page.get_by_text("End of the list."))
        assert seen.ids() == newest

        page.get_by_role("link", name="c-07").click()
        page.get_by_label("Reply as an operator").fill("The keys are at the office.")
        page.get_by_role("button", name="Send reply").click()
        expect(page.get_by_text("Reply saved")).to_be_visible()
        expect(page.locator(".message").last).to_contain_text("The keys are at the office.")
        expect(page.locator(".turn").last).to_contain_text("seen by 1 consumer")
        expect(page.locator("[data-part=reactions] .tag-fresh")).to_have_count(1)

        page.get_by_label("Property, blank for none").fill("elm")
        page.get_by_role("button", name="Move").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        seen.go("/?property=elm")
        assert seen.ids() == ["c-07"]

        seen.go("/")
        assert seen.ids()[0] == "c-07"
        assert called("settle", stdin=turn("just-in", message(1, at=to_text(system_clock())))).code == 0
        page.get_by_role("link", name="1 new").click()
        expect(page.locator("ol.rows > li").first).to_have_attribute("data-id", "just-in")

        seen.go("/operations")
        expect(page.locator("[data-stage=dead] .number")).to_have_text("0")
        expect(page.locator("#stages svg")).to_have_count(6)
        expect(page.get_by_role("progressbar", name="topics has seen")).to_be_visible()
