"""Mail out of S3: whole, bounded, waited for a while, and gone where it is gone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.unit.channels.channels import here, sample
from tests.unit.channels.sending.rig import (
    LOST,
    NOW,
    Call,
    Fault,
    Provider,
    ProviderAnswer,
    clock,
    patience,
    refusing_url,
    serving,
)

from afterturn.aws.session import Access
from afterturn.channels.email.message import MAX_MAIL_BYTES
from afterturn.channels.sending import Reason, TryLater
from afterturn.channels.ses import fetch as s3
from afterturn.channels.ses.fetch import S3MailFetcher, open_s3
from afterturn.channels.ses.webhook import parse_notification
from afterturn.channels.types import FetchRequest, Ignored, InboundMessage, SuppressReason
from afterturn.clock import to_text

BUCKET = "mail-of-homes"
"""Of the server that fails; names in the emulator are everybody's, so that each test has its own."""
RAW = b"From: ada@tenant.example\r\nTo: office@homes.example\r\nMessage-ID: <q1@tenant.example>\r\n\r\nThe tap drips."


def asked(key: str = "in/1", received_at: datetime = NOW, bucket: str = BUCKET, **more: str) -> FetchRequest:
    reference = {"bucket": bucket, "key": key, "received_at": to_text(received_at), "accounts": "office@homes.example"}
    return FetchRequest("s3", reference | more)


def of(access: Access) -> str:
    return f"mail-{access.access_key}"


@asynccontextmanager
async def bucket(access: Access, session: Any, objects: Mapping[str, bytes]) -> AsyncIterator[Any]:
    async with open_s3(access, session) as client:
        await client.create_bucket(Bucket=of(access))
        for key, data in objects.items():
            await client.put_object(Bucket=of(access), Key=key, Body=data)
        yield client


async def test_a_mail_is_fetched_as_it_lay_there(access: Access, session: Any) -> None:
    async with bucket(access, session, {"in/1 ä+b": RAW}) as client:
        mail = await S3MailFetcher(client, clock=clock).fetch(asked("in/1 ä+b", bucket=of(access), spam="FAIL"))
    assert isinstance(mail, InboundMessage)
    assert (mail.provider_id, mail.text, mail.party.account) == (
        "q1@tenant.example",
        "The tap drips.",
        "office@homes.example",
    )
    assert (mail.suppress, mail.at) == (SuppressReason.SPAM, NOW)


@here
async def test_the_mail_that_ses_tells_of_is_found_by_what_it_says(access: Access, session: Any) -> None:
    message = json.loads(sample("ses-sns/inbound-s3.json"))["Message"]
    (told,) = parse_notification(message.replace(bucket_name(message), of(access)), now=NOW)
    assert isinstance(told, FetchRequest)
    async with bucket(access, session, {told.reference["key"]: RAW}) as client:
        mail = await S3MailFetcher(client, clock=clock).fetch(told)
    assert isinstance(mail, InboundMessage)
    assert mail.text == "The tap drips."


def bucket_name(message: str) -> str:
    return str(json.loads(message)["receipt"]["action"]["bucketName"])


async def test_of_a_mail_that_is_too_large_the_beginning_is_kept(
    access: Access, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "MAX_MAIL_BYTES", len(RAW) + 10)
    read: list[int] = []

    def seen(_: FetchRequest, raw: bytes, **__: object) -> Ignored:
        read.append(len(raw))
        return Ignored("seen")

    monkeypatch.setattr(s3, "parse_fetched", seen)
    async with bucket(access, session, {"in/1": RAW + b"x" * 1_000_000}) as client:
        await S3MailFetcher(client, clock=clock).fetch(asked(bucket=of(access)))
    assert read == [len(RAW) + 11]


async def test_a_mail_that_may_still_come_is_waited_for_and_then_is_gone(access: Access, session: Any) -> None:
    async with bucket(access, session, {}) as client:
        fetcher = S3MailFetcher(client, clock=clock)
        with pytest.raises(TryLater) as later:
            await fetcher.fetch(asked(received_at=NOW - timedelta(minutes=4), bucket=of(access)))
        assert later.value.after == timedelta(seconds=30)
        assert await fetcher.fetch(asked(received_at=NOW - timedelta(minutes=6), bucket=of(access))) == Ignored(
            "mail-gone"
        )
        assert await fetcher.fetch(FetchRequest("s3", {"bucket": of(access), "key": "x"})) == Ignored("mail-gone")


