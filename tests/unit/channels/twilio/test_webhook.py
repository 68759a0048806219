"""Texts by Twilio: who signed them, what they say, and how far ours have come."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from tests.unit.channels.channels import (
    NOW,
    SAMPLES,
    form_request,
    here,
    only,
    request,
    sample,
    signed_sample,
)

from afterturn.channels.sanitize import CUT_MARK, public_url
from afterturn.channels.twilio.webhook import MAX_FIELDS, SIGNATURE_HEADER, parse, verify
from afterturn.channels.types import DeliveryUpdate, Ignored, InboundMessage, Rejected, SuppressReason, WebhookRequest
from afterturn.model import MAX_TEXT_BYTES, Attachment

TEXTS = {
    "sms-plain-us": ("SM3b3c68b39785c9c19e2cddf1332bba1e", "+15555550100", "+15555550142", "Hi"),
    "sms-plus-equals": ("SM60566ee207e123ee2765abcc55c9b9c9", "+15555550136", "+15555550189", "hi there, 2+3=4"),
    "sms-gb-empty-geo": ("SM2f0c6b8e5a1d4c3b9e7f6a5d4c3b2a10", "+447700900000", "+447700900513", "Ack"),
}
SIGNED = [*TEXTS, "mms-image-empty-body", "whatsapp-inbound-unicode", "status-delivered"]


@here
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_comes_in_as_it_was_written(name: str) -> None:
    signed, _ = signed_sample(f"twilio/{name}")
    arrived = only(parse(signed, now=NOW))
    assert isinstance(arrived, InboundMessage)
    assert (arrived.provider_id, arrived.party.account, arrived.party.sender, arrived.text) == TEXTS[name]
    assert arrived.thread.conversation_id == f"sms:{arrived.party.sender}"
    assert (arrived.attachments, arrived.suppress, arrived.extra) == ((), None, {})


@here
def test_a_picture_without_words_is_a_message() -> None:
    signed, _ = signed_sample("twilio/mms-image-empty-body")
    arrived = only(parse(signed, now=NOW))
    assert (arrived.provider_id, arrived.text) == ("MM0fe83458b74a1f626eb0da4685ab28b5", "")
    account, message = "AC00000000000000000000000000000001", "MM0fe83458b74a1f626eb0da4685ab28b5"
    url = f"https://api.twilio.com/2010-04-01/Accounts/{account}/Messages/{message}/Media/"
    assert arrived.attachments == (Attachment(url=f"{url}ME29644fd97901859108bc35e210b588f6", media_type="image/jpeg"),)


@here
def test_whatsapp_is_a_conversation_of_its_own_and_answered_there() -> None:
    signed, _ = signed_sample("twilio/whatsapp-inbound-unicode")
    arrived = only(parse(signed, now=NOW, region="US"))
    assert (arrived.text, arrived.extra) == ("Olá", {"name": "João"})
    assert (arrived.party.account, arrived.party.sender) == ("whatsapp:+14155238886", "whatsapp:+15555550127")
    assert arrived.thread.conversation_id == "whatsapp:+15555550127"


@here
def test_a_status_is_a_delivery() -> None:
    signed, _ = signed_sample("twilio/status-delivered")
    assert only(parse(signed, now=NOW)) == DeliveryUpdate("SM22222222222222222222222222222222", "delivered", 60, NOW)


@here
def test_every_sample_is_tested() -> None:
    names = {path.name for path in (SAMPLES / "twilio").iterdir()}
    assert names == {
        "signature-vectors.json",
        *(f"{name}.{end}" for name in SIGNED for end in ("form.txt", "meta.json")),
    }


@here
@pytest.mark.parametrize("name", SIGNED)
def test_only_the_signature_of_this_very_request_is_good(name: str) -> None:
    signed, meta = signed_sample(f"twilio/{name}")
    token = meta["auth_token"]
    verify(signed, token)
    signature = signed.headers[SIGNATURE_HEADER]
    other = signed_sample(f"twilio/{SIGNED[SIGNED.index(name) - 1]}")[0].headers[SIGNATURE_HEADER]
    forged = [
        replace(signed, headers={}),
        *(
            replace(signed, headers={SIGNATURE_HEADER: wrong})
            for wrong in ("", "x", "é", "\udcff", signature[:-1], other)
        ),
        replace(signed, headers={SIGNATURE_HEADER: signature.swapcase()}),
        replace(signed, url=signed.url + "?a=1"),
        replace(signed, url=signed.url + "?bodySHA256=" + hashlib.sha256(signed.body).hexdigest()),
        replace(signed, url=signed.url + "\ud800\udcff"),
        replace(signed, url="/webhooks/twilio"),
        replace(signed, url=signed.url.replace("https", "http")),
        replace(signed, body=signed.body + b"&Body=more"),
        replace(signed, body=signed.body.replace(b"AccountSid=AC", b"AccountSid=AD")),
        replace(signed, body=b""),
    ]
    for attempt in forged:
        with pytest.raises(Rejected) as refused:
            verify(attempt, token)
        assert refused.value.status == 401
        assert token not in refused.value.reason
    for wrong in ("", "12346", token + " "):
        with pytest.raises(Rejected):
            verify(signed, wrong)


def test_with_an_empty_token_nothing_is_good() -> None:
    for signature in ("", "=", "a"):
        with pytest.raises(Rejected):
            verify(request(b"Body=x", {SIGNATURE_HEADER: signature}), "")


@here
@pytest.mark.parametrize("number", range(7))
def test_the_vectors_of_twilio_s_own_library_are_good(number: int) -> None:
    vectors = json.loads(sample("twilio/signature-vectors.json"))
    assert len(vectors["vectors"]) == 7
    vector = vectors["vectors"][number]
    params = vector.get("params")
    if params == "same as basic":
        params = vectors["vectors"][0]["params"]
    body = vector["body"] if params is None else urlencode([tuple(pair) for pair in params])
    good = request(body.encode(), {SIGNATURE_HEADER: vector["signature"]}, vector["url"])
    verify(good, vectors["auth_token"])
    with pytest.raises(Rejected):
        verify(replace(good, body=good.body + b" "), vectors["auth_token"])
    with pytest.raises(Rejected):
        verify(replace(good, url=good.url + "&x="), vectors["auth_token"])


@here
def test_a_request_that_is_sent_again_is_good_and_brings_the_same() -> None:
    signed, meta = signed_sample("twilio/sms-plain-us")
    verify(signed, meta["auth_token"])
    verify(signed, meta["auth_token"])
    assert parse(signed, now=NOW) == parse(signed, now=NOW)


F26_BODY = (
    "Body=&FromCity=&NumMedia=3&MessageSid=MM1&From=%2B15158226442&To=%2B15555550100"
    + "".join(f"&MediaUrl{n}=https%3A%2F%2Fapi.twilio.com%2F{n}&MediaContentType{n}=image%2Fpng" for n in range(3))
).encode()
F26_SIGNATURE = "tN14NbK5mkVbVy0qsylDbqMUMiA="


def test_a_picture_message_behind_a_proxy_is_verified_whole_and_kept_whole() -> None:
    """The app saw ``http://10.0.0.7:8080/hook?b=2&a=hello+world``; the signature is over what Twilio called."""
    url = public_url("https://h", "/hook?b=2&a=hello+world")
    assert url == "https://h/hook?b=2&a=hello+world"
    signed = request(F26_BODY, {SIGNATURE_HEADER: F26_SIGNATURE}, url)
    verify(signed, "12345")
    for rebuilt in (url.replace("https", "http"), "https://h/hook?a=hello+world&b=2", url.replace("+", "%20")):
        with pytest.raises(Rejected):
            verify(replace(signed, url=rebuilt), "12345")
    first, second = only(parse(signed, now=NOW)), only(parse(signed, now=NOW))
    assert first == second
    assert (first.provider_id, first.text) == ("MM1", "")
    assert [file.url for file in first.attachments] == [f"https://api.twilio.com/{n}" for n in range(3)]


