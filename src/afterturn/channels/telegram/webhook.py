"""The webhook of a Telegram bot.

A conversation is a chat: ``telegram:<chat id>``. Message ids are unique only within a chat, and a supergroup is another
chat than the group that it was, so a provider id is ``<chat id>:<message id>``. An attachment's URL is
``telegram:<file id>``; a location becomes a ``geo:`` URL; a poll, contact, dice or checklist becomes text. A sender is
``user<id>``, or ``chat<id>`` if a chat speaks (an anonymous administrator).

Telegram repeats an update until it is answered with success, and holds back all later ones. So an update with the right
secret that cannot be read yields :class:`Ignored`, never an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from afterturn.channels.http_client import open_http
from afterturn.channels.provider import ProviderConnection, ProviderContext, SenderBinding
from afterturn.channels.sanitize import (
    attachment,
    clean_line,
    clean_lines,
    clean_message_text,
    clean_string,
    from_seconds,
    geo_attachment,
    get_path,
    ignored_reason,
    json_object,
    limit_attachments,
    secrets_equal,
)
from afterturn.channels.telegram import TelegramSettings
from afterturn.channels.telegram.send import TelegramSender
from afterturn.channels.types import (
    ChannelEvent,
    Ignored,
    InboundMessage,
    MessageEdited,
    Party,
    Rejected,
    SuppressReason,
    Thread,
    ThreadMigrated,
    WebhookRequest,
)
from afterturn.channels.webhooks import WebhookEndpoint
from afterturn.ids import legal_id
from afterturn.model import Attachment, Channel

HEADER = "x-telegram-bot-api-secret-token"

_FILES = {
    "animation": "video/mp4",
    "audio": "audio/mpeg",
    "document": "application/octet-stream",
    "sticker": "image/webp",
    "video": "video/mp4",
    "video_note": "video/mp4",
    "voice": "audio/ogg",
}
"""Kinds of files, and the usual media type of each."""

_WORDS = ("contact", "poll", "checklist", "dice", "game", "invoice")
_CONTENT = {"text", "caption", "photo", "paid_media", "location", *_FILES, *_WORDS}


def endpoints(settings: TelegramSettings, context: ProviderContext) -> Mapping[str, WebhookEndpoint]:
    if settings.telegram_secret is None:
        return {}
    secret = settings.telegram_secret.get_secret_value()
    # A token begins with the bot's id.
    bot = "bot" if settings.telegram_token is None else settings.telegram_token.get_secret_value().partition(":")[0]
    return {
        "telegram": WebhookEndpoint(
            verify=lambda request, now: verify(request, secret),
            parse=lambda request, now: parse(request, now=now, bot=bot),
        )
    }


@asynccontextmanager
async def connect(settings: TelegramSettings, context: ProviderContext) -> AsyncIterator[ProviderConnection]:
    if settings.telegram_token is None:
        yield ProviderConnection(endpoints(settings, context))
        return
    async with open_http() as http:
        sender = TelegramSender(http, token=settings.telegram_token, clock=context.clock, api=settings.telegram_api)
        yield ProviderConnection(endpoints(settings, context), [SenderBinding(Channel.TELEGRAM, sender)])


def verify(request: WebhookRequest, secret: str) -> None:
    """Raises Rejected unless the request carries the secret that the webhook was registered with."""
    if HEADER not in request.headers:
        raise Rejected(401, "has no secret token: register the webhook with one")
    if not secrets_equal(request.headers[HEADER], secret):
        raise Rejected(401, "the secret token is wrong")


def parse(request: WebhookRequest, *, now: datetime, bot: str) -> tuple[ChannelEvent, ...]:
    """The events of an update. ``bot``: the bot's id or name, which updates do not contain. Never raises Rejected."""
    update = json_object(request.body)
    if update is None:
        return (Ignored("unreadable"),)
    for kind in ("message", "edited_message"):
        if isinstance(message := update.get(kind), dict):
            edited = _edited_at(message, update, now) if kind == "edited_message" else None
            return (_read(message, edited, now, bot),)
        if kind in update:
            return (Ignored("unreadable"),)
    return (Ignored(ignored_reason(min(update.keys() - {"update_id"}, default=None))),)


def _edited_at(message: Mapping[str, Any], update: Mapping[str, Any], now: datetime) -> datetime:
    """The time of an edit by Telegram's clock, so that a repeated or late edit stays older.

    Within one second, edits are ordered by update id.
    """
    at, number = from_seconds(message.get("edit_date"), now), _id(update.get("update_id"))
    return now if at is None else min(at + timedelta(microseconds=int(number or 0) % 1_000_000), now)


def _read(message: Mapping[str, Any], edited: datetime | None, now: datetime, bot: str) -> ChannelEvent:
    chat, number = _id(get_path(message, "chat", "id")), _id(message.get("message_id"))
    if chat is None or number is None:
        return Ignored("unreadable")
    if (after := _id(message.get("migrate_to_chat_id"))) is not None:
        return ThreadMigrated(source=_conversation(chat), target=_conversation(after), at=now)
    if (before := _id(message.get("migrate_from_chat_id"))) is not None:
        return ThreadMigrated(source=_conversation(before), target=_conversation(chat), at=now)
    return _content(message, edited, chat, number, now, bot)


