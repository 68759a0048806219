"""The CloudFormation stack of a lane, created and updated by change sets from ``infra/template.json``.

Nothing else changes these resources, except a deployment: it uploads code and moves the alias ``live``. The version
behind the alias is a parameter of the stack, and every update passes the one that is live, so a rollback survives.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from afterturn.aws.account import LANE_TAG, Account, Tagged, check_lane, table_tags
from afterturn.aws.errors import code_of, if_exists, translated
from afterturn.aws.names import Names, check_names
from afterturn.aws.session import list_all
from afterturn.aws.table import ALL_INDEXES
from afterturn.errors import ConfigError, InvalidInput, StoreBusy, StoreError, StoreForeign

ALIAS = "live"
"""The alias that queues and providers invoke. It names one published version."""

FIRST_VERSION = "1"
"""The version that the stack publishes with a function: it only says that nothing is deployed yet."""

FUNCTIONS = {"bridge": "Bridge", "webhooks": "Webhooks"}
"""The lane's functions, and how the template's parameters of each begin."""

_INDEX_PARAMETERS = frozenset(index.parameter for index in ALL_INDEXES)
_MANAGED = _INDEX_PARAMETERS | {
    "Lane",
    "TableName",
    "Notify",
    "BridgeVersion",
    "BridgeMapping",
    "WebhooksVersion",
    "WebhooksUrl",
}
"""Parameters with commands or options of their own."""

_WITH_DATA = frozenset({"AWS::DynamoDB::Table", "AWS::SQS::Queue"})
_ENDED = ("CREATE_COMPLETE", "UPDATE_COMPLETE")
_STUCK = frozenset({"CREATE_FAILED", "ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED"})
_ABSENT = frozenset({"REVIEW_IN_PROGRESS", "DELETE_COMPLETE"})

Report = Callable[[str], None]


def _silent(line: str) -> None:
    pass


class TimedOut(StoreBusy):
    """The time to wait is over; AWS continues."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for AWS and how often to look, in seconds."""

    timeout: float = 3_600
    every: float = 5
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def looks(self) -> AsyncIterator[float]:
        """Yield the seconds waited so far, with growing pauses, until the time is over."""
        begun, pause = self.clock(), self.every / 256
        while True:
            waited = self.clock() - begun
            yield waited
            if waited >= self.timeout:
                return
            await self.sleep(min(pause, self.timeout - waited))
            pause = min(pause * 2, self.every)


@dataclass(frozen=True, slots=True)
class Stack:
    """An existing stack, by DescribeStacks."""

    name: str
    status: str
    parameters: Mapping[str, str]
    outputs: Mapping[str, str]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A change of one resource. ``properties``: those that change; empty for a new one."""

    action: str
    resource: str
    type: str
    name: str | None
    replacement: bool
    properties: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "resource": self.resource,
            "type": self.type,
            "name": self.name,
            "replacement": self.replacement,
            "properties": list(self.properties),
        }


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """A change set that waits to be executed; without changes there is none in AWS."""

    stack: str
    id: str
    creates: bool
    changes: tuple[ResourceChange, ...] = field(default=())


@cache
def template() -> str:
    """The text of the template: beside this module in a wheel, in ``infra/`` of a source tree."""
    here = Path(__file__)
    for path in (here.with_name("template.json"), here.parents[3] / "infra" / "template.json"):
        if path.is_file():
            return path.read_text()
    raise ConfigError("infra/template.json is not there: afterturn is not completely installed")


def template_parameters() -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = json.loads(template())["Parameters"]
    return parameters


def parse_setting(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE`` for a parameter of the template. Raises InvalidInput."""
    name, equals, value = text.partition("=")
    free = sorted(template_parameters().keys() - _MANAGED)
    if not equals or name not in free:
        raise InvalidInput(f"--set {text}: has to be NAME=VALUE with one of {', '.join(free)}")
    return name, value


async def describe(account: Account, names: Names) -> Stack | None:
    """The stack of a lane; None if there is none, or only a change set that was never executed."""
    with translated_stack(names.stack):
        try:
            (description,) = (await account.cloudformation.describe_stacks(StackName=names.stack))["Stacks"]
        except account.cloudformation.exceptions.ClientError as error:
            if code_of(error) == "ValidationError" and "does not exist" in str(error):
                return None
            raise
    if description["StackStatus"] in _ABSENT:
        return None
    return Stack(
        names.stack,
        description["StackStatus"],
        {each["ParameterKey"]: each.get("ParameterValue", "") for each in description.get("Parameters", ())},
        {each["OutputKey"]: each["OutputValue"] for each in description.get("Outputs", ())},
        {each["Key"]: each["Value"] for each in description.get("Tags", ())},
    )


