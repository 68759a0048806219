"""What people do has consequences: their replies go out, and where they put somebody counts from then on."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.channels.test_ingest import THEIRS, call, mail, sms
from tests.web.rig import API, Rig

from afterturn.channels.ingest import Ingest
from afterturn.channels.state import DISPATCH
from afterturn.channels.types import Party


def ingest(rig: Rig) -> Ingest:
    return Ingest(rig.backbone, rig.backbone.store, rig.clock)


async def test_a_reply_goes_out_by_the_channel_that_the_conversation_came_in_by(rig: Rig) -> None:
    await ingest(rig).handle(replace(sms(1), at=rig.clock()))
    async with rig.client("desk") as client:
        path = f"{API}/conversations/sms:{THEIRS}/replies"
        for _ in range(2):
            answer = await client.post(path, json={"text": "At nine."}, headers={"idempotency-key": "k-1"})
            assert answer.is_success
    [job] = await rig.backbone.store.waiting_jobs(DISPATCH, limit=9)
    assert job.value == {"message": answer.json()["messageId"]}


async def test_where_nothing_can_be_sent_the_reply_is_stored_only(rig: Rig) -> None:
    """A conversation that no channel brought, and a call that is over."""
    await rig.settle("c-1")
    await ingest(rig).handle(replace(call("completed", "Hi"), at=rig.clock()))
    async with rig.client("desk") as client:
        for conversation in ("c-1", f"voice:{THEIRS}"):
            path = f"{API}/conversations/{conversation}/replies"
            answer = await client.post(path, json={"text": "At nine."}, headers={"idempotency-key": "k-1"})
            assert answer.status_code == 201
    assert await rig.backbone.store.waiting_jobs(DISPATCH, limit=9) == ()


async def test_where_an_operator_puts_a_person_their_next_conversation_goes(rig: Rig) -> None:
    party = Party("oak@example.com", "tenant@example.org")
    await ingest(rig).handle(mail("one", party=party, at=rig.clock()))
    async with rig.client("desk") as client:
        path = f"{API}/conversations/mail:one"
        tag = (await client.get(path)).headers["etag"]
        answer = await client.patch(path, json={"propertyId": "elm"}, headers={"if-match": tag})
        assert answer.json()["propertyId"] == "elm"
    await ingest(rig).handle(mail("two", party=party, at=rig.clock()))
    found = await rig.backbone.store.conversation("mail:two")
    assert found is not None
    assert found.property_id == "elm"
