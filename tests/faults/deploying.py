"""Deployments to the emulator: small zips whose functions find what a test finds, and the command with an account."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cli.command import Done, call

from afterturn.aws.session import Access

ROLE = "arn:aws:iam::000000000000:role/afterturn"

STUB = """
import importlib, os, sys
here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:] = {paths!r} + [path for path in sys.path if path != here] + [here]
del sys.modules["afterturn"]
sys.modules["afterturn"] = importlib.import_module("afterturn")
# {note}
"""
"""In place of a zip with everything in it: it hands over to the afterturn that this test has."""

APP = """
from afterturn import App, Stamp

app = App(shipped=False)


@app.consumer("keys", quiet="1h", max_wait="2h")
async def keys(turns, ctx):
    return Stamp()
"""

Command = Callable[..., Done]


def small_zip(path: Path, note: str = "one", app: str = APP, files: Mapping[str, str] | None = None) -> Path:
    """``note`` makes it another version; ``files`` take the place of what it has."""
    stub = STUB.format(paths=[path for path in sys.path if path], note=note)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {"afterturn/__init__.py": stub, "keys_app.py": app, **(files or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


def environment(access: Access, temporal: str) -> dict[str, str]:
    """What the shell of whoever deploys has."""
    return {
        "AWS_ACCESS_KEY_ID": str(access.access_key),
        "AWS_SECRET_ACCESS_KEY": "test",
        "AFTERTURN_AWS_ENDPOINT_URL": str(access.endpoint),
        "AFTERTURN_AWS_REGION": "us-east-1",
        "AFTERTURN_LANE": "dev",
        "AFTERTURN_TEMPORAL_ADDRESS": temporal,
        "AFTERTURN_APP": "keys_app:app",
    }


def aws(*words: object) -> Done:
    """An ``aws`` command."""
    return call("aws", *words)
