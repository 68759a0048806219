"""What SQS makes of an event that is published twice."""

from __future__ import annotations

from tests.contract.stream import event, names, publish, receive

from afterturn.stream.port import Stream


async def check_emissions(stream: Stream) -> None:
    """It remembers a send for five minutes, also when its record is gone; an emission of its own is a new one."""
    await publish(stream, "a@1", "a@1")
    (one,) = await receive(stream)
    await publish(stream, "a@1")
    assert (await stream.depth()).main == 1
    await stream.ack([one.receipt])
    await publish(stream, "a@1")
    assert not await receive(stream)
    for emission in ("sweep-1", "sweep-1", "sweep-2"):
        await stream.publish(event("a", 1), emission=emission)
    assert names(await receive(stream)) == ["a@1", "a@1"]
