"""Mail that gets no automatic reply, and the headers that mark ours. Pure.

After RFC 3834, and what senders do who have not read it. ``X-Auto-Response-Suppress`` is no reason: Outlook sets it on
what people write.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from afterturn.channels.email.addresses import is_own
from afterturn.channels.types import SuppressReason

OWN_HEADER = "X-Afterturn-Message"
"""On every mail that we send: the id of its message. Whoever forwards it or sends it back does not write to us."""

AUTOMATIC_HEADERS = {"Auto-Submitted": "auto-replied", "X-Auto-Response-Suppress": "All"}
"""On every mail of ours that no person wrote, beside :data:`OWN_HEADER`."""

READ_HEADERS = (
    "Auto-Submitted",
    "Content-Type",
    "List-Id",
    "List-Post",
    "List-Unsubscribe",
    "Precedence",
    "Return-Path",
    "X-Auto-Reply",
    "X-Autoreply",
    "X-Autorespond",
    "X-Autoresponder",
    "X-Envelope-From",
    "X-Failed-Recipients",
    "X-Mailing-List",
    "X-Mailman-Version",
    OWN_HEADER,
)
"""The headers that :func:`suppress_reason` reads."""

_REPORT = re.compile(r"multipart/report\b", re.I)
_REPORT_TYPE = re.compile(r"\breport-type\s*=\s*\"?([\w-]{1,60})", re.I)
_MAILER = re.compile(r"(?:mailer-daemon|postmaster|mail-daemon|mdaemon)@", re.I)

_OF_PART = {
    "message/delivery-status": SuppressReason.BOUNCE,
    "message/global-delivery-status": SuppressReason.BOUNCE,
    "message/disposition-notification": SuppressReason.RECEIPT,
    "message/global-disposition-notification": SuppressReason.RECEIPT,
    "message/feedback-report": SuppressReason.COMPLAINT,
}
_OF_REPORT = {
    "delivery-status": SuppressReason.BOUNCE,
    "disposition-notification": SuppressReason.RECEIPT,
    "feedback-report": SuppressReason.COMPLAINT,
}


def suppress_reason(
    headers: Mapping[str, str],
    *,
    kinds: Collection[str] = (),
    sender: str = "",
    own_addresses: Collection[str] = frozenset(),
) -> SuppressReason | None:
    """Why a mail must not be answered automatically; None if it may be.

    ``headers``: :data:`READ_HEADERS` by their names in lower case; ``kinds``: the media types of its parts;
    ``own_addresses``: our addresses, or domains such as ``@example.com``.
    """
    if headers.get(OWN_HEADER.lower()) or is_own(sender, own_addresses):
        return SuppressReason.OWN
    return _reported(headers, kinds) or _automatic(headers, sender) or _bulk(headers)


def _reported(headers: Mapping[str, str], kinds: Collection[str]) -> SuppressReason | None:
    kind = headers.get("content-type", "")[:2000]
    if not _REPORT.match(kind.strip()):
        return None
    report_type = _REPORT_TYPE.search(kind)
    by_part = (_OF_PART[part] for part in kinds if part in _OF_PART)
    return _OF_REPORT.get(report_type[1].lower() if report_type else "") or next(by_part, SuppressReason.BOUNCE)


def _automatic(headers: Mapping[str, str], sender: str) -> SuppressReason | None:
    from_mailer = bool(_MAILER.match(sender))
    # RFC 3834 lets a comment and parameters follow the word.
    submitted = re.split(r"[\s;(,]", headers.get("auto-submitted", "").strip().lower(), maxsplit=1)[0]
    if headers.get("x-failed-recipients") or (from_mailer and submitted not in {"", "no"}):
        return SuppressReason.BOUNCE
    replies = ("x-auto-reply", "x-autoreply", "x-autorespond", "x-autoresponder")
    if submitted not in {"", "no"} or any(headers.get(n, "").strip().lower() not in {"", "no"} for n in replies):
        return SuppressReason.AUTO_REPLY
    if _precedence(headers) in {"auto_reply", "auto-reply"}:
        return SuppressReason.AUTO_REPLY
    nobody = any(_is_nobody(headers.get(name, "")) for name in ("return-path", "x-envelope-from"))
    return SuppressReason.BOUNCE if nobody or from_mailer else None


def _bulk(headers: Mapping[str, str]) -> SuppressReason | None:
    names = ("list-id", "list-post", "list-unsubscribe", "x-mailing-list", "x-mailman-version")
    listed = any(headers.get(name, "").strip() for name in names)
    return SuppressReason.BULK if listed or _precedence(headers) in {"bulk", "junk", "list"} else None


def _precedence(headers: Mapping[str, str]) -> str:
    return headers.get("precedence", "").partition(",")[0].strip().lower()


def _is_nobody(path: str) -> bool:
    """Whether a mail came from the null sender, ``<>``."""
    return path.partition(",")[0].strip() == "<>"
