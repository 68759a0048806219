"""Plans the transaction of a write from what was read. Pure.

Every plan that adds messages or a turn raises the conversation's ``rev`` and is conditional on the ``rev`` that was
read. Each message id has an item of its own, which must not exist yet. So a plan from stale reads fails completely and
is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from afterturn.aws.table import PROPERTY_RECENCY
from afterturn.clock import to_text
from afterturn.errors import InvalidRecord
from afterturn.event import TurnSettled, make_event
from afterturn.model import Channel, ConversationMeta, Direction, Message, Status, Turn
from afterturn.store import invariants
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.layout import RecencyLayouts
from afterturn.store.dynamodb.requests import (
    IS_NEW,
    IS_THERE,
    MAX_ITEM_BYTES,
    MAX_TRANSACTION_BYTES,
    Attributes,
    WriteAction,
    all_of,
    item_bytes,
    put,
    unchanged,
    update,
)
from afterturn.store.invariants import JobKey
from afterturn.store.jobs import Job

JobsToAdd = Mapping[JobKey, tuple[Job, str]]
"""Each with its value as JSON."""


@dataclass(frozen=True, slots=True)
class ConversationHead:
    """What a write needs to know of a conversation.

    ``oldest_unsettled``: the oldest time of unsettled messages; ``unsettled_inbound``: the
    arrival number of the newest inbound one. ``closed_seq``: the number of the last message when a person closed it.
    ``preview_at``: the time of the message that the row previews.
    """

    channel: Channel
    property_id: str | None
    participants: tuple[str, ...]
    created_at: datetime
    newest_message_at: datetime | None = None
    last_message_at: datetime | None = None
    settled_at: datetime | None = None
    oldest_unsettled: datetime | None = None
    message_count: int = 0
    settled_count: int = 0
    turn_count: int = 0
    rev: int | None = None
    unsettled_inbound: int | None = None
    closed_seq: int | None = None
    property_pinned: bool = False
    contact_name: str | None = None
    preview_at: datetime | None = None

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> ConversationHead:
        conversation = rows.conversation(item)
        return cls(
            channel=conversation.channel,
            property_id=conversation.property_id,
            participants=conversation.participants,
            created_at=conversation.created_at,
            newest_message_at=rows.time_or_none(item.get("newestMessageAt")) or conversation.last_message_at,
            last_message_at=conversation.last_message_at,
            settled_at=conversation.settled_at,
            oldest_unsettled=rows.time_or_none(item.get("oldestUnsettled")),
            message_count=conversation.message_count,
            settled_count=item.get("settledCount") or 0,
            turn_count=item.get("turnCount") or 0,
            rev=item.get("rev"),
            unsettled_inbound=item.get("unsettledInbound"),
            closed_seq=item.get("closedSeq"),
            property_pinned=bool(item.get("propertyPinned")),
            contact_name=conversation.contact_name,
            preview_at=None if conversation.preview is None else conversation.preview.at,
        )

    @classmethod
    def new(cls, meta: ConversationMeta, created_at: datetime) -> ConversationHead:
        return cls(
            channel=meta.channel,
            property_id=meta.property_id,
            participants=meta.participants,
            created_at=meta.created_at or created_at,
            contact_name=meta.contact_name,
        )


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What was read before a write: the head, and which of the messages and jobs are stored already."""

    head: ConversationHead | None = None
    by_id: Mapping[str, Attributes] = field(default_factory=dict)
    by_provider: Mapping[str, Attributes] = field(default_factory=dict)
    settled_under_key: datetime | None = None
    jobs: Collection[JobKey] = ()


@dataclass(frozen=True, slots=True)
class RepeatedTurn:
    """The whole turn is settled already: as the turn at ``occurred_at``, or as the first one that reaches ``seq``."""

    occurred_at: datetime | None = None
    seq: int = 0


