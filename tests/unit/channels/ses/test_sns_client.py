"""What is fetched from SNS: from SNS alone, soon or not at all, and no more than there can be."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import pytest
from tests.unit.channels.sending.rig import (
    LOST,
    PATIENT,
    Call,
    Fault,
    Provider,
    ProviderAnswer,
    clock,
    patience,
    serving,
)
from tests.unit.channels.sns_rig import envelope, posted

from afterturn.channels.http_client import HttpTimeouts, open_http
from afterturn.channels.sending import Reason, SendFailed, TryLater, Undeliverable
from afterturn.channels.ses.sns import MAX_CERTIFICATE_BYTES, TIMEOUTS, SigningCertificates, SnsClient
from afterturn.channels.ses.webhook import parse
from afterturn.channels.types import Rejected, SubscriptionEvent

HOST = "https://sns.eu-west-1.amazonaws.com"
CERTIFICATE = f"{HOST}/SimpleNotificationService-12345abcde.pem"
CONFIRM = (
    f"{HOST}/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:eu-west-1:111111111111:mail&Token=2336412f37very-secret"
)


class Sns(Provider):
    """https://docs.aws.amazon.com/sns/latest/api/API_ConfirmSubscription.html."""

    def __init__(self) -> None:
        super().__init__()
        self.confirmed: list[str] = []

    def answer(self, call: Call) -> ProviderAnswer:
        assert call.headers["host"] == HOST.removeprefix("https://")
        if call.method == "GET" and call.path == CERTIFICATE.removeprefix(HOST) and not call.query:
            return ProviderAnswer(200, b"-----BEGIN CERTIFICATE-----", {"content-type": "application/x-x509-ca-cert"})
        if call.method == "GET" and call.path == "/" and call.query.get("Action") == "ConfirmSubscription":
            self.confirmed.append(call.query["Token"])
            arn = call.query["TopicArn"] + ":0d0e-11"
            result = f"<ConfirmSubscriptionResult><SubscriptionArn>{arn}</SubscriptionArn></ConfirmSubscriptionResult>"
            return ProviderAnswer(200, f"<ConfirmSubscriptionResponse>{result}</ConfirmSubscriptionResponse>".encode())
        return ProviderAnswer(403, b"<ErrorResponse><Error><Code>AuthorizationError</Code></Error></ErrorResponse>")


