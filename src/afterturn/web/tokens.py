"""Bearer tokens: a TOML file that holds their hashes, so that a reader of the file cannot use them."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import logging
import os
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from afterturn import telemetry
from afterturn.clock import to_text
from afterturn.errors import AfterturnError, ConfigError, InvalidInput, NotFound
from afterturn.model import Id, Label, Record, Time, parse
from afterturn.web.roles import Caller, CallerRole, Scope, check_scope

PREFIX = "aft_"
"""Begins every token, so that a scanner for leaked secrets can find it."""

_MAX_TOKEN = 200
_HEAD = """\
# Who may call the HTTP API. `afterturn token add` appends a section; remove a section to revoke its token at once.
# A token is printed once, when it is made; only its SHA-256 is stored.
"""


class Token(Record):
    """One section of the file. ``properties``: those that the token gives access to. Default: all."""

    name: Label
    role: CallerRole
    sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    created_at: Time
    expires_at: Time | None = None
    properties: Annotated[tuple[Id, ...], Field(max_length=500)] | None = None

    @model_validator(mode="after")
    def _scope_fits_role(self) -> Self:
        check_scope(self.role, self.properties)
        return self

    @property
    def caller(self) -> Caller:
        return Caller(self.name, self.role, Scope(None if self.properties is None else frozenset(self.properties)))

    def valid(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


def digest_of(token: str) -> str:
    """The stored hash of a token. A token has 256 random bits, so no slower hash is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class TokenFile:
    """The tokens of a file, read again when it has changed. A missing file has no tokens.

    An unreadable file lets nobody in until it is repaired, since a revocation may have broken it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None
        self._tokens: tuple[Token, ...] = ()

    def find(self, token: str, now: datetime) -> Token | None:
        """The valid token of this text, or None, in constant time."""
        return None if len(token) > _MAX_TOKEN else self.find_digest(digest_of(token), now)

    def find_digest(self, digest: str, now: datetime) -> Token | None:
        """The valid token of this hash, or None, in constant time."""
        match = None
        for candidate in self._current():
            if hmac.compare_digest(candidate.sha256, digest):
                match = candidate
        return match if match is not None and match.valid(now) else None

    def _current(self) -> tuple[Token, ...]:
        state = _state(self.path)
        if state != self._seen:
            try:
                self._tokens = read_tokens(self.path)
            except AfterturnError as error:
                telemetry.log("tokens_unreadable", level=logging.ERROR, error=type(error).__name__)
                self._tokens = ()
            self._seen = state
        return self._tokens


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Every token of a file; none if it is missing. Raises ConfigError that names the section."""
    text = _text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"tokens file {path}: is not TOML: {error}") from None
    sections = document.pop("token", [])
    if document or not isinstance(sections, list):
        raise ConfigError(f"tokens file {path}: has something else than [[token]] sections; remove it")
    try:
        tokens = tuple(parse(Token, _plain(section), where=f"token[{index}]") for index, section in enumerate(sections))
    except InvalidInput as error:
        raise ConfigError(f"tokens file {path}: {error}") from None
    for key in ("name", "sha256"):
        values = [getattr(token, key) for token in tokens]
        if len(set(values)) < len(values):
            raise ConfigError(f"tokens file {path}: two sections have the same {key}; remove one")
    return tokens


def add_token(path: Path, token: Token) -> None:
    """Append a token; comments and order stay. Raises InvalidInput for a name that is taken, and ConfigError."""
    with _locked(path):
        if any(known.name == token.name for known in read_tokens(path)):
            raise InvalidInput(f"there is a token {token.name!r} already; take another name, or remove that one first")
        text = _text(path) or _HEAD
        _write(path, text.rstrip("\n") + "\n\n" + _section(token))


def remove_token(path: Path, name: str) -> None:
    """Revoke a token; comments are lost. Raises NotFound, and ConfigError."""
    with _locked(path):
        tokens = read_tokens(path)
        kept = [token for token in tokens if token.name != name]
        if len(kept) == len(tokens):
            raise NotFound(f"there is no token {name!r} in {path}; `afterturn token list` lists them")
        _write(path, "\n".join([_HEAD, *map(_section, kept)]))


def _section(token: Token) -> str:
    values: dict[str, Any] = {"name": token.name, "role": token.role.value, "sha256": token.sha256}
    if token.properties is not None:
        values["properties"] = list(token.properties)
    values["created_at"] = to_text(token.created_at)
    if token.expires_at is not None:
        values["expires_at"] = to_text(token.expires_at)
    # A JSON string without control characters is a TOML string, and so is a list of them.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join(["[[token]]", *lines, ""])


def _plain(section: object) -> object:
    """Times may be TOML times or texts."""
    if not isinstance(section, dict):
        return section
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in section.items()}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"tokens file {path}: cannot be read: {getattr(error, 'strerror', 'it is not UTF-8')}"
        ) from None


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Serialize changes. The lock is on the folder, because the file itself is replaced."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"tokens file {path}: its folder cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(path: Path, text: str) -> None:
    """Write atomically, readable by the owner only."""
    scratch = None
    try:
        number, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # made with mode 0600
        with os.fdopen(number, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        if scratch is not None:
            with suppress(OSError):
                os.unlink(scratch)
        raise ConfigError(f"tokens file {path}: cannot be written: {error.strerror}") from None


__all__: Sequence[str] = ["PREFIX", "Token", "TokenFile", "add_token", "digest_of", "read_tokens", "remove_token"]
