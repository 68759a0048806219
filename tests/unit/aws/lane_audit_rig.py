"""A healthy lane as data, and what breaks it."""

from __future__ import annotations

from dataclasses import replace

from afterturn.aws.account import Location
from afterturn.aws.lane_audit.compare import EVENT_SOURCE, audit
from afterturn.aws.lane_audit.types import (
    EventSource,
    LaneConfig,
    LaneFinding,
    LaneReport,
    Runtime,
    RuntimeKind,
    RuntimeRole,
)
from afterturn.aws.names import LANES, Names

ACCOUNT = "123456789012"
REGION = "eu-central-1"
CLOUD = "eu-central-1.aws.api.temporal.io:7233"
SECRETS = {"AFTERTURN_TEMPORAL_API_KEY": None}


def wanted_of(lane: str, **more: str) -> LaneConfig:
    return LaneConfig(Names.of(lane), Location(REGION, ACCOUNT), **more)


def healthy(lane: str) -> tuple[list[Runtime], list[EventSource]]:
    """A lane with everything: web on Vercel, two functions, a worker, and a file for the second one."""
    base = {
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_LANE": lane,
        "AFTERTURN_TABLE": f"afterturn-{lane}",
        "AFTERTURN_AWS_REGION": REGION,
        "AFTERTURN_AWS_ACCOUNT": ACCOUNT,
        "PATH": "/bin",
    }
    temporal: dict[str, str | None] = {
        "AFTERTURN_TEMPORAL_ADDRESS": CLOUD,
        "AFTERTURN_TEMPORAL_NAMESPACE": f"company-{lane}",
        **SECRETS,
    }
    runtimes = [
        Runtime(RuntimeKind.VERCEL, f"site:{lane}", {**base, "AFTERTURN_EMITTER": "web"}, RuntimeRole.WEB),
        Runtime(
            RuntimeKind.LAMBDA,
            f"afterturn-{lane}-webhooks:live",
            {**base, "AFTERTURN_EMITTER": "inbound-lambda"},
            RuntimeRole.INBOUND,
            region=REGION,
            qualifier="live",
        ),
        Runtime(
            RuntimeKind.LAMBDA,
            f"afterturn-{lane}-bridge:live",
            {**base, **temporal},
            RuntimeRole.BRIDGE,
            region=REGION,
            qualifier="live",
        ),
        Runtime(RuntimeKind.ECS, f"main/{lane}-worker", {**base, **temporal}, RuntimeRole.WORKER, region=REGION),
        Runtime(RuntimeKind.DOTENV, ".env", {**base, **temporal, "AFTERTURN_SLOTS": "8"}, RuntimeRole.WORKER),
    ]
    names, location = Names.of(lane), Location(REGION, ACCOUNT)
    feeds = [
        EventSource(
            f"afterturn-{lane}-bridge",
            "live",
            location.queue_arn(name),
            enabled=True,
            reports_partial=True,
            concurrency=10,
        )
        for name in (names.main, names.retry)
    ]
    return runtimes, feeds


def other_of(lane: str) -> dict[str, str]:
    """The same wires as another deployment has them."""
    other = next(one for one in LANES if one != lane)
    return {
        "AFTERTURN_PROFILE": "local",
        "AFTERTURN_LANE": other,
        "AFTERTURN_TABLE": f"afterturn-{other}",
        "AFTERTURN_AWS_REGION": "us-east-1",
        "AFTERTURN_AWS_ACCOUNT": "210987654321",
        "AFTERTURN_AWS_ENDPOINT_URL": "http://127.0.0.1:14566",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:14566",
        "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:14566",
        "AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:14566",
        "AFTERTURN_EMITTER": "cli",
        "AFTERTURN_TEMPORAL_ADDRESS": f"{other}.example:7233",
        "AFTERTURN_TEMPORAL_NAMESPACE": f"company-{other}",
    }


def with_value(runtime: Runtime, **changes: str | None) -> Runtime:
    return replace(runtime, environment={**runtime.environment, **changes})


def without(runtime: Runtime, *names: str) -> Runtime:
    left = {name: value for name, value in runtime.environment.items() if name not in names}
    return replace(runtime, environment=left)


def one(report: LaneReport) -> LaneFinding:
    (finding,) = report.findings
    return finding


def runtime_of(role: RuntimeRole, **more: str | None) -> Runtime:
    """The healthy lane's runtime of that role."""
    found = next(each for each in healthy("prod")[0] if each.role is role)
    return with_value(found, **more)


def alone(runtime: Runtime, **more: str) -> tuple[LaneFinding, ...]:
    """What is found at a runtime, with nobody to disagree with."""
    report = audit(wanted_of("prod", **more), [runtime])
    return tuple(
        finding
        for finding in report.findings
        if finding.kind is not RuntimeKind.LANE and finding.setting != EVENT_SOURCE
    )
