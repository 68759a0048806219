"""The funnel of a lane as a Lambda function: ``handler`` is what Lambda calls. Loads the emit path alone."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from afterturn.build.functions import function_settings, release, set_up_logging
from afterturn.build.naming import names_of
from afterturn.build.settling import open_settler
from afterturn.clock import system_clock
from afterturn.config import Settings
from afterturn.errors import AfterturnError, ConfigError
from afterturn.funnel.answers import Answer, answer_of, refused
from afterturn.funnel.arrivals import Request
from afterturn.funnel.aws_lambda import answered, request_of
from afterturn.funnel.turns import TurnDoor
from afterturn.settle import Settler

TURNS = "/turns"
"""Where runtimes of yours hand in turns."""


class Function:
    """Answers requests of its function URL, and the probe of ``afterturn aws deploy``.

    Table and queues are opened at the first call and stay open for the next ones.
    """

    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._opening: AbstractAsyncContextManager[Settler] | None = None
        self._door: TurnDoor | None = None

    def __call__(self, event: Any, context: object = None) -> dict[str, Any]:
        """Raises ConfigError for settings that make no sense: only a probe shows those before anything is served."""
        if isinstance(event, dict) and event.get("afterturn") == "probe":
            return asyncio.run(probe())
        try:
            path, request = request_of(event)
        except AfterturnError as error:
            return answered(answer_of(error))
        if path.rstrip("/") != TURNS:
            return answered(refused(404, "not_found", f"there is {TURNS}"))
        return answered(self._loop.run(self._served(request)))

    def close(self) -> None:
        """Let go of what is open; Lambda never says when it ends."""
        if self._opening is not None and self._door is not None:
            self._loop.run(self._opening.__aexit__(None, None, None))
        self._loop.close()

    async def _served(self, request: Request) -> Answer:
        if self._door is None:
            settings = function_settings()
            try:
                self._opening = open_settler(settings)
                settler = await self._opening.__aenter__()
            except ConfigError:
                raise
            except AfterturnError as error:
                return answer_of(error)
            self._door = door_of(settings, settler)
        return await self._door(request)


async def probe() -> dict[str, Any]:
    """Who this is, told after table, queues and secret were looked at."""
    settings = function_settings()
    async with open_settler(settings) as settler:
        door_of(settings, settler)
    names = names_of(settings)
    return {"version": release(), "lane": names.lane, "table": names.table, "emitter": settings.emitter.value}


def door_of(settings: Settings, settler: Settler) -> TurnDoor:
    """Raises ConfigError where there is no secret: nobody may settle turns without a signature."""
    if settings.turns_secret is None:
        raise ConfigError("turns_secret: is not set (AFTERTURN_TURNS_SECRET), and turns that come in have to be signed")
    return TurnDoor(settler.settle, settings.turns_secret, system_clock)


set_up_logging()
handler = Function()
