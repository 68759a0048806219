"""What the emit path and the bridge cost to import, against the libraries that they cannot do without.

Each statement runs in a fresh interpreter, one after the other in each round, after one round that is not counted and
leaves every module compiled. The seconds are those of the statement; the memory is the most that the interpreter ever
held, its own 9 MiB included. No client is made. The subjects import the driver, too: afterturn loads it when the first
client is opened, so leaving it out would flatter them.

``import aiobotocore`` alone loads nothing but a version, and no client can be made of it: the baseline is what a
client is made of.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.measure import Report, figure, ratio

DRIVER = "import aiobotocore.session, aiobotocore.config"
TEMPORAL = "import temporalio.client"
BOTH = f"{DRIVER}, temporalio.client"
PYDANTIC = f"{DRIVER}, pydantic.main, pydantic.types"
EMIT = f"{DRIVER}, afterturn.build.settling, afterturn.build.emit"
BRIDGE = (
    f"{BOTH}, afterturn.bridge.aws_lambda, afterturn.store.dynamodb, afterturn.stream.sqs, "
    "afterturn.reactions.temporal.engine"
)
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
began = time.perf_counter()
{statement}
seconds = time.perf_counter() - began
import json
print(json.dumps([seconds, next(int(line.split()[1]) for line in open("/proc/self/status") if line[:5] == "VmHWM")]))
"""
"""``VmHWM`` begins anew with a program; the maximum of getrusage is inherited from whoever started it."""


def run(*, rounds: int = 15, folder: Path | None = None) -> Report:
    """``folder`` is of no use here."""
    seconds: dict[str, list[float]] = {statement: [] for statement in NAMES}
    peaks: dict[str, list[float]] = {statement: [] for statement in NAMES}
    for number in range(rounds + 1):
        for statement in NAMES:
            took, peak = measured(statement)
            if number:
                seconds[statement].append(took)
                peaks[statement].append(peak)
    pairs = ((EMIT, DRIVER), (BRIDGE, BOTH))
    return Report(
        "imports",
        (
            *(figure(name, "ms", [one * 1e3 for one in seconds[statement]]) for statement, name in NAMES.items()),
            *(figure(f"{name}, memory", "MiB", peaks[statement]) for statement, name in NAMES.items()),
        ),
        (
            *(
                ratio(f"{NAMES[one]} / {NAMES[other]}{what}", found[one], found[other], aim=1.3, at_most=True)
                for found, what in ((seconds, ""), (peaks, ", memory"))
                for one, other in pairs
            ),
            ratio(f"{NAMES[PYDANTIC]} / {NAMES[DRIVER]}", seconds[PYDANTIC], seconds[DRIVER]),
            ratio("emit path / aiobotocore.session and pydantic", seconds[EMIT], seconds[PYDANTIC]),
            ratio("bridge handler / temporalio.client", seconds[BRIDGE], seconds[TEMPORAL]),
        ),
        {"statements": {name: statement for statement, name in NAMES.items()}},
    )


def measured(statement: str) -> tuple[float, float]:
    """Seconds of a statement in a fresh interpreter, and the most that this held, in MiB."""
    code = _MEASURED.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    seconds, kilobytes = json.loads(done.stdout)
    return seconds, kilobytes / 1024
