"""Checks the tokens of callers: bearer tokens (RFC 6750)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from http import HTTPStatus

from starlette.datastructures import Headers

from connector.http.problems import HttpProblem

_CHALLENGE = 'Bearer realm="connector"'


class Tokens:
    """The tokens of a server. Keeps their digests only, so that no log or error can show a token.

    Args:
        tokens: any of them lets a caller in. Empty = every caller is let in.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self._digests = tuple(_digest(token) for token in tokens)

    @property
    def needed(self) -> bool:
        """Whether a caller needs a token."""
        return bool(self._digests)

    def check(self, headers: Headers) -> int:
        """Returns the index of the caller's token. -1 = no token is needed.

        Raises:
            HttpProblem: 401, there is no token, or the token is wrong.
        """
        if not self._digests:
            return -1
        given = headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.casefold() != "bearer" or not token.strip():
            raise _refusal("this server needs a token: Authorization: Bearer TOKEN", _CHALLENGE)
        digest = _digest(token.strip())
        found = -1
        for number, known in enumerate(self._digests):  # no early end, so the time does not tell the index
            if hmac.compare_digest(known, digest):
                found = number
        if found < 0:
            raise _refusal("the token is not one of this server's", f'{_CHALLENGE}, error="invalid_token"')
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _refusal(detail: str, challenge: str) -> HttpProblem:
    return HttpProblem(HTTPStatus.UNAUTHORIZED, detail, {"WWW-Authenticate": challenge})
