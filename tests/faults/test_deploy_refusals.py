"""What `aws deploy` refuses before it has written anything, also where the emulator would take it."""

from __future__ import annotations

import pytest
from tests.faults.deploying import (  # noqa: F401
    BRIDGE,
    DEV,
    ROLE,
    Rig,
    access,
    emulator,
    open_rig,
    session,
    small_zip,
    temporal_server,
)

from afterturn.operations.deploy.calls import function_arn


class TestRefusals:
    async def test_what_disagrees_is_refused_before_the_first_write(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writes = rig.writes()
        for words, problem in (
            (["--account", "999999999999", "--role", ROLE], "belongs to account 999999999999"),
            (["--table", "afterturn-prod", "--role", ROLE], "lane prod's by its name"),
            ([], "--role ARN"),
            (["--role", ROLE, "--app", "elsewhere:app"], "its module is not in the zip"),
            (["--role", ROLE, "--env", "NOWHERE"], "not set in this shell"),
            (["--role", "admin"], "no ARN of a role"),
            (["--role", ROLE, "--runtime", "python2.7"], "python3.13"),
        ):
            done = await rig.deploy(*words)
            assert (done.code, done.out) == (2, ""), words
            assert problem in done.err, words
        monkeypatch.delenv("AFTERTURN_TEMPORAL_ADDRESS")
        bare = await rig.deploy("--lane", "preview", "--role", ROLE)
        assert (bare.code, bare.out, "has no table afterturn-preview" in bare.err) == (4, "", True)
        assert "where Temporal is" in (await rig.deploy("--role", ROLE)).err
        assert (await rig.functions.list_functions())["Functions"] == []
        assert writes == []

    async def test_a_function_of_another_lane_or_of_none_is_not_touched(self, rig: Rig) -> None:
        zip_ = small_zip(rig.folder / "one.zip")
        await rig.deploy("--role", ROLE)
        arn = function_arn(rig.account, BRIDGE)
        await rig.functions.tag_resource(Resource=arn, Tags={"afterturn:lane": "preview"})
        for done in (await rig.deploy(zip_=zip_), await rig.rollback()):
            assert done.code == 2
            assert "is lane preview's, not dev's" in done.err
        await rig.functions.untag_resource(Resource=arn, TagKeys=["afterturn:lane"])
        for done in (await rig.deploy(zip_=zip_), await rig.rollback()):
            assert done.code == 2
            assert "bears no lane" in done.err

    async def test_a_second_reader_of_a_queue_is_refused_by_name(self, rig: Rig) -> None:
        code = {"ZipFile": small_zip(rig.folder / "other.zip", "other").read_bytes()}
        await rig.functions.create_function(
            FunctionName="others", Runtime="python3.13", Role=ROLE, Handler="keys_app.handler", Code=code
        )
        await rig.functions.create_event_source_mapping(
            EventSourceArn=rig.account.place.queue_arn(DEV.retry), FunctionName="others", Enabled=False
        )
        done = await rig.deploy("--role", ROLE)
        assert done.code == 2
        assert "function:others reads queue afterturn-dev-retry.fifo already" in done.err
        assert await rig.serving() is None
        ready = await rig.deploy("--role", ROLE, "--unmapped", "--json")
        assert (ready.code, ready.json["version"]) == (0, "1"), ready.err
        (there,) = (await rig.functions.list_event_source_mappings())["EventSourceMappings"]
        assert there["FunctionArn"].endswith("others")

    async def test_a_queue_that_shows_its_records_too_soon_is_refused(self, rig: Rig) -> None:
        """AWS would refuse the mapping, but only after the alias has moved; the emulator takes it."""
        url = (await rig.account.sqs.get_queue_url(QueueName=DEV.main))["QueueUrl"]
        await rig.account.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "179"})
        done = await rig.deploy("--role", ROLE)
        assert done.code == 2
        assert "hides a record for 179 s" in done.err
        assert await rig.serving() is None

    async def test_a_mapping_that_somebody_changed_is_set_right(self, rig: Rig) -> None:
        await rig.deploy("--role", ROLE)
        mappings = (await rig.functions.list_event_source_mappings())["EventSourceMappings"]
        assert {(one["FunctionArn"].split(":")[-1], one["BatchSize"]) for one in mappings} == {("live", 10)}
        assert all(one["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for one in mappings)
        await rig.functions.update_event_source_mapping(
            UUID=mappings[0]["UUID"], FunctionName=BRIDGE, BatchSize=11, FunctionResponseTypes=[], Enabled=False
        )
        done = await rig.deploy("--json")
        (changed,) = [step for step in done.json["steps"] if step["action"] == "update"]
        assert changed["changes"].keys() == {"FunctionArn", "BatchSize", "FunctionResponseTypes", "State"}
        assert (await rig.deploy("--json")).json["changes"] == 0
