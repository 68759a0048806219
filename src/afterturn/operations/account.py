"""An AWS account: who we are there, and clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from afterturn.aws.errors import translated
from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client, open_session
from afterturn.errors import ConfigError, StoreForeign
from afterturn.operations.lanes import Bearer, Identity, check_lane, check_names
from afterturn.operations.resources import Place
from afterturn.store.dynamodb.table import Table

SERVICES = ("dynamodb", "sqs", "sns", "cloudwatch")


@dataclass(frozen=True, slots=True)
class Account:
    """Clients of one account and region. ``emulated``: there is an endpoint of its own, so it is not AWS."""

    identity: Identity
    region: str
    emulated: bool
    clients: dict[str, Any] = field(repr=False)

    @property
    def place(self) -> Place:
        return Place(self.region, self.identity.account, self.identity.arn.split(":")[1])

    @property
    def dynamodb(self) -> Any:
        return self.clients["dynamodb"]

    def table(self, name: str) -> Table:
        return Table(self.dynamodb, name)

    @property
    def sqs(self) -> Any:
        return self.clients["sqs"]

    @property
    def sns(self) -> Any:
        return self.clients["sns"]

    @property
    def cloudwatch(self) -> Any:
        return self.clients["cloudwatch"]


@asynccontextmanager
async def open_account(access: Access, *services: str, session: Any = None) -> AsyncIterator[Account]:
    """The account that the credentials are of, with clients of the services (all that provisioning needs, where none is
    named), closed when the block ends.

    Raises MissingExtra, ConfigError without a region, and StoreError for credentials that do not work.
    """
    session = session or open_session(access)
    async with AsyncExitStack() as stack:
        sts = await stack.enter_async_context(open_client("sts", access, session))
        with translated("GetCallerIdentity"):
            told = await sts.get_caller_identity()
        clients = {
            name: await stack.enter_async_context(open_client(name, access, session)) for name in services or SERVICES
        }
        region = next(iter(clients.values())).meta.region_name
        if not region or region == "aws-global":
            raise ConfigError("the AWS region is not known; set AFTERTURN_AWS_REGION or AWS_REGION")
        identity = Identity(account=str(told["Account"]), arn=str(told["Arn"]))
        yield Account(identity, region, access.endpoint is not None, clients)


@dataclass(frozen=True, slots=True)
class Whose:
    """Which lane is meant, and where it is. ``account``: the one that the lane belongs to, as far as one knows."""

    lane: str
    table: str | None = None
    region: str | None = None
    endpoint: str | None = None
    account: str | None = None

    @property
    def names(self) -> Names:
        return Names.of(self.lane, self.table)


@asynccontextmanager
async def open_lane(whose: Whose, *services: str) -> AsyncIterator[Account]:
    """The account that a lane is in, as far as the credentials say; see :func:`open_account`."""
    async with open_account(Access(region=whose.region, endpoint=whose.endpoint), *services) as account:
        yield account


@asynccontextmanager
async def open_table(whose: Whose, *services: str) -> AsyncIterator[tuple[Account, Table]]:
    """The table of a lane, and clients of further services.

    Raises ConfigError where lane, account and credentials disagree, and StoreForeign where there is no such table.
    """
    check_names(whose.names)
    async with open_lane(whose, "dynamodb", *services) as account:
        await _check_table_lane(account, whose)
        yield account, account.table(whose.names.table)


async def _check_table_lane(account: Account, whose: Whose) -> None:
    name = whose.names.table
    with translated(f"table {name}"):
        try:
            described = await account.dynamodb.describe_table(TableName=name)
        except account.dynamodb.exceptions.ResourceNotFoundException:
            raise missing(whose.names, "table", name, account) from None
        tags = await table_tags(account.dynamodb, described["Table"]["TableArn"])
    bearer = Bearer(f"table {name}", tags)
    check_lane(whose.names, account.identity, [bearer], account=whose.account, emulated=account.emulated)


def missing(names: Names, kind: str, name: str, account: Account) -> StoreForeign:
    """What a lane has to have before anything can be done with it."""
    return StoreForeign(
        f"lane {names.lane} has no {kind} {name} in account {account.identity.account}, region {account.region}: "
        "`afterturn aws provision` makes it; nothing was changed"
    )


async def table_tags(client: Any, arn: str) -> dict[str, str]:
    found: dict[str, str] = {}
    start: dict[str, str] = {}
    while True:
        answer = await client.list_tags_of_resource(ResourceArn=arn, **start)
        found |= {tag["Key"]: tag["Value"] for tag in answer.get("Tags", ())}
        if not answer.get("NextToken"):
            return found
        start = {"NextToken": answer["NextToken"]}
