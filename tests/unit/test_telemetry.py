"""No content leaves the store: not in an event, a log line, a metric, a dead letter's reason or an error's text."""

from __future__ import annotations

import ast
import asyncio
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

import afterturn
from afterturn import App, ReactionContext, Stamp, Turn, TurnWindow, telemetry
from afterturn.config import read_settings
from afterturn.errors import InvalidRecord
from afterturn.model import parse
from afterturn.stream.port import Queue

SECRET = "Xyzzy4711"
"""Stands in every content field of what is settled below; it must not be found anywhere outside the store."""
SOURCES = sorted(Path(afterturn.__file__).parent.rglob("*.py"))
AT = datetime.now(UTC) - timedelta(hours=1)


# The allow-lists


def test_the_keys_of_log_lines_are_pinned() -> None:
    """Each holds an id, an enum, a counter or a time. Adding one is a decision about privacy: make it here too."""
    assert sorted(telemetry.LOG_KEYS) == [
        "action",
        "age_s",
        "attempt",
        "channel",
        "consumer",
        "conversation_id",
        "count",
        "delay_s",
        "error",
        "event_id",
        "kind",
        "location",
        "message_id",
        "property_id",
        "queue",
        "receives",
        "stage",
        "status",
        "through",
        "worker",
    ]


def test_the_labels_of_metrics_are_pinned() -> None:
    assert sorted(telemetry.METRIC_LABELS) == ["channel", "consumer", "error", "kind", "outcome", "queue"]


