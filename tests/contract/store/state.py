"""The store contract: typed state and opt-outs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue
from tests.contract.samples import T0, at
from tests.contract.store.factory import StoreFactory

from afterturn.errors import InvalidRecord, StoreDamaged
from afterturn.model import Channel, Time
from afterturn.store.invariants import MAX_VALUE_BYTES
from afterturn.store.port import Store
from afterturn.store.state import OptOut, OptOutKey, StateRecord, Ties


class FirstWins(StateRecord):
    """Of two records of the same version the first stays."""

    kind = "first"
    ties = Ties.FIRST

    value: JsonValue = None


class LastWins(StateRecord):
    """Of two records of the same version the last stays."""

    kind = "last"

    value: JsonValue = None
    facts: Mapping[str, str] = {}
    since: Time | None = None


class Expiring(StateRecord):
    kind = "expiring"
    ttl = timedelta(days=1)


class OtherKind(StateRecord):
    """Reads what ``First`` has written as something else."""

    kind = "first"

    number: int


def opt_out(address: str, second: float = 0, *, opted_out: bool = True, channel: Channel = Channel.SMS) -> OptOut:
    return OptOut(channel=channel, address=address, opted_out=opted_out, at=at(second))


class StateContract:
    """What typed state promises."""

    async def test_a_record_is_read_back_as_it_was_written(self, store: Store) -> None:
        values: dict[str, Any] = {
            "text": 'é 🏠 " \\ \x00',
            "": {"a": [1, 2.5, -(10**17), True, None, {"": ""}]},
            "null": None,
            "a#b": False,
            "a\x00b": [],
            "k" * 3000: "long key",
        }
        records = {key: LastWins(key=key, value=value, facts={"a": "b"}, since=T0) for key, value in values.items()}
        for record in records.values():
            assert await store.put(record)
        assert await store.get_all(LastWins, [*values, "unknown", "text"]) == records
        assert await store.get_all(FirstWins, list(values)) == {}
        assert await store.get_all(LastWins, []) == {}
        assert await store.get(LastWins, "null") == LastWins(key="null", facts={"a": "b"}, since=T0)
        assert await store.get(LastWins, "unknown") is None

    async def test_records_of_several_kinds_are_read_in_one_request(self, store: Store) -> None:
        await store.put_all([LastWins(key="k", value=1), LastWins(key="other", value=2), FirstWins(key="k", value=3)])
        known = await store.get_many({LastWins: ["k", "k", "unknown"], FirstWins: ["k"], Expiring: ["k"]})
        assert known.all(LastWins) == {"k": LastWins(key="k", value=1)}
        assert known.get(FirstWins, "k") == FirstWins(key="k", value=3)
        assert known.get(Expiring, "k") is None
        assert known.all(Expiring) == {}

    async def test_records_written_together_are_as_if_written_one_by_one(self, store: Store) -> None:
        await store.put(FirstWins(key="versioned", version=5, value=1))
        records = [
            FirstWins(key="k", value=1),
            FirstWins(key="versioned", version=4, value=2),
            LastWins(key="k", value="x", version=1),
            Expiring(key="k"),
        ]
        assert list(await store.put_all(records)) == [True, False, True, True]
        assert list(await store.put_all(records)) == [False, False, True, True]
        assert await store.get(FirstWins, "versioned") == FirstWins(key="versioned", version=5, value=1)
        assert list(await store.put_all([])) == []

    async def test_only_one_of_many_writes_the_first_record(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            written = await asyncio.gather(*((one, two)[n % 2].put(FirstWins(key="k", value=n)) for n in range(10)))
            assert sum(written) == 1
            assert await one.get(FirstWins, "k") == FirstWins(key="k", value=written.index(True))

    async def test_a_lower_version_never_replaces_a_higher_one(self, store: Store) -> None:
        """A delivery status that arrives late: delivered, then sent."""
        reports = [("queued", 1), ("delivered", 3), ("sent", 2), ("failed", 3), ("queued", 1)]
        written = [await store.put(FirstWins(key="SM1", version=version, value=state)) for state, version in reports]
        assert written == [True, True, False, False, False]
        assert await store.get(FirstWins, "SM1") == FirstWins(key="SM1", version=3, value="delivered")

    async def test_concurrent_writes_leave_the_highest_version(self, factory: StoreFactory) -> None:
        async with factory.open() as one, factory.open() as two:
            versions = (5, 3, 9, 1, 7, -2, 8)
            await asyncio.gather(
                *((one, two)[n % 2].put(FirstWins(key="SM1", version=v, value=v)) for n, v in enumerate(versions))
            )
            assert await two.get(FirstWins, "SM1") == FirstWins(key="SM1", version=9, value=9)

    async def test_the_last_record_of_a_version_may_replace_the_one_before(self, store: Store) -> None:
        assert await store.put(LastWins(key="p", value="first"))
        assert await store.put(LastWins(key="p", value="second"))
        assert await store.put(LastWins(key="p", value="third", version=1))
        assert not await store.put(LastWins(key="p", value="fourth"))
        assert await store.get(LastWins, "p") == LastWins(key="p", value="third", version=1)

    async def test_state_outlives_the_process(self, factory: StoreFactory) -> None:
        async with factory.open() as store:
            await store.put(FirstWins(key="k", version=2, value={"n": 1}))
        async with factory.open() as store:
            assert await store.get(FirstWins, "k") == FirstWins(key="k", version=2, value={"n": 1})
            assert not await store.put(FirstWins(key="k", version=2))

    async def test_state_and_claims_never_meet(self, store: Store) -> None:
        await store.claim("first", "k", "claim")
        assert await store.put(FirstWins(key="k", value="state"))
        assert await store.claim("first", "k", "other") == "claim"

    async def test_a_record_of_another_version_of_afterturn_is_an_error_and_no_wrong_value(self, store: Store) -> None:
        await store.put(FirstWins(key="k", value="text"))
        with pytest.raises(StoreDamaged, match="first record"):
            await store.get(OtherKind, "k")

    @pytest.mark.parametrize("value", ["x" * MAX_VALUE_BYTES, {"a": "\ud83d"}])
    async def test_a_value_that_no_store_can_hold_is_refused_and_not_written(self, store: Store, value: Any) -> None:
        with pytest.raises((InvalidRecord, ValueError)):
            await store.put(LastWins(key="k", value=value))
        assert await store.get(LastWins, "k") is None
        assert await store.put(LastWins(key="k", value="x" * (MAX_VALUE_BYTES - 20)))


class OptOutContract:
    """Opt-outs are a legal matter: the last word counts, none is lost, and all can be listed."""

    async def test_the_last_word_counts(self, store: Store) -> None:
        assert await store.opt_out(Channel.SMS, "+1555") is None
        assert await store.put_opt_out(opt_out("+1555", 1))
        assert await store.opt_out(Channel.SMS, "+1555") == opt_out("+1555", 1)
        assert await store.put_opt_out(opt_out("+1555", 5, opted_out=False))
        assert not await store.put_opt_out(opt_out("+1555", 4))
        assert await store.opt_out(Channel.SMS, "+1555") == opt_out("+1555", 5, opted_out=False)

    async def test_an_opt_out_holds_for_its_channel_alone(self, store: Store) -> None:
        await store.put_opt_out(opt_out("+1555"))
        assert await store.opt_out(Channel.VOICE, "+1555") is None

    async def test_all_are_listed_page_by_page_in_one_order(self, store: Store) -> None:
        addresses = ["+1555", "+1556", 'a"b', "a#b", "whatsapp:+1555"]
        everything = [opt_out(address, opted_out=address != "+1556") for address in addresses]
        everything.append(opt_out("+1555", channel=Channel.VOICE))
        for one in reversed(everything):
            await store.put_opt_out(one)
        listed: list[OptOut] = []
        while page := await store.opt_outs(after=OptOutKey.of(listed[-1]) if listed else None, limit=2):
            listed += page
        assert listed == sorted(everything, key=OptOutKey.of)

    async def test_opt_outs_outlive_the_process(self, factory: StoreFactory) -> None:
        async with factory.open() as store:
            await store.put_opt_out(opt_out("+1555"))
        async with factory.open() as store:
            assert await store.opt_outs(limit=9) == (opt_out("+1555"),)
