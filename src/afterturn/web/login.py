"""Login: sessions by cookie, and one-time login links."""

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
        cookies = [digest for digest, session in self._sessions.items() if token is not None and session.token == token]
        for digest in cookies[: max(len(cookies) + 1 - _MOST_OF_ONE, 0)]:
            del self._sessions[digest]
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


def same(text: str, expected: str) -> bool:
    """Whether both are equal, in constant time."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass"))


def _key(secret: str) -> str:
    """The key for the lookup: its time reveals nothing about the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
