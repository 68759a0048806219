"""``audit``, ``sweep``, ``replay``, ``reactions`` and ``dead-letters``: finding what is stuck, and getting it going."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.command import call, execute, line, lose_events, message, query, turn, write_lines

OwnApp = Callable[[str], str]

GOOD = """
@app.consumer("good", quiet="0s", max_wait="0s")
async def good(turns, ctx):
    return Stamp(data={"seen": len(turns.messages)})
"""
SICK = GOOD.replace('max_wait="0s"', 'max_wait="0s", attempts=1').replace("return", 'raise ValueError("x") or')


@pytest.fixture
def owed(db: Path, own_app: OwnApp) -> str:
    """An app whose consumer owes c-1, because its event was lost; c-2 is fresh."""
    app = own_app(GOOD)
    call("--app", app, "settle", stdin=turn("c-2", propertyId="oak"))
    call("--app", app, "drain")
    call("--app", app, "settle", stdin=turn("c-1"))
    lose_events(db)
    return app


def test_audit_names_what_is_owed_and_exits_3(owed: str) -> None:
    done = call("audit", "--grace", "0s")
    assert done.code == 3
    assert done.out.splitlines()[1].split()[:3] == ["c-1", "good", "overdue"]
    assert done.out.splitlines()[-1] == "checked: 2  owed: 1 (waiting 0, overdue 1, failed 0)"
    found = call("audit", "--grace", "0s", "--json").json
    assert (found["clean"], found["checked"], found["owed"]) == (False, 2, 1)
    assert [(reaction["conversationId"], reaction["consumer"]) for reaction in found["reactions"]] == [("c-1", "good")]


def test_a_turn_in_flight_is_not_owed(owed: str) -> None:
    done = call("audit")
    assert (done.code, done.out) == (0, "checked: 2  owed: 1 (waiting 1, overdue 0, failed 0)\n")


def test_audit_looks_where_it_is_told_to(owed: str) -> None:
    assert call("audit", "--grace", "0s", "--property", "oak").code == 0
    assert call("audit", "--grace", "0s", "--property", "UNASSIGNED").code == 3
    assert call("audit", "--grace", "0s", "--since", "2026-03-02").code == 0
    assert call("audit", "--grace", "0s", "--until", "2026-03-02").code == 3


@pytest.mark.parametrize("command", ["audit", "sweep", "replay"])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--since", "2026-03-01T12:00"], "--since"),
        (["--until", "soon"], "--until"),
        (["--since", "2026-03-02", "--until", "2026-03-01"], "--since"),
        (["--property", " "], "--property"),
    ],
    ids=" ".join,
)
def test_a_bad_selection_is_named(owed: str, command: str, arguments: list[str], named: str) -> None:
    done = call(command, *arguments)
    assert (done.code, done.out) == (2, "")
    assert named in done.err


def test_a_bad_grace_period_is_named(owed: str) -> None:
    for command in ("audit", "sweep"):
        done = call(command, "--grace", "soon")
        assert done.code == 2
        assert "--grace" in done.err


def test_sweep_puts_what_is_owed_into_the_stream_and_a_drain_does_it(owed: str) -> None:
    done = call("sweep", "--grace", "0s", "--json")
    assert done.code == 0
    assert done.json["swept"] == 1
    assert call("--app", owed, "drain").code == 0
    assert call("audit", "--grace", "0s").code == 0
    assert call("sweep", "--grace", "0s").out == "swept  0\n"


def test_a_late_consumer_catches_up_by_replay(db: Path, own_app: OwnApp, tmp_path: Path) -> None:
    first = own_app(GOOD)
    path = write_lines(tmp_path / "c.jsonl", [line(f"c-{number}", propertyId=f"p-{number % 2}") for number in range(6)])
    call("--app", first, "import", path)
    call("--app", first, "drain")
    both = own_app(GOOD + GOOD.replace("good", "late"))
    assert call("--app", both, "drain").code == 0
    assert query(db, "SELECT count(*) FROM stamps WHERE consumer = 'late'") == [(0,)]

    done = call("replay", "--consumer", "late", "--property", "p-1", "--rate", "1000", "--json")
    assert done.json == {"emitted": 3}
    assert re.search(r"main queue +0 +-\n.*retry queue +3 +\d", call("stats").out)
    assert call("audit", "--grace", "0s").code == 3
    assert call("--app", both, "drain").code == 0
    assert query(db, "SELECT count(*) FROM stamps WHERE consumer = 'late' AND through IS NOT NULL") == [(3,)]
    assert call("replay", "--all", "--json").json == {"emitted": 3}
    assert call("--app", both, "drain").code == 0
    again = call("replay", "--all")
    assert again.out == "emitted  0\n"
    assert "seen all of these" in again.err


@pytest.mark.parametrize(
    "arguments", [[], ["--rate", "5"], ["--json"], ["--all", "--consumer", "good"], ["--all", "--property", "oak"]]
)
def test_a_replay_of_everything_has_to_be_asked_for(db: Path, owed: str, arguments: list[str]) -> None:
    before = query(db, "SELECT count(*) FROM stream_main")
    done = call("replay", *arguments)
    assert (done.code, done.out) == (2, "")
    assert "--consumer" in done.err
    assert "--all" in done.err
    assert query(db, "SELECT count(*) FROM stream_main") == before


def test_a_replay_takes_up_what_has_failed(own_app: OwnApp) -> None:
    call("--app", own_app(SICK), "settle", stdin=turn("c-1"))
    assert call("--app", own_app(SICK), "drain").code == 3
    assert call("replay", "--all", "--json").json == {"emitted": 1}
    done = call("--app", own_app(GOOD), "drain", "--json")
    assert (done.code, done.json["clean"], done.json["failed"]) == (0, True, 0)


def test_what_waits_for_another_apps_consumer_delays_neither_app(own_app: OwnApp) -> None:
    """The sweep re-emits what it owes, turn after turn; here nobody can do it, and there it is done at once."""
    both, one = own_app(GOOD + GOOD.replace("good", "late")), own_app(GOOD)
    call("--app", both, "drain")
    call("--app", both, "settle", stdin=turn("c-1"))
    for number in (3, 5, 7):
        assert call("--app", one, "drain", "--now").code == 3
        assert call("sweep", "--grace", "0s", "--everything", "--json").json["swept"] == 1
        call("--app", one, "settle", stdin=turn("c-1", message(number)))
    left = call("--app", one, "drain", "--now", "--json")
    assert (left.code, left.json["streamed"], left.json["owed"]) == (3, 3, 1)
    assert call("--app", both, "drain", "--now").code == 0


def test_what_was_asked_of_a_retired_consumer_keeps_nobody_from_being_done(own_app: OwnApp) -> None:
    both, one = own_app(GOOD + GOOD.replace("good", "late")), own_app(GOOD)
    call("--app", both, "settle", stdin=turn("c-1"))
    call("--app", one, "drain")
    call("sweep", "--grace", "0s", "--everything")
    call("reactions", "retire", "late")
    assert call("--app", one, "drain").code == 0


def test_an_unknown_consumer_is_named_with_those_that_are_known(owed: str) -> None:
    for arguments in (
        ["replay", "--consumer", "nobody"],
        ["reactions", "retry", "--all", "--consumer", "nobody"],
        ["reactions", "promote", "nobody"],
        ["reactions", "retire", "nobody"],
    ):
        done = call(*arguments)
        assert (done.code, done.out) == (2, "")
        assert "'nobody'" in done.err


def test_failed_reactions_are_listed_and_retried(db: Path, own_app: OwnApp) -> None:
    sick, good = own_app(SICK), own_app(GOOD)
    for number in range(3):
        call("--app", sick, "settle", stdin=turn(f"c-{number}"))
    assert call("--app", sick, "drain").code == 3
    assert call("audit", "--json").json["failed"] == 3
    assert call("inbox", "--failed", "any", "--json").json["rows"][0]["reactions"]["good"]["state"] == "failed"
    listed = call("reactions", "failed", "--json", "--limit", "2").json
    assert [one["error"] for one in listed["failures"]] == ["ValueError", "ValueError"]
    assert listed["complete"] is False

    assert call("reactions", "retry").code == 2
    assert call("reactions", "retry", "c-1", "--all").code == 2
    assert call("reactions", "retry", "c-9").code == 2
    assert call("reactions", "retry", "c-1", "--json").json == {
        "retried": [{"conversationId": "c-1", "consumer": "good"}]
    }
    assert call("--app", good, "drain").code == 3
    assert len(call("reactions", "retry", "--all", "--consumer", "good", "--json").json["retried"]) == 2
    assert call("--app", good, "drain").code == 0
    assert call("reactions", "failed").err == "No reaction has failed.\n"


def test_a_shadow_is_promoted_and_a_consumer_retired(db: Path, own_app: OwnApp) -> None:
    app = own_app(GOOD.replace('max_wait="0s"', 'max_wait="0s", shadow=True'))
    call("--app", app, "settle", stdin=turn())
    call("--app", app, "drain")
    assert call("inbox", "--json").json["rows"][0]["reactions"] == {}
    assert call("reactions", "promote", "good").code == 0
    assert call("inbox", "--json").json["rows"][0]["reactions"]["good"]["data"] == {"seen": 1}
    assert call("reactions", "retire", "good").code == 0
    (listed,) = call("reactions", "list", "--json").json["consumers"]
    assert (listed["name"], listed["state"]) == ("good", "retired")
    call("settle", stdin=turn("c-2"))


def test_dead_letters_are_listed_shown_and_redriven(db: Path, own_app: OwnApp) -> None:
    app = own_app(GOOD)
    call("--app", app, "settle", stdin=turn("c-1"))
    execute(db, "UPDATE stream_main SET receives = 5")
    done = call("--app", app, "drain", "--json")
    assert done.code == 3
    assert (done.json["owed"], done.json["deadLetters"]) == (0, 1)
    (letter,) = call("dead-letters", "list", "--json").json["deadLetters"]
    assert letter["group"] == "c-1"
    shown = call("dead-letters", "show", letter["id"], "--json").json
    assert '"eventId":"turn:c-1:' in shown["body"]
    assert shown["reason"] in call("dead-letters", "show", letter["id"]).out
    assert letter["reason"] in call("dead-letters", "list").out

    for arguments in (["redrive"], ["redrive", "1", "--all"], ["redrive", "999"], ["show", "999"], ["show", "x"]):
        assert call("dead-letters", *arguments).code == 2
    assert call("dead-letters", "redrive", letter["id"], "--json").json == {"redriven": 1}
    assert call("--app", app, "drain").code == 0
    assert call("dead-letters", "redrive", "--all", "--json").json == {"redriven": 0}
    assert call("dead-letters", "list").err == "There are no dead letters.\n"