@dataclass(frozen=True, slots=True)
class WritePlan:
    """One transaction, and the head after it. ``row_at``: the recency of the row if the transaction sets it."""

    actions: tuple[WriteAction, ...]
    head: ConversationHead
    row_at: datetime | None = None
    event: TurnSettled | None = None
    added: int = 0


def plan_settle(
    turn: Turn,
    known: WriteContext,
    layouts: RecencyLayouts,
    *,
    now: datetime,
    emitter: str,
    call: str,
    jobs: JobsToAdd | None = None,
) -> WritePlan | RepeatedTurn:
    """The transaction of a turn. ``call``: the id of the call, by which it recognizes its own turn."""
    meta = turn.conversation
    if known.settled_under_key is not None:
        return RepeatedTurn(occurred_at=known.settled_under_key)
    head = known.head or ConversationHead.new(meta, min((message.at for message in turn.messages), default=now))
    new = _new_messages(turn.messages, known, head.message_count)
    if turn.messages and head.settled_at is not None and new.newest_seq <= head.settled_count:
        return _repeat(new, known)

    occurred_at = invariants.next_occurred_at(turn, head.settled_at, now)
    newest = invariants.newest_message_at(head.newest_message_at, new.messages, now)
    previewed = invariants.message_to_preview(head.preview_at, new.messages)
    participants = invariants.merge_participants(head.participants, meta.participants)
    reopens = head.closed_seq is not None and (_newest_inbound(head, new) or 0) > head.closed_seq
    after = replace(
        head,
        property_id=invariants.merge_property(head.property_id, meta.property_id, pinned=head.property_pinned),
        participants=participants,
        contact_name=invariants.merge_contact_name(
            participants, head.contact_name, meta.participants, meta.contact_name
        ),
        newest_message_at=newest,
        last_message_at=max(filter(None, (newest, head.last_message_at)), default=None),
        settled_at=occurred_at,
        oldest_unsettled=None,
        message_count=new.last_seq,
        settled_count=new.last_seq,
        turn_count=head.turn_count + 1,
        rev=(head.rev or 0) + 1,
        unsettled_inbound=None,
        closed_seq=None if reopens else head.closed_seq,
        preview_at=head.preview_at if previewed is None else previewed.at,
    )
    row_at = after.last_message_at or after.created_at
    attributes = _counts(after) | {
        "lastMessageAt": rows.text_or_none(after.last_message_at),
        "settledAt": to_text(occurred_at),
        "recordedAt": to_text(now),
        "settledCount": after.settled_count,
        "turnCount": after.turn_count,
        **recency_attributes(meta.id, row_at, layouts),
        **_preview(previewed),
    }
    if reopens:
        attributes |= {"status": Status.OPEN.value, "closedSeq": None}
    oldest = _oldest(head, new.messages)
    turn_item = {
        "kind": "turn",
        "occurredAt": to_text(occurred_at),
        "recordedAt": to_text(now),
        "firstSeq": head.settled_count,
        "lastSeq": after.settled_count,
        "oldestAt": rows.text_or_none(oldest),
        "origin": turn.origin.value,
        "channel": head.channel.value,
        "emitter": emitter,
        "flushMode": turn.flush_mode.value,
        "call": call,
    }
    actions = [
        _write_meta(meta, known.head, after, attributes),
        put(keys.turn(meta.id, occurred_at), turn_item, IS_NEW),
        *_message_actions(meta.id, new, occurred_at),
    ]
    if turn.key is not None:
        actions.append(put(keys.known_turn(meta.id, turn.key), {"turn": to_text(occurred_at)}, IS_NEW))
    actions += _job_actions(jobs, known)
    _check_sizes(actions)
    event = make_event(
        conversation_id=meta.id,
        property_id=after.property_id,
        origin=turn.origin,
        channel=head.channel,
        emitter=emitter,
        occurred_at=occurred_at,
        flush_mode=turn.flush_mode,
    )
    return WritePlan(tuple(actions), after, row_at=row_at, event=event, added=len(new.messages))


