"""Packages arrive signed, hold ids only, and are the very same ones when they are sent again."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from tests.unit.consumers.helpers import START, MemoryClaims, context, customer, run_in_windows, stored, thread, window
from tests.unit.consumers.receiver import SECRET, Receiver, receiving

from afterturn.consumers.inbound_package import MAX_MESSAGES, inbound_package_handler
from afterturn.consumers.maintenance import Alert
from afterturn.consumers.webhook import SignedEndpoint, endpoint, webhook_alert
from afterturn.errors import ConfigError, DeliveryFailed
from afterturn.reactions.registry import Handler


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def handler(receiver: Receiver) -> Handler:
    return inbound_package_handler(SignedEndpoint(url=receiver.url, secret=SecretStr(SECRET)))


async def test_what_came_in_goes_out_as_ids_in_order(receiver: Receiver, handler: Handler) -> None:
    (stamp,) = await run_in_windows(handler, thread("c: secret words", "a: answer", "c: more secrets"))
    ((webhook_id, body),) = receiver.taken
    assert body == {
        "type": "conversation.inbound_package",
        "timestamp": "2026-03-01T12:00:20.000000Z",
        "data": {
            "conversationId": "c1",
            "propertyId": "p1",
            "channel": "sms",
            "messageIds": ["m0", "m2"],
            "through": "2026-03-01T12:00:20.000000Z",
            "more": False,
        },
    }
    assert webhook_id.startswith("msg_")
    assert b"secret" not in receiver.raw[0]
    assert stamp.data == {"packages": 1, "messages": 2, "delivery": "accepted"}


async def test_each_window_is_a_package_of_its_own(receiver: Receiver, handler: Handler) -> None:
    stamps = await run_in_windows(handler, thread("c: one", "c: two", "c: three"), cuts=[1, 2])
    assert receiver.message_ids == [["m0"], ["m1"], ["m2"]]
    assert len(set(receiver.ids)) == 3
    assert stamps[-1].data == {"packages": 3, "messages": 3, "delivery": "accepted"}


async def test_after_a_crash_the_very_same_package_comes_first_and_then_the_newer_messages(
    receiver: Receiver, handler: Handler
) -> None:
    claims = MemoryClaims()
    receiver.answers = [500]
    with pytest.raises(DeliveryFailed, match="answered 500"):
        await handler(window(thread("c: one")), context(claims))
    stamp = await handler(window(thread("c: one", "a: hm", "c: two", "c: three")), context(claims))
    assert receiver.message_ids == [["m0"], ["m0"], ["m2", "m3"]]
    assert receiver.ids[0] == receiver.ids[1] != receiver.ids[2]
    assert receiver.raw[0] == receiver.raw[1]
    assert stamp.data == {"packages": 2, "messages": 3, "delivery": "accepted"}


async def test_a_crash_between_delivery_and_stamp_sends_nothing_twice(receiver: Receiver, handler: Handler) -> None:
    claims = MemoryClaims()
    for _ in range(3):
        stamp = await handler(window(thread("c: one")), context(claims))
    assert len(receiver.taken) == 1
    assert stamp.data["packages"] == 1


@pytest.mark.parametrize("status", [302, 400, 401, 404, 413, 429, 500, 503])
async def test_any_answer_but_a_good_one_is_tried_again(receiver: Receiver, handler: Handler, status: int) -> None:
    claims = MemoryClaims()
    receiver.answers = [status]
    with pytest.raises(DeliveryFailed, match=str(status)):
        await handler(window(thread("c: one")), context(claims))
    await handler(window(thread("c: one")), context(claims))
    assert receiver.ids[0] == receiver.ids[1]


async def test_a_receiver_that_is_gone_is_not_asked_again(receiver: Receiver, handler: Handler) -> None:
    claims = MemoryClaims()
    receiver.answers = [410]
    stamp = await handler(window(thread("c: one")), context(claims))
    assert stamp.data == {"packages": 1, "messages": 1, "delivery": "gone"}
    await handler(window(thread("c: one")), context(claims))
    assert len(receiver.taken) == 1


async def test_nothing_came_in_nothing_goes_out(receiver: Receiver, handler: Handler) -> None:
    stamp = await handler(window(thread("a: hello", "o: hi", "s: note")), context())
    assert not receiver.taken
    assert stamp.data["packages"] == 0


async def test_history_goes_nowhere(receiver: Receiver, handler: Handler) -> None:
    claims = MemoryClaims()
    await handler(window(thread("c: one")), context(claims, quiet=True))
    assert not receiver.taken
    assert not claims.values


async def test_without_an_address_it_only_stamps() -> None:
    stamp = await inbound_package_handler(None)(window(thread("c: one")), context())
    assert stamp.data == {"packages": 0, "messages": 0, "delivery": "off"}


async def test_ten_thousand_messages_go_out_in_packages_of_bounded_size(receiver: Receiver, handler: Handler) -> None:
    messages = [customer("hi", number, at=START) for number in range(10_000)]
    stamp = await handler(window(messages), context())
    assert [entry for ids in receiver.message_ids for entry in ids] == [message.id for message in messages]
    assert max(len(ids) for ids in receiver.message_ids) == MAX_MESSAGES
    assert [body["data"]["more"] for _, body in receiver.taken] == [True] * 49 + [False]
    assert stamp.data["packages"] == 50


async def test_the_second_run_of_a_long_series_goes_on_where_the_first_failed(
    receiver: Receiver, handler: Handler
) -> None:
    claims = MemoryClaims()
    receiver.answers = [204, 204, 503]
    messages = [customer("hi", number, at=START) for number in range(3 * MAX_MESSAGES)]
    with pytest.raises(DeliveryFailed):
        await handler(window(messages), context(claims))
    await handler(window(messages), context(claims))
    assert len(receiver.taken) == 4
    assert len(set(receiver.ids)) == 3


async def test_nobody_there_is_a_failure_that_tells_no_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    handler = inbound_package_handler(SignedEndpoint(url=f"http://127.0.0.1:{port}/token", secret=SecretStr(SECRET)))
    with pytest.raises(DeliveryFailed, match=r"no answer from the receiver \(ConnectError\)") as caught:
        await handler(window(thread("c: one")), context())
    assert "token" not in str(caught.value)


async def test_a_receiver_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        to = SignedEndpoint(url=url, secret=SecretStr(SECRET), timeout_s=0.2)
        with pytest.raises(DeliveryFailed, match="ReadTimeout"):
            await inbound_package_handler(to)(window(thread("c: one")), context())


async def test_the_status_alone_is_the_answer() -> None:
    """The body may come slowly, or never end: what was accepted is not sent again."""

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nthanks for")
            while connection.recv(65536):
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        to = SignedEndpoint(url=f"http://127.0.0.1:{server.getsockname()[1]}/", secret=SecretStr(SECRET), timeout_s=0.5)
        answering = asyncio.create_task(asyncio.to_thread(answer, server))
        await inbound_package_handler(to)(window(thread("c: one")), context())
        await answering


async def test_the_window_begins_where_the_last_stamp_ended(receiver: Receiver, handler: Handler) -> None:
    """Another conversation with the same message ids is another package."""
    messages = thread("c: one")
    previous = stored(await handler(window(messages), context()))
    await handler(window(messages, previous), context())
    await handler(window(messages, conversation_id="c2"), context(conversation_id="c2"))
    assert len(set(receiver.ids)) == 3


def test_secret_and_address_are_masked_and_checked() -> None:
    shown = repr(SignedEndpoint(url="https://example.com/hooks/token", secret=SecretStr(SECRET)))
    assert "token" not in shown
    assert SECRET not in shown
    assert endpoint(None, None, name="webhook") is None
    with pytest.raises(ConfigError, match="webhook_secret: is not set"):
        endpoint("https://example.com", None, name="webhook")
    with pytest.raises(ConfigError, match="alert: webhook URL: must be a full address"):
        endpoint("example.com", SecretStr(SECRET), name="alert")
    with pytest.raises(ConfigError, match="must be base64"):
        endpoint("https://example.com", SecretStr("é"), name="webhook")


async def test_an_alert_is_delivered_and_a_repeat_has_the_same_id(receiver: Receiver) -> None:
    sink = webhook_alert(SignedEndpoint(url=receiver.url, secret=SecretStr(SECRET)))
    alert = Alert(
        conversation_id="c1", property_id=None, kind="gas", message_id="m1", at=START, idempotency_key="maintenance:c1"
    )
    await sink(alert)
    await sink(alert)
    assert receiver.ids[0] == receiver.ids[1]
    assert json.loads(receiver.raw[0]) == {
        "type": "conversation.red_alert",
        "timestamp": "2026-03-01T12:00:00.000000Z",
        "data": {"conversationId": "c1", "propertyId": None, "kind": "gas", "messageId": "m1"},
    }


def test_the_receiver_refuses_what_is_not_signed(receiver: Receiver) -> None:
    import http.client

    host = receiver.url.removeprefix("http://").split("/", maxsplit=1)[0]
    connection = http.client.HTTPConnection(host)
    connection.request("POST", "/hooks", body=b"{}")
    assert connection.getresponse().status == 401
    connection.close()
    assert receiver.refused
