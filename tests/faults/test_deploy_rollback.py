"""`aws rollback` against the emulator."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.cli.command import CommandResult
from tests.contract.stream import publish
from tests.faults.deploying import (  # noqa: F401
    BRIDGE,
    DEV,
    Rig,
    access,
    emulator,
    handler_zip,
    open_rig,
    session,
    small_zip,
    temporal_server,
)

from afterturn.aws.release import Part, plan_rollback, roll_back
from afterturn.errors import StoreBusy

SWALLOW = """
    if event.get("afterturn") == "probe":
        return {"lane": "dev", "table": "afterturn-dev", "engine": "ok", "consumers": ["keys"],
                "queues": ["afterturn-dev-events.fifo", "afterturn-dev-retry.fifo"]}
    raise RuntimeError("it passes its check and then does nothing")
"""


class TestRollback:
    @staticmethod
    async def rollback(rig: Rig, *words: object) -> CommandResult:
        return await rig.aws("rollback", "bridge", *words)

    async def test_it_is_one_call_and_the_version_before_serves(self, rig: Rig) -> None:
        await rig.bring(small_zip(rig.folder / "one.zip"))
        await rig.bring(handler_zip(rig.folder / "two.zip", SWALLOW))
        assert await rig.serving() == "3"
        writes = rig.writes()
        found = await plan_rollback(rig.account, Part.BRIDGE, DEV)
        await roll_back(rig.account, found)
        assert (found.serving, found.target, writes) == ("3", "2", ["UpdateAlias"])
        await publish(rig.stream, "c1@1")
        await rig.drained()
        assert await rig.started("keys", "c1")

    @pytest.mark.thorough
    async def test_a_second_one_goes_nowhere_unless_it_is_told_where_to(self, rig: Rig) -> None:
        missing = await self.rollback(rig)
        assert missing.code == 2
        assert "was never deployed" in missing.err
        one, two = small_zip(rig.folder / "one.zip"), small_zip(rig.folder / "two.zip", "two")
        await rig.bring(one)
        first = await self.rollback(rig)
        assert first.code == 2
        assert "the first one that was deployed" in first.err
        await rig.bring(two)
        assert (await self.rollback(rig, "--dry-run")).code == 0
        assert await rig.serving() == "3"
        assert (await self.rollback(rig, "--json")).json | {"account": "", "region": ""} == {
            "lane": "dev",
            "account": "",
            "region": "",
            "dryRun": False,
            "function": BRIDGE,
            "from": "3",
            "to": "2",
        }
        again = await self.rollback(rig)
        assert again.code == 2
        assert "was rolled back already, from version 3 to 2" in again.err
        for to, problem in (("9", "no version 9"), ("live", "is a number")):
            done = await self.rollback(rig, "--to", to)
            assert done.code == 2
            assert problem in done.err
        assert await rig.serving() == "2"
        assert (await self.rollback(rig, "--to", "3")).code == 0
        assert (await self.rollback(rig, "--to", "3")).code == 0
        assert await rig.serving() == "3"

    @pytest.mark.thorough
    async def test_a_deployment_after_it_lets_the_withdrawn_version_serve_again(self, rig: Rig) -> None:
        one, two = small_zip(rig.folder / "one.zip"), small_zip(rig.folder / "two.zip", "two")
        for zip_ in (one, two):
            await rig.bring(zip_)
        assert (await self.rollback(rig)).code == 0
        await rig.bring(two)
        assert (await rig.serving(), await rig.versions()) == ("3", ["2", "3"])
        assert (await self.rollback(rig, "--json")).json["to"] == "2"

    async def test_who_moved_the_alias_meanwhile_is_not_overruled(self, rig: Rig) -> None:
        for note in ("one", "two"):
            await rig.bring(small_zip(rig.folder / f"{note}.zip", note))
        found = await plan_rollback(rig.account, Part.BRIDGE, DEV)
        await rig.functions.update_alias(FunctionName=BRIDGE, Name="live", FunctionVersion="2")
        with pytest.raises(StoreBusy, match="someone else"):
            await roll_back(rig.account, found)


PASSES = """
    return {{"lane": "dev", "table": "afterturn-dev", "engine": "ok", "consumers": ["keys"],
             "queues": ["afterturn-dev-events.fifo", "afterturn-dev-retry.fifo"], "is": {number}}}
"""
"""It passes its smoke check, and does nothing."""


async def deploy(rig: Rig, number: int, *words: object) -> CommandResult:
    zip_ = handler_zip(rig.folder / f"{number}.zip", PASSES.format(number=number))
    done = await rig.deploy(*words, zip_=zip_)
    assert done.code == 0, done.err
    return done


@pytest.mark.thorough
async def test_old_versions_go_but_not_what_served_before_and_what_an_alias_names(rig: Rig) -> None:
    for number in (2, 3):
        await deploy(rig, number)
    assert (await rig.aws("rollback", "bridge", "--to", "2")).code == 0
    await deploy(rig, 4, "--keep", "2")
    assert await rig.versions() == ["2", "3", "4"], "version 2 served before"
    await rig.functions.create_alias(FunctionName=BRIDGE, Name="canary", FunctionVersion="2")
    planned = await deploy(rig, 5, "--keep", "2", "--dry-run", "--json")
    assert [step["name"] for step in planned.json["steps"] if step["action"] == "delete"] == ["3"]
    assert await rig.versions() == ["2", "3", "4"]
    done = await deploy(rig, 5, "--keep", "2")
    assert f"deleted version 3 of {BRIDGE}" in done.err
    assert await rig.versions() == ["2", "4", "5"]
    assert (await deploy(rig, 5, "--keep", "2", "--json")).json["changes"] == 0
    assert (await rig.aws("rollback", "bridge", "--json")).json["to"] == "4"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("ResourceConflictException", f"version 2 of {BRIDGE} stays: an alias names it, or it is gone"),
        ("AccessDeniedException", f"deleting version 2 of function {BRIDGE} is not allowed to these credentials"),
    ],
)
async def test_a_version_that_cannot_be_deleted_is_reported_and_is_no_error(rig: Rig, code: str, problem: str) -> None:
    for number in (2, 3, 4):
        await deploy(rig, number)

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": code}}, "DeleteFunction")

    rig.functions.meta.events.register("before-call.lambda.DeleteFunction", refuse)
    lines: list[str] = []
    zip_ = handler_zip(rig.folder / "5.zip", PASSES.format(number=5))
    await rig.bring(zip_, keep=1, report=lines.append)
    assert [line for line in lines if line.startswith(problem)]
    assert await rig.serving() == "5"
