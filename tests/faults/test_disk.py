"""A file that the system will not let us write, in processes of their own: root and limits do not mix with tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import afterturn
from afterturn.sqlite.database import Database

_NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may look into."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)
        os.chmod(name, 0o755)


def run(script: str, *arguments: object) -> str:
    """What a script prints, with the paths of this test process."""
    source = str(Path(afterturn.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


_SETTLE_AS_NOBODY = """
    import asyncio, os, sys
    from datetime import UTC, datetime
    from afterturn.errors import StoreError
    from afterturn.model import ConversationMeta, Turn
    from afterturn.sqlite.database import Database
    from afterturn.store.sqlite import SqliteStore

    async def main(path, user):
        if os.geteuid() == 0:
            os.setgid(user), os.setuid(user)
        try:
            with Database.open(path, busy_timeout=0.1) as database:
                turn = Turn(conversation=ConversationMeta(id="new", channel="sms"))
                await SqliteStore(database).settle(turn, now=datetime.now(UTC), emitter="worker")
        except StoreError as error:
            print(type(error).__name__, path in str(error))

    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"),
    [(0o444, 0o555), (0o444, 0o777), (0o666, 0o555), (0o000, 0o777)],
    ids=["both", "file", "folder", "unreadable"],
)
def test_a_read_only_file_is_named(folder: Path, file_mode: int, folder_mode: int) -> None:
    """A file or a folder without write permission is told apart from damage, and nothing is half-written."""
    path = folder / "afterturn.db"
    Database.open(path).close()
    path.chmod(file_mode)
    folder.chmod(folder_mode)
    before = path.read_bytes()
    assert run(_SETTLE_AS_NOBODY, path, _NOBODY) == "StoreReadOnly True"
    assert path.read_bytes() == before


_FILL = """
    import asyncio, resource, sys
    from datetime import UTC, datetime
    from afterturn.errors import StoreError
    from afterturn.model import ConversationMeta, Message, Turn
    from afterturn.sqlite.database import Database
    from afterturn.store.sqlite import SqliteStore

    NOW = datetime.now(UTC)

    def turn(number):
        message = Message(id="m", direction="inbound", role="customer", text="x" * 20_000, at=NOW)
        return Turn(conversation=ConversationMeta(id=f"c{number}", channel="sms"), messages=(message,))

    async def main(path):
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        with Database.open(path) as database:
            store = SqliteStore(database)
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
            outcomes = await asyncio.gather(
                *(store.settle(turn(n), now=NOW, emitter="worker") for n in range(60)), return_exceptions=True
            )
            for n in range(60, 120):
                outcomes += await asyncio.gather(
                    store.settle(turn(n), now=NOW, emitter="worker"), return_exceptions=True
                )
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            told = {n for n, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)}
            kinds = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            assert kinds and all(isinstance(kind, StoreError) for kind in kinds), kinds
            there = {int(one.id[1:]) for one in await store.scan(limit=1000)}
            assert there == told, (there, told)
            for n in set(range(120)) - told:
                assert (await store.settle(turn(n), now=NOW, emitter="worker")).new
        with Database.open(path) as database:
            rows = await SqliteStore(database).scan(limit=1000)
            assert len(rows) == 120 and all(row.message_count == 1 for row in rows)
        print("ok")

    asyncio.run(main(sys.argv[1]))
"""


def test_when_the_system_refuses_to_write_what_was_told_is_what_is_there(folder: Path) -> None:
    """Every settle that returned is on disk, none that raised is; with space again, the same process goes on."""
    assert run(_FILL, folder / "afterturn.db") == "ok"
