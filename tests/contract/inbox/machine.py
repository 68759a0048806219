"""Store and inbox against plain Python: any order of writes, with pages in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.contract.machines import AsyncMachine
from tests.contract.samples import T0, message, meta

from afterturn.inbox import Inbox, InboxPage, InboxQuery
from afterturn.model import Channel, Stamp, Turn
from afterturn.store.port import ConsumerState, Registration, Store
from afterturn.testing import ManualClock

CONVERSATIONS = st.sampled_from([f"c{number}" for number in range(9)])
PROPERTIES = st.sampled_from([None, "p1", "p2"])
TOPICS = st.lists(st.sampled_from(["rent", "tour"]), unique=True, max_size=2)
MILLI = timedelta(milliseconds=1)


@dataclass
class Model:
    """A conversation as it has to be."""

    id: str
    created_at: datetime
    property_id: str | None = None
    type: str = "general"
    synthetic: bool = False
    messages: list[tuple[datetime, str]] = field(default_factory=list)
    """In the order of arrival."""
    settled: list[tuple[datetime, int]] = field(default_factory=list)
    """Each turn's time, and how many messages it reached up to."""
    last_message_at: datetime | None = None
    newest: datetime | None = None
    topics: list[str] | None = None
    through: datetime | None = None
    failed: datetime | None = None

    @property
    def key(self) -> tuple[datetime, str]:
        return self.last_message_at or self.created_at, self.id

    @property
    def state(self) -> str:
        if not self.settled or (self.through is not None and self.through >= self.settled[-1][0]):
            return "fresh"
        return "failed" if self.failed is not None and self.failed >= self.settled[-1][0] else "owed"


@dataclass(frozen=True)
class Paging:
    """A person who pages: the query, what page comes next, what was seen, and who has not moved since."""

    query: InboxQuery
    since: datetime | None
    cursor: str | None = None
    after: tuple[datetime, str] | None = None
    seen: tuple[str, ...] = ()
    owing: frozenset[str] = frozenset()
    """Rows that matched when the walk began and were left alone since: each has to come once."""


QUERIES = st.builds(
    lambda **given: given,
    properties=st.sampled_from([(), (), ("p1",), ("p1", "p2"), ("UNASSIGNED", "p2"), ("p9",)]),
    types=st.sampled_from([(), (), ("tour",), ("general",)]),
    topics=st.sampled_from([(), (), ("rent",)]),
    owed=st.sampled_from([(), (), ("topics",)]),
    failed=st.sampled_from([(), (), (), ("any",)]),
    include_synthetic=st.booleans(),
    limit=st.integers(1, 4),
    budget=st.sampled_from([1, 2, 3, 5, 5_000]),
    window=st.sampled_from([None, None, "24h", "all"]),
)


