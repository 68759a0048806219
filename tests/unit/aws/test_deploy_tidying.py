"""Which versions of a function may go: pure."""

from __future__ import annotations

from typing import Any

import pytest

from afterturn.operations.deploy import history
from afterturn.operations.deploy.tidying import stale


def live(version: int, text: str = "", **weights: float) -> dict[str, Any]:
    shares = {name.removeprefix("v"): share for name, share in weights.items()}
    routing = {"RoutingConfig": {"AdditionalVersionWeights": shares}} if shares else {}
    return {"Name": "live", "FunctionVersion": str(version), "Description": text, **routing}


@pytest.mark.parametrize(
    ("versions", "alias", "coming", "gone"),
    [
        ([], live(1), True, ()),
        ([1, 2, 3], live(3), False, ()),
        ([1, 2, 3, 4], live(4), False, ("1",)),
        ([4, 1, 3, 2], live(4), True, ("1", "2")),
        ([1, 2, 3, 4, 9, 10, 11], live(11), False, ("1", "2", "3", "4")),
        ([1, 2, 3, 4, 5], live(1), False, ("2",)),
        ([1, 2, 3, 4, 5], live(5, history.deployed("1")), False, ("2",)),
        ([1, 2, 3, 4, 5], live(5, history.rolled_back("2")), False, ("1",)),
        ([1, 2, 3, 4, 5], live(5, v1=0.1), False, ("2",)),
    ],
)
def test_the_newest_stay_and_what_serves_served_or_was_withdrawn(
    versions: list[int], alias: dict[str, Any], coming: bool, gone: tuple[str, ...]
) -> None:
    assert stale(versions, [alias], keep=3, coming=coming) == gone


def test_every_alias_holds_its_version() -> None:
    assert stale([1, 2, 3, 4], [live(4), live(1)], keep=2, coming=False) == ("2",)
