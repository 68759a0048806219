"""Compares the settings of a lane's runtimes with what the lane expects, and with each other. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from afterturn.aws.lane_audit.settings import (
    ENDPOINTS,
    PRIVATE,
    REGIONS,
    SECRET,
    closest_setting,
    default,
    evaluate,
    shown,
)
from afterturn.aws.lane_audit.types import (
    NEED_TEMPORAL,
    POLLERS,
    WORKERS,
    EventSource,
    LaneConfig,
    LaneFault,
    LaneFinding,
    LaneReport,
    Runtime,
    RuntimeKind,
    RuntimeRole,
    Unread,
)
from afterturn.aws.names import LANES
from afterturn.config import PREFIX, VARIABLES

PROFILE, LANE, TABLE = "AFTERTURN_PROFILE", "AFTERTURN_LANE", "AFTERTURN_TABLE"
REGION, ENDPOINT, ACCOUNT = "AFTERTURN_AWS_REGION", "AFTERTURN_AWS_ENDPOINT_URL", "AFTERTURN_AWS_ACCOUNT"
EMITTER, APP = "AFTERTURN_EMITTER", "AFTERTURN_APP"
ADDRESS, NAMESPACE = "AFTERTURN_TEMPORAL_ADDRESS", "AFTERTURN_TEMPORAL_NAMESPACE"
API_KEY = "AFTERTURN_TEMPORAL_API_KEY"
EVENT_SOURCE = "event source"

ALIKE = (ADDRESS, NAMESPACE)
"""Settings that all runtimes of a lane share."""
ALIKE_IN_WORKERS = tuple(
    f"{PREFIX}{field.upper()}"
    for field in ("effects_max_age", "effects_for_history", "webhook_url", "alert_url", "taxonomy", "model")
)
"""Any worker may run a reaction, so workers must not differ."""

_EMITTERS = {
    RuntimeRole.WEB: "web",
    RuntimeRole.INBOUND: "inbound-lambda",
    RuntimeRole.WORKER: "worker",
    RuntimeRole.UP: "worker",
}
_DRIVER = {*REGIONS, *ENDPOINTS}


def audit(expected: LaneConfig, runtimes: Sequence[Runtime], mappings: Sequence[EventSource] = ()) -> LaneReport:
    """Every missing, crossed, invalid or unknown setting, and every setting that could not be compared."""
    processes = [_Process.of(runtime) for runtime in runtimes]
    findings: list[LaneFinding] = []
    unread: list[Unread] = []
    for process in processes:
        differences = list(_differences(expected, process))
        findings += differences
        unread += _unread(process, {finding.setting for finding in differences})
    findings += _disagreements(expected, processes)
    findings += _event_source_findings(expected, runtimes, mappings)
    return LaneReport(tuple(dict.fromkeys(findings)), tuple(unread))


@dataclass(frozen=True, slots=True)
class _Process:
    """A runtime as its process sees it. ``variables``: those that can be read; ``hidden``: names of the others."""

    runtime: Runtime
    variables: Mapping[str, str]
    hidden: frozenset[str]
    values: Mapping[str, object]
    problems: Mapping[str, str]

    @classmethod
    def of(cls, runtime: Runtime) -> _Process:
        """Names of settings count in any case, as with pydantic."""
        environment = {
            (name.upper() if name.upper() in VARIABLES else name): value for name, value in runtime.environment.items()
        }
        variables = {name: value for name, value in environment.items() if value is not None}
        return cls(runtime, variables, frozenset(environment) - frozenset(variables), *evaluate(variables))

    def lacks(self, name: str) -> bool:
        """Whether a variable is certainly not set."""
        return name not in self.variables and name not in self.hidden and self.runtime.complete

    def may_have(self, name: str) -> bool:
        """Whether a secret is set, as far as it can be seen."""
        return bool(self.variables.get(name)) or (name not in self.variables and not self.lacks(name))

    def value(self, name: str) -> object:
        """The value in the process; that of a variable that is not a setting as it is written."""
        return self.values.get(name, self.variables.get(name))

    def missing(self, setting: str, expected: str, actual: str | None = None) -> LaneFinding:
        return _finding(LaneFault.MISSING, self.runtime, setting, actual, expected)

    def crossed(self, setting: str, expected: str) -> LaneFinding:
        actual = shown(setting, self.variables[setting]) if setting in self.variables else None
        return _finding(LaneFault.CROSSED, self.runtime, setting, actual, expected)

    def is_exactly(self, setting: str, value: str) -> Iterator[LaneFinding]:
        """Check a setting that has to have this value, explicitly or by default."""
        if self.lacks(setting):
            if (fallback := default(setting)) != value:
                yield self.missing(setting, value, None if fallback is None else f"nothing, so that it is {fallback}")
        elif setting in self.variables and self.variables[setting] != value:
            if self.variables[setting]:
                yield self.crossed(setting, value)
            else:
                yield self.missing(setting, value, "nothing")


def _finding(fault: LaneFault, runtime: Runtime, setting: str, actual: str | None, expected: str) -> LaneFinding:
    return LaneFinding(fault, runtime.kind, runtime.name, setting, actual, expected)


def _differences(expected: LaneConfig, process: _Process) -> Iterator[LaneFinding]:
    runtime, variables = process.runtime, process.variables
    if runtime.lacking is not None:
        yield process.missing(runtime.lacking, "it to be there")
    findings = [
        *process.is_exactly(PROFILE, "aws"),
        *process.is_exactly(LANE, expected.names.lane),
        *_place(expected, process),
        *_temporal(expected, process),
    ]
    if runtime.role in _EMITTERS:
        findings += process.is_exactly(EMITTER, _EMITTERS[runtime.role])
    for name in ("WEBHOOK", "ALERT"):  # what they deliver is signed; without a secret no process starts
        if variables.get(f"{PREFIX}{name}_URL") and not process.may_have(f"{PREFIX}{name}_SECRET"):
            findings.append(process.missing(f"{PREFIX}{name}_SECRET", f"a secret, since {PREFIX}{name}_URL is set"))
    yield from findings
    reported = {finding.setting for finding in findings}
    for name, problem in process.problems.items():
        if name not in reported:
            yield _finding(LaneFault.INVALID, runtime, name, None, problem)
    for name in sorted(runtime.conflicting - reported):
        yield _finding(LaneFault.CROSSED, runtime, name, "two different values", "one: readers differ")
    for name in sorted({*variables, *process.hidden} - VARIABLES - _DRIVER):
        closest = closest_setting(name.upper())
        if name.upper().startswith(PREFIX) or closest is not None:
            hint = f"a setting; did you mean {closest}?" if closest else "a setting; there is none of that name"
            yield _finding(LaneFault.UNKNOWN, runtime, name, None, hint)


def _place(expected: LaneConfig, process: _Process) -> Iterator[LaneFinding]:
    """Table, region, endpoint and account."""
    runtime, variables = process.runtime, process.variables
    if not (process.lacks(TABLE) and expected.names.has_default_table):  # the default follows from the lane
        yield from process.is_exactly(TABLE, expected.names.table)
    region = expected.location.region
    source = next((name for name in (REGION, *REGIONS) if name in process.hidden or variables.get(name)), None)
    if source is not None:
        if variables.get(source) not in (None, region):
            yield process.crossed(source, region)
    elif runtime.region not in (None, region):
        yield _finding(LaneFault.CROSSED, runtime, REGION, runtime.region, region)
    elif runtime.region is None and runtime.complete:
        yield process.missing(REGION, region)
    for name in (ENDPOINT, *ENDPOINTS):
        endpoint = variables.get(name)
        if endpoint is not None and (endpoint or name == ENDPOINT) and endpoint != expected.endpoint:
            yield process.crossed(name, expected.endpoint or "none: AWS itself")
    if variables.get(ACCOUNT) not in (None, expected.location.account):
        yield process.crossed(ACCOUNT, expected.location.account)


def _temporal(expected: LaneConfig, process: _Process) -> Iterator[LaneFinding]:
    is_needed = process.runtime.role in NEED_TEMPORAL
    address = process.variables.get(ADDRESS, "")
    host = address.rpartition(":")[0] if ":" in address else address
    for name, value in ((ADDRESS, expected.temporal_address), (NAMESPACE, expected.temporal_namespace)):
        if not is_needed and process.lacks(name):
            continue
        if value is not None:
            yield from process.is_exactly(name, value)
        elif (other := _other_lane(process.variables.get(name, ""), expected.names.lane)) is not None:
            yield process.crossed(name, f"one that is not lane {other}'s by its name")
    if not is_needed:
        return
    if expected.temporal_address is None:
        if process.lacks(ADDRESS) or process.variables.get(ADDRESS) == "":
            fallback = f"nothing, so that it is {default(ADDRESS)}"
            yield process.missing(ADDRESS, "the address of the lane's Temporal", fallback)
        elif host in ("localhost", "127.0.0.1", "[::1]"):
            yield process.crossed(ADDRESS, "the address of the lane's Temporal, not of the machine itself")
    if host.lower().endswith((".tmprl.cloud", ".api.temporal.io")) and not process.may_have(API_KEY):
        yield process.missing(API_KEY, "an API key: Temporal Cloud lets nobody in without")


def _other_lane(value: str, lane: str) -> str | None:
    words = set(re.split(r"[^a-z]+", value.lower()))
    return next((other for other in LANES if other != lane and other in words), None) if lane not in words else None


def _unread(process: _Process, reported: set[str]) -> Iterator[Unread]:
    """Settings that are set and hidden, and those that may be set where nothing was read."""
    runtime = process.runtime
    for name in sorted(process.hidden & (VARIABLES | _DRIVER)):
        yield Unread(runtime.kind, runtime.name, name, secret=name in SECRET)
    if not runtime.complete:
        for name in (PROFILE, LANE):
            if name not in process.variables and name not in process.hidden and name not in reported:
                yield Unread(runtime.kind, runtime.name, name, secret=False, present=False)


def _disagreements(expected: LaneConfig, processes: Sequence[_Process]) -> Iterator[LaneFinding]:
    """Settings that have to be alike, whatever they are."""
    with_temporal = [process for process in processes if process.runtime.role in NEED_TEMPORAL]
    workers = [process for process in processes if process.runtime.role in WORKERS]
    for name, value in zip(ALIKE, (expected.temporal_address, expected.temporal_namespace), strict=True):
        if value is None:
            sharing = [each for each in processes if name in each.variables]
            sharing += [each for each in with_temporal if each.lacks(name)]
            yield from _unlike(name, sharing)
    yield from _unlike(APP, [process for process in with_temporal if process.variables.get(APP)])
    for name in ALIKE_IN_WORKERS:
        yield from _unlike(name, [process for process in workers if name in process.variables or process.lacks(name)])


def _unlike(name: str, processes: Sequence[_Process]) -> Iterator[LaneFinding]:
    """Those that differ from the majority; all of them if there is none."""
    valid = [process for process in processes if name not in process.problems]
    ranked = Counter(process.value(name) for process in valid).most_common()
    if len(ranked) < 2:
        return
    usual, is_tie = ranked[0][0], ranked[0][1] == ranked[1][1]

    def text(process: _Process, fallback: str | None) -> str | None:
        return shown(name, process.variables[name]) if name in process.variables else fallback

    for process in valid:
        value = process.value(name)
        if value != usual or is_tie:
            other = next(each for each in valid if (each.value(name) != value if is_tie else each.value(name) == usual))
            actual = None if name in PRIVATE else text(process, "the default")
            like = "the same" if name in PRIVATE else text(other, None) or "the default"
            yield _finding(LaneFault.CROSSED, process.runtime, name, actual, f"{like}, as in {other.runtime.label}")


def _event_source_findings(
    expected: LaneConfig, runtimes: Sequence[Runtime], mappings: Sequence[EventSource]
) -> Iterator[LaneFinding]:
    """Each queue of the lane has one reader, the lane's bridge, which reads nothing else."""
    bridges = [each for each in runtimes if each.kind is RuntimeKind.LAMBDA and each.role is RuntimeRole.BRIDGE]
    pollers = [each for each in runtimes if each.kind is not RuntimeKind.LAMBDA and each.role in POLLERS]
    functions = {bridge.name.partition(":")[0] for bridge in bridges}
    queues = {expected.location.queue_arn(name): name for name in (expected.names.main, expected.names.retry)}
    for mapping in mappings:
        yield from _wrong_reader(expected, mapping, queues, functions)
    live = [each for each in mappings if each.enabled and each.function in functions and each.source in queues]
    for bridge in bridges:
        for arn, queue in queues.items():
            yield from _bridge_findings(bridge, arn, queue, mappings)
    for poller in pollers:
        for mapping in live:
            actual = f"{queues[mapping.source]} polled, and {mapping.function} invoked from it"
            yield _finding(LaneFault.CROSSED, poller, EVENT_SOURCE, actual, "one reader: two lose records")
    if not bridges and not pollers:
        yield LaneFinding(
            LaneFault.MISSING,
            RuntimeKind.LANE,
            expected.names.lane,
            "bridge",
            None,
            f"a reader of {expected.names.main}: a function {expected.names.function('bridge')}, or one that is named "
            "with the role bridge or up",
        )


