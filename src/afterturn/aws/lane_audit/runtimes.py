"""Reads a lane's runtimes: its Lambda functions, and named functions, ECS services, dotenv files, Vercel projects.

Nothing is written. ``aws lane audit`` is the only caller.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dotenv.parser import parse_stream

from afterturn.aws.account import Account, LaneTarget, Location, open_table
from afterturn.aws.errors import if_exists, translated
from afterturn.aws.lane_audit.types import VERCEL_TARGETS, EventSource, Runtime, RuntimeKind, RuntimeRole
from afterturn.aws.lane_audit.vercel import Vercel, open_vercel, read_project
from afterturn.aws.names import Names
from afterturn.aws.session import list_all
from afterturn.aws.stack import ALIAS, FIRST_VERSION
from afterturn.errors import AfterturnError, InvalidInput, NotFound, StoreError, StoreReadOnly

_FORMS = {
    RuntimeKind.LAMBDA: "NAME[:ALIAS][=ROLE]",
    RuntimeKind.ECS: "CLUSTER/SERVICE[:CONTAINER][=ROLE]",
    RuntimeKind.VERCEL: "PROJECT[:TARGET][=ROLE]",
    RuntimeKind.DOTENV: "PATH[=ROLE]",
}
_FUNCTION_ROLES = {"bridge": RuntimeRole.BRIDGE, "webhooks": RuntimeRole.INBOUND}


@dataclass(frozen=True, slots=True)
class RuntimeTarget:
    """A runtime that the operator named. ``part``: its alias, container or Vercel target."""

    kind: RuntimeKind
    name: str
    part: str | None = None
    role: RuntimeRole | None = None


@dataclass(slots=True)
class RuntimesRead:
    """The runtimes that could be read, and the errors of the others."""

    account: Account
    runtimes: list[Runtime] = field(default_factory=list)
    event_sources: tuple[EventSource, ...] = ()
    failures: list[AfterturnError] = field(default_factory=list)

    @contextmanager
    def failures_kept(self) -> Iterator[None]:
        """An unreadable runtime must not hide what is found in the others."""
        try:
            yield
        except AfterturnError as error:
            self.failures.append(error)


def parse_target(kind: RuntimeKind, text: str) -> RuntimeTarget:
    """Parse an option such as ``--ecs main/worker:app=worker``. Raises InvalidInput that shows the form."""
    body, _, word = text.rpartition("=")
    role = RuntimeRole(word) if word in set(RuntimeRole) else None
    if role is None:
        body = text
    if kind is RuntimeKind.DOTENV and body:
        return RuntimeTarget(kind, body, role=role)
    name, colon, part = body.partition(":")
    is_valid = bool(name) and (bool(part) or not colon) and not set(part) & set(":=") and "=" not in name
    if kind is RuntimeKind.ECS:
        cluster, _, service = name.partition("/")
        is_valid = is_valid and bool(cluster and service) and "/" not in service
    elif kind is RuntimeKind.VERCEL:
        is_valid = is_valid and part in ("", *VERCEL_TARGETS.values())
    if kind is RuntimeKind.DOTENV or not is_valid:
        raise InvalidInput(
            f"--{kind.value} {text!r}: has to be {_FORMS[kind]}; roles: {', '.join(RuntimeRole)}"
            + (f"; targets: {', '.join(VERCEL_TARGETS.values())}" if kind is RuntimeKind.VERCEL else "")
        )
    return RuntimeTarget(kind, name, part or None, role)


async def read_runtimes(lane: LaneTarget, targets: Sequence[RuntimeTarget], vercel: Vercel) -> RuntimesRead:
    """Read the lane's functions, the named runtimes, and who reads the lane's queues.

    Raises:
        ConfigError: Lane, account and credentials disagree.
        StoreError: The account or the lane's table cannot be read.
    """
    by_kind = {kind: [target for target in targets if target.kind is kind] for kind in RuntimeKind}
    named = {target.name for target in by_kind[RuntimeKind.LAMBDA]}
    async with open_table(lane, "dynamodb", "lambda", "ecs") as account:
        read, client = RuntimesRead(account), account.functions
        for part, role in _FUNCTION_ROLES.items():
            if (name := lane.names.function(part)) not in named:
                with read.failures_kept():
                    read.runtimes += await read_lane_function(client, name, role)
        for target in by_kind[RuntimeKind.LAMBDA]:
            role = target.role or _FUNCTION_ROLES.get(target.name.rpartition("-")[2], RuntimeRole.INBOUND)
            with read.failures_kept():
                read.runtimes += await read_function(client, target.name, target.part, role)
        for target in by_kind[RuntimeKind.ECS]:
            cluster, _, service = target.name.partition("/")
            role = target.role or RuntimeRole.WORKER
            with read.failures_kept():
                read.runtimes += await read_service(account.clients["ecs"], cluster, service, target.part, role)
        for target in by_kind[RuntimeKind.DOTENV]:
            with read.failures_kept():
                read.runtimes += await asyncio.to_thread(read_dotenv, Path(target.name), target.role)
        if by_kind[RuntimeKind.VERCEL]:
            with read.failures_kept():
                async with open_vercel(vercel) as api:
                    for target in by_kind[RuntimeKind.VERCEL]:
                        part, role = target.part or VERCEL_TARGETS[lane.lane], target.role or RuntimeRole.WEB
                        with read.failures_kept():
                            read.runtimes += await read_project(api, target.name, part, role)
        with read.failures_kept():
            functions = [runtime for runtime in read.runtimes if runtime.kind is RuntimeKind.LAMBDA]
            read.event_sources = await read_event_sources(client, account.location, lane.names, functions)
    return read


async def read_lane_function(client: Any, name: str, role: RuntimeRole) -> tuple[Runtime, ...]:
    """A function of the lane at its alias; nothing if it does not exist, or was never deployed to."""
    if (configuration := await _configuration(client, name, ALIAS)) is not None:
        is_deployed = configuration.get("Version") != FIRST_VERSION or configuration.get("Environment")
        return (_function(configuration, name, ALIAS, role),) if is_deployed else ()
    if (configuration := await _configuration(client, name, None)) is None:
        return ()
    return (_function(configuration, name, ALIAS, role, lacking=f"alias {ALIAS}"),)


async def read_function(client: Any, name: str, alias: str | None, role: RuntimeRole) -> tuple[Runtime, ...]:
    """A function by name. Raises NotFound, and StoreError if it cannot be read."""
    configuration = await _configuration(client, name, alias)
    if configuration is None:
        raise NotFound(
            f"lambda {name}{f':{alias}' if alias else ''}: there is no such function in this account and region, or it "
            "has no such alias; check the name, --region and the credentials"
        )
    return (_function(configuration, name, alias, role),)


async def _configuration(client: Any, name: str, alias: str | None) -> Mapping[str, Any] | None:
    qualifier = {"Qualifier": alias} if alias else {}
    with translated(f"lambda {name}"):
        return await if_exists(client.get_function_configuration(FunctionName=name, **qualifier))


def _function(
    configuration: Mapping[str, Any], name: str, alias: str | None, role: RuntimeRole, lacking: str | None = None
) -> Runtime:
    environment = configuration.get("Environment") or {}
    if environment.get("Error"):
        raise StoreReadOnly(
            f"lambda {name}: Lambda cannot decrypt its variables for these credentials "
            f"({environment['Error'].get('ErrorCode', 'no code')}); allow them kms:Decrypt on the function's key"
        )
    # The function resolves a reference when it starts, so that its value is not known here.
    variables = {
        key: None if value.startswith(("arn:", "{{resolve:")) else value
        for key, value in (environment.get("Variables") or {}).items()
    }
    return Runtime(
        RuntimeKind.LAMBDA,
        f"{name}:{alias}" if alias else name,
        variables,
        role,
        region=configuration["FunctionArn"].split(":")[3],
        qualifier=alias,
        lacking=lacking,
    )


async def read_event_sources(
    client: Any, location: Location, names: Names, functions: Iterable[Runtime]
) -> tuple[EventSource, ...]:
    """Every mapping of these functions, and every mapping of the lane's queues to any function."""
    queries = [{"EventSourceArn": location.queue_arn(queue)} for queue in (names.main, names.retry)]
    for runtime in functions:
        function = runtime.name.partition(":")[0]
        # Lambda lists a mapping under the name that it was made with: with the alias, or without.
        qualified = {function, f"{function}:{runtime.qualifier}" if runtime.qualifier else function}
        queries += [{"FunctionName": name} for name in sorted(qualified)]
    mappings: dict[str, EventSource] = {}
    for query in queries:
        with translated("ListEventSourceMappings"):
            listed = await if_exists(list_all(client, "list_event_source_mappings", "EventSourceMappings", **query))
        mappings |= {mapping["UUID"]: _event_source(mapping) for mapping in listed or ()}
    return tuple(mappings.values())


