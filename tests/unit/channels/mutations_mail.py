"""Mails as no program would write them: headers dropped, doubled and swapped, boundaries and charsets broken, bytes
flipped. A seed makes the same damage in every run.
"""

from __future__ import annotations

import random

_SPICE = (
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
        raw = chance.choice((_headers, _headers, _bytes, _lines))(raw, chance)
    return raw


def _headers(raw: bytes, chance: random.Random) -> bytes:
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
            lines[at] += chance.choice(_SPICE)
        case _:
            lines.insert(at, chance.choice(_HEADERS))
    return b"\n".join(lines) + blank + body


def _lines(raw: bytes, chance: random.Random) -> bytes:
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


def _bytes(raw: bytes, chance: random.Random) -> bytes:
    result = bytearray(raw)
    at = chance.randrange(len(result) + 1)
    match chance.randrange(3):
        case 0 if at < len(result):
            result[at] ^= 1 << chance.randrange(8)
        case 1:
            del result[at : at + chance.randrange(1, 40)]
        case _:
            result[at:at] = chance.choice(_SPICE)
    return bytes(result)
