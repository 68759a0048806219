"""Releases of the lane's Lambda functions: deploy a version, and roll back to the one before.

A version serves once the alias names it. So everything before the alias moves can be repeated, and affects nobody: a
deployment that is stopped anywhere is completed by the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afterturn.aws import stack
from afterturn.aws.account import Account, Tagged, check_lane
from afterturn.aws.errors import code_of, if_exists, translated
from afterturn.aws.names import Names
from afterturn.aws.package import Package
from afterturn.aws.session import list_all
from afterturn.aws.stack import ALIAS, FIRST_VERSION, FUNCTIONS, Patience, TimedOut
from afterturn.errors import AfterturnError, ConfigError, InvalidInput, NotFound, StoreBusy, StoreError, StoreForeign
from afterturn.model import Emitter

KEPT = 5
"""Published versions that stay by default, the live one among them."""

MAX_ENVIRONMENT = 4_096
"""Bytes that names and values of a function's variables may have together."""

PROBE = {"afterturn": "probe"}

_LONGEST_ERROR = 400
_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]+\Z")
_BRIDGE_SETTINGS = frozenset(
    {"APP", "LEASE", "LOG_LEVEL", "TEMPORAL_ADDRESS", "TEMPORAL_API_KEY", "TEMPORAL_NAMESPACE"}
)
_NOT_FOR_WEBHOOKS = re.compile(
    r"(ALERT|AWS|EFFECTS|LOCAL|TEMPORAL|TEST|WEBHOOK)_.+"
    r"|APP|BRIDGE_POLLS|BUSY_TIMEOUT|DB|EMITTER|GRACE|LANE|LEASE|LONG_POLL|MODEL|POLL|PROFILE|SLOTS|SWEEP_EVERY|TABLE"
    r"|TAXONOMY"
)
"""Settings of the shell that the webhooks do not need: a secret goes nowhere without a need."""

_DEPLOYED = re.compile(r"deployed in place of version (\d+)\Z")
_ROLLED_BACK = re.compile(r"rolled back from version (\d+)\Z")
_PUBLISHED_WITH = ("Runtime", "MemorySize", "Timeout", "Handler", "Role", "Architectures")

Report = Callable[[str], None]


class Part(StrEnum):
    """``bridge``: invoked by SQS. ``webhooks``: invoked by providers, through a URL."""

    BRIDGE = "bridge"
    WEBHOOKS = "webhooks"


EMITTERS = {Part.BRIDGE: Emitter.WORKER, Part.WEBHOOKS: Emitter.INBOUND_LAMBDA}
"""The emitter in the events of each; a bridge only forwards those of others."""

_ENTRANCES = {Part.BRIDGE: "BridgeMapping", Part.WEBHOOKS: "WebhooksUrl"}
"""The template's parameter that lets calls in. The first deployment turns it on."""


@dataclass(frozen=True, slots=True)
class DeployedFunction:
    """A function as it is. ``latest``: its unpublished configuration; ``newest``: that of its newest version."""

    name: str
    latest: Mapping[str, Any] = field(repr=False)
    newest: Mapping[str, Any] = field(repr=False)
    alias: Mapping[str, Any]
    versions: tuple[int, ...]
    named: frozenset[str]
    """Versions that an alias names."""

    @property
    def variables(self) -> Mapping[str, str]:
        variables: Mapping[str, str] = self.latest.get("Environment", {}).get("Variables", {})
        return variables

    @property
    def serving(self) -> str:
        return str(self.alias["FunctionVersion"])


@dataclass(frozen=True, slots=True)
class Release:
    """What a deployment does. ``version``: the published one with this content; None if it has to be published.

    ``changes``: of the unpublished function, without values. ``entrance``: the parameter of the stack to turn on.
    """

    function: DeployedFunction
    package: Package = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)
    changes: tuple[str, ...]
    version: str | None
    entrance: str | None
    obsolete: tuple[str, ...]

    @property
    def moves_alias(self) -> bool:
        weights = self.function.alias.get("RoutingConfig", {}).get("AdditionalVersionWeights")
        return self.version is None or self.version != self.function.serving or bool(weights)

    @property
    def steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        if self.changes:
            steps.append({"action": "update", "kind": "function", "name": self.function.name})
            steps[0]["changes"] = list(self.changes)
        if self.version is None:
            steps.append({"action": "publish", "kind": "version", "name": "new"})
        if self.moves_alias:
            to = self.version or "new"
            change = f"version {self.function.serving} -> {to}"
            steps.append({"action": "update", "kind": "alias", "name": ALIAS, "changes": [change]})
        if self.entrance is not None:
            change = f"{self.entrance}: off -> on"
            steps.append({"action": "update", "kind": "stack", "name": self.entrance, "changes": [change]})
        steps += [{"action": "delete", "kind": "version", "name": version} for version in self.obsolete]
        return [{"changes": [], **step} for step in steps]


