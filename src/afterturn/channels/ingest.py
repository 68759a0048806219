"""Arrivals into the store: each once, in its conversation, and what follows from it written down with it.

A message that a machine is to answer is saved together with the job to answer it; any other is settled at once.
Whatever dies half-way is done again by the provider's next delivery, and changes nothing that was done.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from pydantic import JsonValue

from afterturn import telemetry
from afterturn.channels.directory import Directory
from afterturn.channels.names import contact_name, name_notes
from afterturn.channels.records import message_of, meta_of
from afterturn.channels.routing import resolve_property
from afterturn.channels.thread_migration import carry, decide
from afterturn.channels.threads import (
    MOVED,
    THREAD,
    answered_there,
    clues_of,
    find_thread,
    is_stranger,
    moved_to,
    thread_notes,
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
)
from afterturn.clock import EPOCH, Clock, from_text, to_text
from afterturn.errors import InvalidRecord
from afterturn.ids import digest, legal_id
from afterturn.model import (
    MAX_TURN_MESSAGES,
    Channel,
    ConversationMeta,
    Direction,
    FlushMode,
    Message,
    Turn,
)
from afterturn.store.port import Job, Keeper, Note

ANSWER = "answer"
"""Jobs: a message waits for somebody's answer."""

FINISH_CALL = "finish-call"
"""Jobs: a call has ended, and its transcript may still come."""

ALBUM = "album"
CALL = "call"
DELIVERY = "delivery"
OPTED_OUT = "opted-out"
SEEN = "seen"
EARLY_EDIT = "early-edit"
PERSON = "person"
ROUTE = "route"
ABOUT = "about"
"""Notes: which parts of an album were looked at together; a call that was settled with its transcript; how far a
message of ours has come; who wants no automatic answer; when a message came first; an edit that came before what it
edits; where an operator has put a person; how a conversation is answered; what else is known of a message.
"""

SEEN_FOR = timedelta(days=90)
"""What is delivered again within this time is as old as it was at first: some providers sign no time."""

EARLY_BY = timedelta(days=1)
"""How long an edit waits for its message."""

ALBUM_WAIT = timedelta(seconds=2)
"""How long the parts of one message may be apart that come as several."""

TRANSCRIPT_WAIT = timedelta(minutes=2)
"""How long a call that has ended waits for its transcript before it is settled without."""


class Writes(Protocol):
    """What is asked of the writer."""

    async def save_messages(
        self, meta: ConversationMeta, messages: Sequence[Message], *, jobs: Sequence[Job] = ()
    ) -> int: ...
    async def settle(self, turn: Turn, *, jobs: Sequence[Job] = ()) -> object: ...
    async def save_conversation(self, meta: ConversationMeta) -> object: ...
    async def edit_message(self, conversation_id: str, provider_id: str, text: str, *, at: datetime) -> bool: ...