async def plan(
    account: Account, names: Names, settings: Mapping[str, str] | None = None, *, expected: str | None = None
) -> ChangeSet:
    """Create the change set that brings the lane to the template.

    Args:
        account: Where the lane is.
        names: The names of the lane.
        settings: Values of template parameters; others keep their value, or get the default in a new stack.
        expected: The account that the lane belongs to, if the operator named one.

    Raises:
        ConfigError: Lane, account and credentials disagree, or a resource was changed outside the stack.
        StoreForeign: Table or queues exist outside the stack, or the update would replace one of them.
        StoreBusy: The stack is being changed.
    """
    check_names(names)
    stack = await describe(account, names)
    tagged = [] if stack is None else [Tagged(f"stack {stack.name}", stack.tags)]
    tags = await table_tags(account, names.table) if stack is None else None
    if tags:
        tagged.append(Tagged(f"table {names.table}", tags))
    check_lane(names, account.identity, tagged, account=expected, emulated=account.emulated)
    if stack is None:
        await _refuse_existing(account, names, has_table=tags is not None)
    else:
        _check_changeable(stack)
        _check_table_name(stack, names)
        await _refuse_drift(account, stack)
    values = dict(settings or {}) | await _live_versions(account, names, stack)
    change_set = await _create(account, names, stack, values, body={"TemplateBody": template()})
    for change in change_set.changes:
        if stack is not None and change.type in _WITH_DATA and (change.replacement or change.action == "Remove"):
            await discard(account, change_set)
            raise StoreForeign(
                f"the update would replace {change.resource} ({change.name}), which holds data; nothing was changed"
            )
    return change_set


async def change(
    account: Account,
    names: Names,
    settings: Mapping[str, str],
    patience: Patience,
    *,
    look: Callable[[float], Awaitable[None]] | None = None,
) -> None:
    """Change parameters of an existing stack and nothing else: the template stays the one that it has.

    Waits first for an update that was not waited for. ``look`` is called with the seconds waited, each time the stack
    is looked at. Raises as :func:`plan`.
    """
    stack = await describe(account, names)
    if stack is not None and stack.status.endswith("IN_PROGRESS"):
        await finish(account, stack.name, patience)
        stack = await describe(account, names)
    if stack is None or not settings.keys() <= stack.parameters.keys():
        raise StoreForeign(
            f"stack {names.stack} does not have {', '.join(settings)} yet: run `afterturn aws provision` first"
        )
    _check_changeable(stack)
    values = dict(settings) | {
        name: value for name, value in (await _live_versions(account, names, stack)).items() if name not in settings
    }
    change_set = await _create(account, names, stack, values, body={"UsePreviousTemplate": True})
    await execute(account, change_set, patience, look=look)


async def execute(
    account: Account,
    change_set: ChangeSet,
    patience: Patience | None = None,
    report: Report = _silent,
    *,
    look: Callable[[float], Awaitable[None]] | None = None,
) -> None:
    """Execute a change set and wait for its end; ``report`` gets a line for each finished resource.

    Raises:
        StoreError: AWS could not do it, and rolled the stack back.
        TimedOut: AWS is still at it.
    """
    if not change_set.changes:
        return
    seen = {event["EventId"] for event in await _events(account, change_set.stack)}
    with translated_stack(change_set.stack):
        await account.cloudformation.execute_change_set(ChangeSetName=change_set.id, StackName=change_set.stack)
    await finish(account, change_set.stack, patience or Patience(), report, seen=seen, look=look)


async def finish(
    account: Account,
    stack: str,
    patience: Patience,
    report: Report = _silent,
    *,
    seen: set[str] | None = None,
    look: Callable[[float], Awaitable[None]] | None = None,
) -> None:
    """Wait for the end of what the stack is doing. Raises as :func:`execute`."""
    is_known = set() if seen is None else seen
    problems: list[str] = []
    status = "unknown"
    async for waited in patience.looks():
        with translated_stack(stack):
            answer = await if_exists(account.cloudformation.describe_stacks(StackName=stack), "ValidationError")
        status = "DELETE_COMPLETE" if answer is None else answer["Stacks"][0]["StackStatus"]
        if seen is not None:
            for event in reversed(await _events(account, stack)):
                if event["EventId"] not in is_known:
                    is_known.add(event["EventId"])
                    _note_event(event, stack, problems, report)
        if look is not None:
            await look(waited)
        if not status.endswith("IN_PROGRESS"):
            break
    else:
        raise TimedOut(
            f"stack {stack} is {status} after {patience.timeout:.0f} s; AWS continues: run the same command again to "
            "wait on"
        )
    if status not in _ENDED:
        reason = "; ".join(problems[:3]) or "see its events in CloudFormation"
        raise StoreError(f"stack {stack} could not be changed and was rolled back ({status}): {reason}")


