"""Lambda's client, and what is made of its errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from afterturn.aws.errors import code_of, translated
from afterturn.aws.session import Access
from afterturn.errors import ConfigError, StoreBusy, StoreError
from afterturn.operations.account import Account, Whose, open_account

_UPLOAD_S = 300

_BY_CODE: Mapping[str, tuple[type[ConfigError | StoreError], str]] = {
    "CodeStorageExceededException": (StoreError, "failed: the account's space for functions is full; delete versions"),
    "CodeVerificationFailedException": (StoreError, "was refused: the function wants signed code"),
    "InvalidCodeSignatureException": (StoreError, "was refused: the function wants signed code"),
    "PreconditionFailedException": (StoreBusy, "met somebody else who changes it; look, and run it again"),
    "RequestEntityTooLargeException": (StoreError, "was refused as too large; --bucket NAME sends it through S3"),
    "ResourceConflictException": (StoreBusy, "met somebody else who changes it; run it again in a while"),
    "ResourceInUseException": (StoreBusy, "is still being changed; run it again in a while"),
    "ResourceNotFoundException": (StoreError, "is gone: somebody deleted it meanwhile; look, and run it again"),
    "NoSuchBucket": (ConfigError, "failed: there is no such bucket; check --bucket and the region"),
}


@contextmanager
def told(where: str) -> Iterator[None]:
    """Raise an error of ours that says where in place of any of Lambda or the network; the cause is kept.

    Lambda repeats values of the request in some of its messages, and those hold secrets: ours hold none.
    """
    try:
        with translated(where):
            yield
    except StoreError as error:
        cause = error.__cause__
        code = (code_of(cause) if isinstance(cause, Exception) else None) or ""
        if code in _BY_CODE:
            kind, problem = _BY_CODE[code]
            raise kind(f"{where} {problem} ({code})") from cause
        if code in ("InvalidParameterValueException", "ValidationException"):
            raise StoreError(f"{where} was refused as not valid{_about_role(cause)} ({code})") from cause
        raise


def _about_role(cause: BaseException | None) -> str:
    if "role" not in str(cause).lower():
        return ""
    return (
        ": Lambda cannot take on the role; check that it trusts lambda.amazonaws.com, and give a new one some seconds"
    )


@asynccontextmanager
async def open_functions(whose: Whose, *, session: Any = None, access: Access | None = None) -> AsyncIterator[Account]:
    """The account that a lane is in, with clients for a deployment; see :func:`open_account`."""
    given = access or Access(region=whose.region, endpoint=whose.endpoint)
    patient = Access(
        region=given.region,
        endpoint=given.endpoint,
        access_key=given.access_key,
        secret_key=given.secret_key,
        read_timeout=_UPLOAD_S,
    )
    async with open_account(patient, "dynamodb", "sqs", "lambda", "s3", session=session) as account:
        yield account


def functions(account: Account) -> Any:
    """Lambda's client."""
    return account.clients["lambda"]


def function_arn(account: Account, name: str) -> str:
    place = account.place
    return f"arn:{place.partition}:lambda:{place.region}:{place.account}:function:{name}"
