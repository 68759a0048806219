"""Ingest: what a provider delivered becomes messages in a conversation, once, with the jobs that follow from it.

For a message: find the thread, resolve the property, remember what later deliveries and replies need, then save it with
a job (if it is to be answered automatically, or is part of an album) or settle it at once. A process that dies half-way
leaves work that the provider's next delivery repeats; whatever was done already does not change.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from afterturn import telemetry
from afterturn.channels.routing import Directory, RoutingRule, resolve_property
from afterturn.channels.state import (
    FINISH_CALL,
    REPLY,
    Album,
    ContactName,
    DeliveryStatus,
    EarlyEdit,
    FirstReceived,
    MergedThread,
    MessageDetails,
    ReplyJob,
    Route,
    SettledCall,
    message_key,
)
from afterturn.channels.threads import (
    find_thread,
    is_known_mail,
    is_outsider,
    merge_thread,
    merged_into,
    surviving_thread,
    thread_keys,
    thread_records,
    with_allowed_reply_to,
)
from afterturn.channels.types import (
    CallEvent,
    ChannelEvent,
    DeliveryUpdate,
    Ignored,
    InboundMessage,
    MessageEdited,
    SuppressReason,
    ThreadMigrated,
    Utterance,
)
from afterturn.clock import Clock
from afterturn.errors import InvalidRecord
from afterturn.ids import digest, legal_id
from afterturn.model import (
    MAX_MESSAGE_BYTES,
    MAX_PARTICIPANTS,
    MAX_TURN_MESSAGES,
    Channel,
    ConversationMeta,
    Direction,
    FlushMode,
    Message,
    Role,
    Turn,
)
from afterturn.store.jobs import Job
from afterturn.store.state import OptOut, StateRecord, StateStore, time_version

ALBUM_WAIT = timedelta(seconds=2)
"""How far apart the parts of an album may arrive."""

TRANSCRIPT_WAIT = timedelta(minutes=2)
"""How long an ended call waits for its transcript before it is settled without one."""

MAX_NAME_CHARS = 200
MAX_REFERENCES = 20


class IngestWriter(Protocol):
    """What ingest and automatic replies need of the writer."""

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, jobs: Sequence[Job] = ()
    ) -> int: ...
    async def settle(self, turn: Turn, *, jobs: Sequence[Job] = ()) -> object: ...
    async def save_conversation(self, meta: ConversationMeta) -> object: ...
    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool: ...


class IngestStore(StateStore, Protocol):
    """What ingest needs of the rest of the store."""

    async def meta(self, conversation_id: str) -> ConversationMeta | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of an event. ``outcome``: ``settled``, ``saved``, ``edited``, ``recorded`` or ``nothing``."""

    outcome: str
    conversation_id: str | None = None


