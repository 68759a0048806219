"""`aws lane audit` where something cannot be read, or lane, account and credentials disagree: never clean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.lane_rig import TEMPORAL, Lane, open_lane, settings, worker, write_dotenv
from tests.emulator import access, emulator, session  # noqa: F401

from afterturn.aws.session import Access


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AFTERTURN_LANE", "AFTERTURN_TABLE", "AFTERTURN_AWS_ACCOUNT", "AWS_PROFILE", "VERCEL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def prod(access: Access, session: Any, monkeypatch: pytest.MonkeyPatch) -> Lane:  # noqa: F811
    return open_lane(access, session, monkeypatch, "prod")


def test_a_runtime_that_is_named_and_not_there_is_no_clean_lane(prod: Lane) -> None:
    prod.service("up", [worker("prod")])
    healthy = ("--ecs", "main/up=up")
    assert prod.audit(*healthy).code == 0
    for words in (
        ("--lambda", "gone"),
        ("--lambda", "gone:live"),
        ("--ecs", "gone/worker"),
        ("--ecs", "main/gone"),
        ("--dotenv", "gone.env"),
    ):
        done = prod.audit(*healthy, *words, "--json")
        assert (done.code, done.json["clean"], done.json["complete"]) == (2, False, False), words
        assert done.json["findings"] == []
        assert "gone" in done.json["failures"][0]
        assert f"error: {done.json['failures'][0]}" in done.err


def test_what_is_not_there_hides_nothing_of_the_rest(prod: Lane, tmp_path: Path) -> None:
    prod.functions(AFTERTURN_TABLE="afterturn-dev")
    file = write_dotenv(tmp_path / "w.env", {**settings("preview"), **TEMPORAL})
    done = prod.audit("--lambda", "gone", "--dotenv", f"{file}=worker")
    assert done.code == 2
    for text in ("found afterturn-dev, expected afterturn-prod", "found preview, expected prod"):
        assert text in done.out
    assert "Nothing missing" not in done.err


@pytest.mark.parametrize("words", [("--account", "999999999999"), ("--table", "afterturn-preview")])
def test_it_refuses_where_lane_account_and_credentials_disagree(prod: Lane, words: tuple[str, ...]) -> None:
    done = prod.audit(*words)
    assert (done.code, done.out) == (2, "")


def test_it_refuses_a_table_that_is_another_lanes(
    access: Access,  # noqa: F811
    session: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def tagged(account: Any) -> None:
        arn = account.location.queue_arn("x").replace(":sqs:", ":dynamodb:").replace(":x", ":table/afterturn-prod")
        await account.dynamodb.tag_resource(ResourceArn=arn, Tags=[{"Key": "afterturn:lane", "Value": "preview"}])

    lane = open_lane(access, session, monkeypatch, "prod")
    lane.do(tagged)
    done = lane.audit()
    assert (done.code, done.out, "belongs to lane preview" in done.err) == (2, "", True)


def test_a_lane_that_is_not_in_this_account_is_told(prod: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "555555555555")
    done = prod.audit()
    assert (done.code, done.out) == (4, "")
    assert "afterturn aws provision" in done.err


def test_aws_that_does_not_answer_is_told(prod: Lane) -> None:
    done = prod.audit("--endpoint-url", "http://127.0.0.1:9")
    assert (done.code, done.out) == (4, "")
    assert "could not reach its endpoint" in done.err


def test_a_name_that_is_none_is_refused_before_anything_is_asked(prod: Lane) -> None:
    done = prod.audit("--endpoint-url", "http://127.0.0.1:9", "--ecs", "worker")
    assert (done.code, done.out) == (2, "")
    assert "CLUSTER/SERVICE" in done.err
