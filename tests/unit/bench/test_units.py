"""Read units follow DynamoDB's rules."""

from __future__ import annotations

import pytest
from bench import units


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], 0.5),
        ([1], 0.5),
        ([4096], 0.5),
        ([4096, 1], 1.0),
        ([100] * 50, 1.0),
        ([1_400] * 50, 9.0),
    ],
)
def test_a_query_rounds_the_sum_of_what_it_looked_at(sizes: list[int], expected: float) -> None:
    assert units.of_query(sizes) == expected
    assert units.of_query(sizes, consistent=True) == 2 * expected


@pytest.mark.parametrize(
    ("sizes", "expected"), [([0], 0.5), ([1_500, 6_500], 1.5), ([100] * 50, 25.0), ([4096, 4097], 1.5)]
)
def test_a_lookup_rounds_each_item_by_itself(sizes: list[int], expected: float) -> None:
    assert units.of_lookups(sizes) == expected
    assert units.of_lookups(sizes, consistent=True) == 2 * expected