class Ingest:
    """Stores channel events. ``auto_reply``: messages are answered automatically, and settled with the reply."""

    def __init__(
        self,
        writer: IngestWriter,
        store: IngestStore,
        clock: Clock,
        *,
        directory: Directory | None = None,
        auto_reply: bool = False,
    ) -> None:
        self._writer = writer
        self._store = store
        self._clock = clock
        self._directory = directory or Directory()
        self._auto_reply = auto_reply

    async def handle(self, event: ChannelEvent) -> IngestResult:
        """Raises StoreError: the provider has to deliver the event again."""
        match event:
            case InboundMessage():
                return await self._message(event)
            case MessageEdited():
                return await self._edit(event)
            case CallEvent():
                return await self._call(event)
            case DeliveryUpdate():
                return await self._delivery(event)
            case ThreadMigrated():
                return await self._migrate(event)
            case Ignored():
                telemetry.log("channel_event_ignored", level=logging.INFO, status=event.reason)
                return IngestResult("nothing")
            case _:
                raise AssertionError(f"{type(event).__name__} is not stored")

    async def _message(self, event: InboundMessage) -> IngestResult:
        # 1. Everything that is known of the thread and the sender, in one request.
        is_mail = event.channel is Channel.EMAIL
        known = await self._store.get_many(_keys_of(event))
        if (first := known.get(FirstReceived, _key_of(event))) is not None:
            event = replace(event, at=first.at)

        # 2. The thread.
        conversation_id = find_thread(event, known)
        if known.all(MergedThread):  # it may have been merged again since
            conversation_id = await merged_into(self._store, conversation_id)
        property_id = resolve_property(self._directory, event.party, known.get(RoutingRule, event.party.sender))
        is_outside = False
        if is_mail:
            stored = await self._store.meta(conversation_id)
            participants = () if stored is None else stored.participants
            if is_outside := is_outsider(event, participants):
                # People decide on it: no automatic reply, no property, no new participants.
                suppress = event.suppress or SuppressReason.SENDER_NOT_IN_THREAD
                event = replace(event, suppress=suppress, extra={**event.extra, "from": event.party.sender})
                property_id = None
            event = with_allowed_reply_to(event, participants)

        # 3. What later deliveries and replies need, before the message: a process that dies in between repeats it.
        message = _message_of(event)
        is_repeated = first is not None or (is_mail and is_known_mail(event, known))
        await self._remember(event, conversation_id, message, is_repeated=is_repeated)

        # 4. The message, with a job or as a settled turn.
        meta = _meta_of(event, conversation_id, property_id, is_outside=is_outside)
        needs_reply = self._auto_reply and message.direction is Direction.INBOUND and event.suppress is None
        has_job = needs_reply or event.album is not None
        if has_job:
            await self._save_with_job(event, meta, message, without_reply=not needs_reply)
        else:
            await self._writer.settle(Turn(conversation=meta, messages=(message,)))

        # 5. What overtook it.
        if event.channel is Channel.TELEGRAM:
            conversation_id = await self._overtaken(event, conversation_id, message)
        return IngestResult("saved" if has_job else "settled", conversation_id)

    async def _save_with_job(
        self, event: InboundMessage, meta: ConversationMeta, message: Message, *, without_reply: bool
    ) -> None:
        """Save the message with its reply job; the parts of an album share one job.

        A part that comes after the others were answered gets a job of its own.
        """
        now = self._clock()
        value = ReplyJob(message=message.id, without_reply=without_reply)
        alone = Job(kind=REPLY, key=_key_of(event), conversation_id=meta.id, value=_dump(value), due_at=now)
        if event.album is None:
            await self._writer.save_messages(meta, [message], jobs=[alone])
            return
        album = legal_id(f"{event.channel}:", event.album)
        value = ReplyJob(message=message.id, without_reply=without_reply, album=True)
        shared = Job(kind=REPLY, key=album, conversation_id=meta.id, value=_dump(value), due_at=now + ALBUM_WAIT)
        await self._writer.save_messages(meta, [message], jobs=[shared])
        answered = await self._store.get(Album, album)
        if answered is not None and digest(message.id) not in answered.parts:
            await self._writer.save_messages(meta, [message], jobs=[alone])

    async def _remember(
        self, event: InboundMessage, conversation_id: str, message: Message, *, is_repeated: bool
    ) -> None:
        await self._store.put_all(_records_of(event, conversation_id, message, is_repeated=is_repeated))
        if _is_opt(event):
            await self._save_opt_out(event)

    async def _save_opt_out(self, event: InboundMessage) -> None:
        """The last word counts, also if our clock went back. A repeated delivery is as old as the first one."""
        at = event.at
        last = await self._store.opt_out(event.channel, event.party.sender)
        if last is not None:
            at = max(at, last.at + timedelta(microseconds=1))
        key = _key_of(event)
        await self._store.put(FirstReceived(key=key, at=at, permanent=True))
        if (first := await self._store.get(FirstReceived, key)) is not None:
            at = first.at
        opted_out = event.extra["opt"] == "out"
        await self._store.put_opt_out(
            OptOut(channel=event.channel, address=event.party.sender, opted_out=opted_out, at=at)
        )

    async def _edit(self, event: MessageEdited) -> IngestResult:
        conversation_id = await merged_into(self._store, event.thread.conversation_id)
        if not await self._writer.edit_message(conversation_id, event.provider_id, event.text, at=event.at):
            # The message may be on its way: deliveries overtake each other.
            key = legal_id(f"{Channel.TELEGRAM}:", event.provider_id)
            with contextlib.suppress(InvalidRecord):  # too long to be kept
                await self._store.put(EarlyEdit(key=key, version=time_version(event.at), text=event.text, at=event.at))
            await self._writer.edit_message(conversation_id, event.provider_id, event.text, at=event.at)
        return IngestResult("edited", conversation_id)

    async def _overtaken(self, event: InboundMessage, conversation_id: str, message: Message) -> str:
        """Apply a migration or an edit that came meanwhile, and return the conversation that the message is in now.

        Checked after the message was stored, so that one of both sees the other.
        """
        known = await self._store.get_many({MergedThread: [conversation_id], EarlyEdit: [_key_of(event)]})
        if known.all(MergedThread):
            source, conversation_id = conversation_id, await merged_into(self._store, conversation_id)
            await self._remember(event, conversation_id, message, is_repeated=False)
            await merge_thread(self._writer, self._store, source, conversation_id)
        if (edit := known.get(EarlyEdit, _key_of(event))) is not None:
            await self._writer.edit_message(conversation_id, event.provider_id, edit.text, at=edit.at)
        return conversation_id

    async def _call(self, event: CallEvent) -> IngestResult:
        """Save utterances as they come. The end settles the call: at once with the whole transcript, else later."""
        conversation_id, sender = event.thread.conversation_id, event.party.sender
        known = await self._store.get_many({MergedThread: [conversation_id], RoutingRule: [sender]})
        if known.all(MergedThread):
            conversation_id = await merged_into(self._store, conversation_id)
        meta = ConversationMeta(
            id=conversation_id,
            channel=Channel.VOICE,
            property_id=resolve_property(self._directory, event.party, known.get(RoutingRule, sender)),
            participants=_participants((sender,)),
        )
        messages = [_utterance_message(utterance) for utterance in event.utterances]
        if not event.ended:
            if messages:
                await self._writer.save_messages(meta, messages)
            return IngestResult("saved" if messages else "nothing", conversation_id)
        key = legal_id("", event.provider_id)
        if not messages or not event.is_final:
            due_at = self._clock() + TRANSCRIPT_WAIT
            job = Job(kind=FINISH_CALL, key=key, conversation_id=conversation_id, value={}, due_at=due_at)
            await self._writer.save_messages(meta, messages, jobs=[job])
            return IngestResult("saved", conversation_id)
        earlier, last = messages[:-MAX_TURN_MESSAGES], messages[-MAX_TURN_MESSAGES:]
        if earlier:
            await self._writer.save_messages(meta, earlier)
        await self._writer.settle(Turn(conversation=meta, messages=tuple(last), flush_mode=FlushMode.IMMEDIATE))
        await self._store.put(SettledCall(key=key))
        return IngestResult("settled", conversation_id)

    async def _migrate(self, event: ThreadMigrated) -> IngestResult:
        """Messages under either id go to one conversation; those that came too early are moved there."""
        source, target = await surviving_thread(self._store, event)
        route = await self._store.get(Route, target)
        if route is not None and route.recipient == event.source:  # nobody is reached at the old address
            version = time_version(event.at)
            await self._store.put(route.model_copy(update={"recipient": event.target, "version": version}))
        stray = await self._store.meta(source)
        if stray is None or stray.synthetic or not await merge_thread(self._writer, self._store, source, target):
            return IngestResult("recorded", target)
        return IngestResult("settled", target)

    async def _delivery(self, event: DeliveryUpdate) -> IngestResult:
        await self._store.put(
            DeliveryStatus(
                key=event.provider_id, version=event.rank + 1, state=event.state, at=event.at, error=event.error
            )
        )
        return IngestResult("recorded")


