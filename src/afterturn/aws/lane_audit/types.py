"""Records of a lane audit: runtimes, what they are expected to have, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from afterturn.aws.account import Location
from afterturn.aws.names import Names

Environment = Mapping[str, str | None]
"""Variables by name. None: it is set, but its value cannot be read (a secret, or a reference to one)."""


class RuntimeKind(StrEnum):
    LAMBDA = "lambda"
    ECS = "ecs"
    VERCEL = "vercel"
    DOTENV = "dotenv"
    LANE = "lane"
    """The lane as a whole, for what none of its runtimes does."""


class RuntimeRole(StrEnum):
    """What a runtime does. ``up``: bridge and worker in one process, as `afterturn up` is."""

    WEB = "web"
    INBOUND = "inbound-lambda"
    BRIDGE = "bridge"
    WORKER = "worker"
    UP = "up"


POLLERS = frozenset({RuntimeRole.BRIDGE, RuntimeRole.UP})
WORKERS = frozenset({RuntimeRole.WORKER, RuntimeRole.UP})
NEED_TEMPORAL = POLLERS | WORKERS

VERCEL_TARGETS = {"prod": "production", "preview": "preview", "dev": "development"}
"""The Vercel target that a lane is deployed to by default."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """One deployment of the code and its variables.

    Attributes:
        role: What it does, if that is known.
        region: The region that the platform itself gives the process.
        qualifier: The alias of a function.
        conflicting: Names that are set twice, with different values.
        complete: All of its variables were read; otherwise more may be set elsewhere.
        lacking: A part of it that should exist and does not.
    """

    kind: RuntimeKind
    name: str
    environment: Environment
    role: RuntimeRole | None = None
    region: str | None = None
    qualifier: str | None = None
    conflicting: frozenset[str] = frozenset()
    complete: bool = True
    lacking: str | None = None

    @property
    def label(self) -> str:
        return f"{self.kind.value} {self.name}"


@dataclass(frozen=True, slots=True)
class EventSource:
    """An event source mapping from the queue ``source`` (an ARN) to a function.

    Without ``reports_partial``, a failed record counts as handled. Without ``concurrency`` (MaximumConcurrency), a
    backlog of one queue takes all concurrency of the account.
    """

    function: str
    qualifier: str | None
    source: str
    enabled: bool
    reports_partial: bool
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class LaneConfig:
    """What a lane's runtimes are expected to have. ``endpoint``: an emulator's, in place of AWS.

    If the settings of Temporal are None, the runtimes only have to agree on them.
    """

    names: Names
    location: Location
    endpoint: str | None = None
    temporal_address: str | None = None
    temporal_namespace: str | None = None


class LaneFault(StrEnum):
    """``missing``: not set, and the default is not right. ``crossed``: leads to another lane, or not where the lane's
    other runtimes lead. ``invalid``: no process would start with it. ``unknown``: no such setting, most likely a typo.
    """

    MISSING = "missing"
    CROSSED = "crossed"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LaneFinding:
    """A setting that is not as expected. ``actual``: None if it is not set, or must not be shown."""

    fault: LaneFault
    kind: RuntimeKind
    runtime: str
    setting: str
    actual: str | None
    expected: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A setting that could not be compared. ``secret``: it never is. ``present``: False if it may be set elsewhere."""

    kind: RuntimeKind
    runtime: str
    setting: str
    secret: bool
    present: bool = True


@dataclass(frozen=True, slots=True)
class LaneReport:
    findings: tuple[LaneFinding, ...]
    unread: tuple[Unread, ...]
