"""What one mail says, however badly it is written. Pure.

Mail in the wild has charsets that do not exist, raw bytes in headers and dates from other centuries. Text is
decoded by its charset where there is such a one, else as UTF-8, else as Windows-1252; what cannot be decoded becomes
U+FFFD, so no mail is lost for its spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message as MailMessage
from email.parser import BytesParser
from email.policy import Compat32
from email.utils import parsedate_tz
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote

from afterturn.channels.email.addresses import parse_addresses

MAX_ATTACHMENTS = 50

PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, AssertionError, HeaderParseError, RecursionError)
"""What the email package raises at a mail that breaks its expectations, a thousand nested parts included."""

_ADDRESS = re.compile(r"[^\s<>,;:\"()\[\]\\@]{1,64}@[^\s<>,;:\"()\[\]\\@]{1,255}")
_BRACKETED = re.compile(r"<([^<>\s]+)>")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FROM_DATE = re.compile(
    r"(\w{3}) +(\d{1,2}) +(\d\d:\d\d(?::\d\d)?) *((?:[+-]\d{4}|[A-Z]{1,5}) +)?(\d{4})(?: +([+-]\d{4}))?"
)
_MAX_HTML_CHARS = 4_000_000
_MAX_WORDS_CHARS = 10_000
"""Encoded words are looked for in so much of a header; the search takes the square of it."""
_MAX_STRUCTURE_CHARS = 4_000
"""So much of a header is looked at that says how a part is built; its parameters take the square of it, or worse."""


class _Bounded(Compat32):
    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_MAX_STRUCTURE_CHARS] if name.lower().startswith("content-") else value


_BOUNDED = _Bounded()


@dataclass(frozen=True, slots=True)
class Content:
    """The words of a mail, and the names of what was attached to it."""

    text: str
    attachments: list[dict[str, str]]


def parse_mail(data: bytes, *, headers_only: bool = False) -> MailMessage:
    """The mail's parts as they stand; headers keep their raw bytes."""
    return BytesParser(policy=_BOUNDED).parsebytes(data, headersonly=headers_only)


def raw_header(mail: MailMessage, name: str) -> str:
    """All headers of that name, undecoded, joined by commas; raw bytes as the characters they must have been."""
    values = [value for key, value in mail.raw_items() if key.lower() == name.lower()]
    return ", ".join(_undo_escape(str(value)) for value in values)


def header(mail: MailMessage, name: str) -> str:
    """A header for people: encoded words decoded, folding undone."""
    raw = raw_header(mail, name)
    try:
        pieces = decode_header(raw[:_MAX_WORDS_CHARS])
    except PARSE_ERRORS:
        return " ".join(raw.split())
    text = "".join(
        piece if isinstance(piece, str) else decode(piece, charset or "raw-unicode-escape") for piece, charset in pieces
    )
    return " ".join(text.split())


def addresses(mail: MailMessage, *names: str) -> list[str]:
    """The addresses in those headers, each in its one spelling, in order."""
    return [address for name in names for address in parse_addresses(raw_header(mail, name))]


def is_address(text: str) -> bool:
    """Whether a text is one address, as :func:`addresses` finds them."""
    return bool(_ADDRESS.fullmatch(text))


def message_ids(mail: MailMessage, name: str) -> list[str]:
    """The ids in ``Message-ID``, ``In-Reply-To`` or ``References``, without their brackets."""
    raw = raw_header(mail, name)
    if bracketed := _BRACKETED.findall(raw):
        return bracketed
    bare = raw.split()
    return bare if name.lower() == "message-id" and len(bare) == 1 and bare[0] != "<>" else []


def parse_date(value: str) -> datetime | None:
    """A ``Date`` header as UTC; one without an offset, or with ``-0000``, is UTC (RFC 5322, 3.3)."""
    try:
        parts = parsedate_tz(value)
        if parts is None:
            return None
        year, month, day, hour, minute, second = parts[:6]
        # A leap second is written as :60, which datetime does not know.
        at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        return at - timedelta(seconds=parts[9] or 0)
    except (*PARSE_ERRORS, OverflowError):
        return None


def parse_from_line(line: bytes) -> datetime | None:
    """The date of an mbox ``From `` line, in UTC where it has no offset."""
    match = _FROM_DATE.search(line.decode("latin-1"))
    if not match:
        return None
    month, day, clock, zone, year, late_zone = match.groups()
    return parse_date(f"{day} {month} {year} {clock} {late_zone or zone or '+0000'}")


