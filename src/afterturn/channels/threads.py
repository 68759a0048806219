"""Which conversation an arrival belongs to, from what the store remembers of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import JsonValue

from afterturn.channels.types import InboundMessage, Party, Thread
from afterturn.clock import EPOCH, parse_time, to_text
from afterturn.ids import digest, legal_id
from afterturn.store.port import Keeper, Note

THREAD = "thread"
"""Notes: the id of a mail, and the conversation that it is in."""

SUBJECT = "subject"
"""Notes: party and subject of mail that names no other, and its newest conversation."""

MOVED = "moved"
"""Notes: a conversation's id as the channel has it now, and the id that it has here."""

SUBJECT_COUNTS_FOR = timedelta(days=14)
"""Mail of the same people and subject is one thread where it comes within this time of the mail before."""

_STEPS = 5
"""A thread that moved more often goes on under its newest id."""


Clues = Mapping[str, Sequence[str]]
"""The keys of notes that tell where something belongs, by the name of the notes; those that tell most come first."""


def clues_of(thread: Thread, party: Party, names: Sequence[str] = ()) -> Clues:
    """What to look at for an arrival. ``names``: as for :func:`thread_notes`."""
    mails = list(dict.fromkeys((*names, *thread.after)))
    subjects = [] if thread.subject is None else [subject_key(party, thread.subject)]
    return {THREAD: mails, SUBJECT: subjects, MOVED: [thread.conversation_id]}


def find_thread(clues: Clues, known: Mapping[str, Mapping[str, JsonValue]], at: datetime) -> str:
    """The id of the conversation: where it is already, else that of the nearest known mail before, else that of party
    and subject, else its own, by the name that it bears by now as far as this look tells. A second delivery is where
    the first one is, whatever came to be known in between. ``known``: what the notes say.
    """
    for mail in clues[THREAD]:
        if mail in known[THREAD]:
            return str(known[THREAD][mail])
    for subject in clues[SUBJECT]:
        found = known[SUBJECT].get(subject)
        if isinstance(found, dict) and at - parse_time(str(found["at"])) <= SUBJECT_COUNTS_FOR:
            return str(found["conversation"])
    [own] = clues[MOVED]
    return str(known[MOVED].get(own, own))


def thread_notes(conversation_id: str, thread: Thread, party: Party, at: datetime, names: Sequence[str]) -> list[Note]:
    """What to remember of a mail. ``names``: the ids under which answers will speak of it."""
    notes = [Note(THREAD, name, conversation_id) for name in names]
    if thread.subject is not None:
        value: JsonValue = {"conversation": conversation_id, "at": to_text(at)}
        # An older mail that comes again does not turn it back.
        rank = (at - EPOCH) // timedelta(microseconds=1)
        notes.append(Note(SUBJECT, subject_key(party, thread.subject), value, rank, replace=True))
    return notes


def is_stranger(arrived: InboundMessage, participants: Sequence[str]) -> bool:
    """Whether a mail comes from outside of the conversation that it names. ``participants``: the known ones.

    An id of a mail is no secret: it is in every copy, and whoever was forwarded one can name it. So are addresses: what
    the sender's own domain disowns (DMARC) may be from anybody.
    """
    if not participants or arrived.extra.get("direction") == "outbound":
        return False
    return legal_id("", arrived.party.sender) not in participants or arrived.extra.get("dmarc") == "FAIL"


def answered_there(arrived: InboundMessage, participants: Sequence[str]) -> InboundMessage:
    """A mail whose answers go where it wants them (``Reply-To``), if they may; else to its sender.

    They may where it begins a conversation, and where the address is in the conversation already. Later a new one would
    take the answers away from those who are in it: whoever forges one mail of theirs could read on, and nobody saw it.
    ``participants``: the known ones, of no conversation none.
    """
    wanted = arrived.party.answers
    if wanted is None or (arrived.suppress is None and (not participants or legal_id("", wanted) in participants)):
        return arrived
    return replace(arrived, party=replace(arrived.party, answers=None))


async def moved_to(keeper: Keeper, conversation_id: str) -> str:
    """The conversation that holds what a channel calls ``conversation_id`` by now."""
    for _ in range(_STEPS):
        found = (await keeper.noted(MOVED, [conversation_id])).get(conversation_id)
        if found is None:
            return conversation_id
        conversation_id = str(found)
    return conversation_id


def subject_key(party: Party, subject: str) -> str:
    """A form on a page writes for everybody, with one subject: it is for whom it wants the answer."""
    return digest(party.account.casefold(), (party.answers or party.sender).casefold(), subject.casefold())
