"""Runs the examples of a document as a reader would: in order, in one empty folder.

- A block whose first line is a comment with a file name (``# reactions.py``, ``# topics.toml``) is saved as that file.
  Other ```` ```python ```` blocks are run.
- ```` ```console ````: each line that begins with ``$ `` is a shell command, continued by lines that begin with ``> ``.
  The lines below it must appear in its output in this order; ``…`` matches anything.
- ```` ```sh ```` is for what cannot run in a test: set-up, services, commands that wait for Ctrl-C.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 120

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?:#|//) ([\w.-]+\.(?:py|toml|json|jsonl))\n")


@dataclass(frozen=True, slots=True)
class Example:
    """A fenced block of a document, with the number of its first line."""

    language: str
    body: str
    line: int


def examples(document: Path) -> Iterator[Example]:
    """Every fenced block with a language."""
    text = document.read_text("utf-8")
    for block in _BLOCK.finditer(text):
        yield Example(block[1], block[2], text[: block.start()].count("\n") + 1)


def run(example: Example, folder: Path) -> None:
    """Runs an example in the folder.

    Raises:
        AssertionError: the example fails, or its output differs.
    """
    file_name = _FILE.match(example.body)
    if file_name:
        (folder / file_name[1]).write_text(
            example.body[file_name.end() :] if file_name[1].endswith("json") else example.body
        )
    elif example.language == "json":
        json.loads(example.body)
    elif example.language == "python":
        result = _run([sys.executable, "-c", example.body], folder)
        assert result.returncode == 0, result.stdout
    elif example.language == "console":
        for command, expected in _commands(example.body):
            result = _run(["bash", "-o", "pipefail", "-uc", command], folder)
            assert result.returncode == 0, f"$ {command}\n{result.stdout}"
            _check_output(expected, result.stdout, command)


def _commands(body: str) -> Iterator[tuple[str, list[str]]]:
    command: str | None = None
    expected: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, expected
            command, expected = line[2:], []
        elif command is None:
            raise AssertionError(f"a console block must begin with a command, not with {line!r}")
        elif line.startswith("> ") and not expected:
            command += "\n" + line[2:]
        else:
            expected.append(line)
    if command is not None:
        yield command, expected


def _check_output(expected: list[str], output: str, command: str) -> None:
    lines = iter(" ".join(line.split()) for line in output.splitlines())
    for line in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in " ".join(line.split()).split("…")))
        if line.strip() and not any(pattern.fullmatch(printed) for printed in lines):
            raise AssertionError(f"$ {command}\nnot printed (in this order): {line}\nprinted:\n{output}")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AFTERTURN_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    environment |= {"HOME": str(folder), "COLUMNS": "100", "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
