"""`aws provision`: what it changes, what it refuses, and that it agrees on lane and account before the first write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cli.command import CommandResult, call
from tests.emulator import access, emulator, provision, session  # noqa: F401

from afterturn.aws import stack
from afterturn.aws.account import LANE_TAG, Account, Identity, Tagged, check_lane, open_account
from afterturn.aws.names import Names
from afterturn.aws.session import Access, open_client
from afterturn.aws.table import table_definition
from afterturn.errors import ConfigError, InvalidInput, StoreBusy, StoreError, StoreForeign
from afterturn.store.dynamodb import open_store

DEV = Names.of("dev")
CALLER = Identity("123456789012", "arn:aws:iam::123456789012:user/ada")


@pytest.fixture
async def account(access: Access, session: Any) -> AsyncIterator[Account]:  # noqa: F811
    async with open_account(access, *("cloudformation", "dynamodb", "sqs", "lambda"), session=session) as opened:
        yield opened


class Command:
    def __call__(self, *words: object) -> CommandResult:
        return call("aws", *words)


@pytest.fixture
def command(access: Access, monkeypatch: pytest.MonkeyPatch) -> Command:  # noqa: F811
    for name, value in {
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AFTERTURN_AWS_REGION": "us-east-1",
        "AFTERTURN_LANE": "dev",
    }.items():
        monkeypatch.setenv(name, value)
    return Command()


async def changes(account: Account, **settings: str) -> set[str]:
    """The resources that a provision would change."""
    change_set = await stack.plan(account, DEV, settings)
    await stack.discard(account, change_set)
    return {each.resource for each in change_set.changes}


class TestProvision:
    async def test_a_lane_that_it_made_can_be_opened_and_is_not_changed_again(
        self,
        account: Account,
        access: Access,  # noqa: F811
    ) -> None:
        await provision(account, DEV)
        assert await changes(account) == set()
        async with open_store(DEV.table, access) as store:
            assert await store.counts()
        found = await stack.describe(account, DEV)
        assert found is not None
        assert found.tags == {LANE_TAG: "dev"}

    async def test_a_parameter_keeps_its_value_until_it_is_set_again(self, account: Account) -> None:
        await provision(account, DEV, Memory="1024", Notify="arn:aws:sns:us-east-1:1:pager")
        assert await changes(account) == set()
        assert "AlarmTopic" not in await changes(account, LogRetention="7")
        assert await changes(account, LogRetention="7") >= {"BridgeLogs", "WebhooksLogs"}
        await provision(account, DEV, Memory="512")
        found = await stack.describe(account, DEV)
        assert found is not None
        assert (found.parameters["Memory"], found.parameters["Notify"]) == ("512", "arn:aws:sns:us-east-1:1:pager")

    async def test_drift_stops_it_and_names_the_resource(self, account: Account) -> None:
        await provision(account, DEV)
        url = (await account.sqs.get_queue_url(QueueName=DEV.main))["QueueUrl"]
        await account.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
        with pytest.raises(ConfigError, match=r"EventsQueue .*VisibilityTimeout is 7, expected 180"):
            await stack.plan(account, DEV)
        await account.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "180"})
        assert await changes(account) == set()

    async def test_a_table_or_queue_from_outside_is_refused_in_one_line(self, account: Account) -> None:
        await account.sqs.create_queue(QueueName=DEV.retry, Attributes={"FifoQueue": "true"})
        with pytest.raises(StoreForeign, match=r"queue afterturn-dev-retry\.fifo exists outside stack"):
            await stack.plan(account, DEV)
        tags = [{"Key": LANE_TAG, "Value": "dev"}]
        await account.dynamodb.create_table(**table_definition(DEV.table), Tags=tags)
        with pytest.raises(StoreForeign, match="table afterturn-dev exists outside stack") as refusal:
            await stack.plan(account, DEV)
        assert "\n" not in str(refusal.value)
        assert await stack.describe(account, DEV) is None

    async def test_an_update_that_would_replace_data_is_refused(
        self, account: Account, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await provision(account, DEV)
        text = stack.template().replace("afterturn-${Lane}-retry.fifo", "afterturn-${Lane}-renamed.fifo")
        monkeypatch.setattr(stack, "template", lambda: text)
        with pytest.raises(StoreForeign, match=r"would replace RetryQueue .*holds data"):
            await stack.plan(account, DEV)

    async def test_a_stack_that_failed_or_is_being_changed_is_named(
        self, account: Account, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await provision(account, DEV)
        status = ""

        def tell(parsed: dict[str, Any], **_: Any) -> None:
            parsed["Stacks"][0]["StackStatus"] = status

        account.cloudformation.meta.events.register("after-call.cloudformation.DescribeStacks", tell)
        for status, error in (("UPDATE_IN_PROGRESS", StoreBusy), ("UPDATE_ROLLBACK_FAILED", StoreForeign)):
            with pytest.raises(error, match=status):
                await stack.plan(account, DEV)

    async def test_a_failed_update_reports_the_resource_and_the_reason(self, account: Account) -> None:
        change_set = await stack.plan(account, DEV)

        def fail(parsed: dict[str, Any], **_: Any) -> None:
            parsed["Stacks"][0]["StackStatus"] = "ROLLBACK_COMPLETE"

        def explain(parsed: dict[str, Any], **_: Any) -> None:
            parsed["StackEvents"] = [
                {
                    "EventId": "e",
                    "ResourceStatus": "CREATE_FAILED",
                    "LogicalResourceId": "Table",
                    "ResourceStatusReason": "no more tables",
                }
            ]

        async with asyncio.timeout(60):
            events = account.cloudformation.meta.events
            events.register("after-call.cloudformation.DescribeStacks", fail)
            events.register(
                "after-call.cloudformation.ExecuteChangeSet",
                lambda **_: events.register("after-call.cloudformation.DescribeStackEvents", explain),
            )
            with pytest.raises(StoreError, match=r"ROLLBACK_COMPLETE.*Table: no more tables"):
                await stack.execute(account, change_set)


class TestStrictness:
    """What AWS asks for and the emulator does not."""

    def test_an_index_that_the_stack_does_not_know_yet_stays_off(self) -> None:
        """AWS adds one index in an update, so a template with a new one must not turn it on by its default."""
        known = {"Lane": "dev", "PhoneIndex": "on"}
        accepted: dict[str, Any] = {"Lane": {}, "PhoneIndex": {}, "WorkOrderIndex": {}, "Memory": {}}
        sent = {each["ParameterKey"]: each for each in stack.parameters(DEV, accepted, known, {"Memory": "1"})}
        assert sent["WorkOrderIndex"]["ParameterValue"] == "off"
        assert sent["PhoneIndex"] == {"ParameterKey": "PhoneIndex", "UsePreviousValue": True}
        new = {each["ParameterKey"]: each for each in stack.parameters(DEV, accepted, None, {})}
        assert "WorkOrderIndex" not in new, "a new table gets its indexes at once"

    def test_the_version_of_an_alias_is_no_drift(self) -> None:
        """The emulator does not look at aliases; AWS does, and a deployment moves them."""
        drift = {
            "LogicalResourceId": "BridgeAlias",
            "ResourceType": "AWS::Lambda::Alias",
            "StackResourceDriftStatus": "MODIFIED",
            "PropertyDifferences": [
                {"PropertyPath": "/FunctionVersion", "ExpectedValue": "1", "ActualValue": "3"},
                {"PropertyPath": "/Name", "ExpectedValue": "live", "ActualValue": "other"},
            ],
        }
        (problem,) = stack.drift_problems(drift)
        assert "Name is other" in problem
        deleted = {**drift, "StackResourceDriftStatus": "DELETED"}
        assert list(stack.drift_problems(deleted)) == ["BridgeAlias (None) is deleted"]

    def test_only_parameters_without_a_command_of_their_own_are_set_by_hand(self) -> None:
        assert stack.parse_setting("Memory=1024") == ("Memory", "1024")
        for text in ("Memory", "Nothing=1", "PhoneIndex=on", "BridgeVersion=3", "Lane=prod"):
            with pytest.raises(InvalidInput, match="--set"):
                stack.parse_setting(text)


class TestLanes:
    def test_lane_account_and_tags_have_to_agree(self) -> None:
        dev, prod = DEV, Names.of("prod")
        check_lane(dev, CALLER, [Tagged("stack", {LANE_TAG: "dev"})], account=CALLER.account)
        check_lane(prod, CALLER, [Tagged("stack", {LANE_TAG: "prod"})])
        check_lane(prod, CALLER, [], account=CALLER.account)
        check_lane(prod, CALLER, [], emulated=True)
        for names, tags, account, problem in (
            (dev, {LANE_TAG: "prod"}, None, "belongs to lane prod, not dev"),
            (dev, {}, None, "has no tag afterturn:lane"),
            (dev, {LANE_TAG: "dev"}, "999999999999", "belongs to account 999999999999"),
        ):
            with pytest.raises(ConfigError, match=problem):
                check_lane(names, CALLER, [Tagged("stack", tags)], account=account)
        with pytest.raises(ConfigError, match="--account"):
            check_lane(prod, CALLER, [])
        with pytest.raises(ConfigError, match="by its name"):
            check_lane(Names.of("dev", "afterturn-prod"), CALLER, [])

    async def test_two_lanes_live_beside_each_other(self, account: Account) -> None:
        await provision(account, DEV)
        await provision(account, Names.of("preview"))
        assert await changes(account) == set()


class TestCommand:
    def test_a_dry_run_shows_the_changes_and_makes_nothing(self, command: Command) -> None:
        for _ in range(2):
            done = command("provision", "--dry-run", "--json")
            assert done.code == 0
            assert done.json["dryRun"] is True
            assert {each["action"] for each in done.json["changes"]} == {"Add"}
        assert "nothing was done" in command("provision", "--dry-run").err
        assert command("index", "list").code == 4

    def test_provision_then_indexes_then_layout(self, command: Command, access: Access) -> None:  # noqa: F811
        done = command("provision")
        assert done.code == 0, done.err
        assert "created Table (afterturn-dev)" in done.err
        again = command("provision", "--json").json
        assert (again["lane"], again["account"], again["changes"]) == ("dev", access.access_key, [])
        assert "No changes" in command("provision").err
        listed = command("index", "list", "--json").json
        assert {each["state"] for each in listed["indexes"]} == {"ready", "not needed"}
        assert command("layout", "show", "--json").json["read"] == "a/single"
        planned = command("layout", "change", "sharded:4", "--json")
        assert [each["stage"] for each in planned.json["steps"]] == ["both", "flipped", "dropping", "settled"]
        assert "--confirm-table afterturn-dev" in planned.err
        changed = command("layout", "change", "sharded:4", "--confirm-table", "afterturn-dev", "--drain", "0s")
        assert changed.code == 0, changed.err
        assert "b/sharded:4" in changed.out
        assert "stage flipped: verifying b/sharded:4" in changed.err
        for name in ("conv-recency-index", "conv-recency-index-b"):
            assert command("index", "verify", name).code == 0
        assert command("index", "add", "work-order-index", "--json").json["action"] == "unchanged"
        assert command("provision", "--json").json["changes"] == [], "the layout is not drift"

    def test_what_disagrees_is_refused_with_exit_2(self, command: Command) -> None:
        assert command("provision").code == 0
        for words, problem in (
            (["provision", "--account", "999999999999"], "belongs to account 999999999999"),
            (["provision", "--account", "12"], "12 digits"),
            (["provision", "--table", "afterturn-prod"], "belongs to lane prod by its name"),
            (["provision", "--table", "other"], "has table afterturn-dev, not other"),
            (["provision", "--set", "PhoneIndex=off"], "--set PhoneIndex=off"),
            (["index", "verify", "conv-recency-index", "--account", "999999999999"], "belongs to account"),
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
                tags = [{"Key": LANE_TAG, "Value": "preview"}]
                await client.create_table(**table_definition("shared-table"), Tags=tags)

        asyncio.run(make())
        words = ("phone-index", "--table", "shared-table", "--confirm-table", "shared-table")
        other = command("index", "backfill", *words)
        assert other.code == 2
        assert "belongs to lane preview, not dev" in other.err

    def test_credentials_and_endpoints_that_do_not_work_are_named(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AFTERTURN_AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        done = command("provision")
        assert done.code == 4
        assert "could not reach its endpoint" in done.err
