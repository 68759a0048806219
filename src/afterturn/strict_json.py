"""JSON that means one thing: no name twice, no NaN, UTF-8."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from afterturn.errors import InvalidInput

_EMPTY = "is empty; give one object as JSON"


class _Ambiguous(Exception):
    """What two readers would take for different things."""


def read_json(data: bytes, *, where: str) -> object:
    """The value. Raises InvalidInput that says what is wrong, and where; ``where``: what the bytes are, for people."""
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_once,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except _Ambiguous as error:
        problem = str(error)
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 (byte {error.start + 1})"
    except json.JSONDecodeError as error:
        where_to = f"line {error.lineno}, column {error.colno}"
        problem = f"is not JSON; what stands at {where_to} cannot stand there" if data.strip() else _EMPTY
    except RecursionError:
        problem = "is nested too deeply"
    except ValueError:
        problem = "has a number of too many digits"
    raise InvalidInput(f"{where}: {problem}")


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise _Ambiguous(f"the name {name[:40]!r} stands twice in one object")
        members[name] = value
    return members


def _no_constant(name: str) -> Any:
    raise _Ambiguous(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Ambiguous("has a number that is too large")
    return value
