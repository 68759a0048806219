"""The production path on one machine: what `aws` runs, on an emulator and a development server started here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from afterturn.aws import stack
from afterturn.aws.account import open_account
from afterturn.aws.session import Access
from afterturn.backbone import Backbone
from afterturn.bootstrap import names_of
from afterturn.clock import Clock
from afterturn.config import Settings
from afterturn.local.servers import MADE, make_once, open_servers
from afterturn.reactions.registry import Registry

if TYPE_CHECKING:
    from afterturn.reactions.temporal.engine import Address

ACCOUNT = "000000000000"
REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class LocalServers:
    """Where the lane's table and queues are on this machine, and where Temporal is."""

    access: Access
    temporal: str


@asynccontextmanager
async def open_local_servers(settings: Settings) -> AsyncIterator[LocalServers]:
    """Start the servers where they do not run yet, and make the lane's table and queues where they are missing.

    Whoever joins running servers trusts the note that the lane was made there. Raises ConfigError for a port in use.
    """
    with open_servers(
        settings.local_folder,
        aws_port=settings.local_aws_port,
        temporal_port=settings.local_temporal_port,
        ui_port=settings.local_temporal_ui_port,
        emulator=settings.local_emulator,
    ) as servers:
        access = Access(region=REGION, endpoint=servers.endpoint, access_key=ACCOUNT, secret_key=ACCOUNT)
        names = names_of(settings)

        async def make() -> None:
            async with open_account(access) as account:
                await stack.execute(account, await stack.plan(account, names))

        await make_once(settings.local_folder / f"{names.table}-of-{names.lane}{MADE}", make)
        yield LocalServers(access, servers.temporal)


@asynccontextmanager
async def open_local(settings: Settings, registry: Registry, clock: Clock) -> AsyncIterator[Backbone]:
    """The app on the servers of this machine; see :func:`open_place`.

    For development and tests: the emulator's state is not safe from a crash of the machine.
    """
    from afterturn.bootstrap.aws import open_production  # noqa: PLC0415 - who only settles loads no Temporal

    async with (
        open_local_servers(settings) as servers,
        open_production(settings, registry, clock, servers.access, address_in(servers)) as backbone,
    ):
        yield backbone


def address_in(servers: LocalServers) -> Address:
    from afterturn.reactions.temporal.engine import Address  # noqa: PLC0415 - see above

    return Address(target=servers.temporal)
