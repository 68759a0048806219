"""A lane that is not there, not whole, another one's, or not ours to enter: said in one line, with nothing written."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.cli.command import call, turn
from tests.cli.conftest import _alone  # noqa: F401
from tests.contract.stream import event
from tests.emulator import access, emulator, provision  # noqa: F401

from afterturn.app import App
from afterturn.aws.account import Account, open_account
from afterturn.aws.names import Names
from afterturn.aws.session import Access
from afterturn.aws.table import INDEXES, RECENCY, table_definition
from afterturn.bootstrap import open_settler
from afterturn.bootstrap.bridge import open_bridge
from afterturn.bootstrap.lambda_bridge import BridgeFunction
from afterturn.bootstrap.lambda_webhooks import WebhooksFunction
from afterturn.config import read_settings
from afterturn.errors import AfterturnError, ConfigError, StoreError, StreamUnavailable
from afterturn.local import HOST

DEV = Names.of("dev")
SETTLING = ("settle",)
RUNNING = ("up", "worker", "drain")
LOOKING = ("audit", "inbox")
ALL = (*SETTLING, *RUNNING, *LOOKING, "bridge")


@pytest.fixture(autouse=True)
def lane(access: Access, _alone: None, monkeypatch: pytest.MonkeyPatch) -> Access:  # noqa: F811
    """The settings of lane dev, in an account of its own in which there is nothing."""
    told = {
        "AFTERTURN_PROFILE": "aws",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AFTERTURN_TEMPORAL_ADDRESS": f"{HOST}:1",
        "AFTERTURN_TURNS_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_MAX_ATTEMPTS": "1",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    return access


def queues(access: Access) -> None:  # noqa: F811
    async def make() -> None:
        async with open_account(access) as account:
            await provision(account, DEV)
            await account.dynamodb.update_table(TableName=DEV.table, DeletionProtectionEnabled=False)
            await account.dynamodb.delete_table(TableName=DEV.table)

    asyncio.run(make())


def table(access: Access, name: str = DEV.table, *, without: Sequence[Any] = ()) -> None:  # noqa: F811
    async def make() -> None:
        async with open_account(access) as account:
            await account.dynamodb.create_table(
                **table_definition(name, [one for one in INDEXES if one not in without])
            )

    asyncio.run(make())


def refused(commands: Sequence[str], code: int, *words: str) -> None:
    """One line on stderr that says what to do, and nothing else."""
    for command in commands:
        done = call(command, stdin=turn())
        assert (done.code, done.out) == (code, ""), (command, done.err)
        assert done.err.count("\n") == 1
        for word in words:
            assert word in done.err, command


class TestCommands:
    def test_a_lane_that_is_not_there(self) -> None:
        refused(ALL, 4, "afterturn-dev-events.fifo does not exist", "afterturn aws provision")

    def test_a_lane_without_its_table(self, lane: Access) -> None:
        queues(lane)
        refused([one for one in ALL if one != "bridge"], 4, "afterturn-dev", "afterturn aws provision")

    def test_a_table_without_an_index(self, lane: Access) -> None:
        queues(lane)
        table(lane, without=[RECENCY])
        refused([one for one in ALL if one != "bridge"], 4, "afterturn aws index add conv-recency-index")
        assert records_of(lane) == 0

    def test_a_queue_that_is_missing(self, lane: Access) -> None:
        """Nothing is settled into a table whose queues are not there: nobody would come to see it before a sweep."""
        queues(lane)
        table(lane)

        async def remove() -> None:
            async with open_account(lane) as account:
                url = await account.sqs.get_queue_url(QueueName=DEV.retry)
                await account.sqs.delete_queue(QueueUrl=url["QueueUrl"])

        asyncio.run(remove())
        refused(ALL, 4, "afterturn-dev-retry.fifo does not exist", "afterturn aws provision")
        assert records_of(lane) == 0

    def test_a_table_of_another_lane(self, lane: Access, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is there, and it would take the turns: then those of two lanes would stand in one inbox."""
        queues(lane)
        table(lane, "afterturn-prod")
        monkeypatch.setenv("AFTERTURN_TABLE", "afterturn-prod")
        refused(ALL, 2, "afterturn-prod belongs to lane prod by its name, not to dev")
        assert records_of(lane, "afterturn-prod") == 0

    @pytest.mark.parametrize(
        ("kind", "words"),
        [
            ("UnrecognizedClientException", "refuses the credentials"),
            ("InvalidClientTokenId", "refuses the credentials"),
            ("ExpiredToken", "they have expired"),
            ("AccessDeniedException", "does not let these credentials do that"),
            ("SignatureDoesNotMatch", "the clock of this machine"),
        ],
    )
    def test_credentials_that_are_no_good(
        self, refusing: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, kind: str, words: str
    ) -> None:
        """The emulator believes any; this endpoint believes none."""
        monkeypatch.setenv("AFTERTURN_AWS_ENDPOINT_URL", refusing(kind))
        refused(("settle", "worker", "bridge"), 4, words)

    def test_no_credentials_at_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        refused(ALL, 4, "needs AWS credentials, and there are none")