@pytest.mark.parametrize("key", ["text", "participant", "name", "message", "body"])
def test_a_key_outside_the_list_raises(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        telemetry.log("settle", level=logging.INFO, **{key: "x"})
    with pytest.raises(ValueError, match=key):
        telemetry._counter("anything", "Anything.", key)


def test_every_log_call_in_the_code_keeps_to_the_list() -> None:
    """Also those on paths that seldom run: there a forbidden key would turn a log line into a crash."""
    calls = [(path, call) for path in SOURCES for call in log_calls(path)]
    assert len(calls) > 10
    for path, call in calls:
        place = f"{path.name}:{call.lineno}"
        keys = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
        assert len(keys) == len(call.keywords), f"{place} passes keys that nobody can check"
        assert keys <= telemetry.LOG_KEYS | {"level"}, f"{place} logs {sorted(keys - telemetry.LOG_KEYS)}"
        assert isinstance(call.args[0], ast.Constant | ast.IfExp), f"{place}: an action is a constant"


def test_telemetry_is_the_only_way_out() -> None:
    """No other module keeps a logger or metrics of its own, and only commands print."""
    for path in SOURCES:
        inside = path.relative_to(Path(afterturn.__file__).parent)
        if inside.parts[0] in ("telemetry.py", "cli"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        tree.body = [node for node in tree.body if not is_run_as_a_program(node)]
        names = {name for node in ast.walk(tree) for name in names_in(node)}
        assert not names & {"getLogger", "prometheus_client", "print"}, f"{inside} goes past telemetry"


def is_run_as_a_program(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""


def log_calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func
            if isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name):
                if (name.value.id, name.attr) == ("telemetry", "log"):
                    yield node
            elif isinstance(name, ast.Name) and name.id == "log":
                yield node


# What really comes out


texts = st.builds(
    lambda before, after: before + SECRET + after,
    st.sampled_from(["", "there is a gas leak ", "the sink leaks: ", "is the water included? ", "I want a person! "]),
    st.text(max_size=20),
)
labels = st.sampled_from(["general", "maintenance"])


@st.composite
def turns(draw: st.DrawFn) -> dict[str, Any]:
    """A turn as JSON whose every content field holds the secret."""
    channel = draw(st.sampled_from(["sms", "email", "voice", "telegram", "web"]))
    messages = [
        {
            "id": f"m{place}",
            "direction": draw(st.sampled_from(["inbound", "outbound"])),
            "role": draw(st.sampled_from(["customer", "agent", "operator", "system"])),
            "text": draw(texts),
            "at": (AT + timedelta(seconds=place)).isoformat(),
            "attachments": [
                {"url": f"https://example.org/{SECRET}", "mediaType": f"image/{SECRET}", "name": f"{SECRET}.jpg"}
            ],
        }
        for place in range(draw(st.integers(1, 3)))
    ]
    conversation = {
        "id": "c1",
        "channel": channel,
        "propertyId": draw(st.sampled_from([None, "oak"])),
        "type": draw(labels),
        "participants": [f"{SECRET}@example.org", SECRET],
    }
    flush_mode = draw(st.sampled_from(["debounced", "immediate"]))
    return {"conversation": conversation, "messages": messages, "flushMode": flush_mode}


class LogRecorder(logging.Handler):
    """Everything that any logger says."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.__dict__!r}")


@contextmanager
def overhearing() -> Iterator[LogRecorder]:
    root, ours = logging.getLogger(), logging.getLogger("afterturn")
    ears, level = LogRecorder(), ours.level
    root.addHandler(ears)
    ours.setLevel(logging.DEBUG)
    try:
        yield ears
    finally:
        root.removeHandler(ears)
        ours.setLevel(level)


def an_app() -> App:
    """The shipped consumers, one that keeps content in its stamp, and one that complains with the content."""
    app = App()

    @app.consumer("gossip", quiet="1ms", max_wait="1s")
    async def gossip(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        return Stamp(data={"note": window.messages[-1].text, "who": list(window.conversation.participants)})

    @app.consumer("clumsy", quiet="1ms", max_wait="1s", attempts=1)
    async def clumsy(window: TurnWindow, ctx: ReactionContext) -> Stamp:
        raise RuntimeError(f"cannot handle {window.messages[-1].text!r}")

    return app


@dataclass
class Records:
    """What the store holds, and what left it."""

    kept: list[str]
    bodies: list[str]
    reasons: list[str]
    errors: list[str]


async def settle_and_react(file: Path, turn: Turn) -> Records:
    """Send a turn the whole way, and after it a record whose emitter is broken."""
    async with an_app().open(read_settings(db=file)) as backbone:
        receipt = await backbone.settle(turn)
        waiting = await backbone.stream.receive(Queue.MAIN, limit=10, visibility=timedelta(0))
        await backbone.stream.publish(receipt.event.model_copy(update={"event_id": SECRET, "emitter": SECRET}))
        await backbone.drain(eager=True)
        conversation = await backbone.store.conversation("c1")
        assert conversation is not None
        stamps = conversation.reactions.values()
        return Records(
            kept=[repr(await backbone.store.messages("c1")), *(repr(stamp.data) for stamp in stamps)],
            bodies=[delivery.body for delivery in waiting],
            reasons=[letter.reason for letter in await backbone.stream.dead_letters(limit=10)],
            errors=[stamp.error for stamp in stamps if stamp.error],
        )


@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(turns())
def test_content_stays_in_the_store(given_turn: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder, overhearing() as ears:
        told = asyncio.run(settle_and_react(Path(folder, "a.db"), parse(Turn, given_turn)))
    samples = [f"{sample.name} {sample.labels}" for family in REGISTRY.collect() for sample in family.samples]

    assert any(SECRET in kept for kept in told.kept), "the test would find nothing in an empty store"
    assert len(told.bodies) == 1
    assert len(told.reasons) == 1
    assert told.errors == ["RuntimeError"]
    assert any("action=settle" in line for line in ears.lines)
    [failed] = [line for line in ears.lines if "action=reaction_failed" in line]
    assert f"location={__file__}:" in failed
    for outside in (told.bodies, told.reasons, told.errors, ears.lines, samples):
        assert not [line for line in outside if SECRET in line]


def in_message(**changed: Any) -> dict[str, Any]:
    message = {"id": "m1", "direction": "inbound", "role": "customer", "text": SECRET, "at": AT.isoformat()}
    return {"conversation": {"id": "c1", "channel": "sms"}, "messages": [{**message, **changed}]}


@pytest.mark.parametrize(
    "refused",
    [
        in_message(text=SECRET + "\ud800"),
        in_message(text=SECRET * 100_000),
        in_message(text=[SECRET]),
        in_message(at=SECRET),
        in_message(at="2026-99-01T00:00:00Z"),
        in_message(direction=SECRET),
        in_message(role={SECRET: SECRET}),
        in_message(providerId=SECRET + "\x00"),
        in_message(attachments=[{"url": SECRET + "\ud800"}]),
        in_message(attachments=[{"url": "https://example.org", "name": SECRET * 100}]),
        in_message(attachments=SECRET),
        {"conversation": SECRET},
        {"conversation": {"id": "c1", "channel": SECRET}},
        {"conversation": {"id": "c1", "channel": "sms", "participants": [SECRET + "\n"]}},
        {"conversation": {"id": "c1", "channel": "sms", "type": SECRET}},
        [SECRET],
    ],
    ids=lambda value: "",
)
def test_a_refused_record_is_explained_without_its_content(refused: object) -> None:
    with pytest.raises(InvalidRecord) as error:
        parse(Turn, refused)
    assert SECRET not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


async def test_a_turn_from_the_future_is_explained_without_its_content(tmp_path: Path) -> None:
    future = (datetime.now(UTC) + timedelta(days=40)).isoformat()
    async with an_app().open(db=tmp_path / "a.db") as backbone:
        with pytest.raises(InvalidRecord, match="future") as error:
            await backbone.settle(parse(Turn, in_message(at=future)))
    assert SECRET not in str(error.value)
