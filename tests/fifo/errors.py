"""Refusals in the shape of botocore's ``ClientError``, without botocore."""

from __future__ import annotations

from typing import Any

_PREFIXED = frozenset(
    {
        "BatchEntryIdsNotDistinct",
        "BatchRequestTooLong",
        "EmptyBatchRequest",
        "InvalidBatchEntryId",
        "NonExistentQueue",
        "TooManyEntriesInBatchRequest",
    }
)


class FifoError(Exception):
    """A call that was refused. ``response`` holds ``Error.Code`` and ``Error.Message``, as ``ClientError`` does."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        super().__init__(f"An error occurred ({code}): {message}")
        full = f"AWS.SimpleQueueService.{code}" if code in _PREFIXED else code
        self.code = code
        self.message = message
        self.response: dict[str, Any] = {
            "Error": {"Code": full, "Message": message, "Type": "Sender" if status < 500 else "Receiver"},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


def throttled() -> FifoError:
    """What a queue says that is asked too often."""
    return FifoError("RequestThrottled", "The request was denied due to request throttling.")


def unreachable() -> OSError:
    """What a caller sees of a service that cannot be reached, or whose answer is lost."""
    return ConnectionError("the connection was closed before an answer came")


def invalid_parameter(name: str, value: object, reason: str) -> FifoError:
    """A parameter whose value SQS does not take."""
    return FifoError("InvalidParameterValue", f"Value {value} for parameter {name} is invalid. Reason: {reason}")
