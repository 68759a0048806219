"""The JSON export of Telegram Desktop (``result.json``): one chat, or all of them under ``chats``.

A conversation is a chat, its id ``telegram:`` and the chat's as bots know it, so that it is the one that webhooks lead
to: an export says 815 for the group -815 and for the supergroup or channel -1000000000815, and tells them apart by
``type``. Only in supergroups and channels messages are numbered for everybody alike, so only there they are named as
a webhook names them; what stood in the group that a supergroup was before has numbers below zero.

Only messages count; service messages (somebody joined, a call was missed) are passed over. A time is
``date_unixtime``: exports from before 2022 have only a local ``date``, which has no offset, so their messages are bad
and the chat has to be exported again.

What we sent is outbound: ``own`` names ids (``user123`` or ``123``) or shown names; without it the account that
made the export, which a full export names; without that, in a chat between two, everybody but the one whom the chat
is named for. In a group of an export that doesn't name the account everything is inbound.

Files are named, not read: a path inside the export, or ``mid:`` where it was left out. A location on the map becomes a
``geo:`` address; a poll or a contact becomes text. The file is read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from afterturn.errors import InvalidInput
from afterturn.ids import legal_id
from afterturn.model import Channel, ConversationMeta, Direction, Message, Role

from .records import (
    MAX_PARTICIPANTS,
    BadRecord,
    ImportedConversation,
    ImportOptions,
    from_seconds,
    make_record,
    make_turns,
    thread_order,
)
from .source import ImportFile, json_object

MAX_FILE_BYTES = 512 * 2**20

_SECONDS = re.compile(r"[0-9]{1,18}\Z")
_BARE = re.compile(r"[1-9][0-9]{0,11}\Z")
_SPEAKING_CHANNEL = re.compile(r"channel([1-9][0-9]{0,11})\Z")
_DIGITS = re.compile(r"[0-9]+\Z")
_NOT_INCLUDED = "(File "
_PRIVATE = ("personal_chat", "bot_chat")
_GROUP = "private_group"
_CHANNELS = ("private_supergroup", "public_supergroup", "private_channel", "public_channel")
_CHANNEL = re.compile(r"-1[0-9]{12}\Z")
"""A supergroup or a channel, as bots know it."""

_IsOwn = Callable[[Mapping[str, Any]], bool]


def conversations(source: ImportFile, options: ImportOptions) -> Iterator[ImportedConversation | BadRecord]:
    """The chats of the export; raises InvalidInput for a file too large to be read whole."""
    if source.size > MAX_FILE_BYTES:
        raise InvalidInput(
            f"{source.path}: has more than {MAX_FILE_BYTES} bytes; export the chats one by one or by year"
        )
    value = json_object(source.read())
    if isinstance(value, str):
        yield BadRecord(source.name, value)
        return
    account = _account(value)
    seen: set[str] = set()
    for location, chat in _chats(value, source.name):
        if isinstance(chat, BadRecord):
            yield chat
            continue
        for result in _chat(chat, location, account, options):
            if isinstance(result, ImportedConversation) and result.meta.id in seen:
                yield BadRecord(location, "id: is that of an earlier chat")
                continue
            if isinstance(result, ImportedConversation):
                seen.add(result.meta.id)
            yield result


def _chats(value: Mapping[str, Any], name: str) -> Iterator[tuple[str, Mapping[str, Any] | BadRecord]]:
    """Each chat and how its location is called; one chat's file is that chat."""
    if "messages" in value:
        yield name, value
        return
    number = 0
    for key in ("chats", "left_chats"):
        group = value.get(key)
        if group is None:
            continue
        chats = group.get("list") if isinstance(group, dict) else None
        if not isinstance(chats, list):
            yield name, BadRecord(name, f"{key}: has no list of chats")
            continue
        for chat in chats:
            number += 1
            location = f"{name}: chat {number}"
            yield location, chat if isinstance(chat, dict) else BadRecord(location, "is not a JSON object")
    if not number:
        yield name, BadRecord(name, "has no chats")


def _chat(
    chat: Mapping[str, Any], location: str, account: str | None, options: ImportOptions
) -> Iterator[ImportedConversation | BadRecord]:
    raw_id, items = chat.get("id"), chat.get("messages")
    if isinstance(raw_id, bool) or not isinstance(raw_id, int | str):
        yield BadRecord(location, "id: is missing or not a number")
        return
    chat_id = _as_bots_know(raw_id, chat.get("type"))
    if not isinstance(items, list):
        yield BadRecord(location, "messages: is missing or not a list")
        return
    is_own = _ownership(chat, chat_id, account, options)
    messages: list[Message] = []
    participants: dict[str, None] = {}
    ids: set[str] = set()
    between = ", " if ": chat " in location else ": "
    for number, item in enumerate(items, 1):
        message = _message(item, f"{location}{between}message {number}", chat_id, is_own, options)
        if message is None:
            continue
        if isinstance(message, Message) and message.id in ids:
            message = BadRecord(f"{location}{between}message {number}", "id: is that of an earlier message of the chat")
        if isinstance(message, BadRecord):
            yield message
            continue
        ids.add(message.id)
        messages.append(message)
        if message.direction is Direction.INBOUND and (sender := _sender(item)):
            participants[legal_id("", _party(sender))] = None
    if not messages:
        return
    messages = thread_order(messages)
    meta = make_record(
        ConversationMeta,
        {
            "id": legal_id("telegram:", chat_id),
            "channel": Channel.TELEGRAM,
            "property_id": options.property_id,
            "participants": list(participants)[:MAX_PARTICIPANTS],
            "created_at": messages[0].at,
        },
        location,
    )
    yield meta if isinstance(meta, BadRecord) else ImportedConversation(meta, make_turns(meta, messages), location)


