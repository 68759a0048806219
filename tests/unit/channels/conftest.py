"""The fixture of channels on a real store, for every suite of channels."""

from __future__ import annotations

from tests.unit.channels.channel_rig import rig

__all__ = ["rig"]