class InboxMachine(AsyncMachine):
    """Subclasses supply ``open_store``, which opens the same records each time."""

    def open_store(self) -> Store:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.clock = ManualClock(T0)
        self.models: dict[str, Model] = {}
        self.walks: list[Paging] = []
        self.number = 0
        self._open()
        self.await_(self.store.register([Registration("topics", T0, ConsumerState.LIVE, timedelta(0))]))

    def _open(self) -> None:
        self.store = self.open_store()
        self.inbox = Inbox(self.store, self.clock)

    @rule()
    def reopen(self) -> None:
        self.close()
        self._open()

    @rule(seconds=st.sampled_from([-30, 0, 0.001, 1, 60, 40_000]))
    def time_passes(self, seconds: float) -> None:
        """Or steps back, but never before the beginning."""
        self.clock.set(max(T0, self.clock() + timedelta(seconds=seconds)))

    @rule(name=CONVERSATIONS, owner=PROPERTIES, kind=st.sampled_from(["tour", "general"]), synthetic=st.booleans())
    def save_conversation(self, name: str, owner: str | None, kind: str, synthetic: bool) -> None:
        """Also re-attribution by an operator."""
        now = self.clock()
        about = meta(name, property_id=owner, type=kind, synthetic=synthetic)
        self.await_(self.store.save_conversation(about, now=now))
        model = self.models.setdefault(name, Model(name, created_at=now))
        model.property_id, model.type, model.synthetic = owner, kind, synthetic
        self._touched(name)

    @rule(name=CONVERSATIONS, age=st.sampled_from([0, 0, 5, 100, -5]), count=st.integers(0, 2), owner=PROPERTIES)
    def settle(self, name: str, age: float, count: int, owner: str | None) -> None:
        now = self.clock()
        told = now - timedelta(seconds=age)
        given = [self._message(told + number * MILLI) for number in range(count)]
        settled = self.await_(
            self.store.settle(
                Turn(conversation=meta(name, property_id=owner), messages=tuple(given)), now=now, emitter="worker"
            )
        )
        assert settled.new
        model = self.models.get(name)
        if model is None:
            model = self.models[name] = Model(name, created_at=min((one.at for one in given), default=now))
        model.property_id = model.property_id or owner
        self._arrive(model, given, now)
        model.last_message_at = model.newest
        own = now.replace(microsecond=now.microsecond // 1000 * 1000)
        occurred = own if not model.settled else max(own, model.settled[-1][0] + MILLI)
        model.settled.append((occurred, len(model.messages)))
        assert settled.event.occurred_at == occurred
        self._touched(name)

    @rule(name=CONVERSATIONS, age=st.sampled_from([0, 50]))
    def save_messages(self, name: str, age: float) -> None:
        """In the middle of a turn: nothing moves."""
        now = self.clock()
        given = [self._message(now - timedelta(seconds=age))]
        assert self.await_(self.store.save_messages(meta(name), given, now=now)) == 1
        model = self.models.get(name)
        if model is None:
            model = self.models[name] = Model(name, created_at=given[0].at)
            self._touched(name)
        self._arrive(model, given, now)

    @precondition(lambda self: any(model.settled for model in self.models.values()))
    @rule(data=st.data())
    def settle_again(self, data: st.DataObject) -> None:
        """A redelivery changes nothing."""
        name = data.draw(st.sampled_from(sorted(name for name, model in self.models.items() if model.settled)))
        model = self.models[name]
        _, reached = model.settled[data.draw(st.integers(0, len(model.settled) - 1))]
        if not reached:
            return
        told, known = model.messages[data.draw(st.integers(0, reached - 1))]
        given = Turn(conversation=meta(name), messages=(message(known, (told - T0).total_seconds()),))
        assert not self.await_(self.store.settle(given, now=self.clock(), emitter="worker")).new

    @rule(name=CONVERSATIONS, topics=TOPICS, back=st.integers(0, 2))
    def stamp(self, name: str, topics: list[str], back: int) -> None:
        model = self.models.get(name)
        if model is None or len(model.settled) <= back:
            return
        through = model.settled[-1 - back][0]
        forward = model.through is None or model.through < through
        written = self.await_(
            self.store.stamp(name, "topics", Stamp(data={"topics": topics}), through=through, now=self.clock())
        )
        assert written == forward
        if forward:
            model.topics, model.through, model.failed = topics, through, None
            self._touched(name)

    @rule(name=CONVERSATIONS)
    def fail(self, name: str) -> None:
        model = self.models.get(name)
        if model is None or not model.settled:
            return
        through = model.settled[-1][0]
        self.await_(self.store.fail(name, "topics", through=through, error="E", now=self.clock()))
        if model.through is None or model.through < through:
            model.failed = through
            self._touched(name)

    @rule(asked=QUERIES)
    def begin_to_page(self, asked: dict[str, Any]) -> None:
        query = InboxQuery.model_validate(asked)
        since = self.clock() - timedelta(hours=24) if asked["window"] == "24h" else None
        walk = Paging(query, since)
        matching = frozenset(model.id for model in self._below(walk) if _matches(model, query))
        self.walks = [*self.walks[-2:], replace(walk, owing=matching)]

    @precondition(lambda self: self.walks)
    @rule(which=st.integers(0, 2), limit=st.integers(1, 4))
    def turn_a_page(self, which: int, limit: int) -> None:
        """The page is the very one that a sorted list gives; at the end, nobody is missing."""
        number = which % len(self.walks)
        walk = self.walks[number]
        query = walk.query.model_copy(update={"limit": limit})
        page = self.await_(self.inbox.page(query, walk.cursor))
        below = list(self._below(walk))
        expected, looked_at = _page_of(below, query)
        assert [row.conversation.id for row in page.rows] == [model.id for model in expected]
        self._end_is_honest(page, query, below, looked_at)
        seen = walk.seen + tuple(model.id for model in expected)
        if page.next_cursor is None:
            assert walk.owing <= set(seen)
            self.walks.pop(number)
            return
        self.walks[number] = replace(
            walk, cursor=page.next_cursor, after=below[looked_at - 1].key, seen=seen, owing=walk.owing
        )

    @invariant()
    def the_store_is_as_modelled(self) -> None:
        if not hasattr(self, "store"):
            return
        found = {one.id: one for one in self.await_(self.store.scan(limit=100))}
        assert found.keys() == self.models.keys()
        for name, model in self.models.items():
            one = found[name]
            assert (one.property_id, one.type, one.synthetic) == (model.property_id, model.type, model.synthetic)
            assert (one.created_at, one.last_message_at) == (model.created_at, model.last_message_at)
            assert (one.message_count, one.channel) == (len(model.messages), Channel.SMS)
            assert one.settled_at == (model.settled[-1][0] if model.settled else None)
            stamp = one.reactions.get("topics")
            assert (None if stamp is None else stamp.through) == model.through

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def read_one(self, data: st.DataObject) -> None:
        """Thread order, turns, and what the consumer has not seen."""
        model = self.models[data.draw(st.sampled_from(sorted(self.models)))]
        thread = [one.id for one in self.await_(self.store.messages(model.id))]
        in_order = sorted(enumerate(model.messages), key=lambda place: (place[1][0], place[0]))
        assert thread == [name for _, (_, name) in in_order]
        turns = self.await_(self.store.turns(model.id, limit=1000))
        assert [(one.occurred_at, one.last_seq) for one in turns] == model.settled
        window = self.await_(self.store.window(model.id, "topics"))
        if not model.settled or model.through == model.settled[-1][0]:
            assert window is None
            return
        assert window is not None
        start = max((reached for told, reached in model.settled if model.through and told <= model.through), default=0)
        reached = model.settled[-1][1]
        assert [one.id for one in window.messages] == [
            name for place, (_, name) in in_order if start <= place < reached
        ]

    def _message(self, told: datetime) -> Any:
        self.number += 1
        return message(f"m{self.number}", (told - T0).total_seconds())

    def _arrive(self, model: Model, given: list[Any], now: datetime) -> None:
        for one in given:
            model.messages.append((one.at, one.id))
            told = min(one.at, now)
            model.newest = told if model.newest is None else max(model.newest, told)

    def _touched(self, name: str) -> None:
        """Whatever was done to a row, walks that have begun owe it no more."""
        self.walks = [replace(walk, owing=walk.owing - {name}) for walk in self.walks]

    def _below(self, walk: Paging) -> Iterator[Model]:
        """The part of the sorted list that a walk has before it."""
        owners = [None if one == "UNASSIGNED" else one for one in walk.query.properties]
        for model in sorted(self.models.values(), key=lambda model: model.key, reverse=True):
            if (
                (walk.after is None or model.key < walk.after)
                and (walk.since is None or model.key[0] >= walk.since)
                and (not owners or model.property_id in owners)
            ):
                yield model

    def _end_is_honest(self, page: InboxPage, query: InboxQuery, below: list[Model], looked_at: int) -> None:
        assert page.scanned == looked_at <= query.budget
        if len(page.rows) == query.limit:
            assert page.complete
            assert (page.next_cursor is None) == (looked_at == len(below))
        elif page.complete:
            assert (page.next_cursor, looked_at) == (None, len(below))
        else:
            assert page.next_cursor is not None
            assert looked_at == query.budget


def _page_of(below: list[Model], query: InboxQuery) -> tuple[list[Model], int]:
    rows: list[Model] = []
    looked_at = 0
    for model in below[: query.budget]:
        looked_at += 1
        if _matches(model, query):
            rows.append(model)
            if len(rows) == query.limit:
                break
    return rows, looked_at


def _matches(model: Model, query: InboxQuery) -> bool:
    return (
        (query.include_synthetic or not model.synthetic)
        and (not query.types or model.type in query.types)
        and (not query.topics or bool(set(query.topics) & set(model.topics or ())))
        and (not query.owed or model.state == "owed")
        and (not query.failed or model.state == "failed")
    )
