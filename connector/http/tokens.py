"""Checks the tokens of callers: bearer tokens (RFC 6750)."""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.requests import HTTPConnection

from connector.config.http_model import READ, REQUEST, TokenEntry
from connector.http.addresses import client_of
from connector.http.problems import HttpProblem
from connector.http.throttled_log import ThrottledLog

_CHALLENGE = 'Bearer realm="connector"'
_FREE: Final = 20
"""Wrong tokens of a client before it has to wait."""
_DOUBLINGS: Final = 6
"""Times that the wait of a second doubles, at most."""
_FORGOTTEN: Final = 600.0
"""Seconds after which wrong tokens do not count any longer."""
_MOST_CLIENTS: Final = 10_000


class Caller(NamedTuple):
    """Who has called.

    Args:
        number: the index of the token. -1 = no token is needed.
    """

    number: int
    name: str


@dataclass(slots=True)
class _Client:
    """What is known of a client.

    Args:
        until: when it may name another token.
        known: the tokens that have let it in.
    """

    wrong: int = 0
    until: float = -math.inf
    known: set[int] = field(default_factory=set)

    def count_wrong(self, now: float) -> None:
        if now > self.until + _FORGOTTEN:
            self.wrong = 0
        self.wrong += 1
        self.until = now
        if self.wrong >= _FREE:
            self.until += 2.0 ** min(_DOUBLINGS, self.wrong - _FREE)


class Tokens:
    """The tokens of a server. Keeps their digests only, so that no log or error can show a token.

    Args:
        tokens: any of them lets a caller in. Empty = every caller is let in, and may only read.
        clock: returns seconds that pass.
    """

    def __init__(self, tokens: Sequence[TokenEntry], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._refused = ThrottledLog("wrong tokens are refused", {})
        self._digests = tuple(_digest(one.token) for one in tokens)
        self._names = tuple(one.name or f"token {number}" for number, one in enumerate(tokens, 1))
        self._roles = tuple(frozenset(one.roles) for one in tokens)

    @property
    def needed(self) -> bool:
        """Whether a caller needs a token."""
        return bool(self._digests)

    def check(self, request: HTTPConnection, role: str) -> Caller:
        """Returns the caller, who has a role.

        Raises:
            HttpProblem: 401 and 429 as in :meth:`identify`. 403 as in :meth:`demand`.
        """
        caller = self.identify(request)
        self.demand(caller, role)
        return caller

    def identify(self, request: HTTPConnection) -> Caller:
        """Returns the caller.

        Raises:
            HttpProblem: 401, there is no token, or the token is wrong. 429 as in :meth:`find`.
        """
        if not self._digests:
            return Caller(-1, "")
        given = request.headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.casefold() != "bearer" or not token.strip():
            raise _refusal("this server needs a token: Authorization: Bearer TOKEN", _CHALLENGE)
        found = self.find(token.strip(), client_of(request.client))
        if found is None:
            raise _refusal("the token is not one of this server's", f'{_CHALLENGE}, error="invalid_token"')
        return found

    def find(self, token: str, client: str) -> Caller | None:
        """Returns who has a token. None = it is not one of this server's.

        A client that has named many wrong tokens has to wait before the next one. Meanwhile it is let in with
        a token that it has named before, so that nobody behind the same proxy is locked out.

        Args:
            client: who names the token, of :func:`.client_of`.

        Raises:
            HttpProblem: 429, the client has to wait.
        """
        digest = _digest(token)
        found = -1
        for number, known in enumerate(self._digests):  # no early end, so the time does not tell the index
            if hmac.compare_digest(known, digest):
                found = number
        record, now = self._record(client), self._clock()
        if now < record.until and found not in record.known:
            self._refused.add()
            raise _wait(record.until - now)
        if found < 0:
            self._refused.add()
            record.count_wrong(now)
            return None
        record.known.add(found)
        return self.caller(found)

    def _record(self, client: str) -> _Client:
        record = self._clients.setdefault(client, _Client())
        self._clients.move_to_end(client)
        if len(self._clients) > _MOST_CLIENTS:
            self._clients.popitem(last=False)
        return record

    def caller(self, number: int) -> Caller:
        """Returns the caller with the token at a position."""
        return Caller(number, self._names[number])

    def key_space(self, caller: Caller) -> bytes:
        """Returns what tells the keys of a caller from those of others, in every process."""
        return b"" if caller.number < 0 else self._digests[caller.number]

    def may(self, caller: Caller, role: str) -> bool:
        """Whether a caller has a role. Without tokens everybody may read, and nothing else.

        Args:
            role: :data:`REQUEST` = any request at all. ``request:OBJECT.VERB`` = that request.
        """
        if caller.number < 0:
            return role == READ
        kind, _, name = role.partition(":")
        roles = self._roles[caller.number]
        if kind != REQUEST or REQUEST in roles:
            return kind in roles
        if not name:
            return any(one.startswith(f"{REQUEST}:") for one in roles)
        return role in roles or f"{REQUEST}:{name.partition('.')[0]}.*" in roles

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


def _wait(seconds: float) -> HttpProblem:
    detail = f"too many wrong tokens came from this address; try again in {math.ceil(seconds)} s"
    return HttpProblem(HTTPStatus.TOO_MANY_REQUESTS, detail, {"Retry-After": str(math.ceil(seconds))})
