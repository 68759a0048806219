"""What the inbox is measured on is what afterturn itself would have written."""

from __future__ import annotations

from itertools import islice

from bench import aws_fleet

from afterturn.clock import parse_time
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role, Turn
from afterturn.store.dynamodb import RecencyLayouts, rows
from afterturn.store.dynamodb.plans import WriteContext, WritePlan, plan_settle
from afterturn.store.dynamodb.requests import Attributes


def settled(like: Attributes) -> Attributes:
    """The item of a conversation that the writer makes of one turn."""
    at = parse_time(like["lastMessageAt"])
    meta = ConversationMeta(
        id=like["id"], channel=Channel(like["channel"]), property_id=like["propertyId"], participants=("+15550100",)
    )
    said = Message(id="m", direction=Direction.INBOUND, role=Role.CUSTOMER, text="hello", at=at)
    turn = Turn(conversation=meta, messages=(said,))
    plan = plan_settle(turn, WriteContext(), RecencyLayouts(), now=at, emitter="worker", call="c")
    assert isinstance(plan, WritePlan)
    first = plan.actions[0]
    return {"PK": first.key[0], "SK": first.key[1], **first.item}


def test_items_have_the_attributes_and_index_keys_of_settled_ones() -> None:
    for item in next(aws_fleet.batches(25)):
        own = {name for name, value in item.items() if value is not None and not name.startswith(rows.STAMP)}
        like = settled(item)
        assert own == {name for name, value in like.items() if value is not None}
        for name in ("PK", "SK", *(name for name in own if name.startswith("GSI") and not name.startswith("GSI1"))):
            assert item[name] == like[name]
        assert rows.conversation(item).reactions.keys() == set(aws_fleet.CONSUMERS)


def test_every_build_gives_the_same_conversations_over_all_properties() -> None:
    built = [item for batch in aws_fleet.batches(4_000) for item in batch]
    assert [item["id"] for item in built] == [f"conv-{number:010}" for number in range(4_000)]
    assert {item["propertyId"] for item in built} == {None, *map(aws_fleet.property_name, range(aws_fleet.PROPERTIES))}
    assert next(aws_fleet.batches(4_000)) == list(islice(built, 25))
