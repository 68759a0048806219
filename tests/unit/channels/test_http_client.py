"""Calls to providers: what was sent for sure not, what perhaps, and nothing that says where or with what."""

from __future__ import annotations

import gzip
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.unit.channels.sending.rig import (
    LOST,
    NOW,
    Call,
    Fault,
    Provider,
    ProviderAnswer,
    calling,
    patience,
    refusing_url,
    serving,
)

from afterturn.channels.http_client import (
    HttpResponse,
    HttpTimeouts,
    RequestNotSent,
    ResponseLost,
    failure_of,
    retry_after,
    seconds,
)
from afterturn.channels.sending import Reason, TryLater, Uncertain

SECRET = "123456:AAH-very-secret-token"


class EchoProvider(Provider):
    def answer(self, call: Call) -> ProviderAnswer:
        return ProviderAnswer(
            200, b'{"method": "%s"}' % call.method.encode(), {"X-Name": "value", "set-cookie": "id=1"}
        )


@pytest.fixture
async def echo() -> AsyncIterator[EchoProvider]:
    provider = EchoProvider()
    async with serving(provider):
        yield provider


async def test_an_answer_comes_whole_with_its_headers_in_lower_case(echo: EchoProvider) -> None:
    async with calling() as http:
        answer = await http.call("POST", f"{echo.url}/x?y=1", headers={"a": "b"}, body=b"hello")
    assert (answer.status, answer.headers["x-name"], answer.json(), answer.truncated) == (
        200,
        "value",
        {"method": "POST"},
        False,
    )
    (call,) = echo.calls
    assert (call.path, call.query, call.headers["a"], call.body) == ("/x", {"y": "1"}, "b", b"hello")


async def test_what_never_reached_the_provider_was_not_sent() -> None:
    async with calling() as http:
        for url in (refusing_url(), "https://[::1", "ftp://127.0.0.1/"):
            with pytest.raises(RequestNotSent):
                await http.call("POST", url, body=b"hello")


async def test_a_server_that_speaks_no_tls_was_sent_nothing(echo: EchoProvider) -> None:
    echo.next = [Fault.CLOSED_UNREAD]
    async with calling() as http:
        with pytest.raises(RequestNotSent):
            await http.call("POST", echo.url.replace("http:", "https:"), body=b"hello")
    assert not echo.calls


@pytest.mark.parametrize("fault", LOST)
async def test_whatever_breaks_after_the_first_byte_went_out_leaves_us_not_knowing(
    echo: EchoProvider, fault: Fault
) -> None:
    echo.next = [fault]
    async with calling(patience(fault)) as http:
        with pytest.raises(ResponseLost):
            await http.call("POST", echo.url, body=b"hello")
    assert len(echo.calls) == (0 if fault is Fault.CLOSED_UNREAD else 1), "it was not sent again"


async def test_an_answer_that_never_ends_is_given_up(echo: EchoProvider) -> None:
    echo.next = [Fault.DRIPPING]
    async with calling(HttpTimeouts(connect=10.0, read=10.0, total=2.0)) as http:
        with pytest.raises(ResponseLost):
            await http.call("POST", echo.url, body=b"hello")
    assert len(echo.calls) == 1


async def test_a_call_that_went_wrong_leaves_the_next_one_alone(echo: EchoProvider) -> None:
    echo.next = [Fault.CLOSED_UNREAD, ProviderAnswer(200, b"x" * 5_000_000), Fault.CUT]
    async with calling() as http:
        for _ in range(3):
            with suppress(ResponseLost):
                await http.call("POST", echo.url, max_bytes=1000)
        assert (await http.call("POST", echo.url)).json() == {"method": "POST"}


async def test_no_more_of_an_answer_is_read_than_was_asked_for(echo: EchoProvider) -> None:
    echo.next = [ProviderAnswer(200, b"x" * 5_000_000)]
    async with calling() as http:
        answer = await http.call("GET", echo.url, max_bytes=1000)
        assert (len(answer.body), answer.truncated, answer.json()) == (1000, True, {})
        assert (await http.call("GET", echo.url)).status == 200


