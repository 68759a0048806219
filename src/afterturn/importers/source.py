"""A file that is read once, forward, counting the bytes read; and the detection of its format."""

from __future__ import annotations

import gzip
import io
import json
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, cast

from afterturn.errors import InvalidInput

from .records import BadRecord

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = 64 * 2**20
_SKIP_BYTES = 2**18


class ImportFile:
    """An opened file; ``bytes_read`` of ``total_bytes`` tells the progress (compressed bytes for ``.gz``).

    Use as a context manager. Raises InvalidInput for what is not there, not a file, empty or unreadable.
    """

    def __init__(self, path: Path, *, passes: int = 1) -> None:
        with translate_file_errors(path):
            if not path.exists():
                raise InvalidInput(f"{path}: there is no such file")
            if path.is_dir():
                raise InvalidInput(f"{path}: is a folder; name the file in it")
            if not stat.S_ISREG(path.stat().st_mode):
                raise InvalidInput(f"{path}: is not a regular file")
            self._file = path.open("rb")
            self.size = path.stat().st_size
        self.path = path
        self.name = path.name
        self.total_bytes = self.size * passes
        self.bytes_read = 0
        if self.size == 0:
            self._file.close()
            raise InvalidInput(f"{path}: is empty")

    def close(self) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Raw bytes from here on, counted."""
        with translate_file_errors(self.path):
            data = self._file.read(size)
        self.bytes_read += len(data)
        return data

    def readline(self, limit: int) -> bytes:
        """A raw line of at most ``limit`` bytes, counted."""
        with translate_file_errors(self.path):
            data = self._file.readline(limit)
        self.bytes_read += len(data)
        return data

    def read_at(self, start: int, size: int) -> bytes:
        """Raw bytes from a location that was passed before, counted too."""
        with translate_file_errors(self.path):
            self._file.seek(start)
        return self.read(size)

    def chunks(self, size: int) -> Iterator[bytes]:
        """The raw bytes in pieces of ``size``."""
        while data := self.read(size):
            yield data

    def lines(self) -> Iterator[tuple[int, bytes] | BadRecord]:
        """Numbered lines, unpacked where the file is gzip; what cannot be read is named and the rest goes on."""
        with translate_file_errors(self.path):
            packed = self._file.read(2) == GZIP_MAGIC
            self._file.seek(0)
        # gzip asks for no more of a file than read().
        stream = gzip.GzipFile(fileobj=cast("IO[bytes]", self)) if packed else self
        number = 0
        while True:
            number += 1
            try:
                line = stream.readline(MAX_LINE_BYTES)
                long = len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")
                while long and (rest := stream.readline(_SKIP_BYTES)) and not rest.endswith(b"\n"):
                    pass
            except (EOFError, gzip.BadGzipFile, zlib.error):
                yield BadRecord(f"{self.name}:{number}", "the compressed data ends or breaks here; nothing after it")
                return
            if not line:
                return
            if long:
                yield BadRecord(f"{self.name}:{number}", f"the line is longer than {MAX_LINE_BYTES} bytes")
            elif line.strip():
                yield number, line


def json_object(data: bytes) -> dict[str, Any] | str:
    """The JSON object in ``data``, or what is wrong with it."""
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return f"is not UTF-8 (byte {error.start + 1})"
    except json.JSONDecodeError as error:
        return f"is not JSON: {error.msg} at character {error.pos + 1}"
    except RecursionError:
        return "is nested too deeply"
    except ValueError:  # a number of thousands of digits
        return "is not JSON that can be read"
    return value if isinstance(value, dict) else "is not a JSON object"


@contextmanager
def translate_file_errors(path: Path) -> Iterator[None]:
    """Turns what the system says about a file into InvalidInput; gzip's own complaint passes."""
    try:
        yield
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or 'cannot be read'}") from error


_HEAD_BYTES = 2**16


class Format(StrEnum):
    """A kind of file that can be read."""

    AFTERTURN = "afterturn"
    DIALOGUES = "dialogues"
    MBOX = "mbox"
    TELEGRAM = "telegram"
    SMS = "sms"

    @property
    def label(self) -> str:
        """What people call it."""
        return _LABELS[self]


_LABELS = {
    Format.AFTERTURN: "afterturn JSON Lines (.jsonl, .jsonl.gz)",
    Format.DIALOGUES: "research dialogues (.jsonl, .jsonl.gz)",
    Format.MBOX: "mbox (e-mail)",
    Format.TELEGRAM: "Telegram Desktop export (result.json)",
    Format.SMS: "SMS Backup & Restore (.xml)",
}
_HINTS = (
    (Format.DIALOGUES, re.compile(rb'"dialogue_id"\s*:')),
    (Format.AFTERTURN, re.compile(rb'"conversation"\s*:')),
    (Format.TELEGRAM, re.compile(rb'"(?:chats|left_chats|personal_information|messages)"\s*:')),
)
_SUFFIXES = {".jsonl": Format.AFTERTURN, ".ndjson": Format.AFTERTURN, ".mbox": Format.MBOX, ".mbx": Format.MBOX}


def detect_format(path: Path) -> Format:
    """The format of a file; raises InvalidInput that names the known formats where it has none of them."""
    source = ImportFile(path)
    try:
        head = source.read(_HEAD_BYTES)
    finally:
        source.close()
    packed = head.startswith(GZIP_MAGIC)
    if packed:
        head = _unpack(head)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput(f"{path}: is in UTF-16; save it as UTF-8")
    detected = _by_content(head.removeprefix(b"\xef\xbb\xbf").lstrip())
    if not detected and b"\0" not in head:
        detected = _SUFFIXES.get(path.with_suffix("").suffix if packed else path.suffix)
    if not detected:
        raise InvalidInput(f"{path}: is in none of the formats that can be read: {known_formats()}")
    if packed and detected not in {Format.AFTERTURN, Format.DIALOGUES}:
        raise InvalidInput(f"{path}: is {detected.label}, packed; unpack it first")
    return detected


def known_formats() -> str:
    """The formats and their names, for messages."""
    return "; ".join(f"{format} = {format.label}" for format in Format)


def _unpack(head: bytes) -> bytes:
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(head)).read1(_HEAD_BYTES)
    except (EOFError, OSError, zlib.error):
        return b"\0"


def _by_content(head: bytes) -> Format | None:
    if head.startswith(b"From "):
        return Format.MBOX
    if head.startswith(b"<"):
        return Format.SMS if re.search(rb"<smses[\s>/]", head) else None
    # The first line may be the bad one, so any line that can be read decides, and only then what looks like a key.
    for line in head.split(b"\n"):
        if line.startswith(b"{") and (detected := _by_keys(line)):
            return detected
    if head.startswith(b"{"):
        return next((format for format, hint in _HINTS if hint.search(head)), None)
    return None


def _by_keys(line: bytes) -> Format | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if "dialogue_id" in value:
        return Format.DIALOGUES
    if "conversation" in value:
        return Format.AFTERTURN
    return Format.TELEGRAM if value.keys() & {"chats", "left_chats", "messages"} else None
