"""No error of the driver, of AWS or of the network leaves as itself, and each says what to do."""

from __future__ import annotations

import inspect
from typing import Any

import botocore.exceptions
import botocore.session
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from afterturn.aws.errors import FailureKind, code_of, failure_kind, translate, translated
from afterturn.errors import AfterturnError, StoreBusy, StoreError, StoreForeign, StoreFull, StoreReadOnly

DRIVER_ERRORS = [
    kind
    for _, kind in inspect.getmembers(botocore.exceptions, inspect.isclass)
    if issubclass(kind, Exception) and not issubclass(kind, Warning) and kind.__module__ == "botocore.exceptions"
]
MODEL = botocore.session.get_session().get_service_model("dynamodb")
CODES = [
    *(shape.name for shape in MODEL.error_shapes),
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InternalFailure",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "SerializationException",
    "ServiceUnavailable",
    "SomethingNew",
    "UnrecognizedClientException",
    "ValidationException",
]


def client_error(code: str, *reasons: str) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "a secret text"}}
    if reasons:
        answer["CancellationReasons"] = [{"Code": reason} for reason in reasons]
    return ClientError(answer, "TransactWriteItems")


def bare(kind: type[Exception]) -> Exception:
    """One of its kind, whatever its constructor asks for."""
    return kind.__new__(kind)


@pytest.mark.parametrize("kind", DRIVER_ERRORS, ids=lambda kind: kind.__name__)
def test_no_error_of_the_driver_is_unmapped(kind: type[Exception]) -> None:
    error = bare(kind)
    with pytest.raises(StoreError, match="settle on table t") as found, translated("settle on table t"):
        raise error
    assert found.value.__cause__ is error
    assert isinstance(failure_kind(error), FailureKind)


@pytest.mark.parametrize("code", CODES)
def test_no_word_of_aws_is_unmapped(code: str) -> None:
    """And no value of the request, which AWS may quote, gets into the message."""
    with pytest.raises(StoreError) as found, translated("settle on table t"):
        raise client_error(code)
    assert str(found.value).startswith("settle on table t ")
    assert "secret" not in str(found.value)
    assert isinstance(found.value.__cause__, ClientError)


@pytest.mark.parametrize("error", [ConnectionResetError("x"), TimeoutError("x"), OSError("x")])
def test_errors_of_the_network_are_translated(error: OSError) -> None:
    with pytest.raises(StoreError) as found, translated("t"):
        raise error
    assert found.value.__cause__ is error


@pytest.mark.parametrize("error", [ValueError("ours"), StoreFull("ours"), KeyError("ours")])
def test_our_own_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as found, translated("t"):
        raise error
    assert found.value is error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (client_error("ResourceNotFoundException"), StoreForeign, "afterturn aws provision"),
        (client_error("AccessDeniedException"), StoreReadOnly, "policy"),
        (client_error("UnrecognizedClientException"), StoreError, "AWS_PROFILE"),
        (client_error("ExpiredTokenException"), StoreError, "expired"),
        (client_error("ProvisionedThroughputExceededException"), StoreBusy, "throttled"),
        (client_error("ItemCollectionSizeLimitExceededException"), StoreFull, "10 GB"),
        (bare(botocore.exceptions.NoCredentialsError), StoreError, "AWS_ACCESS_KEY_ID"),
        (bare(botocore.exceptions.NoRegionError), StoreError, "AWS_REGION"),
        (bare(botocore.exceptions.ProfileNotFound), StoreError, "AWS_PROFILE"),
        (bare(botocore.exceptions.EndpointConnectionError), StoreError, "emulator"),
        (bare(botocore.exceptions.ReadTimeoutError), StoreBusy, "again"),
    ],
)
def test_a_message_says_what_to_do(error: Exception, kind: type[AfterturnError], words: str) -> None:
    assert type(translate(error, "t")) is kind
    assert words in str(translate(error, "t"))


@pytest.mark.parametrize(
    ("reasons", "code", "found"),
    [
        (("None", "ConditionalCheckFailed"), "ConditionalCheckFailed", FailureKind.CONFLICT),
        (("TransactionConflict", "None"), "TransactionConflict", FailureKind.CONFLICT),
        (("ThrottlingError", "None"), "ThrottlingError", FailureKind.THROTTLED),
        (("ProvisionedThroughputExceeded",), "ProvisionedThroughputExceeded", FailureKind.THROTTLED),
        (("ThrottlingError", "TransactionConflict"), "TransactionConflict", FailureKind.CONFLICT),
        (("TransactionConflict", "ConditionalCheckFailed"), "ConditionalCheckFailed", FailureKind.CONFLICT),
        (("ConditionalCheckFailed", "ValidationError"), "ValidationError", FailureKind.FINAL),
        (("ThrottlingError", "ItemCollectionSizeLimitExceeded"), "ItemCollectionSizeLimitExceeded", FailureKind.FINAL),
        (("None",), "TransactionConflict", FailureKind.CONFLICT),
    ],
)
def test_the_gravest_reason_of_a_cancelled_transaction_decides(
    reasons: tuple[str, ...], code: str, found: FailureKind
) -> None:
    error = client_error("TransactionCanceledException", *reasons)
    assert (code_of(error), failure_kind(error)) == (code, found)


def test_an_answer_that_was_lost_leaves_the_outcome_open() -> None:
    for kind in (botocore.exceptions.ReadTimeoutError, botocore.exceptions.ConnectionClosedError):
        assert failure_kind(bare(kind)) is FailureKind.UNKNOWN_OUTCOME
    assert failure_kind(client_error("InternalServerError")) is FailureKind.UNKNOWN_OUTCOME
    assert failure_kind(client_error("TransactionInProgressException")) is FailureKind.UNKNOWN_OUTCOME
    assert issubclass(botocore.exceptions.ReadTimeoutError, BotoCoreError)
