"""What has to be done so that a function serves as wanted, decided before the first write, pure.

A version serves once the alias names it. So everything before the alias moves can be repeated, and harms nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afterturn.errors import ConfigError
from afterturn.operations.deploy import history
from afterturn.operations.deploy.functions import ALIAS, TIMEOUT_S, Part, Wanted
from afterturn.operations.deploy.tidying import KEPT, stale
from afterturn.operations.lanes import Bearer
from afterturn.operations.plan import Act, Change
from afterturn.operations.resources import LANE_TAG

BATCH = 10
"""The most that Lambda takes at a time from a FIFO queue."""

REPORTED = ["ReportBatchItemFailures"]

Told = Mapping[str, Any]
"""An answer of Lambda, or a part of one, with its keys."""


@dataclass(frozen=True, slots=True)
class Source:
    """A queue that the function reads. ``mappings``: whatever reads it by Lambda, ours and others'."""

    name: str
    arn: str
    visibility_s: int
    mappings: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What of a function is there.

    ``latest``: as it would be published now. ``newest``: its newest published version. ``alias``: as GetAlias says.
    ``url``: of the alias. ``policy``: who may call the alias. ``versions``: the numbers of all that are published.
    ``aliases``: all that it has, for they name versions.
    """

    latest: Told | None = field(default=None, repr=False)
    newest: Told | None = field(default=None, repr=False)
    tags: Mapping[str, str] = field(default_factory=dict)
    alias: Told | None = None
    url: Told | None = None
    policy: Told = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    versions: tuple[int, ...] = ()
    aliases: tuple[Told, ...] = ()

    @property
    def variables(self) -> Mapping[str, str]:
        return {} if self.latest is None else self.latest.get("Environment", {}).get("Variables", {})

    @property
    def serving(self) -> str | None:
        """The version that the alias names."""
        return None if self.alias is None else str(self.alias["FunctionVersion"])

    def before(self, version: str | None) -> str | None:
        """What a rollback goes back to, once ``version`` serves."""
        if self.alias is None or self.serving != version:
            return self.serving
        return history.before(self.alias)


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one thing; ``subject``: what the call that does it has to be told, where the name is not it."""

    kind: str
    name: str
    act: Act
    changes: tuple[Change, ...] = ()
    subject: Any = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "action": self.act.value,
            "changes": {one.name: {"found": one.found, "wanted": one.wanted} for one in self.changes},
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Its steps, in the order in which they are done; the smoke check stands before the alias."""

    function: Step
    version: Step
    alias: Step
    after: tuple[Step, ...]
    stale: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        return (self.function, self.version, self.alias, *self.after, *self.stale)

    @property
    def changes(self) -> int:
        return sum(step.act is not Act.UNCHANGED for step in self.steps)


def plan(wanted: Wanted, found: Found, arn: str, *, keep: int = KEPT) -> Plan:
    """``arn``: of the function. ``keep``: versions that stay, see :func:`stale`.

    Raises ConfigError where something of another make is in the way.
    """
    function = _function(wanted, found)
    published = None if found.newest is None or not is_as(wanted, found.newest) else str(found.newest["Version"])
    # A version that lags behind what would be published now is published anew, whatever it was.
    if function.act is not Act.UNCHANGED:
        published = None
    version = Step("version", published or "new", Act.UNCHANGED if published else Act.CREATE, subject=published)
    alias = _alias(found, published)
    old = stale(found.versions, _aliases(found, alias, published), keep=keep, coming=published is None)
    after = _after(wanted, found, arn)
    return Plan(function, version, alias, after, tuple(Step("version", one, Act.DELETE) for one in old))


def check_owner(name: str, found: Found) -> Iterable[Bearer]:
    """The function, as one who bears a lane. Raises ConfigError for one that is not ours."""
    if found.latest is None:
        return
    bearer = Bearer(f"function {name}", found.tags)
    if bearer.lane is None:
        raise ConfigError(
            f"function {name} bears no lane (tag {LANE_TAG}), so it is not afterturn's; nothing was changed. Where it "
            "is, tag it with its lane by hand"
        )
    yield bearer


def _function(wanted: Wanted, found: Found) -> Step:
    there = found.latest
    if there is None:
        if wanted.role is None:
            raise ConfigError(
                f"function {wanted.name} is not there yet: say with --role ARN as whom it runs (what that role must "
                "allow is in the how-to on deploying); nothing was changed"
            )
        return Step("function", wanted.name, Act.CREATE, tuple(_variable_changes({}, wanted.variables)))
    changes = list(_changes(wanted, there))
    return Step("function", wanted.name, Act.UPDATE if changes else Act.UNCHANGED, tuple(changes))


def _changes(wanted: Wanted, there: Told) -> Iterable[Change]:
    if there.get("CodeSha256") != wanted.sha256:
        yield Change("code", there.get("CodeSha256"), wanted.sha256)
    if (found := list(there.get("Architectures") or ["x86_64"])) != [wanted.architecture]:
        yield Change("Architectures", found, [wanted.architecture])
    if wanted.role is not None and there.get("Role") != wanted.role:
        yield Change("Role", there.get("Role"), wanted.role)
    for name, value in wanted.configuration.items():
        if there.get(name) != value:
            yield Change(name, there.get(name), value)
    yield from _variable_changes(there.get("Environment", {}).get("Variables", {}), wanted.variables)


def _variable_changes(found: Mapping[str, str], wanted: Mapping[str, str]) -> Iterable[Change]:
    """By name only: a value can be a secret."""
    for name in sorted(found.keys() | wanted.keys()):
        if name not in found:
            yield Change(f"variable {name}", None, "set")
        elif name not in wanted:
            yield Change(f"variable {name}", "set", None)
        elif found[name] != wanted[name]:
            yield Change(f"variable {name}", "set", "set anew")


def is_as(wanted: Wanted, there: Told) -> bool:
    """Whether a configuration that Lambda tells is as wanted, code and all."""
    return next(iter(_changes(wanted, there)), None) is None


def _alias(found: Found, published: str | None) -> Step:
    if found.alias is None:
        return Step("alias", ALIAS, Act.CREATE, (Change("FunctionVersion", None, published or "new"),))
    changes = []
    if published is None or found.serving != published:
        changes.append(Change("FunctionVersion", found.serving, published or "new"))
    if weights := found.alias.get("RoutingConfig", {}).get("AdditionalVersionWeights"):
        changes.append(Change("AdditionalVersionWeights", dict(weights), {}))
    return Step("alias", ALIAS, Act.UPDATE if changes else Act.UNCHANGED, tuple(changes))


def _aliases(found: Found, step: Step, published: str | None) -> Iterable[Told]:
    """All of them, as they will be."""
    yield from (one for one in found.aliases if one.get("Name") != ALIAS)
    if step.act is not Act.UNCHANGED:
        yield {"FunctionVersion": published, "Description": history.deployed(found.before(published))}
    elif found.alias is not None:
        yield found.alias


def _after(wanted: Wanted, found: Found, arn: str) -> tuple[Step, ...]:
    if wanted.part is Part.BRIDGE:
        return tuple(_mapping(source, arn) for source in found.sources if wanted.mapped)
    return (_url(found), *_permissions(found))


def _mapping(source: Source, arn: str) -> Step:
    """The one mapping of a queue. A second poller would take records away from the first."""
    check_visibility(source)
    alias = f"{arn}:{ALIAS}"
    for one in source.mappings:
        reader = str(one.get("FunctionArn"))
        if reader != arn and not reader.startswith(f"{arn}:"):
            raise ConfigError(
                f"function {reader} reads queue {source.name} already, and a second reader would take its records "
                f"away: delete its mapping ({one.get('UUID')}) first; nothing was changed"
            )
    if len(source.mappings) > 1:
        ids = ", ".join(str(one.get("UUID")) for one in source.mappings)
        raise ConfigError(
            f"queue {source.name} has {len(source.mappings)} mappings to this function ({ids}), and may have one: "
            "delete the others first; nothing was changed"
        )
    if not source.mappings:
        return Step("mapping", source.name, Act.CREATE, subject={**mapping_of(alias), "EventSourceArn": source.arn})
    (there,) = source.mappings
    changes = tuple(_mapping_changes(there, alias))
    subject = {"UUID": there["UUID"], **mapping_of(alias), "FilterCriteria": {}}
    return Step("mapping", source.name, Act.UPDATE if changes else Act.UNCHANGED, changes, subject)


def mapping_of(alias: str) -> dict[str, Any]:
    """Parameters of CreateEventSourceMapping and of UpdateEventSourceMapping."""
    return {"FunctionName": alias, "BatchSize": BATCH, "FunctionResponseTypes": REPORTED, "Enabled": True}


def _mapping_changes(there: Told, alias: str) -> Iterable[Change]:
    if there.get("FunctionArn") != alias:
        yield Change("FunctionArn", there.get("FunctionArn"), alias)
    if there.get("BatchSize") != BATCH:
        yield Change("BatchSize", there.get("BatchSize"), BATCH)
    if list(there.get("FunctionResponseTypes") or ()) != REPORTED:
        yield Change("FunctionResponseTypes", list(there.get("FunctionResponseTypes") or ()), REPORTED)
    if there.get("State") in ("Disabled", "Disabling"):
        yield Change("State", there.get("State"), "Enabled")
    if filters := there.get("FilterCriteria", {}).get("Filters"):
        yield Change("FilterCriteria", filters, None)  # what a filter leaves out is deleted unseen


def check_visibility(source: Source) -> None:
    """Raise ConfigError for a queue whose records would come back while the function still has them."""
    if source.visibility_s < 6 * TIMEOUT_S:
        raise ConfigError(
            f"queue {source.name} hides a record for {source.visibility_s} s, and a function that may take "
            f"{TIMEOUT_S} s needs {6 * TIMEOUT_S} s: `afterturn aws provision` sets it right; nothing was changed"
        )


def _url(found: Found) -> Step:
    if found.url is None:
        return Step("url", ALIAS, Act.CREATE, (Change("AuthType", None, "NONE"),))
    changes = tuple(
        Change(name, found.url.get(name), value)
        for name, value in (("AuthType", "NONE"), ("InvokeMode", "BUFFERED"))
        if found.url.get(name, value) != value
    )
    return Step("url", ALIAS, Act.UPDATE if changes else Act.UNCHANGED, changes)


PERMISSIONS: Mapping[str, Mapping[str, Any]] = {
    "afterturn-url": {"Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "NONE"},
    "afterturn-url-invoke": {"Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": True},
}
"""What lets everybody call the URL, and nothing else of the function: Lambda asks for both since October 2025."""


def _permissions(found: Found) -> Iterable[Step]:
    statements: Sequence[Told] = found.policy.get("Statement", ())
    there = {str(one.get("Sid")) for one in statements}
    for name, given in PERMISSIONS.items():
        yield Step("permission", name, Act.UNCHANGED if name in there else Act.CREATE, subject=given)


def read_policy(text: str) -> Told:
    """GetPolicy gives it as text."""
    policy = json.loads(text)
    return policy if isinstance(policy, dict) else {}
