"""The bridge's function, called as Lambda calls it: its probe, and what it refuses in words that can be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.emulator import access, emulator, provision, session  # noqa: F401

from afterturn.aws.account import open_account
from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.bootstrap.lambda_bridge import BridgeFunction
from afterturn.errors import ConfigError, StreamUnavailable

DEV = Names.of("dev")
PROBE = {"afterturn": "probe"}


@pytest.fixture
def lane(access: Access, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # noqa: F811
    """A lane that is provisioned, and the environment of its function. Temporal is not there."""

    async def make() -> None:
        async with open_account(access) as account:
            await provision(account, DEV)

    asyncio.run(make())
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_LANE": "dev",
        "AFTERTURN_TEMPORAL_ADDRESS": "127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def function() -> Iterator[BridgeFunction]:
    with closing(BridgeFunction()) as opened:
        yield opened


def record(queue: str) -> dict[str, object]:
    return {
        "Records": [
            {
                "messageId": "m-1",
                "receiptHandle": "r",
                "body": "{}",
                "attributes": {"MessageGroupId": "c1"},
                "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
            }
        ]
    }


@pytest.mark.usefixtures("lane")
class TestFunction:
    def test_it_tells_whom_it_serves_and_that_temporal_does_not_answer(self, function: BridgeFunction) -> None:
        assert function(PROBE) | {"version": ""} == {
            "version": "",
            "lane": "dev",
            "table": "afterturn-dev",
            "queues": [DEV.main, DEV.retry],
            "consumers": ["grade", "inbound-package", "maintenance", "topics"],
            "engine": "unavailable",
        }

    def test_records_of_another_lane_are_refused(self, function: BridgeFunction) -> None:
        with pytest.raises(ValueError, match=r"'afterturn-prod-events\.fifo' is not one of this bridge"):
            function(record("afterturn-prod-events.fifo"))

    def test_its_app_signals_whom_it_declares_and_foreign_workflows(
        self, function: BridgeFunction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        app = "from afterturn import App\napp = App(shipped=False)\n"
        app += "app.registry.add_foreign('crm', workflow='W', signal='s', task_queue='q')\n"
        (tmp_path / "function_app.py").write_text(app)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("AFTERTURN_APP", "function_app:app")
        assert function(PROBE)["consumers"] == ["crm"]

    @pytest.mark.parametrize(
        ("name", "value", "problem"),
        [
            ("AFTERTURN_PROFILE", "embedded", "AFTERTURN_PROFILE"),
            ("AFTERTURN_LANE", "staging", "AFTERTURN_LANE"),
            ("AFTERTURN_APP", "nowhere:app", "importing nowhere failed"),
            ("AFTERTURN_APP", "nowhere", "module:attribute"),
        ],
    )
    def test_settings_that_make_no_sense_are_named_at_the_first_call(
        self, function: BridgeFunction, name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(name, value)
        for event in (PROBE, record(DEV.main)):
            with pytest.raises(ConfigError, match=problem):
                function(event)

    def test_a_lane_that_is_not_there_is_named(self, function: BridgeFunction, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AFTERTURN_LANE", "preview")
        with pytest.raises(StreamUnavailable, match=r"afterturn-preview-events\.fifo does not exist"):
            function(PROBE)
