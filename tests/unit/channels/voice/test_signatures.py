"""Accounts of calls: only who knows the provider's secret is believed, and only for this very body."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from tests.unit.channels.channels import NOW, assert_survives, here, request, signed_sample
from tests.unit.channels.mutations import mutate

from afterturn.channels.twilio import webhook as twilio
from afterturn.channels.types import Rejected, WebhookRequest
from afterturn.channels.voice import livekit, retell, vapi
from afterturn.clock import to_millis


def refused(check: Callable[[], None], *secrets: str) -> None:
    with pytest.raises(Rejected) as answer:
        check()
    assert answer.value.status == 401
    assert not any(secret in answer.value.reason for secret in secrets)


@here
def test_twilio_signs_calls_like_texts() -> None:
    signed, meta = signed_sample("voice/twilio-voice-completed")
    twilio.verify(signed, meta["auth_token"])
    twilio.verify(signed, meta["auth_token"])
    refused(lambda: twilio.verify(signed, "12346"))
    refused(lambda: twilio.verify(replace(signed, headers={}), meta["auth_token"]))
    refused(lambda: twilio.verify(replace(signed, body=signed.body.removesuffix(b"&FromState=")), meta["auth_token"]))


BODY = b'{"message": {"type": "hang"}}'
VAPI_HMAC = hmac.new(b"s3cret", BODY, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-vapi-secret": "s3cret"},
        {"authorization": "Bearer s3cret"},
        {"authorization": "bearer  s3cret "},
        {"x-vapi-signature": VAPI_HMAC},
        {"x-vapi-signature": f"sha256={VAPI_HMAC}"},
        {"x-vapi-secret": "", "authorization": "Bearer s3cret"},
    ],
)
def test_vapi_knows_the_secret_in_any_of_its_forms(headers: Mapping[str, str]) -> None:
    vapi.verify(request(BODY, headers), "s3cret")
    vapi.verify(request(BODY, headers), "s3cret")
    refused(lambda: vapi.verify(request(BODY, headers), "other"))
    refused(lambda: vapi.verify(request(BODY, headers), ""))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-vapi-secret": ""},
        {"x-vapi-secret": "s3cre"},
        {"x-vapi-secret": "é\udcff"},
        {"authorization": "s3cret"},
        {"authorization": "Basic s3cret"},
        {"authorization": "Bearer "},
        {"x-vapi-signature": ""},
        {"x-vapi-signature": "s3cret"},
        {"x-vapi-signature": hmac.new(b"s3cret", BODY + b" ", hashlib.sha256).hexdigest()},
    ],
)
def test_vapi_without_the_secret_is_refused(headers: Mapping[str, str]) -> None:
    refused(lambda: vapi.verify(request(BODY, headers), "s3cret"), "s3cret")
    refused(lambda: vapi.verify(request(BODY, headers), ""))


def retell_signed(body: bytes, when: datetime, key: str = "key_1") -> WebhookRequest:
    digits = str(to_millis(when))
    digest = hmac.new(key.encode(), body + digits.encode(), hashlib.sha256).hexdigest()
    return request(body, {retell.SIGNATURE_HEADER: f"v={digits},d={digest}"})


def test_retell_s_signature_is_good_for_five_minutes() -> None:
    minutes = timedelta(minutes=5)
    for when in (NOW, NOW - minutes, NOW + minutes):
        retell.verify(retell_signed(BODY, when), "key_1", now=NOW)
    replayed = retell_signed(BODY, NOW)
    retell.verify(replayed, "key_1", now=NOW + minutes)
    refused(lambda: retell.verify(replayed, "key_1", now=NOW + minutes + timedelta(milliseconds=1)))
    refused(lambda: retell.verify(retell_signed(BODY, NOW + minutes + timedelta(seconds=1)), "key_1", now=NOW))


def test_retell_s_signature_is_the_one_of_its_documents() -> None:
    """Computed with ``openssl dgst -sha256 -hmac key_1`` over ``{"event":"x"}1714608491736``."""
    digest = "01b1d446523b66e11665f2b600db4f5d4c9ad1e2acfd11ebf5b434193c727f8c"
    signed = request(b'{"event":"x"}', {retell.SIGNATURE_HEADER: f"v=1714608491736,d={digest}"})
    retell.verify(signed, "key_1", now=datetime.fromtimestamp(1714608491, UTC))


def test_retell_without_a_good_signature_is_refused() -> None:
    good = retell_signed(BODY, NOW)
    value = good.headers[retell.SIGNATURE_HEADER]
    digits = value[2 : value.index(",")]
    wrong = [
        "",
        "x",
        value.partition(",d=")[2],
        value[:-1],
        value + "0",
        value.replace("v=", "t="),
        f"v={'9' * 20},d={'0' * 64}",
    ]
    wrong += [value.replace(digits, str(int(digits) + 1)), value.upper(), f"v=-1,d={'0' * 64}", "v=٣,d=" + "0" * 64]
    for signature in wrong:
        refused(partial(retell.verify, request(BODY, {retell.SIGNATURE_HEADER: signature}), "key_1", now=NOW), "key_1")
    refused(lambda: retell.verify(request(BODY), "key_1", now=NOW))
    refused(lambda: retell.verify(replace(good, body=BODY + b" "), "key_1", now=NOW))
    refused(lambda: retell.verify(good, "key_2", now=NOW))
    refused(lambda: retell.verify(retell_signed(BODY, NOW, key=""), "", now=NOW))


def token(body: bytes, secret: str = "hush", head: Mapping[str, object] | None = None, **claims: object) -> str:
    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    seconds = int(NOW.timestamp())
    whole: dict[str, object] = {"iss": "key_1", "nbf": seconds, "exp": seconds + 300}
    whole["sha256"] = base64.b64encode(hashlib.sha256(body).digest()).decode()
    signed = f"{part(json.dumps(head or {'alg': 'HS256'}).encode())}.{part(json.dumps(whole | claims).encode())}"
    return f"{signed}.{part(hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest())}"


@here
def test_livekit_s_token_vouches_for_the_body_to_its_last_byte() -> None:
    signed, meta = signed_sample("voice/livekit-room-started")
    key, secret = meta["api_key"], meta["api_secret"]
    livekit.verify(signed, key, secret, now=NOW)
    refused(lambda: livekit.verify(replace(signed, body=signed.body.lstrip()), key, secret, now=NOW), secret)
    refused(lambda: livekit.verify(signed, key, secret + "!", now=NOW), secret)
    refused(lambda: livekit.verify(signed, "another", secret, now=NOW), secret)


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer ",
        "x",
        "a.b.c",
        "é.\udcff.c",
        token(BODY)[:-1],
        token(BODY).rpartition(".")[0],
        token(BODY, secret="other"),
        token(BODY, secret=""),
        token(BODY, head={"alg": "none"}),
        token(BODY, head={"alg": "HS512"}),
        token(BODY, iss="key_2"),
        token(BODY, exp=int(NOW.timestamp()) - 61),
        token(BODY, nbf=int(NOW.timestamp()) + 61),
        token(BODY, exp="never"),
        token(BODY, exp=None),
        token(BODY, sha256=None),
        token(BODY + b" "),
        token(BODY) + "\n.x",
    ],
)
def test_livekit_without_a_token_for_this_body_is_refused(authorization: str) -> None:
    refused(lambda: livekit.verify(request(BODY, {"authorization": authorization}), "key_1", "hush", now=NOW), "hush")


def test_livekit_s_token_is_good_until_it_expires() -> None:
    for value in (token(BODY), f"Bearer {token(BODY)}"):
        for when in (NOW, NOW - timedelta(seconds=60), NOW + timedelta(seconds=359)):
            livekit.verify(request(BODY, {"authorization": value}), "key_1", "hush", now=when)
        late = NOW + timedelta(seconds=360)
        refused(partial(livekit.verify, request(BODY, {"authorization": value}), "key_1", "hush", now=late))
    refused(lambda: livekit.verify(request(BODY, {"authorization": token(BODY, secret="")}), "key_1", "", now=NOW))


def test_a_damaged_signature_is_refused_and_breaks_nothing() -> None:
    genuine = [retell_signed(BODY, NOW).headers[retell.SIGNATURE_HEADER], token(BODY), VAPI_HMAC]
    for seed in range(300):
        chance = random.Random(seed)
        value = mutate(chance.choice(genuine).encode(), chance).decode("latin-1")
        headers = dict.fromkeys(("authorization", "x-vapi-signature", "x-vapi-secret", retell.SIGNATURE_HEADER), value)
        damaged = request(BODY, headers)
        if value in genuine:
            continue
        for check in (
            partial(vapi.verify, damaged, "s3cret"),
            partial(retell.verify, damaged, "key_1", now=NOW),
            partial(livekit.verify, damaged, "key_1", "hush", now=NOW),
        ):
            assert_survives(check, f"seed {seed}", 401)
