"""Parts of the recency index as SQL."""

from __future__ import annotations

from afterturn.clock import to_text
from afterturn.store.port import Range, RecencyKey


def conditions(part: Range, before: RecencyKey | None) -> tuple[str, list[object]]:
    """The part of the index as a key condition: one seek, whatever the size of the fleet."""
    terms: list[str] = []
    values: list[object] = []
    if part.of_property:
        terms.append("property_id IS ?")
        values.append(part.property_id)
    if part.since is not None:
        terms.append("recency >= ?")
        values.append(to_text(part.since))
    if part.until is not None:
        terms.append("recency < ?")
        values.append(to_text(part.until))
    if before is not None:
        terms.append("(recency, id) < (?, ?)")
        values += [to_text(before.at), before.conversation_id]
    return " AND ".join(terms) or "1", values
