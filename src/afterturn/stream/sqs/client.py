"""What the stream asks of an SQS client, and what it makes of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from afterturn.aws.errors import code_of, is_foreign
from afterturn.errors import StreamUnavailable
from afterturn.stream.port import Queue


@dataclass(frozen=True, slots=True)
class ClientTimeouts:
    """How long a client waits, in seconds, and how often its driver tries."""

    connect_timeout: float
    read_timeout: float
    attempts: int


PUBLISHING = ClientTimeouts(connect_timeout=1, read_timeout=2, attempts=1)
"""For the emitter, whose caller waits. Trying again once is the settler's decision."""

READING = ClientTimeouts(connect_timeout=3, read_timeout=30, attempts=3)
"""For the bridge: a long poll takes up to 20 seconds."""


class SqsClient(Protocol):
    """The calls of aiobotocore's SQS client that are made. ``testing.fifo.FifoService`` answers them, too."""

    async def send_message(self, **given: Any) -> Any: ...
    async def send_message_batch(self, **given: Any) -> Any: ...
    async def receive_message(self, **given: Any) -> Any: ...
    async def delete_message_batch(self, **given: Any) -> Any: ...
    async def change_message_visibility_batch(self, **given: Any) -> Any: ...
    async def get_queue_attributes(self, **given: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class QueueUrls:
    """The two queues, and the queue for the dead letters of each: four FIFO queues of one lane."""

    main: str
    retry: str
    main_dead: str
    retry_dead: str

    def live(self, queue: Queue) -> str:
        return self.main if queue is Queue.MAIN else self.retry

    def dead(self, queue: Queue) -> str:
        return self.main_dead if queue is Queue.MAIN else self.retry_dead


STALE = frozenset({"InvalidParameterValue", "MessageNotInflight", "ReceiptHandleIsInvalid"})
"""What SQS says of a receipt that is no longer good, and of a visibility beyond the twelve hours of a receive."""

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
    """Raise StreamUnavailable that names the queue in place of any error of driver or network; the cause is kept.

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
