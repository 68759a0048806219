"""Mail out of Outlook: asked for as it has to be, and gone where it is gone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.channels.channels import here, json_request, sample
from tests.unit.channels.outlook.graph_server import MAILBOX, Outlook, access, failed
from tests.unit.channels.sending.rig import LOST, NOW, PATIENT, Fault, ProviderAnswer, calling, patience, serving

from afterturn.channels.http_client import HttpTimeouts
from afterturn.channels.outlook.fetch import MAX_MESSAGE_BYTES, GraphFetcher
from afterturn.channels.outlook.webhook import parse
from afterturn.channels.sending import Reason, TryLater
from afterturn.channels.types import ChannelEvent, FetchRequest, Ignored, InboundMessage

USER = "7f180cbb-a5ae-457c-b7e8-6f5b42ba33e7"
RESOURCE = f"Users/{USER}/Messages/AAMkADhMGAAA="
MESSAGE: dict[str, Any] = {
    "id": "AAMkADhMGAAA=",
    "internetMessageId": "<q1@tenant.example>",
    "receivedDateTime": "2026-11-30T11:59:00Z",
    "subject": "Leak",
    "body": {"contentType": "text", "content": "The tap drips."},
    "from": {"emailAddress": {"address": "Ada@tenant.example"}},
    "toRecipients": [{"emailAddress": {"address": MAILBOX}}],
    "internetMessageHeaders": [{"name": "References", "value": "<r@tenant.example>"}],
    "attachments": [{"id": "a1", "name": "tap.jpg", "contentType": "image/jpeg"}],
}


@pytest.fixture
async def outlook() -> AsyncIterator[Outlook]:
    provider = Outlook()
    provider.stored[RESOURCE] = MESSAGE
    async with serving(provider):
        yield provider


async def fetched(
    outlook: Outlook, resource: str = RESOURCE, limits: HttpTimeouts = PATIENT, accounts: dict[str, str] | None = None
) -> ChannelEvent:
    notification = {"clientState": "s", "changeType": "created", "resource": resource, "subscriptionId": "1"}
    (asked,) = parse(json_request({"value": [notification]}), client_states={"s"})
    assert isinstance(asked, FetchRequest)
    async with calling(limits) as http:
        return await GraphFetcher(access(http, outlook), accounts=accounts).fetch(asked)


async def test_a_message_is_fetched_with_everything_that_is_needed_of_it(outlook: Outlook) -> None:
    mail = await fetched(outlook)
    assert isinstance(mail, InboundMessage)
    assert (mail.provider_id, mail.text, mail.party.sender) == (
        "q1@tenant.example",
        "The tap drips.",
        "ada@tenant.example",
    )
    assert mail.thread.after == ("r@tenant.example",)
    assert [file.name for file in mail.attachments] == ["tap.jpg"]
    assert mail.at == NOW - timedelta(minutes=1)


@pytest.mark.parametrize(
    ("resource", "accounts", "account"),
    [
        (RESOURCE, {USER: "unit7@homes.example"}, "unit7@homes.example"),
        (f"users('{USER}')/messages('AAMk=')", {USER: "unit7@homes.example"}, "unit7@homes.example"),
        (
            f"users/{USER}@84bd8158-6d4d-4958-8b9f-9d6445542f95/messages/A",
            {USER: "unit7@homes.example"},
            "unit7@homes.example",
        ),
        (f"users/{USER}@84bd8158-6d4d-4958-8b9f-9d6445542f95/messages/A", {}, MAILBOX),
        ("users/Unit8@homes.example/messages/A", {}, "unit8@homes.example"),
        ("me/messages/A", {}, MAILBOX),
        (RESOURCE, {}, MAILBOX),
    ],
)
async def test_the_mailbox_that_was_read_is_the_account(
    outlook: Outlook, resource: str, accounts: dict[str, str], account: str
) -> None:
    outlook.stored = {resource: MESSAGE}
    mail = await fetched(outlook, resource, accounts=accounts)
    assert isinstance(mail, InboundMessage)
    assert mail.party.account == account


@here
async def test_the_message_of_the_documentation_is_fetched(outlook: Outlook) -> None:
    outlook.stored[RESOURCE] = json.loads(sample("graph/message-get-response.json"))
    mail = await fetched(outlook)
    assert isinstance(mail, InboundMessage)
    assert mail.text == "The group represents Nevada."


async def test_a_message_that_is_gone_is_nothing_and_is_not_asked_for_again(outlook: Outlook) -> None:
    outlook.stored.clear()
    assert await fetched(outlook) == Ignored("message-gone")
    outlook.next = []
    assert await fetched(outlook, "users/x/messages/y") == Ignored("message-gone")


async def test_a_draft_is_nothing(outlook: Outlook) -> None:
    outlook.stored[RESOURCE] = MESSAGE | {"isDraft": True}
    assert await fetched(outlook) == Ignored("draft")


async def test_a_token_that_is_no_longer_taken_is_renewed(outlook: Outlook) -> None:
    async with calling() as http:
        fetcher = GraphFetcher(access(http, outlook))
        asked = FetchRequest("graph", {"resource": RESOURCE})
        await fetcher.fetch(asked)
        outlook.forget_tokens()
        assert isinstance(await fetcher.fetch(asked), InboundMessage)
    assert outlook.logins == 2


class FailsAfterLogin(Outlook):
    def __init__(self, order: Fault | ProviderAnswer) -> None:
        super().__init__()
        self.order = order

    def _login(self, call: Any) -> ProviderAnswer:
        self.next = [self.order]
        return super()._login(call)


@pytest.mark.parametrize(
    ("answer", "reason", "after"),
    [
        (failed(429, "ApplicationThrottled", retry_after="10"), Reason.THROTTLED, timedelta(seconds=10)),
        (failed(503, "ErrorServerBusy"), Reason.UNAVAILABLE, None),
        (ProviderAnswer(504, b"<html>"), Reason.UNAVAILABLE, None),
        (failed(403, "ErrorAccessDenied"), Reason.CONFIGURATION, timedelta(minutes=15)),
        (ProviderAnswer(200, b'{"id": "A'), Reason.UNAVAILABLE, None),
        (ProviderAnswer(202), Reason.UNAVAILABLE, None),
    ],
)
async def test_what_passes_or_can_be_put_right_is_tried_later(
    answer: ProviderAnswer, reason: Reason, after: timedelta | None
) -> None:
    outlook = FailsAfterLogin(answer)
    async with serving(outlook):
        with pytest.raises(TryLater) as later:
            await fetched(outlook)
    assert (later.value.reason, later.value.after) == (reason, after)


@pytest.mark.parametrize("fault", LOST)
async def test_what_is_lost_is_asked_for_again_later(fault: Fault) -> None:
    outlook = FailsAfterLogin(fault)
    async with serving(outlook):
        with pytest.raises(TryLater) as later:
            await fetched(outlook, limits=patience(fault))
    assert later.value.reason is Reason.UNREACHABLE


async def test_a_message_of_any_size_is_not_read_to_its_end() -> None:
    outlook = FailsAfterLogin(ProviderAnswer(200, b'{"id": "A", "subject": "' + b"x" * MAX_MESSAGE_BYTES))
    async with serving(outlook):
        assert await fetched(outlook) == Ignored("message-too-large")


async def test_what_graph_refuses_for_good_is_nothing() -> None:
    outlook = FailsAfterLogin(failed(400, "ErrorInvalidIdMalformed"))
    async with serving(outlook):
        assert await fetched(outlook) == Ignored("fetch-refused")


@pytest.mark.parametrize("resource", ["", "/users", "users/../groups", "users//x", "users/%2e%2e/x", "..", "users/x/"])
async def test_a_reference_that_leads_elsewhere_is_not_followed(outlook: Outlook, resource: str) -> None:
    async with calling() as http:
        found = await GraphFetcher(access(http, outlook)).fetch(FetchRequest("graph", {"resource": resource}))
    assert found == Ignored("bad-reference")
    assert not outlook.calls


async def test_no_message_names_an_address_of_its_own_to_call(outlook: Outlook) -> None:
    resource = "users/x/messages/y?$select=z#"
    async with calling() as http:
        fetcher = GraphFetcher(access(http, outlook))
        await fetcher.fetch(FetchRequest("graph", {"resource": resource}))
        await fetcher.fetch(FetchRequest("graph", {"resource": "https:/evil.example/x"}))
    assert {call.headers["host"] for call in outlook.calls} == {outlook.url.removeprefix("http://")}
    assert outlook.calls[1].path == f"/v1.0/{resource}"
