"""The operations page: what is stuck, and the buttons that get it going."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from tests.web.pages.demo import Site

from afterturn import Direction, Message, Role, Turn
from afterturn.channels.state import REPLY, SEND
from afterturn.errors import EngineUnavailable, StoreBusy, StreamUnavailable
from afterturn.store.jobs import Job
from afterturn.store.port import ConsumerState
from afterturn.stream.port import Queue
from afterturn.testing.clock import ManualClock
from afterturn.testing.faults import Fault, Faults, Moment, faulty
from afterturn.web.pages.history import SLOT, History, Span, slot_of, take_sample


async def make_dead_letter(site: Site, reason: str = "no good") -> str:
    """Give up on the oldest record of the stream."""
    taken = await site.backbone.stream.receive(Queue.MAIN, limit=1, visibility=timedelta(minutes=1))
    await site.backbone.stream.dead_letter(taken[0], reason=reason)
    return (await site.backbone.stream.dead_letters(limit=100))[-1].id


def down(error: type[Exception]) -> Faults:
    """Nothing answers."""
    return Faults(lambda number, verb: Fault(Moment.BEFORE, error))


async def test_a_quiet_house_says_that_nothing_is_owed(site: Site) -> None:
    async with site.client() as client:
        page = (await client.get("/operations?owed=all")).text
    assert "85 conversations checked; 0 reactions owed: 0 waiting, 0 overdue, 0 failed." in page
    for name in ("topics", "grade", "maintenance", "inbound-package"):
        assert f"{name} has seen" in page


async def test_what_waits_for_an_agent_or_a_provider_is_counted_with_its_age(site: Site) -> None:
    clock, meta = site.backbone.clock, await site.backbone.store.meta("gas-smell-2b")
    assert meta is not None
    said = Message(id="m", direction=Direction.OUTBOUND, role=Role.AGENT, text="On our way", at=clock())
    jobs = [
        Job(kind=kind, key="m", conversation_id=meta.id, due_at=clock() - timedelta(minutes=age))
        for kind, age in ((REPLY, 5), (SEND, 7))
    ]
    await site.backbone.settle(Turn(conversation=meta, messages=(said,)), jobs=jobs)
    sample = await take_sample(site.backbone)
    assert (sample.jobs, sample.jobs_oldest) == (2, jobs[1].due_at)
    async with site.client("duty") as client:
        stages = (await client.get("/operations/stages")).text
    assert re.search(r'data-stage="jobs">\s*<h2>Answers and sends</h2>\s*<span class="number">2<', stages)
    assert "oldest 7m" in stages


async def test_a_dead_letter_is_shown_with_its_reason_and_redriven_once(site: Site) -> None:
    await site.settle("gas-smell-2b", "hello?")
    letter = await make_dead_letter(site, "<b>bad</b>")
    async with site.client("duty") as client:
        page = (await client.get("/operations")).text
        assert "&lt;b&gt;bad&lt;/b&gt;" in page
        assert "conversation.turn_settled" in page
        first = await client.post("/operations/redrive", data={"id": letter})
        second = await client.post("/operations/redrive", data={"id": letter})
        assert "1 dead letter sent to the stream again." in (await client.get(first.headers["location"])).text
        assert "0 dead letters sent to the stream again." in (await client.get(second.headers["location"])).text
    depth = await site.backbone.stream.depth()
    assert (depth.main, depth.dead_letters) == (1, 0)


async def test_all_dead_letters_are_redriven_at_once(site: Site) -> None:
    for name in ("gas-smell-2b", "packages-sunday"):
        await site.settle(name, "hello?")
        await make_dead_letter(site)
    async with site.client("duty") as client:
        await client.post("/operations/redrive", data={"all": "1"})
    assert (await site.backbone.stream.depth()).dead_letters == 0


async def test_a_form_that_names_nothing_redrives_nothing(site: Site) -> None:
    await site.settle("gas-smell-2b", "hello?")
    await make_dead_letter(site)
    async with site.client("duty") as client:
        assert (await client.post("/operations/redrive", data={"csrf": ""})).status_code == 422
        assert (await client.post("/operations/retry", data={"csrf": ""})).status_code == 422
    assert (await site.backbone.stream.depth()).dead_letters == 1


async def test_a_failed_reaction_is_shown_and_due_again_after_retry(site: Site) -> None:
    await site.settle("gas-smell-2b", "hello?")
    await site.fail("gas-smell-2b", "topics")
    async with site.client("duty") as client:
        page = (await client.get("/operations")).text
        assert "RuntimeError" in page
        assert 'href="/?failed=topics"' in page
        answer = await client.post("/operations/retry", data={"conversation": "gas-smell-2b", "consumer": "topics"})
        assert "1 reaction will run again." in (await client.get(answer.headers["location"])).text
    assert await site.backbone.store.failures(limit=10) == ()
    await site.backbone.drain(eager=True)
    row = await site.backbone.inbox.row("gas-smell-2b")
    assert row is not None
    assert set(row.states.values()) == {"fresh"}


async def test_what_is_owed_is_named_and_put_into_the_stream_with_one_click(site: Site) -> None:
    await site.settle("gas-smell-2b", "hello?")
    taken = await site.backbone.stream.receive(Queue.MAIN, limit=1, visibility=timedelta(minutes=1))
    await site.backbone.stream.ack([taken[0].receipt])  # lost on its way
    async with site.client("duty") as client:
        assert "4 reactions owed: 4 waiting, 0 overdue, 0 failed." in (await client.get("/operations")).text
        answer = await client.post("/operations/emit", data={"owed": "24h"})
        assert "4 reactions re-emitted." in (await client.get(answer.headers["location"])).text
    await site.backbone.drain(eager=True)
    async with site.client("duty") as client:
        assert " 0 reactions owed: " in (await client.get("/operations")).text


async def test_only_an_admin_retires_and_promotes(site: Site) -> None:
    async with site.client("duty") as client:
        assert "Retire" not in (await client.get("/operations")).text
        refused = await client.post("/operations/consumers", data={"name": "grade", "do": "retire"})
        assert refused.status_code == 403
    async with site.client("root") as client:
        page = (await client.get("/operations")).text
        asks = page.partition('<summary>Retire<span class="unseen"> grade</span>…</summary>')[2].partition(
            "</details>"
        )[0]
        assert ">Retire grade</button>" in asks
        assert page.count("Retire grade") == 1
        answer = await client.post("/operations/consumers", data={"name": "grade", "do": "retire"})
        assert "grade is retired: it owes no reactions" in (await client.get(answer.headers["location"])).text
        assert (await site.backbone.store.registrations())["grade"].state is ConsumerState.RETIRED
        assert ">Promote<" in (await client.get("/operations")).text
        again = await client.post("/operations/consumers", data={"name": "grade", "do": "promote"})
        assert "grade is live: its stamps are shown" in (await client.get(again.headers["location"])).text
        assert "grade is retired" not in (await client.get(answer.headers["location"])).text
        assert "nobody is" not in (await client.get("/operations?done=retired&name=nobody")).text
        unknown = await client.post("/operations/consumers", data={"name": "nobody", "do": "retire"})
        assert unknown.status_code == 404
    assert (await site.backbone.store.registrations())["grade"].state is ConsumerState.LIVE


async def test_a_sample_counts_every_stage_and_how_far_each_consumer_is(site: Site) -> None:
    await site.settle("gas-smell-2b", "hello?")
    await site.settle("packages-sunday", "hello?")
    await make_dead_letter(site)
    await site.fail("packages-sunday", "topics")
    found = await take_sample(site.backbone)
    assert (found.main, found.dead, found.failed) == (1, 1, 1)
    topics, grade = found.consumers["topics"], found.consumers["grade"]
    assert (topics.owed, topics.failed, topics.seen) == (1, 1, found.looked_at - 2)
    assert (grade.owed, grade.failed, grade.seen) == (2, 0, found.looked_at - 2)
    assert grade.lag > timedelta(0)


async def test_while_stream_and_engine_are_down_the_page_says_so_and_shows_the_rest(site: Site) -> None:
    await site.settle("gas-smell-2b", "hello?")
    await site.fail("gas-smell-2b", "topics")
    for room, outage in (("stream", StreamUnavailable), ("engine", EngineUnavailable)):
        setattr(site.backbone, room, faulty(getattr(site.backbone, room), down(outage)))
    async with site.client("duty") as client:
        page = (await client.get("/operations")).text
    assert page.count("unavailable") == 5
    assert "RuntimeError" in page
    assert "4 reactions owed: 3 waiting, 0 overdue, 1 failed." in page


async def test_plots_go_on_after_a_restart_and_others_on_the_store_add_to_them(site: Site) -> None:
    """Each history is that of a process of its own."""
    await site.settle("gas-smell-2b", "hello?")
    await make_dead_letter(site)
    clock = ManualClock(slot_of(site.backbone.clock()) + SLOT + timedelta(minutes=1))
    site.backbone.clock = clock
    one = await looked(site)
    await site.backbone.stream.redrive([each.id for each in await site.backbone.stream.dead_letters(limit=9)])
    other = await looked(site)
    clock.advance(timedelta(minutes=1))
    now = clock()
    for history in (one, other, await looked(site)):
        points = history.over(Span.DAY, now)
        assert [(point.at, point.stages["dead"]) for point in points] == [(slot_of(points[0].at), 1)]
        assert points[0].lags["topics"] >= 60
    hour = (await looked(site)).over(Span.HOUR, now)
    assert [point.stages["dead"] for point in hour] == [1, 0]


async def test_what_a_process_saw_is_not_told_of_the_time_before_it(site: Site) -> None:
    clock = ManualClock(slot_of(site.backbone.clock()) + SLOT)
    site.backbone.clock = clock
    await looked(site)
    clock.advance(timedelta(minutes=2))
    later = await looked(site)
    await site.settle("gas-smell-2b", "hello?")
    await make_dead_letter(site)
    clock.advance(timedelta(minutes=1))
    await later.look()
    assert [point.stages["dead"] for point in later.over(Span.HOUR, clock())] == [0, 0, 1]
    assert [point.stages["dead"] for point in later.over(Span.DAY, clock())] == [1]


@pytest.mark.parametrize("ahead", [timedelta(hours=5), timedelta(days=300)])
async def test_looks_of_a_clock_that_was_ahead_are_drawn_no_more(site: Site, ahead: timedelta) -> None:
    await site.settle("gas-smell-2b", "hello?")
    clock = ManualClock(slot_of(site.backbone.clock()) + SLOT)
    site.backbone.clock = clock
    begun = clock()
    history = await looked(site)
    clock.advance(ahead)
    await history.look()
    clock.advance(2 * SLOT - ahead)
    await history.look()
    assert [point.at for point in history.over(Span.HOUR, clock())] == [begun, begun + 2 * SLOT]
    clock.advance(SLOT)
    assert [point.at for point in history.over(Span.DAY, clock())] == [begun, begun + 2 * SLOT]


async def looked(site: Site) -> History:
    """A process that has just started and looked once."""
    history = History(site.backbone)
    await history.look()
    return history


async def test_what_was_seen_while_the_store_did_not_answer_is_noted_with_the_next_look(
    site: Site,
) -> None:
    history = History(site.backbone)
    real = site.backbone.store
    site.backbone.store = faulty(real, Faults(lambda number, verb: Fault(Moment.BEFORE, StoreBusy)))
    with pytest.raises(StoreBusy):
        await history.look()
    site.backbone.store = real
    await history.look()
    assert len(history.over(Span.DAY, site.backbone.clock())) == 1


@pytest.mark.parametrize("plots", ["1h", "24h"])
async def test_plots_show_the_span_that_is_chosen_and_keep_the_ledgers(site: Site, plots: str) -> None:
    await site.app.state.history.look()
    async with site.client("duty") as client:
        page = (await client.get("/operations", params={"plots": plots, "owed": "7d"})).text
        stages = (await client.get("/operations/stages", params={"plots": plots})).text
        assert (await client.get("/operations?plots=1y")).status_code == 422
    assert f'href="/operations?owed=7d&amp;plots={plots}" aria-current="true"' in page
    assert f'href="/operations?plots={plots}&amp;owed=7d#owed" aria-current="true"' in page
    assert stages.count("<svg") == 6
    assert "Lag of topics: now" in page