def plan_save(
    meta: ConversationMeta,
    messages: Sequence[Message],
    known: WriteContext,
    layouts: RecencyLayouts,
    *,
    now: datetime,
    jobs: JobsToAdd | None = None,
) -> WritePlan | None:
    """The transaction that saves messages in the middle of a turn; None if there is nothing to write."""
    head = known.head or ConversationHead.new(meta, min([now, *(message.at for message in messages)]))
    new = _new_messages(messages, known, head.message_count)
    further = _job_actions(jobs, known)
    if known.head is not None and not new.messages and not further:
        return None
    previewed = invariants.message_to_preview(head.preview_at, new.messages)
    after = replace(
        head,
        newest_message_at=invariants.newest_message_at(head.newest_message_at, new.messages, now),
        oldest_unsettled=_oldest(head, new.messages),
        message_count=new.last_seq,
        rev=(head.rev or 0) + 1,
        unsettled_inbound=_newest_inbound(head, new),
        preview_at=head.preview_at if previewed is None else previewed.at,
    )
    attributes = _counts(after) | _preview(previewed)
    row_at = None
    if known.head is None:
        row_at = after.created_at
        attributes |= recency_attributes(meta.id, row_at, layouts)
    actions = (_write_meta(meta, known.head, after, attributes), *_message_actions(meta.id, new, None), *further)
    _check_sizes(actions)
    return WritePlan(actions, after, row_at=row_at, added=len(new.messages))


def plan_create(meta: ConversationMeta, layouts: RecencyLayouts, *, now: datetime) -> WritePlan:
    """The transaction of a conversation without messages."""
    head = replace(ConversationHead.new(meta, now), rev=1)
    attributes = _counts(head) | recency_attributes(meta.id, head.created_at, layouts)
    return WritePlan((_write_meta(meta, None, head, attributes),), head, row_at=head.created_at)


def replace_meta(meta: ConversationMeta) -> WriteAction:
    """Replace the attributes that the writer owns; times, counts and stamps stay."""
    sets = rows.meta_attributes(meta) | {"propertyPinned": None, "closedSeq": None}
    return update(keys.meta(meta.id), sets, IS_THERE, adds={"rev": 1})


def recency_attributes(conversation_id: str, at: datetime, layouts: RecencyLayouts) -> dict[str, str]:
    """The recency keys of a row, for all written layouts and for its property."""
    return {**layouts.keys(at, conversation_id), PROPERTY_RECENCY.sk: keys.recency(at, conversation_id)}


@dataclass(frozen=True, slots=True)
class _NewMessages:
    """The messages that are new, in arrival order from ``first_seq``; ``newest_seq``: that of the newest message, new
    or known.
    """

    messages: tuple[Message, ...]
    first_seq: int
    newest_seq: int

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.messages) - 1


def _new_messages(messages: Sequence[Message], known: WriteContext, message_count: int) -> _NewMessages:
    by_id = {key: item["seq"] for key, item in known.by_id.items()}
    by_provider = {key: item["seq"] for key, item in known.by_provider.items()}
    new: list[Message] = []
    newest = 0
    for message in messages:
        seqs = [by_id.get(message.id), by_provider.get(message.provider_id or "")]
        seq = max((known_seq for known_seq in seqs if known_seq is not None), default=None)
        if seq is None:
            new.append(message)
            seq = message_count + len(new)
            by_id[message.id] = seq
            if message.provider_id is not None:
                by_provider[message.provider_id] = seq
        newest = max(newest, seq)
    return _NewMessages(tuple(new), message_count + 1, newest)


def _repeat(new: _NewMessages, known: WriteContext) -> RepeatedTurn:
    for item in (*known.by_id.values(), *known.by_provider.values()):
        if item["seq"] == new.newest_seq and (turn := rows.time_or_none(item.get("turn"))):
            return RepeatedTurn(occurred_at=turn)
    return RepeatedTurn(seq=new.newest_seq)


