"""What follows when a person acts: their reply goes out, and where they put somebody is remembered."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from afterturn.channels.auto_reply import SENT_ON, dispatch_of
from afterturn.channels.ingest import OPTED_OUT, PERSON, ROUTE
from afterturn.channels.routing import learn
from afterturn.model import ConversationMeta, Message
from afterturn.store.port import Job, Keeper


async def reply_jobs(keeper: Keeper, meta: ConversationMeta, message: Message) -> list[Job]:
    """The job to send what a person wrote; none where the conversation did not come in by a channel of ours."""
    if meta.channel not in SENT_ON or meta.id not in await keeper.noted(ROUTE, [meta.id]):
        return []
    return [dispatch_of(meta.id, message, automatic=False)]


async def has_opted_out(keeper: Keeper, conversation_id: str, people: Sequence[str]) -> bool:
    """Whether whom a reply would go to, one of the people, wrote STOP. It is sent nevertheless: only its provider knows
    to which of our numbers that was said, and refuses it for good.
    """
    known = await keeper.notes({ROUTE: [conversation_id], OPTED_OUT: list(people)})
    route = known[ROUTE].get(conversation_id)
    found = known[OPTED_OUT].get(str(route["recipient"])) if isinstance(route, dict) else None
    return isinstance(found, dict) and bool(found.get("out"))


async def remember_place(
    keeper: Keeper,
    conversation_id: str,
    property_id: str | None,
    *,
    taken_from: str | None,
    scope: Collection[str | None] | None,
) -> None:
    """Where the conversation was put, the next ones of the same person go, too; see :mod:`placing` for which.

    ``scope``: the properties that whoever put it there has a say in, None among them for nowhere; None: in all.
    """
    route = (await keeper.noted(ROUTE, [conversation_id])).get(conversation_id)
    if not isinstance(route, dict) or not route.get("sender"):
        return
    person = str(route["sender"])
    before = (await keeper.noted(PERSON, [person])).get(person)
    learned, note = learn(before, taken_from, property_id, scope)
    if learned:
        await keeper.note(PERSON, person, note, replace=True)
