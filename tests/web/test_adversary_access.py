"""What somebody gets who has a little: a token of one property, a place on the wire, a copy of a mail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.channels.job_runners import outbox
from tests.unit.channels.test_ingest import THEIRS, mail, sms
from tests.unit.channels.test_outbox import Provider
from tests.web.rig import API, Rig

from afterturn.channels.ingest import Ingest
from afterturn.channels.routing import Directory, RoutingRule
from afterturn.channels.sending import OutboundMessage, SendReceipt
from afterturn.channels.twilio.webhook import RANKS
from afterturn.channels.types import DeliveryUpdate, Party, SuppressReason

TENANT = "tenant@example.org"


@pytest.mark.parametrize(
    ("headers", "secure"),
    [({}, False), ({"x-forwarded-proto": "https"}, True), ({"origin": "https://inbox.example.com"}, True)],
    ids=["plain", "proxy", "form"],
)
async def test_behind_a_proxy_with_tls_the_cookie_goes_over_tls_alone(
    rig: Rig, headers: Mapping[str, str], secure: bool
) -> None:
    """The server itself never sees TLS."""
    async with rig.client() as client:
        for path, given in (
            (f"{API}/session", {"json": {"token": "aft_desk"}}),
            ("/sign-in", {"data": {"token": "aft_desk"}}),
        ):
            more: Any = given
            answer = await client.post(path, headers=dict(headers), **more)
            assert ("secure" in answer.headers["set-cookie"].lower().split("; ")) is secure


@pytest.mark.parametrize(("caller", "counts"), [("oak", False), ("desk", True)])
async def test_who_has_a_say_in_one_property_takes_nobody_s_next_mail_away_from_another(
    rig: Rig, caller: str, counts: bool
) -> None:
    ingest = Ingest(rig.backbone, rig.backbone.store, rig.clock)
    party = Party("all@example.com", TENANT)
    await rig.settle("mail:old", "Hello", property_id="oak")
    old = mail("m-0", party=party, at=rig.clock())
    await ingest.handle(replace(old, thread=replace(old.thread, conversation_id="mail:old")))
    await rig.backbone.store.put(RoutingRule(key=TENANT, property_id="elm"))
    async with rig.client(caller) as client:
        answer = await client.patch(
            f"{API}/conversations/mail:old", json={"propertyId": "oak"}, headers={"if-match": "*"}
        )
        assert answer.status_code == 200
    await ingest.handle(mail("m-1", party=party, at=rig.clock()))
    found = await rig.backbone.store.conversation("mail:m-1")
    assert found is not None
    assert found.property_id == ("oak" if counts else "elm")


@pytest.mark.parametrize(
    ("caller", "told", "goes"),
    [
        ("oak", {"people": {TENANT: "elm"}}, "elm"),
        ("oak", {"accounts": {"all@example.com": "elm"}}, "elm"),
        ("oak", {"people": {TENANT: "oak"}}, "oak"),
        ("desk", {"people": {TENANT: "elm"}}, "oak"),
        ("desk", {"accounts": {"all@example.com": "elm"}}, "oak"),
    ],
)
async def test_who_has_a_say_in_one_property_overrules_no_directory_for_another(
    rig: Rig, caller: str, told: Mapping[str, Mapping[str, str]], goes: str
) -> None:
    ingest = Ingest(rig.backbone, rig.backbone.store, rig.clock, directory=Directory(**told))
    party = Party("all@example.com", TENANT)
    await rig.settle("mail:old", "Hello", property_id="oak")
    old = mail("m-0", party=party, at=rig.clock())
    await ingest.handle(replace(old, thread=replace(old.thread, conversation_id="mail:old")))
    async with rig.client(caller) as client:
        answer = await client.patch(
            f"{API}/conversations/mail:old", json={"propertyId": "oak"}, headers={"if-match": "*"}
        )
        assert answer.status_code == 200
        page = await client.post(
            "/conversations/mail:old/update", data={"propertyId": "oak", "revision": str(answer.json()["revision"])}
        )
        assert page.status_code == 303
    await ingest.handle(mail("m-1", party=party, at=rig.clock()))
    found = await rig.backbone.store.conversation("mail:m-1")
    assert found is not None
    assert found.property_id == goes


@pytest.mark.parametrize(
    ("states", "words", "bad"),
    [
        ((), "sent", False),
        (("delivered",), "sent, delivered", False),
        (("undelivered",), "sent, undelivered: 30003", True),
        (("delivered", "undelivered"), "sent, delivered", False),
    ],
    ids=["nothing", "delivered", "lost", "late"],
)
async def test_nobody_believes_that_a_reply_came_which_its_provider_says_did_not(
    rig: Rig, states: tuple[str, ...], words: str, bad: bool
) -> None:
    """F49: what comes too late moves nothing back."""
    ingest = Ingest(rig.backbone, rig.backbone.store, rig.clock)
    await ingest.handle(sms(1, at=rig.clock()))

    async def act(part: OutboundMessage) -> SendReceipt:
        return SendReceipt("SM-out", rig.clock(), ())

    async with rig.client("desk") as client:
        path = f"/conversations/sms:{THEIRS}"
        answer = await client.post(
            f"{API}{path}/replies", json={"text": "At nine."}, headers={"idempotency-key": "k-1"}
        )
        assert answer.status_code == 201
        provider = Provider(acts=[act])
        await outbox(rig.backbone.store, rig.clock, lambda message: provider).once()
        for state in states:
            error = "30003" if state == "undelivered" else None
            await ingest.handle(DeliveryUpdate("SM-out", state, RANKS[state], rig.clock(), error))
        page = (await client.get(path)).text
    assert f'<p class="{"tag tag-failed" if bad else "dim sent"}">{words}</p>' in page


async def test_people_are_told_whose_words_in_a_thread_are_a_stranger_s(rig: Rig) -> None:
    ingest = Ingest(rig.backbone, rig.backbone.store, rig.clock)
    await ingest.handle(mail("one", at=rig.clock()))
    stranger = Party("oak@example.com", "<b>mallory@example.net")
    await ingest.handle(mail("evil", after=("one",), party=stranger, at=rig.clock()))
    async with rig.client("desk") as client:
        page = (await client.get("/conversations/mail:one")).text
    assert page.count("who is not a participant of this conversation") == 1
    assert "&lt;b&gt;mallory@example.net" in page.partition("I am evil")[2]


@pytest.mark.parametrize("hush", [one for one in SuppressReason if one is not SuppressReason.SENDER_NOT_IN_THREAD])
async def test_people_are_told_why_a_message_got_no_automatic_answer(rig: Rig, hush: SuppressReason) -> None:
    ingest = Ingest(rig.backbone, rig.backbone.store, rig.clock)
    await ingest.handle(mail("one", at=rig.clock()))
    await ingest.handle(mail("two", after=("one",), suppress=hush, at=rig.clock()))
    async with rig.client("desk") as client:
        page = (await client.get("/conversations/mail:one")).text
    assert page.count("no automatic reply: ") == 1
    assert "no automatic reply: " in page.partition("I am two")[2]
