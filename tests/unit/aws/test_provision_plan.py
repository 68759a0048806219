"""What a lane is made of, how a plan follows from what is found, and who may carry it out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from afterturn.aws.names import LANES, Names
from afterturn.aws.table import INDEXES
from afterturn.errors import ConfigError, StoreForeign
from afterturn.operations.lanes import Bearer, Identity, check_lane
from afterturn.operations.plan import Act, Change, plan
from afterturn.operations.resources import Kind, Place, Resource, resources
from afterturn.stream.port import MAX_RECEIVES

PLACE = Place("eu-central-1", "123456789012")
CALLER = Identity("123456789012", "arn:aws:iam::123456789012:user/ann")
DEV = Names.of("dev")


def found_as(wanted: tuple[Resource, ...]) -> dict[tuple[Kind, str], dict[str, Any]]:
    return {(one.kind, one.name): dict(one.properties) for one in wanted}


@pytest.mark.parametrize("lane", LANES)
def test_everything_bears_the_lane_in_its_name_and_its_tags(lane: str) -> None:
    for one in resources(Names.of(lane), PLACE):
        if one.kind is not Kind.INDEX:
            assert f"afterturn-{lane}" in one.name
            assert one.properties["Tags"] == {"afterturn:lane": lane}


def test_lanes_share_no_resource() -> None:
    owned = [{(one.kind, one.name) for one in resources(Names.of(lane), PLACE)} for lane in LANES]
    indexes = {(Kind.INDEX, one.name) for one in INDEXES}
    assert owned[0] & owned[1] == owned[1] & owned[2] == indexes


def test_what_is_made_first_is_what_others_refer_to() -> None:
    order = [(one.kind, one.name) for one in resources(DEV, PLACE)]
    assert order.index((Kind.QUEUE, DEV.main_dead)) < order.index((Kind.QUEUE, DEV.main))
    assert order.index((Kind.TOPIC, DEV.topic)) < order.index((Kind.ALARM, "afterturn-dev-events-oldest-message"))
    assert [name for kind, name in order if kind is Kind.INDEX] == [one.name for one in INDEXES]


def test_a_record_dies_after_as_many_receives_as_the_stream_port_says() -> None:
    queues = {one.name: one.properties for one in resources(DEV, PLACE) if one.kind is Kind.QUEUE}
    assert queues["afterturn-dev-events.fifo"]["RedrivePolicy"] == {
        "deadLetterTargetArn": "arn:aws:sqs:eu-central-1:123456789012:afterturn-dev-events-dlq.fifo",
        "maxReceiveCount": MAX_RECEIVES,
    }
    assert queues["afterturn-dev-retry-dlq.fifo"]["RedriveAllowPolicy"] == {
        "redrivePermission": "byQueue",
        "sourceQueueArns": ["arn:aws:sqs:eu-central-1:123456789012:afterturn-dev-retry.fifo"],
    }
    assert all(one["FifoQueue"] and not one["ContentBasedDeduplication"] for one in queues.values())


def test_an_empty_account_gets_everything_and_a_whole_one_nothing() -> None:
    wanted = resources(DEV, PLACE)
    assert {step.act for step in plan(wanted, {})} == {Act.CREATE}
    assert {step.act for step in plan(wanted, found_as(wanted))} == {Act.UNCHANGED}


def test_what_differs_is_named_and_nothing_else_is_touched() -> None:
    wanted = resources(DEV, PLACE)
    found = found_as(wanted)
    found[Kind.QUEUE, DEV.main]["VisibilityTimeout"] = 30
    found[Kind.QUEUE, DEV.main]["MaximumMessageSize"] = 1024
    found[Kind.TABLE, DEV.table]["Tags"] = {"afterturn:lane": "dev", "team": "blue"}
    changed = [step for step in plan(wanted, found) if step.act is not Act.UNCHANGED]
    assert [(step.resource.name, step.act) for step in changed] == [(DEV.main, Act.UPDATE)]
    assert changed[0].changes == (Change("VisibilityTimeout", 30, 180),)
    assert changed[0].to_json()["changes"] == {"VisibilityTimeout": {"found": 30, "wanted": 180}}


def test_what_cannot_become_ours_is_refused_before_anything_is_done() -> None:
    wanted = resources(DEV, PLACE)
    found = found_as(wanted)
    found[Kind.TABLE, DEV.table]["KeySchema"] = [{"AttributeName": "id", "KeyType": "HASH"}]
    with pytest.raises(StoreForeign, match="table afterturn-dev has KeySchema"):
        plan(wanted, found)
    found = found_as(wanted)
    found[Kind.INDEX, "conv-recency-index"]["Projection"] = {"ProjectionType": "KEYS_ONLY"}
    with pytest.raises(StoreForeign, match="conv-recency-index"):
        plan(wanted, found)


def test_alarms_can_go_where_somebody_says_and_need_no_topic_then() -> None:
    wanted = resources(DEV, PLACE, notify=["arn:aws:sns:eu-central-1:123456789012:pager"])
    assert not [one for one in wanted if one.kind is Kind.TOPIC]
    told = [one.properties for one in wanted if one.kind is Kind.ALARM]
    assert all(
        one["AlarmActions"] == one["OKActions"] == ["arn:aws:sns:eu-central-1:123456789012:pager"] for one in told
    )


class TestLanes:
    def test_agreement_is_silent(self) -> None:
        mine = Bearer("table afterturn-dev", {"afterturn:lane": "dev"})
        check_lane(DEV, CALLER, [mine], account="123456789012")
        check_lane(DEV, CALLER, [])
        check_lane(Names.of("prod"), CALLER, [Bearer("table afterturn-prod", {"afterturn:lane": "prod"})])

    def test_credentials_of_another_account_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"belongs to account 999.*credentials are of 123456789012.*nothing was"):
            check_lane(DEV, CALLER, [], account="999999999999")

    def test_a_resource_of_another_lane_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"queue q.* is lane preview's, not dev's"):
            check_lane(DEV, CALLER, [Bearer("queue q", {"afterturn:lane": "preview"})], adopt=True)

    def test_a_resource_without_a_lane_is_taken_only_when_somebody_says_so(self) -> None:
        old = Bearer("table afterturn-dev", {"team": "blue"})
        with pytest.raises(ConfigError, match="--adopt"):
            check_lane(DEV, CALLER, [old])
        check_lane(DEV, CALLER, [old], adopt=True)

    def test_the_first_resource_of_prod_needs_the_account_named(self) -> None:
        with pytest.raises(ConfigError, match="--account"):
            check_lane(Names.of("prod"), CALLER, [])
        check_lane(Names.of("prod"), CALLER, [], account=CALLER.account)
        check_lane(Names.of("prod"), CALLER, [], emulated=True)

    @pytest.mark.parametrize("table", ["afterturn-prod", "PROD.conversations", "conversations_preview"])
    def test_a_table_that_is_another_lane_s_by_its_name_is_refused(self, table: str) -> None:
        with pytest.raises(ConfigError, match="by its name"):
            check_lane(replace(DEV, table=table), CALLER, [])
        check_lane(replace(DEV, table="products"), CALLER, [])

    def test_a_lane_that_is_none_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="prod, preview, dev"):
            check_lane(Names.of("stage"), CALLER, [])
