"""botocore's errors, translated into ours, and the pauses before a call is repeated.

A message names the table and the operation, says what to do, and holds nothing of the request: AWS puts values of the
request into some of its messages. The cause is kept.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from afterturn.errors import StoreBusy, StoreError, StoreForeign, StoreFull, StoreReadOnly

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class FailureKind(Enum):
    """What may be done about an error.

    ``throttled``: nothing was done, and the same call may succeed. ``unknown_outcome``: the call may have been carried
    out. ``conflict``: nothing was done, because somebody else was at the same items. ``final``: no use in trying again.
    """

    THROTTLED = "throttled"
    UNKNOWN_OUTCOME = "unknown_outcome"
    CONFLICT = "conflict"
    FINAL = "final"


_THROTTLES = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_CONFLICTS = frozenset(
    {"ReplicatedWriteConflictException", "TransactionConflict", "TransactionConflictException", "DuplicateItem"}
)
_CONDITIONS = frozenset({"ConditionalCheckFailed", "ConditionalCheckFailedException"})
_UNKNOWN_OUTCOMES = frozenset(
    {
        "InternalFailure",
        "InternalServerError",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "TransactionInProgressException",
    }
)
_LOST_ANSWERS = frozenset(
    {"ConnectionClosedError", "IncompleteReadError", "ReadTimeoutError", "ResponseStreamingError"}
)

_CREDENTIALS = "check AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of this runtime"
_BY_CODE: dict[str, tuple[type[StoreError], str]] = {
    "AccessDenied": (StoreReadOnly, "is not allowed to these credentials; extend their policy by this operation"),
    "AccessDeniedException": (StoreReadOnly, "is not allowed to these credentials; extend their policy"),
    "ExpiredToken": (StoreError, f"was refused: the credentials have expired; {_CREDENTIALS}"),
    "ExpiredTokenException": (StoreError, f"was refused: the credentials have expired; {_CREDENTIALS}"),
    "IncompleteSignatureException": (StoreError, f"was refused: the signature is not complete; {_CREDENTIALS}"),
    "InvalidClientTokenId": (StoreError, f"was refused: AWS does not know these credentials; {_CREDENTIALS}"),
    "InvalidSignatureException": (
        StoreError,
        f"was refused: the signature is wrong; {_CREDENTIALS}, and the clock of this machine",
    ),
    "MissingAuthenticationTokenException": (StoreError, f"was refused: there are no credentials; {_CREDENTIALS}"),
    "NotAuthorized": (StoreReadOnly, "is not allowed to these credentials; extend their policy by this operation"),
    "OptInRequired": (StoreError, "was refused: the account has not opted in to this region"),
    "UnrecognizedClientException": (StoreError, f"was refused: AWS does not know these credentials; {_CREDENTIALS}"),
    "ResourceNotFoundException": (
        StoreForeign,
        "found no such table, or no such index on it; check the name, the region and the account, or create it with "
        "`afterturn aws provision`",
    ),
    "TableNotFoundException": (StoreForeign, "found no such table; create it with `afterturn aws provision`"),
    "IndexNotFoundException": (StoreForeign, "found no such index; add it with `afterturn aws index add`"),
    "ResourceInUseException": (StoreBusy, "has to wait: the table is being changed; try again in a while"),
    "TableInUseException": (StoreBusy, "has to wait: the table is being changed; try again in a while"),
    "ItemCollectionSizeLimitExceeded": (StoreFull, "failed: an item collection has reached 10 GB"),
    "ItemCollectionSizeLimitExceededException": (StoreFull, "failed: an item collection has reached 10 GB"),
    "IdempotentParameterMismatchException": (StoreError, "used a request token twice; this is a fault of afterturn"),
    "ValidationError": (StoreError, "was refused as not valid; this is a fault of afterturn, or the item is too large"),
    "ValidationException": (
        StoreError,
        "was refused as not valid: the item is too large, or the table is not ours, or it is a fault of afterturn",
    ),
    "SerializationException": (StoreError, "was refused as malformed; this is a fault of afterturn"),
}
_BY_KIND: dict[str, tuple[type[StoreError], str]] = {
    "NoCredentialsError": (StoreError, f"found no AWS credentials; {_CREDENTIALS}"),
    "PartialCredentialsError": (StoreError, f"found half of the AWS credentials; {_CREDENTIALS}"),
    "CredentialRetrievalError": (StoreError, f"could not get AWS credentials; {_CREDENTIALS}"),
    "ProfileNotFound": (StoreError, "found no AWS profile of that name; check AWS_PROFILE"),
    "NoRegionError": (StoreError, "does not know the AWS region; set AFTERTURN_AWS_REGION or AWS_REGION"),
    "InvalidRegionError": (StoreError, "was given an AWS region that is none; check AWS_REGION"),
    "EndpointConnectionError": (
        StoreError,
        "could not reach its endpoint; check the network, the region and the endpoint (is the emulator running?)",
    ),
    "ConnectTimeoutError": (StoreError, "could not reach its endpoint in time; check the network and the endpoint"),
    "ProxyConnectionError": (StoreError, "could not reach the proxy; check HTTPS_PROXY"),
    "SSLError": (StoreError, "could not make a trusted connection; check certificates and AWS_CA_BUNDLE"),
    "ReadTimeoutError": (StoreBusy, "got no answer in time; trying again is safe"),
    "ConnectionClosedError": (StoreBusy, "lost its connection; trying again is safe"),
    "ParamValidationError": (
        StoreError,
        "was not sent: a parameter is of the wrong kind; this is a fault of afterturn",
    ),
}


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise a StoreError that says where in place of any error of the driver or the network; the cause is kept."""
    try:
        yield
    except Exception as error:
        if not is_foreign(error):
            raise
        raise translate(error, where) from error


