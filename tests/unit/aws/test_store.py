"""What is DynamoDB's own about the store: trouble, sizes, old rows, costs, changes of the layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from tests.contract.samples import T0, at, message, meta, turn, work_order
from tests.contract.store.factory import settle, settle_new
from tests.emulator import access, emulator, session  # noqa: F401
from tests.unit.aws.dynamodb_faults import DynamoFaults
from tests.unit.aws.strict import StrictDynamo

from afterturn.aws.errors import Backoff
from afterturn.aws.session import Access, open_client
from afterturn.aws.table import INDEXES, RECENCY, RECENCY_B, table_definition
from afterturn.errors import InvalidRecord, StoreBusy, StoreError, StoreForeign
from afterturn.model import Attachment, Stamp
from afterturn.store.dynamodb import DynamoStore, RecencyLayouts, SlotLayout, open_store
from afterturn.store.pagination import newest
from afterturn.store.port import ConsumerState, Range, RecencyKey, Registration

TABLE = "afterturn-test"
DEFINITION = table_definition(TABLE, (*INDEXES, RECENCY_B))
FAST = Backoff(base=0.0001, cap=0.001, tries=4)

Connect = Callable[[], AbstractAsyncContextManager[Any]]


@pytest.fixture
def connect(access: Access, session: Any) -> Connect:  # noqa: F811
    """Opens a client whose requests are checked."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        async with open_client("dynamodb", access, session) as client:
            StrictDynamo(DEFINITION).watch(client)
            yield client

    return opened


@pytest.fixture
async def client(connect: Connect) -> AsyncIterator[Any]:
    async with connect() as opened:
        await opened.create_table(**DEFINITION)
        yield opened


@pytest.fixture
def store(client: Any) -> DynamoStore:
    return DynamoStore.on(client, TABLE, backoff=FAST)


def count_requests(client: Any) -> Counter[str]:
    """From now on."""
    found: Counter[str] = Counter()

    def note(model: Any, **_: Any) -> None:
        found[model.name] += 1

    client.meta.events.register("before-call.dynamodb", note)
    return found


def row(conversation_id: str, **attributes: Any) -> dict[str, Any]:
    """An item as some other program may have written it."""
    own = {"PK": f"CONV#{conversation_id}", "SK": "META", "id": conversation_id, "channel": "sms"}
    index = {"GSI3PK": "ENTITY_CONVERSATION", "GSI3SK": conversation_id}
    texts = {name: {"S": value} for name, value in (own | index).items()}
    return {"TableName": TABLE, "Item": texts | attributes}


