"""`aws lane audit` on an account of the emulator: what functions, services and files are really configured with."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import call
from tests.cli.lane_rig import TEMPORAL, Lane, container, open_lane, settings, worker, write_dotenv
from tests.emulator import access, emulator, session  # noqa: F401

from afterturn.aws.session import Access


@pytest.fixture
def prod(access: Access, session: Any, monkeypatch: pytest.MonkeyPatch) -> Lane:  # noqa: F811
    return open_lane(access, session, monkeypatch, "prod")


@pytest.fixture
def healthy(prod: Lane) -> Lane:
    prod.functions()
    prod.service("worker", [worker("prod")])
    return prod


class TestAHealthyLane:
    def test_is_clean_and_says_what_was_looked_at(self, healthy: Lane, tmp_path: Path) -> None:
        file = write_dotenv(tmp_path / "web.env", settings("prod", AFTERTURN_EMITTER="web"))
        words = ["--ecs", "main/worker", "--dotenv", f"{file}=web"]
        done = healthy.audit(*words)
        assert done.code == 0, done.out
        for label in (
            "lambda afterturn-prod-bridge:live",
            "lambda afterturn-prod-webhooks:live",
            "ecs main/worker",
            f"dotenv {file}",
        ):
            assert label in done.out
        assert "Nothing missing, nothing crossed." in done.err
        told = healthy.audit(*words, "--json").json
        assert (told["clean"], told["complete"], told["findings"]) == (True, True, [])
        assert told["unread"] == [
            {
                "kind": "ecs",
                "runtime": "main/worker",
                "setting": "AFTERTURN_TEMPORAL_API_KEY",
                "secret": True,
                "present": True,
            }
        ]
        assert [one["role"] for one in told["runtimes"]] == ["bridge", "inbound-lambda", "worker", "web"]

    def test_changes_nothing(self, healthy: Lane) -> None:
        before = healthy.do(_everything)
        healthy.audit("--ecs", "main/worker")
        assert healthy.do(_everything) == before

    def test_says_that_no_worker_was_looked_at(self, healthy: Lane) -> None:
        assert "No worker was looked at" in healthy.audit().err


async def _everything(account: Any) -> object:
    functions = await account.clients["lambda"].list_functions()
    mappings = await account.clients["lambda"].list_event_source_mappings()
    services = await account.clients["ecs"].describe_services(cluster="main", services=["worker"])
    queues = await account.sqs.list_queues()
    return [
        [(one["FunctionName"], one["RevisionId"], one["Environment"]) for one in functions["Functions"]],
        [(one["UUID"], one["FunctionArn"], one["State"]) for one in mappings["EventSourceMappings"]],
        [(one["serviceName"], one["taskDefinition"], one["desiredCount"]) for one in services["services"]],
        queues["QueueUrls"],
    ]


class TestFunctions:
    def test_a_crossed_wire_is_one_line_that_says_which(self, healthy: Lane) -> None:
        wires = {**settings("prod", AFTERTURN_TABLE="afterturn-preview"), **TEMPORAL}
        healthy.set("afterturn-prod-bridge", wires)
        done = healthy.audit()
        assert done.code == 3
        line = next(line for line in done.out.splitlines() if line.startswith("crossed"))
        assert line.split("  ")[0] == "crossed"
        assert " ".join(line.split()) == (
            "crossed lambda afterturn-prod-bridge:live AFTERTURN_TABLE found afterturn-preview, expected afterturn-prod"
        )

    def test_what_serves_is_read_not_what_was_written_last(self, healthy: Lane) -> None:
        async def newer(account: Any) -> None:
            await account.clients["lambda"].update_function_configuration(
                FunctionName="afterturn-prod-bridge", Environment={"Variables": {"AFTERTURN_LANE": "preview"}}
            )

        healthy.do(newer)
        assert healthy.findings(code=0) == []
        named = ["--lambda", "afterturn-prod-bridge=bridge"]
        assert ("crossed", "afterturn-prod-bridge", "AFTERTURN_LANE") in healthy.findings(*named)

    def test_one_without_the_alias_that_deployments_move_is_found(self, prod: Lane) -> None:
        prod.function("afterturn-prod-webhooks", settings("prod", AFTERTURN_EMITTER="inbound-lambda"), alias=False)
        assert ("missing", "afterturn-prod-webhooks:live", "alias live") in prod.findings()

    def test_a_bridge_that_is_called_for_one_queue_only_is_found(self, prod: Lane) -> None:
        prod.function("afterturn-prod-bridge", {**settings("prod"), **TEMPORAL}, reads=(prod.names.main,))
        done = prod.audit("--json")
        assert [(one["setting"], one["expected"]) for one in done.json["findings"]] == [
            ("event source", prod.names.retry)
        ]

    def test_another_lanes_bridge_on_this_lanes_queue_is_found_though_nobody_named_it(self, healthy: Lane) -> None:
        healthy.function("afterturn-preview-bridge", settings("preview"), reads=(healthy.names.main,))
        assert healthy.findings() == [("crossed", "afterturn-preview-bridge:live", "event source")]

    def test_values_that_no_log_should_hold_are_not_printed(self, prod: Lane) -> None:
        secrets = {
            "AFTERTURN_TEMPORAL_API_KEY": "geheim-1",
            "AFTERTURN_WEBHOOK_URL": "https://in.example/geheim-2",
            "AFTERTURN_WEBHOOK_SECRET": "geheim-3",
            "AFTERTURN_KEYS": "geheim-4",
            "AFTERTURN_SLOTS": "geheim-5",
        }
        prod.functions(**secrets)
        for words in ([], ["--json"]):
            done = prod.audit(*words)
            assert done.code == 3
            assert "AFTERTURN_SLOTS" in done.out
            assert "geheim" not in done.out + done.err


class TestServices:
    def test_a_crossed_and_a_missing_wire_are_found(self, healthy: Lane) -> None:
        wires = {**settings("prod", AFTERTURN_LANE="preview"), **TEMPORAL}
        del wires["AFTERTURN_PROFILE"]
        healthy.service("other", [container(wires)])
        assert set(healthy.findings("--ecs", "main/other")) == {
            ("missing", "main/other", "AFTERTURN_PROFILE"),
            ("crossed", "main/other", "AFTERTURN_LANE"),
        }

    def test_the_container_with_our_variables_is_read(self, healthy: Lane) -> None:
        healthy.service("two", [container({"X": "1"}, name="proxy"), worker("prod", AFTERTURN_LANE="dev")])
        assert healthy.findings("--ecs", "main/two") == [("crossed", "main/two", "AFTERTURN_LANE")]

    def test_of_two_with_our_variables_one_has_to_be_named(self, healthy: Lane) -> None:
        second = {**worker("prod", AFTERTURN_LANE="dev"), "name": "second"}
        healthy.service("two", [worker("prod"), second])
        done = healthy.audit("--ecs", "main/two")
        assert (done.code, "--ecs main/two:app" in done.err) == (2, True)
        assert healthy.findings("--ecs", "main/two:app", code=0) == []
        assert healthy.findings("--ecs", "main/two:second") == [("crossed", "main/two", "AFTERTURN_LANE")]
        assert healthy.audit("--ecs", "main/two:third").code == 2

    def test_a_machine_of_ones_own_gives_no_region(self, healthy: Lane) -> None:
        wires = {**settings("prod"), **TEMPORAL}
        del wires["AFTERTURN_AWS_REGION"]
        healthy.service("fargate", [container(wires)])
        healthy.service("machine", [container(wires)], launchType="EC2")
        assert healthy.findings("--ecs", "main/fargate", code=0) == []
        assert healthy.findings("--ecs", "main/machine") == [("missing", "main/machine", "AFTERTURN_AWS_REGION")]

    def test_variables_that_come_from_a_file_elsewhere_are_not_called_missing(self, healthy: Lane) -> None:
        file = [{"value": "arn:aws:s3:::bucket/app.env", "type": "s3"}]
        healthy.service("filed", [container({"AFTERTURN_PROFILE": "aws"}, environmentFiles=file)])
        done = healthy.audit("--ecs", "main/filed", "--json")
        assert (done.code, done.json["clean"], done.json["findings"]) == (0, False, [])
        assert "AFTERTURN_LANE" in [one["setting"] for one in done.json["unread"]]
        assert healthy.audit("--ecs", "main/filed", "--strict").code == 3


class TestFiles:
    def test_runtimes_that_do_not_agree_are_found(self, healthy: Lane, tmp_path: Path) -> None:
        wires = {**settings("prod"), **TEMPORAL, "AFTERTURN_TEMPORAL_NAMESPACE": "elsewhere"}
        file = write_dotenv(tmp_path / ".env", wires)
        words = ["--ecs", "main/worker", "--dotenv", f"{file}=worker"]
        assert healthy.findings(*words) == [("crossed", str(file), "AFTERTURN_TEMPORAL_NAMESPACE")]
        assert {one[1] for one in healthy.findings(*words, "--temporal-namespace", "elsewhere")} == {
            "afterturn-prod-bridge:live",
            "main/worker",
        }


def test_a_lane_without_a_table_is_answered_alike_by_every_command(
    access: Access,  # noqa: F811
    session: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    open_lane(access, session, monkeypatch, "prod")
    zip_ = tmp_path / "webhooks.zip"
    with zipfile.ZipFile(zip_, "w") as archive:
        for name in ("afterturn/__init__.py", "index.py"):
            archive.writestr(name, "")
    told = set()
    for words in (
        ["lane", "audit"],
        ["layout", "show"],
        ["index", "verify", "conv-recency-index"],
        ["deploy", "webhooks", "--zip", zip_],
    ):
        done = call("aws", *words, "--lane", "dev")
        assert (done.code, done.out) == (4, ""), words
        told.add(done.err)
    (line,) = told
    assert "has no table afterturn-dev" in line
    assert "`afterturn aws provision` creates it" in line


def test_a_named_runtime_that_does_not_exist_makes_the_audit_incomplete(prod: Lane) -> None:
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


def test_a_missing_runtime_does_not_hide_findings_in_the_others(prod: Lane, tmp_path: Path) -> None:
    prod.functions(AFTERTURN_TABLE="afterturn-dev")
    file = write_dotenv(tmp_path / "w.env", {**settings("preview"), **TEMPORAL})
    done = prod.audit("--lambda", "gone", "--dotenv", f"{file}=worker")
    assert done.code == 2
    for text in ("found afterturn-dev, expected afterturn-prod", "found preview, expected prod"):
        assert text in done.out
    assert "Nothing missing" not in done.err


@pytest.mark.parametrize("words", [("--account", "999999999999"), ("--table", "afterturn-preview")])
def test_it_refuses_if_lane_account_and_credentials_disagree(prod: Lane, words: tuple[str, ...]) -> None:
    done = prod.audit(*words)
    assert (done.code, done.out) == (2, "")


def test_it_refuses_a_table_tagged_with_another_lane(
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


def test_a_lane_that_is_not_in_this_account_is_reported(prod: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "555555555555")
    done = prod.audit()
    assert (done.code, done.out) == (4, "")
    assert "afterturn aws provision" in done.err


def test_an_unreachable_endpoint_is_reported(prod: Lane) -> None:
    done = prod.audit("--endpoint-url", "http://127.0.0.1:9")
    assert (done.code, done.out) == (4, "")
    assert "could not reach its endpoint" in done.err


def test_a_malformed_runtime_name_is_refused_before_any_request(prod: Lane) -> None:
    done = prod.audit("--endpoint-url", "http://127.0.0.1:9", "--ecs", "worker")
    assert (done.code, done.out) == (2, "")
    assert "CLUSTER/SERVICE" in done.err
