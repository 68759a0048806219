"""The SQS client that the stream uses: its calls, its errors, and batch calls.

A batch call that succeeds may have failed for some of its entries, so each entry of a response is read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from afterturn import telemetry
from afterturn.aws.errors import code_of, is_foreign
from afterturn.errors import StreamUnavailable
from afterturn.stream.port import Queue
from afterturn.stream.sqs.records import size_of


class SqsClient(Protocol):
    """The calls of aiobotocore's SQS client that the stream makes."""

    async def send_message(self, **params: Any) -> Any: ...
    async def send_message_batch(self, **params: Any) -> Any: ...
    async def receive_message(self, **params: Any) -> Any: ...
    async def delete_message_batch(self, **params: Any) -> Any: ...
    async def change_message_visibility_batch(self, **params: Any) -> Any: ...
    async def get_queue_attributes(self, **params: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class QueueUrls:
    """The two queues of a lane, and the dead letter queue of each: four FIFO queues."""

    main: str
    retry: str
    main_dead: str
    retry_dead: str

    def live(self, queue: Queue) -> str:
        return self.main if queue is Queue.MAIN else self.retry

    def dead(self, queue: Queue) -> str:
        return self.main_dead if queue is Queue.MAIN else self.retry_dead


STALE = frozenset({"InvalidParameterValue", "MessageNotInflight", "ReceiptHandleIsInvalid"})
"""The codes of SQS for an expired receipt, and for a visibility beyond the twelve hours of a receive."""

_CREDENTIALS = "check AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of this runtime"
_BY_CODE = {
    "AccessDenied": "does not let these credentials do that; extend the policy of queue or role",
    "AccessDeniedException": "does not let these credentials do that; extend the policy of queue or role",
    "ExpiredToken": f"refuses the credentials: they have expired; {_CREDENTIALS}",
    "InvalidClientTokenId": f"refuses the credentials: AWS does not know them; {_CREDENTIALS}",
    "InvalidMessageContents": "refuses the record: it holds characters that SQS does not take",
    "InvalidSecurity": f"refuses the signature; {_CREDENTIALS}",
    "NonExistentQueue": "does not exist; check lane, region and account, or create it with `afterturn aws provision`",
    "QueueDoesNotExist": "does not exist; check lane, region and account, or create it with `afterturn aws provision`",
    "RequestThrottled": "is asked too often; trying again later is safe",
    "SignatureDoesNotMatch": f"refuses the signature; {_CREDENTIALS}, and the clock of this machine",
    "UnrecognizedClientException": f"refuses the credentials: AWS does not know them; {_CREDENTIALS}",
}
_BY_KIND = {
    "ConnectTimeoutError": "cannot be reached in time; check the network and the endpoint",
    "EndpointConnectionError": "cannot be reached; check the network, the region and the endpoint",
    "NoCredentialsError": f"needs AWS credentials, and there are none; {_CREDENTIALS}",
    "NoRegionError": "needs an AWS region; set AWS_REGION",
    "OSError": "cannot be reached; check the network, the region and the endpoint",
    "ReadTimeoutError": "gave no answer in time; trying again is safe",
    "TimeoutError": "gave no answer in time; trying again is safe",
}


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Raise StreamUnavailable that names the queue instead of any error of driver or network; the cause is kept.

    SQS puts values of the request into its messages; ours hold none.
    """
    try:
        yield
    except Exception as error:
        if not is_foreign(error) and not isinstance(getattr(error, "response", None), dict):
            raise
        raise StreamUnavailable(f"queue {queue_name(url)} {_problem(error)}") from error


def queue_name(url: str) -> str:
    return url.rpartition("/")[2]


def short_code(code: str) -> str:
    """``NonExistentQueue`` from ``AWS.SimpleQueueService.NonExistentQueue``."""
    return code.rpartition(".")[2].rpartition("#")[2]


def _problem(error: Exception) -> str:
    code = short_code(code_of(error) or "")
    if code in _BY_CODE:
        return f"{_BY_CODE[code]} ({code})"
    for kind in type(error).__mro__:
        if kind.__name__ in _BY_KIND:
            return _BY_KIND[kind.__name__]
    return f"failed: {code or type(error).__name__}"


MAX_ENTRIES = 10
_MAX_BYTES = 900_000
"""SQS takes 1 MiB in one call; a record that is larger than this goes alone."""


async def delete(client: SqsClient, url: str, receipts: Sequence[str]) -> None:
    """Delete messages. An expired receipt is ignored. Raises StreamUnavailable if others could not be deleted."""
    await _settle(client.delete_message_batch, url, [{"ReceiptHandle": receipt} for receipt in receipts])


async def change_visibility(client: SqsClient, url: str, changes: Sequence[tuple[str, int]]) -> None:
    """Set the seconds from now for which messages stay invisible. Errors are those of :func:`delete`."""
    entries = [{"ReceiptHandle": receipt, "VisibilityTimeout": seconds} for receipt, seconds in changes]
    await _settle(client.change_message_visibility_batch, url, entries)


async def holds(client: SqsClient, url: str, receipt: str, seconds: int) -> bool:
    """Whether a receipt is still valid; if so, it stays valid for ``seconds``. Raises StreamUnavailable."""
    entry = {"ReceiptHandle": receipt, "VisibilityTimeout": seconds}
    failed = await _call(client.change_message_visibility_batch, url, [entry])
    if failed and failed[0] not in STALE:
        raise StreamUnavailable(f"queue {queue_name(url)} failed: {failed[0]}")
    return not failed


async def send(client: SqsClient, url: str, messages: Sequence[dict[str, Any]]) -> set[int]:
    """Send messages; returns the positions of those that were accepted."""
    accepted: set[int] = set()
    for chunk in _by_size(messages):
        failed = await _call(client.send_message_batch, url, [messages[position] for position in chunk])
        accepted |= {position for number, position in enumerate(chunk) if number not in failed}
    return accepted


async def _settle(call: Callable[..., Awaitable[Any]], url: str, entries: Sequence[dict[str, Any]]) -> None:
    """Entries that failed for another reason than their receipt are retried once."""
    left: list[dict[str, Any]] = []
    for begin in range(0, len(entries), MAX_ENTRIES):
        chunk = entries[begin : begin + MAX_ENTRIES]
        failed = await _call(call, url, chunk)
        if again := [chunk[number] for number, code in failed.items() if code not in STALE]:
            failed = await _call(call, url, again)
            left += [again[number] for number, code in failed.items() if code not in STALE]
    if left:
        raise StreamUnavailable(f"queue {queue_name(url)} failed at {len(left)} of {len(entries)} records")


async def _call(call: Callable[..., Awaitable[Any]], url: str, entries: Sequence[dict[str, Any]]) -> dict[int, str]:
    """One call of at most ten entries; returns the code of each entry that failed, by its position."""
    with translate_errors(url):
        batch = [{"Id": str(number), **entry} for number, entry in enumerate(entries)]
        response = await call(QueueUrl=url, Entries=batch)
    failed = {int(entry["Id"]): short_code(entry.get("Code", "")) for entry in response.get("Failed") or ()}
    for code in sorted(set(failed.values())):
        level = logging.DEBUG if code in STALE else logging.WARNING
        telemetry.log("sqs_entries_failed", level=level, queue=queue_name(url), error=code)
    return failed


def _by_size(messages: Iterable[dict[str, Any]]) -> Iterator[list[int]]:
    """Positions, in order, in chunks of at most ten messages that fit one call."""
    chunk: list[int] = []
    size = 0
    for position, message in enumerate(messages):
        more = size_of(message)
        if chunk and (len(chunk) == MAX_ENTRIES or size + more > _MAX_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(position)
        size += more
    if chunk:
        yield chunk
