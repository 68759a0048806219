"""Which format a file has, told by what stands at its beginning."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from enum import StrEnum
from pathlib import Path

from afterturn.errors import InvalidInput

from .source import GZIP_MAGIC, ImportFile

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
