"""What the parts of the engine load, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.unit.test_architecture import loaded_by


@pytest.mark.parametrize("module", ["engine", "protocol"])
def test_the_bridges_half_loads_no_worker(module: str) -> None:
    loaded = loaded_by(f"import afterturn.bridge.bridge, afterturn.reactions.temporal.{module}")
    assert not {name for name in loaded if name.startswith("temporalio.worker")}
    assert ("temporalio.client" in loaded) == (module == "engine")


def test_importing_afterturn_loads_no_temporal() -> None:
    loaded = loaded_by("import afterturn, afterturn.bootstrap, afterturn.settle, afterturn.reactions.registry")
    assert not {name for name in loaded if name.startswith("temporalio")}


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['temporalio'] = None; import afterturn.reactions.temporal.engine"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert (
        "MissingExtra: Temporal needs an extra: pip install 'afterturn[local]', or 'afterturn[aws,temporal]' for AWS"
        in done.stderr
    )