class TestTrouble:
    async def test_throttling_that_does_not_end_is_said_to_be_that(self, client: Any, store: DynamoStore) -> None:
        """And nothing was written."""
        count_requests(client)
        client.meta.events.register("before-call.dynamodb.TransactWriteItems", _throttle)
        with pytest.raises(StoreBusy, match="throttled") as found:
            await settle(store, turn("c1", message("m1", text="a secret")), T0)
        assert "secret" not in str(found.value)
        assert found.value.__cause__ is not None
        client.meta.events.unregister("before-call.dynamodb.TransactWriteItems", _throttle)
        assert await store.conversation("c1") is None

    async def test_a_conflict_that_does_not_end_is_said_to_be_that(self, client: Any, store: DynamoStore) -> None:
        client.meta.events.register("before-call.dynamodb.TransactWriteItems", _conflict)
        with pytest.raises(StoreBusy, match="other writers"):
            await settle(store, turn("c1"), T0)

    async def test_a_lost_answer_makes_no_second_turn(self, client: Any, connect: Connect) -> None:
        """Also of a turn without messages and without a key, which nothing else would recognise."""
        async with connect() as unlucky:
            trouble = DynamoFaults(seed=3, lost=0.6, conflicting=0.4)
            trouble.befall(unlucky)
            store = DynamoStore.on(unlucky, TABLE, backoff=FAST)
            for second in range(20):
                assert (await settle(store, turn("c1"), at(second))).new
                assert await store.stamp("c1", "topics", Stamp(data={"n": second}), through=at(second), now=T0)
            assert trouble.seen["lost"] > 10
        assert len(await DynamoStore.on(client, TABLE).turns("c1", limit=100)) == 20

    async def test_what_aws_leaves_unread_is_asked_for_again(self, client: Any, connect: Connect) -> None:
        plain = DynamoStore.on(client, TABLE)
        for number in range(30):
            await plain.save_conversation(meta(f"c{number:02}"), now=T0)
        async with connect() as unlucky:
            trouble = DynamoFaults(seed=4, unread=1)
            trouble.befall(unlucky)
            found = await DynamoStore.on(unlucky, TABLE, backoff=FAST).scan(limit=30)
            assert trouble.seen["unread"] >= 2
        assert [one.id for one in found] == [f"c{number:02}" for number in range(30)]

    async def test_nothing_is_decided_by_an_index(self, client: Any, store: DynamoStore) -> None:
        """Indexes lag. Writer and reactions do all of their work without one."""
        client.meta.events.register("before-parameter-build.dynamodb.Query", _refuse_index)
        await settle_new(store, "c1", message("m1", provider_id="p"), key="k", now=T0)
        assert not (await settle(store, turn("c1", message("m1")), at(1))).new
        await store.save_messages(meta("c1"), [message("m2", 2)], now=at(2))
        await store.save_conversation(meta("c1"), now=at(3))
        await settle_new(store, "c1", now=at(4))
        assert await store.window("c1", "topics") is not None
        await store.fail("c1", "topics", through=at(4), error="E", now=at(5))
        assert len(await store.failures(limit=5)) == 1
        await store.request("c1", ["topics"], now=at(5))
        await store.stamp("c1", "topics", Stamp(work_orders=(work_order("w1"),)), through=at(4), now=at(5))
        await store.register([Registration("topics", T0, ConsumerState.LIVE, at(1) - T0)])
        assert list(await store.registrations()) == ["topics"]
        assert len(await store.turns("c1", limit=5)) == 2

    async def test_an_index_that_lags_hides_rows_and_ends_no_read(self, client: Any, connect: Connect) -> None:
        plain = DynamoStore.on(client, TABLE)
        for number in range(9):
            await settle_new(plain, f"c{number}", message("m", number), now=at(60))
        async with connect() as behind:
            trouble = DynamoFaults(lagging={f"CONV#c{number}" for number in range(4, 9)})
            trouble.befall(behind)
            store = DynamoStore.on(behind, TABLE)
            assert [one.id for one in await newest(store, 2)] == ["c3", "c2"]
            trouble.lagging.clear()
            assert [one.id for one in await newest(store, 2)] == ["c8", "c7"]

    async def test_a_row_that_is_gone_when_it_is_read_ends_no_scan(self, client: Any, store: DynamoStore) -> None:
        for name in ("c1", "c2", "c3"):
            await store.save_conversation(meta(name), now=T0)

        async def delete(context: dict[str, Any], **_: Any) -> None:
            if context.get("done"):
                return
            context["done"] = True
            client.meta.events.unregister("after-call.dynamodb.Query", delete)
            await client.delete_item(TableName=TABLE, Key={"PK": {"S": "CONV#c1"}, "SK": {"S": "META"}})

        client.meta.events.register("after-call.dynamodb.Query", delete)
        assert [one.id for one in await store.scan(limit=2)] == ["c2", "c3"]

    async def test_a_conversation_that_is_gone_is_not_revived(self, client: Any, store: DynamoStore) -> None:
        """F22: neither by a stamp nor by a failure nor by a request."""
        await settle_new(store, "c1", now=T0)
        await client.delete_item(TableName=TABLE, Key={"PK": {"S": "CONV#c1"}, "SK": {"S": "META"}})
        assert not await store.stamp("c1", "topics", Stamp(), through=T0, now=T0)
        await store.fail("c1", "topics", through=T0, error="E", now=T0)
        await store.request("c1", ["topics"], now=T0)
        assert await store.conversation("c1") is None
        assert await store.failures(limit=5) == ()


