"""Addresses and ids that come from outside, as conversations and records carry them: one spelling each.

Files that are imported and webhooks that come in use the same functions, so that both lead to one conversation.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

from afterturn.model import check_id

MAX_SHORT_CODE_DIGITS = 6
"""A number this short is a service's and has no country."""

_PUNCTUATION = re.compile(r"[\s\-().\u2010-\u2015\u202a-\u202e\u2060-\u2069\u00a0]+")
_NUMBER = re.compile(r"\+?[0-9*#]+\Z")
_DIGITS = re.compile(r"[0-9]+\Z")
_SCHEME = re.compile(r"([a-z]{2,20}):(.*)\Z", re.DOTALL)


def normalise(address: str, region: str | None = None) -> str:
    """A phone number as E.164 where that can be told; a name, a short code or an e-mail address only trimmed.

    ``region``: the country (``US``) whose national numbers are completed; without it ``515 822 6442`` stays as it is,
    as it could be anybody's. A number after a network's name (``whatsapp:``) is that network's own spelling and is
    not completed. A space where a form has lost its plus sign is taken for one.

    >>> normalise(" +1 (515) 822-6442"), normalise("(515) 822-6442", "US"), normalise("12345", "US")
    ('+15158226442', '+15158226442', '12345')
    >>> normalise(" My Bank"), normalise("whatsapp:+15158226442")
    ('My Bank', 'whatsapp:+15158226442')
    """
    scheme = _SCHEME.match(address.strip())
    if scheme is None:
        return _phone(address, region)
    if scheme[1] == "tel":
        return normalise(scheme[2], region)
    packed = _packed(scheme[2])
    lost_plus = "+" if scheme[2].startswith(" ") and _DIGITS.match(packed) else ""
    return f"{scheme[1]}:{lost_plus}{packed if _NUMBER.match(packed) else scheme[2].strip()}"


def _phone(address: str, region: str | None) -> str:
    packed = _packed(address)
    if not _NUMBER.match(packed):
        return address.strip()
    number: str | None = None
    if packed.startswith("+"):
        number = _e164(packed, None)
    elif address.startswith(" "):
        number = _e164("+" + packed, None)
    if number is None and region and len(packed) > MAX_SHORT_CODE_DIGITS and _DIGITS.match(packed):
        number = _e164(packed, region)
    return number or packed


def check_region(region: str) -> str:
    """The two letters of a country that has phone numbers; raises ValueError for others."""
    from phonenumbers import SUPPORTED_REGIONS  # noqa: PLC0415 - see _e164

    if region not in SUPPORTED_REGIONS:
        raise ValueError(f"{region!r} is not a country's two capital letters, such as US or DE")
    return region


def digest(*parts: str) -> str:
    """32 hexadecimal digits that stand for the parts, the same in every run; takes lone surrogates too."""
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def legal_id(prefix: str, source: str) -> str:
    """``prefix`` and the source's own id where that makes a legal id, else ``prefix`` and its digest."""
    try:
        return check_id(prefix + source.strip()) if source.strip() else prefix + digest(source)
    except ValueError:
        return prefix + digest(source)


def _packed(address: str) -> str:
    """Without what people put between digits, and with the digits of all scripts as ASCII."""
    packed = _PUNCTUATION.sub("", address)
    if packed.isascii():
        return packed
    return "".join(str(unicodedata.decimal(char, char)) for char in packed.replace("\uff0b", "+"))


@lru_cache(maxsize=10_000)
def _e164(number: str, region: str | None) -> str | None:
    """Judged by length only: which ranges are in use changes with every release, and ids must not."""
    import phonenumbers  # noqa: PLC0415 - 20 ms, and most commands meet no number

    try:
        parsed = phonenumbers.parse(number, region)
    except phonenumbers.NumberParseException:
        return None
    if phonenumbers.is_possible_number_with_reason(parsed) != phonenumbers.ValidationResult.IS_POSSIBLE:
        return None
    return phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)
