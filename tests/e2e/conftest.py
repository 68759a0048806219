"""Servers for every test here."""

from __future__ import annotations

from tests.emulator import access, emulator, session

__all__ = ["access", "emulator", "session"]
