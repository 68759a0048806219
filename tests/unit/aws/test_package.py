"""The zip of a function: what is in it, what is not, and that it is the same twice."""

from __future__ import annotations

import base64
import hashlib
import itertools
import os
import zipfile
from pathlib import Path

import pytest

from afterturn.aws import package
from afterturn.aws.package import Package
from afterturn.aws.release import Part
from afterturn.errors import InvalidInput

SITE = (
    "botocore/data/endpoints.json",
    "botocore/data/dynamodb/2012-08-10/service-2.json.gz",
    "botocore/data/s3/2006-03-01/service-2.json.gz",
    "botocore/client.py",
    "botocore/client.pyi",
    "botocore/__pycache__/client.cpython-313.pyc",
    "aiobotocore-3.0.dist-info/METADATA",
    "aiobotocore-3.0.dist-info/RECORD",
    "aiobotocore-3.0.dist-info/INSTALLER",
    "temporalio/client.py",
    "temporalio/bridge/sdk-core/src/lib.rs",
    "wrapt-stubs/a.py",
    "bin/httpx",
    "six.py",
)


def lay(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return lay(tmp_path / "site", *SITE)


class TestBuild:
    def test_it_holds_afterturn_what_it_needs_and_what_is_included(self, site: Path, tmp_path: Path) -> None:
        app = lay(tmp_path / "mine", "app.py", "rules/words.toml", ".env", ".git/config", "__pycache__/app.pyc")
        made = package.build("bridge", site, [app, lay(tmp_path, "reactions.py") / "reactions.py"])
        assert {"afterturn/bootstrap/lambda_bridge.py", "afterturn/consumers/repairs.toml"} <= made.files
        assert {name for name in made.files if not name.startswith("afterturn")} == {
            "aiobotocore-3.0.dist-info/METADATA",
            "botocore/client.py",
            "botocore/data/dynamodb/2012-08-10/service-2.json.gz",
            "botocore/data/endpoints.json",
            "index.py",
            "mine/app.py",
            "mine/rules/words.toml",
            "reactions.py",
            "six.py",
            "temporalio/client.py",
        }
        assert made.has_module("mine.app")
        assert made.has_module("reactions")
        assert not made.has_module("rules")
        assert package.build("webhooks", site).data != made.data, "each has a handler of its own"
        wider = package.build("bridge", site, services=["s3"])
        assert "botocore/data/s3/2006-03-01/service-2.json.gz" in wider.files

    def test_the_same_content_gives_the_same_bytes(self, site: Path, tmp_path: Path) -> None:
        one = package.build("bridge", site)
        again = lay(tmp_path / "again", *reversed(SITE))
        os.utime(again / "six.py", (1, 1))
        (again / "six.py").chmod(0o755)
        assert package.build("bridge", again).data == one.data
        (again / "six.py").write_text("changed")
        other = package.build("bridge", again)
        assert other.sha256 != one.sha256
        assert other.sha256 == base64.b64encode(hashlib.sha256(other.data).digest()).decode()

    def test_what_is_missing_or_there_twice_is_refused(self, site: Path, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="no such file"):
            package.build("bridge", site, [tmp_path / "nowhere"])
        with pytest.raises(InvalidInput, match=r"six\.py is in the zip already"):
            package.build("bridge", site, [lay(tmp_path / "mine", "six.py") / "six.py"])


class TestGiven:
    def test_a_zip_that_somebody_made_is_taken_as_it_is(self, site: Path, tmp_path: Path) -> None:
        made = package.build("bridge", site)
        path = tmp_path / "made.zip"
        path.write_bytes(made.data)
        assert package.read(path) == made

    def test_what_is_no_zip_of_ours_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "odd.zip"
        path.write_bytes(b"not a zip")
        with pytest.raises(InvalidInput, match="no zip file"):
            package.read(path)
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("other.py", "")
        with pytest.raises(InvalidInput, match="has no afterturn at its root"):
            package.read(path)


class TestLimits:
    def test_what_lambda_does_not_take_is_refused_and_says_what_to_do(self) -> None:
        package.check_size(Package(b"x", frozenset(), package.UNZIPPED_BYTES), through_s3=False)
        with pytest.raises(InvalidInput, match="unpacks to"):
            package.check_size(Package(b"x", frozenset(), package.UNZIPPED_BYTES + 1), through_s3=True)
        large = Package(bytes(package.DIRECT_BYTES + 1), frozenset(), 1)
        package.check_size(large, through_s3=True)
        with pytest.raises(InvalidInput, match="--bucket NAME"):
            package.check_size(large, through_s3=False)

    def test_an_app_whose_module_is_not_in_it_is_refused(self) -> None:
        made = Package(b"", frozenset({"reactions.py"}), 0)
        package.check_app(made.files, None)
        package.check_app(made.files, "reactions:app")
        with pytest.raises(InvalidInput, match="--include PATH"):
            package.check_app(made.files, "elsewhere.app:app")


class TestDependencies:
    REQUIRES = (
        "httpx>=0.28",
        "typer>=0.15",
        "rich>=13.9",
        'aiobotocore>=2.15; extra == "aws"',
        "temporalio>=1.35; extra == 'temporal'",
        'pydantic-ai-slim>=2.0; extra == "llm"',
        'cryptography>=44; extra == "channels"',
    )

    def test_a_function_gets_only_what_it_needs(self) -> None:
        assert package.needs(Part.BRIDGE, self.REQUIRES) == [
            "aiobotocore>=2.15",
            "httpx>=0.28",
            "temporalio>=1.35",
        ]
        assert package.needs(Part.WEBHOOKS, self.REQUIRES) == ["aiobotocore>=2.15", "httpx>=0.28"]
        for part in Part:
            more = package.needs(part, self.REQUIRES, channels=True)
            assert ("cryptography>=44" in more) is (part is Part.WEBHOOKS)

    def test_versions_are_those_that_are_installed_here(self) -> None:
        assert package.pins([("b", "2"), ("afterturn", "1"), (None, "1"), ("a", "1"), ("own", "1+cu12")]) == [
            "a==1",
            "b==2",
        ]

    @pytest.mark.parametrize(
        ("runtime", "architecture", "platforms"),
        [
            ("python3.11", "x86_64", ["manylinux2014_x86_64", "manylinux_2_17_x86_64"]),
            ("python3.13", "arm64", ["manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64"]),
        ],
    )
    def test_pip_takes_built_packages_for_the_machines_of_lambda(
        self, runtime: str, architecture: str, platforms: list[str]
    ) -> None:
        words = package.command(
            Path("to"), ["httpx"], [Path("r.txt")], Path("c.txt"), runtime=runtime, architecture=architecture
        )
        assert [word for before, word in itertools.pairwise(words) if before == "--platform"] == platforms
        assert "--only-binary=:all:" in words
        assert words[words.index("--python-version") + 1] == runtime.removeprefix("python")
        assert words[words.index("--requirement") + 1] == "r.txt"
