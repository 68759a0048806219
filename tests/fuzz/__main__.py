"""``python -m tests.fuzz``: payloads of providers, damaged a million times; nothing may be raised but a refusal.

Results go to stdout, progress to stderr. Exit codes: 0 nothing was found, 1 something was, 130 interrupted. A finding
replays by its seed: ``python -m tests.fuzz --only NAME --seed SEED``.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.fuzz.damage import attempt, targets

BATCH = 500
MAX_FOUND = 20
"""Findings after which more of them tell nothing new."""

Found = tuple[str, str, str]
"""Sample, seed, and what went wrong."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=1_000_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", help="of the run, or with --only of the one mutation")
    parser.add_argument("--only", metavar="NAME", help="one mutation of this sample")
    given = parser.parse_args(arguments)
    seed = given.seed or str(random.SystemRandom().randrange(1_000_000))
    if given.only:
        [target] = [one for one in targets() if one.name == given.only]
        problem = attempt(target, seed)
        print(problem or "nothing")
        return 1 if problem else 0
    print(f"seed {seed}, {len(targets())} samples", file=sys.stderr, flush=True)
    began, done, found = time.monotonic(), 0, []
    try:
        # What is refused is logged, and a million refusals tell nobody anything.
        with ProcessPoolExecutor(os.cpu_count(), initializer=logging.disable) as pool:
            for number, batch in enumerate(pool.map(_some, _batches(seed, given.mutations)), 1):
                found += batch
                done = min(number * BATCH, given.mutations)
                if number % 40 == 0:
                    rate = done / (time.monotonic() - began)
                    print(f"{done:,} of {given.mutations:,}, {rate:,.0f}/s", file=sys.stderr, flush=True)
                if len(found) >= MAX_FOUND:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
    except KeyboardInterrupt:
        return 130
    for name, one, problem in found[:MAX_FOUND]:
        print(f"{name} --seed {one}: {problem}")
    print(f"{done:,} mutations, {len(found)} found (seed {seed})")
    return 1 if found else 0


def _batches(seed: str, mutations: int) -> Iterator[tuple[str, int, int]]:
    for begin in range(0, mutations, BATCH):
        yield seed, begin, min(begin + BATCH, mutations)


def _some(batch: tuple[str, int, int]) -> list[Found]:
    seed, begin, end = batch
    return found_in(seed, begin, end)


def found_in(seed: str, begin: int, end: int) -> list[Found]:
    """What mutations ``begin`` to ``end`` of a run bring up; each sample in turn."""
    everything = targets()
    found = []
    for number in range(begin, end):
        target = everything[number % len(everything)]
        one = f"{seed}.{number}"
        if problem := attempt(target, one):
            found.append((target.name, one, problem))
    return found


if __name__ == "__main__":
    sys.exit(main())