def _as_bots_know(raw_id: int | str, kind: object) -> str:
    """The id of a chat, which an export tells without what says of which kind it is."""
    text = str(raw_id)
    if not _BARE.match(text):
        return text
    if kind == _GROUP:
        return f"-{text}"
    return f"-1{text:0>12}" if kind in _CHANNELS else text


def _party(sender: str) -> str:
    """A sender as webhooks name it: a channel, or a supergroup of whose administrators one speaks, is a chat, too."""
    channel = _SPEAKING_CHANNEL.match(sender)
    return f"chat{_as_bots_know(channel[1], 'private_channel')}" if channel else sender


def _message(
    item: object, location: str, chat_id: str, is_own: _IsOwn, options: ImportOptions
) -> Message | BadRecord | None:
    if not isinstance(item, dict):
        return BadRecord(location, "is not a JSON object")
    if item.get("type") == "service":
        return None
    values = _values(item, chat_id, is_own, options)
    return BadRecord(location, values) if isinstance(values, str) else make_record(Message, values, location)


def _values(item: Mapping[str, Any], chat_id: str, is_own: _IsOwn, options: ImportOptions) -> dict[str, Any] | str:
    """The fields of the message, or why it is none."""
    if item.get("type") != "message":
        return "type: is neither message nor service"
    number = item.get("id")
    if isinstance(number, bool) or not isinstance(number, int | str):
        return "id: is missing or not a number"
    at = _time(item, options)
    if isinstance(at, str):
        return f"date_unixtime: {at}"
    text = _text(item.get("text", ""))
    if text is None:
        return "text: is neither a text nor a list of texts and entities"
    for_all = _CHANNEL.match(chat_id) and _DIGITS.match(str(number))
    name = legal_id("", f"{chat_id}:{number}" if for_all else str(number))
    outbound = is_own(item)
    return {
        "id": name,
        "provider_id": name,
        "direction": Direction.OUTBOUND if outbound else Direction.INBOUND,
        "role": Role.AGENT if outbound else Role.CUSTOMER,
        "text": text or _instead_of_text(item),
        "at": at,
        "attachments": _attachments(item, f"mid:{chat_id}/{number}"),
    }


def _time(item: Mapping[str, Any], options: ImportOptions) -> datetime | str:
    value = item.get("date_unixtime")
    if value is None:
        return "is missing, and date has no UTC offset; export again with a newer Telegram Desktop"
    text = str(value) if isinstance(value, int | str) else ""
    if not _SECONDS.match(text):
        return "is not a number of seconds since 1970"
    return from_seconds(int(text), options)


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    pieces = []
    for piece in value:
        text = piece.get("text") if isinstance(piece, dict) else piece
        if not isinstance(text, str):
            return None
        pieces.append(text)
    return "".join(pieces)


def _instead_of_text(item: Mapping[str, Any]) -> str:
    """A poll or a contact in words."""
    match item:
        case {"poll": {"question": str(question), **rest}}:
            answers = rest.get("answers")
            choices = [a["text"] for a in answers if _has_text(a)] if isinstance(answers, list) else []
            return "\n".join([question, *(f"- {choice}" for choice in choices)])
        case {"contact_information": {**contact}}:
            parts = [contact.get(key) for key in ("first_name", "last_name", "phone_number")]
            return " ".join(part for part in parts if isinstance(part, str) and part)
    return ""


def _has_text(answer: object) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("text"), str)


def _attachments(item: Mapping[str, Any], left_out: str) -> list[dict[str, str]]:
    files = []
    for key, usual in (("photo", "image/jpeg"), ("file", "application/octet-stream")):
        path = item.get(key)
        if not isinstance(path, str):
            continue
        media_type, name = item.get("mime_type"), item.get("file_name")
        url = left_out if path.startswith(_NOT_INCLUDED) else path
        files.append(
            {
                "url": url[:4000],
                "mediaType": media_type[:200] if isinstance(media_type, str) and media_type else usual,
                "name": (name if isinstance(name, str) else "" if url is left_out else path.rpartition("/")[2])[:400],
            }
        )
    match item.get("location_information"):
        case {"latitude": int() | float() as latitude, "longitude": int() | float() as longitude}:
            name = item.get("place_name")
            url = f"geo:{latitude},{longitude}"[:4000]
            files.append({"url": url, "name": name[:400] if isinstance(name, str) else ""})
    return files


def _account(value: Mapping[str, Any]) -> str | None:
    match value.get("personal_information"):
        case {"user_id": int() | str() as user}:
            return _user(user)
    return None


def _ownership(chat: Mapping[str, Any], chat_id: str, account: str | None, options: ImportOptions) -> _IsOwn:
    """Tells whether a message is ours, from the best that is known (see the module)."""
    own_users = {account} if account and not options.own else {_user(entry) for entry in options.own}
    if own_users:
        return lambda item: _sender(item) in own_users or _shown_name(item) in own_users
    if chat.get("type") in _PRIVATE:
        other = {_user(chat_id), str(chat.get("name"))}
        return lambda item: _sender(item) not in other and _shown_name(item) not in other
    return lambda item: False


def _sender(item: Mapping[str, Any]) -> str | None:
    sender = item.get("from_id", item.get("from"))
    return _user(sender) if isinstance(sender, int | str) else None


def _shown_name(item: Mapping[str, Any]) -> str | None:
    name = item.get("from")
    return name if isinstance(name, str) else None


def _user(value: int | str) -> str:
    """``user123`` for ``123``, ``"123"`` and ``"user123"``; a shown name as it is."""
    text = str(value).strip()
    return f"user{text}" if _DIGITS.match(text) else text
