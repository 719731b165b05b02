"""Checks the tokens of callers: bearer tokens (RFC 6750)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

from starlette.datastructures import Headers

from connector.config.http_model import READ, TokenEntry
from connector.http.problems import HttpProblem

_CHALLENGE = 'Bearer realm="connector"'


class Caller(NamedTuple):
    """Who has called.

    Args:
        number: the index of the token. -1 = no token is needed.
        name: of the token, for the log.
    """

    number: int
    name: str


class Tokens:
    """The tokens of a server. Keeps their digests only, so that no log or error can show a token.

    Args:
        tokens: any of them lets a caller in. Empty = every caller is let in, and may only read.
    """

    def __init__(self, tokens: Sequence[TokenEntry]) -> None:
        self._digests = tuple(_digest(one.token) for one in tokens)
        self._names = tuple(one.name or f"token {number}" for number, one in enumerate(tokens, 1))
        self._roles = tuple(frozenset(one.roles) for one in tokens)

    @property
    def needed(self) -> bool:
        """Whether a caller needs a token."""
        return bool(self._digests)

    def check(self, headers: Headers, role: str) -> Caller:
        """Returns the caller, who has a role.

        Raises:
            HttpProblem: 401 as in :meth:`identify`. 403 as in :meth:`demand`.
        """
        caller = self.identify(headers)
        self.demand(caller, role)
        return caller

    def identify(self, headers: Headers) -> Caller:
        """Returns the caller.

        Raises:
            HttpProblem: 401, there is no token, or the token is wrong.
        """
        if not self._digests:
            return Caller(-1, "")
        given = headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.casefold() != "bearer" or not token.strip():
            raise _refusal("this server needs a token: Authorization: Bearer TOKEN", _CHALLENGE)
        found = self.find(token.strip())
        if found is None:
            raise _refusal("the token is not one of this server's", f'{_CHALLENGE}, error="invalid_token"')
        return found

    def find(self, token: str) -> Caller | None:
        """Returns who has a token. None = it is not one of this server's."""
        digest = _digest(token)
        found = -1
        for number, known in enumerate(self._digests):  # no early end, so the time does not tell the index
            if hmac.compare_digest(known, digest):
                found = number
        return self.caller(found) if found >= 0 else None

    def caller(self, number: int) -> Caller:
        """Returns the caller with the token at a position."""
        return Caller(number, self._names[number])

    def may(self, caller: Caller, role: str) -> bool:
        """Whether a caller has a role. Without tokens everybody may read, and nothing else."""
        return role == READ if caller.number < 0 else role in self._roles[caller.number]

    def demand(self, caller: Caller, role: str) -> None:
        """Checks that a caller has a role.

        Raises:
            HttpProblem: 403, the token lacks the role. Without tokens everybody has the role ``read`` only.
        """
        if self.may(caller, role):
            return
        if caller.number < 0:
            detail = f"without tokens the server only shows; http.tokens gives a token the role {role}"
            raise HttpProblem(HTTPStatus.FORBIDDEN, detail)
        challenge = f'{_CHALLENGE}, error="insufficient_scope", scope="{role}"'
        detail = f"{caller.name} does not have the role {role} (http.tokens)"
        raise HttpProblem(HTTPStatus.FORBIDDEN, detail, {"WWW-Authenticate": challenge})


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _refusal(detail: str, challenge: str) -> HttpProblem:
    return HttpProblem(HTTPStatus.UNAUTHORIZED, detail, {"WWW-Authenticate": challenge})
