"""Mail through Outlook: who asks, what Graph takes, and what is never sent twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.channels.outlook.graph_server import MAILBOX, SECRET, Outlook, access, failed
from tests.unit.channels.sending.rig import (
    LOST,
    NOW,
    Call,
    Fault,
    ProviderAnswer,
    calling,
    outgoing,
    patience,
    refusing_url,
    serving,
    told,
)

from afterturn.channels.http_client import HttpTimeouts
from afterturn.channels.outlook.send import MAX_RAW_BYTES, GraphSender
from afterturn.channels.sending import (
    OutboundMessage,
    Reason,
    SendFailed,
    SendReceipt,
    TryLater,
    Uncertain,
    Undeliverable,
)
from afterturn.model import Channel

THEIRS = "ada@tenant.example"


@pytest.fixture
async def outlook() -> AsyncIterator[Outlook]:
    provider = Outlook()
    async with serving(provider):
        yield provider


def letter(text: str = "The plumber comes at 9.", account: str = MAILBOX, **given: Any) -> OutboundMessage:
    return outgoing(Channel.EMAIL, account, THEIRS, text, subject="Re: Leak", **given)


async def sent_by(
    outlook: Outlook, *letters: OutboundMessage, secret: str = SECRET, limits: HttpTimeouts | None = None
) -> list[SendReceipt]:
    async with calling(*([limits] if limits else [])) as http:
        sender = GraphSender(access(http, outlook, secret))
        return [await sender.send(part) for given in letters for part in sender.parts(given)]


async def test_a_mail_goes_out_in_its_thread_and_is_known_by_the_id_that_outlook_gave_it(outlook: Outlook) -> None:
    (sent,) = await sent_by(outlook, letter(in_reply_to="q@a.example", references=("r@a.example",), automatic=True))
    assert sent == SendReceipt("0@prod.outlook.com", NOW, ("0@prod.outlook.com",))
    (mail,) = outlook.sent
    assert (mail["From"], mail["To"], mail["Subject"]) == (MAILBOX, THEIRS, "Re: Leak")
    assert (mail["In-Reply-To"], mail["References"]) == ("<q@a.example>", "<r@a.example> <q@a.example>")
    assert (mail["Auto-Submitted"], mail["X-Afterturn-Message"]) == ("auto-replied", "m-1")
    assert not outlook.drafts


async def test_one_token_serves_until_shortly_before_it_expires(outlook: Outlook) -> None:
    at = [NOW]
    outlook.now = lambda: at[0]
    async with calling() as http:
        sender = GraphSender(access(http, outlook))
        await asyncio.gather(*(sender.send(letter()) for _ in range(5)))
        at[0] += timedelta(seconds=outlook.lifetime) - timedelta(minutes=3)
        await sender.send(letter())
        assert outlook.logins == 1
        at[0] += timedelta(minutes=2)
        await sender.send(letter())
    assert outlook.logins == 2
    assert len(outlook.sent) == 7


async def test_a_token_that_is_no_longer_taken_is_renewed_once_and_nothing_goes_out_twice(outlook: Outlook) -> None:
    async with calling() as http:
        sender = GraphSender(access(http, outlook))
        await sender.send(letter())
        outlook.forget_tokens()
        await asyncio.gather(*(sender.send(letter()) for _ in range(4)))
        assert (outlook.logins, len(outlook.sent)) == (2, 5)
        outlook.next = [failed(401, "InvalidAuthenticationToken")]
        await sender.send(letter())
        assert (outlook.logins, len(outlook.sent)) == (3, 6)


async def test_a_token_that_is_refused_at_once_is_not_asked_for_again_and_again(outlook: Outlook) -> None:
    outlook.lifetime = 0
    with pytest.raises(TryLater) as later:
        await sent_by(outlook, letter())
    assert (later.value.reason, later.value.after) == (Reason.CONFIGURATION, timedelta(minutes=15))
    assert outlook.logins == 2


async def test_wrong_credentials_wait_for_the_right_ones_and_are_in_no_log(
    outlook: Outlook, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(TryLater) as later:
        await sent_by(outlook, letter(), secret="wrong-secret")
    await sent_by(outlook, letter())
    assert (later.value.reason, later.value.after) == (Reason.CONFIGURATION, timedelta(minutes=15))
    said = caplog.text + repr(later.value)
    assert not [word for word in ("secret", MAILBOX, THEIRS, "/messages") if word in said]


@pytest.mark.parametrize(
    ("answer", "reason", "after"),
    [
        (told(429, {}, retry_after="11"), Reason.THROTTLED, timedelta(seconds=11)),
        (ProviderAnswer(503, b"<html>"), Reason.UNAVAILABLE, None),
        (ProviderAnswer(504, b"<html>"), Reason.UNAVAILABLE, None),
        (told(400, {"error": "invalid_request"}), Reason.CONFIGURATION, timedelta(minutes=15)),
        (ProviderAnswer(200, b"{"), Reason.UNAVAILABLE, None),
        (told(200, {"expires_in": 3599}), Reason.UNAVAILABLE, None),
        (told(200, {"access_token": "a\r\nb", "expires_in": 3599}), Reason.UNAVAILABLE, None),
        (told(200, {"access_token": "a", "expires_in": "soon"}), Reason.UNAVAILABLE, None),
        (Fault.CLOSED_READ, Reason.UNREACHABLE, None),
        (Fault.CUT, Reason.UNREACHABLE, None),
    ],
)
async def test_where_no_token_is_to_be_had_nothing_was_sent(
    outlook: Outlook, answer: Fault | ProviderAnswer, reason: Reason, after: timedelta | None
) -> None:
    outlook.next = [answer]
    with pytest.raises(TryLater) as later:
        await sent_by(outlook, letter())
    assert (later.value.reason, later.value.after) == (reason, after)
    await sent_by(outlook, letter())


class FailsAtStep(Outlook):
    """Goes well until the request that sends, or the one that makes the draft; then as ordered."""

    def __init__(self, where: str, order: Fault | ProviderAnswer) -> None:
        super().__init__()
        self.where, self.order = where, order

    def answer(self, call: Call) -> ProviderAnswer:
        answer = super().answer(call)
        if self.where in ("draft", "send") and call.path.endswith({"draft": "/token", "send": "/messages"}[self.where]):
            self.next = [self.order]
        return answer


@pytest.mark.parametrize("fault", LOST)
async def test_a_draft_that_was_lost_is_made_again_as_nobody_has_got_it(fault: Fault) -> None:
    outlook = FailsAtStep("draft", fault)
    async with serving(outlook):
        with pytest.raises(TryLater) as later:
            await sent_by(outlook, letter(), limits=patience(fault))
        assert later.value.reason is Reason.UNREACHABLE
        outlook.where = ""
        await sent_by(outlook, letter())
        assert len(outlook.sent) == 1


@pytest.mark.parametrize("fault", LOST)
async def test_a_lost_answer_is_never_made_up_for_by_sending_again(fault: Fault) -> None:
    outlook = FailsAtStep("send", fault)
    async with serving(outlook):
        with pytest.raises(Uncertain) as lost:
            await sent_by(outlook, letter(), limits=patience(fault))
        assert lost.value.reason is Reason.RESPONSE_LOST
        assert len(outlook.sent) == (0 if fault is Fault.CLOSED_UNREAD else 1)
        assert [call.method for call in outlook.calls].count("DELETE") == 0


@pytest.mark.parametrize("where", ["draft", "send"])
@pytest.mark.parametrize(
    ("answer", "kind", "reason", "after"),
    [
        (failed(429, "ApplicationThrottled", retry_after="8"), TryLater, Reason.THROTTLED, timedelta(seconds=8)),
        (failed(503, "ErrorServerBusy", retry_after="5"), TryLater, Reason.UNAVAILABLE, timedelta(seconds=5)),
        (failed(500, "ErrorInternalServerError"), TryLater, Reason.UNAVAILABLE, None),
        (failed(403, "ErrorAccessDenied"), TryLater, Reason.CONFIGURATION, timedelta(minutes=15)),
        (failed(404, "ErrorInvalidUser"), TryLater, Reason.CONFIGURATION, timedelta(minutes=15)),
        (ProviderAnswer(403, b"<html>"), TryLater, Reason.CONFIGURATION, timedelta(minutes=15)),
        (failed(400, "ErrorInvalidRecipients"), Undeliverable, Reason.BAD_ADDRESS, None),
        (failed(413, "SomethingNew"), Undeliverable, Reason.TOO_LONG, None),
        (failed(400, "SomethingNew"), Undeliverable, Reason.REFUSED, None),
    ],
)
async def test_a_refusal_is_one_and_leaves_no_draft_behind(
    where: str, answer: ProviderAnswer, kind: type[SendFailed], reason: Reason, after: timedelta | None
) -> None:
    outlook = FailsAtStep(where, answer)
    async with serving(outlook):
        with pytest.raises(kind) as refused:
            await sent_by(outlook, letter())
        assert refused.value.reason is reason
        assert getattr(refused.value, "after", None) == after
        assert THEIRS not in repr(refused.value)
        assert not outlook.drafts
        assert not outlook.sent


@pytest.mark.parametrize("answer", [ProviderAnswer(200), ProviderAnswer(204), ProviderAnswer(504, b"<html>")])
async def test_a_success_that_is_not_the_promised_one_may_have_been_one(answer: ProviderAnswer) -> None:
    outlook = FailsAtStep("send", answer)
    async with serving(outlook):
        with pytest.raises(Uncertain):
            await sent_by(outlook, letter())
        assert len(outlook.drafts) == 1, "what may be under way is not deleted"


@pytest.mark.parametrize(
    "answer",
    [
        ProviderAnswer(201, b"{"),
        told(201, {}),
        told(201, {"id": "x"}),
        told(201, {"id": "", "internetMessageId": "<a>"}),
    ],
)
async def test_a_draft_without_a_name_is_not_sent(answer: ProviderAnswer) -> None:
    outlook = FailsAtStep("draft", answer)
    async with serving(outlook):
        with pytest.raises(TryLater):
            await sent_by(outlook, letter())
        assert not outlook.sent


async def test_a_mail_that_is_too_large_or_from_no_mailbox_is_refused_before_anything_is_asked(
    outlook: Outlook,
) -> None:
    async with calling() as http:
        sender = GraphSender(access(http, outlook))
        with pytest.raises(Undeliverable) as refused:
            await sender.send(letter("x" * (MAX_RAW_BYTES + 1)))
        assert refused.value.reason is Reason.TOO_LONG
        for account in ("unknown", "../me", "a@b.example/messages", ""):
            with pytest.raises(Undeliverable):
                sender.parts(letter(account=account))
    assert not outlook.calls


async def test_where_microsoft_cannot_be_reached_nothing_was_sent() -> None:
    outlook = Outlook()
    outlook.url = refusing_url()
    with pytest.raises(TryLater) as later:
        await sent_by(outlook, letter())
    assert later.value.reason is Reason.UNREACHABLE