def _key_of(event: InboundMessage) -> str:
    """Unique among the messages of all channels."""
    return legal_id(f"{event.channel}:", event.provider_id)


def _keys_of(event: InboundMessage) -> Mapping[type[StateRecord], Sequence[str]]:
    """What to read for a message."""
    keys: dict[type[StateRecord], Sequence[str]] = {**thread_keys(event), RoutingRule: [event.party.sender]}
    if event.channel is not Channel.EMAIL:
        keys[FirstReceived] = [_key_of(event)]
    return keys


def _is_opt(event: InboundMessage) -> bool:
    """Whether the sender opts out of automatic messages, or in again."""
    return event.channel is not Channel.EMAIL and event.extra.get("opt") in ("in", "out")


def _records_of(
    event: InboundMessage, conversation_id: str, message: Message, *, is_repeated: bool
) -> Sequence[StateRecord]:
    """What to remember of a message."""
    version = time_version(event.at)
    records: list[StateRecord] = []
    if event.channel is Channel.EMAIL:
        records += thread_records(event, conversation_id)
    elif not _is_opt(event):
        records.append(FirstReceived(key=_key_of(event), at=event.at))
    if message.direction is Direction.INBOUND and event.suppress in (None, SuppressReason.OPT_OUT):
        correspondent = event.party.reply_to or event.party.sender
        records.append(
            Route(
                key=conversation_id,
                version=0 if is_repeated else version,  # another mailbox may deliver the same mail a moment later
                account=event.party.account,
                recipient=event.thread.conversation_id if event.channel is Channel.TELEGRAM else correspondent,
                sender=correspondent,
                message_id=message.id,
                topic=event.extra.get("topic"),
                subject=event.extra.get("subject") or event.thread.subject,
                references=(event.provider_id, *event.thread.after)[:MAX_REFERENCES],
            )
        )
    if event.extra or event.sent_at is not None or event.suppress is not None:
        records.append(
            MessageDetails(
                key=message_key(conversation_id, message.id),
                facts=event.extra,
                sent_at=event.sent_at,
                suppress=None if event.suppress is None else event.suppress.value,
            )
        )
    name = _contact_name(event)
    if name is not None and "direction" not in event.extra:
        records.append(name)
    return records


