"""``python -m bench`` runs every benchmark; ``python -m bench NAME`` one of them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from afterturn.errors import AfterturnError
from bench import bridge, imports, inbox, inbox_aws, memory, pipeline, settle, settle_aws, webhooks
from bench.measure import RESULTS, Report, set_switch_interval, show, write
from bench.workload import DIALOGUES

BENCHMARKS: dict[str, Callable[..., Report]] = {
    "settle": settle.run,
    "pipeline": pipeline.run,
    "inbox": inbox.run,
    "memory": memory.run,
    "settle-aws": settle_aws.run,
    "bridge": bridge.run,
    "inbox-aws": inbox_aws.run,
    "imports": imports.run,
    "webhooks": webhooks.run,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure afterturn against a baseline.")
    parser.add_argument("name", nargs="?", choices=[*BENCHMARKS, "topics"], help="one benchmark (default: all)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where the figures go (default: bench/results/)")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="where database files are made (default: bench/.cache)")
    parser.add_argument("--rounds", type=int, help="rounds of subject and baseline (default: each benchmark's own)")
    parser.add_argument(
        "--data", type=Path, help="the dialogues of pipeline and topics (default: %(default)s)", default=DIALOGUES
    )
    parser.add_argument("--switch-interval", type=float, metavar="SECONDS", help="of Python's threads, for a trial")
    options = parser.parse_args(arguments)
    if options.switch_interval is not None:
        set_switch_interval(options.switch_interval)
    names = [options.name] if options.name else [*BENCHMARKS, "topics"]
    if options.json and len(names) > 1:
        parser.error("--json names one file: say which benchmark")
    code = 0
    for name in names:
        try:
            code = max(code, _topics(options) if name == "topics" else _measure(name, options))
        except AfterturnError as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
        except KeyboardInterrupt:
            print(f"{name}: interrupted; its servers and scratch files are gone", file=sys.stderr)
            return 130
    return code


def _measure(name: str, options: argparse.Namespace) -> int:
    given: dict[str, Any] = {"folder": options.dir}
    if options.rounds is not None:
        given["rounds"] = options.rounds
    if name == "pipeline":
        given["data"] = options.data
    report = BENCHMARKS[name](**given)
    show(report)
    print(f"  written: {write(report, options.json)}")
    return 1 if report.broken else 0


def _topics(options: argparse.Namespace) -> int:
    """Precision and recall of the rules, a script of its own."""
    target = options.json or RESULTS / "topics.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    print("\ntopics", flush=True)
    script = Path(__file__).with_name("topics.py")
    command = [sys.executable, str(script), "--data", str(options.data), "--json", str(target)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
