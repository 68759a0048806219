"""``demo``: a newcomer's first minute."""

from __future__ import annotations

import re
from pathlib import Path

from rich.cells import cell_len
from tests.cli.command import call, query, run


def test_the_demo_shows_every_stage_and_the_commands_that_it_names_work(tmp_path: Path) -> None:
    done = run("demo", env={"TMPDIR": str(tmp_path)})
    assert done.code == 0, done.err
    assert done.err == ""
    assert "\x1b" not in done.out
    for part in ("Inbox, newest first", "Red alerts", "● gas", "gas-smell-2b", "Open work orders", "Look further"):
        assert part in done.out
    assert re.search(r"^owed: 0  failed: 0", done.out, re.MULTILINE)
    assert "probe-sms-roundtrip" not in done.out
    wide = [text for text in done.out.splitlines() if cell_len(text) > 100 and str(tmp_path) not in text]
    assert wide == []
    (path,) = re.findall(r"export AFTERTURN_DB=(\S+)", done.out)
    commands = re.findall(r"^  \S*afterturn (.*?)(?:  .*)?$", done.out, re.MULTILINE)
    assert len(commands) > 3
    for command in commands:
        if command != "up":
            assert call("--db", path, *command.split()).code == 0


def test_the_demo_is_the_same_each_time_but_for_times(tmp_path: Path) -> None:
    def told(name: str) -> str:
        out = call("demo", "--db", tmp_path / name).out
        out = re.sub(r"\d+\.\d+ s", "", out.replace(name, ""))
        return re.sub(r"^ *\d+[smhd]  ", "", out, flags=re.MULTILINE)

    assert told("one.db") == told("two.db")


def test_on_a_file_it_adds_nothing_the_second_time(db: Path) -> None:
    assert call("demo").code == 0
    before = query(db, "SELECT count(*), max(settled_at) FROM conversations")
    assert call("demo").code == 0
    assert query(db, "SELECT count(*), max(settled_at) FROM conversations") == before


def test_the_demo_sends_nothing_out_whatever_is_set(tmp_path: Path) -> None:
    nobody = {
        "AFTERTURN_WEBHOOK_URL": "http://127.0.0.1:9/hook",
        "AFTERTURN_ALERT_URL": "http://127.0.0.1:9/alert",
        "AFTERTURN_MODEL": "openai:none",
        "TMPDIR": str(tmp_path),
    }
    assert run("demo", env=nobody).code == 0


def test_a_demo_with_a_consumer_that_fails_exits_3(tmp_path: Path) -> None:
    code = (
        "from afterturn import App\napp = App(shipped=False)\n@app.consumer('sick', attempts=1)\n"
        "async def sick(turns, ctx):\n    raise ValueError\n"
    )
    (tmp_path / "sick_demo_app.py").write_text(code)
    done = call("--app", "sick_demo_app:app", "demo", "--db", "demo.db")
    assert done.code == 3
    assert "failed: 85" in done.out


def test_the_demo_fills_no_table_of_an_account(tmp_path: Path) -> None:
    done = call("--profile", "aws", "demo")
    assert (done.code, done.out) == (2, "")
    assert "--profile embedded or local" in done.err