def _contact_name(event: InboundMessage) -> ContactName | None:
    facts = {field: event.extra[field] for field in ("name", "username") if event.extra.get(field)}
    return ContactName(key=event.party.sender, version=time_version(event.at), **facts) if facts else None


def _meta_of(
    event: InboundMessage, conversation_id: str, property_id: str | None, *, is_outside: bool
) -> ConversationMeta:
    correspondent = event.party.reply_to or event.party.sender
    name = None
    if correspondent == event.party.sender and not _is_ours(event):
        name = _contact_name(event)
    people = () if is_outside else (correspondent, event.party.sender, *event.participants)
    return ConversationMeta(
        id=conversation_id,
        channel=event.channel,
        property_id=property_id,
        participants=_participants(people),
        contact_name=None if name is None else name.text[:MAX_NAME_CHARS] or None,
    )


def _participants(addresses: Sequence[str]) -> tuple[str, ...]:
    """Each address once, without those that name nobody."""
    named = (address for address in addresses if address.strip() and address != "anonymous")
    return tuple(dict.fromkeys(legal_id("", address) for address in named))[:MAX_PARTICIPANTS]


def _is_ours(event: InboundMessage) -> bool:
    return event.extra.get("direction") == "outbound"


def _message_of(event: InboundMessage) -> Message:
    provider_id = legal_id("", event.provider_id)
    return Message(
        id=provider_id,
        direction=Direction.OUTBOUND if _is_ours(event) else Direction.INBOUND,
        role=Role.AGENT if _is_ours(event) else Role.CUSTOMER,
        text=event.text,
        at=event.at,
        provider_id=provider_id,
        attachments=event.attachments,
        whole=_full_text(event),
    )


def _full_text(event: InboundMessage) -> str | None:
    """As much of the full text as a message holds beside the text itself."""
    if event.full_text is None or event.full_text == event.text:
        return None
    left = MAX_MESSAGE_BYTES - len(event.text.encode())
    return event.full_text.encode()[:left].decode(errors="ignore")


def _utterance_message(utterance: Utterance) -> Message:
    provider_id = legal_id("", utterance.provider_id)
    return Message(
        id=provider_id,
        direction=utterance.direction,
        role=utterance.role,
        text=utterance.text,
        at=utterance.at,
        provider_id=provider_id,
    )


def _dump(value: ReplyJob) -> dict[str, object]:
    return value.model_dump(mode="json", exclude_defaults=True)
