"""Every error that afterturn raises on purpose.

::

    AfterturnError
    ├── InvalidInput          the caller gave something that cannot be taken; nothing was written
    │   ├── InvalidRecord     a field of a turn, a message or a conversation
    │   ├── InvalidEvent      a stream record that is not a turn-settled event
    │   ├── InvalidQuery      an inbox query that asks for what does not exist
    │   └── InvalidCursor     a cursor that was altered, or belongs to another query
    ├── NotFound              no conversation, reaction or dead letter of that id
    ├── Conflict              somebody else changed the record since it was read
    ├── ConfigError           a setting, an app module or a consumer declaration is wrong
    │   └── MissingExtra      an optional part is not installed
    ├── StoreError            the store did not do what was asked; the unit of work was rolled back
    │   ├── StoreBusy         somebody else held the file for longer than the busy timeout
    │   ├── StoreFull         no space left
    │   ├── StoreReadOnly     the file or its folder cannot be written
    │   ├── StoreDamaged      not a SQLite file, truncated or corrupt
    │   ├── StoreForeign      a sound SQLite file that is not afterturn's
    │   ├── StoreTooOld       written by an older afterturn
    │   └── StoreTooNew       written by a newer afterturn
    ├── StreamUnavailable     the stream did not accept or hand out records
    ├── EngineUnavailable     the reaction engine as a whole does not answer
    ├── DeliveryFailed        the receiver did not take a webhook; trying again sends the very same one
    ├── WorkerCrashed            a reaction took its worker down with it, attempt after attempt
    └── LeaseLost             a reaction was taken over by another worker while it ran
"""

from __future__ import annotations

from typing import Any


class AfterturnError(Exception):
    """Base of all errors below."""


class InvalidInput(AfterturnError, ValueError):
    """The caller gave something that cannot be taken; nothing was written."""


class InvalidRecord(InvalidInput):
    """A field of a record is not acceptable.

    ``field`` is a path such as ``messages[2].at``; ``problem`` says what is wrong and what would be right.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class InvalidEvent(InvalidInput):
    """A stream record that is not a turn-settled event; the reason holds no content of the record."""


class InvalidQuery(InvalidInput):
    """An inbox query that asks for what does not exist."""


class InvalidCursor(InvalidInput):
    """A cursor that was altered, cut, or belongs to another query."""


class NotFound(AfterturnError, LookupError):
    """Nothing of that id."""


class Conflict(AfterturnError):
    """Somebody else changed the record since it was read; nothing was written."""


class ConfigError(AfterturnError):
    """A setting, an app module or a consumer declaration is wrong."""


class MissingExtra(ConfigError):
    """An optional part is not installed; the message says what to install."""


class StoreError(AfterturnError):
    """The store did not do what was asked; the unit of work was rolled back."""


class StoreBusy(StoreError):
    """Somebody else held the file for longer than the busy timeout; trying again is safe."""


class StoreFull(StoreError):
    """No space left for the file."""


class StoreReadOnly(StoreError):
    """The file or its folder cannot be written."""


class StoreDamaged(StoreError):
    """Not a SQLite file, truncated, or corrupt."""


class StoreForeign(StoreError):
    """A sound SQLite file that was not made by afterturn."""


class StoreTooOld(StoreError):
    """The file was written by an older afterturn, whose tables this one does not read."""


class StoreTooNew(StoreError):
    """The file was written by a newer afterturn than this one."""


class StreamUnavailable(AfterturnError):
    """The stream did not accept or hand out records."""


class EngineUnavailable(AfterturnError):
    """The reaction engine as a whole does not answer; nothing may be acknowledged."""


class DeliveryFailed(AfterturnError):
    """The receiver did not take a webhook; trying again sends the very same one."""


class WorkerCrashed(AfterturnError):
    """A reaction took its worker down with it, attempt after attempt; it is failed without another try."""


class LeaseLost(AfterturnError):
    """A reaction was taken over by another worker while it ran; its result was not written."""


HTTP_STATUS: tuple[tuple[type[AfterturnError], int, str], ...] = (
    (InvalidCursor, 400, "invalid_cursor"),
    (InvalidRecord, 422, "invalid"),
    (InvalidQuery, 422, "invalid"),
    (InvalidInput, 400, "invalid"),
    (NotFound, 404, "not_found"),
    (Conflict, 412, "stale"),
    (StoreError, 503, "unavailable"),
    (StreamUnavailable, 503, "unavailable"),
    (EngineUnavailable, 503, "unavailable"),
    (AfterturnError, 500, "failed"),
)
"""The HTTP status and the error code of each error, for the API and for webhooks. The first class that fits counts."""


def http_status(error: AfterturnError) -> tuple[int, str]:
    """The HTTP status of an error and its code in the body."""
    return next((status, code) for kind, status, code in HTTP_STATUS if isinstance(error, kind))


def error_body(code: str, message: str, field: str | None = None) -> dict[str, Any]:
    """The JSON body of every error: ``{"error": {"code": "invalid", "message": "…", "field": "…"}}``."""
    detail = {"code": code, "message": message}
    return {"error": detail if field is None else {**detail, "field": field}}
