"""What a lane's functions are made of, pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afterturn.aws.names import Names
from afterturn.channels.registry import PROVIDERS
from afterturn.errors import ConfigError, InvalidInput
from afterturn.model import Emitter
from afterturn.operations.resources import VISIBILITY_S

ALIAS = "live"
"""What queues and providers reach. It names one published version, and moves from one to the next."""

TIMEOUT_S = VISIBILITY_S // 6
"""Of one call. A record comes back six times as late, as Lambda wants it."""

RUNTIMES = ("python3.11", "python3.12", "python3.13", "python3.14")
ARCHITECTURES = ("x86_64", "arm64")

MAX_ENVIRONMENT = 4_096
"""Bytes that names and values of a function's variables may have together."""

_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/.+")
_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]+\Z")
_BRIDGE_TAKES = frozenset({"APP", "LEASE", "LOG_LEVEL", "TEMPORAL_ADDRESS", "TEMPORAL_API_KEY", "TEMPORAL_NAMESPACE"})
_OTHERS = re.compile(
    r"(ALERT|AWS|EFFECTS|LOCAL|TEMPORAL|TEST|WEBHOOK)_.+"
    r"|APP|BRIDGE_POLLS|BUSY_TIMEOUT|DB|EMITTER|GRACE|LANE|LEASE|LONG_POLL|MODEL|POLL|PROFILE|SLOTS|SWEEP_EVERY|TABLE"
    r"|TAXONOMY"
)
"""Settings of the shell that a webhook function has no use for: a secret goes nowhere where it is not needed."""


class Part(StrEnum):
    """``bridge``: SQS calls it. ``webhooks``: providers call it, at a URL."""

    BRIDGE = "bridge"
    WEBHOOKS = "webhooks"


EMITTERS = {Part.BRIDGE: Emitter.WORKER, Part.WEBHOOKS: Emitter.INBOUND_LAMBDA}
"""What each is called in the events that it emits; a bridge only passes others' on."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A function as it is to be.

    ``sha256``: of its zip, as Lambda tells it (base64). ``role``: none where the function's own one stays.
    ``memory`` is in MB. ``variables`` may hold secrets, and are never shown. ``mapped``: it is to read its queues.
    """

    part: Part
    names: Names
    sha256: str
    runtime: str
    architecture: str
    memory: int
    role: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    mapped: bool = True

    @property
    def name(self) -> str:
        return self.names.function(self.part)

    @property
    def queues(self) -> tuple[str, ...]:
        """Whose records it is called for."""
        return (self.names.main, self.names.retry) if self.part is Part.BRIDGE else ()

    @property
    def configuration(self) -> dict[str, Any]:
        """As UpdateFunctionConfiguration takes it; its role stands apart."""
        return {
            "Handler": f"afterturn.bootstrap.lambda_{self.part}.handler",
            "Runtime": self.runtime,
            "Timeout": TIMEOUT_S,
            "MemorySize": self.memory,
        }


def variables(
    part: Part,
    names: Names,
    shell: Mapping[str, str],
    found: Mapping[str, str],
    *,
    app: str | None = None,
    endpoint: str | None = None,
    handed: Iterable[str] = (),
    unset: Iterable[str] = (),
) -> dict[str, str]:
    """The environment of a function.

    What it has and the shell does not say stays, so that a deployment from another shell drops no secret; ``unset``
    names what is to go. ``handed``: names of further variables of the shell. Raises InvalidInput for a name that is
    none or is not set, and for more than Lambda takes; ConfigError where the function could not reach Temporal.
    """
    given = {name: value for name, value in shell.items() if _is_its(part, name)} | check_handed(handed, shell)
    if app is not None and wants_app(part, {**found, **given}):
        given["AFTERTURN_APP"] = app
    if endpoint is not None:
        given["AFTERTURN_AWS_ENDPOINT_URL"] = endpoint
    given |= {
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_LANE": names.lane,
        "AFTERTURN_TABLE": names.table,
        "AFTERTURN_EMITTER": EMITTERS[part].value,
    }
    dropped = set(unset)
    if wrong := dropped & given.keys():
        raise InvalidInput(f"--unset {min(wrong)}: this shell or the command sets it")
    whole = {name: value for name, value in found.items() if name not in dropped} | given
    if part is Part.BRIDGE and "AFTERTURN_TEMPORAL_ADDRESS" not in whole:
        raise ConfigError(
            "the bridge has to know where Temporal is: set AFTERTURN_TEMPORAL_ADDRESS (and, for Temporal Cloud, "
            "AFTERTURN_TEMPORAL_NAMESPACE and AFTERTURN_TEMPORAL_API_KEY) in this shell; nothing was changed"
        )
    size = sum(len(name.encode()) + len(value.encode()) for name, value in whole.items())
    if size > MAX_ENVIRONMENT:
        raise InvalidInput(
            f"the variables of {names.function(part)} have {size:,} bytes, and Lambda takes {MAX_ENVIRONMENT:,}; "
            "--unset NAME takes one away"
        )
    return dict(sorted(whole.items()))


def wants_app(part: Part, environment: Mapping[str, str]) -> bool:
    """Whether it loads an app: the bridge, to know whom to signal, and webhooks, to know who answers."""
    return part is Part.BRIDGE or has_channels(environment)


def has_channels(environment: Mapping[str, str]) -> bool:
    return any(environment.get(f"AFTERTURN_{provider.opened_by.upper()}") for provider in PROVIDERS)


def services_of(part: Part, environment: Mapping[str, str]) -> frozenset[str]:
    """Services of AWS that it opens clients of besides the lane's own: mail lies in S3, and is answered through SES."""
    mail = part is Part.WEBHOOKS and environment.get("AFTERTURN_SNS_TOPICS")
    return frozenset({"s3", "sesv2"}) if mail else frozenset()


def check_handed(names: Iterable[str], shell: Mapping[str, str]) -> dict[str, str]:
    """What is handed over by name. Raises InvalidInput for a name that is none or is not set."""
    given: dict[str, str] = {}
    for name in names:
        if not _VARIABLE.match(name) or name.startswith(("AWS_", "LAMBDA_")):
            raise InvalidInput(f"--env {name}: a function can be given no variable of this name")
        if name not in shell:
            raise InvalidInput(f"--env {name}: it is not set in this shell; its value is taken from there")
        given[name] = shell[name]
    return given


def check_make(runtime: str, architecture: str, memory: int, role: str | None) -> None:
    """Raise InvalidInput for what Lambda would not take, or we cannot build for."""
    if runtime not in RUNTIMES:
        raise InvalidInput(f"--runtime {runtime}: there are {', '.join(RUNTIMES)}")
    if architecture not in ARCHITECTURES:
        raise InvalidInput(f"--architecture {architecture}: there are {', '.join(ARCHITECTURES)}")
    if not 128 <= memory <= 10_240:
        raise InvalidInput(f"--memory {memory}: from 128 to 10240 MB")
    if role is not None and not _ROLE.fullmatch(role):
        raise InvalidInput("--role: it is no ARN of a role, such as arn:aws:iam::123456789012:role/afterturn-bridge")


def _is_its(part: Part, name: str) -> bool:
    setting = name.removeprefix("AFTERTURN_")
    if setting == name:
        return False
    return setting in _BRIDGE_TAKES if part is Part.BRIDGE else not _OTHERS.fullmatch(setting)
