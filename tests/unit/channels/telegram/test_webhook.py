"""A bot's updates: messages, edits, moves, and everything else without an error that would be repeated for ever."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.channels.channels import NOW, SAMPLES, assert_survives, here, json_request, only, request, sample

from afterturn.channels.sanitize import CUT_MARK
from afterturn.channels.telegram.webhook import HEADER, parse, verify
from afterturn.channels.types import (
    Ignored,
    InboundMessage,
    MessageEdited,
    Rejected,
    SuppressReason,
    ThreadMigrated,
    WebhookRequest,
)
from afterturn.model import Attachment, Channel

ANNA = ("telegram:299951728", "user299951728", {"name": "Анна Олег", "username": "user7656"})
ALEX = ("telegram:484979196", "user484979196", {"name": "Alex", "username": "user2859"})
DOCS = ("telegram:1111111", "user1111111", {"name": "Test Firstname Test Lastname", "username": "Testusername"})

MESSAGES: dict[str, tuple[tuple[str, str, dict[str, str]], str, str, list[tuple[str, str, str]]]] = {
    "text-private": (ALEX, "484979196:154", "4", []),
    "text-emoji-cyrillic": (ANNA, "299951728:199785", "Лол кек 😂", []),
    "text-link-preview-disabled": (
        ("telegram:236190290", "user236190290", {"name": "Sam", "username": "user0765"}),
        "236190290:6557",
        "hello there",
        [],
    ),
    "sticker-animated": (
        ANNA,
        "299951728:199787",
        "",
        [
            (
                "telegram:CAACAgIAAxkBAAESLdBjMImep-J0W8XaTN6S_Lz1-j1QIQACIwADsND4DGmmygHGlyggKQQ",
                "application/x-tgsticker",
                "😡",
            )
        ],
    ),
    "photo-sizes": (
        ANNA,
        "299951728:199791",
        "",
        [("telegram:AgADAgAD36sxG-PX0UvQSXIn9rccdw-ACA4ABAEAAwIAA3kAAyTcBAABFgQ", "image/jpeg", "")],
    ),
    "photo-caption-entities": (
        ("telegram:27439075", "user27439075", {"name": "Alex | unit 4B", "username": "user3098"}),
        "27439075:3460",
        "www.example.com",
        [
            (
                "telegram:AgACAgQAAxkBAAINhGKvijUVSn2i3980bQIIc1fqWGNCAAJpvDEbEmaBUfuA43fR-BnlAQADAgADeQADJAQ",
                "image/jpeg",
                "",
            )
        ],
    ),
    "reply-to-story-command": (
        (
            "telegram:-1000344576320",
            "user5325368649",
            {"name": "Sam", "username": "user2369", "topic": "134545", "reply_to": "-1000344576320:134545"},
        ),
        "-1000344576320:134546",
        "/report",
        [],
    ),
    "docs-reply": ((*DOCS[:2], {**DOCS[2], "reply_to": "1111112:1334"}), "1111111:1365", "/start", []),
    "docs-document": (
        DOCS,
        "1111111:1365",
        "",
        [("telegram:AwADBAADbXXXXXXXXXXXGBdhD2l6_XX", "application/pdf", "Testfile.pdf")],
    ),
    "docs-voice": (DOCS, "1111111:1365", "", [("telegram:AwADBAADbXXXXXXXXXXXGBdhD2l6_XX", "audio/ogg", "")]),
    "voice-chatwoot": (
        ("telegram:23", "user23", {"name": "Alex Sam", "username": "user6385"}),
        "23:1",
        "",
        [("telegram:AwACAgUAAxkBAANjYVwnWF_w8LYTchqVdK9dY7mbwYEAAskDAALCoeBWFvS2u4zS6HAhBA", "audio/ogg", "")],
    ),
}
REASONS = {
    "channel-post-json-text": "channel-post",
    "my-chat-member-blocked": "my-chat-member",
    "unknown-update-kind": "new-update-kind",
    "pinned": "service-message",
}
MOVES = ["group-migrate-to", "group-migrate-from"]
SECRET = "a-Secret_1"


def arrival(update: object, bot: str = "helper_bot") -> Any:
    return only(parse(json_request(update), now=NOW, bot=bot))


def message(**changes: object) -> dict[str, Any]:
    """An update with a message; a change to None takes the field away."""
    base = {
        "message_id": 10,
        "date": 1780300000,
        "chat": {"id": 77, "type": "private", "first_name": "Ann"},
        "from": {"id": 77, "is_bot": False, "first_name": "Ann"},
        "text": "stop it",
    }
    return {"update_id": 1, "message": {key: value for key, value in (base | changes).items() if value is not None}}


@here
@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_in_as_it_was_written(name: str) -> None:
    (conversation, sender, extra), provider_id, text, files = MESSAGES[name]
    arrived = only(parse(request(sample(f"telegram/{name}.json")), now=NOW, bot="helper_bot"))
    assert isinstance(arrived, InboundMessage)
    assert (arrived.channel, arrived.provider_id, arrived.text) == (Channel.TELEGRAM, provider_id, text)
    assert (arrived.thread.conversation_id, arrived.party.sender, arrived.participants) == (
        conversation,
        sender,
        (sender,),
    )
    assert (arrived.party.account, arrived.suppress, arrived.album, arrived.extra) == ("helper_bot", None, None, extra)
    assert arrived.attachments == tuple(Attachment(url=u, media_type=m, name=n) for u, m, n in files)
    date = json.loads(sample(f"telegram/{name}.json"))["message"]["date"]
    assert arrived.sent_at == datetime.fromtimestamp(date, UTC)


@here
def test_an_edit_changes_the_message_of_its_id() -> None:
    original = only(parse(request(sample("telegram/docs-reply.json")), now=NOW, bot="b"))
    edited = only(parse(request(sample("telegram/docs-edited-message.json")), now=NOW, bot="b"))
    at = datetime(2015, 9, 7, 17, 23, 20, 10_000, tzinfo=UTC)  # within its second by the update's id
    assert edited == MessageEdited("1111111:1365", original.thread, at, "Edited text")
    assert edited.provider_id == original.provider_id


@here
@pytest.mark.parametrize("name", REASONS)
def test_what_is_no_message_is_nothing_and_no_error(name: str) -> None:
    assert only(parse(request(sample(f"telegram/{name}.json")), now=NOW, bot="b")) == Ignored(REASONS[name])


@here
@pytest.mark.parametrize("name", MOVES)
def test_a_group_that_grows_keeps_its_conversation(name: str) -> None:
    moved = only(parse(request(sample(f"telegram/{name}.json")), now=NOW, bot="b"))
    assert moved == ThreadMigrated("telegram:-519183516", "telegram:-1008160086622", NOW)


@here
def test_every_sample_is_tested() -> None:
    names = {*MESSAGES, *REASONS, *MOVES, "docs-edited-message"}
    assert {path.stem for path in (SAMPLES / "telegram").iterdir()} == names


def test_only_who_knows_the_secret_comes_in() -> None:
    good = WebhookRequest("POST", "https://h/hook", {HEADER: SECRET}, b"{}")
    verify(good, SECRET)
    verify(good, SECRET)
    for headers in ({}, {HEADER: ""}, {HEADER: SECRET[:-1]}, {HEADER: SECRET.upper()}, {HEADER: "é\udcff"}):
        with pytest.raises(Rejected) as refused:
            verify(WebhookRequest("POST", "https://h/hook", headers, b"{}"), SECRET)
        assert refused.value.status == 401
        assert SECRET not in refused.value.reason
    for headers in ({}, {HEADER: ""}):
        with pytest.raises(Rejected):
            verify(WebhookRequest("POST", "https://h/hook", headers, b"{}"), "")


def test_an_update_that_is_sent_again_brings_the_same() -> None:
    assert arrival(message()) == arrival(message() | {"update_id": 2})


def test_edits_are_edits_even_of_what_only_telegram_sees() -> None:
    first = arrival(message())
    same = arrival({"update_id": 2, "edited_message": message(edit_date=1780300100)["message"]})
    other = arrival({"update_id": 3, "edited_message": message(text="go on", edit_date=1780300200)["message"]})
    assert (first.provider_id, first.text) == ("77:10", "stop it")
    at = datetime.fromtimestamp(1780300100, UTC)
    assert same == MessageEdited("77:10", first.thread, at + timedelta(microseconds=2), "stop it")
    assert other == MessageEdited("77:10", first.thread, at + timedelta(seconds=100, microseconds=3), "go on")
    assert arrival({"update_id": 4, "my_chat_member": {"chat": {"id": 77}}}) == Ignored("my-chat-member")
    photo = [{"file_id": "new", "width": 1, "height": 1}]
    replaced = arrival({"update_id": 5, "edited_message": message(text=None, caption="now", photo=photo)["message"]})
    assert (replaced.text, replaced.attachments) == ("now", (Attachment(url="telegram:new", media_type="image/jpeg"),))


def test_a_group_that_has_moved_says_so_from_either_side_and_counts_anew() -> None:
    old, new = {"id": -4518810793, "type": "group"}, {"id": -1002471352452, "type": "supergroup"}
    early = arrival(message(chat=new, message_id=10))
    before = arrival(message(chat=old, message_id=10))
    moves = [
        arrival(message(chat=old, text=None, migrate_to_chat_id=-1002471352452)),
        arrival(message(chat=new, text=None, migrate_from_chat_id=-4518810793, message_id=1)),
    ]
    assert early.thread.conversation_id == "telegram:-1002471352452"
    assert moves == [ThreadMigrated("telegram:-4518810793", "telegram:-1002471352452", NOW)] * 2
    assert early.provider_id != before.provider_id


def test_the_parts_of_an_album_share_it() -> None:
    parts = [
        arrival(message(message_id=n, text=None, media_group_id="130", photo=[{"file_id": f"p{n}"}], caption=caption))
        for n, caption in ((1, "Look"), (2, None))
    ]
    assert [part.album for part in parts] == ["77:130", "77:130"]
    assert [part.text for part in parts] == ["Look", ""]
    assert arrival(message(chat={"id": 78}, media_group_id="130")).album == "78:130"


FILE = {"file_id": "F1"}


@pytest.mark.parametrize(
    ("content", "media_type", "name"),
    [
        ({"document": FILE | {"mime_type": "text/plain", "file_name": "a.txt"}}, "text/plain", "a.txt"),
        ({"document": FILE}, "application/octet-stream", ""),
        ({"animation": FILE | {"file_name": "a.mp4"}, "document": FILE}, "video/mp4", "a.mp4"),
        ({"audio": FILE}, "audio/mpeg", ""),
        ({"voice": FILE}, "audio/ogg", ""),
        ({"video": FILE | {"mime_type": "video/quicktime"}}, "video/quicktime", ""),
        ({"video_note": FILE}, "video/mp4", ""),
        ({"sticker": FILE | {"emoji": "👍"}}, "image/webp", "👍"),
        ({"sticker": FILE | {"is_video": True}}, "video/webm", ""),
        ({"paid_media": {"paid_media": [{"type": "photo", "photo": [FILE]}, {"type": "preview"}]}}, "image/jpeg", ""),
        ({"paid_media": {"paid_media": [{"type": "video", "video": FILE}]}}, "video/mp4", ""),
    ],
)
def test_every_kind_of_file_is_an_attachment(content: dict[str, Any], media_type: str, name: str) -> None:
    arrived = arrival(message(text=None, **content))
    assert arrived.attachments == (Attachment(url="telegram:F1", media_type=media_type, name=name),)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"contact": {"first_name": "Bo", "last_name": "Li", "phone_number": "+15158226442"}}, "Bo Li +15158226442"),
        ({"poll": {"question": "When?", "options": [{"text": "Now"}, {"text": "Later"}, 7]}}, "When?\n- Now\n- Later"),
        ({"checklist": {"title": "To do", "tasks": [{"id": 1, "text": "Sink"}]}}, "To do\n- Sink"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "🎲 4"),
        ({"game": {"title": "Chess", "description": "Play"}}, "Chess\nPlay"),
    ],
)
def test_what_is_neither_text_nor_file_is_put_in_words(content: dict[str, Any], text: str) -> None:
    assert arrival(message(text=None, **content)).text == text


def test_a_place_is_an_attachment_with_its_name() -> None:
    location = {"latitude": 41.5868, "longitude": -93.625}
    venue = {"location": location, "title": "Office"}
    assert arrival(message(text=None, location=location, venue=venue)).attachments == (
        Attachment(url="geo:41.5868,-93.625", name="Office"),
    )


@pytest.mark.parametrize(
    "service",
    [
        "new_chat_members",
        "left_chat_member",
        "new_chat_title",
        "group_chat_created",
        "pinned_message",
        "video_chat_started",
        "message_auto_delete_timer_changed",
        "forum_topic_created",
        "a_service_that_comes_next_year",
    ],
)
def test_service_messages_make_no_turn(service: str) -> None:
    assert arrival(message(text=None, **{service: {"text": "x"}})) == Ignored("service-message")


@pytest.mark.parametrize(
    ("sender", "bot", "hush"),
    [
        ({"from": {"id": 5, "is_bot": True, "username": "Other_bot"}}, "helper_bot", SuppressReason.AUTO_REPLY),
        ({"from": {"id": 5, "is_bot": True, "username": "Helper_Bot"}}, "@helper_bot", SuppressReason.OWN),
        ({"from": {"id": 5, "is_bot": True}}, "5", SuppressReason.OWN),
        ({"from": {"id": 777000}, "sender_chat": {"id": -100}, "is_automatic_forward": True}, "b", SuppressReason.BULK),
        ({"from": {"id": 1087968824, "is_bot": True}, "sender_chat": {"id": -100}}, "helper_bot", None),
        ({"from": {"id": 5, "is_bot": False}}, "helper_bot", None),
    ],
)
def test_machines_are_not_answered_and_anonymous_people_are(
    sender: dict[str, Any], bot: str, hush: SuppressReason | None
) -> None:
    arrived = arrival(message(**sender), bot=bot)
    assert arrived.suppress is hush
    assert arrived.party.sender == ("chat-100" if "sender_chat" in sender else f"user{sender['from']['id']}")


def test_ids_of_any_size_are_ids() -> None:
    huge = 10**300
    arrived = arrival(message(chat={"id": -huge}, message_id=huge, **{"from": {"id": huge}}))
    assert arrived.thread.conversation_id != arrival(message(chat={"id": huge})).thread.conversation_id
    assert arrival(message(chat={"id": 2**52 + 1})).thread.conversation_id == "telegram:4503599627370497"


def test_what_no_record_can_hold_is_cut_and_said_and_what_cannot_be_encoded_replaced() -> None:
    arrived = arrival(message(text="é" * 200_000))
    assert arrived.extra["cut"] == "400000"
    assert arrived.text.endswith(f"é{CUT_MARK}")
    assert arrival(message(text="hi \ud83d, a\u0000b, \ud83d\ude00")).text == "hi \ufffd, a\ufffdb, 😀"
    lost = arrival(message(text=None, document={"file_id": "x" * 4_000}))
    assert (lost.attachments, lost.extra["left_out"]) == ((), "1")
    assert arrival(message(text=None, voice={})).extra["left_out"] == "1"


@pytest.mark.parametrize("date", [None, "now", -1, 10**12, 1e400, True, 2_000_000_000])
def test_a_date_that_cannot_be_is_left_out(date: object) -> None:
    assert arrival(message(date=date)).sent_at is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"null",
        b"[]",
        b"7",
        b"{",
        b"[" * 100_000,
        b'{"message": null}',
        b'{"message": []}',
        b'{"edited_message": null}',
        b'{"message": {}}',
        b'{"message": {"message_id": 1}}',
        b'{"message": {"message_id": 1, "chat": {"id": "7"}, "text": "x"}}',
        b'{"message": {"message_id": true, "chat": {"id": 7}, "text": "x"}}',
        b'{"message": {"message_id": 1, "chat": 7, "text": "x"}}',
        b'{"message": {"message_id": 1, "chat": {"id": 7}, "text": 7}}',
        b'{"message": {"message_id": ' + b"1" * 5_000 + b', "chat": {"id": 7}, "text": "x"}}',
    ],
)
def test_an_update_that_cannot_be_read_is_nothing_and_not_repeated_for_ever(body: bytes) -> None:
    assert only(parse(request(body), now=NOW, bot="b")) == Ignored("unreadable")


WRONG = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(message()["message"])), WRONG)
def test_a_field_of_any_type_breaks_nothing(key: str, value: object) -> None:
    update = copy.deepcopy(message())
    update["message"][key] = value
    assert_survives(partial(parse, json_request(update), now=NOW, bot="b"), key)
