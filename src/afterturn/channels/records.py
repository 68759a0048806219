"""What an arrival becomes in the store: the records of its message and of its conversation. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from afterturn.channels.types import InboundMessage
from afterturn.ids import legal_id
from afterturn.model import MAX_MESSAGE_BYTES, Channel, ConversationMeta, Direction, Message, Role


def meta_of(
    conversation_id: str,
    channel: Channel,
    property_id: str | None,
    participants: Sequence[str],
    contact_name: str | None = None,
) -> ConversationMeta:
    """``participants``: those that are somebody, each once, the first hundred."""
    everyone = tuple(dict.fromkeys(legal_id("", one) for one in participants if _is_somebody(one)))
    return ConversationMeta(
        id=conversation_id,
        channel=channel,
        property_id=property_id,
        participants=everyone[:100],
        contact_name=contact_name,
    )


def message_of(one: InboundMessage) -> Message:
    """The record of a message: ours where the channel says that we sent it."""
    outbound = one.extra.get("direction") == "outbound"
    provider_id = legal_id("", one.provider_id)
    return Message(
        id=provider_id,
        direction=Direction.OUTBOUND if outbound else Direction.INBOUND,
        role=Role.AGENT if outbound else Role.CUSTOMER,
        text=one.text,
        at=one.at,
        provider_id=provider_id,
        attachments=one.attachments,
        whole=_whole(one),
    )


def _whole(one: InboundMessage) -> str | None:
    """As much of everything as fits beside the text."""
    if one.full_text is None or one.full_text == one.text:
        return None
    left = MAX_MESSAGE_BYTES - len(one.text.encode())
    return one.full_text.encode()[:left].decode(errors="ignore")


def _is_somebody(address: str) -> bool:
    return bool(address.strip()) and address != "anonymous"
