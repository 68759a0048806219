"""ECS services as runtimes: every task definition that a service runs now. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afterturn.aws.errors import code_of, translated
from afterturn.errors import InvalidInput, NotFound, StoreError
from afterturn.lane_audit.types import Runtime, RuntimeKind, RuntimeRole

_ABSENT = frozenset({"ClusterNotFoundException", "ServiceNotFoundException"})


async def read_service(
    client: Any, cluster: str, service: str, container: str | None, role: RuntimeRole
) -> tuple[Runtime, ...]:
    """One runtime for each task definition: while a deployment goes on, the old one's and the new one's.

    Raises NotFound for a service that is not there, InvalidInput where the container has to be named, and StoreError
    where it cannot be read.
    """
    label = f"ecs {cluster}/{service}"
    told = await _service(client, cluster, service, label)
    running = [one for one in told.get("deployments", ()) if one["status"] == "PRIMARY" or one.get("runningCount")]
    definitions = dict.fromkeys([one["taskDefinition"] for one in running] or [told["taskDefinition"]])
    lacks = None if told.get("desiredCount") or told.get("schedulingStrategy") == "DAEMON" else "a running task"
    runtimes = []
    for arn in definitions:
        with translated(f"{label}: task definition"):
            definition = (await client.describe_task_definition(taskDefinition=arn))["taskDefinition"]
        name = f"{cluster}/{service}"
        if len(definitions) > 1:
            name += f" ({arn.rpartition('/')[2]})"
        chosen = _container(definition, container, label)
        runtimes.append(_runtime(name, chosen, role, _region(told, definition), lacks))
    return tuple(runtimes)


async def _service(client: Any, cluster: str, service: str, label: str) -> Mapping[str, Any]:
    with translated(label):
        try:
            answer = await client.describe_services(cluster=cluster, services=[service])
        except client.exceptions.ClientError as error:
            if code_of(error) in _ABSENT:
                raise NotFound(f"{label}: there is no such cluster; check its name, --region and the account") from None
            raise
    found = [one for one in answer.get("services", ()) if one.get("status") != "INACTIVE"]
    if found:
        told: Mapping[str, Any] = found[0]
        return told
    reasons = {one.get("reason") for one in answer.get("failures", ())} - {"MISSING", None}
    if reasons:
        raise StoreError(f"{label} could not be read: {', '.join(sorted(map(str, reasons)))}")
    raise NotFound(f"{label}: there is no such service in that cluster; check its name, --region and the account")


def _container(definition: Mapping[str, Any], name: str | None, label: str) -> Mapping[str, Any]:
    """The one that was named, or the only one, or the only one with variables of ours."""
    containers: list[Mapping[str, Any]] = definition["containerDefinitions"]
    by_name = {one["name"]: one for one in containers}
    if name is not None:
        if name not in by_name:
            raise NotFound(f"{label} has no container {name}: {', '.join(by_name)}")
        return by_name[name]
    ours = [
        one
        for one in containers
        if any(each["name"].startswith("AFTERTURN_") for key in ("environment", "secrets") for each in one.get(key, ()))
    ]
    for choice in (containers, ours):
        if len(choice) == 1:
            return choice[0]
    raise InvalidInput(f"{label} has several containers; name one: --{label}:{next(iter(by_name))}")


def _runtime(
    name: str, container: Mapping[str, Any], role: RuntimeRole, region: str | None, lacks: str | None
) -> Runtime:
    """A file of variables in S3 is not read, so nothing can be said of what stands nowhere else."""
    plain = {one["name"]: one["value"] for one in container.get("environment", ())}
    secret = dict.fromkeys(one["name"] for one in container.get("secrets", ()))
    return Runtime(
        RuntimeKind.ECS,
        name,
        {**plain, **secret},
        role,
        region=region,
        complete=not container.get("environmentFiles"),
        lacking=lacks,
    )


def _region(service: Mapping[str, Any], definition: Mapping[str, Any]) -> str | None:
    """Fargate tells its tasks; a machine of one's own may not."""
    providers = {one.get("capacityProvider") for one in service.get("capacityProviderStrategy", ())}
    fargate = service.get("launchType") == "FARGATE" or providers & {"FARGATE", "FARGATE_SPOT"}
    return str(definition["taskDefinitionArn"]).split(":")[3] if fargate else None
