"""What a user's module declares: an app and its consumers. Declaring opens nothing."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afterturn.channels.responder import Responder
from afterturn.config import Settings, read_settings
from afterturn.errors import ConfigError
from afterturn.reactions.registry import Handler, Registry

if TYPE_CHECKING:
    from afterturn.backbone import Backbone


class App:
    """The consumers of a deployment: those that ship with afterturn, and your own.

    ``shipped=False`` leaves the shipped ones (topics, grade, maintenance, inbound-package) out.
    """

    def __init__(self, *, shipped: bool = True) -> None:
        self.shipped = shipped
        self.registry = Registry()
        self.answers: Responder | None = None

    def consumer(self, name: str, **policy: Any) -> Callable[[Handler], Handler]:
        """Register a reaction: ``@app.consumer("sentiment", quiet="90s", max_wait="5m")``.

        The policy: ``quiet``, ``max_wait``, ``attempts``, ``timeout``, ``shadow``; see ``Registry.add``. Raises
        ConfigError for a declaration that makes no sense.
        """
        if callable(name):
            raise ConfigError('consumer: give it a name, such as @app.consumer("sentiment")')

        def register(handler: Handler) -> Handler:
            self.registry.add(name, handler, **policy)
            return handler

        return register

    def responder(self, handler: Responder) -> Responder:
        """Declare who answers what channels bring in: ``async def reply(asked: Asked) -> str | None``.

        Without one people answer, from the inbox. Raises ConfigError for a second one.
        """
        if self.answers is not None:
            raise ConfigError("responder: this app has one; a message is answered by one only")
        if not inspect.iscoroutinefunction(handler):
            raise ConfigError("responder: has to be an async function")
        self.answers = handler
        return handler

    def open(self, settings: Settings | None = None, **given: Any) -> AbstractAsyncContextManager[Backbone]:
        """The app on its store: ``async with app.open(db="afterturn.db") as backbone: …``.

        Settings come from the environment where they are not given.
        """
        from afterturn.bootstrap import open_backbone  # noqa: PLC0415 - only the composition root knows the adapters

        return open_backbone(self, settings or read_settings(**given))


def load_app(reference: str) -> App:
    """The app that ``my_module:app`` names; the current folder is looked in first. Raises ConfigError."""
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute or module_name.endswith(".py"):
        raise ConfigError(f"app {reference!r}: write it as module:attribute, such as my_module:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ConfigError:
        raise
    except Exception as error:
        told = f"importing {module_name} failed{_place(error)}: {error!r}{_advice(error, module_name)}"
        raise ConfigError(f"app {reference!r}: {told}") from error
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        raise ConfigError(f"app {reference!r}: {module_name}.{attribute} is not an afterturn.App")
    return app


def _advice(error: Exception, module_name: str) -> str:
    """What to do where the module itself was not found, and not one that it imports."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is None or not f"{module_name}.".startswith(f"{missing}."):
        return ""
    return "; run it in the folder where the module is, or name that folder in PYTHONPATH"


def _place(error: Exception) -> str:
    """Where in the user's own files an import went wrong, as far as can be told."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [frame for frame in frames if not frame.filename.startswith("<") and frame.filename != importlib.__file__]
    return f" at {own[-1].filename}:{own[-1].lineno}" if own else ""
