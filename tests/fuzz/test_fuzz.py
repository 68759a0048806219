"""A thousand of the mutations of ``make fuzz``, from a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from tests.fuzz.__main__ import found_in
from tests.fuzz.damage import attempt, targets
from tests.unit.funnel.channels import here

from afterturn.funnel.arrivals import Arrival, Rejected


@here
def test_a_thousand_damaged_payloads_raise_nothing_but_refusals() -> None:
    assert found_in("7", 0, 1_000) == []


@here
def test_what_is_raised_is_found_and_replays() -> None:
    def read(raw: bytes) -> Iterable[Arrival]:
        if len(raw) % 2:
            raise ValueError("odd")
        raise Rejected(400, "even")

    target = replace(targets()[0], read=read)
    problems = [attempt(target, str(seed)) for seed in range(50)]
    assert set(problems) == {None, "ValueError: odd"}
    assert problems == [attempt(target, str(seed)) for seed in range(50)]


@here
def test_every_provider_is_among_the_targets() -> None:
    names = {one.name.partition("/")[0] for one in targets()}
    assert names == {"email-raw", "graph", "ses-sns", "telegram", "twilio", "voice"}
    assert len(targets()) > 80
    damaged = targets()[0].mutate(targets()[0].body, random.Random("1"))
    assert damaged != targets()[0].body