class TestSizes:
    async def test_a_message_that_does_not_fit_is_refused_whole(self, client: Any, store: DynamoStore) -> None:
        """Before anything is sent; with its attachments a message can be larger than its text may be."""
        sent = count_requests(client)
        large = message("m2", text="x" * 250_000, attachments=(Attachment(url="u" * 4000),) * 45)
        with pytest.raises(InvalidRecord, match="m2"):
            await settle(store, turn("c1", message("m1"), large), T0)
        with pytest.raises(InvalidRecord, match="m2"):
            await store.save_messages(meta("c1"), [message("m1"), large], now=T0)
        assert not sent["TransactWriteItems"]
        assert await store.conversation("c1") is None

    async def test_the_largest_turn_fits(self, store: DynamoStore) -> None:
        """30 messages, each with a provider id, and 3.4 MB of text, in one transaction."""
        messages = [message(f"m{n}", n, text="x" * 113_000, provider_id=f"p{n}") for n in range(30)]
        await settle_new(store, "c1", *messages, key="k", now=at(60))
        assert len(await store.messages("c1")) == 30

    async def test_many_messages_are_saved_in_several_transactions(self, client: Any, store: DynamoStore) -> None:
        sent = count_requests(client)
        messages = [message(f"m{n:03}", n, provider_id=f"p{n}") for n in range(100)]
        assert await store.save_messages(meta("c1"), messages, now=at(200)) == 100
        assert await store.save_messages(meta("c1"), messages, now=at(200)) == 0
        assert sent["TransactWriteItems"] == 4
        assert [one.id for one in await store.messages("c1")] == [one.id for one in messages]

    async def test_a_stamp_that_does_not_fit_is_refused(self, store: DynamoStore) -> None:
        await settle_new(store, "c1", now=T0)
        with pytest.raises(InvalidRecord, match="data"):
            await store.stamp("c1", "topics", Stamp(data={"t": "x" * 410_000}), through=T0, now=T0)
        orders = tuple(work_order(f"w{n}") for n in range(99))
        with pytest.raises(InvalidRecord, match="workOrders"):
            await store.stamp("c1", "topics", Stamp(work_orders=orders), through=T0, now=T0)
        assert await store.stamp("c1", "topics", Stamp(work_orders=orders[:98]), through=T0, now=T0)
        assert len(await store.work_orders(limit=200)) == 98


class TestOldRows:
    async def test_rows_with_odd_times_are_read_as_far_as_they_make_sense(
        self, client: Any, store: DynamoStore
    ) -> None:
        """F41: no recency attribute, empty, null, a number, a date alone. None stops the read of the others."""
        odd: list[dict[str, Any]] = [{}, {"S": ""}, {"NULL": True}, {"N": "1772366405"}, {"S": "2026-03-01"}]
        for number, value in enumerate(odd):
            await client.put_item(**row(f"c{number}", **({"lastMessageAt": value} if value else {})))
        good = {"lastMessageAt": {"S": "2026-03-01T12:00:05Z"}, "createdAt": {"S": "2026-03-01T13:00:00+02:00"}}
        await client.put_item(**row("c9", **good))
        found = await store.scan(limit=10)
        assert [one.id for one in found] == ["c0", "c1", "c2", "c3", "c4", "c9"]
        assert [one.last_message_at for one in found] == [None] * 5 + [at(5)]
        assert (found[-1].created_at - T0).total_seconds() == -3600

    async def test_a_turn_gives_an_old_row_its_place_in_the_index(self, client: Any, store: DynamoStore) -> None:
        times = {"createdAt": {"S": "2026-03-01T12:00:00Z"}, "lastMessageAt": {"S": "2026-03-01T12:00:30Z"}}
        for name in ("c1", "c2"):
            await client.put_item(**row(name, **times))
        await store.save_conversation(meta("c2", type="tour"), now=at(40))
        assert (await store.recency(Range(), limit=9)).rows == ()
        await settle_new(store, "c1", message("late", 10), now=at(50))
        (found,) = (await store.recency(Range(), limit=9)).rows
        assert (found.id, found.last_message_at) == ("c1", at(30))


class TestCosts:
    async def test_requests(self, client: Any, store: DynamoStore) -> None:
        """A page is one query. A settle is one transaction; the read before it falls away where the head is known."""
        await settle_new(store, "c1", message("m1"), now=T0)
        sent = count_requests(client)

        async def cost(verb: Any) -> dict[str, int]:
            sent.clear()
            await verb
            return dict(sent)

        assert await cost(settle_new(store, "c1", message("m2", provider_id="p"), now=at(1))) == {
            "TransactWriteItems": 1
        }
        cold = DynamoStore.on(client, TABLE)
        assert await cost(settle_new(cold, "c1", message("m3"), key="k", now=at(2))) == {
            "BatchGetItem": 1,
            "TransactWriteItems": 1,
        }
        assert await cost(store.recency(Range(), limit=50)) == {"Query": 1}
        assert await cost(store.recency(Range(of_property=True, property_id="p"), limit=50)) == {"Query": 1}
        assert await cost(store.failures(limit=50)) == {"Query": 1}
        assert await cost(store.work_orders(limit=50)) == {"Query": 1}
        assert await cost(store.window("c1", "topics")) == {"GetItem": 1, "Query": 2}
        assert await cost(store.stamp("c1", "topics", Stamp(), through=at(2), now=T0)) == {
            "BatchGetItem": 1,
            "UpdateItem": 1,
        }

    async def test_a_page_of_a_month_reads_that_month(self, client: Any) -> None:
        """And the list of months; however many newer ones there are."""
        slot_layout = SlotLayout.parse("monthly")
        store = DynamoStore.on(client, TABLE, layouts=RecencyLayouts(slot_layout, (slot_layout,)))
        for number in range(6):
            await store.save_conversation(meta(f"c{number}", created_at=at(number * 40 * 86_400)), now=T0)
        sent = count_requests(client)
        found = await store.recency(Range(), before=RecencyKey(at(80 * 86_400), "c2"), limit=1)
        assert [one.id for one in found.rows] == ["c1"]
        assert sent["Query"] <= 3

    async def test_a_window_reads_what_is_new_and_not_the_whole_thread(self, client: Any, store: DynamoStore) -> None:
        for number in range(40):
            await settle_new(store, "c1", message(f"m{number}", number), now=at(number))
        await store.stamp("c1", "topics", Stamp(), through=at(38), now=at(60))
        scanned: list[int] = []

        def note(parsed: dict[str, Any], **_: Any) -> None:
            scanned.append(parsed["ScannedCount"])

        client.meta.events.register("after-call.dynamodb.Query", note)
        window = await store.window("c1", "topics")
        assert window is not None
        assert [one.id for one in window.messages] == ["m39"]
        assert scanned == [1, 1]


