"""Content that is hard to lay out: long names, many scripts, many consumers, failures, owed reactions and files."""

from __future__ import annotations

from datetime import timedelta

from tests.web.pages.demo import Site

from afterturn import Channel, ConversationMeta, Direction, Message, Role, Turn
from afterturn.model import Attachment, ConversationPatch
from afterturn.store.port import ConsumerState, Registration
from afterturn.stream.port import Queue

MINUTE = timedelta(minutes=1)
LONG = "long-" + "x" * 180
MAIL = f"{'maximiliane.von-und-zu-' * 3}hohenlohe@{'subdomain.' * 8}example.com"
PROPERTY = "the-very-long-name-of-the-oldest-building-in-the-whole-portfolio-of-the-company"
WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
REASON = "the record is not JSON: " + "expecting a value " * 20


async def settle_hard_content(site: Site) -> None:
    """Some of each; the newest conversations of the inbox."""
    files = tuple(
        Attachment(url=f"https://files.example.com/{number}", name="long-file-name-" * 12 + f"{number}.pdf")
        for number in range(3)
    )
    await _settle(
        site, "rtl", Channel.TELEGRAM, ("user77",), "בניין-האלון", "שלום, המזגן בדירה 4 לא עובד. call +972-3-555"
    )
    await _settle(site, "faces", Channel.WEB, ("😀🎉 Björk & 王小明",), None, "😀" * 60 + "你好,我的暖气坏了。" * 9)
    words = f"{WORD * 3} https://example.com/{'a' * 300}\n" + "One line.\n" * 12
    await _settle(site, LONG, Channel.EMAIL, (MAIL, "b@example.com", "c@example.com"), PROPERTY, words, files)
    await site.backbone.drain(eager=True)
    for reason in ("nobody takes it", REASON):
        await site.settle(LONG, "hello?")
        taken = await site.backbone.stream.receive(Queue.MAIN, limit=1, visibility=MINUTE)
        await site.backbone.stream.dead_letter(taken[0], reason=reason)
    for consumer in ("topics", "inbound-package"):
        await site.fail(LONG, consumer)
    now = site.backbone.clock()
    await site.backbone.store.patch_conversation(LONG, ConversationPatch(assignee=MAIL[:190]), revision=None, now=now)
    await site.backbone.store.register(
        [
            Registration(f"consumer-{'of-a-long-name-' * 3}{number}", now, ConsumerState.LIVE, MINUTE)
            for number in range(9)
        ]
    )
    await site.backbone.store.register([Registration("shy", now, ConsumerState.SHADOW, MINUTE)])
    await site.app.state.history.look()


async def _settle(
    site: Site,
    conversation_id: str,
    channel: Channel,
    people: tuple[str, ...],
    property_id: str | None,
    text: str,
    files: tuple[Attachment, ...] = (),
) -> None:
    message = Message(
        id=f"{conversation_id}-1",
        direction=Direction.INBOUND,
        role=Role.CUSTOMER,
        text=text,
        whole=text * 2,
        at=site.backbone.clock(),
        attachments=files,
    )
    meta = ConversationMeta(id=conversation_id, channel=channel, participants=people, property_id=property_id)
    await site.backbone.settle(Turn(conversation=meta, messages=(message,)))
