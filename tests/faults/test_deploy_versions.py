"""Old versions go after a deployment, on the emulator, and a rollback always finds what it needs."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.faults.deploying import (  # noqa: F401
    BRIDGE,
    ROLE,
    Rig,
    access,
    emulator,
    handler_zip,
    open_rig,
    session,
    temporal_server,
)

from afterturn.aws.session import Access
from afterturn.operations.account import Whose
from afterturn.operations.deploy.calls import functions, open_functions
from afterturn.operations.deploy.tidying import delete

CODE = """
    return {{"lane": "dev", "table": "afterturn-dev", "engine": "ok", "consumers": ["keys"],
             "queues": ["afterturn-dev-events.fifo", "afterturn-dev-retry.fifo"], "is": {number}}}
"""
"""It passes its smoke check, and does nothing."""


async def deploy(rig: Rig, number: int, *words: object) -> Any:
    zip_ = handler_zip(rig.folder / f"{number}.zip", "bridge", CODE.format(number=number))
    done = await rig.deploy("--role", ROLE, *words, zip_=zip_)
    assert done.code == 0, done.err
    return done


async def test_the_newest_stay_what_served_before_and_what_an_alias_names(rig: Rig) -> None:
    for number in (1, 2):
        await deploy(rig, number)
    assert (await rig.rollback("--to", "1")).code == 0
    await deploy(rig, 3, "--keep", "2")
    assert await rig.versions() == ["1", "2", "3"], "version 1 served before"
    await rig.functions.create_alias(FunctionName=BRIDGE, Name="canary", FunctionVersion="1")
    told = await deploy(rig, 4, "--keep", "2", "--dry-run", "--json")
    assert [one["name"] for one in told.json["steps"] if one["action"] == "delete"] == ["2"]
    assert await rig.versions() == ["1", "2", "3"]
    done = await deploy(rig, 4, "--keep", "2")
    assert f"deleted version 2 of {BRIDGE}" in done.err
    assert await rig.versions() == ["1", "3", "4"]
    assert (await deploy(rig, 4, "--keep", "2", "--json")).json["changes"] == 0
    assert (await rig.rollback("--json")).json["to"] == "3"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ResourceConflictException", [f"version {n} of {BRIDGE} was left: it is named by now, or gone" for n in "12"]),
        ("AccessDeniedException", [f"deleting version 1 of function {BRIDGE} is not allowed to these credentials"]),
    ],
)
async def test_what_cannot_be_deleted_is_told_and_is_no_error(
    access: Access,  # noqa: F811
    session: Any,  # noqa: F811
    code: str,
    said: list[str],
) -> None:
    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": code}}, "DeleteFunction")

    heard: list[str] = []
    async with open_functions(Whose("dev"), session=session, access=access) as account:
        functions(account).meta.events.register("before-call.lambda.DeleteFunction", refuse)
        await delete(account, BRIDGE, ["1", "2"], heard.append)
    assert [line.partition(";")[0] for line in heard] == said
