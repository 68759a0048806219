"""Mail through Amazon SES: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html.

The mail is composed here, because only a raw mail can have ``In-Reply-To``. SES replaces its ``Message-ID`` and
``Date``; replies refer to the new id.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from afterturn.aws.errors import code_of, is_foreign
from afterturn.aws.session import Access, open_client
from afterturn.channels.email.compose import compose, mail_addresses, name_and_address, ses_host, single_part
from afterturn.channels.http_client import HttpResponse, failure_of
from afterturn.channels.sending import (
    CONFIGURATION_PAUSE,
    OutboundMessage,
    ProviderErrors,
    Reason,
    SendFailed,
    SendReceipt,
    TryLater,
    Uncertain,
    Undeliverable,
    pause_after,
)
from afterturn.clock import Clock
from afterturn.errors import ConfigError
from afterturn.ids import legal_id

MAX_RAW_BYTES = 10 * 2**20
"""Far below the limit of SES, and far above the size of a text."""
CALL_S = 30.0
QUOTA_PAUSE = timedelta(hours=1)

_ID = re.compile(r"[!-~]{1,200}\Z")
_UNVERIFIED = "not verified"

ERRORS = ProviderErrors(
    temporary={
        **dict.fromkeys(
            ("TooManyRequestsException", "Throttling", "ThrottlingException", "SlowDown"), Reason.THROTTLED
        ),
        "LimitExceededException": Reason.THROTTLED,
        **dict.fromkeys(
            (
                *("AccountSuspendedException", "SendingPausedException", "MailFromDomainNotVerifiedException"),
                *("NotFoundException", "AccessDeniedException", "AccessDenied", "UnrecognizedClientException"),
                *("InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch", "ExpiredToken"),
                *("ExpiredTokenException", "MissingAuthenticationTokenException", "OptInRequired"),
            ),
            Reason.CONFIGURATION,
        ),
    },
)

_NOT_SENT = {
    "ConnectTimeoutError": Reason.UNREACHABLE,
    "ProxyConnectionError": Reason.UNREACHABLE,
    "SSLError": Reason.UNREACHABLE,
    "CredentialRetrievalError": Reason.CONFIGURATION,
    "NoCredentialsError": Reason.CONFIGURATION,
    "NoRegionError": Reason.CONFIGURATION,
    "PartialCredentialsError": Reason.CONFIGURATION,
    "TokenRetrievalError": Reason.CONFIGURATION,
}
"""Errors of the driver that come before the request goes out."""


@asynccontextmanager
async def open_ses(access: Access, session: Any = None) -> AsyncIterator[Any]:
    """A client without retries, which would send a mail twice. Raises MissingExtra, StoreError."""
    async with open_client("sesv2", replace(access, attempts=1), session) as client:
        yield client


class SesSender:
    """``client``: of :func:`open_ses`. ``sender``: the ``From`` of every mail, such as ``Homes <office@example.com>``;
    the mailbox that was written to where it is None. Raises ConfigError for one that holds no address.
    """

    def __init__(self, client: Any, *, clock: Clock, sender: str | None = None) -> None:
        if sender is not None:
            try:
                name_and_address(sender, "ses")
            except Undeliverable:
                raise ConfigError(
                    "AFTERTURN_SES_FROM: holds no mail address; give one, or Name <name@example.com>"
                ) from None
        self._client = client
        self._clock = clock
        self._sender = sender

    def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
        return single_part(message, "ses")

    async def send(self, part: OutboundMessage) -> SendReceipt:
        region = str(self._client.meta.region_name)
        sender = self._sender or part.account
        raw = compose(part, "ses", sender=sender, region=region, now=self._clock())
        if len(raw) > MAX_RAW_BYTES:
            raise Undeliverable("ses", Reason.TOO_LONG)
        answer = await _call(
            self._client.send_email(
                FromEmailAddress=name_and_address(sender, "ses")[1],
                Destination={"ToAddresses": list(mail_addresses(part.recipients, "ses"))},
                Content={"Raw": {"Data": raw}},
            ),
            self._clock,
        )
        mail_id = answer.get("MessageId") if isinstance(answer, dict) else None
        if not isinstance(mail_id, str) or not _ID.match(mail_id):
            raise Uncertain("ses", Reason.RESPONSE_UNREADABLE)
        provider_id = legal_id("", mail_id)
        whole = mail_id if "@" in mail_id else f"{mail_id}@{ses_host(region)}"
        return SendReceipt(provider_id, self._clock(), tuple(dict.fromkeys((provider_id, legal_id("", whole)))))


async def _call(call: Awaitable[Any], clock: Clock) -> Any:
    try:
        async with asyncio.timeout(CALL_S):
            return await call
    except TimeoutError:
        raise Uncertain("ses", Reason.RESPONSE_LOST, "TimeoutError") from None
    except Exception as error:
        if (failure := _failure(error, clock())) is None:
            raise
        raise failure from None


def _failure(error: Exception, now: datetime) -> SendFailed | None:
    """The failure that an error means; None for a bug of ours. SES's texts may hold addresses, so none is used."""
    code = code_of(error)
    if code is None:
        return _driver_failure(error)
    if code == "MessageRejected" and _UNVERIFIED in str(error):  # the sandbox, or a sender not set up
        return TryLater("ses", Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
    answer = _response(error)
    if answer.status == 403:
        return TryLater("ses", Reason.CONFIGURATION, code, after=CONFIGURATION_PAUSE)
    known = ERRORS.error_of("ses", code, after=QUOTA_PAUSE if code == "LimitExceededException" else None)
    return known or failure_of("ses", answer, now) or Undeliverable("ses", Reason.REFUSED, code)


def _driver_failure(error: Exception) -> SendFailed | None:
    kinds = [base.__name__ for base in type(error).__mro__]
    if "ParamValidationError" in kinds or not is_foreign(error):
        return None
    if reason := next((_NOT_SENT[kind] for kind in kinds if kind in _NOT_SENT), None):
        return TryLater("ses", reason, kinds[0], after=pause_after(reason))
    if "EndpointConnectionError" in kinds and not _never_connected(error):
        return Uncertain("ses", Reason.RESPONSE_LOST, "ConnectionReset")
    if "EndpointConnectionError" in kinds:
        return TryLater("ses", Reason.UNREACHABLE, kinds[0])
    return Uncertain("ses", Reason.RESPONSE_LOST, kinds[0])


def _never_connected(error: Exception) -> bool:
    """The driver also says that it found no endpoint where the connection broke after the request."""
    cause = getattr(error, "kwargs", {}).get("error")
    return bool({"ClientConnectorError", "gaierror"} & {base.__name__ for base in type(cause).__mro__})


def _response(error: Exception) -> HttpResponse:
    metadata: Any = getattr(error, "response", {}).get("ResponseMetadata", {})
    headers = {str(name).lower(): str(value) for name, value in metadata.get("HTTPHeaders", {}).items()}
    return HttpResponse(int(metadata.get("HTTPStatusCode", 0)), headers, b"")