async def look_up(account: Account, part: Part, names: Names, *, expected: str | None = None) -> DeployedFunction:
    """Read a function, its alias and its versions.

    Raises:
        ConfigError: Lane, account and credentials disagree.
        StoreForeign: The stack has not made the function.
    """
    client, name = account.functions, names.function(part)
    with translated_function(f"function {name}"):
        answer = await if_exists(client.get_function(FunctionName=name))
        tagged = [] if answer is None else [Tagged(f"function {name}", answer.get("Tags") or {})]
        check_lane(names, account.identity, tagged, account=expected, emulated=account.emulated)
        alias = await if_exists(client.get_alias(FunctionName=name, Name=ALIAS)) if answer else None
        if answer is None or alias is None:
            raise StoreForeign(
                f"lane {names.lane} has no function {name} with an alias {ALIAS} in account "
                f"{account.identity.account}, region {account.region}: `afterturn aws provision` creates it; nothing "
                "was changed"
            )
        versions = [
            int(each["Version"])
            for each in await list_all(client, "list_versions_by_function", "Versions", FunctionName=name)
            if each["Version"] != "$LATEST"
        ]
        aliases = await list_all(client, "list_aliases", "Aliases", FunctionName=name)
    newest = await _version(account, name, str(max(versions))) if versions else None
    return DeployedFunction(
        name,
        answer["Configuration"],
        newest or {},
        alias,
        tuple(sorted(versions)),
        frozenset(version for each in aliases for version in _named(each)),
    )


async def plan_release(
    account: Account,
    part: Part,
    names: Names,
    function: DeployedFunction,
    package: Package,
    variables: Mapping[str, str],
    *,
    mapped: bool = True,
    keep: int = KEPT,
) -> Release:
    """Decide what a deployment does; reads only.

    Raises:
        ConfigError: Another function reads the lane's queues.
        StoreForeign: There is no stack.
    """
    if part is Part.BRIDGE and mapped:
        await _refuse_other_readers(account, names, function.name)
    current = await stack.describe(account, names)
    entrance = _ENTRANCES[part]
    if current is None or entrance not in current.parameters:
        raise StoreForeign(f"there is no stack {names.stack} with this function: run `afterturn aws provision` first")
    is_open = current.parameters[entrance] == "on" or not (mapped or part is Part.WEBHOOKS)
    changes = tuple(content_changes(function.latest, package.sha256, variables))
    is_published = not changes and _is_published(function, package.sha256, variables)
    version = str(function.newest["Version"]) if is_published else None
    return Release(
        function,
        package,
        variables,
        changes,
        version,
        None if is_open else entrance,
        obsolete(
            function.versions,
            {
                *function.named,
                function.serving,
                *filter(None, (before(function.alias),)),
                *((version,) if version else ()),
            },
            keep=keep - (version is None),
        ),
    )


async def deploy(
    account: Account,
    part: Part,
    names: Names,
    release: Release,
    *,
    bucket: str | None = None,
    patience: Patience | None = None,
    report: Report = lambda line: None,
) -> str:
    """Carry a release out and return the version that serves.

    Raises:
        AfterturnError: The new version failed its smoke check; the alias has not moved.
        StoreError: Lambda did not do it, or somebody else changes the function.
    """
    patience = patience or Patience(timeout=300, every=2)
    version = release.version or await _publish(account, names, release, bucket, patience, report)
    if release.moves_alias:
        await _smoke_check(account, part, names, version)
        report(f"version {version} passed its smoke check")
        previous = before(release.function.alias) if release.function.serving == version else release.function.serving
        await _move_alias(account, release.function, version, deployed(previous))
        report(f"alias {ALIAS} of {release.function.name}: {release.function.serving} -> {version}")
    if release.entrance is not None:
        settings = {release.entrance: "on", f"{FUNCTIONS[part]}Version": version}
        await stack.change(account, names, settings, patience)
        report(f"turned on {release.entrance}")
    await _prune(account, release, report)
    return version


