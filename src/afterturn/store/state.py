"""Typed state: small records that channels and pages keep between two calls, and opt-outs.

A subclass of :class:`StateRecord` declares everything about its records in one place: kind, key, version rule, time to
live and fields. Stores keep kind, key, version, expiry and JSON, and know none of the subclasses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, Protocol, TypeVar

from pydantic import Field, ValidationError

from afterturn.clock import EPOCH
from afterturn.errors import StoreDamaged
from afterturn.model import Channel, Id, Record, Time
from afterturn.store import invariants


class Ties(StrEnum):
    """Which of two records of the same version stays. A record of a higher version replaces either."""

    FIRST = "first"
    LAST = "last"


class StateRecord(Record):
    """Base of the records. ``key``: unique among those of its kind; a lower ``version`` never replaces a higher one."""

    kind: ClassVar[str]
    ties: ClassVar[Ties] = Ties.LAST
    ttl: ClassVar[timedelta | None] = None

    key: str = Field(exclude=True)
    version: int = Field(default=0, exclude=True)

    @property
    def kept_for(self) -> timedelta | None:
        """How long after its last write the store keeps the record; None: for good."""
        return self.ttl


R = TypeVar("R", bound=StateRecord)


class StateRecords:
    """Records of several kinds, as they were read."""

    def __init__(self, records: Iterable[StateRecord] = ()) -> None:
        self._records = {(type(record), record.key): record for record in records}

    def get(self, kind: type[R], key: str) -> R | None:
        record = self._records.get((kind, key))
        return record if isinstance(record, kind) else None

    def all(self, kind: type[R]) -> Mapping[str, R]:
        """The records of a kind by key."""
        return {key: record for (_, key), record in self._records.items() if isinstance(record, kind)}


class OptOut(Record):
    """Whether somebody wants automatic messages: the last word that they said on a channel. ``at``: when."""

    channel: Channel
    address: Id
    opted_out: bool
    at: Time


@dataclass(frozen=True, slots=True, order=True)
class OptOutKey:
    """The position of an opt-out in the list of all."""

    channel: str
    address: str

    @classmethod
    def of(cls, opt_out: OptOut) -> OptOutKey:
        return cls(opt_out.channel.value, opt_out.address)


class StateStore(Protocol):
    """The part of a store that keeps typed state."""

    async def get(self, kind: type[R], key: str) -> R | None: ...

    async def get_all(self, kind: type[R], keys: Collection[str]) -> Mapping[str, R]:
        """The records of one kind that are known, by key."""
        ...

    async def get_many(self, keys: Mapping[type[StateRecord], Collection[str]]) -> StateRecords:
        """Records of several kinds, in one request."""
        ...

    async def put(self, record: StateRecord) -> bool:
        """Write a record unless the stored one wins (see Ties); return whether it was written.

        Raises InvalidRecord for a value that no store can hold, or of more than MAX_VALUE_BYTES as JSON.
        """
        ...

    async def put_all(self, records: Sequence[StateRecord]) -> Sequence[bool]:
        """Write several records in one request; each is an atomic unit of its own."""
        ...

    async def put_opt_out(self, opt_out: OptOut) -> bool:
        """Save what somebody said last; an older word changes nothing. Return whether it was written."""
        ...

    async def opt_out(self, channel: Channel, address: str) -> OptOut | None:
        """The last word of an address on a channel; None if it never said any."""
        ...

    async def opt_outs(self, *, after: OptOutKey | None = None, limit: int) -> tuple[OptOut, ...]:
        """All of them in the order of channel and address, also those who opted in again."""
        ...


class TypedReads:
    """``get``, ``get_all`` and ``put`` of a store, on top of ``get_many`` and ``put_all``."""

    async def get(self, kind: type[R], key: str) -> R | None:
        return (await self.get_many({kind: (key,)})).get(kind, key)

    async def get_all(self, kind: type[R], keys: Collection[str]) -> Mapping[str, R]:
        return (await self.get_many({kind: keys})).all(kind) if keys else {}

    async def put(self, record: StateRecord) -> bool:
        [written] = await self.put_all([record])
        return written

    async def get_many(self, keys: Mapping[type[StateRecord], Collection[str]]) -> StateRecords:
        raise NotImplementedError

    async def put_all(self, records: Sequence[StateRecord]) -> Sequence[bool]:
        raise NotImplementedError


def dump_state(record: StateRecord) -> str:
    """The record's value as JSON. Raises InvalidRecord."""
    value = record.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return invariants.value_dump(value, "value")


def load_state(kind: type[R], key: str, version: int, dump: str) -> R:
    """The record again. Raises StoreDamaged for a value that this version of afterturn cannot read."""
    try:
        return kind.model_validate({**invariants.parse_value(dump), "key": key, "version": version})
    except ValidationError:
        raise StoreDamaged(f"a stored {kind.kind} record has other fields than this version of afterturn") from None


def time_version(at: datetime) -> int:
    """A version by which the newer of two records stays."""
    return (at - EPOCH) // timedelta(microseconds=1)
