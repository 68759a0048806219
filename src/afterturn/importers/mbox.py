"""An mbox file of mail (Gmail Takeout, Thunderbird, mutt).

A conversation is a thread (:func:`group_into_threads`); its id is ``mail:`` and the id at the thread's
root. Who is us: ``own`` names addresses or domains (``@example.com``); without it
:func:`guess_own_addresses` decides. What they sent is outbound. An automatic mail
(``Auto-Submitted``, RFC 3834) has the role ``system``.

A mail's time is its ``Date`` where that lies between 1990 and now, else the date of its ``From `` line, which the
receiver wrote; a mail with neither is bad. Its id is its ``Message-ID``; a mail without one, and a second one of the
same id and other content, gets a hash of its content. Two that agree in id and content (a mail under two labels)
are one. The plain text is preferred, HTML is made text, quoted replies stay; attachments are named, not read.

The standard library's ``mailbox`` opens a file to write in it, takes any line that begins with ``From `` for a new
mail, and tells no progress; so the file is split here. It is gone through twice: once for who wrote to whom and once,
thread by thread, for the texts, so that the texts of a large mailbox need not fit into memory.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.message import Message as MailMessage

from afterturn.channels.email.addresses import is_own, normalise_address
from afterturn.channels.email.message import SAME_SUBJECT_WITHIN, normal_subject
from afterturn.channels.email.reader import (
    PARSE_ERRORS,
    addresses,
    header,
    message_ids,
    parse_content,
    parse_date,
    parse_from_line,
    parse_mail,
    raw_header,
)
from afterturn.ids import legal_id
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role

from .records import (
    MAX_PARTICIPANTS,
    BadRecord,
    ImportedConversation,
    ImportOptions,
    make_record,
    make_turns,
    thread_order,
    time_problem,
)
from .source import ImportFile

MAX_MAIL_BYTES = 96 * 2**20
MAX_HEADER_BYTES = 2**20

_LINE_BYTES = 2**16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FROM_LINE = re.compile(rb"From (?:-?[ \t]*\r?\n\Z|.*\d\d?:\d\d)")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.M)


@dataclass(frozen=True, slots=True)
class MailSummary:
    """What has to be known of every mail before the first conversation can be told: no text."""

    location: str
    start: int
    end: int
    at: datetime
    message_id: str
    provider_id: str | None
    thread_ids: tuple[str, ...]
    sender: str
    recipients: tuple[str, ...]
    delivered_to: tuple[str, ...]
    subject: str
    labelled_sent: bool
    automatic: bool


def conversations(source: ImportFile, options: ImportOptions) -> Iterator[ImportedConversation | BadRecord]:
    """Mails that are bad by their headers, then the threads, each after those of its mails whose text is bad."""
    envelopes: list[MailSummary] = []
    seen: dict[str, str] = {}
    for piece in _split(source):
        envelope = piece if isinstance(piece, BadRecord) else _envelope(piece, seen, options)
        if isinstance(envelope, BadRecord):
            yield envelope
        elif envelope:
            envelopes.append(envelope)
    own_addresses = frozenset(normalise_address(address) for address in options.own) or guess_own_addresses(envelopes)
    for thread in group_into_threads(envelopes, own_addresses):
        yield from _conversation(source, thread, own_addresses, options)


@dataclass(slots=True)
class _Piece:
    """Where a mail lies in the file, its headers, and a hash of what follows them."""

    location: str
    from_line: bytes
    start: int
    end: int = 0
    headers: bytearray = field(default_factory=bytearray)
    body: hashlib._Hash = field(default_factory=hashlib.sha256)
    blank_lines: int = 0
    in_body: bool = False

    def take(self, line: bytes, *, begins: bool) -> None:
        bare = line.rstrip(b"\r\n")
        if not self.in_body:
            self.in_body = begins and not bare
            self.headers += line if len(self.headers) < MAX_HEADER_BYTES else b""
        elif begins and not bare:
            # Blank lines at the end belong to the file, not to the mail.
            self.blank_lines += 1
        else:
            self.body.update(b"\n" * self.blank_lines + bare + b"\n")
            self.blank_lines = 0


def _split(source: ImportFile) -> Iterator[_Piece | BadRecord]:
    piece: _Piece | None = None
    position = number = 0
    after_blank = begins = True
    while raw := source.readline(_LINE_BYTES):
        line = raw if position else raw.removeprefix(_BYTE_ORDER_MARK)
        if begins and after_blank and _FROM_LINE.match(line):
            if piece:
                piece.end = position
                yield piece
            number += 1
            piece = _Piece(f"{source.name}: message {number}", line, position + len(raw))
        elif piece:
            piece.take(line, begins=begins)
        elif line.strip():
            yield BadRecord(source.name, 'does not begin with a "From " line; nothing before the first one came in')
            piece = _Piece("", b"", position)
        position += len(raw)
        after_blank = begins and not line.strip(b"\r\n")
        begins = line.endswith(b"\n")
    if piece:
        piece.end = position
        yield piece


def _envelope(piece: _Piece, seen: dict[str, str], options: ImportOptions) -> MailSummary | BadRecord | None:
    """None for a mail that was met before. ``seen``: the content of every message id."""
    if not piece.location:
        return None
    if piece.end - piece.start > MAX_MAIL_BYTES:
        return BadRecord(piece.location, f"is larger than {MAX_MAIL_BYTES} bytes")
    try:
        mail = parse_mail(bytes(piece.headers), headers_only=True)
        at = _time(mail, piece.from_line, options)
        if at is None:
            return BadRecord(piece.location, 'Date: neither it nor the "From " line is a time between 1990 and now')
        names = _names(mail, _fingerprint(mail, piece), seen)
        if names is None:
            return None
        message_id, provider_id, thread_id = names
        references = message_ids(mail, "References") + message_ids(mail, "In-Reply-To")
        return MailSummary(
            location=piece.location,
            start=piece.start,
            end=piece.end,
            at=at,
            message_id=message_id,
            provider_id=provider_id,
            thread_ids=(*references, thread_id),
            sender="".join(addresses(mail, "From")[:1]) or "".join(addresses(mail, "Sender")[:1]),
            recipients=tuple(addresses(mail, "To", "Cc")),
            delivered_to=tuple(addresses(mail, "Delivered-To", "X-Original-To")),
            subject=normal_subject(header(mail, "Subject")),
            labelled_sent="sent" in re.split(r"[\s,]+", header(mail, "X-Gmail-Labels").lower()),
            automatic=raw_header(mail, "Auto-Submitted").strip().lower() not in {"", "no"},
        )
    except PARSE_ERRORS as error:
        return BadRecord(piece.location, f"its headers cannot be read ({type(error).__name__})")


def _time(mail: MailMessage, from_line: bytes, options: ImportOptions) -> datetime | None:
    for at in (parse_date(raw_header(mail, "Date")), parse_from_line(from_line)):
        if at and not time_problem(at, options):
            return at
    return None


def _fingerprint(mail: MailMessage, piece: _Piece) -> str:
    """Of what the sender wrote: what mail servers add on the way differs from copy to copy."""
    written = hashlib.sha256(piece.body.digest())
    for name in ("From", "To", "Cc", "Date", "Subject"):
        written.update(raw_header(mail, name).encode("utf-8", "surrogatepass") + b"\0")
    return written.hexdigest()[:32]


def _names(mail: MailMessage, fingerprint: str, seen: dict[str, str]) -> tuple[str, str | None, str] | None:
    """Message id, provider id and the id that replies name; None for a mail that was met before."""
    message_id = "".join(message_ids(mail, "Message-ID")[:1])
    by_content = f"sha256-{fingerprint}"
    name = legal_id("", message_id) if message_id else by_content
    if seen.get(name, fingerprint) != fingerprint:
        name = by_content
    if name in seen:
        return None
    seen[name] = fingerprint
    return name, None if name is by_content else name, message_id or name


def _conversation(
    source: ImportFile, thread: list[MailSummary], own_addresses: frozenset[str], options: ImportOptions
) -> Iterator[ImportedConversation | BadRecord]:
    messages: list[Message] = []
    for envelope in thread:
        message = _message(source, envelope, own_addresses)
        if isinstance(message, BadRecord):
            yield message
        else:
            messages.append(message)
    if not messages:
        return
    people = dict.fromkeys(a for e in thread for a in (e.sender, *e.recipients) if a and not is_own(a, own_addresses))
    first = thread[0]
    meta = make_record(
        ConversationMeta,
        {
            "id": legal_id("mail:", first.thread_ids[0]),
            "channel": Channel.EMAIL,
            "property_id": options.property_id,
            "participants": [legal_id("", address) for address in people][:MAX_PARTICIPANTS],
            "created_at": first.at,
        },
        first.location,
    )
    if isinstance(meta, BadRecord):
        yield meta
        return
    yield ImportedConversation(meta, make_turns(meta, thread_order(messages)), first.location)


def _message(source: ImportFile, envelope: MailSummary, own_addresses: frozenset[str]) -> Message | BadRecord:
    data = source.read_at(envelope.start, envelope.end - envelope.start)
    try:
        body = parse_content(parse_mail(_QUOTED_FROM.sub(rb"\1", data)), envelope.message_id)
    except PARSE_ERRORS as error:
        return BadRecord(envelope.location, f"its text cannot be read ({type(error).__name__})")
    ours = is_own(envelope.sender, own_addresses)
    role = Role.AGENT if ours else Role.CUSTOMER
    return make_record(
        Message,
        {
            "id": envelope.message_id,
            "provider_id": envelope.provider_id,
            "direction": Direction.OUTBOUND if ours else Direction.INBOUND,
            "role": Role.SYSTEM if envelope.automatic else role,
            "text": body.text,
            "at": envelope.at,
            "attachments": body.attachments,
        },
        envelope.location,
    )


def guess_own_addresses(envelopes: Sequence[MailSummary]) -> frozenset[str]:
    """Ours, where nobody has said: the senders of what is labelled as sent; else the address that most mails have
    been delivered to; else the one that takes part in most mails. In a tie, whoever was written to first.
    """
    if sent := frozenset(e.sender for e in envelopes if e.labelled_sent and e.sender):
        return sent
    delivered = Counter(address for e in envelopes for address in set(e.delivered_to))
    counts = delivered or Counter(address for e in envelopes for address in {e.sender, *e.recipients} if address)
    if not counts:
        return frozenset()
    most = max(counts.values())
    leading = {address for address, count in counts.items() if count == most}
    by_time = sorted(envelopes, key=lambda e: (e.at, e.start))
    written_to = (address for e in by_time for address in e.recipients if address in leading)
    return frozenset([next(written_to, min(leading))])


def group_into_threads(envelopes: Iterable[MailSummary], own_addresses: frozenset[str]) -> list[list[MailSummary]]:
    """The mails of each conversation by time, and the conversations by their first mail.

    Mails are of one conversation if one refers to the other, or both to a third, even one that is not here; or if
    they have the same subject and the same people besides us, within 30 days of each other.
    """
    ordered = sorted(envelopes, key=lambda e: (e.at, e.start))
    groups = _Groups(len(ordered))
    first_of_id: dict[str, int] = {}
    last_of_subject: dict[tuple[str, frozenset[str]], int] = {}
    for i, envelope in enumerate(ordered):
        for thread_id in envelope.thread_ids:
            groups.join(first_of_id.setdefault(thread_id, i), i)
        if not envelope.subject:
            continue
        people = frozenset(a for a in (envelope.sender, *envelope.recipients) if a and not is_own(a, own_addresses))
        before = last_of_subject.get((envelope.subject, people))
        if before is not None and envelope.at - ordered[before].at <= SAME_SUBJECT_WITHIN:
            groups.join(before, i)
        last_of_subject[envelope.subject, people] = i
    threads: dict[int, list[MailSummary]] = {}
    for i, envelope in enumerate(ordered):
        threads.setdefault(groups.root(i), []).append(envelope)
    return list(threads.values())


class _Groups:
    """Disjoint sets of numbers; the smallest stands for its set."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def root(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.root(a), self.root(b)))
        self._parent[high] = low
