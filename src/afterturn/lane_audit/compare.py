"""The wires of a lane's runtimes against what the lane wants, and against each other. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from afterturn.aws.names import LANES
from afterturn.config import PREFIX, VARIABLES
from afterturn.lane_audit.event_sources import event_source_findings
from afterturn.lane_audit.settings import (
    ENDPOINTS,
    PRIVATE,
    REGIONS,
    SECRET,
    default,
    meant,
    shown,
    understood,
    variable,
)
from afterturn.lane_audit.types import (
    NEED_TEMPORAL,
    WORKERS,
    EventSource,
    LaneConfig,
    LaneFault,
    LaneFinding,
    LaneReport,
    Runtime,
    RuntimeRole,
    Unread,
)

PROFILE, LANE, TABLE, REGION = map(variable, ("profile", "lane", "table", "aws_region"))
ENDPOINT, EMITTER, ACCOUNT = map(variable, ("aws_endpoint_url", "emitter", "aws_account"))
APP = variable("app")
ADDRESS, NAMESPACE, KEY = map(variable, ("temporal_address", "temporal_namespace", "temporal_api_key"))

ALIKE = (ADDRESS, NAMESPACE)
"""What all runtimes of a lane share."""
ALIKE_IN_WORKERS = tuple(
    map(variable, ("effects_max_age", "effects_for_history", "webhook_url", "alert_url", "taxonomy", "model"))
)
"""Which worker runs a reaction is chance, so that it must not matter."""

_EMITS = {
    RuntimeRole.WEB: "web",
    RuntimeRole.INBOUND: "inbound-lambda",
    RuntimeRole.WORKER: "worker",
    RuntimeRole.UP: "worker",
}
_SIGNED = ("webhook", "alert")


def audit(wanted: LaneConfig, runtimes: Sequence[Runtime], feeds: Sequence[EventSource] = ()) -> LaneReport:
    """Every missing or crossed wire, and every one that is there but could not be compared."""
    sets = [_Set.of(one) for one in runtimes]
    findings: list[LaneFinding] = []
    unread: list[Unread] = []
    for one in sets:
        own = list(_findings(wanted, one))
        if one.runtime.lacking is not None:
            own.insert(0, one.missing(one.runtime.lacking, "it to be there"))
        findings += own
        unread += _unread(one, {finding.setting for finding in own})
    findings += _disagreements(wanted, sets)
    findings += event_source_findings(wanted, runtimes, feeds)
    return LaneReport(tuple(dict.fromkeys(findings)), tuple(unread))


@dataclass(frozen=True, slots=True)
class _Set:
    """A runtime as its process sees it. ``given``: what can be read; ``hidden``: names of what cannot."""

    runtime: Runtime
    given: Mapping[str, str]
    hidden: frozenset[str]
    values: Mapping[str, object]
    problems: Mapping[str, str]

    @classmethod
    def of(cls, runtime: Runtime) -> _Set:
        """Settings' names are taken in any case, as pydantic takes them."""
        named = {
            (name.upper() if name.upper() in VARIABLES else name): value for name, value in runtime.environment.items()
        }
        given = {name: value for name, value in named.items() if value is not None}
        hidden = frozenset(named) - frozenset(given)
        return cls(runtime, given, hidden, *understood(given))

    def absent(self, name: str) -> bool:
        """Neither there nor possibly there."""
        return name not in self.given and name not in self.hidden and self.runtime.complete

    def has(self, name: str) -> bool:
        """Whether a secret is there, as far as one can see."""
        return name in self.hidden or bool(self.given.get(name)) or (name not in self.given and not self.runtime.complete)

    def value(self, name: str) -> object:
        """As a process has it; what is no setting, as it is written."""
        return self.values.get(name, self.given.get(name))

    def missing(self, wire: str, wanted: str, found: str | None = None) -> LaneFinding:
        return LaneFinding(LaneFault.MISSING, self.runtime.kind, self.runtime.name, wire, found, wanted)

    def crossed(self, wire: str, wanted: str) -> LaneFinding:
        found = shown(wire, self.given[wire]) if wire in self.given else None
        return LaneFinding(LaneFault.CROSSED, self.runtime.kind, self.runtime.name, wire, found, wanted)