@pytest.mark.parametrize("count", ["0", "", "x", "1"])
def test_files_come_in_whatever_their_number_says(count: str) -> None:
    files = {f"MediaUrl{n}": f"https://f/{n}" for n in (0, 2, 10)}
    arrived = only(parse(form_request(MessageSid="MM1", From="+1", Body="", NumMedia=count, **files), now=NOW))
    assert [file.url for file in arrived.attachments] == ["https://f/0", "https://f/2", "https://f/10"]


def test_what_no_record_can_hold_is_cut_and_said() -> None:
    files = {f"MediaUrl{n}": f"https://f/{n}" for n in range(60)} | {"MediaUrl70": "https://f/" + "x" * 4_000}
    arrived = only(parse(form_request(MessageSid="MM1", From="+1", Body="é" * 200_000, **files), now=NOW))
    assert len(arrived.attachments) == 50
    assert arrived.extra == {"cut": "400000", "left_out": "11"}
    assert arrived.text.endswith(f"é{CUT_MARK}")
    assert MAX_TEXT_BYTES - 2 < len(arrived.text.encode()) <= MAX_TEXT_BYTES


def test_what_cannot_be_encoded_is_replaced() -> None:
    arrived = only(parse(request(b"MessageSid=SM1&From=%2B1&Body=a%ED%A0%BDb%00c%FFd"), now=NOW))
    assert arrived.text == "a\ufffd\ufffd\ufffdb\ufffdc\ufffdd"


def test_a_place_is_an_attachment() -> None:
    form = form_request(
        MessageSid="SM1", From="whatsapp:+15158226442", Body="", Latitude="41.5868", Longitude="-93.625", Label="Home"
    )
    assert only(parse(form, now=NOW)).attachments == (Attachment(url="geo:41.5868,-93.625", name="Home"),)


