"""What `aws deploy` refuses before it has written anything, also where the emulator would take it."""

from __future__ import annotations

import pytest
from tests.faults.deploying import (  # noqa: F401
    BRIDGE,
    DEV,
    Rig,
    access,
    emulator,
    open_rig,
    session,
    small_zip,
    temporal_server,
)


class TestRefusals:
    async def test_what_disagrees_is_refused_before_the_first_write(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writes = rig.writes()
        for words, problem in (
            (["--account", "999999999999"], "belongs to account 999999999999"),
            (["--table", "afterturn-prod"], "belongs to lane prod by its name"),
            (["--app", "elsewhere:app"], "its module is not in the zip"),
            (["--env", "NOWHERE"], "not set in this shell"),
            (["--runtime", "python3.12"], "--set Runtime="),
        ):
            done = await rig.deploy(*words)
            assert (done.code, done.out) == (2, ""), words
            assert problem in done.err, words
        monkeypatch.delenv("AFTERTURN_TEMPORAL_ADDRESS")
        bare = await rig.deploy("--lane", "preview")
        assert (bare.code, bare.out, "has no table afterturn-preview" in bare.err) == (4, "", True)
        assert "needs the address of Temporal" in (await rig.deploy()).err
        assert (writes, await rig.serving()) == ([], "1")

    async def test_a_function_of_another_lane_or_of_none_is_not_touched(self, rig: Rig) -> None:
        zip_ = small_zip(rig.folder / "one.zip")
        arn = (await rig.functions.get_function_configuration(FunctionName=BRIDGE))["FunctionArn"]
        await rig.functions.tag_resource(Resource=arn, Tags={"afterturn:lane": "preview"})
        for done in (await rig.deploy(zip_=zip_), await rig.aws("rollback", "bridge")):
            assert done.code == 2
            assert "belongs to lane preview, not dev" in done.err
        await rig.functions.untag_resource(Resource=arn, TagKeys=["afterturn:lane"])
        for done in (await rig.deploy(zip_=zip_), await rig.aws("rollback", "bridge")):
            assert done.code == 2
            assert "has no tag afterturn:lane" in done.err

    async def test_a_second_reader_of_a_queue_is_refused_by_name(self, rig: Rig) -> None:
        code = {"ZipFile": small_zip(rig.folder / "other.zip", "other").read_bytes()}
        await rig.functions.create_function(
            FunctionName="others",
            Runtime="python3.13",
            Role="arn:aws:iam::000000000000:role/others",
            Handler="keys_app.handler",
            Code=code,
        )
        await rig.functions.create_event_source_mapping(
            EventSourceArn=rig.account.location.queue_arn(DEV.retry), FunctionName="others", Enabled=False
        )
        done = await rig.deploy()
        assert done.code == 2
        assert "function:others reads queue afterturn-dev-retry.fifo" in done.err
        assert await rig.serving() == "1"
        ready = await rig.deploy("--unmapped", "--json")
        assert (ready.code, ready.json["version"]) == (0, "2"), ready.err
        assert "stack" not in {step["kind"] for step in ready.json["steps"]}, "the queues do not invoke it yet"
