"""The emulator of AWS, for mail in S3 and through SES."""

from __future__ import annotations

from tests.emulator import access, emulator, session

__all__ = ["access", "emulator", "session"]