def parse_content(mail: MailMessage, mail_id: str) -> Content:
    """The plain text where there is one, else the HTML as text; ``mail_id`` names attachments without an own id."""
    plain: list[str] = []
    html: list[str] = []
    files: list[dict[str, str]] = []
    for number, part in enumerate(_leaves(mail), 1):
        kind = part.get_content_type()
        name = _file_name(part)
        if kind not in {"text/plain", "text/html"} or name or part.get_content_disposition() == "attachment":
            files.append(_attachment(part, kind, name, f"mid:{quote(mail_id, safe='@')}/{number}"))
        elif kind == "text/plain":
            plain.append(_payload(part))
        else:
            html.append(_payload(part))
    text = "\n".join(plain).strip()
    if not text and html:
        text = "\n".join(html_to_text(page[:_MAX_HTML_CHARS]) for page in html).strip()
    if len(files) > MAX_ATTACHMENTS:
        more = len(files) - MAX_ATTACHMENTS + 1
        files[MAX_ATTACHMENTS - 1 :] = [{"url": f"mid:{quote(mail_id, safe='@')}"[:4000], "name": f"and {more} more"}]
    return Content(text, files)


def decode(data: bytes, charset: str | None) -> str:
    """Text of bytes in a charset that may not exist, or may not be the one that was used."""
    name = (charset or "").strip().lower()
    # Those who say ASCII or Latin-1 mean their system's characters: UTF-8 or Windows-1252.
    if name in {"", "ascii", "us-ascii", "iso-8859-1", "latin-1", "latin1", "utf-8", "utf8"}:
        return _decode_unnamed(data, as_utf8=name in {"utf-8", "utf8"})
    try:
        text = data.decode(name, "replace")
    except (LookupError, ValueError):
        return _decode_unnamed(data, as_utf8=False)
    return _SURROGATE.sub("\ufffd", text)


def _decode_unnamed(data: bytes, *, as_utf8: bool) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8" if as_utf8 else "cp1252", "replace")


def _undo_escape(text: str) -> str:
    """The email package keeps raw bytes as lone surrogates."""
    if text.isascii():
        return text
    try:
        return decode(text.encode("ascii", "surrogateescape"), None)
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)


def _leaves(mail: MailMessage) -> Iterator[MailMessage]:
    """The parts that are not containers, in order; a mail within the mail is one part."""
    waiting = [mail]
    while waiting:
        part = waiting.pop()
        # Only then: asking a text for its payload decodes it, by a charset that may not exist.
        inner = part.get_payload() if part.is_multipart() and part.get_content_maintype() == "multipart" else None
        if isinstance(inner, list):
            waiting.extend(reversed([child for child in inner if isinstance(child, MailMessage)]))
        else:
            yield part


def _payload(part: MailMessage) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    return decode(data, part.get_content_charset()).replace("\r\n", "\n").replace("\r", "\n")


def _file_name(part: MailMessage) -> str:
    named = MailMessage()
    for key in ("Content-Disposition", "Content-Type"):
        if value := raw_header(part, key):  # where raw bytes are still what they were
            named[key] = value.replace("\r", "").replace("\n", "")
    try:
        name = named.get_filename() or ""
        pieces = decode_header(_undo_escape(name)[:_MAX_WORDS_CHARS])
    except PARSE_ERRORS:
        return "attachment"
    return "".join(piece if isinstance(piece, str) else decode(piece, charset) for piece, charset in pieces)


def _attachment(part: MailMessage, kind: str, name: str, url: str) -> dict[str, str]:
    content_id = "".join(_BRACKETED.findall(raw_header(part, "Content-ID"))[:1])
    if content_id:
        url = f"cid:{quote(content_id, safe='@')}"
    name = _SURROGATE.sub("\ufffd", name)
    return {"url": url[:4000], "mediaType": kind[:200], "name": name[:400]}


_BREAKS = {"br", "p", "div", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table", "ul", "ol", "hr"}
_UNSEEN = {"head", "script", "style", "title", "template"}
_TAG = re.compile(r"<[^<>]*>")
_UNCLOSED = re.compile(r"<(?=[^<>]*(?:<|\Z))")
_SPACES = re.compile(r"[ \t\r\f\v\u00a0]+")
_BLANK_LINES = re.compile(r"\n\s*\n\s*")


def html_to_text(html: str) -> str:
    """Text with line breaks where blocks begin; markup that no parser can follow is cut out tag by tag."""
    reader = _Reader()
    try:
        reader.feed(_tame(html))
        reader.close()
        text = "".join(reader.pieces)
    except AssertionError:  # html.parser's word for a broken declaration
        text = unescape(_TAG.sub(" ", html))
    lines = (_SPACES.sub(" ", line).strip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def _tame(html: str) -> str:
    """The same page without comments and with every tag closed.

    html.parser takes the square of a page's length to find that a tag or a comment never ends, which is a minute for
    a hundred kilobytes of them.
    """
    first, *rest = html.split("<!--")
    seen = "".join([first, *(piece.partition("-->")[2] for piece in rest)])
    return _UNCLOSED.sub("&lt;", seen)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._unseen: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self._unseen = None
        elif tag in _UNSEEN:
            self._unseen = self._unseen or tag
        elif tag in _BREAKS:
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._unseen:
            self._unseen = None
        elif tag in _BREAKS and tag != "br":
            self.pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            # Line breaks of the source are only spaces; those of the page come from its tags.
            self.pieces.append(data.replace("\n", " "))
