"""Batch calls, whose answers are read entry by entry: a call that succeeds may have failed for some of its entries."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

from afterturn import telemetry
from afterturn.errors import StreamUnavailable
from afterturn.stream.sqs.client import STALE, SqsClient, queue_name, short_code, translate_errors
from afterturn.stream.sqs.records import size_of

MAX_ENTRIES = 10
_MAX_BYTES = 900_000
"""SQS takes 1 MiB in one call; a single record may be larger than this and then goes alone."""


async def delete(client: SqsClient, url: str, receipts: Sequence[str]) -> None:
    """Delete messages. An expired receipt is ignored; raises StreamUnavailable where others could not be deleted."""
    await _settle(client.delete_message_batch, url, [{"ReceiptHandle": receipt} for receipt in receipts])


async def change_visibility(client: SqsClient, url: str, changes: Sequence[tuple[str, int]]) -> None:
    """Set for how many seconds from now messages stay invisible; errors as with :func:`delete`."""
    entries = [{"ReceiptHandle": receipt, "VisibilityTimeout": seconds} for receipt, seconds in changes]
    await _settle(client.change_message_visibility_batch, url, entries)


async def holds(client: SqsClient, url: str, receipt: str, seconds: int) -> bool:
    """Whether a receipt is still good; if so, it is for so many seconds more. Raises StreamUnavailable."""
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
    """What SQS failed at by itself is tried once more."""
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
        answer = await call(
            QueueUrl=url, Entries=[{"Id": str(number), **entry} for number, entry in enumerate(entries)]
        )
    failed = {int(one["Id"]): short_code(one.get("Code", "")) for one in answer.get("Failed") or ()}
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
