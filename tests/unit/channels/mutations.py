"""Payloads and mails as no program writes them: fields dropped, doubled or of another type, bytes flipped, ends cut.

A seed makes the same damage in every run.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any
from urllib.parse import parse_qsl, urlencode

_SPICE = (
    *(b"\x00", b"\xff", b"\xed\xa0\xbd", b"\xef\xbf\xbe", b"\n", b'"', b"\\ud83d", b"\\u0000", b"[" * 3_000, b"{}"),
    *(
        b"1" * 5_000,
        b"1e999",
        b"-1",
        b"null",
        b"NaN",
        b"%",
        b"%00",
        b"%ED%A0%BD",
        b"%FF",
        b"&",
        b"=",
        b"&=&",
        b";",
        b"+",
    ),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**63, -(2**70), 10**400, 0.5, 1e300, float("inf"), float("nan")),
    *(
        "",
        " ",
        "null",
        "0",
        "\ud83d",
        "\x00",
        "a\x0bb\ufffe",
        "\u202e",
        "x" * 5_000,
        "é" * 150_001,
        "2034-01-01T00:00:00Z",
    ),
    *([], {}, [[]], [None], [{}], {"": ""}, {"id": {}}, {"message_id": 1}, [{"role": "user", "message": 7}]),
)


def mutate(body: bytes, chance: random.Random) -> bytes:
    """The body with some damage, mostly of its own kind: JSON, a form, or bytes."""
    roll = chance.random()
    if roll < 0.25:
        return _bytes(body, chance)
    for damage in (_json, _form):
        damaged = damage(body, chance)
        if damaged is not None:
            return _bytes(damaged, chance) if roll > 0.9 else damaged
    return _bytes(body, chance)


def _bytes(body: bytes, chance: random.Random) -> bytes:
    result = bytearray(body)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(result) + 1)
        match chance.randrange(5):
            case 0:
                del result[at:]
            case 1:
                del result[at : at + chance.randrange(1, 40)]
            case 2:
                result[at:at] = chance.choice(_SPICE)
            case 3 if at < len(result):
                result[at] ^= 1 << chance.randrange(8)
            case _:
                other = chance.randrange(len(result) + 1)
                result[at:at] = result[other : other + chance.randrange(1, 60)]
    return bytes(result)


def _json(body: bytes, chance: random.Random) -> bytes | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            return json.dumps(chance.choice(_VALUES)).encode()
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0:
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(chance.choice(_VALUES))
            case 2:
                holder[key] = copy.deepcopy(_inside(*chance.choice(places)))
            case 3:
                few = len(str(holder[key])) > 1_000
                holder[key] = [copy.deepcopy(holder[key]) for _ in range(chance.choice((1, 2, 2 if few else 60)))]
            case _:
                _double(holder, key, chance)
    return json.dumps(value).encode()


def _places(value: Any) -> Any:
    """Every holder and key in it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from _places(value[key])


def _inside(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except (KeyError, IndexError):
        return None


def _double(holder: Any, key: Any, chance: random.Random) -> None:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        holder[chance.choice((f"{key}_", f"{key}0", key.upper()))] = copy.deepcopy(holder[key])


def _form(body: bytes, chance: random.Random) -> bytes | None:
    pairs = parse_qsl(body.decode("latin-1"), keep_blank_values=True)
    if len(pairs) < 3:
        return None
    for _ in range(chance.choice((1, 1, 2, 4))):
        if not pairs:
            break
        at = chance.randrange(len(pairs))
        name, value = pairs[at]
        match chance.randrange(6):
            case 0:
                del pairs[at]
            case 1:
                pairs[at] = (name, str(chance.choice(_VALUES)))
            case 2:
                pairs[at] = (name, chance.choice(pairs)[1])
            case 3:
                pairs.insert(chance.randrange(len(pairs) + 1), (name, value[::-1]))
            case 4:
                pairs[at] = (f"{name}{chance.randrange(20)}", value)
            case _:
                pairs += [
                    (f"{name}{number}", value)
                    for number in range(1 if len(value) > 1_000 else chance.choice((1, 60, 1_100)))
                ]
    return urlencode(pairs, errors="surrogatepass").encode()


_MAIL_SPICE = (
    *(b"\x00", b"\xff", b"\xed\xa0\xbd", b"\xef\xbf\xbe", b"\r", b"\n", b"\r\n\r\n", b'"', b"<", b">", b"(", b"\\"),
    *(b"=?utf-8?B?/?=", b"=?x?Q?=", b"=?", b"?=", b"=", b"=ZZ", b";" * 300, b"(" * 2_000, b"<" * 2_000, b"@"),
    *(b"\nFrom ", b"--b", b"\n--", b"Content-Type: ", b"; charset*=x'y'%", b"; name*0*=", b"<!--", b"<![", b"&#55357;"),
)
_HEADERS = (
    *(b"Content-Type: multipart/mixed; boundary=", b"Content-Type: multipart/report", b"Content-Type: message/rfc822"),
    *(b"Content-Type: text/html; charset=uft-8", b'Content-Type: text/plain; charset=""', b"Content-Type: /"),
    *(b"Content-Transfer-Encoding: base64", b"Content-Transfer-Encoding: x-uuencode", b"Content-Disposition: ;;"),
    *(b"Message-ID: <>", b"Message-ID: <a b>", b"Message-ID: \xff", b"Message-ID: <" + b"x" * 900 + b"@y>"),
    *(b"References: <a> b <c", b"In-Reply-To: <" + b"r" * 999 + b">", b"From: ", b"From: @", b"From: \xe9@\xff"),
    *(b"Date: Mon, 99 Foo 0000 99:99:99 +9999", b"Date: 1 Jan 9999 23:59:59 -2359", b"Subject: =?utf-8?b?////?="),
    *(b"To: " + b"a@b.example, " * 2_000, b"Auto-Submitted: \x00", b"Return-Path: <>", b"Precedence: ,"),
)


def mutate_mail(raw: bytes, chance: random.Random) -> bytes:
    """The mail with some damage."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        raw = chance.choice((_mail_headers, _mail_headers, _mail_bytes, _mail_lines))(raw, chance)
    return raw


def _mail_headers(raw: bytes, chance: random.Random) -> bytes:
    head, blank, body = raw.partition(b"\n\n") if b"\r\n\r\n" not in raw else raw.partition(b"\r\n\r\n")
    lines = head.split(b"\n")
    at = chance.randrange(len(lines))
    match chance.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, chance.choice(lines))
        case 2:
            lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)]
        case 3:
            lines[at] += chance.choice(_MAIL_SPICE)
        case _:
            lines.insert(at, chance.choice(_HEADERS))
    return b"\n".join(lines) + blank + body


def _mail_lines(raw: bytes, chance: random.Random) -> bytes:
    lines = raw.split(b"\n")
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(4):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
        case 1:
            lines[at:at] = lines[other : other + 20]
        case 2:
            del lines[at : at + 5]
        case _:
            lines = lines[:at]
    return b"\n".join(lines)


def _mail_bytes(raw: bytes, chance: random.Random) -> bytes:
    result = bytearray(raw)
    at = chance.randrange(len(result) + 1)
    match chance.randrange(3):
        case 0 if at < len(result):
            result[at] ^= 1 << chance.randrange(8)
        case 1:
            del result[at : at + chance.randrange(1, 40)]
        case _:
            result[at:at] = chance.choice(_MAIL_SPICE)
    return bytes(result)