def _content(
    message: Mapping[str, Any], edited: datetime | None, chat: str, number: str, now: datetime, bot: str
) -> ChannelEvent:
    extra = _extra(message, chat)
    text = clean_message_text(message.get("text"), extra) or clean_message_text(message.get("caption"), extra)
    text = text or clean_message_text(_text_of_content(message), extra)
    files = limit_attachments(_attachments(message), extra)
    if not text and not files and "left_out" not in extra:
        return Ignored("unreadable" if _CONTENT & message.keys() else "service-message")
    provider_id, thread = legal_id("", f"{chat}:{number}"), Thread(_conversation(chat))
    if edited is not None:
        return MessageEdited(provider_id=provider_id, thread=thread, at=edited, text=text, attachments=files)
    sender = _sender(message, chat)
    album = clean_line(message.get("media_group_id"))
    return InboundMessage(
        channel=Channel.TELEGRAM,
        provider_id=provider_id,
        party=Party(bot, sender),
        thread=thread,
        at=now,
        text=text,
        attachments=files,
        participants=(sender,),
        sent_at=from_seconds(message.get("date"), now),
        suppress=_suppress_reason(message, bot),
        album=legal_id("", f"{chat}:{album}") if album else None,
        extra=extra,
    )


def _conversation(chat: str) -> str:
    return legal_id("telegram:", chat)


def _id(value: object) -> str | None:
    """Ids are integers of any size."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _sender(message: Mapping[str, Any], chat: str) -> str:
    if speaking := _id(get_path(message, "sender_chat", "id")):
        return legal_id("chat", speaking)
    user = _id(get_path(message, "from", "id"))
    return legal_id("user", user) if user else legal_id("chat", chat)


def _suppress_reason(message: Mapping[str, Any], bot: str) -> SuppressReason | None:
    sender = get_path(message, "from")
    if bot.lstrip("@").lower() in {
        _id(get_path(sender, "id")),
        clean_string(get_path(sender, "username")).lower() or None,
    }:
        return SuppressReason.OWN
    if message.get("is_automatic_forward") is True:  # from the channel that belongs to the group
        return SuppressReason.BULK
    if get_path(sender, "is_bot") is True and "sender_chat" not in message:
        return SuppressReason.AUTO_REPLY
    return None


def _extra(message: Mapping[str, Any], chat: str) -> dict[str, str]:
    speaks = "sender_chat" if _id(get_path(message, "sender_chat", "id")) else "from"
    names = [clean_line(get_path(message, speaks, key)) for key in ("title", "first_name", "last_name")]
    replied = _id(get_path(message, "reply_to_message", "message_id"))
    return clean_lines(
        name=" ".join(name for name in names if name),
        username=get_path(message, speaks, "username"),
        topic=_id(message.get("message_thread_id")),
        reply_to=f"{_id(get_path(message, 'reply_to_message', 'chat', 'id')) or chat}:{replied}" if replied else "",
    )


def _text_of_content(message: Mapping[str, Any]) -> str:
    """Content that is neither text nor a file, as text."""
    for kind in _WORDS:
        thing = message.get(kind)
        if not isinstance(thing, dict):
            continue
        match kind:
            case "contact":
                words = " ".join(_texts(thing, "first_name", "last_name", "phone_number"))
            case "poll":
                words = _listed(thing, "question", "options")
            case "checklist":
                words = _listed(thing, "title", "tasks")
            case "dice":
                words = " ".join([*_texts(thing, "emoji"), *([value] if (value := _id(thing.get("value"))) else [])])
            case _:
                words = "\n".join(_texts(thing, "title", "description"))
        if words:
            return words
    return ""


def _texts(thing: Mapping[str, Any], *keys: str) -> list[str]:
    return [text for key in keys if isinstance(text := thing.get(key), str) and text]


def _listed(thing: Mapping[str, Any], title: str, items: str) -> str:
    entries = thing.get(items)
    lines = [line for entry in (entries if isinstance(entries, list) else []) if (line := get_path(entry, "text"))]
    return "\n".join([*_texts(thing, title), *(f"- {line}" for line in lines if isinstance(line, str))])


def _attachments(message: Mapping[str, Any]) -> list[Attachment | None]:
    files: list[Attachment | None] = []
    if photo := _largest(message.get("photo")):
        files.append(_file(photo, "image/jpeg"))
    for kind, usual in _FILES.items():
        if kind == "document" and "animation" in message:  # the same file again, for clients that know no animations
            continue
        if isinstance(thing := message.get(kind), dict):
            files.append(_file(thing, _sticker(thing) if kind == "sticker" else usual))
    paid = get_path(message, "paid_media", "paid_media")
    for item in paid if isinstance(paid, list) else []:
        if photo := _largest(get_path(item, "photo")):
            files.append(_file(photo, "image/jpeg"))
        if isinstance(video := get_path(item, "video"), dict):
            files.append(_file(video, "video/mp4"))
    if isinstance(location := message.get("location"), dict):
        name = get_path(message, "venue", "title")
        files.append(geo_attachment(location.get("latitude"), location.get("longitude"), name))
    return files


def _file(thing: Mapping[str, Any], usual: str) -> Attachment | None:
    file_id = thing.get("file_id")
    if not isinstance(file_id, str) or not file_id:
        return None
    return attachment(f"telegram:{file_id}", thing.get("mime_type"), thing.get("file_name", thing.get("emoji")), usual)


def _sticker(thing: Mapping[str, Any]) -> str:
    if thing.get("is_animated") is True:
        return "application/x-tgsticker"
    return "video/webm" if thing.get("is_video") is True else "image/webp"


def _largest(sizes: object) -> Mapping[str, Any] | None:
    """A photo comes in several sizes."""
    photos = [size for size in sizes if isinstance(size, dict)] if isinstance(sizes, list) else []
    return max(photos, key=_area, default=None)


def _area(size: Mapping[str, Any]) -> int:
    width, height = size.get("width"), size.get("height")
    return width * height if isinstance(width, int) and isinstance(height, int) else 0
