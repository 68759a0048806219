"""What the alias says of itself: which version served before the one that serves. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_DEPLOYED = re.compile(r"deployed in place of version (\d+)\Z")
_BACK = re.compile(r"rolled back from version (\d+)\Z")


def deployed(before: str | None) -> str:
    """The alias's description once a version serves that was deployed."""
    return "deployed as the first version" if before is None else f"deployed in place of version {before}"


def rolled_back(withdrawn: str) -> str:
    """The alias's description after a rollback."""
    return f"rolled back from version {withdrawn}"


def before(alias: Mapping[str, Any]) -> str | None:
    """The version that served before the deployment of the one that serves; none after a first one or a rollback."""
    found = _DEPLOYED.match(str(alias.get("Description") or ""))
    return found[1] if found else None


def withdrawn(alias: Mapping[str, Any]) -> str | None:
    """The version that was rolled back from, where nothing was deployed since."""
    found = _BACK.match(str(alias.get("Description") or ""))
    return found[1] if found else None
