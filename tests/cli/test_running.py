"""``up`` and ``drain``: reactions run, and stop as they were asked to."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.cli.command import add_garbage, call, interrupt, line, query, run, start, turn, wait_for, write_lines

from afterturn import App
from afterturn.cli.run import what_is_left
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role
from afterturn.store.jobs import Job

OwnApp = Callable[[str], str]

START = datetime(2026, 3, 1, 12, tzinfo=UTC)

QUICK = """
@app.consumer("quick", quiet="0s", max_wait="0s")
async def quick(turns, ctx):
    return Stamp(data={"seen": len(turns.messages)})
"""
SLOW = """
@app.consumer("quick", quiet="0s", max_wait="0s")
async def quick(turns, ctx):
    print("began", flush=True)
    await asyncio.sleep(%s)
    return Stamp(data={"seen": len(turns.messages)})
"""
DEAF = """
@app.consumer("quick", quiet="0s", max_wait="0s")
async def quick(turns, ctx):
    print("began", flush=True)
    time.sleep(3_600)
    return Stamp()
"""
SICK = """
@app.consumer("sick", quiet="0s", max_wait="0s", attempts=1)
async def sick(turns, ctx):
    raise RuntimeError("my sink leaks")
"""


def stamped(db: Path) -> int:
    return len(query(db, "SELECT 1 FROM stamps WHERE through IS NOT NULL"))


def test_up_runs_what_is_settled_and_stops_gracefully(db: Path, own_app: OwnApp) -> None:
    app = own_app(QUICK)
    with start("--app", app, "up") as process:
        wait_for(db.exists)
        call("--app", app, "settle", stdin=turn("c-1"))
        wait_for(lambda: stamped(db) == 1)
        interrupt(process)
        out, err = process.communicate()
    assert process.returncode == 0
    assert out == b""
    assert b"Stopping" in err
    assert b"Stopped. 0 events" in err


async def test_whoever_stops_is_told_what_waits_to_be_answered_and_sent(db: Path) -> None:
    def jobs(kind: str, number: int) -> list[Job]:
        return [
            Job(kind=kind, key=f"k-{one}", conversation_id="c-1", value=None, due_at=START) for one in range(number)
        ]

    def message(number: int) -> Message:
        return Message(id=f"m-{number}", direction=Direction.INBOUND, role=Role.CUSTOMER, text="Hello", at=START)

    meta = ConversationMeta(id="c-1", channel=Channel.SMS)
    async with App(shipped=False).open(db=db) as backbone:
        assert await what_is_left(backbone) == "0 events in the stream, 0 reactions waiting, 0 dead letters."
        await backbone.save_messages(meta, [message(1)], jobs=jobs("reply", 2))
        await backbone.save_messages(meta, [message(2)], jobs=[*jobs("send", 1), *jobs("finish-call", 1)])
        told = await what_is_left(backbone)
        assert "2 reply jobs waiting, 1 send job waiting, 1 ended call waiting, 0 dead letters." in told
        for one in await backbone.store.lease_jobs("reply", now=START, lease=timedelta(minutes=1), limit=1):
            await backbone.store.complete(one)
        assert "1 reply job waiting" in await what_is_left(backbone)


def test_sigterm_is_graceful_too_and_what_runs_is_finished(db: Path, own_app: OwnApp) -> None:
    app = own_app(SLOW % 1)
    call("--app", app, "settle", stdin=turn("c-1"))
    with start("--app", app, "up") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        assert process.stderr is not None
        process.stderr.read()
    assert stamped(db) == 1


def test_it_stops_also_where_nobody_reads_what_it_says(db: Path, own_app: OwnApp) -> None:
    with start("--app", own_app(QUICK), "up", "--no-http") as process:
        assert process.stderr is not None
        assert b"Ctrl-C stops" in process.stderr.readline()
        process.stderr.close()
        interrupt(process)
        try:
            assert process.wait() in (0, 141)
        finally:
            process.kill()


def test_a_second_ctrl_c_stops_at_once_and_what_was_cut_off_runs_again(db: Path, own_app: OwnApp) -> None:
    app = own_app(SLOW % 3_600)
    call("--app", app, "settle", stdin=turn("c-1"))
    with start("--app", app, "up") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        interrupt(process)
        process.read_until(b"Stopping")
        interrupt(process)
        _, err = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert call("--app", own_app(QUICK), "drain").code == 0  # and does not wait for the lease to end
    assert stamped(db) == 1


def test_code_that_does_not_listen_cannot_hold_the_second_ctrl_c_up(db: Path, own_app: OwnApp) -> None:
    app = own_app(DEAF)
    call("--app", app, "settle", stdin=turn("c-1"))
    with start("--app", app, "up") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        while process.poll() is None:  # it cannot report the first one, and two that come at once count as one
            interrupt(process)
            time.sleep(0.3)
    assert process.returncode == 130


def test_two_ups_share_a_file(db: Path, own_app: OwnApp, tmp_path: Path) -> None:
    app = own_app(SLOW % 0.005)
    count = 300
    with start("--app", app, "up") as one, start("--app", app, "up") as other:
        wait_for(db.exists)
        path = write_lines(tmp_path / "c.jsonl", [line(f"c-{number}", messages=4) for number in range(count)])
        assert run("--app", app, "import", path).code == 0
        wait_for(lambda: stamped(db) == count and not query(db, "SELECT 1 FROM reactions"))
        for process in (one, other):
            interrupt(process)
        for process in (one, other):
            _, err = process.communicate()
            assert process.returncode == 0
            assert b"ERROR" not in err
    assert call("audit", "--grace", "0s").code == 0


def test_bridge_and_worker_are_the_halves_of_up(db: Path, own_app: OwnApp) -> None:
    """In a process each: without the other one a turn gets half of the way, and goes on from there."""
    app = own_app(QUICK)
    call("--app", app, "settle", stdin=turn("c-1"))
    with start("--app", app, "bridge") as bridge:
        wait_for(lambda: query(db, "SELECT count(*) FROM stream_main") == [(0,)])
        assert stamped(db) == 0
        with start("--app", app, "worker") as worker:
            wait_for(lambda: stamped(db) == 1)
            call("--app", app, "settle", stdin=turn("c-2"))
            wait_for(lambda: stamped(db) == 2)
            for process, stopped in ((bridge, b"Stopped."), (worker, b"Stopped. 0 events")):
                interrupt(process)
                _, err = process.communicate()
                assert process.returncode == 0
                assert stopped in err


def test_drain_now_skips_quiet_periods_and_ends(db: Path) -> None:
    call("settle", stdin=turn())
    done = call("drain", "--now", "--json")
    assert done.code == 0
    assert done.json == {"clean": True, "streamed": 0, "waiting": 0, "owed": 0, "failed": 0, "deadLetters": 0}
    assert stamped(db) == 4


def test_drain_waits_for_quiet_periods(db: Path, own_app: OwnApp) -> None:
    app = own_app(QUICK.replace('quiet="0s", max_wait="0s"', 'quiet="1s", max_wait="1s"'))
    began = time.monotonic()
    call("--app", app, "settle", stdin=turn())
    assert call("--app", app, "drain").code == 0
    assert time.monotonic() - began >= 0.9


def test_drain_exits_3_where_something_failed_and_tells_no_content(db: Path, own_app: OwnApp) -> None:
    app = own_app(SICK)
    call("--app", app, "settle", stdin=turn())
    done = run("--app", app, "drain", "--json")
    assert done.code == 3
    assert done.json["failed"] == 1
    assert "reactions failed" in done.err
    assert "error=RuntimeError" in done.err
    assert "leaks" not in done.err


def test_drain_exits_3_where_another_app_owes(db: Path, own_app: OwnApp) -> None:
    call("--app", own_app(QUICK), "settle", stdin=turn())
    done = call("--app", own_app(SICK.replace("sick", "other")), "drain")
    assert done.code == 3
    assert "--app" in done.err


def test_drain_exits_3_over_dead_letters(db: Path, own_app: OwnApp) -> None:
    app = own_app(QUICK)
    call("--app", app, "settle", stdin=turn())
    add_garbage(db)
    done = call("--app", app, "drain", "--json")
    assert done.code == 3
    assert (done.json["owed"], done.json["deadLetters"]) == (0, 1)
    assert "dead-letters" in done.err


def test_ctrl_c_lets_a_drain_finish_what_runs(db: Path, own_app: OwnApp) -> None:
    app = own_app(SLOW % 1)
    call("--app", app, "settle", stdin=turn())
    with start("--app", app, "drain") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        interrupt(process)
        _, err = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert stamped(db) == 1


def test_logs_go_to_stderr_as_far_as_asked(db: Path, own_app: OwnApp) -> None:
    app = own_app(QUICK)
    quiet = call("--app", app, "settle", stdin=turn("c-1"))
    assert quiet.err == ""
    loud = call("--app", app, "settle", "--log-level", "debug", stdin=turn("c-2"))
    assert "DEBUG action=settle event_id=turn:c-2:" in loud.err
    assert "action=" not in loud.out
