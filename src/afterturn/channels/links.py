"""Files that go out: named by their addresses, never fetched by us. Pure."""

from __future__ import annotations

import re

from afterturn.channels.sending import OutboundMessage, Reason, Undeliverable
from afterturn.model import Attachment

_HTTPS = re.compile(r"https://[A-Za-z0-9._~\[\]:-]+(?:[/?#][!-~]*)?\Z")


def fetchable(message: OutboundMessage, where: str) -> tuple[Attachment, ...]:
    """The message's files. Raises Undeliverable where one is at no https address: it could not be had by others."""
    if not all(_HTTPS.match(file.url) for file in message.attachments):
        raise Undeliverable(where, Reason.BAD_ATTACHMENT)
    return message.attachments


def with_links(message: OutboundMessage, where: str) -> str:
    """The text, and a line for each file: for channels that take no files by address."""
    lines = [
        f"{file.name.strip()}: {file.url}" if file.name.strip() else file.url for file in fetchable(message, where)
    ]
    return "\n\n".join(filter(None, (message.text.rstrip() if lines else message.text, "\n".join(lines))))
