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
    async with opened(folder, responder=yes) as desk:
        await desk.hear(*(CALLS[name] for name in channels))
        await desk.auto_reply.once()
        if point == "answered":
            die()
        sender = Outbox(desk.backbone.store, desk.clock, desk.choose)
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
        desk.outbox = JobRunner(desk.backbone.store, desk.clock, [sender.handler])
        await desk.outbox.once()


def killed(folder: Path, point: str, *channels: str) -> None:
    code = "import sys; from tests.faults import test_channels_kills as t; t.main(sys.argv[1:])"
    ran = subprocess.run([sys.executable, "-c", code, str(folder), point, *channels], cwd=ROOT, check=False)
    assert ran.returncode == -signal.SIGKILL


def main(given: list[str]) -> None:
    folder, point, *channels = given
    asyncio.run(child(Path(folder), point, channels))


def sent(desk: ChannelApp) -> dict[str, int]:
    return {"sms": len(desk.twilio.calls), "telegram": len(desk.telegram.calls), "email": len(desk.mailer.sent)}


async def states(desk: ChannelApp) -> list[tuple[str, str | None]]:
    found = desk.rows("SELECT value FROM state WHERE kind = ?", SendStatus.kind)
    return [(one["state"], one.get("reason")) for one in (json.loads(value) for (value,) in found)]


async def test_what_was_answered_by_who_died_is_sent_once_on_each_channel(tmp_path: Path) -> None:
    killed(tmp_path, "answered", *CALLS)
    async with opened(tmp_path, responder=yes) as desk:
        await desk.hear(*CALLS.values())  # nobody told the providers that it was taken
        await desk.work(wait=timedelta(minutes=20))
        await desk.work(wait=timedelta(hours=1))
        assert sent(desk) == {"sms": 1, "telegram": 1, "email": 1}
        assert await states(desk) == [("sent", None)] * 3
        for name in (f"sms:{THEIRS}", f"telegram:{CHAT}", "mail:m1@tenants.example"):
            assert await desk.texts(name) == ["Hello", "Re: Hello"]
            assert await desk.turns(name) == 1


@pytest.mark.parametrize("channel", ["sms", "email"])
async def test_what_may_have_gone_out_is_left_to_people(tmp_path: Path, channel: str) -> None:
    killed(tmp_path, "sent", channel)
    assert (tmp_path / "sent").read_text() == "Re: Hello"
    async with opened(tmp_path, responder=yes) as desk:
        await desk.hear(CALLS[channel])
        await desk.work(wait=timedelta(minutes=20))
        await desk.work(wait=timedelta(hours=1))
        assert sum(sent(desk).values()) == 0
        assert await states(desk) == [("uncertain", "response-lost")]
