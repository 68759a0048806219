"""Browser sessions, one-time login links and a rate limiter, all in memory of this process."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

Secret = Callable[[], str]
"""Makes an unguessable text, such as ``secrets.token_urlsafe``."""

SESSION_LIFETIME = timedelta(hours=12)
LINK_LIFETIME = timedelta(minutes=10)

_MOST_SESSIONS = 1_000
_MOST_OF_ONE = 50
"""Sessions of one token, so that one caller cannot end the sessions of others."""
_MOST_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """``token``: the digest of the token that it was opened with, None for a login link. ``csrf``: see ``Caller``."""

    token: str | None
    csrf: str
    until: datetime


class Sessions:
    """Sessions by cookie. A cookie is a random secret, so there is nothing to sign."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def open(self, token: str | None, now: datetime) -> tuple[str, Session]:
        """A cookie and its session. The oldest one ends where there are too many: of its token first, then of all."""
        cookie = self._secret()
        session = Session(token, self._secret(), now + SESSION_LIFETIME)
        own = [key for key, one in self._sessions.items() if token is not None and one.token == token]
        for key in own[: max(len(own) + 1 - _MOST_OF_ONE, 0)]:
            del self._sessions[key]
        self._sessions[_key(cookie)] = session
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie, session

    def find(self, cookie: str, now: datetime) -> Session | None:
        session = self._sessions.get(_key(cookie))
        if session is not None and now >= session.until:
            self.close(cookie)
            return None
        return session

    def close(self, cookie: str) -> None:
        self._sessions.pop(_key(cookie), None)


class LoginLinks:
    """One-time keys that open a session within ten minutes."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret
        self._until: dict[str, datetime] = {}

    def make(self, now: datetime) -> str:
        key = self._secret()
        self._until[_key(key)] = now + LINK_LIFETIME
        return key

    def redeem(self, key: str, now: datetime) -> bool:
        """Whether the key is valid; it is used up by this."""
        until = self._until.pop(_key(key), None)
        return until is not None and now < until


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


def same(given: str, expected: str) -> bool:
    """Whether both are equal, in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))


def _key(secret: str) -> str:
    """The key for the lookup: its time reveals nothing about the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