async def _publish(
    account: Account, names: Names, release: Release, bucket: str | None, patience: Patience, report: Report
) -> str:
    client, name, package = account.functions, release.function.name, release.package
    latest = await _ready(account, name, patience)
    if "code" in release.changes:
        report(f"uploading {package.size / 1e6:.1f} MB")
        code = await _code(account, name, package, bucket)
        with translated_function(f"updating the code of function {name}"):
            await client.update_function_code(FunctionName=name, **code)
        latest = await _ready(account, name, patience)
    if set(release.changes) - {"code"}:
        with translated_function(f"updating the variables of function {name}"):
            await client.update_function_configuration(
                FunctionName=name, Environment={"Variables": dict(release.variables)}
            )
        latest = await _ready(account, name, patience)
    if any(True for _ in content_changes(latest, package.sha256, release.variables)):
        raise StoreBusy(f"somebody else changes function {name} at the same time; look, and run this again")
    with translated_function(f"publishing function {name}"):
        published = await client.publish_version(
            FunctionName=name, CodeSha256=package.sha256, RevisionId=latest["RevisionId"]
        )
    version = str(published["Version"])
    await _ready(account, name, patience, version)
    report(f"published version {version} of {name}")
    return version


async def _code(account: Account, name: str, package: Package, bucket: str | None) -> Mapping[str, Any]:
    if bucket is None:
        return {"ZipFile": package.data}
    key = f"afterturn/{name}/{package.digest}.zip"
    with translated_function(f"uploading the zip to bucket {bucket}"):
        await account.clients["s3"].put_object(
            Bucket=bucket, Key=key, Body=package.data, ExpectedBucketOwner=account.identity.account
        )
    return {"S3Bucket": bucket, "S3Key": key}


async def _ready(account: Account, name: str, patience: Patience, version: str = "$LATEST") -> Mapping[str, Any]:
    """Wait until Lambda has applied an update. Raises StoreError if it failed, TimedOut if time is over."""
    state = update = "unknown"
    async for _ in patience.looks():
        with translated_function(f"function {name}"):
            configuration: Mapping[str, Any] = await account.functions.get_function_configuration(
                FunctionName=name, Qualifier=version
            )
        state, update = configuration.get("State", "Active"), configuration.get("LastUpdateStatus", "Successful")
        if "Failed" in (state, update):
            reason = (
                configuration.get("LastUpdateStatusReasonCode")
                or configuration.get("StateReasonCode")
                or "no reason given"
            )
            raise StoreError(f"Lambda could not update function {name} ({reason}); repair that, and run this again")
        if update == "Successful" and state in ("Active", "Inactive"):
            return configuration
    raise TimedOut(
        f"function {name} is not ready after {patience.timeout:.0f} s (state {state}, update {update}); AWS "
        "continues: run this again to wait on"
    )


async def _move_alias(account: Account, function: DeployedFunction, version: str, description: str) -> None:
    """Let a version serve. Someone who moved the alias since it was read is not overruled."""
    with translated_function(f"alias {ALIAS} of function {function.name}"):
        await account.functions.update_alias(
            FunctionName=function.name,
            Name=ALIAS,
            FunctionVersion=version,
            Description=description,
            RoutingConfig={"AdditionalVersionWeights": {}},
            RevisionId=function.alias["RevisionId"],
        )


async def _smoke_check(account: Account, part: Part, names: Names, version: str) -> None:
    name = names.function(part)
    with translated_function(f"invoking version {version} of function {name}"):
        answer = await account.functions.invoke(
            FunctionName=name, Qualifier=version, Payload=json.dumps(PROBE).encode()
        )
        body = await answer["Payload"].read()
    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = None
    if answer.get("FunctionError"):
        problem: str | None = _function_error(parsed)
    else:
        problem = probe_problem(part, names, parsed)
        if problem is None and answer.get("ExecutedVersion", version) != version:
            problem = f"version {answer['ExecutedVersion']} answered in its place"
    if problem is not None:
        raise AfterturnError(
            f"version {version} of function {name} failed its smoke check: {problem}. The version before continues to "
            "serve; fix this, and deploy again"
        )


