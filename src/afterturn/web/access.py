"""Authentication: by a bearer token, or by the session that a login opened."""

from __future__ import annotations

import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from afterturn.clock import Clock
from afterturn.errors import ConfigError
from afterturn.web.login import LoginLinks, Secret, Session, Sessions, same
from afterturn.web.roles import Caller, CallerRole, Scope
from afterturn.web.tokens import TokenFile, digest_of

COOKIE = "afterturn_session"
CSRF_HEADER = "x-csrf-token"

LOGIN_TRIES = 10
LOGIN_SPAN = timedelta(minutes=1)
_MOST_KEYS = 10_000

_LINK_CALLER = Caller("login-link", CallerRole.ADMIN, Scope())


class AccessControl:
    """``tokens``: the file of tokens; None: there are only login links. Randomness is a parameter for tests."""

    def __init__(self, clock: Clock, tokens: TokenFile | None = None, *, secret: Secret | None = None) -> None:
        self._clock = clock
        self._tokens = tokens
        made = secret or (lambda: secrets.token_urlsafe(32))
        self._sessions = Sessions(made)
        self._links = LoginLinks(made)
        self._tries = RateLimiter(LOGIN_TRIES, LOGIN_SPAN)

    def caller(self, headers: Mapping[str, str]) -> Caller | None:
        """The caller with these headers (lower case); None if there are no valid credentials.

        If there is an ``Authorization`` header, only that counts.
        """
        authorization = headers.get("authorization")
        if authorization is not None:
            scheme, _, token = authorization.partition(" ")
            return self._find(token.strip()) if scheme.lower() == "bearer" else None
        cookie = cookie_of(headers)
        session = None if cookie is None else self._sessions.find(cookie, self._clock())
        return None if session is None else self._caller_of(session)

    def count_failed_login(self, address: str) -> timedelta | None:
        """Count a failed login; how long its address has to wait if there were too many.

        A valid login is never refused, whatever others tried from the same address: keys and tokens have 256 random
        bits, and nobody may lock out a whole office.
        """
        return self._tries.take(address, self._clock())

    def make_link(self) -> str:
        """A key that opens one session within ten minutes."""
        return self._links.make(self._clock())

    def redeem(self, key: str) -> tuple[str, Session] | None:
        """The cookie and session of a login link; None if it was used, has expired or is unknown."""
        now = self._clock()
        return self._sessions.open(None, now) if self._links.redeem(key, now) else None

    def log_in(self, token: str) -> tuple[str, Session] | None:
        """The cookie and session of a token."""
        now = self._clock()
        return self._sessions.open(digest_of(token), now) if self._find(token) else None

    def log_out(self, headers: Mapping[str, str]) -> None:
        if cookie := cookie_of(headers):
            self._sessions.close(cookie)

    def _find(self, token: str) -> Caller | None:
        match = None if self._tokens is None else self._tokens.find(token, self._clock())
        return None if match is None else match.caller

    def _caller_of(self, session: Session) -> Caller | None:
        """A session is valid only while its token is: not after it was revoked or has expired."""
        if session.token is None:
            return replace(_LINK_CALLER, csrf=session.csrf)
        match = None if self._tokens is None else self._tokens.find_digest(session.token, self._clock())
        return None if match is None else replace(match.caller, csrf=session.csrf)


def may_change(caller: Caller, headers: Mapping[str, str]) -> bool:
    """Whether a state-changing request is allowed: a session needs its CSRF token."""
    return caller.csrf is None or same(headers.get(CSRF_HEADER, ""), caller.csrf)


def cookie_of(headers: Mapping[str, str]) -> str | None:
    """The session's cookie, whatever other cookies the browser sends."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_binding(host: str, tokens: int) -> None:
    """Raise ConfigError if other machines can connect and there is no token."""
    if not is_loopback(host) and not tokens:
        raise ConfigError(
            f"host {host!r} can be reached from other machines, and there is no token: make one with `afterturn token "
            "add NAME --role operator` and name its file by --tokens, or serve on 127.0.0.1"
        )


class RateLimiter:
    """At most ``most`` attempts in any ``span`` for each key, such as an address."""

    def __init__(self, most: int, span: timedelta) -> None:
        self._most = most
        self._span = span
        self._tries: OrderedDict[str, list[datetime]] = OrderedDict()

    def take(self, key: str, now: datetime) -> timedelta | None:
        """Count an attempt; None if it is allowed, else how long to wait."""
        recent = [at for at in self._tries.pop(key, []) if now - at < self._span]
        if len(recent) >= self._most:
            self._tries[key] = recent
            return self._span - (now - recent[0])
        self._tries[key] = [*recent, now]
        while len(self._tries) > _MOST_KEYS:
            self._tries.popitem(last=False)
        return None