def _oldest(head: ConversationHead, messages: Sequence[Message]) -> datetime | None:
    return min(
        (at for at in (head.oldest_unsettled, *(message.at for message in messages)) if at is not None), default=None
    )


def _newest_inbound(head: ConversationHead, new: _NewMessages) -> int | None:
    """The arrival number of the newest inbound message that is not settled."""
    numbered = enumerate(new.messages, start=new.first_seq)
    seqs = [seq for seq, message in numbered if message.direction is Direction.INBOUND]
    return max(seqs, default=head.unsettled_inbound)


def _preview(message: Message | None) -> Attributes:
    return {} if message is None else {"preview": rows.preview_json(message)}


def _counts(after: ConversationHead) -> Attributes:
    return {
        "newestMessageAt": rows.text_or_none(after.newest_message_at),
        "oldestUnsettled": rows.text_or_none(after.oldest_unsettled),
        "unsettledInbound": after.unsettled_inbound,
        "messageCount": after.message_count,
        "rev": after.rev,
    }


def _write_meta(
    meta: ConversationMeta, before: ConversationHead | None, after: ConversationHead, attributes: Attributes
) -> WriteAction:
    """A new conversation item, or the changed attributes of a stored one."""
    key = keys.meta(meta.id)
    if before is None:
        item = rows.identity(meta.id) | rows.meta_attributes(meta) | attributes
        return put(key, item | {"createdAt": to_text(after.created_at)}, IS_NEW)
    sets = dict(attributes)
    merged_fields = ("property_id", "participants", "contact_name")
    if any(getattr(after, name) != getattr(before, name) for name in merged_fields):
        merged = rows.meta_attributes(meta.model_copy(update={name: getattr(after, name) for name in merged_fields}))
        for owned in ("channel", "type", "status", "synthetic", "gauntlet"):
            del merged[owned]
        sets |= merged
    return update(key, sets, all_of(IS_THERE, unchanged("rev", value=before.rev)))


def _message_actions(conversation_id: str, new: _NewMessages, turn: datetime | None) -> list[WriteAction]:
    actions: list[WriteAction] = []
    for seq, message in enumerate(new.messages, start=new.first_seq):
        known = {"seq": seq, "turn": rows.text_or_none(turn)}
        actions += [
            put(keys.message(conversation_id, message.at, seq, message.id), rows.message_item(message, seq)),
            put(keys.known_message(conversation_id, message.id), known, IS_NEW),
        ]
        if message.provider_id is not None:
            actions.append(put(keys.known_provider(conversation_id, message.provider_id), known, IS_NEW))
    return actions


def _job_actions(jobs: JobsToAdd | None, known: WriteContext) -> list[WriteAction]:
    return [
        action
        for job_key, (job, dump) in (jobs or {}).items()
        if job_key not in known.jobs
        for action in (
            put(keys.job(*job_key), {"kind": "job"}, IS_NEW),
            put(keys.waiting_job(job.kind, job.due_at, job.key), rows.job_item(job, dump)),
        )
    ]


def _check_sizes(actions: Sequence[WriteAction]) -> None:
    """Refuse what AWS would refuse, naming the message. Raises InvalidRecord."""
    total = 0
    for action in actions:
        size = item_bytes({"PK": action.key[0], "SK": action.key[1], **action.item, **action.sets})
        total += size
        if size > MAX_ITEM_BYTES:
            what = f"messages[id={action.item['id']!r}]" if action.item.get("kind") == "message" else "conversation"
            raise InvalidRecord(
                what, f"has {size} bytes with its attachments; DynamoDB holds at most {MAX_ITEM_BYTES} an item"
            )
    if total > MAX_TRANSACTION_BYTES:
        raise InvalidRecord(
            "messages", f"have {total} bytes; DynamoDB takes at most {MAX_TRANSACTION_BYTES} in one transaction"
        )
