"""Where an agent failed is told by file and line of its author's, and by nothing that was said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.channels.channel_rig import ChannelRig, rig, sms

from afterturn.channels.responder import ReplyRequest
from afterturn.telemetry import error_location

__all__ = ["rig"]

HERE = Path(__file__)


async def test_an_agent_that_fails_is_logged_with_its_place_and_without_content(
    rig: ChannelRig, caplog: pytest.LogCaptureFixture
) -> None:
    async def reply(one: ReplyRequest) -> str:
        return str(json.loads(one.messages[-1].text))

    rig.responder = reply
    await rig.ingest.handle(sms(1, "Xyzzy, the boiler"))
    await rig.auto_reply.once()
    assert "error=JSONDecodeError" in caplog.text
    assert f"location={HERE}:{reply.__code__.co_firstlineno + 1}" in caplog.text
    assert "Xyzzy" not in caplog.text


def test_what_fails_in_ours_or_a_library_alone_has_no_place_in_the_user_s_code() -> None:
    from pydantic import TypeAdapter

    from afterturn.clock import parse_time

    error: Exception | None = None
    try:
        parse_time("never")
    except ValueError as found:
        error = found
    assert error is not None
    assert error_location(error) == f"{HERE}:{error.__traceback__.tb_lineno if error.__traceback__ else 0}"
    assert error.__traceback__ is not None
    assert error_location(error.with_traceback(error.__traceback__.tb_next)) is None
    assert error_location(ValueError()) is None
    try:
        TypeAdapter(int).validate_python("x")
    except ValueError as found:
        error = found
    assert error_location(error) == f"{HERE}:{error.__traceback__.tb_lineno if error.__traceback__ else 0}"
