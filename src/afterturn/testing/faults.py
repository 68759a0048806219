"""Ports that fail on schedule: refused before the effect, or with the effect done and the answer lost.

The second kind is the one that finds bugs: success looks like failure. Schedules are data (a call number, a count, a
seed), so a failure replays::

    stream = faulty(stream, Faults.first(2, Fault(Moment.AFTER, StreamUnavailable), verb="publish"))
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Crash(BaseException):
    """Stands for the death of the process: no ``except Exception`` can go on after it."""


class Moment(StrEnum):
    """``before``: nothing was done. ``after``: all was done, and the caller is not told."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Fault:
    """How a call fails: when, and with which error."""

    moment: Moment
    error: Callable[[], BaseException]


class Faults:
    """Decides for each call of the ports that share it. ``calls`` names the verbs that were called so far.

    After a :class:`Crash` nothing goes through any more: the process is dead.
    """

    def __init__(self, decide: Callable[[int, str], Fault | None]) -> None:
        self._decide = decide
        self._dead = False
        self.calls: list[str] = []

    @classmethod
    def none(cls) -> Faults:
        """Only counts the calls."""
        return cls(lambda number, verb: None)

    @classmethod
    def at(cls, call: int, fault: Fault) -> Faults:
        """The n-th call fails, counted from 0."""
        return cls(lambda number, verb: fault if number == call else None)

    @classmethod
    def first(cls, times: int, fault: Fault, *, verb: str) -> Faults:
        """The first calls of a verb fail."""
        left = times

        def decide(_: int, called: str) -> Fault | None:
            nonlocal left
            if called != verb or left == 0:
                return None
            left -= 1
            return fault

        return cls(decide)

    @classmethod
    def seeded(cls, seed: int, share: float, error: Callable[[], BaseException]) -> Faults:
        """A share of the calls fails, half of them with the effect done."""
        chance = random.Random(seed)

        def decide(_: int, __: str) -> Fault | None:
            if chance.random() >= share:
                return None
            return Fault(chance.choice(list(Moment)), error)

        return cls(decide)

    async def call(self, verb: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method, or fail as the schedule says."""
        if self._dead:
            raise Crash(f"{verb}: the process is dead")
        fault = self._decide(len(self.calls), verb)
        self.calls.append(verb)
        if fault is None:
            return await method(*args, **kwargs)
        error = fault.error()
        self._dead = isinstance(error, Crash)
        if fault.moment is Moment.AFTER:
            await method(*args, **kwargs)
        raise error


def faulty(port: T, faults: Faults) -> T:
    """The same port, whose asynchronous verbs fail as the schedule says."""
    return cast("T", _Faulty(port, faults))


class _Faulty:
    def __init__(self, port: object, faults: Faults) -> None:
        self._port = port
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._faults.call(name, attribute, *args, **kwargs)

        return call
