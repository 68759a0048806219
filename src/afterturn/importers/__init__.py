"""Readers of files that hold real conversations. They yield records and never write to a store.

>>> for record in read(Path("backup.jsonl.gz")):      # doctest: +SKIP
...     match record:
...         case ImportedConversation(meta, turns): ...
...         case BadRecord(location, problem): ...

Reading a file again gives the same ids, times and keys, so importing it again adds nothing. A bad record is reported
with its location and the others are imported, also the other messages of its conversation.
Times in the future are bad. Control characters are cleaned as :mod:`afterturn.model` says.

Every reply has the role ``agent``: these files do not say whether a person or a machine wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from afterturn.clock import Clock, system_clock
from afterturn.errors import InvalidInput
from afterturn.ids import check_region

from . import dialogues, jsonl, mbox, sms_xml, telegram_export
from .records import BadRecord, ImportedConversation, ImportOptions
from .source import Format, ImportFile, detect_format, known_formats

__all__ = [
    "BadRecord",
    "Format",
    "ImportOptions",
    "ImportedConversation",
    "Reader",
    "detect_format",
    "read",
]

_Conversations = Callable[[ImportFile, ImportOptions], Iterator[ImportedConversation | BadRecord]]
_READERS: dict[Format, tuple[_Conversations, int]] = {
    Format.AFTERTURN: (jsonl.conversations, 1),
    Format.DIALOGUES: (dialogues.conversations, 1),
    Format.MBOX: (mbox.conversations, 2),
    Format.TELEGRAM: (telegram_export.conversations, 1),
    Format.SMS: (sms_xml.conversations, 1),
}
"""The reader of each format and how often it goes through the file."""


class Reader(Iterator[ImportedConversation | BadRecord]):
    """Yields what a file holds; ``bytes_read`` of ``total_bytes`` tells how far it has come.

    The file is closed at its end, by :meth:`close` and at the end of a ``with`` block.
    """

    def __init__(self, path: Path, format: Format, options: ImportOptions) -> None:
        self.path = path
        self.format = format
        conversations, passes = _READERS[format]
        self._source = ImportFile(path, passes=passes)
        self._found = conversations(self._source, options)

    @property
    def total_bytes(self) -> int:
        """Bytes that will be read; more than the file has where it is gone through twice."""
        return self._source.total_bytes

    @property
    def bytes_read(self) -> int:
        """Bytes read so far; at the end at least about ``total_bytes``, unless the rest could not be read."""
        return min(self._source.bytes_read, self._source.total_bytes)

    def __next__(self) -> ImportedConversation | BadRecord:
        try:
            return next(self._found)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop reading."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read(
    path: Path | str,
    *,
    format: str | None = None,
    own: Collection[str] = (),
    property_id: str | None = None,
    region: str | None = None,
    clock: Clock = system_clock,
) -> Reader:
    """A reader of the file, whose format is detected unless it is named.

    ``own``: addresses, numbers, ids or names that are ours, for mail, Telegram and SMS (each format's module says
    what holds without it). ``property_id``: the property of the conversations where the file names none.
    ``region``: the country (``US``) whose national phone numbers are completed, so that they meet those of webhooks.

    Raises InvalidInput for a region that is none, and for a file that is missing, empty, unreadable or in no known
    format, also while reading.
    """
    path = Path(path)
    if region is not None:
        try:
            check_region(region)
        except ValueError as error:
            raise InvalidInput(f"region {error}") from None
    if format is None:
        chosen = detect_format(path)
    elif format in list(Format):
        chosen = Format(format)
    else:
        raise InvalidInput(f"format {format!r} is not known: {known_formats()}")
    return Reader(path, chosen, ImportOptions(frozenset(own), property_id, clock, region))
