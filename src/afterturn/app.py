"""The app: consumers and a responder, declared in a user's module. Declaring opens nothing."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from afterturn.channels.responder import Responder
from afterturn.config import Lane, Profile, Settings, read_settings
from afterturn.errors import ConfigError
from afterturn.reactions.registry import Handler, Registry

if TYPE_CHECKING:
    from afterturn.backbone import Backbone


class App:
    """The consumers of a deployment: the shipped ones (topics, grade, maintenance, inbound-package) and your own.

    ``shipped=False`` leaves the shipped ones out.
    """

    def __init__(self, *, shipped: bool = True) -> None:
        self.shipped = shipped
        self.registry = Registry()
        self.reply_handler: Responder | None = None

    def consumer(
        self,
        name: str,
        *,
        quiet: str = "30s",
        max_wait: str = "5m",
        attempts: int = 5,
        timeout: str = "60s",
        shadow: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Register a consumer: ``@app.consumer("sentiment", quiet="90s", max_wait="5m")``.

        Args:
            name: 1 to 48 lower-case letters, digits and hyphens.
            quiet: the consumer runs when no turn has settled for this long.
            max_wait: maximum time from the first unhandled turn to the run.
            attempts: runs before the reaction counts as failed.
            timeout: maximum time of one run.
            shadow: run without effects, hidden from the inbox, until the consumer is promoted.

        Raises:
            ConfigError: the declaration is invalid, or the name is taken.
        """
        if callable(name):
            raise ConfigError('consumer: give it a name, such as @app.consumer("sentiment")')

        def register(handler: Handler) -> Handler:
            self.registry.add(
                name, handler, quiet=quiet, max_wait=max_wait, attempts=attempts, timeout=timeout, shadow=shadow
            )
            return handler

        return register

    def responder(self, handler: Responder) -> Responder:
        """Declare the agent that replies to messages: ``async def reply(request: ReplyRequest) -> str | None``.

        Without one, people reply from the inbox. Raises ConfigError for a second one.
        """
        if self.reply_handler is not None:
            raise ConfigError("responder: this app has one already; a message gets one reply")
        if not inspect.iscoroutinefunction(handler):
            raise ConfigError("responder: must be an async function")
        self.reply_handler = handler
        return handler

    def foreign_workflow(
        self, name: str, *, workflow: str, signal: str, task_queue: str, max_wait: str | None = None
    ) -> None:
        """Register a Temporal workflow of another program as a consumer.

        The bridge starts it with each event. With ``max_wait`` the ledger holds it to every turn, and it has to stamp
        through the activity ``afterturn-stamp`` on the queue ``{lane}-reactions``; without, only the signal is
        promised. Raises ConfigError if the declaration is invalid.
        """
        self.registry.add_foreign(name, workflow=workflow, signal=signal, task_queue=task_queue, max_wait=max_wait)

    def open(
        self,
        settings: Settings | None = None,
        *,
        profile: Profile | Literal["embedded", "local", "aws"] | None = None,
        db: str | PathLike[str] | None = None,
        lane: Lane | Literal["prod", "preview", "dev"] | None = None,
        emitter: str | None = None,
    ) -> AbstractAsyncContextManager[Backbone]:
        """Open the app on its store: ``async with app.open(db="afterturn.db") as backbone: …``.

        Settings come from the environment; a keyword overrides its setting. For any other setting pass
        ``Settings(...)`` in place of keywords.

        Raises:
            TypeError: both settings and keywords are given.
            ConfigError: a setting is invalid.
        """
        from afterturn.bootstrap import open_backbone  # noqa: PLC0415 - only the composition root knows the adapters

        keywords = {"profile": profile, "db": db, "lane": lane, "emitter": emitter}
        if settings is not None and any(value is not None for value in keywords.values()):
            raise TypeError("App.open: pass settings or keywords, not both")
        return open_backbone(self, settings or read_settings(**keywords))


def load_app(reference: str) -> App:
    """Import the app that ``my_module:app`` names, from the current folder first. Raises ConfigError."""
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute or module_name.endswith(".py"):
        raise ConfigError(f"app {reference!r}: write it as module:attribute, such as my_module:app")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ConfigError:
        raise
    except Exception as error:
        problem = f"importing {module_name} failed{_location(error)}: {error!r}{_advice(error, module_name)}"
        raise ConfigError(f"app {reference!r}: {problem}") from error
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        raise ConfigError(f"app {reference!r}: {module_name}.{attribute} is not an afterturn.App")
    return app


def _advice(error: Exception, module_name: str) -> str:
    """What to do if the module itself was not found, rather than one that it imports."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is None or not f"{module_name}.".startswith(f"{missing}."):
        return ""
    return "; run it in the folder where the module is, or name that folder in PYTHONPATH"


def _location(error: Exception) -> str:
    """File and line of the user's module at which an import failed, if known."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)[1:]
        if not frame.filename.startswith("<") and frame.filename != importlib.__file__
    ]
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
