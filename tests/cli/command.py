"""Runs the command: in a process of its own, or in this one where that is enough."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import afterturn
from afterturn.cli.app import app

SOURCE = str(Path(afterturn.__file__).parents[1])


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The whole of stdout, which has to be one JSON value."""
        return json.loads(self.out)


def run(*arguments: object, stdin: bytes = b"", **options: Any) -> CommandResult:
    """The real command, to its end. ``options`` are those of ``subprocess.Popen``."""
    with start(*arguments, stdin=subprocess.PIPE, **options) as process:
        out, err = process.communicate(stdin)
    return CommandResult(process.returncode, out.decode(), err.decode())


class Process(subprocess.Popen[bytes]):
    """A process that is killed if the test fails before it ends. The time limit of the test is its only limit."""

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, *rest)

    def read_until(self, text: bytes) -> None:
        """Read stderr up to and including the line that holds a text."""
        assert self.stderr is not None
        for line in self.stderr:
            if text in line:
                return
        raise AssertionError(f"ended without writing {text!r}")


def start(
    *arguments: object, stdin: int = subprocess.DEVNULL, env: Mapping[str, str] | None = None, **options: Any
) -> Process:
    """The real command, running."""
    words = [argument if isinstance(argument, bytes) else str(argument) for argument in arguments]
    return Process(
        [sys.executable, "-m", "afterturn", *words],
        stdin=stdin,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCE, **(env or {})},
        **options,
    )


def call(*arguments: object, stdin: str | bytes = "") -> CommandResult:
    """The command in this process; an error that is not ours is raised."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin, prog_name="afterturn")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return CommandResult(result.exit_code, result.stdout, result.stderr)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)


def wait_for(condition: Callable[[], bool], timeout: float = 240) -> None:
    """Wait until another process has made a condition true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def query(db: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows straight out of the file; none while its tables are not made yet."""
    if not db.exists():
        return []
    with closing(sqlite3.connect(db, timeout=10)) as connection:
        try:
            return connection.execute(sql).fetchall()
        except sqlite3.OperationalError:
            return []


def execute(db: Path, sql: str) -> None:
    """Change the file behind the command's back."""
    with closing(sqlite3.connect(db, timeout=10)) as connection, connection:
        connection.execute(sql)


def lose_events(db: Path) -> None:
    """What a crash of a queue would do: settled turns whose events are gone."""
    execute(db, "DELETE FROM stream_main")


def add_garbage(db: Path) -> None:
    """A record in the stream that is no event."""
    execute(
        db,
        "INSERT INTO stream_main (consumer, group_id, event_id, body, published_at, visible_at) "
        "VALUES ('', 'c-9', 'e-9', 'not json', '2026-03-01T12:00:00.000000Z', '2026-03-01T12:00:00.000000Z')",
    )


def message(number: int, **changes: object) -> dict[str, object]:
    """A message in JSON; odd numbers came in, even ones went out."""
    inbound = number % 2 == 1
    return {
        "id": f"m-{number}",
        "direction": "inbound" if inbound else "outbound",
        "role": "customer" if inbound else "agent",
        "text": f"text {number}",
        "at": f"2026-03-01T12:{number // 60:02}:{number % 60:02}Z",
        **changes,
    }


def turn(conversation: str = "c-1", *messages: object, key: str | None = None, **meta: object) -> str:
    """A turn in JSON, with one message where none is given."""
    body: dict[str, object] = {
        "conversation": {"id": conversation, "channel": "sms", **meta},
        "messages": list(messages) or [message(1)],
    }
    return json.dumps(body if key is None else {**body, "key": key})


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    """A file of own JSON Lines."""
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def line(conversation: str, messages: int = 2, **meta: object) -> dict[str, object]:
    """A conversation as a line of such a file."""
    return {
        "conversation": {"id": conversation, "channel": "sms", **meta},
        "messages": [message(number) for number in range(1, messages + 1)],
    }
