"""Mail in Outlook: who may notify us, what is asked for, and what the message says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.channels.channels import NOW, SAMPLES, assert_fits, here, json_request, request, sample

from afterturn.channels.email.suppression import OWN_HEADER
from afterturn.channels.outlook.fetch import parse_fetched
from afterturn.channels.outlook.webhook import MAX_BODY_BYTES, MAX_TOKEN_CHARS, parse, verify
from afterturn.channels.types import (
    ChannelEvent,
    FetchRequest,
    Ignored,
    ImmediateResponse,
    InboundMessage,
    Rejected,
    SubscriptionEvent,
    SuppressReason,
)

SECRET = "secret-of-ours"
MAILBOX = "desk@homes.example"


def notification(**changed: Any) -> dict[str, Any]:
    told = {
        "subscriptionId": "s-1",
        "tenantId": "t-1",
        "clientState": SECRET,
        "changeType": "created",
        "resource": "Users/u-1/Messages/AAMkAD1=",
        "resourceData": {"@odata.type": "#Microsoft.Graph.Message", "id": "AAMkAD1="},
        **changed,
    }
    return {name: value for name, value in told.items() if value is not None}


def read_all(*notifications: object) -> tuple[ChannelEvent, ...]:
    found = parse(json_request({"value": list(notifications)}), client_states={"an-older-secret", SECRET})
    for arrival in found:
        assert_fits(arrival)
    return found


def message(**changed: Any) -> dict[str, Any]:
    return {
        "id": "AAMkAD1=",
        "internetMessageId": "<m1@tenants.example>",
        "conversationId": "AAQk1=",
        "subject": "RE: Boiler",
        "body": {"contentType": "html", "content": "<p>Tomorrow.</p><hr>From: Desk<br>Sent: Monday<br>Subject: Boiler"},
        "from": {"emailAddress": {"name": "Jo", "address": "Jo@Tenants.example"}},
        "toRecipients": [{"emailAddress": {"address": "Desk@homes.example"}}],
        "ccRecipients": [{"emailAddress": {"address": "al@tenants.example"}}],
        "receivedDateTime": "2026-05-31T08:00:05Z",
        "sentDateTime": "2026-05-31T08:00:01Z",
        "isDraft": False,
        **changed,
    }


def arrived(**changed: Any) -> Any:
    found = parse_fetched(message(**changed), now=NOW, accounts=(MAILBOX,))
    assert_fits(found)
    return found


@here
def test_the_handshake_gets_its_token_back_decoded() -> None:
    target = sample("graph/validation-request.http").decode().split()[1]
    sent = request(b"", url=f"https://example.com{target}")
    verify(sent, client_states={SECRET})
    (reply,) = parse(sent, client_states={SECRET})
    assert_fits(reply)
    assert isinstance(reply, ImmediateResponse)
    assert reply.status == 200
    assert reply.content_type == "text/plain; charset=utf-8"
    assert reply.body == (
        "Validation: Testing client application reachability for subscription Request-Id: "
        "00000000-0000-0000-0000-000000000000"
    )


@pytest.mark.parametrize("token", ["", "%0d%0aSet-Cookie:x", "%00", "a" * (MAX_TOKEN_CHARS + 1), "%ed%a0%bd%0a"])
def test_a_token_that_graph_would_not_send_is_not_repeated(token: str) -> None:
    sent = request(b"", url=f"https://example.com/hook?validationToken={token}")
    for attempt in (verify, parse):
        with pytest.raises(Rejected) as refused:
            attempt(sent, client_states={SECRET})
        assert refused.value.status == 400


def test_markup_in_a_token_stays_plain_text() -> None:
    sent = request(b"", url="https://example.com/hook?validationToken=%3Cscript%3E")
    (reply,) = parse(sent, client_states=set())
    assert isinstance(reply, ImmediateResponse)
    assert reply.body == "<script>"
    assert reply.content_type.startswith("text/plain")


@here
@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("message-created", "secretClientValue"),
        ("lifecycle-reauthorizationRequired", "<secretClientState>"),
        ("lifecycle-subscriptionRemoved", "<secretClientState>"),
    ],
)
def test_a_notification_counts_by_its_secret(name: str, secret: str) -> None:
    sent = request(sample(f"graph/{name}.json"))
    verify(sent, client_states={"other", secret})
    for wrong in (set[str](), {"other"}, {""}, {secret + "x"}, {secret[:-1]}):
        with pytest.raises(Rejected) as refused:
            verify(sent, client_states=wrong)
        assert refused.value.status == 401
        assert parse(sent, client_states=wrong) == (Ignored("wrong-client-state"),)


@here
def test_the_sample_of_a_new_message_is_asked_for() -> None:
    (found,) = parse(request(sample("graph/message-created.json")), client_states={"secretClientValue"})
    assert_fits(found)
    assert isinstance(found, FetchRequest)
    assert found.source == "graph"
    assert found.reference["resource"] == "users/{user_guid}@{tenant_guid}/messages/{long_id_string}"
    assert found.reference["subscription"] == "{subscription_guid}"
    assert "internetMessageHeaders" in found.reference["select"]
    assert "uniqueBody" in found.reference["select"]
    assert "clientState" not in json.dumps(dict(found.reference))


@here
@pytest.mark.parametrize(
    ("name", "action"),
    [("lifecycle-reauthorizationRequired", "reauthorize"), ("lifecycle-subscriptionRemoved", "recreate")],
)
def test_the_samples_of_lifecycle_events_say_what_has_to_be_done(name: str, action: str) -> None:
    (found,) = parse(request(sample(f"graph/{name}.json")), client_states={"<secretClientState>"})
    assert found == SubscriptionEvent(
        "graph", action, {"subscription": "<subscription_guid>", "tenant": "<tenant_guid>"}
    )


@here
def test_the_sample_of_a_message_arrives() -> None:
    found = parse_fetched(json.loads(sample("graph/message-get-response.json")), now=NOW)
    assert_fits(found)
    assert isinstance(found, InboundMessage)
    assert found.provider_id == "MWHPR6E1BE060@MWHPR1120.namprd22.prod.outlook.com"
    assert found.text == "The group represents Nevada."
    assert (found.party.account, found.party.sender) == (
        "alexw@contoso.onmicrosoft.com",
        "adelev@contoso.onmicrosoft.com",
    )
    assert found.at == datetime(2018, 9, 9, 3, 15, 8, tzinfo=UTC)
    assert found.sent_at == datetime(2018, 9, 9, 3, 15, 6, tzinfo=UTC)
    assert found.thread.conversation_id == "mail:graph-AAQkADOUpag6yWs="
    assert found.suppress is None


@here
def test_the_sample_of_a_bounces_headers_is_a_bounce() -> None:
    found = parse_fetched(json.loads(sample("graph/message-get-headers.json")), now=NOW, accounts=(MAILBOX,))
    assert_fits(found)
    assert isinstance(found, InboundMessage)
    assert found.suppress is SuppressReason.BOUNCE
    assert found.provider_id == "graph-AAMkADhAAAW-VPeAAA="
    assert found.party.sender == "unknown"


@here
def test_every_sample_has_an_outcome() -> None:
    assert {path.stem for path in (SAMPLES / "graph").glob("*")} == {
        *("lifecycle-reauthorizationRequired", "lifecycle-subscriptionRemoved", "message-created"),
        *("message-get-headers", "message-get-response", "validation-request"),
    }


def test_a_bad_notification_of_a_batch_stays_alone() -> None:
    found = read_all(
        notification(resource="users/u-1/messages/one"),
        None,
        notification(clientState="wrong"),
        notification(clientState=None),
        notification(clientState=5),
        7,
        notification(resource="../../me"),
        notification(changeType="updated"),
        notification(changeType="deleted"),
        notification(changeType={}),
        notification(resourceData={"@odata.type": "#Microsoft.Graph.Event"}),
        notification(changeType=None, lifecycleEvent="missed", resource=None, resourceData=None),
        notification(lifecycleEvent="somethingNew"),
        notification(lifecycleEvent=[]),
        notification(resource="users/u-1/messages/two", resourceData="?"),
    )
    assert [a.reason if isinstance(a, Ignored) else type(a).__name__ for a in found] == [
        *(
            "FetchRequest",
            *["wrong-client-state"] * 5,
            "bad-resource",
            "message-changed",
            "message-changed",
            "unknown-change",
        ),
        *("not-a-message", "SubscriptionEvent", "unknown-lifecycle-event", "unknown-lifecycle-event", "FetchRequest"),
    ]
    missed = found[11]
    assert isinstance(missed, SubscriptionEvent)
    assert missed.action == "resynchronize"


def test_a_batch_with_one_good_secret_is_let_in() -> None:
    good = json_request({"value": [notification(clientState="wrong"), notification()]})
    verify(good, client_states={SECRET})
    for value in ([], [notification(clientState="wrong")], [None]):
        with pytest.raises(Rejected) as refused:
            verify(json_request({"value": value}), client_states={SECRET})
        assert refused.value.status == 401


def test_a_message_that_is_told_twice_in_a_batch_is_asked_for_once() -> None:
    assert len(read_all(notification(), notification(), notification(resource="users/u-1/messages/AAMkAD1="))) == 1


@pytest.mark.parametrize(
    "resource",
    [
        "https://evil.example/users/u/messages/m",
        "//evil.example/messages/m",
        "users/u/../../admin",
        "users/u/messages/m?$expand=x",
        "users/u/messages/m#x",
        "users/u/messages/%2e%2e",
        "users/u\\messages",
        "users/u/messages/m\n",
        "directory/deletedItems",
        "users/" + "u" * 700 + "/messages/m",
        "",
        None,
        5,
        ["users/u/messages/m"],
    ],
)
def test_nothing_but_a_message_is_called_with_our_credentials(resource: object) -> None:
    assert read_all(notification(resource=resource)) == (Ignored("bad-resource"),)


@pytest.mark.parametrize(
    "resource",
    [
        "users/9b1c@84bd/messages/AAMkAD-_=",
        "Users('9b1c')/Messages('AAMk=')",
        "me/mailFolders('Inbox')/messages/AAMk=",
        "users/u/mailFolders/inbox/messages/AAMk=",
    ],
)
def test_a_message_may_be_named_in_several_ways(resource: str) -> None:
    (found,) = read_all(notification(resource=resource))
    assert isinstance(found, FetchRequest)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"value": {}}', 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b" " * (MAX_BODY_BYTES + 1), 413),
    ],
)
def test_what_graph_would_not_send_is_refused(body: bytes, status: int) -> None:
    for attempt in (verify, parse):
        with pytest.raises(Rejected) as refused:
            attempt(request(body), client_states={SECRET})
        assert refused.value.status == status


def test_an_address_that_cannot_be_read_is_refused() -> None:
    for url in ("https://[::1/x", "https://example.com/?" + "a&" * 100):
        with pytest.raises(Rejected) as refused:
            verify(request(b"", url=url), client_states={SECRET})
        assert refused.value.status == 400


def test_a_message_says_what_is_new_in_it_and_keeps_the_rest() -> None:
    found = arrived()
    assert found.text == "Tomorrow."
    assert found.full_text.endswith("Subject: Boiler")
    assert found.participants == ("jo@tenants.example", "al@tenants.example")
    unique = {"contentType": "text", "content": "Tomorrow.\r\nJo"}
    assert arrived(uniqueBody=unique).text == "Tomorrow.\nJo"
    assert arrived(uniqueBody={"contentType": "html", "content": "<div> </div>"}).text == "Tomorrow."


def test_a_message_stays_the_same_when_it_moves_to_another_folder() -> None:
    here_and_there = [arrived(), arrived(id="AAMkAD-moved=", parentFolderId="Archive", isRead=True)]
    assert len({found.provider_id for found in here_and_there}) == 1
    unnamed = [arrived(internetMessageId=None), arrived(internetMessageId=None, id="AAMkAD-moved=")]
    assert len({found.provider_id for found in unnamed}) == 1
    assert unnamed[0].provider_id != arrived(internetMessageId="", subject="Other").provider_id


def test_a_message_belongs_where_its_headers_say() -> None:
    headers = [
        {"name": "References", "value": "<a@x> <b@x>"},
        {"name": "in-reply-to", "value": "<b@x>"},
        {"name": "Date", "value": "Mon, 16 Jun 2234 18:55:24 +0200"},
    ]
    found = arrived(internetMessageHeaders=headers)
    assert found.thread.after == ("b@x", "a@x")
    assert found.thread.conversation_id == "mail:a@x"
    assert found.thread.subject == "boiler"
    assert found.at == datetime(2026, 5, 31, 8, 0, 5, tzinfo=UTC)
    assert found.sent_at is not None
    assert found.sent_at.year == 2234


@pytest.mark.parametrize("at", ["2234-06-16T18:55:24Z", "garbage", None, 5])
def test_a_message_is_never_received_in_the_future(at: object) -> None:
    assert arrived(receivedDateTime=at).at == NOW


@pytest.mark.parametrize(
    ("header", "hush"),
    [
        (("Auto-Submitted", "auto-generated"), SuppressReason.AUTO_REPLY),
        (("Auto-Submitted", "no"), None),
        (("X-Auto-Response-Suppress", "All"), None),
        (("Return-Path", "<>"), SuppressReason.BOUNCE),
        (("Precedence", "bulk"), SuppressReason.BULK),
        (("Content-Type", "multipart/report; report-type=disposition-notification"), SuppressReason.RECEIPT),
        ((OWN_HEADER, "m-1"), SuppressReason.OWN),
    ],
)
def test_a_machine_answers_people_only(header: tuple[str, str], hush: SuppressReason | None) -> None:
    name, value = header
    assert arrived(internetMessageHeaders=[{"name": name, "value": value}]).suppress is hush


def test_what_a_person_of_ours_sends_from_outlook_is_stored_as_ours() -> None:
    ours = {"emailAddress": {"address": "Desk@Homes.example"}}
    theirs = [{"emailAddress": {"address": "jo@tenants.example"}}]
    changed: dict[str, Any] = {"from": ours, "toRecipients": theirs, "ccRecipients": []}
    found = arrived(**changed)
    assert found.suppress is SuppressReason.OWN
    assert found.extra["direction"] == "outbound"
    assert (found.party.account, found.party.sender) == (MAILBOX, "jo@tenants.example")
    sent_by_us = arrived(**changed, internetMessageHeaders=[{"name": OWN_HEADER, "value": "m-1"}])
    assert sent_by_us == Ignored("own-message")


DISOWNED = (
    "spf=softfail smtp.mailfrom=x.example; dkim=none;dmarc=fail action=none header.from=x;compauth=fail reason=000"
)


@pytest.mark.parametrize(
    ("results", "believed"),
    [
        ([DISOWNED], False),
        ([DISOWNED.replace("fail", "FAIL"), "mallory.example; dmarc=pass"], False),
        ([DISOWNED.replace("compauth=fail", "compauth=pass")], True),
        (["spf=pass; dmarc=pass action=none; compauth=pass", DISOWNED], True),
        ([], True),
    ],
    ids=["disowned", "and says pass below", "known relay", "fine", "not told"],
)
def test_what_outlook_says_of_the_sender_s_domain_counts(results: list[str], believed: bool) -> None:
    """Of several results the topmost, which is Outlook's own; a mail in our name is not ours if we disown it."""
    headers = [{"name": "Authentication-Results", "value": value} for value in results]
    assert arrived(internetMessageHeaders=headers).extra.get("dmarc") == (None if believed else "FAIL")
    ours = arrived(internetMessageHeaders=headers, **{"from": {"emailAddress": {"address": MAILBOX}}})
    assert ours.suppress is (SuppressReason.OWN if believed else SuppressReason.SENDER_NOT_IN_THREAD)