class Remembers(Keeper, Protocol):
    """What is asked of the rest of the store."""

    async def meta(self, conversation_id: str) -> ConversationMeta | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of an arrival. ``outcome``: ``settled``, ``saved``, ``edited``, ``noted`` or ``nothing``."""

    outcome: str
    conversation_id: str | None = None


class Ingest:
    """Takes arrivals in. ``answering``: whether messages are answered by a machine, and so settled by who answers."""

    def __init__(
        self,
        writes: Writes,
        store: Remembers,
        clock: Clock,
        *,
        directory: Directory | None = None,
        answering: bool = False,
    ) -> None:
        self._writes = writes
        self._store = store
        self._clock = clock
        self._directory = directory or Directory()
        self._answering = answering

    async def take(self, arrival: ChannelEvent) -> IngestResult:
        """Raises StoreError: the provider has to send it again."""
        match arrival:
            case InboundMessage():
                return await self._message(arrival)
            case MessageEdited():
                return await self._edit(arrival)
            case CallEvent():
                return await self._call(arrival)
            case DeliveryUpdate():
                return await self._delivery(arrival)
            case ThreadMigrated():
                return await self._move(arrival)
            case Ignored():
                telemetry.log("arrival_passed_over", level=logging.INFO, status=arrival.reason)
                return IngestResult("nothing")
            case _:
                raise AssertionError(f"{type(arrival).__name__} is none of the store's")

    async def _message(self, one: InboundMessage) -> IngestResult:
        names = [legal_id("", one.provider_id)] if one.channel is Channel.EMAIL else []
        clues = clues_of(one.thread, one.party, names)
        told = {} if one.channel is Channel.EMAIL else {SEEN: [_key(one)], OPTED_OUT: [one.party.sender]}
        known = {SEEN: {}, OPTED_OUT: {}, **await self._store.notes({**clues, PERSON: [one.party.sender], **told})}
        if (seen := known[SEEN].get(_key(one))) is not None:
            one = replace(one, at=from_text(str(seen)))
        conversation_id = find_thread(clues, known, one.at)
        if known[MOVED]:  # it may have moved again since
            conversation_id = await moved_to(self._store, conversation_id)
        property_id = resolve_property(self._directory, one.party, known[PERSON].get(one.party.sender))
        brings_nobody = False
        if one.channel is Channel.EMAIL:
            stored = await self._store.meta(conversation_id)
            if stored is not None and is_stranger(one, stored.participants):
                # It is for people to judge: no machine answers it, no answer goes to it, it brings nobody along.
                one = replace(
                    one,
                    suppress=one.suppress or SuppressReason.SENDER_NOT_IN_THREAD,
                    extra={**one.extra, "from": one.party.sender},
                )
                property_id, brings_nobody = None, True
            one = answered_there(one, () if stored is None else stored.participants)
        person = one.party.answers or one.party.sender
        people: Sequence[str] = () if brings_nobody else (person, one.party.sender, *one.participants)
        message = message_of(one)
        again = seen is not None or any(name in known[THREAD] for name in names)
        await self._remember(one, conversation_id, message, known[OPTED_OUT].get(one.party.sender), again=again)
        name = contact_name(one) if person == one.party.sender and message.direction is Direction.INBOUND else None
        meta = meta_of(conversation_id, one.channel, property_id, people, name)
        asked = self._answering and message.direction is Direction.INBOUND and one.suppress is None
        if asked or one.album is not None:
            await self._waiting(one, meta, message, nobody=not asked)
        else:
            await self._writes.settle(Turn(conversation=meta, messages=(message,)))
        if one.channel is Channel.TELEGRAM:
            conversation_id = await self._overtaken(one, conversation_id, message)
        return IngestResult("saved" if asked or one.album is not None else "settled", conversation_id)

    async def _waiting(self, one: InboundMessage, meta: ConversationMeta, message: Message, *, nobody: bool) -> None:
        """Save it, and that it waits: for an answer, or for the other parts of its album, which wait together.

        A part that comes when those were looked at already waits alone.
        """
        value: dict[str, JsonValue] = {"message": message.id, **({"nobody": True} if nobody else {})}
        now, name = self._clock(), legal_id(f"{one.channel}:", one.provider_id)
        alone = Job(kind=ANSWER, key=name, conversation_id=meta.id, value=value, due_at=now)
        if one.album is None:
            await self._writes.save_messages(meta, [message], jobs=[alone])
            return
        album = legal_id(f"{one.channel}:", one.album)
        value, due_at = {**value, "album": True}, now + ALBUM_WAIT
        together = Job(kind=ANSWER, key=album, conversation_id=meta.id, value=value, due_at=due_at)
        await self._writes.save_messages(meta, [message], jobs=[together])
        seen = (await self._store.noted(ALBUM, [album])).get(album)
        if isinstance(seen, list) and digest(message.id) not in seen:
            await self._writes.save_messages(meta, [message], jobs=[alone])

    async def _remember(
        self, one: InboundMessage, conversation_id: str, message: Message, opted: JsonValue, *, again: bool
    ) -> None:
        """Before the message is saved: what dies in between is remembered again."""
        await self._store.note_all(_notes(one, conversation_id, message, again=again))
        if _opts(one):
            await self._opt(one, opted)

    async def _opt(self, one: InboundMessage, before: JsonValue) -> None:
        """The last word counts, also where our clock has gone back. A delivery that comes again, or is sent again by
        whoever has read it, is as old as the first one, for ever.
        """
        at = one.at
        if isinstance(before, dict) and isinstance(last := before.get("at"), str):
            at = max(at, from_text(last) + timedelta(microseconds=1))
        await self._store.note(SEEN, _key(one), to_text(at))
        at = from_text(str((await self._store.noted(SEEN, [_key(one)]))[_key(one)]))
        out: JsonValue = {"out": one.extra["opt"] == "out", "at": to_text(at)}
        await self._store.note(OPTED_OUT, one.party.sender, out, rank=_rank(at), replace=True)

    async def _edit(self, one: MessageEdited) -> IngestResult:
        conversation_id = await moved_to(self._store, one.thread.conversation_id)
        if not await self._writes.edit_message(conversation_id, one.provider_id, one.text, at=one.at):
            # What it edits may be on its way: deliveries overtake each other.
            value: JsonValue = {"text": one.text, "at": to_text(one.at)}
            key = legal_id(f"{Channel.TELEGRAM}:", one.provider_id)
            with contextlib.suppress(InvalidRecord):  # too long to be noted
                await self._store.note(EARLY_EDIT, key, value, rank=_rank(one.at), replace=True, kept=EARLY_BY)
            await self._writes.edit_message(conversation_id, one.provider_id, one.text, at=one.at)
        return IngestResult("edited", conversation_id)

    async def _overtaken(self, one: InboundMessage, conversation_id: str, message: Message) -> str:
        """Where it is in the end, if its chat moved or its edit came meanwhile: looked for when the message is there,
        so that one of both sees the other.
        """
        known = await self._store.notes({MOVED: [conversation_id], EARLY_EDIT: [_key(one)]})
        if known[MOVED]:
            gone, conversation_id = conversation_id, await moved_to(self._store, conversation_id)
            await self._remember(one, conversation_id, message, None, again=False)
            await carry(self._writes, self._store, gone, conversation_id)
        if isinstance(early := known[EARLY_EDIT].get(_key(one)), dict):
            at, text = from_text(str(early["at"])), str(early["text"])
            await self._writes.edit_message(conversation_id, one.provider_id, text, at=at)
        return conversation_id

    async def _call(self, one: CallEvent) -> IngestResult:
        """Utterances are saved as they come; the end settles: at once with the whole transcript, else after a while."""
        known = await self._store.notes({MOVED: [one.thread.conversation_id], PERSON: [one.party.sender]})
        conversation_id = one.thread.conversation_id
        if known[MOVED]:
            conversation_id = await moved_to(self._store, conversation_id)
        property_id = resolve_property(self._directory, one.party, known[PERSON].get(one.party.sender))
        meta = meta_of(conversation_id, Channel.VOICE, property_id, (one.party.sender,))
        messages = [
            Message(
                id=legal_id("", said.provider_id),
                direction=said.direction,
                role=said.role,
                text=said.text,
                at=said.at,
                provider_id=legal_id("", said.provider_id),
            )
            for said in one.utterances
        ]
        if not one.ended:
            if messages:
                await self._writes.save_messages(meta, messages)
            return IngestResult("saved" if messages else "nothing", conversation_id)
        if not messages or not one.whole:
            job = Job(
                kind=FINISH_CALL,
                key=legal_id("", one.provider_id),
                conversation_id=conversation_id,
                value={},
                due_at=self._clock() + TRANSCRIPT_WAIT,
            )
            await self._writes.save_messages(meta, messages, jobs=[job])
            return IngestResult("saved", conversation_id)
        earlier, last = messages[:-MAX_TURN_MESSAGES], messages[-MAX_TURN_MESSAGES:]
        if earlier:
            await self._writes.save_messages(meta, earlier)
        await self._writes.settle(Turn(conversation=meta, messages=tuple(last), flush_mode=FlushMode.IMMEDIATE))
        await self._store.note(CALL, legal_id("", one.provider_id), {"settled": True})
        return IngestResult("settled", conversation_id)

    async def _move(self, one: ThreadMigrated) -> IngestResult:
        """What comes in under either id goes to one conversation. What came too early is taken along."""
        gone, home = await decide(self._store, one)
        await self._reroute(home, one)
        stray = await self._store.meta(gone)
        if stray is None or stray.synthetic or not await carry(self._writes, self._store, gone, home):
            return IngestResult("noted", home)
        return IngestResult("settled", home)

    async def _reroute(self, home: str, one: ThreadMigrated) -> None:
        """Answers go where the conversation goes on; nothing is to be had at its old address."""
        route = (await self._store.noted(ROUTE, [home])).get(home)
        if isinstance(route, dict) and route.get("recipient") == one.source:
            await self._store.note(ROUTE, home, {**route, "recipient": one.target}, rank=_rank(one.at), replace=True)

    async def _delivery(self, one: DeliveryUpdate) -> IngestResult:
        value: JsonValue = {"state": one.state, "at": to_text(one.at), "error": one.error}
        await self._store.note(DELIVERY, one.provider_id, value, rank=one.rank + 1)
        return IngestResult("noted")


def _opts(one: InboundMessage) -> bool:
    """Whether it says that somebody wants automatic answers, or none."""
    return one.channel is not Channel.EMAIL and one.extra.get("opt") in ("in", "out")


def _notes(one: InboundMessage, conversation_id: str, message: Message, *, again: bool) -> list[Note]:
    """What has to be known of a message before it is there; none of it needs another."""
    notes: list[Note] = []
    if one.channel is Channel.EMAIL:
        notes += thread_notes(conversation_id, one.thread, one.party, one.at, [message.provider_id or message.id])
    elif not _opts(one):
        notes.append(Note(SEEN, _key(one), to_text(one.at), kept=SEEN_FOR))
    if message.direction is Direction.INBOUND and one.suppress in (None, SuppressReason.OPT_OUT):
        references: list[JsonValue] = [one.provider_id, *one.thread.after]
        person = one.party.answers or one.party.sender
        route: JsonValue = {
            "account": one.party.account,
            "recipient": one.thread.conversation_id if one.channel is Channel.TELEGRAM else person,
            "sender": person,
            "topic": one.extra.get("topic"),
            "message": message.id,
            "subject": one.extra.get("subject") or one.thread.subject,
            "references": references[:20],
        }
        rank = 0 if again else _rank(one.at)  # another mailbox may have the same mail a moment later
        notes.append(Note(ROUTE, conversation_id, route, rank, replace=not again))
    about: dict[str, JsonValue] = dict(one.extra)
    if one.sent_at is not None:
        about["saidAt"] = to_text(one.sent_at)
    if one.suppress is not None:
        about["hush"] = one.suppress.value
    if about:
        notes.append(Note(ABOUT, f"{conversation_id} {message.id}", about))
    return [*notes, *name_notes(one, _rank(one.at))]


def _key(one: InboundMessage) -> str:
    """A message's own, among those of all channels."""
    return legal_id(f"{one.channel}:", one.provider_id)


def _rank(at: datetime) -> int:
    """So that what is older never replaces what is newer."""
    return (at - EPOCH) // timedelta(microseconds=1)
