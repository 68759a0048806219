"""What is wrong with a value, in our words: what pydantic found, said as our own checks say it.

Each text goes on from the name of the field ("limit: has to be at most 500"), says what is allowed, and holds nothing
of the value itself, which may be content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_NO_NUMBER = "has to be a number"
_NO_WHOLE = "has to be a whole number"
_NO_TIME = "has to be an ISO 8601 time with an offset, such as 2026-03-01T12:00:05Z"

_TEXTS: Mapping[str, str] = {
    "missing": "is missing; it has to be given",
    "missing_argument": "is missing; it has to be given",
    "extra_forbidden": "is unknown here; leave it out, or look how it is spelt",
    "none_required": "has to be null",
    "greater_than": "has to be more than {gt}",
    "greater_than_equal": "has to be at least {ge}",
    "less_than": "has to be less than {lt}",
    "less_than_equal": "has to be at most {le}",
    "multiple_of": "has to be a multiple of {multiple_of}",
    "finite_number": "has to be a finite number",
    "string_too_long": "is too long; at most {max_length} characters are allowed",
    "string_pattern_mismatch": "does not look as it has to, which is {pattern}",
    "too_long": "has too many entries; at most {max_length} are allowed",
    "enum": "has to be {expected}",
    "literal_error": "has to be {expected}",
    "recursion_loop": "is nested too deeply",
    "recursion_depth_exceeded": "is nested too deeply",
    "url_scheme": "has to be an address that begins with {expected_schemes}",
    "path_type": "has to be a path",
}
_KINDS: Mapping[str, str] = {
    "string": "has to be a text",
    "int": _NO_WHOLE,
    "float": _NO_NUMBER,
    "decimal": _NO_NUMBER,
    "bool": "has to be true or false",
    "model": "has to be an object",
    "dataclass": "has to be an object",
    "dict": "has to be an object",
    "mapping": "has to be an object",
    "invalid": "has to be an object whose names are texts",
    "list": "has to be a list",
    "tuple": "has to be a list",
    "set": "has to be a list",
    "frozen": "has to be a list",
    "iterable": "has to be a list",
    "datetime": _NO_TIME,
    "date": _NO_TIME,
    "timezone": _NO_TIME,
    "time": "has to be a duration such as 90s, 5m, 24h or 7d",
    "url": "has to be an address such as https://example.com",
}
"""By the first word of pydantic's name of an error, for whole families of them."""


_PATTERNS: Mapping[str, str] = {
    r"^[a-z0-9][a-z0-9_.-]{0,63}$": "has to be 1 to 64 of a-z, 0-9, dot, dash and underscore, a letter or digit first",
    r"^[\x21-\x7e]{1,200}$": "has to be 1 to 200 visible ASCII characters without spaces, such as a UUID",
    r"^\d{1,9}(\.\d{1,6})?(ms|s|m|h|d)$": "has to be a duration such as 90s, 5m, 24h or 7d",
    r"\Ahttps?://[^\s/?#@]+(/[^\s?#]*)?\z": "has to be an address with https://, without user, query or fragment",
    r"\Ahttps?://[^\s/?#@]+([/?][^\s#]*)?\z": "has to be an address with https:// or http://, without user or fragment",
    r"\Ahttps?://[^\s?#]+\z": "has to be an address with https://, without a query or fragment",
    r"^[A-DFa-df]$": "has to be A, B, C, D or F",
    r"\A[A-Z]{2}\z": "has to be the two capital letters of a country",
    r"\A[a-zA-Z0-9_.-]{3,255}\z": "has to be 3 to 255 letters, digits, dots, dashes and underscores",
}
"""A pattern says nothing to whoever types a value."""


_STEP = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}\Z")


def path_of(steps: Iterable[int | str], where: str = "") -> str:
    """Such as ``messages[2].at``. A name that nobody knows can be anything, a message's text included.

    >>> path_of(["messages", 2, "at"])
    'messages[2].at'
    >>> path_of(["What a customer wrote"], "turn")
    'turn.(a field)'
    """
    path = where
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            name = step if _STEP.match(step) else "(a field)"
            path += f".{name}" if path else name
    return path


def problem_of(error: Mapping[str, Any]) -> str:
    """The text for one entry of ``ValidationError.errors()``; with ``ctx``, it also says what is allowed."""
    kind, context = str(error["type"]), error.get("ctx") or {}
    if kind in ("value_error", "assertion_error"):  # a check of ours, in our words
        return str(error["msg"]).partition(", ")[2]
    if kind in ("string_too_short", "too_short"):
        least = context.get("min_length", 1)
        if least == 1:
            return "is empty; give something"
        return f"is too short; at least {least} {'characters' if kind == 'string_too_short' else 'entries'} are needed"
    if kind == "string_pattern_mismatch" and (words := _PATTERNS.get(str(context.get("pattern")))):
        return words
    try:
        return _TEXTS[kind].format(**context)
    except KeyError:
        return _KINDS.get(kind.partition("_")[0], "is of the wrong kind")