def _findings(wanted: LaneConfig, one: _Set) -> Iterator[LaneFinding]:
    found = [
        *_exact(one, PROFILE, "aws"),
        *_exact(one, LANE, wanted.names.lane),
        *_table(wanted, one),
        *_region(wanted, one),
        *_endpoints(wanted, one),
        *_account(wanted, one),
        *_emitter(one),
        *_temporal(wanted, one),
        *_signatures(one),
    ]
    yield from found
    told = {finding.setting for finding in found}
    for name, problem in one.problems.items():
        if name not in told:
            yield LaneFinding(LaneFault.INVALID, one.runtime.kind, one.runtime.name, name, None, problem)
    for name in sorted(one.runtime.conflicting - told):
        yield LaneFinding(
            LaneFault.CROSSED, one.runtime.kind, one.runtime.name, name, "two different values", "one: readers differ"
        )
    for name in sorted({*one.given, *one.hidden} - VARIABLES - {*REGIONS, *ENDPOINTS}):
        near = meant(name.upper())
        if name.upper().startswith(PREFIX) or near is not None:
            hint = f"a setting; did you mean {near}?" if near else "a setting; there is none of that name"
            yield LaneFinding(LaneFault.UNKNOWN, one.runtime.kind, one.runtime.name, name, None, hint)


def _exact(one: _Set, name: str, value: str) -> Iterator[LaneFinding]:
    """A setting that has to be this, be it said or by default."""
    if one.absent(name):
        if (given := default(name)) != value:
            yield one.missing(name, value, f"nothing, so that it is {given}" if given is not None else None)
    elif name in one.given and one.given[name] != value:
        yield one.crossed(name, value) if one.given[name] else one.missing(name, value, "nothing")


def _table(wanted: LaneConfig, one: _Set) -> Iterator[LaneFinding]:
    """Named by the lane where nothing is said; a lane that is wrong is told as that."""
    table = wanted.names.table
    if not one.absent(TABLE) or table != f"afterturn-{wanted.names.lane}":
        yield from _exact(one, TABLE, table)


def _region(wanted: LaneConfig, one: _Set) -> Iterator[LaneFinding]:
    region = wanted.location.region
    for name in (REGION, *REGIONS):
        if name in one.hidden:
            return
        if one.given.get(name):
            if one.given[name] != region:
                yield one.crossed(name, region)
            return
    if one.runtime.region not in (None, region):
        yield LaneFinding(LaneFault.CROSSED, one.runtime.kind, one.runtime.name, REGION, one.runtime.region, region)
    elif one.runtime.region is None and one.runtime.complete:
        yield one.missing(REGION, region)


def _endpoints(wanted: LaneConfig, one: _Set) -> Iterator[LaneFinding]:
    """Nothing in an account goes to another endpoint than AWS's own."""
    for name in (ENDPOINT, *ENDPOINTS):
        value = one.given.get(name)
        if value is not None and (value or name == ENDPOINT) and value != wanted.endpoint:
            yield one.crossed(name, wanted.endpoint or "none: AWS itself")


def _account(wanted: LaneConfig, one: _Set) -> Iterator[LaneFinding]:
    if one.given.get(ACCOUNT) not in (None, wanted.location.account):
        yield one.crossed(ACCOUNT, wanted.location.account)


def _emitter(one: _Set) -> Iterator[LaneFinding]:
    if one.runtime.role in _EMITS:
        yield from _exact(one, EMITTER, _EMITS[one.runtime.role])


