"""What follows when a person acts: their reply goes out, and where they put somebody is remembered."""

from __future__ import annotations

from collections.abc import Callable

from afterturn.funnel.answering import SENT_ON, dispatch_of
from afterturn.funnel.intake import PERSON, ROUTE
from afterturn.model import ConversationMeta, Message
from afterturn.store.port import Chore, Keeper


async def reply_chores(keeper: Keeper, meta: ConversationMeta, message: Message) -> list[Chore]:
    """The chore to send what a person wrote; none where the conversation did not come in by a channel of ours."""
    if meta.channel not in SENT_ON or meta.id not in await keeper.noted(ROUTE, [meta.id]):
        return []
    return [dispatch_of(meta.id, message, automatic=False)]


async def remember_place(
    keeper: Keeper, conversation_id: str, property_id: str | None, *, may_undo: Callable[[str | None], bool]
) -> None:
    """Where the conversation was put, the next ones of the same person go, too.

    Unless somebody has put the person where ``may_undo`` says no: who has a say in one property takes nobody's mail
    away from another.
    """
    route = (await keeper.noted(ROUTE, [conversation_id])).get(conversation_id)
    if not isinstance(route, dict) or not route.get("sender"):
        return
    person = str(route["sender"])
    known = await keeper.noted(PERSON, [person])
    before = known.get(person)
    if before is None or may_undo(str(before)):
        await keeper.note(PERSON, person, property_id, replace=True)
