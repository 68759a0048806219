"""Mail through SES: what is in it, and how mail of ours fared."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.channels.channels import NOW, SAMPLES, assert_fits, here, only, request, sample
from tests.unit.channels.mails import mail
from tests.unit.channels.sns_rig import (
    TOPIC,
    envelope,
    posted,
    refusal,
)

from afterturn.channels.ses.fetch import parse_fetched
from afterturn.channels.ses.webhook import parse, parse_notification
from afterturn.channels.types import FetchRequest, Ignored, SubscriptionEvent, SuppressReason


@here
async def test_no_sample_is_let_in_as_its_signature_is_an_example() -> None:
    for path in sorted((SAMPLES / "ses-sns").glob("*.json")):
        assert (await refusal(request(path.read_bytes()))).status in {400, 401}, path.name


def test_a_subscription_is_to_be_confirmed_at_a_host_of_sns() -> None:
    url = "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=a&Token=t"
    found = only(parse(posted(envelope(Type="SubscriptionConfirmation", SubscribeURL=url)), now=NOW))
    assert found == SubscriptionEvent("sns", "confirm", {"url": url, "topic": TOPIC})
    gone = only(parse(posted(envelope(Type="UnsubscribeConfirmation", SubscribeURL=url)), now=NOW))
    assert gone == SubscriptionEvent("sns", "resubscribe", {"url": url, "topic": TOPIC})


@pytest.mark.parametrize(
    "url",
    [
        "http://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&a",
        "https://evil.example/?Action=ConfirmSubscription&a",
        "https://sns.us-east-1.amazonaws.com@evil.example/?Action=ConfirmSubscription&a",
        "https://sns.us-east-1.amazonaws.com/?Action=DeleteTopic&Action=ConfirmSubscription&a",
        "https://169.254.169.254/?Action=ConfirmSubscription&a",
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&a b",
        None,
        5,
    ],
)
def test_no_other_address_is_called_to_confirm(url: object) -> None:
    found = only(parse(posted(envelope(Type="SubscriptionConfirmation", SubscribeURL=url)), now=NOW))
    assert found == Ignored("subscribe-url-not-of-sns")


@here
def test_the_sample_of_a_subscription_asks_to_be_confirmed() -> None:
    found = only(parse(request(sample("ses-sns/subscription-confirmation.json")), now=NOW))
    assert isinstance(found, SubscriptionEvent)
    assert found.action == "confirm"
    assert found.reference["topic"] == "arn:aws:sns:us-west-2:123456789012:SES_Notifications"


@here
def test_the_sample_of_a_mail_within_the_notification_arrives() -> None:
    found = only(parse(request(sample("ses-sns/inbound-sns-utf8.json")), now=NOW))
    assert found.provider_id == "CAEPk3RKsi@mail.example.org"
    assert found.text == "It's a body…"
    assert (found.party.account, found.party.sender) == ("inbound@example.com", "from@example.org")
    assert found.at == datetime(2018, 3, 30, 17, 21, 51, 636_000, tzinfo=UTC)
    assert found.sent_at == datetime(2018, 3, 30, 17, 21, 50, tzinfo=UTC)
    assert found.suppress is None


@here
def test_the_sample_of_a_mail_in_s3_is_asked_for_and_then_arrives() -> None:
    asked = only(parse(request(sample("ses-sns/inbound-s3.json")), now=NOW))
    assert isinstance(asked, FetchRequest)
    assert asked.source == "s3"
    assert asked.reference["bucket"] == "InboundEmailBucket-KeepPrivate"
    assert asked.reference["key"] == "inbound/fqef5sop459utgdf4o9lqbsv7jeo73pejig34301"
    found = parse_fetched(asked, mail(headers={"Message-ID": None}), now=NOW)
    assert_fits(found)
    assert found.provider_id == "fqef5sop459utgdf4o9lqbsv7jeo73pejig34301"
    assert found.party.account == "inbound@example.com"
    assert found.at == datetime(2018, 3, 30, 17, 21, 51, 636_000, tzinfo=UTC)
    assert found.extra["spam"] == "GRAY"
    assert found.extra["raw"].startswith("s3://InboundEmailBucket-KeepPrivate/inbound/")
    assert found.suppress is None


@here
def test_the_sample_of_the_documentation_arrives() -> None:
    found = only(parse_notification(sample("ses-sns/docs-inner-notification-sns-action.json").decode(), now=NOW))
    assert found.provider_id == "61967230-7A45-4A9D-BEC9-87CBCF2211C9@example.com"
    assert found.text == "Example content"
    assert found.party.account == "recipient@example.com"


@here
def test_the_samples_of_a_bounce_and_a_complaint_tell_how_mail_of_ours_fared() -> None:
    bounce = only(parse(request(sample("ses-sns/bounce.json")), now=NOW))
    assert bounce.provider_id == "00000138111222aa-33322211-cccc-cccc-cccc-ddddaaaa0680-000000"
    assert (bounce.state, bounce.error) == ("bounced", "Permanent General 5.1.1")
    assert bounce.at == datetime(2016, 1, 27, 14, 59, 44, 101_000, tzinfo=UTC)
    complaint = only(parse(request(sample("ses-sns/complaint.json")), now=NOW))
    assert complaint.provider_id == "000001378603177f-7a5433e7-8edb-42ae-af10-f0181f34d6ee-000000"
    assert (complaint.state, complaint.error) == ("complained", "abuse")
    assert complaint.rank > bounce.rank


@here
def test_every_sample_has_an_outcome() -> None:
    assert {path.stem for path in (SAMPLES / "ses-sns").glob("*")} == {
        *("bounce", "complaint", "docs-inner-notification-sns-action", "inbound-s3", "inbound-sns-utf8"),
        "subscription-confirmation",
    }


def notification(raw: bytes | None, mail_id: str = "ses-1", **changed: Any) -> str:
    told: dict[str, Any] = {
        "notificationType": "Received",
        "mail": {"messageId": mail_id, "timestamp": "2026-05-31T08:00:00.000Z", "source": "Jo@tenants.example"},
        "receipt": {"recipients": ["Desk@homes.example"], "action": {"type": "SNS", "encoding": "BASE64"}},
        "content": base64.b64encode(raw).decode() if raw is not None else None,
        **changed,
    }
    return json.dumps({name: value for name, value in told.items() if value is not None})


def test_two_mails_without_an_id_are_two_and_a_repeated_delivery_is_none() -> None:
    raw = mail(headers={"Message-ID": None})
    first = only(parse(posted(envelope(Message=notification(raw, "ses-1"))), now=NOW))
    second = only(parse(posted(envelope(Message=notification(raw, "ses-2"))), now=NOW))
    again = envelope(Message=notification(raw, "ses-1"), MessageId="another-delivery")
    assert only(parse(posted(again), now=NOW)).provider_id == first.provider_id
    assert first.provider_id != second.provider_id
    unnamed = only(parse_notification(notification(raw, ""), now=NOW))
    assert unnamed.provider_id.startswith("sha256-")


@pytest.mark.parametrize("content", [b"h\xe9llo", "grüße 😀".encode(), b"\xff\xfe\x00"])
def test_content_comes_as_base64_or_as_text(content: bytes) -> None:
    raw = mail(content, {"Content-Type": "text/plain; charset=bogus"})
    found = only(parse_notification(notification(raw), now=NOW))
    assert found.text
    assert found.text[0] in "hgÿ"
    plain = notification(None, content=mail().decode(), receipt={"action": {"type": "SNS", "encoding": "UTF8"}})
    assert only(parse_notification(plain, now=NOW)).text == "The boiler is cold."


def test_content_that_says_base64_and_is_none_is_read_as_it_stands() -> None:
    found = only(parse_notification(notification(None, content=mail().decode()), now=NOW))
    assert found.text == "The boiler is cold."


@pytest.mark.parametrize("verdict", ["spam", "virus"])
def test_what_ses_takes_for_spam_or_a_virus_is_stored_and_never_answered(verdict: str) -> None:
    receipt = {"recipients": ["desk@homes.example"], f"{verdict}Verdict": {"status": "FAIL"}}
    found = only(
        parse_notification(notification(mail(), receipt={**receipt, "action": {"encoding": "BASE64"}}), now=NOW)
    )
    assert found.suppress is SuppressReason.SPAM
    assert found.extra[verdict] == "FAIL"
    assert found.text == "The boiler is cold."
    in_s3 = {**receipt, "action": {"type": "S3", "bucketName": "b", "objectKey": "k"}}
    asked = only(parse_notification(notification(None, receipt=in_s3), now=NOW))
    assert parse_fetched(asked, mail(), now=NOW).suppress is SuppressReason.SPAM


def test_a_machine_that_is_also_taken_for_spam_is_a_machine() -> None:
    receipt = {"spamVerdict": {"status": "FAIL"}, "action": {"encoding": "BASE64"}}
    told = notification(mail(headers={"Auto-Submitted": "auto-replied"}), receipt=receipt)
    assert only(parse_notification(told, now=NOW)).suppress is SuppressReason.AUTO_REPLY


def test_a_failed_sender_check_is_told_and_hushes_nothing() -> None:
    receipt = {"dmarcVerdict": {"status": "FAIL"}, "spfVerdict": {"status": "PASS"}, "action": {"encoding": "BASE64"}}
    found = only(parse_notification(notification(mail(), receipt=receipt), now=NOW))
    assert found.suppress is None
    assert found.extra["dmarc"] == "FAIL"
    assert "spf" not in found.extra


@pytest.mark.parametrize("timestamp", ["2234-06-16T18:55:24Z", "garbage", None, 12, "2026-05-31T08:00:00"])
def test_a_receipt_is_never_in_the_future(timestamp: object) -> None:
    told = notification(mail(), mail={"messageId": "m", "timestamp": timestamp})
    assert only(parse_notification(told, now=NOW)).at == NOW


def test_our_own_mail_that_comes_in_is_ours() -> None:
    told = notification(mail(headers={"From": "bot@homes.example", "To": "jo@tenants.example"}))
    found = only(parse_notification(told, now=NOW, own_addresses={"@homes.example"}))
    assert found.suppress is SuppressReason.OWN
    assert found.party.sender == "jo@tenants.example"


def test_a_mail_whose_content_another_action_has_takes_nobodys_id() -> None:
    assert only(parse_notification(notification(None), now=NOW)) == Ignored("mail-without-content")


RANKED: list[tuple[dict[str, Any], str]] = [
    ({"eventType": "Send"}, "sent"),
    ({"eventType": "DeliveryDelay", "deliveryDelay": {"delayType": "MailboxFull"}}, "delayed"),
    ({"notificationType": "Bounce", "bounce": {"bounceType": "Transient", "bounceSubType": "General"}}, "soft-bounced"),
    ({"notificationType": "Delivery", "delivery": {"timestamp": "2026-05-31T08:00:00.000Z"}}, "delivered"),
    ({"eventType": "Bounce", "bounce": {"bounceType": "Permanent"}}, "bounced"),
    ({"eventType": "Complaint", "complaint": {}}, "complained"),
]


def test_how_our_mail_fares_never_gets_better_by_an_older_word() -> None:
    found = [only(parse_notification(json.dumps({**told, "mail": {"messageId": "m"}}), now=NOW)) for told, _ in RANKED]
    assert [delivery.state for delivery in found] == [state for _, state in RANKED]
    assert [delivery.rank for delivery in found] == sorted({delivery.rank for delivery in found})
    for name, state in (("Reject", "rejected"), ("Rendering Failure", "failed")):
        told = json.dumps({"eventType": name, "mail": {"messageId": "m"}})
        delivery = only(parse_notification(told, now=NOW))
        assert (delivery.state, delivery.rank) == (state, found[4].rank)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Successfully validated SNS topic for Amazon SES event publishing.", "not-from-ses"),
        ("", "not-from-ses"),
        ("[" * 50_000, "not-from-ses"),
        ("[]", "not-from-ses"),
        ("{}", "not-from-ses"),
        ('{"notificationType": 5}', "not-from-ses"),
        ('{"notificationType": "AmazonSnsSubscriptionSucceeded"}', "event-of-no-interest"),
        ('{"eventType": "Open", "mail": {"messageId": "m"}}', "event-of-no-interest"),
        ('{"eventType": "Bounce"}', "event-without-message-id"),
        ('{"notificationType": "Received"}', "mail-without-content"),
        ('{"notificationType": "Received", "mail": [], "receipt": "x", "content": {}}', "mail-without-content"),
    ],
)
def test_what_is_genuine_and_no_mail_makes_no_turn(text: str, reason: str) -> None:
    assert only(parse(posted(envelope(Message=text)), now=NOW)) == Ignored(reason)


def test_an_error_holds_no_address() -> None:
    bounce = {
        "bounceType": "Permanent",
        "bounceSubType": "jo@tenants.example said no",
        "bouncedRecipients": [{"emailAddress": "jo@tenants.example", "status": "5.1.1", "diagnosticCode": "jo@x"}],
    }
    told = json.dumps({"notificationType": "Bounce", "bounce": bounce, "mail": {"messageId": "m"}})
    assert only(parse_notification(told, now=NOW)).error == "Permanent 5.1.1"