class TestLayoutChange:
    @pytest.mark.parametrize("layout", ["b/sharded:3", "b/monthly"])
    async def test_no_read_misses_a_row_at_any_step(self, client: Any, layout: str) -> None:
        """Write both, restamp, read the new one, write only that: with live turns in between."""
        old, new = SlotLayout(), SlotLayout.parse(layout)
        steps = [
            RecencyLayouts(old, (old,)),
            RecencyLayouts(old, (old, new)),
            RecencyLayouts(new, (old, new)),
            RecencyLayouts(new, (new,)),
        ]
        before, both, flipped, after = (DynamoStore.on(client, TABLE, layouts=step) for step in steps)
        for number in range(12):
            await settle_new(before, f"c{number}", message("m", number), now=at(60))
        for number in range(12):  # a turn without messages restamps a row and does not move it
            await settle_new(both, f"c{number}", now=at(100))
        expected = [f"c{number}" for number in reversed(range(12))]
        for reader in (before, both, flipped, after):
            assert [one.id for one in await newest(reader, 50)] == expected
        await settle_new(flipped, "c3", message("m2", 500), now=at(600))
        expected = ["c3", *(name for name in expected if name != "c3")]
        for reader in (both, flipped, after):
            assert [one.id for one in await newest(reader, 50)] == expected
            assert [one.id for one in await newest(reader, 5)] == expected[:5]


class TestTables:
    async def test_a_sound_table_opens(self, client: Any, access: Access) -> None:  # noqa: F811
        async with open_store(TABLE, access) as store:
            await settle_new(store, "c1", now=T0)
        assert client is not None

    async def test_a_missing_table_is_named(self, access: Access) -> None:  # noqa: F811
        with pytest.raises(StoreForeign, match=r"nowhere.*afterturn aws provision"):
            async with open_store("nowhere", access):
                pass

    async def test_a_missing_index_is_named(self, access: Access, session: Any) -> None:  # noqa: F811
        async with open_client("dynamodb", access, session) as client:
            await client.create_table(**table_definition(TABLE, [one for one in INDEXES if one is not RECENCY]))
        with pytest.raises(StoreForeign, match=r"no index conv-recency-index.*aws index add conv-recency-index"):
            async with open_store(TABLE, access):
                pass

    async def test_the_index_of_a_layout_has_to_be_there(self, access: Access, session: Any) -> None:  # noqa: F811
        async with open_client("dynamodb", access, session) as client:
            await client.create_table(**table_definition(TABLE))
        slot_layout = SlotLayout.parse("b/monthly")
        with pytest.raises(StoreForeign, match="conv-recency-index-b"):
            async with open_store(TABLE, access, layouts=RecencyLayouts(slot_layout, (slot_layout,))):
                pass

    async def test_an_endpoint_that_is_not_there_is_said_to_be_that(self) -> None:
        nowhere = Access("us-east-1", "http://127.0.0.1:1", access_key="1", secret_key="x", attempts=1)
        with pytest.raises(StoreError, match="could not reach its endpoint"):
            async with open_store(TABLE, nowhere):
                pass


def _throttle(**_: Any) -> Any:
    return _answer("ProvisionedThroughputExceededException")


def _conflict(**_: Any) -> Any:
    return _answer("TransactionConflictException")


def _answer(code: str) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(status_code=400), {"Error": {"Code": code, "Message": "of a secret"}, "ResponseMetadata": {}}


def _refuse_index(params: dict[str, Any], **_: Any) -> None:
    assert "IndexName" not in params, "an index decided"
