"""What the emit path and the bridge cost to import, against the libraries that they cannot do without.

Each statement runs in a fresh interpreter, one after the other in each round, after one round that is not counted and
leaves every module compiled. The time is that of the statement, on the wall and of the processor (which other programs
hardly disturb); the memory is the most that the interpreter ever held, its own 9 MiB included. No client is made. The
subjects import the driver, too: afterturn loads it when the first client is opened, so leaving it out would flatter
them.

``import aiobotocore`` alone loads nothing but a version, and no client can be made of it: the baseline is what a
client is made of.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Figure, Ratio, Report, figure, ratio

DRIVER = "import aiobotocore.session, aiobotocore.config"
TEMPORAL = "import temporalio.client"
BOTH = f"{DRIVER}, temporalio.client"
PYDANTIC = f"{DRIVER}, pydantic.main, pydantic.types"
EMIT = f"{DRIVER}, afterturn.bootstrap, afterturn.bootstrap.aws"
BRIDGE = f"{BOTH}, afterturn.bootstrap.lambda_bridge"
NAMES = {
    DRIVER: "aiobotocore.session",
    TEMPORAL: "temporalio.client",
    BOTH: "both",
    PYDANTIC: "aiobotocore.session and pydantic",
    EMIT: "emit path",
    BRIDGE: "bridge handler",
}

_MEASURED = """
import time
began, busy = time.perf_counter(), time.process_time()
{statement}
took = time.perf_counter() - began, time.process_time() - busy
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(*took, peak)
"""
"""``VmHWM`` begins anew with a program; the maximum of getrusage is inherited from whoever started it."""


@dataclass(frozen=True, slots=True)
class Import:
    """What a statement took: seconds on the wall and of the processor, and the most memory, in MiB."""

    seconds: float
    processor: float
    memory: float


def run(*, rounds: int = 15, folder: Path | None = None) -> Report:
    """``folder`` is of no use here."""
    found: dict[str, list[Import]] = {statement: [] for statement in NAMES}
    for number in range(rounds + 1):
        for statement in NAMES:
            one = measured(statement)
            if number:
                found[statement].append(one)
    return Report("imports", _figures(found), _ratios(found), {name: statement for statement, name in NAMES.items()})


def measured(statement: str) -> Import:
    """A statement in a fresh interpreter, which may write what it compiles."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    code = _MEASURED.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, env=environment)
    seconds, processor, kilobytes = map(float, done.stdout.split())
    return Import(seconds, processor, kilobytes / 1024)


def _figures(found: Mapping[str, Sequence[Import]]) -> tuple[Figure, ...]:
    return (
        *(figure(name, "ms", [one.seconds * 1e3 for one in found[what]]) for what, name in NAMES.items()),
        *(
            figure(f"{name}, processor", "ms", [one.processor * 1e3 for one in found[what]])
            for what, name in NAMES.items()
        ),
        *(figure(f"{name}, memory", "MiB", [one.memory for one in found[what]]) for what, name in NAMES.items()),
    )


def _ratios(found: Mapping[str, Sequence[Import]]) -> tuple[Ratio, ...]:
    def of(subject: str, baseline: str, what: str, aim: float | None = 1.3) -> Ratio:
        name = f"{NAMES[subject]} / {NAMES[baseline]}, {what}"
        values = [[getattr(one, what) for one in found[statement]] for statement in (subject, baseline)]
        return ratio(name, *values, aim=aim, at_most=True)

    return (
        *(of(*pair, what) for pair in ((EMIT, DRIVER), (BRIDGE, BOTH)) for what in ("seconds", "memory")),
        *(
            of(*pair, "processor", None)
            for pair in ((EMIT, DRIVER), (PYDANTIC, DRIVER), (BRIDGE, BOTH), (BRIDGE, TEMPORAL))
        ),
    )
