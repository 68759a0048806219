"""Five thousand of the mutations of ``make fuzz``, from a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

from tests.fuzz import hooks
from tests.fuzz.__main__ import found_in
from tests.fuzz.damage import attempt, targets
from tests.unit.channels.channels import NOW, here
from tests.unit.channels.endpoints import SECRETS, endpoints_of

from afterturn.channels.turns import TURNS_PATH
from afterturn.channels.types import ChannelEvent, Rejected


@here
def test_damaged_payloads_raise_nothing_but_refusals() -> None:
    assert found_in("7", 0, 5_000) == []


@here
def test_what_is_raised_is_found_and_replays() -> None:
    def read(raw: bytes) -> Iterable[ChannelEvent]:
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
    assert names == {"", "email-raw", "graph", "ses-sns", "telegram", "twilio", "voice"}
    assert len(targets()) > 100
    assert len({one.name for one in targets()}) == len(targets())


def test_every_door_is_among_the_targets_and_lets_in_what_is_sound() -> None:
    """A door that let in nothing would be broken by no damage."""
    paths = {TURNS_PATH, *endpoints_of(SECRETS)}
    assert {one.partition(" ")[0] for one in hooks.bodies()} == set(hooks.SIGNED) == paths
    for name, body in hooks.bodies().items():
        path = name.partition(" ")[0]
        came = hooks.with_body(path, body)
        assert came, name
        for one in came:
            hooks.assert_fits(one)
        if "webhook-id" in hooks.SIGNED[path](body, NOW):
            assert hooks.with_headers(path, hooks.good_headers(path))
    damaged = targets()[0].mutate(targets()[0].body, random.Random("1"))
    assert damaged != targets()[0].body
