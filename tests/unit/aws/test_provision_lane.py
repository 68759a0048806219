"""`aws provision` and `aws alarms` against the emulator: idempotent, resumable, and never in somebody else's lane."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.cli.command import Done, call
from tests.emulator import access, emulator, session  # noqa: F401

from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client
from afterturn.aws.table import INDEXES, WORK_ORDER, table_definition
from afterturn.errors import ConfigError, StoreForeign
from afterturn.operations.account import Account, open_account
from afterturn.operations.indexes import Patience
from afterturn.operations.plan import Act, Step
from afterturn.operations.provision import carry_out, plan_alarms, plan_lane
from afterturn.operations.resources import Kind
from afterturn.store.dynamodb import open_store
from afterturn.stream.port import MAX_RECEIVES

DEV = Names.of("dev")
QUICK = Patience(timeout=5, every=0.02)

Command = Callable[..., Done]


@pytest.fixture
async def account(access: Access, session: Any) -> AsyncIterator[Account]:  # noqa: F811
    async with open_account(access, session=session) as opened:
        yield opened


@pytest.fixture
def command(access: Access, monkeypatch: pytest.MonkeyPatch) -> Command:  # noqa: F811
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(access.access_key))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AFTERTURN_AWS_ENDPOINT_URL", str(access.endpoint))
    monkeypatch.setenv("AFTERTURN_AWS_REGION", "us-east-1")
    return lambda *words: call("aws", *words)


async def provision(account: Account, names: Names = DEV, **given: Any) -> tuple[Step, ...]:
    steps = await plan_lane(account, names, **given)
    await carry_out(account, names, steps, patience=QUICK)
    return steps


def acts(steps: tuple[Step, ...]) -> dict[str, Act]:
    return {step.resource.name: step.act for step in steps if step.act is not Act.UNCHANGED}


class TestProvision:
    async def test_an_empty_account_becomes_a_lane_that_works_and_stays_as_it_is(
        self,
        account: Account,
        access: Access,  # noqa: F811
    ) -> None:
        first = await provision(account)
        assert {step.act for step in first} == {Act.CREATE}
        assert acts(await provision(account)) == {}
        async with open_store(DEV.table, access) as store:
            assert await store.counts()
        url = (await account.sqs.get_queue_url(QueueName=DEV.main))["QueueUrl"]
        told = (await account.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"]))["Attributes"]
        assert f'"maxReceiveCount": {MAX_RECEIVES}' in told["RedrivePolicy"]
        ttl = await account.dynamodb.describe_time_to_live(TableName=DEV.table)
        assert ttl["TimeToLiveDescription"]["TimeToLiveStatus"] == "ENABLED"

    async def test_what_somebody_changed_is_set_right_and_the_rest_is_left_alone(self, account: Account) -> None:
        await provision(account)
        url = (await account.sqs.get_queue_url(QueueName=DEV.main))["QueueUrl"]
        await account.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
        alarm = f"{DEV.prefix}-events-first-dead-letter"
        (there,) = (await account.cloudwatch.describe_alarms(AlarmNames=[alarm]))["MetricAlarms"]
        given = {key: there[key] for key in ("Namespace", "MetricName", "Statistic", "Period", "EvaluationPeriods")}
        await account.cloudwatch.put_metric_alarm(
            AlarmName=alarm, Threshold=5, ComparisonOperator="GreaterThanOrEqualToThreshold", **given
        )
        await account.dynamodb.update_table(TableName=DEV.table, DeletionProtectionEnabled=False)
        assert acts(await provision(account)) == dict.fromkeys((DEV.table, DEV.main, alarm), Act.UPDATE)
        assert acts(await provision(account)) == {}

    @pytest.mark.parametrize("stop", [1, 2, 8, 10, 13])
    async def test_stopped_anywhere_it_makes_the_rest_when_it_is_run_again(self, account: Account, stop: int) -> None:
        done = 0

        def then_stop(step: Step) -> None:
            nonlocal done
            done += 1
            if done == stop:
                raise KeyboardInterrupt

        steps = await plan_lane(account, DEV)
        with pytest.raises(KeyboardInterrupt):
            await carry_out(account, DEV, steps, patience=QUICK, told=then_stop)
        left = acts(await provision(account))
        assert len(left) <= len(steps) - stop
        assert acts(await provision(account)) == {}

    async def test_a_table_without_an_index_gets_it_one_by_one(self, account: Account) -> None:
        definition = table_definition(DEV.table, INDEXES[:3])
        await account.dynamodb.create_table(**definition, Tags=[{"Key": "afterturn:lane", "Value": "dev"}])
        updates: list[int] = []

        def note(params: dict[str, Any], **_: Any) -> None:
            updates.append(len(params.get("GlobalSecondaryIndexUpdates", ())))

        account.dynamodb.meta.events.register("before-parameter-build.dynamodb.UpdateTable", note)
        done = acts(await provision(account))
        assert done[WORK_ORDER.name] is done["property-recency-index"] is Act.CREATE
        assert max(updates) == 1
        assert acts(await provision(account)) == {}

    async def test_a_table_that_is_still_being_made_is_waited_for(self, account: Account) -> None:
        """A run that was stopped right after CreateTable is taken up while AWS goes on with the table."""
        definition = table_definition(DEV.table)
        await account.dynamodb.create_table(**definition, Tags=[{"Key": "afterturn:lane", "Value": "dev"}])
        states = ["CREATING"] * 4

        def tell(parsed: dict[str, Any], **_: Any) -> None:
            if states:
                parsed["Table"]["TableStatus"] = states.pop()

        account.dynamodb.meta.events.register("after-call.dynamodb.DescribeTable", tell)
        await provision(account)
        assert not states
        assert acts(await provision(account)) == {}

    async def test_aws_takes_no_point_in_time_recovery_for_a_while(self, account: Account) -> None:
        refusals = [1, 1]

        def refuse(**_: Any) -> tuple[Any, dict[str, Any]] | None:
            from types import SimpleNamespace

            if not refusals:
                return None
            refusals.pop()
            error = {"Code": "ContinuousBackupsUnavailableException", "Message": "later"}
            return SimpleNamespace(status_code=400, headers={}), {"Error": error, "ResponseMetadata": {}}

        account.dynamodb.meta.events.register("before-call.dynamodb.UpdateContinuousBackups", refuse)
        await provision(account)
        assert not refusals

    async def test_an_error_of_aws_is_named_with_what_was_done(self, account: Account) -> None:
        steps = await plan_lane(account, DEV)
        await account.dynamodb.create_table(
            TableName=DEV.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            Tags=[{"Key": "afterturn:lane", "Value": "dev"}],
        )
        with pytest.raises(Exception, match="create table afterturn-dev") as told:
            await carry_out(account, DEV, steps, patience=QUICK)
        assert isinstance(told.value.__cause__, ClientError)
        with pytest.raises(StoreForeign, match="KeySchema"):
            await plan_lane(account, DEV)


class TestLanes:
    async def test_what_bears_another_lane_is_not_touched(self, account: Account) -> None:
        definition = table_definition(DEV.table)
        await account.dynamodb.create_table(**definition, Tags=[{"Key": "afterturn:lane", "Value": "preview"}])
        with pytest.raises(ConfigError, match="is lane preview's"):
            await plan_lane(account, DEV)
        with pytest.raises(account.sqs.exceptions.QueueDoesNotExist):
            await account.sqs.get_queue_url(QueueName=DEV.main)

    async def test_what_bears_none_is_adopted_when_somebody_says_so(self, account: Account) -> None:
        await account.dynamodb.create_table(**table_definition(DEV.table))
        with pytest.raises(ConfigError, match="--adopt"):
            await plan_lane(account, DEV)
        assert acts(await provision(account, adopt=True))[DEV.table] is Act.UPDATE
        assert acts(await provision(account)) == {}

    async def test_two_lanes_live_beside_each_other(self, account: Account) -> None:
        await provision(account)
        await provision(account, Names.of("preview"))
        assert acts(await provision(account)) == acts(await provision(account, Names.of("preview"))) == {}

    async def test_alarms_alone_need_no_table(self, account: Account) -> None:
        steps = await plan_alarms(account, DEV, notify=["arn:aws:sns:us-east-1:1:pager"])
        assert {step.resource.kind for step in steps} == {Kind.ALARM}
        await carry_out(account, DEV, steps)
        assert acts(await plan_alarms(account, DEV, notify=["arn:aws:sns:us-east-1:1:pager"])) == {}
        assert len(acts(await plan_alarms(account, DEV))) == len(steps) + 1


class TestCommand:
    def test_a_dry_run_tells_and_does_nothing(self, command: Command) -> None:
        for _ in range(2):
            done = command("provision", "--dry-run", "--json")
            assert done.code == 0
            assert done.json["dryRun"] is True
            assert {step["action"] for step in done.json["steps"]} == {"create"}
        assert "nothing was done" in command("provision", "--dry-run").err

    def test_provision_then_alarms_then_layout(self, command: Command, access: Access) -> None:  # noqa: F811
        done = command("provision")
        assert done.code == 0
        assert done.err.splitlines().count("created table afterturn-dev") == 1
        assert "afterturn-dev" not in done.out, "what was done is told once"
        assert re.search(r"^created +\d\d\nupdated +0\nas wanted before +0$", done.out, re.MULTILINE)
        listed = command("index", "list", "--json").json
        assert {one["state"] for one in listed["indexes"]} == {"ready", "not needed"}
        assert "conv-recency-index" in command("index", "list").out
        again = command("provision", "--json").json
        assert (again["lane"], again["account"], again["changes"]) == ("dev", access.access_key, 0)
        assert command("alarms", "--json").json["changes"] == 0
        assert command("layout", "show", "--json").json["read"] == "a/single"
        told = command("layout", "change", "sharded:4", "--json")
        assert [one["stage"] for one in told.json["steps"]] == ["both", "flipped", "dropping", "settled"]
        assert "--confirm-table afterturn-dev" in told.err
        changed = command("layout", "change", "sharded:4", "--confirm-table", "afterturn-dev", "--drain", "0s")
        assert changed.code == 0, changed.err
        assert "b/sharded:4" in changed.out
        assert "stage flipped: verifying b/sharded:4" in changed.err
        for name in ("conv-recency-index", "conv-recency-index-b"):
            assert command("index", "verify", name).code == 0
        assert command("index", "backfill", "conv-recency-index-b").code == 0
        assert command("index", "add", "work-order-index", "--json").json["action"] == "unchanged"

    def test_what_disagrees_is_refused_with_exit_2(self, command: Command) -> None:
        assert command("provision").code == 0
        for words, problem in (
            (["provision", "--account", "999999999999"], "belongs to account 999999999999"),
            (["provision", "--account", "12"], "12 digits"),
            (["provision", "--lane", "dev", "--table", "afterturn-prod"], "lane prod's by its name"),
            (["index", "verify", "conv-recency-index", "--account", "999999999999"], "belongs to account"),
            (["index", "verify", "conv-recency-index", "--lane", "preview", "--table", "afterturn-dev"], "by its name"),
            (["index", "backfill", "conv-recency-index", "--confirm-table", "afterturn-prod"], "nothing was done"),
            (["index", "add", "nonsense"], "there is no index"),
            (["index", "backfill", "work-order-index", "--through", "entity-index"], "--through scan"),
            (["layout", "change", "spiral"], "no recency layout"),
        ):
            done = command(*words)
            assert (done.code, done.out) == (2, ""), words
            assert problem in done.err, words

    def test_a_table_that_is_missing_and_one_of_another_lane_are_told_apart(
        self,
        command: Command,
        access: Access,  # noqa: F811
    ) -> None:
        missing = command("index", "verify", "conv-recency-index")
        assert missing.code == 4
        assert "afterturn aws provision" in missing.err

        async def make() -> None:
            async with open_client("dynamodb", access) as client:
                tags = [{"Key": "afterturn:lane", "Value": "preview"}]
                await client.create_table(**table_definition("shared-table"), Tags=tags)

        asyncio.run(make())
        other = command(
            "index", "backfill", "phone-index", "--table", "shared-table", "--confirm-table", "shared-table"
        )
        assert other.code == 2
        assert "is lane preview's, not dev's" in other.err

    def test_credentials_and_endpoints_that_do_not_work_are_named(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AFTERTURN_AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        done = command("provision")
        assert done.code == 4
        assert "could not reach its endpoint" in done.err