class RedirectingTransport(httpx.AsyncHTTPTransport):
    """Takes the place of the name service: whatever host is meant, this server is called."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.here = httpx.URL(url)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_with(scheme="http", host=self.here.host, port=self.here.port)
        sent = httpx.Request(request.method, url, headers=request.headers, extensions=request.extensions)
        return await super().handle_async_request(sent)


@pytest.fixture
async def sns() -> AsyncIterator[Sns]:
    provider = Sns()
    async with serving(provider):
        yield provider


@asynccontextmanager
async def fetching(sns: Sns, limits: HttpTimeouts = PATIENT) -> AsyncIterator[SnsClient]:
    async with open_http(limits, RedirectingTransport(sns.url)) as http:
        yield SnsClient(http, clock)


async def test_a_certificate_is_fetched_and_a_subscription_confirmed(sns: Sns) -> None:
    async with fetching(sns) as fetcher:
        assert await fetcher.certificate(CERTIFICATE) == b"-----BEGIN CERTIFICATE-----"
        await fetcher.confirm(CONFIRM)
    assert sns.confirmed == ["2336412f37very-secret"]


@pytest.mark.parametrize(
    "url",
    [
        "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-12345abcde.pem",
        "https://sns.eu-west-1.amazonaws.com.evil.example/x.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.example/x.pem",
        "https://sns.eu-west-1.amazonaws.com:8443/x.pem",
        "https://evil.example/?sns.eu-west-1.amazonaws.com/x.pem",
        "https://sns.eu-west-1.amazonaws.com\\@evil.example/x.pem",
        "https://sns.eu-west-1.amazonaws.com/x.pem\r\nHost: evil.example",
        "https://169.254.169.254/latest/meta-data/",
        "https://s3.eu-west-1.amazonaws.com/bucket/x.pem",
        "file:///etc/passwd",
        "",
    ],
)
async def test_nobody_but_sns_is_called(sns: Sns, url: str) -> None:
    async with fetching(sns) as fetcher:
        for call in (fetcher.certificate, fetcher.confirm):
            with pytest.raises(Undeliverable):
                await call(url)
    assert not sns.calls


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(sns: Sns, status: int) -> None:
    async with fetching(sns) as fetcher:
        for call, url in ((fetcher.certificate, CERTIFICATE), (fetcher.confirm, CONFIRM)):
            sns.next = [ProviderAnswer(status, headers={"location": "http://169.254.169.254/latest/meta-data/"})]
            with pytest.raises(SendFailed):
                await call(url)
    assert len(sns.calls) == 2


async def test_a_certificate_of_any_size_is_not_read_to_its_end(sns: Sns) -> None:
    sns.next = [ProviderAnswer(200, b"x" * (MAX_CERTIFICATE_BYTES + 1))]
    async with fetching(sns) as fetcher:
        with pytest.raises(TryLater):
            await fetcher.certificate(CERTIFICATE)


@pytest.mark.parametrize("fault", LOST)
async def test_what_is_lost_is_asked_for_again_later(sns: Sns, fault: Fault) -> None:
    async with fetching(sns, patience(fault)) as fetcher:
        for call, url in ((fetcher.certificate, CERTIFICATE), (fetcher.confirm, CONFIRM)):
            sns.next = [fault]
            with pytest.raises(TryLater) as later:
                await call(url)
            assert later.value.reason is Reason.UNREACHABLE


@pytest.mark.parametrize(
    ("answer", "kind", "after"),
    [
        (ProviderAnswer(503, headers={"retry-after": "4"}), TryLater, timedelta(seconds=4)),
        (ProviderAnswer(500), TryLater, None),
        (ProviderAnswer(502), TryLater, None),
        (ProviderAnswer(429), TryLater, None),
        (ProviderAnswer(403, b"<Code>AuthorizationError</Code>"), Undeliverable, None),
        (ProviderAnswer(400, b"<Code>InvalidParameter</Code>"), Undeliverable, None),
        (ProviderAnswer(404), Undeliverable, None),
        (ProviderAnswer(200, b"<html>"), TryLater, None),
        (ProviderAnswer(200, b"<SubscriptionArn>pending confirmation</SubscriptionArn>"), TryLater, None),
    ],
)
async def test_a_subscription_counts_as_confirmed_only_where_sns_says_so(
    sns: Sns, answer: ProviderAnswer, kind: type[SendFailed], after: timedelta | None
) -> None:
    sns.next = [answer]
    async with fetching(sns) as fetcher:
        with pytest.raises(kind) as failed:
            await fetcher.confirm(CONFIRM)
    assert getattr(failed.value, "after", None) == after


async def test_a_webhook_whose_certificate_cannot_be_had_is_asked_for_again(sns: Sns) -> None:
    sns.next = [ProviderAnswer(500)]
    async with fetching(sns) as fetcher:
        with pytest.raises(Rejected) as rejected:
            await SigningCertificates(fetcher.certificate).key(CERTIFICATE, clock())
    assert rejected.value.status == 503


async def test_the_token_of_a_subscription_is_in_no_log_and_in_no_error(
    sns: Sns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with fetching(sns) as fetcher:
        await fetcher.confirm(CONFIRM)
        sns.next = [ProviderAnswer(403)]
        with pytest.raises(Undeliverable) as refused:
            await fetcher.confirm(CONFIRM)
    assert "very-secret" not in caplog.text + repr(refused.value)


def test_the_limits_are_shorter_than_the_patience_of_sns() -> None:
    assert TIMEOUTS.connect <= TIMEOUTS.total < 15


async def test_a_subscription_that_somebody_ended_begins_anew_and_that_is_told_loudly(
    sns: Sns, caplog: pytest.LogCaptureFixture
) -> None:
    """Its signature and its topic were looked at at the door."""
    [ended] = parse(posted(envelope(Type="UnsubscribeConfirmation", SubscribeURL=CONFIRM)), now=clock())
    [begun] = parse(posted(envelope(Type="SubscriptionConfirmation", SubscribeURL=CONFIRM)), now=clock())
    assert isinstance(ended, SubscriptionEvent)
    assert isinstance(begun, SubscriptionEvent)
    async with fetching(sns) as fetch:
        await fetch.confirm_subscription(begun)
        assert not caplog.records
        await fetch.confirm_subscription(ended)
    assert sns.confirmed == ["2336412f37very-secret"] * 2
    [told] = caplog.records
    assert (told.levelname, "very-secret" in caplog.text) == ("ERROR", False)