def _temporal(wanted: LaneConfig, one: _Set) -> Iterator[LaneFinding]:
    needed = one.runtime.role in NEED_TEMPORAL
    for name, value in ((ADDRESS, wanted.temporal_address), (NAMESPACE, wanted.temporal_namespace)):
        if not needed and one.absent(name):
            continue
        if value is not None:
            yield from _exact(one, name, value)
        elif (other := _other_lane(one.given.get(name, ""), wanted.names.lane)) is not None:
            yield one.crossed(name, f"one that is not lane {other}'s by its name")
    if not needed:
        return
    if wanted.temporal_address is None:
        if one.absent(ADDRESS) or one.given.get(ADDRESS) == "":
            yield one.missing(
                ADDRESS, "the address of the lane's Temporal", f"nothing, so that it is {default(ADDRESS)}"
            )
        elif _host(one.given.get(ADDRESS, "")) in ("localhost", "127.0.0.1", "[::1]"):
            yield one.crossed(ADDRESS, "the address of the lane's Temporal, not of the machine itself")
    if _is_cloud(one.given.get(ADDRESS, "")) and not one.has(KEY):
        yield one.missing(KEY, "an API key: Temporal Cloud lets nobody in without")


def _signatures(one: _Set) -> Iterator[LaneFinding]:
    """What is delivered has to be signed; without a secret no process starts."""
    for name in _SIGNED:
        if one.given.get(variable(f"{name}_url")) and not one.has(variable(f"{name}_secret")):
            yield one.missing(variable(f"{name}_secret"), f"a secret, since {variable(f'{name}_url')} is set")


def _unread(one: _Set, told: set[str]) -> Iterator[Unread]:
    """What a runtime has and hides; and what it lacks, where it may have more than was read."""
    for name in sorted(one.hidden & VARIABLES | one.hidden & {*REGIONS, *ENDPOINTS}):
        yield Unread(one.runtime.kind, one.runtime.name, name, secret=name in SECRET)
    if not one.runtime.complete:
        for name in (PROFILE, LANE):
            if name not in one.given and name not in one.hidden and name not in told:
                yield Unread(one.runtime.kind, one.runtime.name, name, secret=False, present=False)


def _disagreements(wanted: LaneConfig, sets: Iterable[_Set]) -> Iterator[LaneFinding]:
    settled = {ADDRESS: wanted.temporal_address, NAMESPACE: wanted.temporal_namespace}
    sets = list(sets)
    for name in ALIKE:
        if settled[name] is None:
            yield from _unlike(name, [one for one in sets if name in one.given or _effective(one, name, NEED_TEMPORAL)])
    yield from _unlike(APP, [one for one in sets if one.runtime.role in NEED_TEMPORAL and one.given.get(APP)])
    workers = [one for one in sets if one.runtime.role in WORKERS]
    for name in ALIKE_IN_WORKERS:
        yield from _unlike(name, [one for one in workers if name in one.given or one.absent(name)])


def _effective(one: _Set, name: str, roles: frozenset[RuntimeRole]) -> bool:
    return one.runtime.role in roles and one.absent(name)


def _unlike(name: str, sets: Sequence[_Set]) -> Iterator[LaneFinding]:
    """Those that differ from the most; where there is no majority, all of them."""
    sound = [one for one in sets if name not in one.problems]
    ranked = Counter(one.value(name) for one in sound).most_common()
    if len(ranked) < 2:
        return
    tie = ranked[0][1] == ranked[1][1]
    usual = ranked[0][0]
    for one in sound:
        value = one.value(name)
        if value != usual or tie:
            other = next(each for each in sound if (each.value(name) != value if tie else each.value(name) == usual))
            like = None if name in PRIVATE or name not in other.given else shown(name, other.given[name])
            found = None if name in PRIVATE else shown(name, one.given[name]) if name in one.given else "the default"
            text = f"{like or ('the same' if name in PRIVATE else 'the default')}, as in {other.runtime.label}"
            yield LaneFinding(LaneFault.CROSSED, one.runtime.kind, one.runtime.name, name, found, text)


def _other_lane(value: str, lane: str) -> str | None:
    words = set(re.split(r"[^a-z]+", value.lower()))
    return next((other for other in LANES if other != lane and other in words), None) if lane not in words else None


def _host(address: str) -> str:
    return address.rpartition(":")[0] if ":" in address else address


def _is_cloud(address: str) -> bool:
    return _host(address).lower().endswith((".tmprl.cloud", ".api.temporal.io"))
