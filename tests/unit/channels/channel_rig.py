"""The parts of channels on a real store, and builders of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.channels.job_runners import auto_reply

from afterturn import App, Settings
from afterturn.backbone import Backbone
from afterturn.bootstrap import open_backbone
from afterturn.channels.ingest import Ingest
from afterturn.channels.responder import ReplyRequest, Responder
from afterturn.channels.routing import Directory
from afterturn.channels.state import SEND
from afterturn.channels.types import (
    CallEvent,
    InboundMessage,
    Party,
    Thread,
    Utterance,
)
from afterturn.jobs.runner import JobRunner
from afterturn.model import Channel, Direction, Role
from afterturn.testing import ManualClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


OURS, THEIRS = "+15550100", "+15158226442"


@dataclass
class ChannelRig:
    """A store, and the parts of the channels on it."""

    backbone: Backbone
    clock: ManualClock
    directory: Directory
    responder: Responder | None = None
    wait: timedelta = timedelta(minutes=10)

    @property
    def ingest(self) -> Ingest:
        answers_automatically = self.responder is not None
        return Ingest(
            self.backbone, self.backbone.store, self.clock, directory=self.directory, auto_reply=answers_automatically
        )

    @property
    def auto_reply(self) -> JobRunner:
        store = self.backbone.store
        return auto_reply(self.backbone, store, store, self.clock, responder=self.responder)

    async def texts(self, conversation_id: str = f"sms:{THEIRS}") -> list[str]:
        return [one.text for one in await self.backbone.store.messages(conversation_id)]

    async def turns(self, conversation_id: str = f"sms:{THEIRS}") -> int:
        return len(await self.backbone.store.turns(conversation_id, limit=100))

    async def dispatched(self) -> list[Any]:
        return [one.value for one in await self.backbone.store.waiting_jobs(SEND, limit=10)]


@asynccontextmanager
async def opened(folder: Path, clock: ManualClock) -> AsyncIterator[ChannelRig]:
    async with open_backbone(App(shipped=False), Settings(db=folder / "a.db"), clock=clock) as backbone:
        yield ChannelRig(backbone, clock, Directory(accounts={OURS: "oak"}))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ChannelRig]:
    async with opened(tmp_path, ManualClock(NOW)) as rig:
        yield rig


def sms(number: int, text: str = "Hello", **more: Any) -> InboundMessage:
    given = InboundMessage(
        channel=Channel.SMS,
        provider_id=f"SM{number}",
        party=Party(OURS, THEIRS),
        thread=Thread(f"sms:{THEIRS}"),
        at=NOW + timedelta(seconds=number),
        text=text,
        participants=(THEIRS,),
    )
    return replace(given, **more)


def mail(name: str, *, after: tuple[str, ...] = (), subject: str | None = None, **more: Any) -> InboundMessage:
    given = InboundMessage(
        channel=Channel.EMAIL,
        provider_id=name,
        party=Party("oak@example.com", "tenant@example.org"),
        thread=Thread(f"mail:{name}", after, subject),
        at=NOW,
        text=f"I am {name}",
    )
    return replace(given, **more)


def telegram(chat: str, number: int) -> InboundMessage:
    thread = Thread(f"telegram:{chat}")
    return sms(number, f"{chat} {number}", channel=Channel.TELEGRAM, provider_id=f"{chat}:{number}", thread=thread)


def call(state: str, *said: str, seconds: int = 0) -> CallEvent:
    return CallEvent(
        provider_id="CA1",
        party=Party(OURS, THEIRS),
        thread=Thread(f"voice:{THEIRS}"),
        at=NOW + timedelta(seconds=seconds),
        state=state,
        ended=state == "completed",
        utterances=tuple(
            Utterance(f"CA1:{number}", Direction.INBOUND, Role.CUSTOMER, NOW + timedelta(seconds=number), text)
            for number, text in enumerate(said)
        ),
    )


def words(text: str) -> Responder:
    async def answer(one: ReplyRequest) -> str:
        return text

    return answer
