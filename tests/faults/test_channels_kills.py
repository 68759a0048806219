"""Killed between the storage of an answer and its dispatch, on each channel: it is sent once, or people are told."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.faults.channels_rig import ChannelApp, opened, yes
from tests.unit.channels.provider_calls import CHAT, THEIRS, Call, mail_call, mime, said, sms

from afterturn.channels.outbox import Outbox
from afterturn.channels.sending import OutboundMessage, SendReceipt
from afterturn.channels.state import SendStatus
from afterturn.jobs.runner import JobRunner

CALLS: dict[str, Call] = {"sms": sms(1), "telegram": said(1, 1, "Hello"), "email": mail_call(mime("Hello"))}
ROOT = Path(__file__).parents[2]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def child(folder: Path, point: str, channels: list[str]) -> None:
    """Takes in a message of each channel, answers, and dies at the point; what was sent is in a file."""
    async with opened(folder, responder=yes) as channel_app:
        await channel_app.hear(*(CALLS[name] for name in channels))
        await channel_app.auto_reply.once()
        if point == "answered":
            die()
        sender = Outbox(channel_app.backbone.store, channel_app.clock, channel_app.choose)
        choose = sender._choose

        class Dying:
            def __init__(self, message: OutboundMessage) -> None:
                self.sender: Any = choose(message)

            def parts(self, message: OutboundMessage) -> tuple[OutboundMessage, ...]:
                parts: tuple[OutboundMessage, ...] = self.sender.parts(message)
                return parts

            async def send(self, part: OutboundMessage) -> SendReceipt:
                await self.sender.send(part)
                (folder / "sent").write_text(part.text)
                die()
                raise AssertionError

        sender._choose = Dying
        channel_app.outbox = JobRunner(channel_app.backbone.store, channel_app.clock, [sender.handler])
        await channel_app.outbox.once()


def killed(folder: Path, point: str, *channels: str) -> None:
    code = "import sys; from tests.faults import test_channels_kills as t; t.main(sys.argv[1:])"
    ran = subprocess.run([sys.executable, "-c", code, str(folder), point, *channels], cwd=ROOT, check=False)
    assert ran.returncode == -signal.SIGKILL


def main(given: list[str]) -> None:
    folder, point, *channels = given
    asyncio.run(child(Path(folder), point, channels))


def sent(channel_app: ChannelApp) -> dict[str, int]:
    return {
        "sms": len(channel_app.twilio.calls),
        "telegram": len(channel_app.telegram.calls),
        "email": len(channel_app.mailer.sent),
    }


async def states(channel_app: ChannelApp) -> list[tuple[str, str | None]]:
    found = channel_app.rows("SELECT value FROM state WHERE kind = ?", SendStatus.kind)
    return [(one["state"], one.get("reason")) for one in (json.loads(value) for (value,) in found)]


async def test_what_was_answered_by_who_died_is_sent_once_on_each_channel(tmp_path: Path) -> None:
    killed(tmp_path, "answered", *CALLS)
    async with opened(tmp_path, responder=yes) as channel_app:
        await channel_app.hear(*CALLS.values())  # nobody told the providers that it was taken
        await channel_app.work(wait=timedelta(minutes=20))
        await channel_app.work(wait=timedelta(hours=1))
        assert sent(channel_app) == {"sms": 1, "telegram": 1, "email": 1}
        assert await states(channel_app) == [("sent", None)] * 3
        for name in (f"sms:{THEIRS}", f"telegram:{CHAT}", "mail:m1@tenants.example"):
            assert await channel_app.texts(name) == ["Hello", "Re: Hello"]
            assert await channel_app.turns(name) == 1


@pytest.mark.parametrize("channel", ["sms", "email"])
async def test_what_may_have_gone_out_is_left_to_people(tmp_path: Path, channel: str) -> None:
    killed(tmp_path, "sent", channel)
    assert (tmp_path / "sent").read_text() == "Re: Hello"
    async with opened(tmp_path, responder=yes) as channel_app:
        await channel_app.hear(CALLS[channel])
        await channel_app.work(wait=timedelta(minutes=20))
        await channel_app.work(wait=timedelta(hours=1))
        assert sum(sent(channel_app).values()) == 0
        assert await states(channel_app) == [("uncertain", "response-lost")]
