"""Converts items to records and back, without validating again what afterturn wrote.

Conversations of other writers may lack attributes or hold them in another form (a time as a number, an empty text).
They are read as far as possible; the index tools report them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from afterturn.aws.table import ENTITY, PHONE, PROPERTY_RECENCY, WORK_ORDER
from afterturn.clock import EPOCH, from_text, parse_time, to_text
from afterturn.model import (
    Attachment,
    Channel,
    Conversation,
    ConversationMeta,
    Direction,
    FlushMode,
    Message,
    MessagePreview,
    Origin,
    Role,
    SendProblem,
    SettledTurn,
    Status,
    StoredStamp,
    Urgency,
    WorkOrder,
    unchecked,
)
from afterturn.store import invariants
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.requests import Attributes
from afterturn.store.jobs import Job

E = TypeVar("E", Channel, Status)

STAMP = "stamp:"
"""Each consumer's stamp is an attribute of its own, so its update changes no other attribute."""

_WIDTH = len(to_text(EPOCH))


def time_or_none(value: object) -> datetime | None:
    """A time in our form or another ISO 8601 form; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        return from_text(value) if len(value) == _WIDTH and value[-1] == "Z" else parse_time(value)
    except ValueError:
        return None


def text_or_none(at: datetime | None) -> str | None:
    return None if at is None else to_text(at)


def conversation(item: Mapping[str, Any]) -> Conversation:
    last_message_at = time_or_none(item.get("lastMessageAt"))
    return Conversation.model_construct(
        id=item["id"],
        channel=_one_of(Channel, item.get("channel"), Channel.SMS),
        property_id=item.get("propertyId"),
        type=item.get("type") or "general",
        participants=tuple(item.get("participants") or ()),
        contact_name=item.get("contactName"),
        status=_one_of(Status, item.get("status"), Status.OPEN),
        synthetic=bool(item.get("synthetic")),
        gauntlet=bool(item.get("gauntlet")),
        created_at=time_or_none(item.get("createdAt")) or last_message_at or EPOCH,
        last_message_at=last_message_at,
        settled_at=time_or_none(item.get("settledAt")),
        recorded_at=time_or_none(item.get("recordedAt")),
        message_count=item.get("messageCount") or 0,
        assignee=item.get("assignee"),
        revision=item.get("revision") or 0,
        preview=read_preview(item["preview"]) if item.get("preview") else None,
        reactions={name[len(STAMP) :]: stamp(value) for name, value in item.items() if name.startswith(STAMP)},
    )


def preview_json(message: Message) -> dict[str, Any]:
    """A message's preview as an attribute of the conversation row."""
    preview: dict[str, Any] = {
        "messageId": message.id,
        "direction": message.direction.value,
        "role": message.role.value,
        "at": to_text(message.at),
        "text": invariants.preview_text(message.text),
    }
    if message.attachments:
        preview["attachments"] = len(message.attachments)
    return preview


def read_preview(value: Mapping[str, Any]) -> MessagePreview:
    """The preview in a stored row."""
    problem = value.get("sendProblem")
    return unchecked(
        MessagePreview,
        message_id=value["messageId"],
        direction=Direction(value["direction"]),
        role=Role(value["role"]),
        at=from_text(value["at"]),
        text=value["text"],
        attachments=value.get("attachments") or 0,
        send_problem=None if problem is None else SendProblem.model_validate(problem),
    )


def meta_attributes(meta: ConversationMeta) -> Attributes:
    """The attributes that the writer owns and the index keys derived from them; None removes one."""
    first = meta.participants[0] if meta.participants else None
    return {
        "channel": meta.channel.value,
        "propertyId": meta.property_id,
        "type": meta.type,
        "participants": list(meta.participants),
        "contactName": meta.contact_name,
        "status": meta.status.value,
        "synthetic": meta.synthetic,
        "gauntlet": meta.gauntlet,
        PROPERTY_RECENCY.pk: keys.of_property(meta.property_id),
        PHONE.pk: None if first is None else keys.phone(first),
        PHONE.sk: None if first is None else keys.conversation(meta.id),
    }


