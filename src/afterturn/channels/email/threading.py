"""What makes mails one conversation where none of them names another. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta

SAME_SUBJECT_WITHIN = timedelta(days=30)
"""Mails of one subject and the same people are of one conversation if no more time than this lies between them."""

_REPLY_MARKS = re.compile(
    r"\s*(?:(?:re|aw|fw|fwd|wg|sv|vs|antw|rv|tr|ref|odp|ynt)\s*(?:\[\d+\])?\s*[:\uff1a]\s*)+", re.I
)


def normal_subject(subject: str) -> str:
    """A subject without reply marks, in lower case.

    >>> normal_subject("Re: AW: [2] The  boiler")
    '[2] the boiler'
    """
    return " ".join(_REPLY_MARKS.sub("", subject, count=1).casefold().split())


def is_own(address: str, own_addresses: Collection[str]) -> bool:
    """Whether an address is ours, by itself or by its domain (``@example.com``)."""
    return address in own_addresses or f"@{address.rpartition('@')[2]}" in own_addresses
