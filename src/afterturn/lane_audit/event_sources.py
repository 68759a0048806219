"""Who reads a lane's queues. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from afterturn.lane_audit.types import (
    POLLERS,
    EventSource,
    LaneConfig,
    LaneFault,
    LaneFinding,
    Runtime,
    RuntimeKind,
    RuntimeRole,
)

SOURCE = "event source"
_OURS = "afterturn-"


def event_source_findings(
    wanted: LaneConfig, runtimes: Sequence[Runtime], feeds: Sequence[EventSource]
) -> Iterator[LaneFinding]:
    """Each queue of the lane has one reader, which is the lane's bridge, and that reads nothing else."""
    bridges = [one for one in runtimes if one.kind is RuntimeKind.LAMBDA and one.role is RuntimeRole.BRIDGE]
    pollers = [one for one in runtimes if one.kind is not RuntimeKind.LAMBDA and one.role in POLLERS]
    names = {one.name.partition(":")[0] for one in bridges}
    queues = {wanted.location.queue_arn(name): name for name in (wanted.names.main, wanted.names.retry)}
    for feed in feeds:
        yield from _feed(wanted, feed, queues, names)
    reading = [feed for feed in feeds if feed.enabled and feed.function in names and feed.source in queues]
    for bridge in bridges:
        yield from _sources(bridge, reading, feeds, queues)
    for poller in pollers:
        for feed in reading:
            both = f"{queues[feed.source]} polled, and {feed.function} invoked from it"
            yield LaneFinding(LaneFault.CROSSED, poller.kind, poller.name, SOURCE, both, "one reader: two lose records")
    if not bridges and not pollers:
        yield LaneFinding(
            LaneFault.MISSING,
            RuntimeKind.LANE,
            wanted.names.lane,
            "bridge",
            None,
            f"a reader of {wanted.names.main}: a function {wanted.names.prefix}-bridge, or one that is named with the "
            "role bridge or up",
        )


def _feed(
    wanted: LaneConfig, feed: EventSource, queues: dict[str, str], bridges: Iterable[str]
) -> Iterator[LaneFinding]:
    found = _name(feed.source, wanted)
    if feed.source in queues:
        is_waiting = not feed.enabled and feed.function == wanted.names.function("bridge")
        if feed.function not in bridges and not is_waiting:  # it waits for its first deployment
            yield _crossed(feed, found, f"nothing of lane {wanted.names.lane}: its bridge alone reads that queue")
    elif feed.function in bridges:
        yield _crossed(feed, found, f"{wanted.names.main} and {wanted.names.retry} alone")
    elif feed.source.rpartition(":")[2].startswith(_OURS):
        yield _crossed(feed, found, "no queue of afterturn: bridges read those")


def _sources(
    bridge: Runtime, reading: Sequence[EventSource], feeds: Sequence[EventSource], queues: dict[str, str]
) -> Iterator[LaneFinding]:
    function = bridge.name.partition(":")[0]
    for arn, queue in queues.items():
        own = [feed for feed in feeds if feed.function == function and feed.source == arn]
        live = [feed for feed in reading if feed.function == function and feed.source == arn]
        if not live:
            found = "a mapping that is switched off" if own else None
            yield LaneFinding(LaneFault.MISSING, bridge.kind, bridge.name, SOURCE, found, queue)
        for feed in live:
            if feed.qualifier != bridge.qualifier:
                yield LaneFinding(
                    LaneFault.CROSSED,
                    bridge.kind,
                    bridge.name,
                    SOURCE,
                    f"{queue} for {feed.qualifier or 'the function without an alias'}",
                    f"{queue} for {bridge.qualifier or 'the function without an alias'}",
                )
            for is_set, setting in (
                (feed.reports_partial, "ReportBatchItemFailures"),
                (feed.concurrency is not None, "MaximumConcurrency"),
            ):
                if not is_set:
                    yield LaneFinding(
                        LaneFault.MISSING, bridge.kind, bridge.name, SOURCE, queue, f"{queue} with {setting}"
                    )


def _crossed(feed: EventSource, found: str, wanted: str) -> LaneFinding:
    name = f"{feed.function}:{feed.qualifier}" if feed.qualifier else feed.function
    return LaneFinding(LaneFault.CROSSED, RuntimeKind.LAMBDA, name, SOURCE, found, wanted)


def _name(arn: str, wanted: LaneConfig) -> str:
    """A queue by its name; the whole ARN where the name alone does not tell it from the lane's."""
    place, _, name = arn.rpartition(":")
    return name if place == wanted.location.queue_arn("").rstrip(":") else arn
