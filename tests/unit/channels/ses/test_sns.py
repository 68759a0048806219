"""Who signed an envelope: SNS itself, for a topic of ours, in these minutes."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.unit.channels.channels import NOW, request
from tests.unit.channels.sns_rig import (
    OTHER_KEY,
    TOPIC,
    URL,
    SnsServer,
    certificate,
    check,
    posted,
    refusal,
    signed,
)

from afterturn.channels.ses.sns import MAX_BODY_BYTES, MAX_CERTIFICATES, SigningCertificates, verify
from afterturn.channels.ses.webhook import parse
from afterturn.channels.types import Rejected
from afterturn.errors import MissingExtra


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "Amazon SES Email Receipt Notification", "Grüße\nund mehr"])
async def test_what_sns_signed_is_let_in(version: str, subject: str | None) -> None:
    await check(posted(signed(version, Subject=subject, Message="Grüße 😀")))


async def test_a_subscription_is_signed_in_its_own_way() -> None:
    extra: dict[str, Any] = {
        "Token": "t",
        "SubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&a=b",
    }
    for kind in ("SubscriptionConfirmation", "UnsubscribeConfirmation"):
        await check(posted(signed(Type=kind, **extra)))
        changed = {**signed(Type=kind, **extra), "SubscribeURL": "https://evil.example/"}
        assert (await refusal(posted(changed))).reason == "the signature is wrong"


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: {**fields, "Message": '{"notificationType": "Received"}'},
        lambda fields: {**fields, "MessageId": "other"},
        lambda fields: {**fields, "Subject": "added"},
        lambda fields: {**fields, "Timestamp": "2026-06-01T12:00:01.000Z"},
        lambda fields: {**fields, "SignatureVersion": "1"},
        lambda fields: {**fields, "SignatureVersion": "3"},
        lambda fields: {**fields, "SignatureVersion": None},
        lambda fields: {**fields, "Signature": "EXAMPLE_SIGNATURE=="},
        lambda fields: {**fields, "Signature": ""},
        lambda fields: {**fields, "Signature": "é"},
        lambda fields: {**fields, "Signature": 7},
        lambda fields: {name: value for name, value in fields.items() if name != "Signature"},
        lambda fields: {**fields, "Signature": base64.b64encode(b"x" * 256).decode()},
        lambda fields: {**fields, "TopicArn": TOPIC + "2"},
        lambda fields: {**fields, "TopicArn": None},
        lambda fields: {**fields, "SigningCertURL": None},
        lambda _: signed(key=OTHER_KEY),
        lambda _: signed(TopicArn="arn:aws:sns:us-east-1:999999999999:SES_Inbound"),
    ],
)
async def test_what_sns_did_not_sign_for_us_is_refused(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    assert (await refusal(posted(change(signed())))).status == 401


@pytest.mark.parametrize(
    "url",
    [
        "http://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem",
        "https://sns.us-east-1.amazonaws.com.evil.example/SimpleNotificationService-1.pem",
        "https://evil.example/SimpleNotificationService-1.pem",
        "https://sns.us-east-1.amazonaws.com@evil.example/SimpleNotificationService-1.pem",
        "https://evil.example/?https://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem",
        "https://sns.us-east-1.amazonaws.com:8443/SimpleNotificationService-1.pem",
        "https://bucket.s3.amazonaws.com/SimpleNotificationService-1.pem",
        "https://sns.us-east-1.amazonaws.com/?Action=x&SimpleNotificationService-1.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem\n",
        "https://sns.us-east-1.amazonaws.cn/SimpleNotificationService-1.pem",
        "file:///etc/SimpleNotificationService-1.pem",
        "",
    ],
)
async def test_a_certificate_from_elsewhere_is_not_even_fetched(url: str) -> None:
    served = SnsServer(certificate())
    assert (await refusal(posted(signed(SigningCertURL=url)), served)).status == 401
    assert served.asked == []


@pytest.mark.parametrize("host", ["sns.eu-central-1.amazonaws.com", "sns.cn-north-1.amazonaws.com.cn"])
async def test_certificates_of_every_region_count(host: str) -> None:
    await check(posted(signed(SigningCertURL=f"https://{host}/SimpleNotificationService-0a.pem")))


async def test_a_stranger_makes_us_fetch_nothing() -> None:
    served = SnsServer(certificate())
    await refusal(posted(signed(TopicArn="arn:aws:sns:us-east-1:9:x")), served)
    await refusal(posted({**signed(), "Signature": ""}), served)
    await refusal(posted(signed(Timestamp="2020-01-01T00:00:00.000Z")), served)
    assert served.asked == []


@pytest.mark.parametrize("age", [timedelta(hours=2), timedelta(days=400), timedelta(minutes=-30)])
async def test_what_was_signed_long_ago_or_will_be_is_refused(age: timedelta) -> None:
    sent = posted(signed())
    await check(sent, now=NOW + timedelta(minutes=59))
    assert (
        await refusal(sent, SnsServer(certificate(begins=NOW - age * 2, ends=NOW + abs(age) * 2)), NOW + age)
    ).status == 401


@pytest.mark.parametrize("timestamp", ["", "yesterday", None, 5])
async def test_a_notification_without_a_time_is_refused(timestamp: object) -> None:
    assert (await refusal(posted({**signed(), "Timestamp": timestamp}))).status == 401


async def test_a_certificate_is_fetched_once_and_again_when_it_has_expired() -> None:
    served = SnsServer(certificate(), certificate(ends=NOW + timedelta(days=9)))
    certificates = SigningCertificates(served)
    for _ in range(3):
        await verify(posted(signed()), topics={TOPIC}, certificates=certificates, now=NOW)
    assert served.asked == [URL]
    later = NOW + timedelta(days=2)
    fresh = posted(signed(Timestamp=later.strftime("%Y-%m-%dT%H:%M:%S.000Z")))
    await verify(fresh, topics={TOPIC}, certificates=certificates, now=later)
    assert served.asked == [URL, URL]


async def test_certificates_without_end_are_not_all_kept() -> None:
    served = SnsServer(certificate())
    certificates = SigningCertificates(served)
    for number in range(MAX_CERTIFICATES + 5):
        await certificates.key(URL.replace("12345abcde", f"{number:x}"), NOW)
    await certificates.key(URL.replace("12345abcde", "0"), NOW)
    assert len(served.asked) == MAX_CERTIFICATES + 6


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (certificate(ends=NOW - timedelta(hours=1)), 401),
        (certificate(begins=NOW + timedelta(hours=1)), 401),
        (certificate(ec.generate_private_key(ec.SECP256R1())), 401),
        (certificate(OTHER_KEY), 401),
        (OSError("no network"), 503),
        (TimeoutError(), 503),
        (b"<html>busy</html>", 503),
        (b"", 503),
    ],
)
async def test_only_a_certificate_that_is_valid_now_counts_and_none_is_no_verdict(
    answer: bytes | Exception, status: int
) -> None:
    """503 where it may be had later: SNS then sends again, as it does for no 4xx."""
    assert (await refusal(posted(signed()), SnsServer(answer))).status == status


async def test_a_failed_fetch_is_not_remembered() -> None:
    certificates = SigningCertificates(SnsServer(OSError("no network"), certificate()))
    with pytest.raises(Rejected):
        await verify(posted(signed()), topics={TOPIC}, certificates=certificates, now=NOW)
    await verify(posted(signed()), topics={TOPIC}, certificates=certificates, now=NOW)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"not json", 400),
        (b"[]", 400),
        (b"[" * 100_000, 400),
        (b'{"a": ' + b"1" * 5_000 + b"}", 400),
        (b"\xff", 400),
        (b"{}", 400),
        (b'{"Type": "Other"}', 400),
        (b'{"Type": {}}', 400),
        (b" " * (MAX_BODY_BYTES + 1), 413),
    ],
)
async def test_what_is_no_envelope_is_refused(body: bytes, status: int) -> None:
    assert (await refusal(request(body))).status == status
    with pytest.raises(Rejected) as refused:
        parse(request(body), now=NOW)
    assert refused.value.status == status


async def test_raw_delivery_is_refused_with_the_way_out() -> None:
    refused = await refusal(posted(signed(), **{"x-amz-sns-rawdelivery": "true"}))
    assert refused.status == 401
    assert "turn it off" in refused.reason


async def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtra, match=r"pip install 'afterturn\[channels\]'"):
        await check(posted(signed()))