async def test_a_bucket_that_is_not_there_is_a_matter_of_configuration(access: Access, session: Any) -> None:
    async with open_s3(access, session) as client:
        with pytest.raises(TryLater) as later:
            await S3MailFetcher(client, clock=clock).fetch(
                asked(received_at=NOW - timedelta(days=1), bucket=of(access))
            )
    assert (later.value.reason, later.value.code) == (Reason.CONFIGURATION, "NoSuchBucket")


async def test_only_named_buckets_are_read_and_mail_of_another_is_kept_for_when_it_is_named(
    access: Access, session: Any
) -> None:
    async with bucket(access, session, {"in/1": RAW}) as client:
        with pytest.raises(TryLater) as later:
            await S3MailFetcher(client, clock=clock, buckets={"other"}).fetch(asked(bucket=of(access)))
        assert (later.value.reason, later.value.code) == (Reason.CONFIGURATION, "foreign-bucket")
        assert isinstance(
            await S3MailFetcher(client, clock=clock, buckets={of(access)}).fetch(asked(bucket=of(access))),
            InboundMessage,
        )


async def test_a_mail_that_ses_has_encrypted_is_not_taken_for_one_that_says_something(
    access: Access, session: Any
) -> None:
    async with bucket(access, session, {}) as client:
        await client.put_object(Bucket=of(access), Key="in/1", Body=b"\x8f\x01", Metadata={"x-amz-key-v2": "AQIDAH"})
        assert await S3MailFetcher(client, clock=clock).fetch(asked(bucket=of(access))) == Ignored("mail-encrypted")


@pytest.mark.parametrize("reference", [{}, {"bucket": BUCKET}, {"key": "in/1"}, {"bucket": "", "key": ""}])
async def test_a_reference_that_names_nothing_is_nothing(reference: dict[str, str]) -> None:
    assert await S3MailFetcher(object(), clock=clock).fetch(FetchRequest("s3", reference)) == Ignored("bad-reference")


class S3(Provider):
    """Answers with the mail; its failures are what it is for."""

    def answer(self, call: Call) -> ProviderAnswer:
        if (call.method, call.path) != ("GET", f"/{BUCKET}/in/1") or "authorization" not in call.headers:
            return failed(403, "AccessDenied")
        return ProviderAnswer(200, RAW)


def failed(status: int, code: str) -> ProviderAnswer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>about ada@tenant.example</Message></Error>"
    return ProviderAnswer(status, body.encode(), {"content-type": "application/xml"})


@asynccontextmanager
async def opened(url: str, session: Any, **given: Any) -> AsyncIterator[S3MailFetcher]:
    way = Access(region="eu-west-1", endpoint=url, access_key="1" * 12, secret_key="test", attempts=1, **given)
    async with open_s3(way, session) as client:
        yield S3MailFetcher(client, clock=clock)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (failed(503, "SlowDown"), Reason.THROTTLED),
        (failed(500, "InternalError"), Reason.UNAVAILABLE),
        (failed(403, "AccessDenied"), Reason.CONFIGURATION),
        (failed(403, "InvalidAccessKeyId"), Reason.CONFIGURATION),
        *((fault, Reason.UNREACHABLE) for fault in LOST),
    ],
)
async def test_a_mail_that_cannot_be_had_now_is_asked_for_again_later_and_never_half(
    session: Any, order: Fault | ProviderAnswer, reason: Reason
) -> None:
    provider = S3()
    async with serving(provider), opened(provider.url, session, read_timeout=patience(order).read) as fetcher:
        provider.next = [order, order]  # the driver asks twice, which a question may be
        with pytest.raises(TryLater) as later:
            await fetcher.fetch(asked())
    assert later.value.reason is reason
    assert "ada@" not in repr(later.value)


async def test_the_next_one_is_had_after_a_failure(session: Any) -> None:
    provider = S3()
    async with serving(provider), opened(provider.url, session) as fetcher:
        provider.next = [Fault.CUT]
        with pytest.raises(TryLater):
            await fetcher.fetch(asked())
        assert isinstance(await fetcher.fetch(asked()), InboundMessage)


async def test_where_s3_cannot_be_reached_it_is_tried_later(session: Any) -> None:
    async with opened(refusing_url(), session) as fetcher:
        with pytest.raises(TryLater) as later:
            await fetcher.fetch(asked())
    assert later.value.reason is Reason.UNREACHABLE


def test_as_much_is_read_as_ses_takes() -> None:
    assert MAX_MAIL_BYTES == 40 * 2**20
