"""Mailboxes in Outlook go on telling us, and what they did not tell comes in all the same, once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.channels.outlook.graph_server import (
    HOOK,
    HOUR,
    LONGEST,
    MAILBOX,
    MINUTE,
    NOW,
    STATE,
    USER,
    Exchange,
    OutlookRig,
    clock,
    created,
    exchange,
    failed,
    lifecycle,
    mail_found,
    mailbox_owner,
    rig,
    settings_of,
)
from tests.unit.channels.sending.rig import Fault

from afterturn import App
from afterturn.bootstrap import open_backbone
from afterturn.bootstrap.channels import open_channels
from afterturn.channels.outlook.mailbox import LIFETIME
from afterturn.channels.outlook.subscriptions import UPDATE_MAILBOX
from afterturn.channels.state import Route
from afterturn.clock import parse_time
from afterturn.errors import ConfigError
from afterturn.testing import ManualClock

__all__ = ["clock", "exchange", "rig"]


# Subscriptions


async def test_a_mailbox_is_subscribed_to_once_whatever_process_comes_and_goes(
    tmp_path: Path, exchange: Exchange, clock: ManualClock
) -> None:
    for _ in range(2):
        async with mailbox_owner(tmp_path, exchange, clock) as rig:
            await rig.keep()
            await rig.keep(MINUTE)
    [made] = exchange.subscriptions.values()
    assert (made["resource"], made["notificationUrl"], made["lifecycleNotificationUrl"], made["clientState"]) == (
        f"users/{MAILBOX}/messages",
        HOOK,
        HOOK,
        STATE,
    )
    assert parse_time(made["expirationDateTime"]) == NOW + LIFETIME
    assert len(exchange.made("POST")) == 1


async def test_it_is_renewed_long_before_it_ends_and_never_made_twice(rig: OutlookRig) -> None:
    for _ in range(8 * 7):
        await rig.keep(3 * HOUR)
        [only] = rig.exchange.subscriptions.values()
        left = parse_time(only["expirationDateTime"]) - rig.clock()
        assert timedelta(hours=40) < left <= LONGEST
    assert len(rig.exchange.made("POST")) == 1
    assert len(rig.exchange.made("PATCH")) <= 8


async def test_after_months_of_renewals_its_notifications_are_still_ours(rig: OutlookRig) -> None:
    for _ in range(80):
        await rig.keep(12 * HOUR)
    assert rig.exchange.subscriptions.keys() == {"sub-1"}
    await rig.told(created(rig.exchange.deliver(1, rig.clock())))
    assert await rig.texts() == ["I am mail 1."]


async def test_after_an_outage_it_is_made_anew_and_what_came_meanwhile_is_taken_in_once(
    tmp_path: Path, exchange: Exchange, clock: ManualClock
) -> None:
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        await rig.keep()
    for number in range(1, 8):
        clock.advance(12 * HOUR)
        exchange.deliver(number, clock())
    assert exchange.ended("sub-1")
    before = mail_found()
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        await rig.keep()
        assert await rig.texts() == [f"I am mail {number}." for number in range(1, 8)]
        assert mail_found() - before == 7
        assert not exchange.ended("sub-2")
        for number in range(1, 8):
            assert (await rig.told(created(f"AAMk{number}=", "sub-2"))).status == 202
        await rig.keep(20 * MINUTE)
        assert len(await rig.texts()) == 7


async def test_what_was_in_a_mailbox_before_it_was_set_up_is_left_to_an_import(rig: OutlookRig) -> None:
    rig.exchange.deliver(1, NOW - 2 * HOUR)
    await rig.keep()
    rig.exchange.deliver(2, NOW + MINUTE)
    await rig.keep(HOUR)
    assert await rig.texts() == ["I am mail 2."]


async def test_where_address_or_secret_have_changed_a_new_one_takes_its_place(
    tmp_path: Path, exchange: Exchange, clock: ManualClock
) -> None:
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        await rig.keep()
    async with mailbox_owner(tmp_path, exchange, clock, public_url="https://new.example.com") as rig:
        await rig.keep()
        await rig.keep(MINUTE)
    [only] = exchange.subscriptions.values()
    assert (only["id"], only["notificationUrl"]) == ("sub-2", "https://new.example.com/hooks/graph")


# Lifecycle


@pytest.mark.parametrize("dies", [False, True], ids=["here", "another process does it"])
@pytest.mark.parametrize(
    ("event", "posts", "patches"),
    [("subscriptionRemoved", 2, 0), ("reauthorizationRequired", 1, 1), ("missed", 1, 0)],
)
async def test_what_graph_wants_done_is_done_once_and_no_mail_is_lost_by_it(
    tmp_path: Path, exchange: Exchange, clock: ManualClock, event: str, posts: int, patches: int, dies: bool
) -> None:
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        await rig.keep()
        exchange.deliver(1, clock() + MINUTE)
        if event == "subscriptionRemoved":
            exchange.subscriptions.clear()
        clock.advance(2 * MINUTE)
        for _ in range(2):
            assert (await rig.told(lifecycle(event))).status == 202
        assert await rig.backbone.store.waiting_jobs(UPDATE_MAILBOX, limit=9)
        if not dies:
            await rig.keep()
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        for _ in range(3):
            await rig.keep(MINUTE)
        assert await rig.texts() == ["I am mail 1."]
    assert (len(exchange.made("POST")), len(exchange.made("PATCH"))) == (posts, patches)
    assert len(exchange.subscriptions) == 1


async def test_the_end_of_a_subscription_that_has_a_successor_is_no_news(rig: OutlookRig) -> None:
    await rig.keep()
    rig.exchange.subscriptions.clear()
    await rig.told(lifecycle("subscriptionRemoved"))
    await rig.keep(MINUTE)
    await rig.told(lifecycle("subscriptionRemoved", "sub-1"))
    await rig.keep(MINUTE)
    assert list(rig.exchange.subscriptions) == ["sub-2"]


async def test_a_foreign_subscription_moves_nothing(rig: OutlookRig) -> None:
    await rig.keep()
    calls = len(rig.exchange.calls)
    for event in ("subscriptionRemoved", "reauthorizationRequired", "missed", "unheardOf"):
        assert (await rig.told(lifecycle(event, "sub-of-others"))).status == 202
    await rig.keep(MINUTE)
    assert len(rig.exchange.calls) == calls


# Whose mail


async def test_a_notification_brings_mail_of_our_mailbox_alone(
    rig: OutlookRig, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.keep()
    mine = rig.exchange.deliver(1, rig.clock())
    boss = rig.exchange.deliver(2, rig.clock(), "boss@homes.example")
    rig.exchange.stored[f"Users/{USER}/Messages/{boss}"] = rig.exchange.stored[
        f"users/boss@homes.example/messages/{boss}"
    ]
    told = await rig.told(
        created(boss, "sub-of-others"),
        created(boss, "sub-1"),
        created(boss, "sub-1", "boss@homes.example"),
        created(boss, "", "boss@homes.example"),
        created(mine, "sub-1"),
        created(mine, "", MAILBOX),
    )
    assert told.status == 202
    assert await rig.texts() == ["I am mail 1."]
    paths = [call.path for call in rig.exchange.calls if call.method == "GET"]
    assert not [path for path in paths if "boss" in path or USER in path]
    assert caplog.text.count("action=mailbox_refused") == 2
    assert "boss@" not in caplog.text


@pytest.mark.parametrize(
    "resource",
    [
        "Users/{user}/Messages/{mail}",
        "users/{user}@84bd8158-6d4d-4958-8b9f-9d6445542f95/messages/{mail}",
        "users('{user}')/messages('{mail}')",
        "users('{user}')/mailFolders('inbox')/messages('{mail}')",
        "users/{user}/mailFolders/inbox/messages/{mail}",
    ],
)
async def test_however_a_notification_spells_it_the_mail_is_found(rig: OutlookRig, resource: str) -> None:
    await rig.keep()
    mail = rig.exchange.deliver(1, rig.clock())
    told = {"subscriptionId": "sub-1", "changeType": "created", "resource": resource.format(user=USER, mail=mail)}
    assert (await rig.told(told)).status == 202
    assert await rig.texts() == ["I am mail 1."]


async def test_the_mailbox_that_is_subscribed_to_is_the_account_that_answers(rig: OutlookRig) -> None:
    """Also where the mail went to a list, or was a blind copy."""
    await rig.keep()
    mail = rig.exchange.deliver(1, rig.clock(), toRecipients=[])
    await rig.told(created(mail))
    route = await rig.backbone.store.get(Route, "mail:m1@tenant.example")
    assert route is not None
    assert (route.account, route.recipient) == (MAILBOX, "ada@tenant.example")


# Trouble


async def test_where_graph_does_not_subscribe_mail_comes_in_all_the_same_and_it_is_tried_again(
    rig: OutlookRig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.exchange.refuses_subscriptions = failed(400, "ValidationError")
    await rig.keep()
    rig.exchange.deliver(1, NOW + MINUTE)
    for _ in range(16):
        await rig.keep(MINUTE)
    assert await rig.texts() == ["I am mail 1."]
    assert 2 <= len(rig.exchange.made("POST")) <= 3
    assert 'error="subscription configuration ValidationError"' in caplog.text
    rig.exchange.refuses_subscriptions = None
    for _ in range(16):
        await rig.keep(MINUTE)
    assert len(rig.exchange.subscriptions) == 1


async def test_a_mailbox_that_we_may_not_read_holds_up_no_other(
    tmp_path: Path, exchange: Exchange, clock: ManualClock
) -> None:
    names = ("closed@homes.example", MAILBOX)
    async with mailbox_owner(tmp_path, exchange, clock, graph_mailboxes=names) as rig:
        await rig.keep()
    assert [one["resource"] for one in exchange.subscriptions.values()] == [f"users/{MAILBOX}/messages"]


@pytest.mark.parametrize("fault", [Fault.CLOSED_READ, Fault.CUT, Fault.RESET])
async def test_an_answer_that_is_lost_makes_a_second_subscription_and_loses_no_mail(
    rig: OutlookRig, fault: Fault
) -> None:
    await rig.keep()
    rig.exchange.subscriptions.clear()
    await rig.told(lifecycle("subscriptionRemoved"))
    rig.exchange.next = [fault]
    mail = rig.exchange.deliver(1, NOW + MINUTE)
    await rig.keep(2 * MINUTE)
    assert (await rig.told(created(mail, "sub-2"))).status == 202, "nobody knows of this one"
    await rig.keep(MINUTE)
    assert await rig.texts() == ["I am mail 1."]
    assert sorted(rig.exchange.subscriptions) == ["sub-2", "sub-3"]


async def test_of_two_processes_one_cares_for_a_mailbox(tmp_path: Path, exchange: Exchange, clock: ManualClock) -> None:
    async with mailbox_owner(tmp_path, exchange, clock) as one, mailbox_owner(tmp_path, exchange, clock) as other:
        await asyncio.gather(*(each.keep() for each in (one, other) for _ in range(3)))
        exchange.deliver(1, NOW + MINUTE)
        clock.advance(HOUR)
        await asyncio.gather(one.keep(), other.keep())
        assert await one.texts() == ["I am mail 1."]
    assert len(exchange.made("POST")) == 1


async def test_a_running_channel_runner_renews_automatically(rig: OutlookRig) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(rig.webhooks.jobs.run(stop, poll=0.01))
    try:
        # It is looked through once the subscription is made and written down.
        await _until(lambda: any(call.method == "GET" for call in rig.exchange.calls))
        rig.exchange.subscriptions.clear()
        await rig.told(lifecycle("subscriptionRemoved"))
        await _until(lambda: list(rig.exchange.subscriptions) == ["sub-2"])
    finally:
        stop.set()
        await running


async def test_whoever_stops_waits_for_no_catching_up_and_another_goes_on(
    tmp_path: Path, exchange: Exchange, clock: ManualClock
) -> None:
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        await rig.keep()
        exchange.deliver(1, NOW + MINUTE)
        clock.advance(HOUR)
        exchange.next = [Fault.SILENT]
        calls, stop = len(exchange.calls), asyncio.Event()
        running = asyncio.create_task(rig.webhooks.jobs.run(stop, poll=0.01))
        await _until(lambda: len(exchange.calls) > calls)
        stop.set()
        async with asyncio.timeout(240):
            await running
    async with mailbox_owner(tmp_path, exchange, clock) as rig:
        await rig.keep(MINUTE)
        assert await rig.texts() == ["I am mail 1."], "what it had was given back"


async def _until(condition: Any) -> None:
    async with asyncio.timeout(240):
        while not condition():  # noqa: ASYNC110 - another server's state
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"graph_client_state": None}, "AFTERTURN_GRAPH_CLIENT_STATE"),
        ({"public_url": None}, "AFTERTURN_PUBLIC_URL"),
        ({"public_url": "http://hooks.example.com"}, "https"),
        ({"graph_client_secret": None}, "AFTERTURN_GRAPH_CLIENT_SECRET"),
        ({"graph_client_state": "x" * 129}, "128"),
        ({"graph_mailboxes": ("office",)}, "office@example.com"),
        ({"graph_mailboxes": ("a@b/../c",)}, "not a mail address"),
    ],
)
async def test_settings_that_could_not_work_are_refused_with_what_to_do(
    tmp_path: Path, exchange: Exchange, clock: ManualClock, given: dict[str, Any], words: str
) -> None:
    settings = settings_of(tmp_path, exchange, **given)
    async with open_backbone(App(shipped=False), settings, clock=clock) as backbone:
        with pytest.raises(ConfigError, match=words):
            async with open_channels(backbone, backbone.store, settings, clock):
                raise AssertionError