async def discard(account: Account, change_set: ChangeSet) -> None:
    """Delete a change set that was only looked at, with the empty stack that it made."""
    if not change_set.changes:
        return
    with translated_stack(change_set.stack):
        await account.cloudformation.delete_change_set(ChangeSetName=change_set.id, StackName=change_set.stack)
        if change_set.creates:
            await account.cloudformation.delete_stack(StackName=change_set.stack)


@contextmanager
def translated_stack(stack: str) -> Iterator[None]:
    """Translate errors of CloudFormation into ours; its messages name parameters and resources, never secrets."""
    try:
        with translated(f"stack {stack}"):
            yield
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, Exception) and code_of(cause) in ("ValidationError", "InsufficientCapabilitiesException"):
            text = getattr(cause, "response", {}).get("Error", {}).get("Message", "")
            raise StoreError(f"stack {stack} was refused by CloudFormation: {text}") from cause
        raise


async def _create(
    account: Account, names: Names, stack: Stack | None, values: Mapping[str, str], *, body: Mapping[str, Any]
) -> ChangeSet:
    client = account.cloudformation
    known = stack.parameters if stack is not None else None
    accepted = template_parameters() if "TemplateBody" in body else stack.parameters if stack is not None else {}
    creation = {"OnStackFailure": "DELETE"} if stack is None else {}
    with translated_stack(names.stack):
        made = await client.create_change_set(
            StackName=names.stack,
            ChangeSetName=f"afterturn-{uuid4().hex}",
            ChangeSetType="CREATE" if stack is None else "UPDATE",
            Parameters=parameters(names, accepted, known, values),
            Capabilities=["CAPABILITY_IAM"],
            Tags=[{"Key": LANE_TAG, "Value": names.lane}],
            **body,
            **creation,
        )
    async for _ in Patience(timeout=300, every=2).looks():
        with translated_stack(names.stack):
            described = await client.describe_change_set(ChangeSetName=made["Id"], StackName=names.stack)
        if described["Status"] == "FAILED":
            reason = str(described.get("StatusReason", ""))
            with translated_stack(names.stack):
                await client.delete_change_set(ChangeSetName=made["Id"], StackName=names.stack)
            if "didn't contain changes" in reason or "No updates are to be performed" in reason:
                return ChangeSet(names.stack, made["Id"], stack is None)
            raise StoreError(f"stack {names.stack}: CloudFormation made no change set: {reason}")
        if described["Status"] == "CREATE_COMPLETE":
            break
    else:
        raise TimedOut(f"stack {names.stack}: CloudFormation is still making the change set; run it again")
    with translated_stack(names.stack):
        changes = await list_all(
            client, "describe_change_set", "Changes", ChangeSetName=made["Id"], StackName=names.stack
        )
    resources = tuple(_resource_change(each["ResourceChange"]) for each in changes)
    return ChangeSet(names.stack, made["Id"], stack is None, resources)


