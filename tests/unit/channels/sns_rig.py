"""Envelopes as SNS signs them, and certificates as it serves them."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from tests.unit.channels.channels import NOW, request

from afterturn.channels.ses.sns import SigningCertificates, verify
from afterturn.channels.types import Rejected, WebhookRequest

TOPIC = "arn:aws:sns:us-east-1:111111111111:SES_Inbound"
URL = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-12345abcde.pem"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def certificate(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = KEY,
    begins: datetime = NOW - timedelta(days=1),
    ends: datetime = NOW + timedelta(days=1),
) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sns.amazonaws.com")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, begins, ends).sign(key, SHA256())
    return made.public_bytes(Encoding.PEM)


class SnsServer:
    """What stands behind the URLs of certificates, and how often it was asked for."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def envelope(**changed: Any) -> dict[str, Any]:
    fields = {
        "Type": "Notification",
        "MessageId": "8f6dee70-c885-558a-be7d-bd48bbf5335e",
        "TopicArn": TOPIC,
        "Message": "{}",
        "Timestamp": NOW.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "SigningCertURL": URL,
        **changed,
    }
    return {name: value for name, value in fields.items() if value is not None}


def signed(version: str = "2", key: rsa.RSAPrivateKey = KEY, **changed: Any) -> dict[str, Any]:
    """As SNS signs: https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html."""
    fields = envelope(SignatureVersion=version, **changed)
    names = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    if fields["Type"] == "Notification":
        names = [name for name in names if name not in {"SubscribeURL", "Token"}]
    else:
        names.remove("Subject")
    text = "".join(f"{name}\n{fields[name]}\n" for name in names if name in fields)
    made = key.sign(text.encode(), padding.PKCS1v15(), SHA1() if version == "1" else SHA256())
    return {**fields, "Signature": base64.b64encode(made).decode()}


def posted(fields: object, **headers: str) -> WebhookRequest:
    return request(json.dumps(fields).encode(), headers)


async def check(sent: WebhookRequest, served: SnsServer | None = None, now: datetime = NOW) -> None:
    await verify(sent, topics={TOPIC}, certificates=SigningCertificates(served or SnsServer(certificate())), now=now)


async def refusal(sent: WebhookRequest, served: SnsServer | None = None, now: datetime = NOW) -> Rejected:
    with pytest.raises(Rejected) as refused:
        await check(sent, served, now)
    return refused.value
