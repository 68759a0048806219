"""A mail of ours, as RFC 5322 has it: whom it answers, that it is ours, and whether a machine wrote it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from email.charset import QP, Charset
from email.header import Header
from email.message import Message as MailMessage
from email.policy import compat32
from email.utils import format_datetime, formataddr, getaddresses

from afterturn.channels.email.suppression import AUTOMATIC_HEADERS, OWN_HEADER
from afterturn.channels.sanitize import clean_string
from afterturn.channels.sending import OutboundMessage, Reason, Undeliverable, text_with_links
from afterturn.ids import digest

MAX_RECIPIENTS = 50
MAX_REFERENCES = 30
MAX_SUBJECT_CHARS = 250
NO_SUBJECT = "(no subject)"

_ATOM = r"[!#-'*+/-9=?A-Z^-~-]{1,64}"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?=[^@]{{1,64}}@){_ATOM}(?:\.{_ATOM})*@(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\Z")
_MESSAGE_ID = re.compile(r"[!-;=?-~]{1,400}@[!-;=?A-~]{1,400}\Z")
_SES_ID = re.compile(r"[0-9a-f]{16}-[0-9a-f-]{36}-[0-9]{6}\Z")
_SPACES = re.compile(r"\s+")
_LINE_END = re.compile(r"\r\n|\r|\n")


def single_part(message: OutboundMessage, provider: str) -> tuple[OutboundMessage, ...]:
    """A mail is one part, however long. Raises Undeliverable where there is nothing to send, or nobody to get it."""
    if not text_with_links(message, provider).strip():
        raise Undeliverable(provider, Reason.EMPTY)
    mail_addresses(message.recipients, provider)
    return (replace(message, part=0),)


def compose(message: OutboundMessage, provider: str, *, sender: str, region: str, now: datetime) -> bytes:
    """The mail. ``sender``: its ``From``, with a name or without; ``region``: where SES names mails of its own.

    Raises Undeliverable. ``Message-ID`` and ``Date`` stand where the provider does not set them itself.
    """
    name, ours = name_and_address(sender, provider)
    mail = MailMessage(policy=compat32)
    mail["From"] = formataddr((name, ours))
    mail["To"] = ",\n ".join(mail_addresses(message.recipients, provider))
    (account,) = mail_addresses((message.account,), provider) if _is_mail_address(message.account) else (ours,)
    if account.lower() != ours.lower():
        mail["Reply-To"] = account
    mail["Subject"] = _subject(message.subject)
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message_id(message, ours)}>"
    earlier = _references(message, region)
    if answered := _reference(message.in_reply_to or "", region):
        mail["In-Reply-To"] = f"<{answered}>"
    if earlier:
        mail["References"] = "\n ".join(f"<{name_id}>" for name_id in earlier)
    mail[OWN_HEADER] = _own_name(message)
    for header, value in AUTOMATIC_HEADERS.items() if message.automatic else ():
        mail[header] = value
    charset = Charset("utf-8")
    charset.body_encoding = QP
    mail.set_payload(_LINE_END.sub("\n", clean_string(text_with_links(message, provider))), charset)
    return _LINE_END.sub("\r\n", mail.as_string(maxheaderlen=0)).encode("ascii")


def message_id(message: OutboundMessage, address: str) -> str:
    """The same for the same message, so that servers know a second copy."""
    return f"{digest(message.conversation_id, message.message_id)}@{address.rpartition('@')[2]}"


def name_and_address(sender: str, provider: str) -> tuple[str, str]:
    """Of one sender: ``Homes <office@example.com>`` or the address alone. Raises Undeliverable for what is none."""
    parsed = getaddresses([clean_string(sender)])
    name, address = parsed[0] if len(parsed) == 1 else ("", "")
    return name, mail_addresses((address,), provider)[0]


def mail_addresses(addresses: Iterable[str], provider: str) -> tuple[str, ...]:
    """Each once, with domains in ASCII. Raises Undeliverable for what is no address, for none and for too many."""
    valid = tuple(dict.fromkeys(_address(address, provider) for address in addresses))
    if not 0 < len(valid) <= MAX_RECIPIENTS:
        raise Undeliverable(provider, Reason.BAD_ADDRESS)
    return valid


def _address(text: str, where: str) -> str:
    local, _, domain = text.strip().rpartition("@")
    try:
        address = f"{local}@{domain.encode('idna').decode()}"
    except UnicodeError:
        raise Undeliverable(where, Reason.BAD_ADDRESS) from None
    if not address.isascii() or not _ADDRESS.match(address):
        raise Undeliverable(where, Reason.BAD_ADDRESS)
    return address


def _is_mail_address(account: str) -> bool:
    return "@" in account


def _subject(subject: str | None) -> str:
    line = _SPACES.sub(" ", clean_string(subject)).strip()[:MAX_SUBJECT_CHARS] or NO_SUBJECT
    return Header(line, "us-ascii" if line.isascii() else "utf-8", header_name="Subject").encode()


def _references(message: OutboundMessage, region: str) -> list[str]:
    """The first, which names the thread, and the last ones, without what is no Message-ID."""
    answered = _reference(message.in_reply_to or "", region)
    ids = list(dict.fromkeys(reference for name in message.references if (reference := _reference(name, region))))
    ids = [reference for reference in ids if reference != answered] + ([answered] if answered else [])
    return ids if len(ids) <= MAX_REFERENCES else [ids[0], *ids[1 - MAX_REFERENCES :]]


def _reference(name: str, region: str) -> str | None:
    """The Message-ID of a provider id: SES calls a mail that it sent by the local part alone."""
    if _SES_ID.match(name):
        return f"{name}@{ses_host(region)}"
    return name if _MESSAGE_ID.match(name) else None


def ses_host(region: str) -> str:
    return f"{'email' if region == 'us-east-1' else region}.amazonses.com"


def _own_name(message: OutboundMessage) -> str:
    name = message.message_id
    return name if name.isascii() and name.isprintable() else digest(name)