def probe_problem(part: Part, names: Names, answer: Any) -> str | None:
    """What is wrong with the answer to a probe; None if it is as expected."""
    if not isinstance(answer, dict) or "lane" not in answer:
        return "it does not answer the probe as a function of afterturn does"
    expected: dict[str, object] = {"lane": names.lane, "table": names.table}
    if part is Part.BRIDGE:
        expected |= {"queues": [names.main, names.retry], "engine": "ok"}
    else:
        expected |= {"emitter": EMITTERS[part].value}
    for key, value in expected.items():
        if answer.get(key) == value:
            continue
        if key == "engine":
            return "Temporal does not answer it; check its address, namespace and key, and the network"
        return f"its {key} is {answer.get(key)!r} instead of {value!r}"
    if part is Part.BRIDGE and not answer.get("consumers"):
        return "its app declares no consumer; name the app with --app"
    return None


def _function_error(answer: Any) -> str:
    error = answer if isinstance(answer, dict) else {}
    text = " ".join(f"{error.get('errorType', 'error')}: {error.get('errorMessage', 'no message')}".split())
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


async def _prune(account: Account, release: Release, report: Report) -> None:
    """Delete old versions. What serves does so in any case, so a refusal is reported and is no error."""
    name = release.function.name
    for version in release.obsolete:
        try:
            with translated_function(f"deleting version {version} of function {name}"):
                await account.functions.delete_function(FunctionName=name, Qualifier=version)
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, Exception) and code_of(cause) in (
                "ResourceConflictException",
                "ResourceNotFoundException",
            ):
                report(f"version {version} of {name} stays: an alias names it, or it is gone")
                continue
            report(f"{error}; old versions stay, and the next deployment tries again")
            return
        report(f"deleted version {version} of {name}")


def obsolete(versions: Iterable[int], named: Iterable[str], *, keep: int) -> tuple[str, ...]:
    """Versions to delete, oldest first. The newest ``keep`` stay, those that an alias names, and the stack's own."""
    existing = sorted(set(versions))
    stay = {str(version) for version in existing[max(len(existing) - keep, 0) :]} | set(named) | {FIRST_VERSION}
    return tuple(str(version) for version in existing if str(version) not in stay)


@dataclass(frozen=True, slots=True)
class Rollback:
    """``serving``: the version that serves; ``target``: the one that is to; equal if nothing has to be done."""

    function: DeployedFunction
    target: str

    @property
    def serving(self) -> str:
        return self.function.serving


async def plan_rollback(
    account: Account, part: Part, names: Names, *, to: str | None = None, expected: str | None = None
) -> Rollback:
    """Find the version to go back to; reads only.

    Raises:
        ConfigError: Lane, account and credentials disagree, or ``to`` is not a version.
        NotFound: There is no version to go back to.
    """
    function = await look_up(account, part, names, expected=expected)
    target = rollback_target(function.name, function.alias, to)
    if target != function.serving and await _version(account, function.name, target) is None:
        raise NotFound(f"function {function.name} has no version {target}; name another one with --to VERSION")
    return Rollback(function, target)


async def roll_back(account: Account, rollback: Rollback) -> None:
    """Move the alias back: one call."""
    if rollback.target != rollback.serving:
        await _move_alias(account, rollback.function, rollback.target, rolled_back(rollback.serving))


def rollback_target(name: str, alias: Mapping[str, Any], to: str | None) -> str:
    """The version to go back to. Raises NotFound if nobody can know it, ConfigError if ``to`` is not a number."""
    if to is not None:
        if not (to.isascii() and to.isdigit()):
            raise ConfigError(f"--to {to}: a published version is a number, such as 7; nothing was changed")
        return str(int(to))
    if previous := before(alias):
        return previous
    serving = alias["FunctionVersion"]
    if withdrawn := _withdrawn(alias):
        raise NotFound(
            f"function {name} was rolled back already, from version {withdrawn} to {serving}; name the version for a "
            "second rollback with --to VERSION"
        )
    if serving == FIRST_VERSION:
        raise NotFound(f"function {name} was never deployed, so there is nothing to go back from")
    raise NotFound(
        f"version {serving} of function {name} is the first one that was deployed; name another one with --to VERSION"
    )


def deployed(previous: str | None) -> str:
    """The alias's description after a deployment: it names the version that a rollback goes back to."""
    if previous in (None, FIRST_VERSION):
        return "deployed as the first version"
    return f"deployed in place of version {previous}"


def rolled_back(withdrawn: str) -> str:
    """The alias's description after a rollback."""
    return f"rolled back from version {withdrawn}"


