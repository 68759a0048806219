"""Which conversation a message belongs to, from what is remembered of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from afterturn.channels.state import MergedThread, SubjectEntry, ThreadEntry, ThreadMigration
from afterturn.channels.types import InboundMessage, Party, ThreadMigrated
from afterturn.ids import digest, legal_id
from afterturn.model import MAX_TURN_MESSAGES, Channel, ConversationMeta, Message, Status, Turn
from afterturn.store.state import StateRecord, StateRecords, StateStore, time_version

SUBJECT_COUNTS_FOR = timedelta(days=14)
"""Mail of the same people and subject is one thread if it comes within this time of the mail before."""

_MAX_MERGES = 5
"""A thread that was merged more often goes on under its newest id."""


def thread_keys(event: InboundMessage) -> Mapping[type[StateRecord], Sequence[str]]:
    """The records that :func:`find_thread` needs."""
    keys: dict[type[StateRecord], Sequence[str]] = {
        ThreadEntry: list(dict.fromkeys((*_own_names(event), *event.thread.after))),
        MergedThread: [event.thread.conversation_id],
    }
    if event.thread.subject is not None:
        keys[SubjectEntry] = [subject_key(event.party, event.thread.subject)]
    return keys


def find_thread(event: InboundMessage, known: StateRecords) -> str:
    """The id of the conversation: where the mail is already, else that of the nearest known mail before it, else that
    of party and subject, else its own, merged as far as ``known`` says.

    A repeated delivery goes where the first one went, whatever has become known in between.
    """
    for mail in (*_own_names(event), *event.thread.after):
        if (entry := known.get(ThreadEntry, mail)) is not None:
            return entry.conversation_id
    if event.thread.subject is not None:
        newest = known.get(SubjectEntry, subject_key(event.party, event.thread.subject))
        if newest is not None and event.at - newest.at <= SUBJECT_COUNTS_FOR:
            return newest.conversation_id
    merged = known.get(MergedThread, event.thread.conversation_id)
    return event.thread.conversation_id if merged is None else merged.conversation_id


def is_known_mail(event: InboundMessage, known: StateRecords) -> bool:
    """Whether the mail was stored before."""
    return any(known.get(ThreadEntry, name) is not None for name in _own_names(event))


def thread_records(event: InboundMessage, conversation_id: str) -> Sequence[StateRecord]:
    """What to remember of a mail, so that replies find its thread."""
    records: list[StateRecord] = [ThreadEntry(key=name, conversation_id=conversation_id) for name in _own_names(event)]
    if event.thread.subject is not None:
        records.append(
            SubjectEntry(
                key=subject_key(event.party, event.thread.subject),
                version=time_version(event.at),  # an older mail that comes again does not turn it back
                conversation_id=conversation_id,
                at=event.at,
            )
        )
    return records


def is_outsider(event: InboundMessage, participants: Sequence[str]) -> bool:
    """Whether a mail comes from outside of the conversation that it names. ``participants``: the known ones.

    The id of a mail is no secret: it is in every copy, so everybody whom one was forwarded to can name it. Neither are
    addresses: mail that the sender's own domain disowns (DMARC) may be from anybody.
    """
    if not participants or event.extra.get("direction") == "outbound":
        return False
    return legal_id("", event.party.sender) not in participants or event.extra.get("dmarc") == "FAIL"


def with_allowed_reply_to(event: InboundMessage, participants: Sequence[str]) -> InboundMessage:
    """The mail without its Reply-To, unless that begins a conversation or names a participant.

    A new address in a known conversation would take the answers away from its participants: somebody who forges one
    of their mails could read on unnoticed. ``participants``: the known ones; none of a new conversation.
    """
    reply_to = event.party.reply_to
    if reply_to is None or (event.suppress is None and (not participants or legal_id("", reply_to) in participants)):
        return event
    return replace(event, party=replace(event.party, reply_to=None))


async def merged_into(store: StateStore, conversation_id: str) -> str:
    """The conversation that holds the thread that a channel knows as ``conversation_id``."""
    for _ in range(_MAX_MERGES):
        merged = await store.get(MergedThread, conversation_id)
        if merged is None:
            return conversation_id
        conversation_id = merged.conversation_id
    return conversation_id


def subject_key(party: Party, subject: str) -> str:
    """A form on a web page writes for everybody, with one subject: it belongs to the address in its Reply-To."""
    return digest(party.account.casefold(), (party.reply_to or party.sender).casefold(), subject.casefold())


def _own_names(event: InboundMessage) -> Sequence[str]:
    """The id under which replies name the mail."""
    return [legal_id("", event.provider_id)] if event.channel is Channel.EMAIL else []


class MergeWriter(Protocol):
    async def settle(self, turn: Turn) -> object: ...
    async def save_conversation(self, meta: ConversationMeta) -> object: ...


class MergeStore(StateStore, Protocol):
    async def meta(self, conversation_id: str) -> ConversationMeta | None: ...
    async def messages(self, conversation_id: str, *, limit: int | None = None) -> Sequence[Message]: ...


async def surviving_thread(store: MergeStore, event: ThreadMigrated) -> tuple[str, str]:
    """The conversation to merge and the one that survives: the older id, unless only the newer one is known.

    Decided once, whichever of the two ids is delivered first.
    """
    target = await merged_into(store, event.source)
    if target == event.target:
        return event.source, target
    if await store.meta(event.target) is not None and await store.meta(target) is None:
        target = event.target
    both = digest(event.source, event.target)
    await store.put(ThreadMigration(key=both, conversation_id=target))
    if (decided := await store.get(ThreadMigration, both)) is not None:
        target = decided.conversation_id
    source = event.source if target == event.target else event.target
    await store.put(MergedThread(key=source, conversation_id=target))
    return source, target


async def merge_thread(writer: MergeWriter, store: MergeStore, source: str, target: str) -> bool:
    """Copy the messages of ``source`` to ``target`` and hide ``source``. Return whether there were any."""
    stray = await store.meta(source)
    if stray is None:
        return False
    meta = await store.meta(target) or stray.model_copy(update={"id": target})
    messages = await store.messages(source)
    for begin in range(0, len(messages), MAX_TURN_MESSAGES):
        part = tuple(messages[begin : begin + MAX_TURN_MESSAGES])
        await writer.settle(Turn(conversation=meta, messages=part))
    if not stray.synthetic:
        await writer.save_conversation(stray.model_copy(update={"synthetic": True, "status": Status.CLOSED}))
    return True