def identity(conversation_id: str) -> Attributes:
    """The attributes of a conversation that never change."""
    return {
        "kind": "conversation",
        "id": conversation_id,
        ENTITY.pk: keys.CONVERSATIONS,
        ENTITY.sk: conversation_id,
    }


def stamp(item: Mapping[str, Any]) -> StoredStamp:
    return StoredStamp.model_construct(
        through=time_or_none(item.get("through")),
        at=time_or_none(item.get("at")),
        data=json.loads(item["data"]),
        failed_through=time_or_none(item.get("failedThrough")),
        error=item.get("error"),
    )


def stamp_item(record: StoredStamp, data: str, revision: int) -> Attributes:
    return {
        "through": text_or_none(record.through),
        "at": text_or_none(record.at),
        "data": data,
        "failedThrough": text_or_none(record.failed_through),
        "error": record.error,
        "rev": revision,
    }


def message(item: Mapping[str, Any]) -> Message:
    return Message.model_construct(
        id=item["id"],
        direction=Direction(item["direction"]),
        role=Role(item["role"]),
        text=item["text"],
        at=from_text(item["at"]),
        provider_id=item.get("providerId"),
        attachments=tuple(Attachment.model_validate(attachment) for attachment in item.get("attachments", ())),
        edited_at=time_or_none(item.get("editedAt")),
        whole=item.get("whole"),
    )


def message_item(record: Message, seq: int) -> Attributes:
    return {
        "kind": "message",
        "id": record.id,
        "seq": seq,
        "at": to_text(record.at),
        "direction": record.direction.value,
        "role": record.role.value,
        "text": record.text,
        "providerId": record.provider_id,
        "attachments": [attachment.to_json() for attachment in record.attachments] or None,
        "editedAt": text_or_none(record.edited_at),
        "whole": record.whole,
    }


def turn(item: Mapping[str, Any], conversation_id: str, property_id: str | None) -> SettledTurn:
    return SettledTurn.model_construct(
        conversation_id=conversation_id,
        property_id=property_id,
        occurred_at=from_text(item["occurredAt"]),
        recorded_at=from_text(item["recordedAt"]),
        last_seq=item["lastSeq"],
        origin=Origin(item["origin"]),
        channel=Channel(item["channel"]),
        emitter=item["emitter"],
        flush_mode=FlushMode(item["flushMode"]),
    )


def work_order(item: Mapping[str, Any]) -> WorkOrder:
    return WorkOrder.model_construct(
        id=item["id"],
        conversation_id=item["conversationId"],
        property_id=item.get("propertyId"),
        category=item["category"],
        urgency=Urgency(item["urgency"]),
        message_id=item["messageId"],
        opened_at=from_text(item["openedAt"]),
        status=Status(item["status"]),
    )


def work_order_item(record: WorkOrder) -> Attributes:
    return {
        "kind": "work order",
        "id": record.id,
        "conversationId": record.conversation_id,
        "propertyId": record.property_id,
        "category": record.category,
        "messageId": record.message_id,
        "openedAt": to_text(record.opened_at),
        "status": record.status.value,
        **urgency_attributes(record),
    }


def urgency_attributes(record: WorkOrder) -> Attributes:
    """The attributes that change when a work order becomes more urgent or is closed."""
    is_open = record.status is Status.OPEN
    return {
        "urgency": record.urgency.value,
        WORK_ORDER.pk: keys.OPEN_WORK_ORDERS if is_open else keys.CLOSED_WORK_ORDERS,
        WORK_ORDER.sk: keys.urgency(record.urgency.rank, record.opened_at, record.id),
    }


def job_item(record: Job, dump: str) -> Attributes:
    """``dump``: its value as JSON."""
    return {
        "kind": "waiting job",
        "job": record.kind,
        "key": record.key,
        "conversationId": record.conversation_id,
        "value": dump,
        "dueAt": to_text(record.due_at),
        "attempts": 0,
    }


def job_fields(item: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of every kind of job."""
    return {
        "kind": item["job"],
        "key": item["key"],
        "conversation_id": item["conversationId"],
        "value": json.loads(item["value"]),
        "due_at": from_text(item["dueAt"]),
    }


def _one_of(kind: type[E], value: Any, otherwise: E) -> E:
    try:
        return kind(value)
    except ValueError:
        return otherwise