def _event_source(mapping: Mapping[str, Any]) -> EventSource:
    # arn:aws:lambda:region:account:function:name[:qualifier]
    function, _, qualifier = mapping["FunctionArn"].split(":", 6)[6].partition(":")
    return EventSource(
        function,
        qualifier or None,
        mapping.get("EventSourceArn", ""),
        enabled=mapping.get("State") in ("Enabled", "Enabling", "Creating", "Updating"),
        reports_partial="ReportBatchItemFailures" in (mapping.get("FunctionResponseTypes") or ()),
        concurrency=(mapping.get("ScalingConfig") or {}).get("MaximumConcurrency"),
    )


async def read_service(
    client: Any, cluster: str, service: str, container: str | None, role: RuntimeRole
) -> tuple[Runtime, ...]:
    """An ECS service: one runtime for each task definition, of which a deployment in progress runs two.

    Raises:
        NotFound: There is no such cluster, service or container.
        InvalidInput: The container has to be named.
        StoreError: The service cannot be read.
    """
    label = f"ecs {cluster}/{service}"
    description = await _service(client, cluster, service, label)
    deployments = [
        deployment
        for deployment in description.get("deployments", ())
        if deployment["status"] == "PRIMARY" or deployment.get("runningCount")
    ]
    arns = dict.fromkeys([each["taskDefinition"] for each in deployments] or [description["taskDefinition"]])
    runs = description.get("desiredCount") or description.get("schedulingStrategy") == "DAEMON"
    providers = {each.get("capacityProvider") for each in description.get("capacityProviderStrategy", ())}
    # Fargate sets the region of its tasks; an instance of one's own may not.
    is_fargate = description.get("launchType") == "FARGATE" or providers & {"FARGATE", "FARGATE_SPOT"}
    runtimes = []
    for arn in arns:
        with translated(f"{label}: task definition"):
            definition = (await client.describe_task_definition(taskDefinition=arn))["taskDefinition"]
        chosen = _container(definition, container, label)
        plain = {variable["name"]: variable["value"] for variable in chosen.get("environment", ())}
        secret = dict.fromkeys(variable["name"] for variable in chosen.get("secrets", ()))
        runtimes.append(
            Runtime(
                RuntimeKind.ECS,
                f"{cluster}/{service}" + (f" ({arn.rpartition('/')[2]})" if len(arns) > 1 else ""),
                {**plain, **secret},
                role,
                region=str(definition["taskDefinitionArn"]).split(":")[3] if is_fargate else None,
                complete=not chosen.get("environmentFiles"),  # files in S3, which are not read
                lacking=None if runs else "a running task",
            )
        )
    return tuple(runtimes)