def before(alias: Mapping[str, Any]) -> str | None:
    """The version that served before the last deployment; None after the first one, or after a rollback."""
    match = _DEPLOYED.match(str(alias.get("Description") or ""))
    return match[1] if match else None


def _withdrawn(alias: Mapping[str, Any]) -> str | None:
    match = _ROLLED_BACK.match(str(alias.get("Description") or ""))
    return match[1] if match else None


def _named(alias: Mapping[str, Any]) -> Iterator[str]:
    yield str(alias.get("FunctionVersion"))
    yield from (alias.get("RoutingConfig") or {}).get("AdditionalVersionWeights") or {}
    yield from filter(None, (before(alias), _withdrawn(alias)))


def content_changes(function: Mapping[str, Any], sha256: str, variables: Mapping[str, str]) -> Iterator[str]:
    """What differs between a function's configuration and what it is to have; variables by name, without values."""
    if function.get("CodeSha256") != sha256:
        yield "code"
    current = function.get("Environment", {}).get("Variables", {})
    for name in sorted(current.keys() | variables.keys()):
        if name not in current:
            yield f"variable {name}: set"
        elif name not in variables:
            yield f"variable {name}: removed"
        elif current[name] != variables[name]:
            yield f"variable {name}: changed"


def _is_published(function: DeployedFunction, sha256: str, variables: Mapping[str, str]) -> bool:
    """Whether the newest version has this content, and the configuration that the stack gives the function now."""
    newest, latest = function.newest, function.latest
    return not list(content_changes(newest, sha256, variables)) and all(
        newest.get(name) == latest.get(name) for name in _PUBLISHED_WITH
    )


def environment(
    part: Part,
    names: Names,
    shell: Mapping[str, str],
    current: Mapping[str, str],
    *,
    app: str | None = None,
    endpoint: str | None = None,
    passed: Iterable[str] = (),
    unset: Iterable[str] = (),
    channels: Iterable[str] = (),
) -> dict[str, str]:
    """The variables of a function.

    Args:
        part: Which function.
        names: The names of the lane.
        shell: The environment of the shell that deploys.
        current: The variables that the function has. They stay if the shell does not set them, so a deployment from
            another shell drops no secret.
        app: The app that it loads, as ``module:attribute``.
        endpoint: An endpoint other than AWS.
        passed: Names of further variables of the shell that it gets.
        unset: Names of variables that it loses.
        channels: Names of the variables that configure a channel.

    Raises:
        InvalidInput: A name is illegal or not set, or there is more than Lambda accepts.
        ConfigError: The bridge could not reach Temporal.
    """
    chosen = {name: value for name, value in shell.items() if _is_for(part, name)} | passed_variables(passed, shell)
    if app is not None and wants_app(part, {**current, **chosen}, channels):
        chosen["AFTERTURN_APP"] = app
    if endpoint is not None:
        chosen["AFTERTURN_AWS_ENDPOINT_URL"] = endpoint
    chosen |= {
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_LANE": names.lane,
        "AFTERTURN_TABLE": names.table,
        "AFTERTURN_EMITTER": EMITTERS[part].value,
    }
    dropped = set(unset)
    if wrong := dropped & chosen.keys():
        raise InvalidInput(f"--unset {min(wrong)}: this shell or the command sets it")
    variables = {name: value for name, value in current.items() if name not in dropped} | chosen
    if part is Part.BRIDGE and "AFTERTURN_TEMPORAL_ADDRESS" not in variables:
        raise ConfigError(
            "the bridge needs the address of Temporal: set AFTERTURN_TEMPORAL_ADDRESS (and, for Temporal Cloud, "
            "AFTERTURN_TEMPORAL_NAMESPACE and AFTERTURN_TEMPORAL_API_KEY) in this shell; nothing was changed"
        )
    size = sum(len(name.encode()) + len(value.encode()) for name, value in variables.items())
    if size > MAX_ENVIRONMENT:
        raise InvalidInput(
            f"the variables of {names.function(part)} have {size:,} bytes, and Lambda accepts {MAX_ENVIRONMENT:,}; "
            "--unset NAME removes one"
        )
    return dict(sorted(variables.items()))


