"""The composition root: what a profile cannot run is refused when it is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterturn import App
from afterturn.errors import ConfigError


async def test_the_embedded_profile_refuses_a_workflow_of_another_program(tmp_path: Path) -> None:
    """It has no Temporal to signal it with, and an event that nobody gets must not look delivered."""
    app = App(shipped=False)
    app.registry.add_foreign("billing", workflow="Billing", signal="settled", task_queue="billing")
    with pytest.raises(ConfigError, match=r"billing.*local or aws"):
        async with app.open(db=tmp_path / "afterturn.db"):
            pass
