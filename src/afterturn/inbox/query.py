"""A query of the inbox."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator

from afterturn.inbox.filters import Filters
from afterturn.model import UNASSIGNED

MAX_LIMIT = 500


class InboxQuery(Filters):
    """A window (by name, or ``since <= recency < until``) and filters; :mod:`afterturn.inbox.filters` declares them.

    ``limit``: rows a page, at most 500. ``budget``: index rows that one request may read.
    """

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 50
    budget: Annotated[int, Field(ge=1, le=1_000_000)] = 5_000

    @model_validator(mode="after")
    def _one_window(self) -> Self:
        if self.window is not None and self.since is not None:
            raise ValueError("give a window or since, not both")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("since is not before until")
        return self

    def bounds(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """``since`` and ``until``; a relative window is counted back from now. Default: all time."""
        length = None if self.window is None else self.window.length
        return (self.since if length is None else now - length), self.until

    def fingerprint(self) -> str:
        """What a cursor is bound to: everything that selects and orders rows."""
        asked = self.model_dump(mode="json", exclude={"limit", "budget"})
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def property_ids(query: InboxQuery) -> tuple[str | None, ...]:
    """The query's properties, each once; None: unassigned."""
    return tuple(dict.fromkeys(None if property_id == UNASSIGNED else property_id for property_id in query.properties))
