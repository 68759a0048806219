"""`aws deploy bridge` against the emulator, which runs the function and calls it for the queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.contract.stream import publish
from tests.faults.deploying import (  # noqa: F401
    Rig,
    access,
    emulator,
    handler_zip,
    open_rig,
    session,
    small_zip,
    temporal_server,
)

from afterturn.aws.stack import Patience
from afterturn.errors import StoreError


class TestBridge:
    async def test_what_is_settled_reaches_every_consumer_through_the_deployed_function(self, rig: Rig) -> None:
        """Records that wait before the first deployment, too, and those that were parked for one consumer."""
        await publish(rig.stream, "c1@1")
        done = await rig.deploy()
        assert done.code == 0, done.err
        await publish(rig.stream, "c2@1")
        await publish(rig.stream, "c3@1", consumer="keys", emission="first")
        await rig.drained()
        for conversation in ("c1", "c2", "c3"):
            assert await rig.started("keys", conversation)

    async def test_run_again_it_changes_nothing(self, rig: Rig) -> None:
        assert (await rig.deploy("--json")).json["version"] == "2"
        writes = rig.writes()
        again = await rig.deploy("--json")
        assert (again.code, again.json["steps"], again.json["version"]) == (0, [], "2")
        assert await rig.versions() == ["2"]
        await rig.bring(rig.folder / "one.zip")
        assert writes == []

    async def test_a_dry_run_tells_and_does_nothing(self, rig: Rig) -> None:
        for _ in range(2):
            done = await rig.deploy("--dry-run", "--json")
            assert (done.code, done.json["dryRun"], done.json["version"]) == (0, True, "1")
            assert [step["kind"] for step in done.json["steps"]] == ["function", "version", "alias", "stack"]
        assert "nothing was done" in (await rig.deploy("--dry-run")).err
        assert (await rig.serving(), await rig.versions()) == ("1", [])

    @pytest.mark.thorough
    async def test_other_code_and_other_variables_become_versions_of_their_own(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await rig.deploy()
        two = small_zip(rig.folder / "two.zip", "two")
        done = await rig.deploy("--json", zip_=two)
        assert done.code == 0, done.err
        assert (done.json["version"], await rig.serving()) == ("3", "3")
        assert "version 3 passed its smoke check" in done.err
        monkeypatch.setenv("AFTERTURN_LEASE", "45s")
        monkeypatch.setenv("AFTERTURN_TEMPORAL_API_KEY", "hush")
        told = await rig.deploy("--dry-run", zip_=two)
        assert "variable AFTERTURN_LEASE: set" in told.out
        assert "hush" not in told.out + told.err
        monkeypatch.delenv("AFTERTURN_TEMPORAL_API_KEY")  # with a key goes TLS, which the server here has not
        assert (await rig.deploy("--json", zip_=two)).json["version"] == "4"
        monkeypatch.delenv("AFTERTURN_LEASE")
        assert (await rig.deploy("--json", zip_=two)).json["changes"] == 0
        assert (await rig.deploy("--json", "--unset", "AFTERTURN_LEASE", zip_=two)).json["version"] == "5"
        await publish(rig.stream, "c1@1")
        await rig.drained()
        assert await rig.started("keys", "c1")

    @pytest.mark.thorough
    async def test_a_version_that_fails_its_smoke_check_does_not_serve(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await rig.deploy()
        apps = {
            "importing keys_app failed": "raise RuntimeError('broken')",
            "declares no consumer": "from afterturn import App; app = App(shipped=False)",
        }
        bad = {problem: small_zip(rig.folder / f"{len(problem)}.zip", app=app) for problem, app in apps.items()}
        answers = {
            "does not answer the probe": "return {'batchItemFailures': []}",
            "its lane is 'preview' instead of 'dev'": "return {'lane': 'preview', 'table': 'afterturn-dev'}",
            "no way": "raise RuntimeError('no way')",
        }
        bad |= {problem: handler_zip(rig.folder / f"h{len(problem)}.zip", code) for problem, code in answers.items()}
        for problem, zip_ in bad.items():
            done = await rig.deploy(zip_=zip_)
            assert (done.code, done.out) == (1, ""), problem
            assert "failed its smoke check" in done.err
            assert problem in done.err
            assert await rig.serving() == "2"
        monkeypatch.setenv("AFTERTURN_TEMPORAL_ADDRESS", "127.0.0.1:1")
        done = await rig.deploy()
        assert done.code == 1
        assert "Temporal does not answer it" in done.err
        await publish(rig.stream, "c1@1")
        await rig.drained()
        assert await rig.serving() == "2"
        assert await rig.started("keys", "c1")

    async def test_killed_after_any_write_the_old_version_serves_and_a_second_run_makes_the_rest(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each run here dies as soon as one write is done, before it hears of that."""

        class Killed(Exception):
            pass

        def die(model: Any, **_: Any) -> None:
            if not model.name.startswith(("Get", "List", "Invoke")):
                made.append(model.name)
                raise Killed

        async def served_after_each(zip_: Path) -> list[str]:
            rig.functions.meta.events.register("after-call.lambda", die)
            served = []
            while True:
                try:
                    await rig.bring(zip_)
                except Killed:
                    served.append(await rig.serving())
                else:
                    rig.functions.meta.events.unregister("after-call.lambda", die)
                    return served

        made: list[str] = []
        assert await served_after_each(small_zip(rig.folder / "one.zip")) == ["1", "1", "1", "2"]
        assert made == ["UpdateFunctionCode", "UpdateFunctionConfiguration", "PublishVersion", "UpdateAlias"]
        made.clear()
        monkeypatch.setenv("AFTERTURN_LEASE", "45s")
        assert await served_after_each(small_zip(rig.folder / "two.zip", "two")) == ["2", "2", "2", "3"]
        assert made == ["UpdateFunctionCode", "UpdateFunctionConfiguration", "PublishVersion", "UpdateAlias"]
        assert await rig.versions() == ["2", "3"]

    @pytest.mark.parametrize(
        ("told", "problem"),
        [
            ({"LastUpdateStatus": "InProgress"}, "is not ready after 0 s"),
            ({"LastUpdateStatus": "Failed", "LastUpdateStatusReasonCode": "EniLimitExceeded"}, "EniLimitExceeded"),
            ({"State": "Pending"}, "state Pending"),
            ({"CodeSha256": "theirs", "State": "Active", "LastUpdateStatus": "Successful"}, "somebody else changes"),
        ],
        ids=lambda told: next(iter(told)) if isinstance(told, dict) else "",
    )
    async def test_what_is_not_ready_or_not_ours_alone_is_neither_published_nor_waited_for_without_an_end(
        self, rig: Rig, told: dict[str, str], problem: str
    ) -> None:
        """The emulator is always ready soon; AWS need not be."""

        def tell(parsed: dict[str, Any], **_: Any) -> None:
            parsed |= told

        rig.functions.meta.events.register("after-call.lambda.GetFunctionConfiguration", tell)
        with pytest.raises(StoreError, match=problem):
            await rig.bring(small_zip(rig.folder / "one.zip"), Patience(timeout=0.2, every=0.05))
        assert (await rig.versions(), await rig.serving()) == ([], "1")
        rig.functions.meta.events.unregister("after-call.lambda.GetFunctionConfiguration", tell)
        await rig.bring(rig.folder / "one.zip")
        assert await rig.serving() == "2"

    async def test_it_is_sent_through_a_bucket_where_one_is_named(self, rig: Rig) -> None:
        await rig.account.clients["s3"].create_bucket(Bucket="zips")
        done = await rig.deploy("--bucket", "zips", "--json")
        assert (done.code, done.json["version"]) == (0, "2"), done.err
        missing = await rig.deploy("--bucket", "nobodys", zip_=small_zip(rig.folder / "two.zip", "two"))
        assert missing.code == 2
        assert "no such bucket" in missing.err
        assert await rig.serving() == "2"