async def test_no_answer_is_unpacked_into_more_than_came(echo: EchoProvider) -> None:
    echo.next = [ProviderAnswer(200, gzip.compress(b" " * 10_000_000), {"content-encoding": "gzip"})]
    async with calling() as http:
        answer = await http.call("GET", echo.url, max_bytes=100_000)
    assert echo.calls[0].headers["accept-encoding"] == "identity"
    assert (len(answer.body) < 100_000, answer.json()) == (True, {})


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff\xfe", b'"x"', b"[" * 50_000])
async def test_what_is_no_json_object_is_an_empty_one(echo: EchoProvider, body: bytes) -> None:
    echo.next = [ProviderAnswer(200, body)]
    async with calling() as http:
        assert (await http.call("GET", echo.url)).json() == {}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_answers_and_cookies_are_not_kept(echo: EchoProvider, status: int) -> None:
    echo.next = [ProviderAnswer(status, headers={"location": f"{echo.url}/elsewhere", "set-cookie": "id=2"})]
    async with calling() as http:
        assert (await http.call("GET", f"{echo.url}/here")).status == status
        await http.call("GET", f"{echo.url}/here")
    assert [call.path for call in echo.calls] == ["/here", "/here"]
    assert all("cookie" not in call.headers for call in echo.calls)


async def test_neither_logs_nor_errors_say_where_a_call_went(
    echo: EchoProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with calling() as http:
        await http.call("POST", f"{echo.url}/bot{SECRET}/sendMessage?chat={SECRET}", body=b"what they said")
        echo.next = [Fault.CLOSED_READ]
        with pytest.raises(ResponseLost) as lost:
            await http.call("POST", f"{echo.url}/bot{SECRET}/sendMessage", body=b"what they said")
        with pytest.raises(RequestNotSent) as not_sent:
            await http.call("POST", f"{refusing_url()}/bot{SECRET}/sendMessage", body=b"what they said")
    assert any("HTTP Request" in record.getMessage() for record in caplog.records), "httpx has logged the call"
    said = [*(record.getMessage() for record in caplog.records), repr(lost.value), repr(not_sent.value)]
    assert not [line for line in said if "secret" in line or "said" in line or "sendMessage" in line]
    assert lost.value.__suppress_context__
    assert not_sent.value.__suppress_context__


async def test_a_host_that_nobody_vouches_for_is_told_nothing(tmp_path: Path) -> None:
    echo = EchoProvider()
    async with serving(echo, self_signed(tmp_path)), calling() as http:
        with pytest.raises(RequestNotSent):
            await http.call("POST", echo.url.replace("127.0.0.1", "localhost"), body=b"hello")
    assert not echo.calls


def self_signed(folder: Path) -> ssl.SSLContext:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, datetime(2020, 1, 1), datetime(2120, 1, 1))  # noqa: DTZ001
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "pair.pem").write_bytes(plain + made.sign(key, SHA256()).public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    return context


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("0", timedelta(0)),
        (" 120 ", timedelta(minutes=2)),
        ("99999999999999999999", timedelta(days=1)),
        ("Mon, 30 Nov 2026 12:00:30 GMT", timedelta(seconds=30)),
        ("Mon, 30 Nov 2026 11:00:00 GMT", timedelta(0)),
        ("Mon, 30 Nov 2099 11:00:00 GMT", timedelta(days=1)),
        *((text, None) for text in ("", "-1", "1.5", "soon", "٣", "Mon, 99 Nov 2026 11:00:00 GMT", "1e3")),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_at_most_a_day(text: str, after: timedelta | None) -> None:
    assert retry_after(text, NOW) == after


def test_a_number_of_seconds_is_a_whole_one_that_is_not_negative() -> None:
    assert [seconds(value) for value in (7, 10**30)] == [timedelta(seconds=7), timedelta(days=1)]
    assert [seconds(value) for value in (-1, True, "7", 7.5, None)] == [None] * 5


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (429, TryLater, Reason.THROTTLED),
        (500, TryLater, Reason.UNAVAILABLE),
        (503, TryLater, Reason.UNAVAILABLE),
        (408, TryLater, Reason.UNAVAILABLE),
        (401, TryLater, Reason.CONFIGURATION),
        (302, TryLater, Reason.CONFIGURATION),
        (502, Uncertain, Reason.RESPONSE_LOST),
        (504, Uncertain, Reason.RESPONSE_LOST),
    ],
)
def test_what_every_provider_means_by_a_status(status: int, kind: type, reason: Reason) -> None:
    found = failure_of("here", HttpResponse(status, {"retry-after": "9"}, b""), NOW)
    assert found is not None
    assert isinstance(found, kind)
    assert (found.reason, found.code) == (reason, str(status))
    if isinstance(found, TryLater) and status >= 400:
        assert found.after == timedelta(seconds=9)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 400, 403, 404, 410, 422])
def test_other_statuses_each_provider_explains_itself(status: int) -> None:
    assert failure_of("here", HttpResponse(status, {}, b""), NOW) is None