async def _service(client: Any, cluster: str, service: str, label: str) -> Mapping[str, Any]:
    with translated(label):
        answer: Mapping[str, Any] | None = await if_exists(
            client.describe_services(cluster=cluster, services=[service]),
            "ClusterNotFoundException",
            "ServiceNotFoundException",
        )
    if answer is None:
        raise NotFound(f"{label}: there is no such cluster; check its name, --region and the account")
    for description in answer.get("services", ()):
        if description.get("status") != "INACTIVE":
            found: Mapping[str, Any] = description
            return found
    reasons = {failure.get("reason") for failure in answer.get("failures", ())} - {"MISSING", None}
    if reasons:
        raise StoreError(f"{label} could not be read: {', '.join(sorted(map(str, reasons)))}")
    raise NotFound(f"{label}: there is no such service in that cluster; check its name, --region and the account")


def _container(definition: Mapping[str, Any], name: str | None, label: str) -> Mapping[str, Any]:
    """The container of this name; without a name the only one, or the only one with variables of afterturn."""
    containers: Mapping[str, Mapping[str, Any]] = {each["name"]: each for each in definition["containerDefinitions"]}
    if name is not None:
        if name not in containers:
            raise NotFound(f"{label} has no container {name}: {', '.join(containers)}")
        return containers[name]
    with_settings = [
        container
        for container in containers.values()
        if any(
            variable["name"].startswith("AFTERTURN_")
            for variable in (*container.get("environment", ()), *container.get("secrets", ()))
        )
    ]
    for candidates in (list(containers.values()), with_settings):
        if len(candidates) == 1:
            return candidates[0]
    raise InvalidInput(f"{label} has several containers; name one: --{label}:{next(iter(containers))}")


def read_dotenv(path: Path, role: RuntimeRole | None) -> tuple[Runtime, ...]:
    """A dotenv file, by python-dotenv's own parser; the last of several values counts.

    A reference to another variable (``${NAME}``) and a name without a value depend on where the file is loaded: they
    are present and not readable.

    Raises:
        NotFound: There is no such file.
        InvalidInput: It is not a dotenv file; the message names the line.
    """
    variables: dict[str, str | None] = {}
    conflicting: set[str] = set()
    for binding in parse_stream(io.StringIO(_text(path))):
        if binding.error:
            # The parser counts the blank lines before a binding to it.
            text, line = str(getattr(binding.original, "string", "")), int(getattr(binding.original, "line", 0))
            line += text[: len(text) - len(text.lstrip())].count("\n")
            raise InvalidInput(f"{path}, line {line}: is not NAME=value, nor a comment")
        if binding.key is None:
            continue
        value = None if binding.value is None or "${" in binding.value else binding.value
        if variables.get(binding.key, value) != value:
            conflicting.add(binding.key)
        variables[binding.key] = value
    return (Runtime(RuntimeKind.DOTENV, str(path), variables, role, conflicting=frozenset(conflicting)),)


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no dotenv file at {path}") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path} is a folder, not a dotenv file") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{path}, line {line}: is not UTF-8; save it as that") from None
