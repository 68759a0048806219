"""The turn-settled event keeps its contract, so that emitters and consumers in any language can rely on it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from afterturn.clock import EPOCH, MILLISECOND
from afterturn.errors import InvalidEvent
from afterturn.event import TurnSettled, event_id, event_schema, make_event, read_event
from afterturn.model import UNASSIGNED, Channel, FlushMode, Origin, check_id

SCHEMA = Path(__file__).parents[2] / "docs/reference/event.schema.json"
REQUIRED = (
    "eventVersion",
    "eventType",
    "conversationId",
    "propertyId",
    "origin",
    "channel",
    "emitter",
    "occurredAt",
    "eventId",
)
OPTIONAL = ("flushMode",)
AT = datetime(2026, 3, 1, 12, 0, 5, 123_000, tzinfo=UTC)
WIRE: dict[str, Any] = {
    "eventVersion": 1,
    "eventType": "conversation.turn_settled",
    "conversationId": "c1",
    "propertyId": "oak",
    "origin": "text",
    "channel": "sms",
    "emitter": "worker",
    "occurredAt": "2026-03-01T12:00:05.123Z",
    "eventId": "turn:c1:1772366405123",
    "flushMode": "debounced",
}


def is_id(text: str) -> bool:
    try:
        return check_id(text) == text
    except ValueError:
        return False


ids = st.text(min_size=1, max_size=200).filter(is_id) | st.sampled_from(
    [
        "#",
        "a:b",
        "50%",
        "turn:c1:0",
        "  padded ",
        "🏠" * 200,
        "x" * 200,
        "../etc",
        "O'Brien",
        "日本語",
        '"quoted"',
        "\\",
    ]
)
times = st.integers(0, 253_402_300_799_999).map(lambda millis: EPOCH + millis * MILLISECOND)
events = st.builds(
    make_event,
    conversation_id=ids,
    property_id=st.none() | ids,
    origin=st.sampled_from(Origin),
    channel=st.sampled_from(Channel),
    emitter=st.sampled_from(["web", "inbound-lambda", "worker", "cli"]),
    occurred_at=times,
    flush_mode=st.sampled_from(FlushMode),
)


def an_event(**changed: Any) -> TurnSettled:
    values: dict[str, Any] = {
        "conversation_id": "c1",
        "property_id": "oak",
        "origin": Origin.TEXT,
        "channel": Channel.SMS,
        "emitter": "worker",
        "occurred_at": AT,
        "flush_mode": FlushMode.DEBOUNCED,
    }
    return make_event(**{**values, **changed})


def test_the_wire_form_is_exactly_this() -> None:
    assert json.loads(an_event().to_json()) == WIRE


def test_the_keys_are_pinned_so_no_content_can_enter() -> None:
    wire_names = {field.alias for field in TurnSettled.model_fields.values()}
    assert wire_names == {*REQUIRED, *OPTIONAL}


def test_no_key_is_free_text() -> None:
    """Everything but the three ids is an enum, a constant, a label or a time."""
    properties = event_schema()["properties"]
    free = {key for key, kind in properties.items() if kind.get("type") == "string" and len(kind) == 1}
    assert free == {"eventId"}, "eventId is checked against conversationId and occurredAt"
    bounded = {key for key, kind in properties.items() if "maxLength" in kind}
    assert bounded == {"conversationId", "propertyId"}


def test_times_are_written_in_utc_with_three_digits() -> None:
    whole = an_event(occurred_at=datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert json.loads(whole.to_json())["occurredAt"] == "2026-03-01T12:00:00.000Z"


@pytest.mark.parametrize("millis", [0, 999, 1_772_366_405_123, 253_402_300_799_999])
def test_the_event_id_counts_whole_milliseconds(millis: int) -> None:
    assert event_id("a:b", EPOCH + timedelta(milliseconds=millis)) == f"turn:a:b:{millis}"


def test_an_unassigned_conversation_says_so() -> None:
    assert an_event(property_id=None).property_id == UNASSIGNED


@given(events)
def test_any_event_survives_the_wire(event: TurnSettled) -> None:
    assert read_event(event.to_json()) == event
    assert read_event(event.to_json().encode()) == event


@given(events)
def test_any_event_satisfies_the_published_schema(event: TurnSettled) -> None:
    jsonschema.validate(json.loads(event.to_json()), event_schema(), cls=jsonschema.Draft202012Validator)


def test_the_published_schema_is_that_of_the_code() -> None:
    """If this fails on purpose: ``python tests/unit/test_event.py`` writes the file anew."""
    assert json.loads(SCHEMA.read_text("utf-8")) == event_schema()


def test_the_schema_is_sound_and_its_patterns_mean_the_same_in_every_language() -> None:
    jsonschema.Draft202012Validator.check_schema(event_schema())
    assert event_schema()["properties"]["emitter"]["pattern"] == "^[a-z0-9][a-z0-9_.-]{0,63}$"


@pytest.mark.parametrize("key", REQUIRED)
def test_the_schema_and_the_reader_agree_on_what_must_be_there(key: str) -> None:
    body = {name: value for name, value in WIRE.items() if name != key}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(body, event_schema())
    with pytest.raises(InvalidEvent, match=key):
        read_event(json.dumps(body))


def test_an_event_without_flush_mode_is_read_and_debounced() -> None:
    event = read_event(json.dumps({key: value for key, value in WIRE.items() if key != "flushMode"}))
    assert event.flush_mode is None
    assert not event.immediate
    assert "flushMode" not in json.loads(event.to_json())


def test_unknown_keys_of_a_newer_emitter_are_accepted_and_left_out() -> None:
    event = read_event(json.dumps({**WIRE, "traceId": "t", "nested": {"conversationId": ["x"]}}))
    assert json.loads(event.to_json()) == WIRE


def test_another_offset_is_the_same_instant() -> None:
    assert read_event(json.dumps({**WIRE, "occurredAt": "2026-03-01T14:00:05.123+02:00"})).occurred_at == AT


SECRET = "My-Door-Code-4711"
ILL_TYPED: list[tuple[str, Any]] = [
    ("eventVersion", SECRET),
    ("eventVersion", True),
    ("eventVersion", 1.5),
    ("eventVersion", 0),
    ("eventVersion", None),
    ("eventType", SECRET),
    ("eventType", 7),
    ("conversationId", 7),
    ("conversationId", None),
    ("conversationId", ""),
    ("conversationId", "   "),
    ("conversationId", SECRET + "\x00"),
    ("conversationId", SECRET * 100),
    ("conversationId", [SECRET]),
    ("propertyId", None),
    ("propertyId", {SECRET: 1}),
    ("origin", SECRET),
    ("channel", "SMS"),
    ("channel", "fax"),
    ("channel", None),
    ("emitter", SECRET),
    ("emitter", "worker\n"),
    ("emitter", ""),
    ("occurredAt", SECRET),
    ("occurredAt", 1_772_366_405_123),
    ("occurredAt", 1_772_366_405.123),
    ("occurredAt", "2026-03-01T12:00:05.123"),
    ("occurredAt", "2026-03-01"),
    ("occurredAt", "2026-03-01T12:00:05.1234Z"),
    ("occurredAt", "12026-03-01T12:00:05.123Z"),
    ("occurredAt", "2026-02-30T12:00:05.123Z"),
    ("occurredAt", "1969-12-31T23:59:59.999Z"),
    ("eventId", SECRET),
    ("eventId", 7),
    ("eventId", None),
    ("eventId", "turn:c1:1772366405124"),
    ("eventId", "turn:c2:1772366405123"),
    ("flushMode", SECRET),
    ("flushMode", True),
]


@pytest.mark.parametrize(("key", "value"), ILL_TYPED)
def test_an_ill_typed_key_is_refused_by_name_without_its_value(key: str, value: Any) -> None:
    with pytest.raises(InvalidEvent, match=key) as refused:
        read_event(json.dumps({**WIRE, key: value}))
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None, "the cause would carry the value"


def test_a_newer_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidEvent, match=r"newer than 1.*upgrade"):
        read_event(json.dumps({**WIRE, "eventVersion": 2}))


def test_keys_of_another_spelling_do_not_count() -> None:
    body = {"conversation_id" if key == "conversationId" else key: value for key, value in WIRE.items()}
    with pytest.raises(InvalidEvent, match="conversationId: is missing"):
        read_event(json.dumps(body))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "[]",
        "null",
        "17",
        '"text"',
        '{"eventVersion": 1',
        "\ud800",
        b"\xff\xfe",
        '{"conversationId": "\\ud800"}',
        "[" * 100_000,
        '{"a":' * 5_000 + "1" + "}" * 5_000,
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_event_at_all_is_refused_not_a_crash(body: str | bytes) -> None:
    with pytest.raises(InvalidEvent):
        read_event(body)


@given(st.text() | st.binary())
def test_no_bytes_crash_the_reader(body: str | bytes) -> None:
    with pytest.raises(InvalidEvent):
        read_event(body)


@given(st.dictionaries(st.sampled_from([*REQUIRED, *OPTIONAL]), st.none() | st.booleans() | st.integers() | st.text()))
def test_no_values_crash_the_reader(changed: dict[str, Any]) -> None:
    try:
        event = read_event(json.dumps({**WIRE, **changed}))
    except InvalidEvent:
        return
    assert event.event_id == event_id(event.conversation_id, event.occurred_at)


def test_an_emitter_in_python_cannot_make_an_event_that_its_readers_refuse() -> None:
    for wrong in ({"event_id": "turn:c1:1"}, {"occurred_at": AT + timedelta(microseconds=1)}, {"property_id": ""}):
        with pytest.raises(ValidationError):
            TurnSettled.model_validate({**an_event().model_dump(), **wrong})


if __name__ == "__main__":
    SCHEMA.write_text(json.dumps(event_schema(), indent=2) + "\n", "utf-8")
