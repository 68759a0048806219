"""The whole engine port over a Temporal client. Loads ``temporalio.client``, never a worker."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from afterturn.clock import Clock
from afterturn.errors import NotFound
from afterturn.reactions.registry import Registry
from afterturn.reactions.temporal import protocol
from afterturn.reactions.temporal.client import Connection
from afterturn.reactions.temporal.protocol import SignalPayload
from afterturn.reactions.temporal.signaler import TemporalSignaler
from afterturn.store.port import Store

_AGES = (timedelta(days=7), timedelta(days=1), timedelta(hours=6), timedelta(hours=1), timedelta(minutes=10))


class TemporalEngine(TemporalSignaler):
    """What a signaler does, and looking after reactions. ``store``: where failures stand."""

    def __init__(
        self, connection: Connection, registry: Registry, store: Store, clock: Clock, *, lane: str, **terms: Any
    ) -> None:
        """``terms``: those of the signaler."""
        super().__init__(connection, registry, lane=lane, **terms)
        self._store = store
        self._clock = clock

    async def retry(self, consumer: str, conversation_id: str) -> None:
        """The mark of the failure is taken away first: where the signal then fails, the ledger owes and sweeps it."""
        found = await self._store.conversation(conversation_id)
        stamp = None if found is None else found.reactions.get(consumer)
        if stamp is None or stamp.failed_through is None:
            raise NotFound(f"no failed reaction of {consumer!r} on conversation {conversation_id!r}")
        terms = self._terms(consumer)
        await self._store.request(conversation_id, [consumer], now=self._clock())
        start = self._native(consumer, conversation_id, protocol.RETRY, SignalPayload(terms))
        client = await self._connection.client()
        async with self._answers():
            await self._send(client, start)

    async def waiting(self) -> int:
        """One count query. Temporal's visibility is behind by up to a second or so, more under load."""
        if not self._registry.names:
            return 0
        client = await self._connection.client()
        async with self._answers():
            return (await client.count_workflows(self._open(), rpc_timeout=self._deadline)).count

    async def oldest(self) -> datetime | None:
        """When the longest open run of a reaction's workflow started.

        Temporal lists newest first and sorts no other way, so this looks by age, oldest ages first: at most six list
        queries of up to a thousand rows each. Among more than a thousand of one age group it is not exact.
        """
        if not self._registry.names:
            return None
        client = await self._connection.client()
        now = self._clock()
        async with self._answers():
            for age in (*_AGES, None):
                until = "" if age is None else f' AND StartTime < "{(now - age).isoformat()}"'
                found = client.list_workflows(self._open() + until, limit=1000, rpc_timeout=self._deadline)
                starts = [one.start_time async for one in found]
                if starts:
                    return min(starts)
        return None

    async def flush(self, done: set[str]) -> None:
        """Let every open reaction skip its quiet period, but for the runs in ``done``; those told now are added to it.

        Each is told once: a signal costs the server as much as a start does.
        """
        if not self._registry.names:
            return
        client = await self._connection.client()
        async with self._answers():
            found = [
                one
                async for one in client.list_workflows(self._open(), rpc_timeout=self._deadline)
                if one.run_id not in done
            ]
            await asyncio.gather(*(self._flush(client, one.id) for one in found))
        done.update(one.run_id for one in found)

    async def _flush(self, client: Client, workflow_id: str) -> None:
        async with self._slots:
            try:
                await client.get_workflow_handle(workflow_id).signal(protocol.FLUSH, {}, rpc_timeout=self._deadline)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise

    def _open(self) -> str:
        prefixes = " OR ".join(
            f'WorkflowId STARTS_WITH "{protocol.reaction_id(self._lane, name, "")}"' for name in self._registry.names
        )
        return f'ExecutionStatus = "Running" AND ({prefixes})'