def passed_variables(names: Iterable[str], shell: Mapping[str, str]) -> dict[str, str]:
    """Variables of the shell by name. Raises InvalidInput for an illegal name, or one that is not set."""
    values: dict[str, str] = {}
    for name in names:
        if not _VARIABLE.match(name) or name.startswith(("AWS_", "LAMBDA_")):
            raise InvalidInput(f"--env {name}: a function cannot get a variable of this name")
        if name not in shell:
            raise InvalidInput(f"--env {name}: it is not set in this shell")
        values[name] = shell[name]
    return values


def wants_app(part: Part, variables: Mapping[str, str], channels: Iterable[str]) -> bool:
    """Whether it loads an app: the bridge for its consumers, the webhooks for the responder of a channel."""
    return part is Part.BRIDGE or has_channels(variables, channels)


def has_channels(variables: Mapping[str, str], channels: Iterable[str]) -> bool:
    return any(variables.get(name) for name in channels)


def services_of(part: Part, variables: Mapping[str, str]) -> frozenset[str]:
    """AWS services that it uses besides those of the lane: mail is read from S3 and answered through SES."""
    has_mail = part is Part.WEBHOOKS and variables.get("AFTERTURN_SNS_TOPICS")
    return frozenset({"s3", "sesv2"}) if has_mail else frozenset()


def _is_for(part: Part, name: str) -> bool:
    setting = name.removeprefix("AFTERTURN_")
    if setting == name:
        return False
    return setting in _BRIDGE_SETTINGS if part is Part.BRIDGE else not _NOT_FOR_WEBHOOKS.fullmatch(setting)


async def _refuse_other_readers(account: Account, names: Names, function: str) -> None:
    """Raise ConfigError if another function reads a queue of the lane: each would get only a part of the records."""
    for queue in (names.main, names.retry):
        with translated_function(f"mappings of queue {queue}"):
            mappings = await list_all(
                account.functions,
                "list_event_source_mappings",
                "EventSourceMappings",
                EventSourceArn=account.location.queue_arn(queue),
            )
        for mapping in mappings:
            reader = str(mapping.get("FunctionArn"))
            if reader.split(":")[6:] != [function, ALIAS]:
                raise ConfigError(
                    f"function {reader} reads queue {queue}, and two readers would each get a part of its records: "
                    f"delete its mapping ({mapping.get('UUID')}) first; nothing was changed"
                )


async def _version(account: Account, name: str, version: str) -> Mapping[str, Any] | None:
    """The configuration of a published version; None if there is none."""
    with translated_function(f"version {version} of function {name}"):
        configuration: Mapping[str, Any] | None = await if_exists(
            account.functions.get_function_configuration(FunctionName=name, Qualifier=version)
        )
    # The emulator answers for any number with the unpublished configuration.
    return configuration if configuration is not None and str(configuration.get("Version")) == version else None


_BY_CODE: Mapping[str, tuple[type[ConfigError | StoreError], str]] = {
    "CodeStorageExceededException": (StoreError, "failed: the account's space for functions is full; delete versions"),
    "CodeVerificationFailedException": (StoreError, "was refused: the function wants signed code"),
    "InvalidCodeSignatureException": (StoreError, "was refused: the function wants signed code"),
    "PreconditionFailedException": (StoreBusy, "failed because someone else changes it; look, and run this again"),
    "RequestEntityTooLargeException": (StoreError, "was refused as too large; --bucket NAME sends it through S3"),
    "ResourceConflictException": (StoreBusy, "failed because someone else changes it; run this again in a while"),
    "ResourceInUseException": (StoreBusy, "is still being changed; run this again in a while"),
    "ResourceNotFoundException": (StoreError, "is gone: someone deleted it meanwhile; look, and run this again"),
    "NoSuchBucket": (ConfigError, "failed: there is no such bucket; check --bucket and the region"),
}


@contextmanager
def translated_function(where: str) -> Iterator[None]:
    """Translate errors of Lambda and S3 into ours; the cause is kept.

    Lambda repeats values of the request in some messages, and those hold secrets: ours hold none.
    """
    try:
        with translated(where):
            yield
    except StoreError as error:
        cause = error.__cause__
        code = (code_of(cause) if isinstance(cause, Exception) else None) or ""
        if code in _BY_CODE:
            kind, problem = _BY_CODE[code]
            raise kind(f"{where} {problem} ({code})") from cause
        if code in ("InvalidParameterValueException", "ValidationException"):
            hint = ": Lambda cannot assume its role yet; try again in a minute" if "role" in str(cause).lower() else ""
            raise StoreError(f"{where} was refused as invalid{hint} ({code})") from cause
        raise
