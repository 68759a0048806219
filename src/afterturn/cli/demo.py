"""``demo``: sample conversations through every stage, in a few seconds."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import typer
from rich.text import Text

from afterturn.app import App
from afterturn.backbone import Backbone, Backlog
from afterturn.cli.exits import Exit
from afterturn.cli.inbox import print_cards
from afterturn.cli.loader import ImportCounts, Loader
from afterturn.cli.options import (
    AppName,
    Db,
    LogLevel,
    LogLevelName,
    Profiled,
    app_of,
    cli_settings,
    export_of,
    on_scratch,
    place_of,
    set_up_logging,
)
from afterturn.cli.output import WIDEST, cell, console, note, padded
from afterturn.cli.run import drained, is_clean
from afterturn.config import Settings
from afterturn.demo import Scripted, sample
from afterturn.importers.records import ImportedConversation
from afterturn.inbox import InboxQuery, InboxRow
from afterturn.inbox.presentation import age, count, one_line
from afterturn.ledger.ledger import Audit
from afterturn.model import Message, Urgency, WorkOrder
from afterturn.store.port import ConsumerState

_PAGE = 15
_ORDERS = 12
_URGENCY_STYLES = {Urgency.EMERGENCY: "bold red", Urgency.URGENT: "yellow", Urgency.ROUTINE: ""}


def demo(
    ctx: typer.Context, profile: Profiled = None, db: Db = None, app: AppName = None, log_level: LogLevel = None
) -> None:
    """Run sample conversations through every stage: settle, react, inbox, audit.

    The conversations of a fictional property manager are stored in a new temporary folder (or --db, or
    AFTERTURN_LOCAL_FOLDER). Nothing is sent: webhooks and language models in your settings are ignored.
    """
    set_up_logging(ctx, log_level, default=LogLevelName.OFF)
    settings = on_scratch(cli_settings(ctx, db), db=db or ctx.obj.db)
    settings = settings.model_copy(update={"webhook_url": None, "alert_url": None, "model": None})
    raise typer.Exit(asyncio.run(_demo(app_of(ctx, app), settings)))


async def _demo(app: App, settings: Settings) -> Exit:
    screen = console()
    screen.print(
        Text("afterturn demo", "bold") + Text(f"  a property manager's conversations in {place_of(settings)}"),
        soft_wrap=True,
    )
    async with app.open(settings) as backbone:
        began = time.monotonic()
        tally = await _settle(backbone)
        settled = time.monotonic()
        left = await drained(backbone, eager=True)
        if left is None:
            note("Stopped.")
            return Exit.INTERRUPTED
        _print_work(tally, backbone.registry.names, settled - began, time.monotonic() - settled)
        rows = (await backbone.inbox.page(InboxQuery(limit=500))).rows
        now = backbone.clock()
        everyone = len((await backbone.inbox.page(InboxQuery(limit=500, include_synthetic=True))).rows)
        hidden = everyone - len(rows)
        _print_head(f"Inbox, newest first: {min(_PAGE, len(rows))} of {len(rows)} ({hidden} synthetic ones hidden)")
        print_cards(rows[:_PAGE], now)
        _print_alerts(await _alerts(backbone, rows), now)
        _print_orders(await backbone.store.work_orders(limit=10_000), now)
        audit = await backbone.ledger.audit(grace=timedelta(0))
        live = [
            name for name, each in (await backbone.store.registrations()).items() if each.state is ConsumerState.LIVE
        ]
    _print_audit(audit, left, live)
    _print_further(settings, rows)
    return Exit.OK if is_clean(left, audit) else Exit.OWED


async def _settle(backbone: Backbone) -> ImportCounts:
    """Voice calls utterance by utterance, then every turn in the way that an import takes."""
    scripted = list(sample(backbone.clock()))
    await asyncio.gather(*(_speak(backbone, each) for each in scripted))
    loader = Loader(backbone, on_bad=lambda record: note(f"bad: {record}"))
    await loader.load(_conversations(scripted), asyncio.Event())
    loader.counts.messages += sum(len(each.spoken) for each in scripted)
    return loader.counts


async def _speak(backbone: Backbone, script: Scripted) -> None:
    for message in script.spoken:
        await backbone.save_messages(script.conversation.meta, [message])


def _conversations(scripted: Sequence[Scripted]) -> Iterator[ImportedConversation]:
    for script in scripted:
        yield script.conversation


def _print_work(tally: ImportCounts, consumers: Sequence[str], settling: float, reacting: float) -> None:
    print()
    print(
        f"{count(tally.conversations, 'conversation')}, {count(tally.turns, 'turn')}, "
        f"{count(tally.messages, 'message')} settled in {settling:.1f} s"
    )
    print(f"{', '.join(consumers)} ran over all of them in {reacting:.1f} s")


def _print_head(title: str) -> None:
    screen = console()
    screen.print()
    screen.print(Text(title, "bold"), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _RedAlert:
    row: InboxRow
    kind: str
    message: Message
    history: bool


async def _alerts(backbone: Backbone, rows: Sequence[InboxRow]) -> list[_RedAlert]:
    """The emergencies that the maintenance consumer stamped, with the message that raised each; newest first."""
    longest = backbone.settings.effects_max_age
    alerts = []
    for row in rows:
        episodes = row.stamp("maintenance").get("episodes")
        if not isinstance(episodes, dict) or not episodes:
            continue
        messages = {message.id: message for message in await backbone.store.messages(row.conversation.id)}
        settled_at = row.conversation.settled_at or row.conversation.created_at
        history = longest is not None and backbone.clock() - settled_at > longest
        for kind, episode in episodes.items():
            message = messages.get(str(episode.get("messageId"))) if isinstance(episode, dict) else None
            if message is not None:
                alerts.append(_RedAlert(row, kind, message, history))
    return sorted(alerts, key=lambda alert: alert.message.at, reverse=True)


def _print_alerts(alerts: Sequence[_RedAlert], now: datetime) -> None:
    fresh = [alert for alert in alerts if not alert.history]
    older = Counter(alert.kind for alert in alerts if alert.history)
    _print_head(f"Red alerts: {len(fresh)}")
    screen = console()
    for alert in fresh:
        conversation = alert.row.conversation
        line = Text(f"{age(now - alert.message.at):>4}  ")
        line.append("● " + padded(alert.kind, 10), "bold red")
        line.append(padded(cell(conversation.property_id or "unassigned"), 17) + "  ", "dim")
        line.append(padded(cell(conversation.id), 18) + "  ", "bold")
        line.append(one_line(alert.message.text), "dim")
        line.truncate(WIDEST, overflow="ellipsis")
        screen.print(line, soft_wrap=True)
    if older:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(older.items()))
        print(f"      (older than a day, so stamped and nobody woken: {kinds})")


def _print_orders(orders: Sequence[WorkOrder], now: datetime) -> None:
    urgencies = Counter(order.urgency for order in orders)
    urgency_counts = ", ".join(f"{urgencies[urgency]} {urgency.value}" for urgency in Urgency if urgencies[urgency])
    _print_head(f"Open work orders: {len(orders)}" + (f" ({urgency_counts})" if urgency_counts else ""))
    screen = console()
    for order in orders[:_ORDERS]:
        line = Text(f"{age(now - order.opened_at):>4}  ")
        line.append(padded(order.urgency.value, 11), _URGENCY_STYLES[order.urgency])
        line.append(padded(order.category, 17))
        line.append(padded(cell(order.property_id or "unassigned"), 17) + "  ", "dim")
        line.append(cell(order.conversation_id), "bold")
        screen.print(line, soft_wrap=True)
    if len(orders) > _ORDERS:
        print(f"      … and {len(orders) - _ORDERS} more")


def _print_audit(audit: Audit, left: Backlog, consumers: Sequence[str]) -> None:
    _print_head("Audit")
    clean = is_clean(left, audit)
    line = Text(
        f"owed: {audit.owed}  failed: {audit.failed}  dead letters: {left.dead_letters}", "green" if clean else "red"
    )
    console().print(line, soft_wrap=True)
    if clean:
        print(
            f"Each of {count(len(consumers), 'consumer')} has seen each of {count(audit.checked, 'conversation')} "
            "up to its newest turn."
        )


def _print_further(settings: Settings, rows: Sequence[InboxRow]) -> None:
    _print_head("Look further")
    print(f"  {export_of(settings)}")
    command = _command()
    print(f"  {command} up                            the inbox in your browser: open the link that it prints")
    print(f"  {command} inbox --window 24h            also --topic, --property, --grade, --channel …")
    if rows:
        newest = next((row for row in rows if row.stamp("maintenance").get("alert")), rows[0])
        print(f"  {command} show {shlex.quote(newest.conversation.id)}")
    print(f"  {command} work-orders")
    print(f"  {command} audit --grace 0s")


def _command() -> str:
    """What to type to run this program: its path, where it is not on the PATH (as after ``make demo``)."""
    called = Path(sys.argv[0])
    return shlex.quote(str(called)) if called.name == "afterturn" and not shutil.which("afterturn") else "afterturn"
