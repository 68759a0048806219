"""An AWS account: clients, and whether lane, account and credentials agree."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from afterturn.aws.errors import if_exists, translated
from afterturn.aws.names import Names, check_names
from afterturn.aws.session import Access, list_all, open_client, open_session
from afterturn.errors import ConfigError, StoreForeign

LANE_TAG = "afterturn:lane"
"""The lane that a resource belongs to. No command touches a resource with the tag of another lane."""

SERVICES = ("cloudformation", "dynamodb", "sqs", "lambda")

_UPLOAD_S = 300


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of the credentials, by GetCallerIdentity."""

    account: str
    arn: str


@dataclass(frozen=True, slots=True)
class Location:
    """Where a lane's resources are."""

    region: str
    account: str
    partition: str = "aws"

    def queue_arn(self, name: str) -> str:
        return f"arn:{self.partition}:sqs:{self.region}:{self.account}:{name}"


@dataclass(frozen=True, slots=True)
class Account:
    """Clients of one account and region. ``emulated``: there is an endpoint, so it is not AWS."""

    identity: Identity
    region: str
    emulated: bool
    clients: Mapping[str, Any] = field(repr=False)

    @property
    def location(self) -> Location:
        return Location(self.region, self.identity.account, self.identity.arn.split(":")[1])

    @property
    def cloudformation(self) -> Any:
        return self.clients["cloudformation"]

    @property
    def dynamodb(self) -> Any:
        return self.clients["dynamodb"]

    @property
    def sqs(self) -> Any:
        return self.clients["sqs"]

    @property
    def functions(self) -> Any:
        """Lambda's client."""
        return self.clients["lambda"]


@dataclass(frozen=True, slots=True)
class LaneTarget:
    """A lane and where to find it. ``account``: the account that it belongs to, if the operator named one."""

    lane: str
    table: str | None = None
    region: str | None = None
    endpoint: str | None = None
    account: str | None = None

    @property
    def names(self) -> Names:
        return Names.of(self.lane, self.table)


@dataclass(frozen=True, slots=True)
class Tagged:
    """An existing resource and its tags."""

    name: str
    tags: Mapping[str, str]

    @property
    def lane(self) -> str | None:
        return self.tags.get(LANE_TAG)


@asynccontextmanager
async def open_account(access: Access, *services: str, session: Any = None) -> AsyncIterator[Account]:
    """Open clients of the named services (default: ``SERVICES``) in the account of the credentials.

    Raises:
        MissingExtra: The AWS driver is not installed.
        ConfigError: The region is unknown.
        StoreError: The credentials do not work.
    """
    session = session or open_session(access)
    async with AsyncExitStack() as stack:
        sts = await stack.enter_async_context(open_client("sts", access, session))
        with translated("GetCallerIdentity"):
            caller = await sts.get_caller_identity()
        clients = {
            name: await stack.enter_async_context(open_client(name, access, session)) for name in services or SERVICES
        }
        region = next(iter(clients.values())).meta.region_name
        if not region or region == "aws-global":
            raise ConfigError("the AWS region is not known; set AFTERTURN_AWS_REGION or AWS_REGION")
        identity = Identity(account=str(caller["Account"]), arn=str(caller["Arn"]))
        yield Account(identity, region, access.endpoint is not None, clients)


@asynccontextmanager
async def open_lane(target: LaneTarget, *services: str) -> AsyncIterator[Account]:
    """Open the account of a lane; see :func:`open_account`. Zips take long to upload, so reads may take minutes."""
    check_names(target.names)
    access = Access(region=target.region, endpoint=target.endpoint, read_timeout=_UPLOAD_S)
    async with open_account(access, *services) as account:
        yield account


@asynccontextmanager
async def open_table(target: LaneTarget, *services: str) -> AsyncIterator[Account]:
    """Open the account of a lane whose table exists.

    Raises:
        ConfigError: Lane, account and credentials disagree.
        StoreForeign: The table does not exist.
    """
    async with open_lane(target, *(services or SERVICES)) as account:
        name = target.names.table
        tags = await table_tags(account, name)
        if tags is None:
            raise StoreForeign(
                f"lane {target.lane} has no table {name} in account {account.identity.account}, region "
                f"{account.region}: `afterturn aws provision` creates it; nothing was changed"
            )
        check_lane(
            target.names,
            account.identity,
            [Tagged(f"table {name}", tags)],
            account=target.account,
            emulated=account.emulated,
        )
        yield account


def check_lane(
    names: Names,
    caller: Identity,
    resources: Iterable[Tagged],
    *,
    account: str | None = None,
    emulated: bool = False,
) -> None:
    """Check that lane, account and credentials agree, before the first write.

    Args:
        names: The names of the lane.
        caller: The owner of the credentials.
        resources: Existing resources of the lane.
        account: The account that the lane belongs to, if the operator named one.
        emulated: It is an emulator, so a first resource of ``prod`` in the wrong account harms nobody.

    Raises:
        ConfigError: One of them belongs to another lane or account.
    """
    check_names(names)
    if account is not None and account != caller.account:
        raise ConfigError(
            f"lane {names.lane} belongs to account {account}, but the credentials are of {caller.account} "
            f"({caller.arn}); nothing was changed"
        )
    is_known = False
    for resource in resources:
        if resource.lane is None:
            raise ConfigError(
                f"{resource.name} in account {caller.account} has no tag {LANE_TAG}, so it does not belong to a lane; "
                "nothing was changed"
            )
        if resource.lane != names.lane:
            raise ConfigError(
                f"{resource.name} in account {caller.account} belongs to lane {resource.lane}, not {names.lane} (tag "
                f"{LANE_TAG}); nothing was changed"
            )
        is_known = True
    if names.lane == "prod" and account is None and not is_known and not emulated:
        raise ConfigError(
            f"account {caller.account} has no resources of lane prod yet; confirm the account with --account"
        )


async def table_tags(account: Account, name: str) -> Mapping[str, str] | None:
    """The tags of a table; None if it does not exist."""
    client = account.dynamodb
    with translated(f"table {name}"):
        answer = await if_exists(client.describe_table(TableName=name))
        if answer is None:
            return None
        tags = await list_all(client, "list_tags_of_resource", "Tags", ResourceArn=answer["Table"]["TableArn"])
    return {tag["Key"]: tag["Value"] for tag in tags}
