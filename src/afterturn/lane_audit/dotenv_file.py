"""A dotenv file as a runtime, read by python-dotenv's own parser."""

from __future__ import annotations

import io
from pathlib import Path

from dotenv.parser import parse_stream

from afterturn.errors import InvalidInput, NotFound
from afterturn.lane_audit.types import Runtime, RuntimeKind, RuntimeRole


def read_dotenv(path: Path, role: RuntimeRole | None) -> Runtime:
    """The last of several values counts. A value that leads to another variable (``${NAME}``), and a name without a
    value, depend on where the file is read: they are there, and not readable.

    Raises NotFound, and InvalidInput for what is no dotenv file; it names the line.
    """
    found: dict[str, str | None] = {}
    twice: set[str] = set()
    for binding in parse_stream(io.StringIO(_text(path))):
        if binding.error:
            raise InvalidInput(f"{path}, line {_line(binding.original)}: is not NAME=value, nor a comment")
        if binding.key is None:
            continue
        value = None if binding.value is None or "${" in binding.value else binding.value
        if binding.key in found and found[binding.key] != value:
            twice.add(binding.key)
        found[binding.key] = value
    return Runtime(RuntimeKind.DOTENV, str(path), found, role, conflicting=frozenset(twice))


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no dotenv file at {path}") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a folder, not a dotenv file") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{path}, line {line}: is not UTF-8; save it as that") from None


def _line(original: object) -> int:
    """Where a binding begins: the parser counts the blank lines before it to it."""
    text, line = str(getattr(original, "string", "")), int(getattr(original, "line", 0))
    return line + text[: len(text) - len(text.lstrip())].count("\n")
