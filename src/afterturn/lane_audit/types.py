"""What is compared, and what comes of it: records without a rule."""

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
    """The lane as a whole, for what no runtime of it does."""


class RuntimeRole(StrEnum):
    """What a runtime does. ``up`` is bridge and worker in one process, as `afterturn up` is."""

    WEB = "web"
    INBOUND = "inbound-lambda"
    BRIDGE = "bridge"
    WORKER = "worker"
    UP = "up"


POLLERS = frozenset({RuntimeRole.BRIDGE, RuntimeRole.UP})
WORKERS = frozenset({RuntimeRole.WORKER, RuntimeRole.UP})
NEED_TEMPORAL = POLLERS | WORKERS


TARGETS = {"prod": "production", "preview": "preview", "dev": "development"}
"""The Vercel target that a lane is deployed to by default."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """One deployment of the code and its variables.

    ``role``: as far as one knows. ``region``: the one that the platform itself gives the process. ``qualifier``: the
    alias of a function. ``twice``: names that are set twice, with different values. ``whole``: there are no more
    variables in a place that was not read. ``lacks``: what of it should be there and is not.
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
    """An event source mapping. ``function``: without its qualifier; ``source``: an ARN."""

    function: str
    qualifier: str | None
    source: str
    enabled: bool
    reports_partial: bool
    """Whether the function's answer names the records that failed: without it, a failure is taken for success."""
    concurrency: int | None = None
    """MaximumConcurrency: without it, a backlog of one queue takes all concurrency of the account."""


@dataclass(frozen=True, slots=True)
class LaneConfig:
    """What a lane's runtimes have to be wired to. ``endpoint``: of an emulator, in place of AWS.

    Where nothing is said of Temporal, the runtimes only have to agree.
    """

    names: Names
    location: Location
    endpoint: str | None = None
    temporal_address: str | None = None
    temporal_namespace: str | None = None


class LaneFault(StrEnum):
    """``missing``: not set, and the default is not right. ``crossed``: leads elsewhere than the lane's other wires.
    ``invalid``: no process would start with it. ``unknown``: no such setting, most likely a misspelt one.
    """

    MISSING = "missing"
    CROSSED = "crossed"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LaneFinding:
    """``found``: None where nothing is there, or where it is not to be shown."""

    fault: LaneFault
    kind: RuntimeKind
    runtime: str
    setting: str
    actual: str | None
    expected: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A wire that could not be compared. ``secret``: it never is; that it is there is all. ``present``: it is there,
    and not only perhaps, in a place that was not read.
    """

    kind: RuntimeKind
    runtime: str
    setting: str
    secret: bool
    present: bool = True


@dataclass(frozen=True, slots=True)
class LaneReport:
    findings: tuple[LaneFinding, ...]
    unread: tuple[Unread, ...]
