"""Inbound mail: its text, its conversation, and whether it gets an automatic reply. Pure.

Shared by the mail providers. Its time is that of its receipt: the ``Date`` header is the sender's and is only
shown. Its id is its ``Message-ID``; without one, what the provider calls it, else a hash of its content. Its text is
what is new in it, beside the whole. Where the body is empty the subject is what was said.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.message import Message as MailMessage

from afterturn.channels.email.addresses import is_own
from afterturn.channels.email.quoting import strip_quotes
from afterturn.channels.email.reader import (
    PARSE_ERRORS,
    Content,
    addresses,
    decode,
    header,
    is_address,
    message_ids,
    parse_content,
    parse_date,
    parse_mail,
    raw_header,
)
from afterturn.channels.email.suppression import READ_HEADERS, suppress_reason
from afterturn.channels.sanitize import (
    MAX_FACT_CHARS,
    attachment,
    clean_line,
    clean_lines,
    clean_message_text,
    limit_attachments,
)
from afterturn.channels.types import InboundMessage, Party, SuppressReason, Thread
from afterturn.clock import parse_time
from afterturn.ids import digest, legal_id
from afterturn.model import MAX_ID_CHARS, MAX_PARTICIPANTS, MAX_TEXT_BYTES, Attachment, Channel

MAX_MAIL_BYTES = 40 * 2**20
"""What SES takes; of a larger mail the beginning is read."""
MAX_HEADER_BYTES = 2**20
MAX_AFTER = 40
NOBODY = "unknown"
"""The sender of a mail that names none."""

_SES_ID = re.compile(r"([0-9a-f]{16}-[0-9a-f-]{36}-\d{6})@[a-z0-9-]{1,40}\.amazonses\.com", re.I)

SAME_SUBJECT_WITHIN = timedelta(days=30)
"""Mails of one subject and the same people are of one conversation if no more time than this lies between them."""

_REPLY_MARKS = re.compile(
    r"\s*(?:(?:re|aw|fw|fwd|wg|sv|vs|antw|rv|tr|ref|odp|ynt)\s*(?:\[\d+\])?\s*[:\uff1a]\s*)+", re.I
)


@dataclass(frozen=True, slots=True)
class MailReceipt:
    """How a mail was received: facts that its sender does not control.

    ``accounts``: our mailboxes that it was delivered to, if known; ``own_addresses``: our addresses, or domains such as
    ``@example.com``; ``mail_id``: the provider's id; ``suppress``: set if the provider classified it as spam.
    """

    at: datetime
    accounts: tuple[str, ...] = ()
    own_addresses: frozenset[str] = frozenset()
    mail_id: str | None = None
    envelope_sender: str = ""
    suppress: SuppressReason | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReceivedMail:
    """What is in a mail, however it was carried.

    ``references``: ids of earlier mails, oldest first; ``new_text``: what the provider says is new in it;
    ``headers``, ``kinds``: for :func:`~afterturn.channels.email.suppression.suppress_reason`; ``problem``: what is
    wrong with the mail.
    """

    message_id: str
    sender: str
    recipients: tuple[str, ...]
    subject: str
    text: str
    fingerprint: str
    sent_at: datetime | None = None
    reply_to: str = ""
    references: tuple[str, ...] = ()
    attachments: Sequence[Mapping[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    kinds: Collection[str] = ()
    new_text: str | None = None
    group: str | None = None
    problem: str | None = None


def read_mail(raw: bytes, receipt: MailReceipt) -> InboundMessage:
    """A mail of the internet (RFC 5322), whatever is wrong with it. Raises MissingExtra and nothing else."""
    return inbound_message(received_mail(raw, receipt.mail_id or ""), receipt)


def inbound_message(mail: ReceivedMail, receipt: MailReceipt) -> InboundMessage:
    """What a mail means."""
    message_id = _name(mail, receipt)
    text, whole, extra = _text(mail)
    sender = mail.sender or receipt.envelope_sender.lower() or NOBODY
    own_addresses = receipt.own_addresses | frozenset(receipt.accounts)
    outbound = is_own(sender, own_addresses)
    account = sender if outbound and not receipt.accounts else _account(mail, receipt)
    suppress = (
        suppress_reason(mail.headers, kinds=mail.kinds, sender=sender, own_addresses=own_addresses) or receipt.suppress
    )
    if outbound and receipt.extra.get("dmarc") == "FAIL":
        # It claims to be from us, and our own domain disowns it: we did not send it.
        outbound, suppress, extra = False, SuppressReason.SENDER_NOT_IN_THREAD, {**extra, "from": sender}
    answers = _reply_to_address(mail, receipt, account, own_addresses) if suppress is None and not outbound else None
    if outbound:
        extra["direction"] = "outbound"
        sender = next((address for address in mail.recipients if not is_own(address, own_addresses)), sender)
    others = (sender, *(address for address in mail.recipients if not is_own(address, own_addresses)))
    people = dict.fromkeys(_short_id(address) for address in others if address not in {account, NOBODY})
    return InboundMessage(
        channel=Channel.EMAIL,
        provider_id=message_id,
        party=Party(_short_id(account), _short_id(sender), None if answers in (None, sender) else answers),
        thread=_thread(mail, message_id),
        at=receipt.at,
        text=text,
        attachments=_attachments(mail.attachments, extra),
        participants=tuple(people)[:MAX_PARTICIPANTS],
        sent_at=mail.sent_at,
        suppress=suppress,
        extra={**extra, **receipt.extra},
        full_text=whole,
    )


def received_mail(raw: bytes, mail_id: str = "") -> ReceivedMail:
    """What is in the bytes of a mail. Never raises. ``mail_id``: what its attachments are named after if need be."""
    kept = raw[:MAX_MAIL_BYTES]
    mail, problem = _parse(kept)
    message_id = "".join(message_ids(mail, "Message-ID")[:1])
    fingerprint = _fingerprint(mail, kept)
    name = message_id or mail_id or f"sha256-{fingerprint}"
    content, parts, trouble = (
        _content(mail, kept, name) if problem is None else (Content(_undivided(kept), []), [], None)
    )
    headers = {name.lower(): raw_header(mail, name) for name in READ_HEADERS}
    earlier = [*message_ids(mail, "References"), *message_ids(mail, "In-Reply-To")]
    kinds = [part.get_content_type() for part in parts]
    return ReceivedMail(
        message_id=message_id,
        sender="".join(addresses(mail, "From")[:1] or addresses(mail, "Sender")[:1]),
        recipients=tuple(addresses(mail, "To", "Cc")),
        subject=header(mail, "Subject"),
        text=content.text,
        fingerprint=fingerprint,
        sent_at=parse_date(raw_header(mail, "Date")),
        reply_to=_reply_to(mail),
        references=tuple(earlier or _reported_on(parts)),
        attachments=content.attachments,
        headers=headers,
        kinds=kinds,
        problem=problem or trouble or ("too large" if len(raw) > len(kept) else None),
    )


def _reply_to(mail: MailMessage) -> str:
    """The first address, if the header contains it as such: replies never go to an address that is pieced together."""
    header_text = raw_header(mail, "Reply-To").lower()
    return "".join(
        address
        for address in addresses(mail, "Reply-To")[:1]
        if re.search(rf"(?<![^\s<,;:\"]){re.escape(address)}\b", header_text)
    )


def received_time(value: object, now: datetime) -> datetime:
    """When the provider says that it was, which is not in the future; now where it does not say."""
    try:
        return min(parse_time(value), now) if isinstance(value, str) else now
    except ValueError:
        return now


def _parse(raw: bytes) -> tuple[MailMessage, str | None]:
    # A blank first line would end the headers before they begin.
    data = raw.lstrip(b" \t\r\n")
    try:
        return parse_mail(data), None
    except PARSE_ERRORS as error:
        return parse_mail(data[:MAX_HEADER_BYTES], headers_only=True), type(error).__name__


def _content(mail: MailMessage, raw: bytes, mail_id: str) -> tuple[Content, list[MailMessage], str | None]:
    """The text and the attachments, and all parts."""
    try:
        parts = list(mail.walk())
        inner = mail.get_payload(0) if mail.get_content_type() == "message/rfc822" and mail.is_multipart() else mail
        body = parse_content(inner if isinstance(inner, MailMessage) else mail, mail_id)
        if not body.text and mail.get_content_maintype() == "multipart" and not mail.is_multipart():
            # The parts cannot be told apart, so they are read as they stand.
            body = Content(_undivided(raw), [])
        return body, parts, None
    except PARSE_ERRORS as error:
        return Content(_undivided(raw), []), [], type(error).__name__


def _undivided(raw: bytes) -> str:
    body = re.split(rb"\r?\n\r?\n", raw.lstrip(b" \t\r\n")[: MAX_HEADER_BYTES + MAX_TEXT_BYTES], maxsplit=1)
    text = decode(body[1][: 2 * MAX_TEXT_BYTES], None) if len(body) > 1 else ""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def _reported_on(parts: Sequence[MailMessage]) -> list[str]:
    """The id of the mail that a report is about, out of the copy that comes with it."""
    if not parts or parts[0].get_content_type() != "multipart/report":
        return []
    for part in parts[1:]:
        kind = part.get_content_type()
        if kind == "message/disposition-notification":
            about = [i for inner in part.walk() for i in message_ids(inner, "Original-Message-ID")]
        elif kind == "text/rfc822-headers":
            payload = part.get_payload(decode=True)
            about = (
                message_ids(parse_mail(payload, headers_only=True), "Message-ID") if isinstance(payload, bytes) else []
            )
        elif kind == "message/rfc822" and part.is_multipart():
            inner = part.get_payload(0)
            about = message_ids(inner, "Message-ID") if isinstance(inner, MailMessage) else []
        else:
            continue
        if about:
            return about[:1]
    return []


def _fingerprint(mail: MailMessage, raw: bytes) -> str:
    """Of what the sender wrote: what servers add on the way differs from copy to copy."""
    body = re.split(rb"\r?\n\r?\n", raw.lstrip(b" \t\r\n"), maxsplit=1)
    whole = hashlib.sha256(body[1].replace(b"\r\n", b"\n").rstrip(b"\n") if len(body) > 1 else b"")
    for name in ("From", "To", "Cc", "Date", "Subject"):
        whole.update(raw_header(mail, name).encode("utf-8", "surrogatepass") + b"\0")
    return whole.hexdigest()[:32]


def _name(mail: ReceivedMail, receipt: MailReceipt) -> str:
    if mail.message_id:
        return legal_id("", mail.message_id)
    return legal_id("", receipt.mail_id) if receipt.mail_id else f"sha256-{mail.fingerprint}"


def _text(mail: ReceivedMail) -> tuple[str, str | None, dict[str, str]]:
    """What is new, the whole where that is more, and facts about both."""
    extra = clean_lines(subject=mail.subject, content=mail.fingerprint, unread=mail.problem)
    if mail.reply_to != mail.sender:
        extra |= clean_lines(reply_to=mail.reply_to)
    whole = clean_message_text(mail.text, extra)
    if not whole.strip() and mail.subject.strip():
        return clean_message_text(mail.subject, extra), None, extra | {"text": "subject"}
    new = (
        strip_quotes(whole)
        if mail.new_text is None
        else clean_message_text(mail.new_text, extra).strip() or whole.strip()
    )
    return new, whole if new != whole.strip() else None, extra


def _account(mail: ReceivedMail, receipt: MailReceipt) -> str:
    """The mailbox that was written to: of those that it was delivered to the one that the sender names."""
    delivered = [account.lower() for account in receipt.accounts]
    named = [address for address in mail.recipients if address in delivered]
    ours = [address for address in mail.recipients if is_own(address, receipt.own_addresses)]
    return next(iter([*named, *delivered, *ours, *mail.recipients]), NOBODY)


def _reply_to_address(
    mail: ReceivedMail, receipt: MailReceipt, account: str, own_addresses: Collection[str]
) -> str | None:
    """Where a person wants answers: never at an address of ours, which would answer itself, and not where the mail is
    disowned by its sender's domain.
    """
    reply_to = mail.reply_to
    if (
        not is_address(reply_to)
        or len(reply_to) > MAX_ID_CHARS
        or reply_to == account
        or is_own(reply_to, own_addresses)
    ):
        return None
    return None if receipt.extra.get("dmarc") == "FAIL" else reply_to


def _thread(mail: ReceivedMail, message_id: str) -> Thread:
    ids = list(dict.fromkeys(mail.references))
    root = ids[0] if ids else mail.group or mail.message_id or message_id
    nearest = [*ids[:-MAX_AFTER:-1], *ids[:1]]
    names = [name for message_id in nearest for name in _names_of(message_id)]
    subject = normal_subject(mail.subject[:MAX_FACT_CHARS])
    return Thread(legal_id("mail:", root), tuple(dict.fromkeys(names)), clean_line(subject) or None)


def _names_of(message_id: str) -> list[str]:
    """Under which provider ids a mail may be known: SES calls one that it sent by the local part alone."""
    ses = _SES_ID.fullmatch(message_id)
    return [legal_id("", message_id), *([ses[1]] if ses else [])]


def _short_id(address: str) -> str:
    return legal_id("", address) if len(address) <= MAX_ID_CHARS else digest(address)


def _attachments(files: Sequence[Mapping[str, str]], extra: dict[str, str]) -> tuple[Attachment, ...]:
    return limit_attachments([attachment(f.get("url"), f.get("mediaType"), f.get("name")) for f in files], extra)


def normal_subject(subject: str) -> str:
    """A subject without reply marks, in lower case.

    >>> normal_subject("Re: AW: [2] The  boiler")
    '[2] the boiler'
    """
    return " ".join(_REPLY_MARKS.sub("", subject, count=1).casefold().split())