def parameters(
    names: Names, accepted: Mapping[str, Any], known: Mapping[str, str] | None, values: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Parameters of a change set.

    An existing stack keeps what it has. An index that it does not know yet stays off, whatever its default is: AWS
    adds one index in an update, so each is added by `aws index add`.
    """
    explicit = dict(values)
    if known is None:
        explicit |= {"Lane": names.lane, "TableName": "" if names.has_default_table else names.table}
    else:
        explicit = dict.fromkeys(_INDEX_PARAMETERS & accepted.keys() - known.keys(), "off") | explicit
    chosen: list[dict[str, Any]] = [
        {"ParameterKey": name, "ParameterValue": value} for name, value in explicit.items() if name in accepted
    ]
    kept = (known or {}).keys() & accepted.keys() - explicit.keys()
    return chosen + [{"ParameterKey": name, "UsePreviousValue": True} for name in sorted(kept)]


def _resource_change(change: Mapping[str, Any]) -> ResourceChange:
    targets = (detail.get("Target", {}) for detail in change.get("Details", ()))
    return ResourceChange(
        change["Action"],
        change["LogicalResourceId"],
        change["ResourceType"],
        change.get("PhysicalResourceId"),
        change.get("Replacement") == "True",
        tuple(sorted({str(target.get("Name") or target.get("Attribute")) for target in targets})),
    )


async def _live_versions(account: Account, names: Names, stack: Stack | None) -> dict[str, str]:
    """The versions that the aliases name now; nothing for a function that was never deployed."""
    versions: dict[str, str] = {}
    for part, prefix in FUNCTIONS.items():
        if stack is None or (known := stack.parameters.get(f"{prefix}Version")) is None:
            continue
        with translated(f"alias {ALIAS} of function {names.function(part)}"):
            alias = await if_exists(account.functions.get_alias(FunctionName=names.function(part), Name=ALIAS))
        if alias is not None and (known or alias["FunctionVersion"] != FIRST_VERSION):
            versions[f"{prefix}Version"] = str(alias["FunctionVersion"])
    return versions


async def _refuse_existing(account: Account, names: Names, *, has_table: bool) -> None:
    existing = [f"table {names.table}"] if has_table else []
    for queue in (names.main, names.retry, names.main_dead, names.retry_dead):
        with translated(f"queue {queue}"):
            try:
                await account.sqs.get_queue_url(QueueName=queue)
            except account.sqs.exceptions.QueueDoesNotExist:
                continue
        existing.append(f"queue {queue}")
    if existing:
        raise StoreForeign(
            f"{existing[0]} exists outside stack {names.stack}: an earlier version of afterturn made it, or someone "
            "else. It is not adopted: delete it and import again, or use another lane; nothing was changed"
        )


def _check_changeable(stack: Stack) -> None:
    if stack.status in _STUCK:
        raise StoreForeign(
            f"stack {stack.name} is {stack.status}: repair or delete it in CloudFormation, and run this again"
        )
    if stack.status.endswith("IN_PROGRESS"):
        raise StoreBusy(f"stack {stack.name} is being changed ({stack.status}); run this again when it is done")


def _check_table_name(stack: Stack, names: Names) -> None:
    table = stack.parameters.get("TableName") or f"afterturn-{names.lane}"
    if table != names.table:
        raise ConfigError(
            f"stack {stack.name} has table {table}, not {names.table}; check --table (AFTERTURN_TABLE). Nothing was "
            "changed"
        )


async def _refuse_drift(account: Account, stack: Stack) -> None:
    """Raise ConfigError if a resource was changed outside the stack."""
    client = account.cloudformation
    with translated_stack(stack.name):
        detection = (await client.detect_stack_drift(StackName=stack.name))["StackDriftDetectionId"]
        async for _ in Patience(timeout=900, every=2).looks():
            status = await client.describe_stack_drift_detection_status(StackDriftDetectionId=detection)
            if status["DetectionStatus"] != "DETECTION_IN_PROGRESS":
                break
        else:
            raise TimedOut(f"stack {stack.name}: drift detection takes too long; run it again")
        if status["DetectionStatus"] == "DETECTION_FAILED":
            raise StoreError(
                f"stack {stack.name}: drift could not be detected: {status.get('DetectionStatusReason', 'no reason')}"
            )
        drifts: list[Mapping[str, Any]] = []
        start: dict[str, str] = {}
        while True:
            page = await client.describe_stack_resource_drifts(
                StackName=stack.name, StackResourceDriftStatusFilters=["MODIFIED", "DELETED"], **start
            )
            drifts += page["StackResourceDrifts"]
            if not page.get("NextToken"):
                break
            start = {"NextToken": page["NextToken"]}
    if problems := [problem for drift in drifts for problem in drift_problems(drift)]:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise ConfigError(
            f"resources of stack {stack.name} were changed outside it: {'; '.join(problems[:5])}{more}. Change them "
            "back, and run this again; nothing was changed"
        )


def drift_problems(drift: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with one resource. The version of an alias is not: deployments move it."""
    name = f"{drift['LogicalResourceId']} ({drift.get('PhysicalResourceId')})"
    if drift["StackResourceDriftStatus"] == "DELETED":
        yield f"{name} is deleted"
        return
    for difference in drift.get("PropertyDifferences", ()):
        if drift["ResourceType"] == "AWS::Lambda::Alias" and difference["PropertyPath"] == "/FunctionVersion":
            continue
        yield (
            f"{name}: {difference['PropertyPath'].lstrip('/')} is {difference.get('ActualValue')}, "
            f"expected {difference.get('ExpectedValue')}"
        )


async def _events(account: Account, stack: str) -> list[Mapping[str, Any]]:
    """The latest events, newest first; none if the stack is gone."""
    with translated_stack(stack):
        answer: Mapping[str, Any] | None = await if_exists(
            account.cloudformation.describe_stack_events(StackName=stack), "ValidationError"
        )
    return [] if answer is None else answer["StackEvents"]


def _note_event(event: Mapping[str, Any], stack: str, problems: list[str], report: Report) -> None:
    status, resource = event["ResourceStatus"], event["LogicalResourceId"]
    if status.endswith("_FAILED"):
        reason = event.get("ResourceStatusReason", "no reason given")
        if "cancelled" not in reason.lower():
            problems.append(f"{resource}: {reason}")
    elif status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE") and resource != stack:
        report(f"{status.removesuffix('_COMPLETE').lower()}d {resource} ({event.get('PhysicalResourceId', '')})")
