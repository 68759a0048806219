"""Shared options with their variables, and how commands open a store."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import shlex
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from afterturn.app import App, load_app
from afterturn.backbone import Backbone
from afterturn.clock import parse_duration, parse_time_or_date
from afterturn.config import Profile, Settings, read_settings
from afterturn.errors import ConfigError, InvalidInput, InvalidRecord, NotFound
from afterturn.inbox.filters import BY_NAME, FILTERS, FilterField
from afterturn.ledger.ledger import Selection
from afterturn.model import Emitter, Stamp, check_id
from afterturn.reactions.registry import ReactionContext, TurnWindow

T = TypeVar("T")


class LogLevelName(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"
    OFF = "off"


@dataclass(slots=True)
class SharedOptions:
    """Options before the command's name, or from variables."""

    profile: Profile | None = None
    db: Path | None = None
    app: str | None = None
    log_level: LogLevelName | None = None


_PROFILE = (
    "--profile",
    "AFTERTURN_PROFILE",
    "Deployment profile: embedded (one file, the default), local (the production path on this machine) or aws.",
    "PROFILE",
)
_DB = ("--db", "AFTERTURN_DB", "SQLite file; default: ./afterturn.db", "FILE")
_APP = ("--app", "AFTERTURN_APP", "Your app as module:attribute; default: the shipped one.", "APP")
_LOG = (
    "--log-level",
    "AFTERTURN_LOG_LEVEL",
    "Log level on stderr: debug, info, warning, error, critical or off.",
    "LEVEL",
)


def _flag(flag: str, variable: str, text: str, metavar: str, **more: Any) -> Any:
    """An option of a command. Its variable is read once, at the root, so any option wins over it."""
    return typer.Option(flag, help=f"{text} ({variable})", metavar=metavar, rich_help_panel="Shared options", **more)


def _remember_profile(ctx: typer.Context, profile: Profile | None) -> Profile | None:
    if profile is not None:
        ctx.obj.profile = profile
    return profile


def _root(flag: str, variable: str, text: str, metavar: str) -> Any:
    return typer.Option(flag, envvar=variable, show_envvar=False, help=f"{text} ({variable})", metavar=metavar)


Profiled = Annotated[Profile | None, _flag(*_PROFILE, callback=_remember_profile)]
"""Remembered for :func:`settings_of`; a command that declares it need not pass it on."""
Db = Annotated[Path | None, _flag(*_DB)]
AppName = Annotated[str | None, _flag(*_APP)]
LogLevel = Annotated[LogLevelName | None, _flag(*_LOG)]
RootProfile = Annotated[Profile | None, _root(*_PROFILE)]
RootDb = Annotated[Path | None, _root(*_DB)]
RootApp = Annotated[str | None, _root(*_APP)]
RootLogLevel = Annotated[LogLevelName | None, _root(*_LOG)]

Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON on stdout.")]


def filter_option(declared: FilterField, *, repeatable: bool) -> Any:
    """The option of a filter of the inbox."""
    about = declared.filter
    value = "" if declared.type is bool else about.metavar
    text = f"{about.help} Repeatable." if repeatable else about.help
    return typer.Option(about.option, metavar=value, help=text)


Since = Annotated[str | None, filter_option(BY_NAME["since"], repeatable=False)]
Until = Annotated[str | None, filter_option(BY_NAME["until"], repeatable=False)]
Property = Annotated[str | None, filter_option(BY_NAME["property"], repeatable=False)]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=100_000, help="Maximum number of entries.")]


def settings_of(ctx: typer.Context, db: Path | None, **values: Any) -> Settings:
    """The settings of a command; logging is set up on the way."""
    shared: SharedOptions = ctx.obj
    return read_settings(db=db or shared.db, profile=shared.profile, **values)


def cli_settings(ctx: typer.Context, db: Path | None) -> Settings:
    """Settings of a command that emits: its events say so, unless the variable says otherwise."""
    return settings_of(ctx, db, emitter=None if "AFTERTURN_EMITTER" in os.environ else Emitter.CLI)


def app_of(ctx: typer.Context, name: str | None) -> App:
    """The app that was named, or the one that ships."""
    chosen = name or ctx.obj.app
    return load_app(chosen) if chosen else App()


