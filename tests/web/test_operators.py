"""What operators do has effects: replies go out, moves route the next conversation, pages show what became of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.unit.channels.channel_rig import THEIRS, call, mail, sms
from tests.unit.channels.job_runners import outbox
from tests.unit.channels.test_outbox import Provider
from tests.web.rig import API, Rig

from afterturn.channels.ingest import Ingest
from afterturn.channels.routing import Directory, RoutingRule
from afterturn.channels.sending import OutboundMessage, SendReceipt
from afterturn.channels.state import SEND
from afterturn.channels.twilio.webhook import RANKS
from afterturn.channels.types import DeliveryUpdate, Party, SuppressReason


def ingest_of(rig: Rig) -> Ingest:
    return Ingest(rig.backbone, rig.backbone.store, rig.clock)


async def test_a_reply_goes_out_by_the_channel_that_the_conversation_came_in_by(rig: Rig) -> None:
    await ingest_of(rig).handle(replace(sms(1), at=rig.clock()))
    async with rig.client("desk") as client:
        path = f"{API}/conversations/sms:{THEIRS}/replies"
        for _ in range(2):
            answer = await client.post(path, json={"text": "At nine."}, headers={"idempotency-key": "k-1"})
            assert answer.is_success
    [job] = await rig.backbone.store.waiting_jobs(SEND, limit=9)
    assert job.value == {"message": answer.json()["messageId"]}


async def test_a_reply_that_cannot_be_sent_is_stored_only(rig: Rig) -> None:
    """A conversation that no channel brought, and a call that is over."""
    await rig.settle("c-1")
    await ingest_of(rig).handle(replace(call("completed", "Hi"), at=rig.clock()))
    async with rig.client("desk") as client:
        for conversation_id in ("c-1", f"voice:{THEIRS}"):
            path = f"{API}/conversations/{conversation_id}/replies"
            answer = await client.post(path, json={"text": "At nine."}, headers={"idempotency-key": "k-1"})
            assert answer.status_code == 201
    assert await rig.backbone.store.waiting_jobs(SEND, limit=9) == ()


async def test_the_next_conversation_of_a_person_goes_to_the_property_that_an_operator_chose(rig: Rig) -> None:
    party = Party("oak@example.com", "tenant@example.org")
    await ingest_of(rig).handle(mail("one", party=party, at=rig.clock()))
    async with rig.client("desk") as client:
        path = f"{API}/conversations/mail:one"
        tag = (await client.get(path)).headers["etag"]
        answer = await client.patch(path, json={"propertyId": "elm"}, headers={"if-match": tag})
        assert answer.json()["propertyId"] == "elm"
    await ingest_of(rig).handle(mail("two", party=party, at=rig.clock()))
    conversation = await rig.backbone.store.conversation("mail:two")
    assert conversation is not None
    assert conversation.property_id == "elm"


TENANT = "tenant@example.org"


@pytest.mark.parametrize(("caller", "counts"), [("oak", False), ("desk", True)])
async def test_an_operator_of_one_property_moves_no_future_mail_of_another(rig: Rig, caller: str, counts: bool) -> None:
    ingest = ingest_of(rig)
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
    conversation = await rig.backbone.store.conversation("mail:m-1")
    assert conversation is not None
    assert conversation.property_id == ("oak" if counts else "elm")


@pytest.mark.parametrize(
    ("caller", "directory", "goes"),
    [
        ("oak", {"people": {TENANT: "elm"}}, "elm"),
        ("oak", {"accounts": {"all@example.com": "elm"}}, "elm"),
        ("oak", {"people": {TENANT: "oak"}}, "oak"),
        ("desk", {"people": {TENANT: "elm"}}, "oak"),
        ("desk", {"accounts": {"all@example.com": "elm"}}, "oak"),
    ],
)
async def test_an_operator_of_one_property_overrules_no_directory_entry_for_another(
    rig: Rig, caller: str, directory: Mapping[str, Mapping[str, str]], goes: str
) -> None:
    ingest = Ingest(rig.backbone, rig.backbone.store, rig.clock, directory=Directory(**directory))
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
    conversation = await rig.backbone.store.conversation("mail:m-1")
    assert conversation is not None
    assert conversation.property_id == goes


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
async def test_the_page_shows_what_the_provider_reported_about_a_reply(
    rig: Rig, states: tuple[str, ...], words: str, bad: bool
) -> None:
    """F49: what comes too late moves nothing back."""
    ingest = ingest_of(rig)
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


async def test_the_page_marks_a_message_of_a_sender_outside_the_thread(rig: Rig) -> None:
    ingest = ingest_of(rig)
    await ingest.handle(mail("one", at=rig.clock()))
    stranger = Party("oak@example.com", "<b>mallory@example.net")
    await ingest.handle(mail("evil", after=("one",), party=stranger, at=rig.clock()))
    async with rig.client("desk") as client:
        page = (await client.get("/conversations/mail:one")).text
    assert page.count("who is not a participant of this conversation") == 1
    assert "&lt;b&gt;mallory@example.net" in page.partition("I am evil")[2]


@pytest.mark.parametrize(
    "reason", [reason for reason in SuppressReason if reason is not SuppressReason.SENDER_NOT_IN_THREAD]
)
async def test_the_page_shows_why_a_message_got_no_automatic_reply(rig: Rig, reason: SuppressReason) -> None:
    ingest = ingest_of(rig)
    await ingest.handle(mail("one", at=rig.clock()))
    await ingest.handle(mail("two", after=("one",), suppress=reason, at=rig.clock()))
    async with rig.client("desk") as client:
        page = (await client.get("/conversations/mail:one")).text
    assert page.count("no automatic reply: ") == 1
    assert "no automatic reply: " in page.partition("I am two")[2]
