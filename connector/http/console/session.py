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
_MOST_ENDED: Final = 10_000
"""Sessions whose end is remembered."""


class Sessions:
    """Makes and reads the cookies of people who have signed in with a token.

    A cookie names the token by its position, and has an end. The key of its signature is in memory only. So a
    restart of the adapter, which may have other tokens, ends all sessions. Who signs out ends one.

    Args:
        clock: returns seconds since 1970.
    """

    def __init__(self, tokens: Tokens, clock: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._ended: dict[str, int] = {}
        """The cookies of people who have signed out, and when they would have ended."""

    def open(self, token: str, client: str) -> str:
        """Returns the value of a new cookie. Empty if the token is wrong.

        Raises:
            HttpProblem: 429, see :meth:`.Tokens.find`.
        """
        caller = self._tokens.find(token, client)
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
        if not told or not _is_equal(self._sign("session", told), signature):
            return None
        number, end, _ = told.split(".")
        if told in self._ended or int(end) <= self._clock():
            return None
        return self._tokens.caller(int(number))

    def close(self, cookie: str) -> None:
        """Ends the session of a cookie. The cookie is worth nothing from now on, whoever has a copy."""
        if not self._tokens.needed or self.caller(cookie) is None:
            return
        told = cookie.rpartition(".")[0]
        self._ended = {one: end for one, end in self._ended.items() if end > self._clock()}
        self._ended[told] = int(told.split(".")[1])
        if len(self._ended) > _MOST_ENDED:  # all sessions end rather than one that has ended comes back
            self._ended, self._key = {}, secrets.token_bytes(32)

    def form_key(self, cookie: str) -> str:
        """Returns what a form of this session carries, so that no page of others can send it."""
        return self._sign("form", cookie)

    def is_form_key(self, cookie: str, given: str) -> bool:
        """Whether a form comes from a page of this session."""
        return _is_equal(self.form_key(cookie), given)

    def _sign(self, what: str, text: str) -> str:
        data = f"{what} {text}".encode("utf-8", "surrogateescape")
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()


def _is_equal(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))