def test_a_draft_or_a_message_that_is_gone_makes_no_turn() -> None:
    assert arrived(isDraft=True) == Ignored("draft")
    gone = {"error": {"code": "ErrorItemNotFound", "message": "not found"}}
    assert parse_fetched(gone, now=NOW) == Ignored("message-gone")
    answers: list[object] = [None, [], "x", {}, {"value": []}]
    for answer in answers:
        assert parse_fetched(answer, now=NOW) == Ignored("not-a-message")


def test_attachments_are_named_and_not_read() -> None:
    files = [{"name": "leak.jpg", "contentType": "image/jpeg"}, {"name": None}, "?"]
    found = arrived(hasAttachments=True, attachments=files)
    assert [(file.url, file.media_type, file.name) for file in found.attachments] == [
        ("mid:m1@tenants.example/1", "image/jpeg", "leak.jpg"),
        ("mid:m1@tenants.example/2", "application/octet-stream", ""),
        ("mid:m1@tenants.example/3", "application/octet-stream", ""),
    ]
    (untold,) = arrived(hasAttachments=True).attachments
    assert untold.url == "mid:m1@tenants.example"
    assert arrived(attachments=[{"name": "x"}] * 300).extra["left_out"] == "250"


def test_a_message_of_any_size_fits_a_record() -> None:
    people = [{"emailAddress": {"address": f"u{i}@x.example"}} for i in range(5_000)]
    headers = [{"name": "References", "value": "<a@x>"}] * 20_000
    found = arrived(
        body={"contentType": "text", "content": "ü" * 400_000},
        toRecipients=people,
        internetMessageHeaders=headers,
        subject="s" * 100_000,
        internetMessageId="<" + "x" * 10_000 + ">",
        conversationId="c" * 10_000,
    )
    assert found.extra["cut"] == "800000"
    assert len(found.participants) == 100
