"""A deployment, carried out. Stopped anywhere, what served before goes on serving, and a second run makes the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from afterturn.errors import StoreBusy, StoreError
from afterturn.operations.account import Account
from afterturn.operations.deploy import history, probing, tidying
from afterturn.operations.deploy.archive import Archive
from afterturn.operations.deploy.calls import functions, told
from afterturn.operations.deploy.functions import ALIAS, Wanted
from afterturn.operations.deploy.plan import Found, Plan, Step, Told, is_as
from afterturn.operations.indexes import Patience
from afterturn.operations.plan import Act
from afterturn.operations.resources import tags

Heard = Callable[[str], None]
Code = Mapping[str, Any]


async def carry_out(
    account: Account,
    wanted: Wanted,
    found: Found,
    plan: Plan,
    archive: Archive,
    *,
    bucket: str | None = None,
    patience: Patience | None = None,
    heard: Heard = lambda line: None,
) -> str:
    """Bring the function to what is wanted; returns the version that serves. ``heard`` gets a line for what is done.

    Raises AfterturnError where the new version fails its smoke check: then the alias has not moved.
    """
    patience = patience or Patience(timeout=300, every=2)
    latest = await _bring_function(account, wanted, plan, archive, bucket, patience, heard)
    version = plan.version.subject
    if version is None:
        version = await _publish(account, wanted, latest, patience)
        heard(f"published version {version} of {wanted.name}")
    if plan.alias.act is not Act.UNCHANGED:
        await probing.check(account, wanted, version)
        heard(f"version {version} passed its smoke check")
        await _move(account, wanted, found, version)
        heard(f"alias {ALIAS} of {wanted.name}: {found.serving or 'new'} -> {version}")
    for step in plan.after:
        if step.act is not Act.UNCHANGED:
            await _AFTER[step.kind](account, wanted, step)
            heard(f"{step.act.value}d {step.kind} {step.name}")
    await tidying.delete(account, wanted.name, [step.name for step in plan.stale], heard)
    return str(version)


async def _bring_function(
    account: Account,
    wanted: Wanted,
    plan: Plan,
    archive: Archive,
    bucket: str | None,
    patience: Patience,
    heard: Heard,
) -> Told:
    """The unpublished function, which nobody calls; returns it as it is then."""
    client, name, step = functions(account), wanted.name, plan.function
    changed = {change.name for change in step.changes}
    configuration = {**wanted.configuration, "Environment": {"Variables": dict(wanted.variables)}}
    if wanted.role is not None:
        configuration["Role"] = wanted.role
    if step.act is Act.CREATE:
        code = await _code(account, wanted, archive, bucket, heard)
        with told(f"creating function {name}"):
            await client.create_function(
                FunctionName=name,
                Code=code,
                Architectures=[wanted.architecture],
                Tags=tags(wanted.names),
                **configuration,
            )
        heard(f"created function {name}")
    latest = await _ready(account, name, patience)
    if step.act is not Act.UPDATE:
        return latest
    if changed & {"code", "Architectures"}:
        code = await _code(account, wanted, archive, bucket, heard)
        with told(f"updating the code of function {name}"):
            await client.update_function_code(FunctionName=name, Architectures=[wanted.architecture], **code)
        latest = await _ready(account, name, patience)
    if changed - {"code", "Architectures"}:
        with told(f"updating the configuration of function {name}"):
            await client.update_function_configuration(FunctionName=name, **configuration)
        latest = await _ready(account, name, patience)
    heard(f"updated function {name}")
    return latest


async def _code(account: Account, wanted: Wanted, archive: Archive, bucket: str | None, heard: Heard) -> Code:
    heard(f"sending {archive.size / 1e6:.1f} MB")
    if bucket is None:
        return {"ZipFile": archive.data}
    key = f"afterturn/{wanted.name}/{archive.digest}.zip"
    with told(f"sending the zip to bucket {bucket}"):
        await account.clients["s3"].put_object(
            Bucket=bucket, Key=key, Body=archive.data, ExpectedBucketOwner=account.identity.account
        )
    return {"S3Bucket": bucket, "S3Key": key}


async def _ready(account: Account, name: str, patience: Patience, version: str = "$LATEST") -> Told:
    """Wait until Lambda has done what it was told; returns the configuration then.

    Raises StoreError where it failed, or time runs out.
    """
    begun, pause = patience.clock(), patience.every / 16
    while True:
        with told(f"function {name}"):
            there: Told = await functions(account).get_function_configuration(FunctionName=name, Qualifier=version)
        state, update = there.get("State", "Active"), there.get("LastUpdateStatus", "Successful")
        if update == "Failed" or state == "Failed":
            reason = there.get("LastUpdateStatusReasonCode") or there.get("StateReasonCode") or "no reason given"
            raise StoreError(f"Lambda could not update function {name} ({reason}); mend that, and run it again")
        if update == "Successful" and state in ("Active", "Inactive"):
            return there
        if patience.clock() - begun >= patience.timeout:
            raise StoreBusy(
                f"function {name} is not ready after {patience.timeout:.0f} s (state {state}, update {update}); AWS "
                "goes on: run it again to wait on"
            )
        await patience.sleep(pause)
        pause = min(pause * 2, patience.every)


async def _publish(account: Account, wanted: Wanted, latest: Told, patience: Patience) -> str:
    """Where somebody else has changed the function meanwhile, nothing is published."""
    if not is_as(wanted, latest):
        raise StoreBusy(f"somebody else changes function {wanted.name} at the same time; look, and run it again")
    with told(f"publishing function {wanted.name}"):
        answer = await functions(account).publish_version(
            FunctionName=wanted.name, CodeSha256=wanted.sha256, RevisionId=latest["RevisionId"]
        )
    version = str(answer["Version"])
    await _ready(account, wanted.name, patience, version)
    return version


async def _move(account: Account, wanted: Wanted, found: Found, version: str) -> None:
    """From now on the version serves. Whoever moved the alias since we looked is not overruled."""
    client = functions(account)
    given = {"FunctionName": wanted.name, "Name": ALIAS, "FunctionVersion": version}
    with told(f"alias {ALIAS} of function {wanted.name}"):
        if found.alias is None:
            await client.create_alias(**given, Description=history.deployed(None))
        else:
            await client.update_alias(
                **given,
                Description=history.deployed(found.before(version)),
                RoutingConfig={"AdditionalVersionWeights": {}},
                RevisionId=found.alias["RevisionId"],
            )


async def _map(account: Account, wanted: Wanted, step: Step) -> None:
    client = functions(account)
    with told(f"mapping of queue {step.name}"):
        if step.act is Act.CREATE:
            await client.create_event_source_mapping(**step.subject)
        else:
            await client.update_event_source_mapping(**step.subject)


async def _open_url(account: Account, wanted: Wanted, step: Step) -> None:
    client = functions(account)
    given = {"FunctionName": wanted.name, "Qualifier": ALIAS, "AuthType": "NONE", "InvokeMode": "BUFFERED"}
    with told(f"URL of function {wanted.name}"):
        if step.act is Act.CREATE:
            await client.create_function_url_config(**given)
        else:
            await client.update_function_url_config(**given)


async def _permit(account: Account, wanted: Wanted, step: Step) -> None:
    with told(f"permission {step.name} of function {wanted.name}"):
        await functions(account).add_permission(
            FunctionName=wanted.name, Qualifier=ALIAS, StatementId=step.name, Principal="*", **step.subject
        )


_AFTER = {"mapping": _map, "url": _open_url, "permission": _permit}


async def url_of(account: Account, wanted: Wanted) -> str:
    """Where a webhook function is called."""
    with told(f"URL of function {wanted.name}"):
        answer = await functions(account).get_function_url_config(FunctionName=wanted.name, Qualifier=ALIAS)
    return str(answer["FunctionUrl"])
