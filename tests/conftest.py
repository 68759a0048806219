"""What holds for every test: suites that are shared between adapters, and reproducible examples."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.contract", "tests.faults")

# Examples are the same in every run; AFTERTURN_TEST_EXAMPLES=search looks for new ones, and prints how to replay them.
settings.register_profile(
    "fixed", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=1_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("AFTERTURN_TEST_EXAMPLES", "fixed"))
