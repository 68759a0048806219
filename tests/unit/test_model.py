"""Records check themselves: what is in one can be stored, sent and shown anywhere."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from afterturn.errors import InvalidRecord
from afterturn.model import (
    MAX_ID_CHARS,
    MAX_TEXT_BYTES,
    MAX_TURN_BYTES,
    MAX_TURN_MESSAGES,
    UNASSIGNED,
    Channel,
    ConversationMeta,
    Direction,
    Label,
    Message,
    Origin,
    Role,
    Turn,
    Urgency,
    check_id,
    clean_text,
    parse,
)

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
META = {"id": "c1", "channel": "sms"}
MESSAGE = {"id": "m1", "direction": "inbound", "role": "customer", "text": "hi", "at": "2026-03-01T12:00:05Z"}


def message(**changed: Any) -> Message:
    return parse(Message, {**MESSAGE, **changed})


def refused(kind: type[Any], value: object) -> InvalidRecord:
    with pytest.raises(InvalidRecord) as error:
        parse(kind, value)
    return error.value


# Texts


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("tab\tnew\nline\rreturn", "tab\tnew\nline\rreturn"),
        ("a\x00b", "a\ufffdb"),
        ("a\x0b\ufffeb", "a\ufffd\ufffdb"),
        ("\x1b[31mred", "\ufffd[31mred"),
        ("\x7f\x80\x9f", "\ufffd\ufffd\ufffd"),
        ("\ufdd0 \ufdef \uffff", "\ufffd \ufffd \ufffd"),
        ("\u200d👩‍👧 \u202eRTL\u202c ﷽ é e\u0301", "\u200d👩‍👧 \u202eRTL\u202c ﷽ é e\u0301"),
        ("", ""),
    ],
)
def test_control_characters_are_replaced_and_all_else_is_kept(given_text: str, kept: str) -> None:
    assert clean_text(given_text) == kept
    assert message(text=given_text).text == kept


@given(st.text())
def test_cleaning_is_done_once_and_its_result_fits_everywhere(text: str) -> None:
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned
    assert len(cleaned) == len(text)
    assert cleaned.encode().decode() == json.loads(json.dumps(cleaned)) == cleaned
    assert "\x00" not in cleaned


@pytest.mark.parametrize("text", ["hi \ud83d", "\ude00\ud83d", "\udcff"])
def test_f19_a_lone_surrogate_is_refused_with_its_place(text: str) -> None:
    problem = refused(Message, {**MESSAGE, "text": text})
    assert problem.field == "text"
    assert "lone surrogate at character" in problem.problem


def test_f19_a_surrogate_pair_in_json_is_one_character() -> None:
    assert message(text=json.loads('"\\ud83d\\ude00"')).text == "😀"


@pytest.mark.parametrize("text", ["x" * MAX_TEXT_BYTES, "é" * (MAX_TEXT_BYTES // 2), "😀" * (MAX_TEXT_BYTES // 4)])
def test_a_text_may_have_as_many_bytes_as_an_item_holds(text: str) -> None:
    assert message(text=text).text == text
    problem = refused(Message, {**MESSAGE, "text": text + "x"})
    assert problem.field == "text"
    assert "300001 bytes in UTF-8; at most 300000" in problem.problem


# Ids


@pytest.mark.parametrize("name", ["#", "a:b", "50%", " ", "🏠🔑", "日本", "x" * MAX_ID_CHARS, "a/b?c=d&e", "O'B\"r"])
def test_an_id_is_kept_as_given(name: str) -> None:
    if name.strip():
        assert check_id(name) == name
        assert message(id=name).id == name
    else:
        assert refused(Message, {**MESSAGE, "id": name}).problem == "is empty"


@pytest.mark.parametrize("name", ["", "\t", "x" * 201, "🏠" * 300, "a\x00", "a\nb", "a\ud800"])
def test_an_id_that_no_key_can_hold_is_refused_by_field(name: str) -> None:
    assert refused(Message, {**MESSAGE, "id": name}).field == "id"
    assert refused(ConversationMeta, {**META, "propertyId": name}).field == "propertyId"


@given(st.text(max_size=250))
def test_every_id_is_either_refused_or_kept_whole(name: str) -> None:
    try:
        assert check_id(name) == name
    except ValueError:
        return
    assert 1 <= len(name) <= MAX_ID_CHARS
    assert name.encode().decode() == name
    assert not any(character < " " for character in name), "an id stays on its line of a log"


def test_the_property_of_unassigned_conversations_is_reserved() -> None:
    problem = refused(ConversationMeta, {**META, "propertyId": UNASSIGNED})
    assert "reserved" in problem.problem


@pytest.mark.parametrize("name", ["a", "0", "lease-renewal", "a.b_c-d", "x" * 64])
def test_a_label_is_a_short_lower_case_name(name: str) -> None:
    assert TypeAdapter(Label).validate_python(name) == name


@pytest.mark.parametrize("name", ["", "A", "-a", "a b", "a\n", "é", "x" * 65, "a\x00"])
def test_no_free_text_passes_for_a_label(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Label).validate_python(name)


# Times


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        (1_772_366_405_123, "ISO 8601"),
        (1_772_366_405, "ISO 8601"),
        (True, "ISO 8601"),
        (None, "ISO 8601"),
        ("1772366405123", "ISO 8601"),
        ("2026-03-01T12:00:05", "no UTC offset"),
        ("12026-03-01T12:00:05Z", "ISO 8601"),
        ("2026-02-30T12:00:05Z", "not a time that exists"),
        ("", "ISO 8601"),
    ],
)
def test_a_time_is_read_from_text_with_an_offset_only(at: object, problem: str) -> None:
    error = refused(Message, {**MESSAGE, "at": at})
    assert error.field == "at"
    assert problem in error.problem


def test_any_offset_becomes_utc() -> None:
    assert message(at="2026-03-01T05:30:00+05:30").at == AT - timedelta(hours=12)
    assert message(at="2026-03-01T05:30:00+05:30").at.tzinfo is UTC


# Records


def test_records_round_trip_as_camel_case_json() -> None:
    meta = {
        **META,
        "propertyId": "oak",
        "participants": ["+15550100", "tenant@example.org"],
        "contactName": "Ada",
        "type": "maintenance",
        "status": "closed",
        "synthetic": True,
        "gauntlet": False,
        "createdAt": "2026-03-01T12:00:05.000000Z",
    }
    attachment = {"url": "https://example.org/a.jpg", "mediaType": "image/jpeg", "name": "sink.jpg"}
    body = {
        "conversation": meta,
        "messages": [
            {
                **MESSAGE,
                "at": "2026-03-01T12:00:05.000000Z",
                "providerId": "SM1",
                "attachments": [attachment],
                "editedAt": "2026-03-01T12:01:05.000000Z",
                "whole": None,
            }
        ],
        "flushMode": "immediate",
        "at": None,
        "key": "k",
    }
    assert parse(Turn, body).to_json() == body


def test_records_are_frozen_and_know_their_fields() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        message().text = "other"  # type: ignore[misc]
    assert refused(Message, {**MESSAGE, "txt": "x"}).field == "txt"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"channel": "fax"}, "conversation.channel"),
        ({"channel": None}, "conversation.channel"),
        ({"id": 7}, "conversation.id"),
        ({"participants": ["ok", ""]}, "conversation.participants[1]"),
        ({"participants": ["x"] * 101}, "conversation.participants"),
        ({"type": "Free Text"}, "conversation.type"),
        ({"status": "asleep"}, "conversation.status"),
    ],
)
def test_a_problem_names_the_field_by_its_path(changed: dict[str, Any], field: str) -> None:
    assert refused(Turn, {"conversation": {**META, **changed}}).field == field


def test_the_channel_is_required_never_guessed() -> None:
    assert refused(ConversationMeta, {"id": "c1"}).field == "channel"


@pytest.mark.parametrize("value", [None, [], "text", 7, {}])
def test_what_is_no_record_at_all_is_refused(value: object) -> None:
    refused(Turn, value)


def test_a_problem_is_told_without_the_content() -> None:
    secret = "the key is under the mat"
    for changed in ({"direction": secret}, {"role": [secret]}, {"at": secret}, {"text": secret + "\ud800"}):
        assert secret not in str(refused(Message, {**MESSAGE, **changed}))


# Turns


def test_a_turn_has_at_most_as_many_messages_as_a_transaction_holds() -> None:
    messages = [{**MESSAGE, "id": f"m{n}"} for n in range(MAX_TURN_MESSAGES + 1)]
    assert len(parse(Turn, {"conversation": META, "messages": messages[:-1]}).messages) == MAX_TURN_MESSAGES
    assert refused(Turn, {"conversation": META, "messages": messages}).field == "messages"


def test_a_turn_has_at_most_as_many_bytes_as_a_transaction_holds() -> None:
    many = [{**MESSAGE, "id": f"m{n}", "text": "x" * MAX_TEXT_BYTES} for n in range(MAX_TURN_BYTES // MAX_TEXT_BYTES)]
    parse(Turn, {"conversation": META, "messages": many})
    one_more = {**MESSAGE, "id": "m-last", "text": "x" * MAX_TEXT_BYTES}
    assert "save_messages" in refused(Turn, {"conversation": META, "messages": [*many, one_more]}).problem


def test_a_turn_without_messages_is_a_turn() -> None:
    assert parse(Turn, {"conversation": META}).messages == ()


@pytest.mark.parametrize("channel", Channel)
def test_only_a_call_has_its_origin_in_voice(channel: Channel) -> None:
    turn = Turn(conversation=ConversationMeta(id="c1", channel=channel))
    assert turn.origin is (Origin.VOICE if channel is Channel.VOICE else Origin.TEXT)


def test_urgencies_sort_by_how_soon_somebody_has_to_come() -> None:
    assert sorted(Urgency, key=lambda one: one.rank) == [Urgency.EMERGENCY, Urgency.URGENT, Urgency.ROUTINE]


def test_python_takes_snake_case_names_too() -> None:
    made = Message(id="m", direction=Direction.OUTBOUND, role=Role.AGENT, text="", at=AT, provider_id="p")
    assert made.provider_id == "p"
