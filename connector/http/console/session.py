"""Who has signed in to the console: a cookie that only this server can make."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from typing import Final

from connector.http.tokens import Caller, Tokens

COOKIE: Final = "connector_console"
SECONDS: Final = 8 * 3600
"""How long somebody stays signed in."""


class Sessions:
    """Makes and reads the cookies of people who have signed in with a token.

    A cookie names the token by its position, and has an end. The key of its signature is in memory only. So a
    restart of the adapter, which may have other tokens, ends all sessions.

    Args:
        tokens: of the server.
        clock: returns seconds since 1970.
    """

    def __init__(self, tokens: Tokens, clock: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def open(self, token: str) -> str:
        """Returns the value of a new cookie. Empty if the token is wrong."""
        caller = self._tokens.find(token)
        if caller is None:
            return ""
        told = f"{caller.number}.{int(self._clock()) + SECONDS}.{secrets.token_urlsafe(12)}"
        return f"{told}.{self._sign('session', told)}"

    def caller(self, cookie: str) -> Caller | None:
        """Returns who has signed in. None if nobody has, or the time is over.

        Where the server has no tokens, everybody is let in without a cookie, and may only read.
        """
        if not self._tokens.needed:
            return Caller(-1, "")
        told, _, signature = cookie.rpartition(".")
        if not told or not hmac.compare_digest(self._sign("session", told), signature):
            return None
        number, end, _ = told.split(".")
        return self._tokens.caller(int(number)) if int(end) > self._clock() else None

    def form_key(self, cookie: str) -> str:
        """Returns what a form of this session carries, so that no page of others can send it."""
        return self._sign("form", cookie)

    def is_form_key(self, cookie: str, given: str) -> bool:
        """Whether a form comes from a page of this session."""
        return hmac.compare_digest(self.form_key(cookie).encode(), given.encode("utf-8", "replace"))

    def _sign(self, what: str, text: str) -> str:
        data = f"{what} {text}".encode("utf-8", "surrogateescape")
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()
