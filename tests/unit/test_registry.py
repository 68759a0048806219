"""Declaring consumers: one line each, and every mistake is told."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from afterturn.app import App
from afterturn.errors import ConfigError
from afterturn.model import Stamp
from afterturn.reactions.debounce import Debounce
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow


async def handler(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
    return Stamp()


def test_a_consumer_is_declared_once_with_its_policy() -> None:
    app = App(shipped=False)
    declared = app.consumer("sentiment", quiet="90s", max_wait="5m", attempts=3, timeout="10s", shadow=True)(handler)
    assert declared is handler
    (consumer,) = app.registry
    assert consumer.debounce == Debounce(timedelta(seconds=90), timedelta(minutes=5))
    assert (consumer.attempts, consumer.timeout, consumer.shadow) == (3, timedelta(seconds=10), True)


@pytest.mark.parametrize("name", ["a", "sla-breach", "x1", "a" * 48])
def test_names_that_are_taken(name: str) -> None:
    assert Registry().add(name, handler).name == name


@pytest.mark.parametrize("name", ["", "A", "1a", "-a", "a_b", "a b", "a:b", "a/b", "a\n", "é", "a" * 49])
def test_names_that_are_refused(name: str) -> None:
    """A name stands in ids, keys, metrics and workflow ids."""
    with pytest.raises(ConfigError, match="consumer name"):
        Registry().add(name, handler)


@pytest.mark.parametrize(
    "policy",
    [
        {"quiet": "90"},
        {"quiet": "-1s"},
        {"quiet": "soon"},
        {"max_wait": "1 fortnight"},
        {"timeout": ""},
        {"timeout": "0s"},
        {"quiet": 30},
        {"quiet": "5m", "max_wait": "90s"},
        {"attempts": 0},
        {"attempts": -1},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(policy: dict[str, object]) -> None:
    registry = Registry()
    with pytest.raises(ConfigError, match="'sentiment'"):
        registry.add("sentiment", handler, **policy)  # type: ignore[arg-type]
    assert len(registry) == 0


def test_a_decorator_without_a_name_is_refused_and_registers_nothing_in_silence() -> None:
    app = App(shipped=False)
    with pytest.raises(ConfigError, match="give it a name"):
        app.consumer(handler)  # type: ignore[arg-type]


def _not_async(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
    return Stamp()


async def _one_argument(turns: TurnWindow) -> Stamp:
    return Stamp()


@pytest.mark.parametrize(
    ("function", "problem"), [(_not_async, "async def"), (_one_argument, "two arguments"), (None, "two arguments")]
)
def test_a_function_that_no_run_could_call_is_refused(function: Any, problem: str) -> None:
    registry = Registry()
    with pytest.raises(ConfigError, match=f"'keys'.*{problem}"):
        registry.add("keys", function)
    assert len(registry) == 0


def test_handlers_may_be_objects_and_partial_calls() -> None:
    class Judge:
        async def __call__(self, turns: TurnWindow, ctx: ReactionContext) -> Stamp:
            return Stamp()

    async def weighed(weight: int, turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        return Stamp()

    registry = Registry()
    registry.add("judge", Judge())
    registry.add("weighed", partial(weighed, 3))
    assert registry.names == ("judge", "weighed")


def test_a_name_is_declared_once() -> None:
    registry, other = Registry(), Registry()
    registry.add("topics", handler)
    other.add("topics", handler)
    with pytest.raises(ConfigError, match="twice"):
        registry.add("topics", handler)
    with pytest.raises(ConfigError, match="twice"):
        registry.extend(other)


def test_consumers_keep_the_order_of_their_declaration() -> None:
    registry, more = Registry(), Registry()
    for name in ("c", "a"):
        registry.add(name, handler)
    more.add("b", handler)
    registry.extend(more)
    assert registry.names == ("c", "a", "b")
    assert len(registry) == 3
    assert "b" in registry


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    registry = Registry()
    with pytest.raises(ConfigError, match="registered: none"):
        registry["topic"]
    registry.add("topics", handler)
    with pytest.raises(ConfigError, match=r"'topic' .*registered: topics"):
        registry["topic"]
