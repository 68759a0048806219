"""The webhook benchmark sends what providers would, and notices what it is there to notice."""

from __future__ import annotations

from pathlib import Path

from bench import webhooks
from bench.webhooks_calls import planned, request_of
from bench.webhooks_server import settings_of

from afterturn import App, ReactionContext, Stamp, TurnWindow
from afterturn.bootstrap import open_backbone
from afterturn.bootstrap.channels import open_channels
from afterturn.channels.types import WebhookRequest
from afterturn.model import Channel, ConversationMeta

ADDRESS = "http://127.0.0.1:8722"
CALLS, CONVERSATIONS, SEED = 60, 4, 7


def as_served(wire: bytes) -> WebhookRequest:
    head, _, body = wire.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split()
    headers = dict(line.split(": ", 1) for line in lines)
    assert int(headers["content-length"]) == len(body)
    return WebhookRequest(method, f"{ADDRESS}{path}", headers, body)


async def take_all(path: Path, calls: int, app: App | None = None) -> None:
    settings = settings_of(path)
    async with (
        open_backbone(app or App(shipped=False), settings) as backbone,
        open_channels(backbone, backbone.store, settings, backbone.clock) as webhooks,
    ):
        for one in planned(calls, CONVERSATIONS, SEED):
            request = as_served(request_of(one, ADDRESS))
            answer = await webhooks.router(request.url.removeprefix(ADDRESS), request)
            assert answer.status == 200, answer.body


def checked(path: Path) -> webhooks.Kept:
    kept = webhooks.Kept()
    webhooks.check_kept(path, planned(CALLS, CONVERSATIONS, SEED), kept)
    return kept


async def test_every_call_is_signed_as_its_door_wants_it_and_kept_once_though_some_come_twice(tmp_path: Path) -> None:
    plan = planned(CALLS, CONVERSATIONS, SEED)
    assert len({one.message for one in plan}) < len(plan)
    await take_all(tmp_path / "a.db", CALLS)
    kept = checked(tmp_path / "a.db")
    assert (kept.accepted, list(kept.broken())) == (len({one.message for one in plan}), [])


async def test_what_was_accepted_and_is_not_there_is_lost(tmp_path: Path) -> None:
    await take_all(tmp_path / "a.db", CALLS - 1)
    assert list(checked(tmp_path / "a.db").broken()) == ["lost: 1 (59 messages were accepted)"]


async def test_what_is_there_twice_or_unsettled_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await take_all(path, CALLS)
    async with open_backbone(App(shipped=False), settings_of(path)) as backbone:
        [message, *_] = await backbone.store.messages("telegram:1000000")
        await backbone.save_messages(ConversationMeta(id="elsewhere", channel=Channel.TELEGRAM), [message])
    assert [one.split(":")[0] for one in checked(path).broken()] == ["twice", "unsettled"]


async def test_what_a_consumer_has_not_seen_is_owed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    app = App(shipped=False)
    app.consumer("elsewhere", quiet="1s", max_wait="1s")(never)
    await take_all(path, 1, app)
    kept = webhooks.Kept()
    await webhooks.drain(path, kept)
    assert "owed: 1 (0 messages were accepted)" in kept.broken()


async def never(window: TurnWindow, ctx: ReactionContext) -> Stamp:
    raise AssertionError("runs in another process")