class TestOpening:
    async def test_a_settler_and_a_bridge_say_so_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        await asserts_raised(StreamUnavailable, "afterturn aws provision")
        monkeypatch.setenv("AFTERTURN_TABLE", "afterturn-preview")
        await asserts_raised(ConfigError, "belongs to lane preview by its name")

    async def test_a_settler_wants_a_whole_table(self, lane: Access) -> None:
        await asyncio.to_thread(queues, lane)
        with pytest.raises(StoreError, match="afterturn aws provision"):
            async with open_settler(read_settings()):
                pass
        await asyncio.to_thread(lambda: table(lane, without=[RECENCY]))
        with pytest.raises(StoreError, match="aws index add conv-recency-index"):
            async with open_settler(read_settings()):
                pass


class TestFunctions:
    """A function that could not be opened fails its calls, so that nothing is taken for done; then it works."""

    def test_the_bridge(self, lane: Access) -> None:
        function = BridgeFunction()
        arn = f"arn:aws:sqs:us-east-1:{lane.access_key}:{DEV.main}"
        record = {
            "messageId": "1",
            "receiptHandle": "gone",
            "body": event("a", 1).to_json(),
            "attributes": {"MessageGroupId": "a", "ApproximateReceiveCount": "1"},
            "eventSourceARN": arn,
        }
        try:
            with pytest.raises(StreamUnavailable, match="afterturn aws provision"):
                function({"Records": [record]})
            queues(lane)
            # Temporal does not answer, so all of it is to come again.
            assert function({"Records": [record]}) == {"batchItemFailures": [{"itemIdentifier": "1"}]}
            with pytest.raises(ValueError, match=r"afterturn-prod-events.fifo.* is not one of this bridge"):
                function({"Records": [{**record, "eventSourceARN": arn.replace("dev", "prod")}]})
        finally:
            function.close()

    def test_the_bridge_of_a_crossed_lane_is_not_put_into_service(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AFTERTURN_TABLE", "afterturn-prod")
        for call_it in (BridgeFunction(), WebhooksFunction()):
            with pytest.raises(ConfigError, match="lane prod by its name"):
                call_it({"afterturn": "probe"})

    def test_the_webhooks_function(self, lane: Access) -> None:
        function = WebhooksFunction()
        request = {
            "version": "2.0",
            "rawPath": "/turns",
            "rawQueryString": "",
            "headers": {},
            "requestContext": {"http": {"method": "POST", "path": "/turns"}},
            "body": turn(),
            "isBase64Encoded": False,
        }
        try:
            answer = function(request)
            assert answer["statusCode"] >= 500
            assert "nothing was saved" in json.loads(answer["body"])["error"]["message"]
            queues(lane)
            table(lane)
            assert function(request)["statusCode"] == 401
            assert records_of(lane) == 0
        finally:
            function.close()


async def asserts_raised(kind: type[AfterturnError], words: str) -> None:
    settings = read_settings()
    for opening in (open_settler(settings), open_bridge(App(), settings), App().open(settings)):
        with pytest.raises(kind, match=words):
            async with opening:
                pass


def records_of(access: Access, name: str = DEV.table) -> int:  # noqa: F811
    """Items in a table."""

    async def ask(account: Account) -> int:
        return int((await account.dynamodb.scan(TableName=name))["Count"])

    async def look() -> int:
        async with open_account(access) as account:
            return await ask(account)

    return asyncio.run(look())


@pytest.fixture
def refusing() -> Iterator[Callable[[str], str]]:
    """An endpoint of AWS that answers every call with one error."""
    with ThreadingHTTPServer((HOST, 0), Refusal) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def endpoint(kind: str) -> str:
            server.kind = kind  # type: ignore[attr-defined]
            return f"http://{HOST}:{server.server_address[1]}"

        yield endpoint
        server.shutdown()
        thread.join()


class Refusal(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.dumps({"__type": self.server.kind, "message": "no"}).encode()  # type: ignore[attr-defined]
        self.send_response(403)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass
