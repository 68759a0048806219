"""A signed turn that is sent again, by its own runtime or by whoever has read it."""

from __future__ import annotations

import json

import pytest
from pydantic import SecretStr
from tests.cli.command import turn
from tests.unit.channels.test_ingest import ChannelRig, rig
from tests.unit.channels.test_turns import NOW, SECRET, signed

from afterturn.channels.turns import TurnEndpoint

__all__ = ["rig"]


@pytest.mark.parametrize("bare", [True, False], ids=["no messages", "messages"])
async def test_the_same_call_settles_once_also_where_its_turn_brings_no_message(rig: ChannelRig, *, bare: bool) -> None:
    """The end of a call settles what was saved before: nothing in it tells a second delivery from the first."""
    given = json.loads(turn("c-1"))
    if bare:
        given["messages"] = []
    endpoint = TurnEndpoint(rig.backbone.settle, SecretStr(SECRET), lambda: NOW)
    told = [json.loads((await endpoint(signed(json.dumps(given).encode()))).body) for _ in range(2)]
    assert [one["new"] for one in told] == [True, False]
    assert told[0]["eventId"] == told[1]["eventId"]
    assert await rig.turns("c-1") == 1
