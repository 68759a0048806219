"""A record made without checks is the same as one made with them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import BaseModel, ValidationError

from afterturn.model import Channel, Conversation, Direction, Message, Role, StoredStamp, unchecked

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECORDS: list[BaseModel] = [
    Message(id="m1", direction=Direction.INBOUND, role=Role.CUSTOMER, text="hello", at=AT),
    Conversation(id="c1", channel=Channel.SMS, created_at=AT, reactions={"topics": StoredStamp(through=AT)}),
    StoredStamp(through=AT, at=AT, data={"topics": ["pests"]}),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_an_unchecked_record_cannot_be_told_from_a_checked_one(record: BaseModel) -> None:
    copy = unchecked(type(record), **dict(record))

    assert copy == record
    assert repr(copy) == repr(record)
    assert copy.model_dump_json(by_alias=True) == record.model_dump_json(by_alias=True)
    assert copy.model_copy() == record


def test_an_unchecked_record_is_frozen() -> None:
    copy = unchecked(Message, **dict(RECORDS[0]))

    with pytest.raises(ValidationError):
        copy.text = "other"  # type: ignore[misc]
