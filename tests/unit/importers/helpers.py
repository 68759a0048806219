"""What the tests of the readers share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from afterturn.importers import BadRecord, ImportedConversation, read

SAMPLES = Path(__file__).parent / "samples"
SHARED_DATA = Path(__file__).parents[3].parent / "shared" / "data"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def read_all(
    path: Path, *, format: str | None = None, own: tuple[str, ...] = ()
) -> tuple[list[ImportedConversation], list[BadRecord]]:
    """Everything in the file, as seen on :data:`NOW`."""
    found: list[ImportedConversation] = []
    bad: list[BadRecord] = []
    for item in read(path, format=format, own=own, clock=lambda: NOW):
        if isinstance(item, BadRecord):
            bad.append(item)
        else:
            found.append(item)
    return found, bad


def texts(conversation: ImportedConversation) -> list[str]:
    return [message.text for message in conversation.messages]