async def if_exists(call: Awaitable[T], *codes: str) -> T | None:
    """The answer of a call; None if AWS refuses it with one of ``codes`` (default: ResourceNotFoundException)."""
    try:
        return await call
    except Exception as error:
        if code_of(error) in (codes or ("ResourceNotFoundException",)):
            return None
        raise


def is_foreign(error: Exception) -> bool:
    """Whether an error is one of the driver or of the network."""
    return isinstance(error, OSError) or any(
        kind.__module__ in ("botocore.exceptions", "aiobotocore.exceptions") for kind in type(error).__mro__
    )


def translate(error: Exception, where: str) -> StoreError:
    """The StoreError for an error of the driver or the network."""
    code = code_of(error)
    if code in _THROTTLES:
        return StoreBusy(f"{where} is throttled by AWS ({code}); trying again later is safe")
    if code in _CONFLICTS or code in _CONDITIONS:
        return StoreBusy(f"{where} met other writers at the same items ({code}); trying again is safe")
    if code in _UNKNOWN_OUTCOMES:
        return StoreBusy(f"{where} failed inside AWS ({code}); trying again is safe")
    if code in _BY_CODE:
        kind, problem = _BY_CODE[code]
        return kind(f"{where} {problem}")
    for base in type(error).__mro__:
        if base.__name__ in _BY_KIND:
            kind, problem = _BY_KIND[base.__name__]
            return kind(f"{where} {problem}")
    return StoreError(f"{where} failed: {code or type(error).__name__}")


def failure_kind(error: Exception) -> FailureKind:
    """What may be done about an error of the driver or the network."""
    code = code_of(error)
    if code in _THROTTLES:
        return FailureKind.THROTTLED
    if code in _CONFLICTS or code in _CONDITIONS:
        return FailureKind.CONFLICT
    if code in _UNKNOWN_OUTCOMES or any(base.__name__ in _LOST_ANSWERS for base in type(error).__mro__):
        return FailureKind.UNKNOWN_OUTCOME
    return FailureKind.FINAL


def is_condition(error: Exception) -> bool:
    """Whether a condition did not hold, rather than two writers having met."""
    return code_of(error) in _CONDITIONS


def code_of(error: Exception) -> str | None:
    """AWS's word for an error. A cancelled transaction has one for each item: here, the one that decides."""
    answer: Any = getattr(error, "response", None)
    code = answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None
    if code != "TransactionCanceledException":
        return code if isinstance(code, str) else None
    reasons = {reason.get("Code") for reason in answer.get("CancellationReasons", [])} - {None, "None"}
    for decisive in (reasons - _THROTTLES - _CONFLICTS - _CONDITIONS, reasons & _CONDITIONS, reasons & _CONFLICTS):
        if decisive:
            return str(min(decisive))
    return str(min(reasons)) if reasons else "TransactionConflict"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Full jitter: anything up to a bound that doubles from ``base`` to ``cap`` seconds; ``tries`` in all.

    Source: https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
    """

    base: float = 0.02
    cap: float = 1.0
    tries: int = 10
    chance: random.Random = field(default_factory=random.Random)
    sleep: Sleep = asyncio.sleep

    def bound(self, attempt: int) -> float:
        """The longest wait after the ``attempt``-th failure, counted from 0."""
        return float(min(self.cap, self.base * 2 ** min(attempt, 30)))

    async def pause(self, attempt: int) -> None:
        await self.sleep(self.chance.uniform(0, self.bound(attempt)))
