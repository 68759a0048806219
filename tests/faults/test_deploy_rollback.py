"""`aws rollback` against the emulator."""

from __future__ import annotations

import pytest
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

from afterturn.errors import StoreBusy
from afterturn.operations.deploy.functions import Part
from afterturn.operations.deploy.rollback import carry_back, plan_rollback

SWALLOW = """
    if event.get("afterturn") == "probe":
        return {"lane": "dev", "table": "afterturn-dev", "engine": "ok", "consumers": ["keys"],
                "queues": ["afterturn-dev-events.fifo", "afterturn-dev-retry.fifo"]}
    raise RuntimeError("it passes its check and then does nothing")
"""


class TestRollback:
    async def test_it_is_one_call_and_the_version_before_serves(self, rig: Rig) -> None:
        await rig.bring(small_zip(rig.folder / "one.zip"))
        await rig.bring(handler_zip(rig.folder / "two.zip", "bridge", SWALLOW))
        assert await rig.serving() == "2"
        writes = rig.writes()
        found = await plan_rollback(rig.account, Part.BRIDGE, DEV)
        await carry_back(rig.account, found)
        assert (found.there, found.back, writes) == ("2", "1", ["UpdateAlias"])
        await publish(rig.stream, "c1@1")
        await rig.drained()
        assert await rig.started("keys", "c1")

    async def test_a_second_one_goes_nowhere_unless_it_is_told_where_to(self, rig: Rig) -> None:
        missing = await rig.rollback()
        assert missing.code == 2
        assert "was never deployed" in missing.err
        one, two = small_zip(rig.folder / "one.zip"), small_zip(rig.folder / "two.zip", "two")
        await rig.bring(one)
        first = await rig.rollback()
        assert first.code == 2
        assert "the first that served" in first.err
        await rig.bring(two)
        assert (await rig.rollback("--dry-run")).code == 0
        assert await rig.serving() == "2"
        assert (await rig.rollback("--json")).json | {"account": "", "region": ""} == {
            "lane": "dev",
            "account": "",
            "region": "",
            "dryRun": False,
            "function": BRIDGE,
            "from": "2",
            "to": "1",
        }
        again = await rig.rollback()
        assert again.code == 2
        assert "was rolled back already, from version 2 to 1" in again.err
        for to, problem in (("9", "no version 9"), ("live", "is a number")):
            done = await rig.rollback("--to", to)
            assert done.code == 2
            assert problem in done.err
        assert await rig.serving() == "1"
        assert (await rig.rollback("--to", "2")).code == 0
        assert (await rig.rollback("--to", "2")).code == 0
        assert await rig.serving() == "2"

    async def test_a_deployment_after_it_lets_the_withdrawn_version_serve_again(self, rig: Rig) -> None:
        one, two = small_zip(rig.folder / "one.zip"), small_zip(rig.folder / "two.zip", "two")
        for zip_ in (one, two):
            await rig.bring(zip_)
        assert (await rig.rollback()).code == 0
        await rig.bring(two)
        assert (await rig.serving(), await rig.versions()) == ("2", ["1", "2"])
        assert (await rig.rollback("--json")).json["to"] == "1"

    async def test_who_moved_the_alias_meanwhile_is_not_overruled(self, rig: Rig) -> None:
        for note in ("one", "two"):
            await rig.bring(small_zip(rig.folder / f"{note}.zip", note))
        found = await plan_rollback(rig.account, Part.BRIDGE, DEV)
        await rig.functions.update_alias(FunctionName=BRIDGE, Name="live", FunctionVersion="1")
        with pytest.raises(StoreBusy, match="somebody else"):
            await carry_back(rig.account, found)
