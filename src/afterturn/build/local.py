"""The production path on one machine: what `aws` runs, on an emulator and a development server started here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.backbone import Backbone
from afterturn.build.aws import open_production
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.local.servers import open_servers
from afterturn.operations.account import open_account
from afterturn.operations.provision import carry_out, plan_lane
from afterturn.reactions.registry import Registry
from afterturn.reactions.temporal.client import Address

ACCOUNT = "000000000000"
REGION = "us-east-1"


@asynccontextmanager
async def open_local(settings: Settings, registry: Registry, clock: Clock) -> AsyncIterator[Backbone]:
    """Start the servers where they do not run yet, make table and queues where they are missing, and open the app.

    For development and tests: the emulator's state is not safe from a crash of the machine. Raises ConfigError for a
    port in use.
    """
    with open_servers(
        settings.local_folder,
        aws_port=settings.local_aws_port,
        temporal_port=settings.local_temporal_port,
        ui_port=settings.local_temporal_ui_port,
        emulator=settings.local_emulator,
    ) as servers:
        access = Access(region=REGION, endpoint=servers.endpoint, access_key=ACCOUNT, secret_key=ACCOUNT)
        names = Names.of(settings.lane.value, settings.table)
        async with open_account(access) as account:
            await carry_out(account, names, await plan_lane(account, names))
        async with open_production(settings, registry, clock, access, Address(target=servers.temporal)) as backbone:
            yield backbone
