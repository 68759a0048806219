"""Work orders open once, urgency only rises, an emergency wakes somebody up once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.consumers.helpers import START, MemoryClaims, agent, customer, run_in_windows, thread
from tests.unit.consumers.repair_texts import EMERGENCIES, LOOK_ALIKES, REPAIRS

from afterturn.consumers.maintenance import (
    EPISODE_ENDS_AFTER,
    FORGOTTEN_AFTER,
    MAX_OPEN,
    Alert,
    MaintenanceState,
    by_rules,
    follow,
    maintenance_handler,
    read_messages,
    work_order_id,
)
from afterturn.consumers.repairs import load_repair_rules
from afterturn.model import MAX_ID_CHARS, Message, WorkOrder
from afterturn.reactions.registry import Handler

RULES = load_repair_rules()


class Pager:
    """Takes alerts; can fail after having taken one, as a crash would look."""

    def __init__(self, *, failures: int = 0) -> None:
        self.alerts: list[Alert] = []
        self.failures = failures

    async def __call__(self, alert: Alert) -> None:
        self.alerts.append(alert)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("lost on the way back")


def handler(pager: Pager | None = None) -> Handler:
    return maintenance_handler(by_rules(RULES), pager)


async def orders_of(*lines: str, cuts: Sequence[int] = ()) -> list[WorkOrder]:
    stamps = await run_in_windows(handler(), thread(*lines), cuts)
    return [order for stamp in stamps for order in stamp.work_orders]


async def test_a_request_becomes_one_work_order() -> None:
    (order,) = await orders_of("c: Hello", "c: my kitchen sink is leaking", "a: We will send a plumber.")
    assert (order.category, order.urgency, order.message_id) == ("plumbing", "routine", "m1")
    assert order.id == work_order_id("c1", "plumbing", "m1")
    assert order.opened_at == START + timedelta(seconds=10)
    assert order.property_id == "p1"


@pytest.mark.parametrize("cuts", [(), (1,), (1, 2), (2, 3)])
async def test_the_same_problem_again_opens_no_second_one(cuts: tuple[int, ...]) -> None:
    orders = await orders_of(
        "c: my kitchen sink is leaking",
        "c: any news about the leak?",
        "c: hello?? the sink still leaks",
        "c: it's the faucet that drips",
        cuts=cuts,
    )
    assert {order.id for order in orders} == {work_order_id("c1", "plumbing", "m0")}


async def test_another_thing_of_the_same_category_opens_a_second_one() -> None:
    orders = await orders_of("c: my kitchen sink is leaking", "c: and now the toilet is clogged too", cuts=[1])
    assert [order.message_id for order in orders] == ["m0", "m1"]


async def test_two_categories_in_one_message_are_two_work_orders() -> None:
    orders = await orders_of("c: The dishwasher won't drain and there are mice in the kitchen")
    assert {order.category for order in orders} == {"appliance", "pest"}


async def test_a_rise_in_urgency_is_written_under_the_same_id() -> None:
    first, second, third = await orders_of(
        "c: water is leaking under the sink",
        "c: please hurry, this is urgent",
        "c: the kitchen is flooding now",
        cuts=[1, 2],
    )
    assert first.id == second.id == third.id
    assert [first.urgency, second.urgency, third.urgency] == ["routine", "urgent", "emergency"]
    assert third.opened_at == first.opened_at


async def test_urgency_never_falls() -> None:
    orders = await orders_of("c: my kitchen is flooding", "c: the sink leak is a small problem now", cuts=[1])
    assert [order.urgency for order in orders] == ["emergency"]


async def test_after_it_was_repaired_the_next_mention_is_a_new_problem() -> None:
    orders = await orders_of("c: the sink leaks", "c: the sink is fixed, thanks", "c: the sink leaks again", cuts=[1])
    assert [order.message_id for order in orders] == ["m0", "m2"]


async def test_what_was_not_mentioned_for_a_month_is_over() -> None:
    later = START + FORGOTTEN_AFTER + timedelta(minutes=1)
    messages = [customer("the sink leaks"), customer("the sink leaks", 1, at=later)]
    stamps = await run_in_windows(handler(), messages, cuts=[1])
    assert len({order.id for stamp in stamps for order in stamp.work_orders}) == 2


async def test_what_the_staff_says_is_no_request() -> None:
    assert not await orders_of("a: Is your sink leaking? Do you smell gas?", "o: The boiler is broken", "s: fire")


async def test_an_emergency_is_stamped_and_told_once_over_windows_and_reruns() -> None:
    pager, claims = Pager(), MemoryClaims()
    messages = thread("c: I smell gas", "a: Please leave the building.", "c: the gas smell is strong", "c: GAS LEAK!!")
    for _ in range(2):
        stamps = await run_in_windows(handler(pager), messages, cuts=[1, 3], claims=claims)
    (alert,) = pager.alerts
    assert (alert.conversation_id, alert.property_id, alert.kind, alert.message_id) == ("c1", "p1", "gas", "m0")
    assert stamps[-1].data["alert"] == "gas"
    assert stamps[-1].data["alerts"] == ["gas"]
    assert stamps[-1].data["urgency"] == "emergency"


async def test_a_repeat_after_a_crash_is_the_very_same_alert() -> None:
    pager, claims = Pager(failures=1), MemoryClaims()
    with pytest.raises(ConnectionError):
        await run_in_windows(handler(pager), thread("c: my kitchen is flooding"), claims=claims)
    longer = thread("c: my kitchen is flooding", "c: water everywhere!")
    await run_in_windows(handler(pager), longer, claims=claims)
    first, second = pager.alerts
    assert first == second


async def test_the_next_emergency_of_the_kind_is_told_again() -> None:
    pager = Pager()
    later = START + EPISODE_ENDS_AFTER + timedelta(minutes=1)
    messages = [customer("I smell gas"), customer("I smell gas", 1, at=later)]
    await run_in_windows(handler(pager), messages, cuts=[1])
    assert [alert.message_id for alert in pager.alerts] == ["m0", "m1"]


async def test_two_kinds_are_two_alerts() -> None:
    pager = Pager()
    await run_in_windows(handler(pager), thread("c: the outlet is on fire and I smell gas"))
    assert {alert.kind for alert in pager.alerts} == {"gas", "fire"}


async def test_history_is_stamped_and_wakes_nobody() -> None:
    pager = Pager()
    (stamp,) = await run_in_windows(handler(pager), thread("c: I smell gas"), quiet=True)
    assert stamp.data["alert"] == "gas"
    assert not pager.alerts


async def test_an_answer_in_the_next_window_is_understood() -> None:
    pager = Pager()
    messages = thread("c: strange smell here", "a: Do you smell gas?", "c: yes!")
    stamps = await run_in_windows(handler(pager), messages, cuts=[2])
    assert [alert.message_id for alert in pager.alerts] == ["m2"]
    assert stamps[0].data["asked"] == ["gas"]


async def test_the_stamp_has_these_keys() -> None:
    (stamp,) = await run_in_windows(handler(), thread("c: my kitchen sink is leaking"))
    assert stamp.data == {
        "open": [
            {
                "id": work_order_id("c1", "plumbing", "m0"),
                "category": "plumbing",
                "urgency": "routine",
                "things": ["sink"],
                "messageId": "m0",
                "openedAt": "2026-03-01T12:00:00.000000Z",
                "lastAt": "2026-03-01T12:00:00.000000Z",
            }
        ],
        "categories": ["plumbing"],
        "urgency": "routine",
        "workOrders": 1,
        "alert": None,
        "alerts": [],
        "episodes": {},
        "asked": [],
    }


async def test_the_stamp_stays_small_in_a_conversation_that_never_ends() -> None:
    texts = [text for text, *_ in [*EMERGENCIES, *REPAIRS]] * 3
    messages = [customer(text, number) for number, text in enumerate(texts)]
    stamps = await run_in_windows(handler(), messages, cuts=range(0, len(messages), 10))
    state = stamps[-1].data
    assert isinstance(state["open"], list)
    assert len(state["open"]) <= MAX_OPEN
    assert len(stamps[-1].model_dump_json()) < 6_000


def test_work_order_ids_are_legal_and_do_not_collide() -> None:
    long = "🔥" * MAX_ID_CHARS
    assert len(work_order_id(long, "plumbing", long)) <= MAX_ID_CHARS
    assert work_order_id("a", "b", "cd") != work_order_id("a", "bc", "d")


LINES = st.lists(
    st.sampled_from(
        ["c:any news about the leak?", "c:it's fixed, thanks", "c:this is urgent", "c:yes", "a:Do you smell gas?"]
        + [f"c:{text}" for text, *_ in [*EMERGENCIES[::7], *REPAIRS[::3]]]
        + [f"c:{text}" for text in LOOK_ALIKES[::10]]
    ),
    max_size=10,
).map(lambda lines: thread(*lines))


@given(messages=LINES, cut=st.integers(0, 10))
def test_windows_may_be_cut_anywhere(messages: list[Message], cut: int) -> None:
    whole, orders = run(MaintenanceState(), messages)
    early, some = run(MaintenanceState(), messages[:cut])
    late, more = run(early, messages[cut:])
    assert late == whole
    newest = {order.id: order for order in (*some, *more)}
    assert newest == {order.id: order for order in orders}


def run(state: MaintenanceState, messages: Sequence[Message]) -> tuple[MaintenanceState, tuple[WorkOrder, ...]]:
    return follow(state, read_messages(messages, RULES, frozenset(state.asked)), "c1", "p1")


async def test_no_alert_sink_is_no_error() -> None:
    stamps = await run_in_windows(maintenance_handler(by_rules(RULES)), [customer("I smell gas"), agent("Leave!", 1)])
    assert stamps[-1].data["alerts"] == ["gas"]
