"""What follows when a person acts: their reply goes out, and where they put somebody is remembered."""

from __future__ import annotations

from afterturn.funnel.answering import dispatch_of
from afterturn.funnel.intake import PERSON, ROUTE
from afterturn.model import Channel, ConversationMeta, Message
from afterturn.store.port import Chore, Keeper

_SENT_ON = {Channel.SMS, Channel.EMAIL, Channel.TELEGRAM}
"""Where a text can be sent. A call is over, and a page fetches what it shows."""


async def reply_chores(keeper: Keeper, meta: ConversationMeta, message: Message) -> list[Chore]:
    """The chore to send what a person wrote; none where the conversation did not come in by a channel of ours."""
    if meta.channel not in _SENT_ON or meta.id not in await keeper.noted(ROUTE, [meta.id]):
        return []
    return [dispatch_of(meta.id, message, automatic=False)]


async def remember_place(keeper: Keeper, conversation_id: str, property_id: str | None) -> None:
    """Where the conversation was put, the next ones of the same person go, too."""
    route = (await keeper.noted(ROUTE, [conversation_id])).get(conversation_id)
    if isinstance(route, dict) and route.get("sender"):
        await keeper.note(PERSON, str(route["sender"]), property_id, replace=True)