@pytest.mark.parametrize(
    ("body", "opt"),
    [
        *(
            (word, "out")
            for word in ("STOP", "stop", " Stop. ", "STOP!", "STOPALL", "Stop all", "UNSUBSCRIBE", "CANCEL")
        ),
        *((word, "out") for word in ("END", "QUIT", "REVOKE", "OPTOUT", "Opt-out")),
        *((word, "in") for word in ("START", "unstop")),
        *((word, "help") for word in ("HELP", "info")),
        *((words, None) for words in ("Stop texting me so late", "yes", "the end", "", "I can't stop", "stopp", "🛑")),
    ],
)
def test_words_that_opt_out_are_respected(body: str, opt: str | None) -> None:
    arrived = only(parse(form_request(MessageSid="SM1", From="+15158226442", Body=body), now=NOW))
    assert arrived.text == body
    assert arrived.extra.get("opt") == opt
    assert arrived.suppress is (SuppressReason.OPT_OUT if opt == "out" else None)


@pytest.mark.parametrize(("found", "opt"), [("STOP", "out"), ("START", "in"), ("HELP", "help"), ("stop", "out")])
def test_what_twilio_finds_goes_before_the_words(found: str, opt: str) -> None:
    for body in ("Arrêt", "STOP", "HELP"):
        form = form_request(MessageSid="SM1", From="+15158226442", Body=body, OptOutType=found)
        assert only(parse(form, now=NOW)).extra == {"opt": opt}


def test_one_phone_is_one_conversation_however_it_is_spelt() -> None:
    def conversation(sender: str) -> str:
        form = form_request(MessageSid="SM1", From=sender, To="+15555550100", Body="Hi")
        return str(only(parse(form, now=NOW, region="US")).thread.conversation_id)

    spelt = ["+15158226442", "15158226442", " 15158226442", "(515) 822-6442"]
    assert {conversation(sender) for sender in spelt} == {"sms:+15158226442"}
    assert (conversation("12345"), conversation("ACME")) == ("sms:12345", "sms:ACME")
    raw_plus = request(b"MessageSid=SM1&Body=Hi&From=+15158226442")
    assert only(parse(raw_plus, now=NOW)).thread.conversation_id == "sms:+15158226442"


def states(*callbacks: str) -> str:
    """What is left of a message's states when a lower rank never replaces a higher one."""
    kept: DeliveryUpdate | None = None
    for state in callbacks:
        form = form_request(MessageSid="SM1", MessageStatus=state, From="+15555550100", To="+15158226442")
        delivery = only(parse(form, now=NOW))
        assert isinstance(delivery, DeliveryUpdate)
        if kept is None or delivery.rank >= kept.rank:
            kept = delivery
    assert kept
    return kept.state


@pytest.mark.parametrize(
    ("callbacks", "state"),
    [
        (("delivered", "sent", "delivered"), "delivered"),
        (("failed", "sent"), "failed"),
        (("queued", "sending", "sent"), "sent"),
        (("sent", "queued", "accepted"), "sent"),
        (("undelivered", "sent"), "undelivered"),
        (("read", "delivered", "sent"), "read"),
        (("undelivered", "delivered"), "delivered"),
        (("delivered", "failed"), "delivered"),
        (("sent", "beamed"), "sent"),
    ],
)
def test_a_late_status_moves_nothing_back(callbacks: tuple[str, ...], state: str) -> None:
    assert states(*callbacks) == state


def test_a_message_that_comes_in_is_none_of_ours_though_a_status_had_its_id() -> None:
    status = form_request(MessageSid="SM1", SmsSid="SM1", SmsStatus="sent", MessageStatus="sent")
    inbound = form_request(MessageSid="SM1", SmsSid="SM1", SmsStatus="received", From="+15158226442", Body="Hi")
    assert isinstance(only(parse(status, now=NOW)), DeliveryUpdate)
    assert isinstance(only(parse(inbound, now=NOW)), InboundMessage)


def test_an_error_is_kept_as_its_number() -> None:
    form = form_request(MessageSid="SM1", MessageStatus="undelivered", ErrorCode="30003", ErrorMessage="unreachable")
    assert only(parse(form, now=NOW)).error == "30003"
    assert only(parse(form_request(MessageSid="SM1", MessageStatus="failed", ErrorCode="x' --"), now=NOW)).error is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "unknown-kind"),
        (b'{"Type": "an event"}', "unknown-kind"),
        (b"CallSid=CA1&CallStatus=completed", "call"),
        (b"MessageStatus=sent", "unknown-kind"),
        (b"\xff\xfe%", "unknown-kind"),
    ],
)
def test_what_is_no_text_is_nothing_and_no_error(body: bytes, reason: str) -> None:
    assert only(parse(request(body), now=NOW)) == Ignored(reason)


def test_the_fields_of_a_get_stand_in_its_url() -> None:
    asked = WebhookRequest(
        "GET", "https://h/hook?MessageSid=SM1&From=%2B15158226442&Body=Hi&SmsStatus=received", {}, b""
    )
    assert only(parse(asked, now=NOW)).text == "Hi"


def test_a_form_of_too_many_fields_is_refused() -> None:
    flood = request(b"a=1&" * (MAX_FIELDS + 1), {SIGNATURE_HEADER: "x"})
    for attempt in (lambda: verify(flood, "12345"), lambda: parse(flood, now=NOW)):
        with pytest.raises(Rejected) as refused:
            attempt()
        assert refused.value.status == 400