def _wrong_reader(
    expected: LaneConfig, mapping: EventSource, queues: Mapping[str, str], bridges: set[str]
) -> Iterator[LaneFinding]:
    names = expected.names
    is_undeployed = not mapping.enabled and mapping.function == names.function("bridge")
    prefix, _, queue = mapping.source.rpartition(":")
    if mapping.source in queues:
        if mapping.function in bridges or is_undeployed:
            return
        allowed = f"nothing of lane {names.lane}: its bridge alone reads that queue"
    elif mapping.function in bridges:
        allowed = f"{names.main} and {names.retry} alone"
    elif queue.startswith("afterturn-"):
        allowed = "no queue of afterturn: bridges read those"
    else:
        return
    runtime = f"{mapping.function}:{mapping.qualifier}" if mapping.qualifier else mapping.function
    actual = queue if prefix == expected.location.queue_arn("").rstrip(":") else mapping.source
    yield LaneFinding(LaneFault.CROSSED, RuntimeKind.LAMBDA, runtime, EVENT_SOURCE, actual, allowed)


def _bridge_findings(bridge: Runtime, arn: str, queue: str, mappings: Sequence[EventSource]) -> Iterator[LaneFinding]:
    """Whether a queue invokes the bridge, at the right alias and as it has to."""
    function = bridge.name.partition(":")[0]
    of_queue = [each for each in mappings if each.function == function and each.source == arn]
    live = [mapping for mapping in of_queue if mapping.enabled]
    if not live:
        actual = "a mapping that is switched off" if of_queue else None
        yield _finding(LaneFault.MISSING, bridge, EVENT_SOURCE, actual, queue)
    for mapping in live:
        if mapping.qualifier != bridge.qualifier:
            actual, required = (
                f"{queue} for {qualifier or 'the function without an alias'}"
                for qualifier in (mapping.qualifier, bridge.qualifier)
            )
            yield _finding(LaneFault.CROSSED, bridge, EVENT_SOURCE, actual, required)
        if not mapping.reports_partial:
            yield _finding(LaneFault.MISSING, bridge, EVENT_SOURCE, queue, f"{queue} with ReportBatchItemFailures")
        if mapping.concurrency is None:
            yield _finding(LaneFault.MISSING, bridge, EVENT_SOURCE, queue, f"{queue} with MaximumConcurrency")