def set_up_logging(ctx: typer.Context, name: LogLevelName | None, default: LogLevelName = LogLevelName.WARNING) -> None:
    """Log lines to stderr, ids and counters only: ``2026-03-01T12:00:05Z INFO action=… conversation_id=…``."""
    level = name or ctx.obj.log_level or default
    handler = _Stderr()
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(_without_content)
    silent = logging.CRITICAL + 1
    logging.basicConfig(level=silent if level is LogLevelName.OFF else logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("afterturn").setLevel(silent if level is LogLevelName.OFF else level.value.upper())


_TELL_ERRORS_WITH_THEIR_TEXT = ("asyncio", "temporalio")


def _without_content(record: logging.LogRecord) -> bool:
    """Of an error that a library logs, only its kind: the text of a consumer's error can quote a customer."""
    if record.name == "uvicorn.error" and "CancelledError" in record.getMessage():
        return False  # a second Ctrl-C cancels the server on purpose
    if record.name.partition(".")[0] in _TELL_ERRORS_WITH_THEIR_TEXT and record.exc_info:
        kind = record.exc_info[0]
        record.msg, record.args = f"action=error stage={record.name} error={kind.__name__ if kind else 'unknown'}", ()
        record.exc_info = record.exc_text = record.stack_info = None
    return True


class _Stderr(logging.StreamHandler[Any]):
    """Writes to what stderr is now: a progress bar puts itself in its place while it is shown."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, value: Any) -> None:
        pass


def require_store(settings: Settings) -> None:
    """Raise NotFound if there is no file: an empty result for a mistyped path would be misleading."""
    if settings.profile is not Profile.EMBEDDED:
        return
    if not os.path.lexists(settings.db) and os.access(settings.db.parent, os.X_OK):
        raise NotFound(
            f"there is no store at {settings.db}; choose one with --db or AFTERTURN_DB, or create one with "
            "`afterturn settle`, `import FILE` or `demo`"
        )


@asynccontextmanager
async def open_existing(settings: Settings) -> AsyncIterator[Backbone]:
    """Open an existing store, for commands that run no reactions.

    No app is loaded: the ledger knows the consumers, and reading must not register any.
    """
    require_store(settings)
    async with App(shipped=False).open(settings) as backbone:
        for name in await backbone.store.registrations():
            backbone.registry.add(name, _never_run)
        yield backbone


async def _never_run(window: TurnWindow, ctx: ReactionContext) -> Stamp:
    raise AssertionError("this command runs no reactions")


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of every filter, in place of its ``**filters``: the fields of an InboxQuery."""

    @functools.wraps(command)
    def run(ctx: typer.Context, **values: Any) -> None:
        for filter_ in FILTERS:
            if values[filter_.field] in (None, []):
                del values[filter_.field]
        command(ctx, **values)

    context, *others, _ = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [context, *map(_parameter, FILTERS), *others]
    run.__dict__["__signature__"] = inspect.Signature([filter_.replace(kind=_KEYWORD) for filter_ in parameters])
    run.__annotations__ = {filter_.name: filter_.annotation for filter_ in parameters}
    return run


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _parameter(declared: FilterField) -> inspect.Parameter:
    kind: Any = declared.type if issubclass(declared.type, bool | Enum) else str
    default = None
    if declared.many:
        kind = list[kind] | None
    elif kind is bool:
        default = False
    else:
        kind |= None
    annotation = Annotated[kind, filter_option(declared, repeatable=declared.many)]
    return inspect.Parameter(declared.field, _KEYWORD, default=default, annotation=annotation)


def selection(since: str | None, until: str | None, property_id: str | None) -> Selection:
    """A part of history from options; raises InvalidRecord that names the option."""
    first = None if since is None else flag_value("--since", parse_time_or_date, since)
    end = None if until is None else flag_value("--until", parse_time_or_date, until)
    if first is not None and end is not None and first >= end:
        raise InvalidInput("--since is not before --until")
    if property_id is not None:
        flag_value("--property", check_id, property_id)
    return Selection(since=first, until=end, property_id=property_id)


def read_grace(text: str | None, settings: Settings) -> timedelta:
    """A grace period; the setting's where none is given."""
    return settings.grace if text is None else flag_value("--grace", parse_duration, text)


def flag_value(flag: str, read: Callable[[str], T], text: str) -> T:
    """What a flag means; raises InvalidRecord that names it."""
    try:
        return read(text)
    except ValueError as error:
        raise InvalidRecord(flag, str(error)) from None


def require_consumers(names: Sequence[str], registered: Sequence[str]) -> None:
    """Raise NotFound for a consumer that was never registered."""
    for name in names:
        if name not in registered:
            raise NotFound(f"no consumer {name!r} was ever registered (registered: {', '.join(registered) or 'none'})")


def place_of(settings: Settings) -> str:
    """``afterturn.db``, ``the local profile in .afterturn``, or ``lane prod``."""
    if settings.profile is Profile.EMBEDDED:
        return str(settings.db)
    if settings.profile is Profile.LOCAL:
        return f"the local profile in {settings.local_folder}"
    return f"lane {settings.lane.value}"


def export_of(settings: Settings) -> str:
    """The shell command that sets the variables for the same store."""
    if settings.profile is Profile.EMBEDDED:
        return f"export AFTERTURN_DB={shlex.quote(str(settings.db))}"
    return f"export AFTERTURN_PROFILE=local AFTERTURN_LOCAL_FOLDER={shlex.quote(str(settings.local_folder))}"


def on_scratch(settings: Settings, *, db: Path | None) -> Settings:
    """The same settings with a new temporary folder, unless one was given.

    Raises ConfigError for the aws profile.
    """
    if settings.profile is Profile.AWS:
        raise ConfigError("the demo does not write to an AWS account; use --profile embedded or local")
    if db is not None if settings.profile is Profile.EMBEDDED else "local_folder" in settings.model_fields_set:
        return settings
    folder = Path(tempfile.mkdtemp(prefix="afterturn-demo-"))
    return settings.model_copy(update={"db": folder / "demo.db", "local_folder": folder})
