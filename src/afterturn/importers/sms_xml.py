"""The XML of "SMS Backup & Restore" (Android): ``<smses>`` of ``<sms>`` and ``<mms>``.

A conversation is one counterpart's, or one group's: its id is ``sms:`` and the numbers as
:func:`afterturn.ids.normalise` writes them. Without a region ``+1 515 822 6442`` and ``515 822 6442`` stay two
conversations, as the second could be another country's.
Received is inbound, sent is outbound; drafts and what was never sent (types 3 to 6) are no messages and are passed
over. Times are milliseconds since 1970. A text message has no id of its own, so its id stands for number, time,
direction and text, and two that agree in all of them (restored twice) are one. A picture message keeps the id that
the network gave it; its files are named, not read. ``own`` leaves one's own numbers out of a group.

The file is read as a stream. The app writes an emoji as two references to surrogates (``&#55357;&#56832;``), which XML
forbids and every parser refuses; :func:`repair` joins them. Where the
XML breaks or ends too early, the location is named and everything before it comes in. A document type declaration is
refused: such a file never has one, and nothing good comes of it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote
from xml.parsers import expat

from afterturn.errors import InvalidInput
from afterturn.ids import digest, legal_id, normalise
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role

from .records import (
    MAX_ATTACHMENTS,
    MAX_PARTICIPANTS,
    BadRecord,
    ImportedConversation,
    ImportOptions,
    from_millis,
    make_record,
    make_turns,
    thread_order,
)
from .source import ImportFile

MAX_ELEMENT_CHARS = 192 * 2**20
"""More than this without a new element is not a message with a film in it but an attack on memory."""
_CHUNK_BYTES = 2**21
"""Expat looks at an unfinished attribute anew with every chunk, so a film takes the square of their number."""

_RECEIVED, _SENT = "1", "2"
_UNSENT = {"3", "4", "5", "6"}
_NOT_A_NUMBER = {"", "null", "insert-address-token"}
_MILLIS = re.compile(r"[0-9]{1,18}\Z")
_ATTRIBUTES = {
    "sms": ("address", "date", "type", "body"),
    "mms": ("address", "date", "msg_box", "m_id", "tr_id", "sub"),
    "part": ("ct", "name", "fn", "cl", "cid", "text"),
    "addr": ("address", "type"),
}

LONE_SURROGATE = "\ufdd0"
NOT_UTF8 = "\ufdd1"
"""Markers: noncharacters, which are legal XML and which a text that comes in never holds."""

_REFERENCE = re.compile(r"&#(?:x([0-9a-fA-F]{1,10})|([0-9]{1,10}));")
_UNFINISHED = re.compile(r"[\ud800-\udbff]?(?:&(?:#(?:x[0-9a-fA-F]{0,10}|[0-9]{0,10})?)?)?\Z")
_UNFINISHED_CHARS = 16
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_LONE = re.compile("[\ud800-\udfff]")
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
# A text is stored with U+FFFD in place of these (afterturn.model), and XML can't hold most of them.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufdd0\ufdd1\ufffe\uffff]")


@dataclass(slots=True)
class _Element:
    """An ``sms`` or ``mms`` with its ``part`` and ``addr`` children: only the attributes that are used."""

    name: str
    location: str
    values: dict[str, str]
    parts: list[dict[str, str]] = field(default_factory=list)
    addresses: list[dict[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Thread:
    numbers: tuple[str, ...]
    location: str
    messages: list[Message] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)


def conversations(source: ImportFile, options: ImportOptions) -> Iterator[ImportedConversation | BadRecord]:
    """Bad records as they are met, then the conversations: only the end of the file is the end of each."""
    own_numbers = frozenset(normalise(number, options.region) for number in options.own)
    threads: dict[tuple[str, ...], _Thread] = {}
    for element in _elements(source):
        if isinstance(element, BadRecord):
            yield element
            continue
        message = _sms(element, options) if element.name == "sms" else _mms(element, options)
        numbers = _counterparts(element, own_numbers, options.region)
        if message is None:
            continue
        if not isinstance(message, BadRecord) and not numbers:
            message = BadRecord(element.location, "address: is missing")
        if isinstance(message, BadRecord):
            yield message
            continue
        thread = threads.setdefault(numbers, _Thread(numbers, element.location))
        if message.id not in thread.ids:
            thread.ids.add(message.id)
            thread.messages.append(message)
    for thread in threads.values():
        yield _conversation(thread, options)


def _elements(source: ImportFile) -> Iterator[_Element | BadRecord]:
    collector = _Collector(source.name)
    try:
        for text in repair(source.chunks(_CHUNK_BYTES)):
            collector.feed(text)
            yield from collector.take()
            if collector.waiting > MAX_ELEMENT_CHARS:
                yield BadRecord(collector.here(), f"is larger than {MAX_ELEMENT_CHARS} characters; nothing after it")
                return
        collector.finish()
    except expat.ExpatError as error:
        yield from collector.take()
        reason = expat.ErrorString(error.code)
        yield BadRecord(f"{source.name}:{error.lineno}", f"the XML breaks or ends here ({reason}); nothing after it")
        return
    yield from collector.take()


class _Collector:
    """Gathers the children of the root; holds one unfinished element, whatever the size of the file."""

    def __init__(self, name: str) -> None:
        self.waiting = 0
        self._name = name
        self._depth = 0
        self._count = 0
        self._open: _Element | None = None
        self._done: list[_Element | BadRecord] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    def feed(self, text: str) -> None:
        self.waiting += len(text)
        self._parser.Parse(text, False)

    def finish(self) -> None:
        self._parser.Parse("", True)

    def take(self) -> list[_Element | BadRecord]:
        done, self._done = self._done, []
        return done

    def here(self) -> str:
        return f"{self._name}:{self._parser.CurrentLineNumber}, message {self._count}"

    def _refuse_doctype(self, *_: object) -> None:
        raise InvalidInput(f"{self._name}: has a document type declaration, which is refused")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.waiting = 0
        self._depth += 1
        if self._depth == 1 and name != "smses":
            raise InvalidInput(f"{self._name}: is XML, but not a backup of messages (its root is not <smses>)")
        values = {key: attributes[key] for key in _ATTRIBUTES.get(name, ()) if key in attributes}
        if self._depth == 2:
            self._count += 1
            if name in {"sms", "mms"}:
                self._open = _Element(name, self.here(), values)
            else:
                self._done.append(BadRecord(self.here(), "is neither sms nor mms"))
        elif self._open and name == "part":
            self._open.parts.append(values)
        elif self._open and name == "addr":
            self._open.addresses.append(values)

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._depth == 1 and self._open:
            self._done.append(_undamaged(self._open))
            self._open = None


def _undamaged(element: _Element) -> _Element | BadRecord:
    for values in (element.values, *element.parts, *element.addresses):
        for key, value in values.items():
            if LONE_SURROGATE in value:
                return BadRecord(element.location, f"{key}: has a lone surrogate, which no encoding can hold")
            if NOT_UTF8 in value:
                return BadRecord(element.location, f"{key}: has bytes that are not UTF-8")
    return element


def _sms(element: _Element, options: ImportOptions) -> Message | BadRecord | None:
    values, location = element.values, element.location
    box = values.get("type", "")
    at = _time(values, options)
    if box in _UNSENT:
        return None
    if box not in {_RECEIVED, _SENT}:
        return BadRecord(location, "type: is neither 1 (received) nor 2 (sent)")
    if isinstance(at, str):
        return BadRecord(location, f"date: {at}")
    if "body" not in values:
        return BadRecord(location, "body: is missing")
    number = normalise(values.get("address", ""), options.region)
    name = digest(number, values["date"].strip(), box, values["body"])
    return make_record(Message, {"id": f"sms-{name}", "text": values["body"], "at": at, **_side(box)}, location)


def _mms(element: _Element, options: ImportOptions) -> Message | BadRecord | None:
    values, location = element.values, element.location
    box = values.get("msg_box", "")
    at = _time(values, options)
    if box in _UNSENT:
        return None
    if box not in {_RECEIVED, _SENT}:
        return BadRecord(location, "msg_box: is neither 1 (received) nor 2 (sent)")
    if isinstance(at, str):
        return BadRecord(location, f"date: {at}")
    texts = [part["text"] for part in element.parts if part.get("ct") == "text/plain" and "text" in part]
    if (subject := _present(values, "sub")) and subject.lower() not in {"nosubject", "no subject"}:
        texts.insert(0, subject)
    text = "\n".join(texts)
    source_id = _present(values, "m_id") or _present(values, "tr_id")
    if source_id:
        name, provider_id = legal_id("mms-", source_id), legal_id("", source_id)
    else:
        name, provider_id = "mms-" + digest(values.get("address", ""), values["date"].strip(), box, text), None
    files = _attachments(element, name)
    message = {"id": name, "provider_id": provider_id, "text": text, "at": at, "attachments": files, **_side(box)}
    return make_record(Message, message, location)


def _attachments(element: _Element, message_id: str) -> list[dict[str, str]]:
    files = []
    for number, part in enumerate(element.parts, 1):
        media_type = part.get("ct", "")
        if media_type in {"text/plain", "application/smil"}:
            continue
        name = _present(part, "name") or _present(part, "fn") or _present(part, "cl")
        content_id = _present(part, "cid").strip("<>")
        url = f"cid:{quote(content_id, safe='@')}" if content_id else f"mid:{quote(message_id, safe='@')}/{number}"
        files.append(
            {"url": url[:4000], "name": name[:400], "mediaType": media_type[:200] or "application/octet-stream"}
        )
    if len(files) > MAX_ATTACHMENTS:
        more = len(files) - MAX_ATTACHMENTS + 1
        files[MAX_ATTACHMENTS - 1 :] = [{"url": f"mid:{quote(message_id, safe='@')}", "name": f"and {more} more"}]
    return files


def _time(values: Mapping[str, str], options: ImportOptions) -> datetime | str:
    text = values.get("date", "").strip()
    if not _MILLIS.match(text):
        return "is not a number of milliseconds since 1970"
    return from_millis(int(text), options)


def _side(box: str) -> dict[str, object]:
    if box == _RECEIVED:
        return {"direction": Direction.INBOUND, "role": Role.CUSTOMER}
    return {"direction": Direction.OUTBOUND, "role": Role.AGENT}


def _counterparts(element: _Element, own_numbers: frozenset[str], region: str | None) -> tuple[str, ...]:
    """Who the conversation is with, sorted: the address, or for a group all of them."""
    listed = element.values.get("address", "")
    raw = listed.split("~") if element.name == "mms" else [listed]
    everybody = _numbers(raw, region)
    inside = _numbers([entry.get("address", "") for entry in element.addresses], region)
    # A note to oneself is a conversation too.
    return tuple(sorted(everybody - own_numbers or inside - own_numbers or everybody))


def _numbers(addresses: list[str], region: str | None) -> set[str]:
    return {normalise(address, region) for address in addresses if address.strip().lower() not in _NOT_A_NUMBER}


def _present(values: Mapping[str, str], key: str) -> str:
    """The value; the app writes the word ``null`` where there is none."""
    value = values.get(key, "").strip()
    return "" if value == "null" else value


def _conversation(thread: _Thread, options: ImportOptions) -> ImportedConversation | BadRecord:
    messages = thread_order(thread.messages)
    meta = make_record(
        ConversationMeta,
        {
            "id": legal_id("sms:", ",".join(thread.numbers)),
            "channel": Channel.SMS,
            "property_id": options.property_id,
            "participants": [legal_id("", number) for number in thread.numbers[:MAX_PARTICIPANTS]],
            "created_at": messages[0].at,
        },
        thread.location,
    )
    if isinstance(meta, BadRecord):
        return meta
    return ImportedConversation(meta, make_turns(meta, messages), thread.location)


def repair(chunks: Iterable[bytes]) -> Iterator[str]:
    """The text of the chunks in pieces, in which every character and every reference is legal."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
    carry, begun = "", False
    for chunk in chunks:
        text = _REFERENCE.sub(_resolved, carry + _legal(decoder.decode(chunk)))
        tail = max(0, len(text) - _UNFINISHED_CHARS)
        unfinished = _UNFINISHED.search(text, tail)
        end = unfinished.start() if unfinished else len(text)
        carry = text[end:]
        # An XML declaration has to be the very first thing; an editor may have put a line before it.
        yield _joined(text[:end] if begun else text[:end].lstrip())
        begun = begun or bool(text[:end].strip())
    yield _joined(carry + _legal(decoder.decode(b"", final=True)))


def _legal(text: str) -> str:
    return _ESCAPED_BYTE.sub(NOT_UTF8, _ILLEGAL.sub("\ufffd", text))


def _resolved(reference: re.Match[str]) -> str:
    """The half of a character itself, U+FFFD for what XML can't hold, and any other reference as it is."""
    code = int(reference[1], 16) if reference[1] else int(reference[2])
    if 0xD800 <= code <= 0xDFFF:
        return chr(code)
    if code > 0x10FFFF or _ILLEGAL.match(chr(code)):
        return "\ufffd"
    return reference[0]


def _joined(text: str) -> str:
    return _LONE.sub(LONE_SURROGATE, _PAIR.sub(_character, text))


def _character(pair: re.Match[str]) -> str:
    return chr(0x10000 + ((ord(pair[1]) - 0xD800) << 10) + (ord(pair[2]) - 0xDC00))
