"""What a bare Temporal client sends for the events of a benchmark: one signalWithStart per consumer and event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from afterturn.event import TurnSettled
from afterturn.model import Stamp
from afterturn.reactions.registry import ReactionContext, Registry, TurnWindow
from afterturn.reactions.temporal import protocol

CONSUMERS = ("topics", "grade")
BATCH = 10
"""Records of one receive from SQS, or of one Lambda invocation."""
LEASE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Call:
    """One signalWithStart."""

    workflow_id: str
    task_queue: str
    payload: dict[str, Any]


def registry_of(names: Iterable[str], **policy: Any) -> Registry:
    async def nothing(turns: TurnWindow, ctx: ReactionContext) -> Stamp:
        return Stamp()

    registry = Registry()
    for name in names:
        registry.add(name, nothing, **policy)
    return registry


def calls_of(registry: Registry, lane: str, events: Iterable[TurnSettled]) -> list[Call]:
    """What a bare client has to send for these events: one call for each consumer of each."""
    return [
        Call(
            workflow_id=protocol.reaction_id(lane, consumer.name, event.conversation_id),
            task_queue=protocol.task_queue(lane),
            payload=protocol.write_signal(
                protocol.SignalPayload(protocol.policy_of(consumer, LEASE), event.occurred_at, event.immediate)
            ),
        )
        for event in events
        for consumer in registry
    ]


async def signal_with_start(client: Client, call: Call) -> None:
    await client.start_workflow(
        protocol.REACTION,
        id=call.workflow_id,
        task_queue=call.task_queue,
        start_signal=protocol.TURN_SETTLED,
        start_signal_args=[call.payload],
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
    )
