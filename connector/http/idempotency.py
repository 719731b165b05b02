"""The same call twice has one effect: the header ``Idempotency-Key``.

A client that did not receive an answer repeats the call with the same key, and gets the missed answer
(draft-ietf-httpapi-idempotency-key-header). Answers are kept in memory, and in the state of the application
for its other instances and the next start. They are limited in time, number and size.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from connector.http.answers import SECONDS_TO_RETRY
from connector.http.problems import HttpProblem
from connector.messaging.state_store import CallLimits, KeptCall

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotent-Replayed"
_KEY: Final = re.compile(r'"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"|([\x21\x23-\x5b\x5d-\x7e]{1,255})')
_OVERHEAD: Final = 500
"""Bytes of memory that an answer costs beside its body, about."""

CallKey = tuple[int, str]
"""The caller's token and key. So callers do not get the answers of other callers."""


def key_of(given: Sequence[str]) -> str | None:
    """Returns the key of a call, or None. The quotes of a structured field do not count.

    Args:
        given: each header of the name :data:`HEADER`.

    Raises:
        HttpProblem: 400, the key is not valid.
    """
    if not given:
        return None
    match = _KEY.fullmatch(given[0].strip()) if len(given) == 1 else None
    if match is None:
        raise HttpProblem(
            HTTPStatus.BAD_REQUEST,
            f"{HEADER}: expected one, of 1 to 255 printable ASCII characters without quotes and backslashes",
        )
    return match[1] or match[2]


@dataclass(frozen=True, slots=True)
class _Kept:
    fingerprint: bytes
    until: float
    status: int
    body: bytes


class KeptAnswers:
    """The answers of the calls that had a key. For one thread, that of the server.

    Args:
        seconds: how long an answer is kept.
        most: how many answers are kept.
        most_bytes: of all answers kept. Above this size the oldest answers are removed.
        clock: returns seconds that do not depend on changes of the time of day.
    """

    def __init__(
        self,
        seconds: float,
        most: int,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int = 64 << 20,
    ) -> None:
        self._seconds = seconds
        self._most = most
        self._most_bytes = most_bytes
        self._clock = clock
        self._begun: dict[CallKey, bytes] = {}
        self._kept: OrderedDict[CallKey, _Kept] = OrderedDict()
        self._bytes = 0

    @property
    def limits(self) -> CallLimits:
        """The same limits, for the state of the application."""
        return CallLimits(self._seconds, self._most, self._most_bytes)

    def begin(self, call: CallKey, fingerprint: bytes) -> Response | None:
        """Returns the earlier answer to this call. None = the call is new, and is noted as begun.

        Raises:
            HttpProblem: 422, the key belongs to another call. 409, the first call is still in progress.
        """
        self._remove_expired()
        kept = self._kept.get(call)
        known = kept.fingerprint if kept is not None else self._begun.get(call)
        if known is not None and known != fingerprint:
            raise another_call()
        if kept is not None:
            return Response(kept.body, kept.status, {REPLAYED: "true"}, "application/json")
        if known is not None:
            raise _in_progress()
        self._begun[call] = fingerprint
        return None

    def finish(self, call: CallKey, answer: Response | None) -> None:
        """Notes the end of a call that has begun.

        Args:
            answer: the answer to keep. None = nothing has happened, so that the call may be repeated.
        """
        fingerprint = self._begun.pop(call)
        if answer is None:
            return
        self._kept[call] = _Kept(
            fingerprint, self._clock() + self._seconds, answer.status_code, bytes(answer.body)
        )
        self._bytes += len(answer.body) + _OVERHEAD
        while len(self._kept) > self._most or self._bytes > self._most_bytes:
            self._remove_oldest()

    def _remove_expired(self) -> None:
        now = self._clock()
        while self._kept and next(iter(self._kept.values())).until <= now:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        _, kept = self._kept.popitem(last=False)
        self._bytes -= len(kept.body) + _OVERHEAD


def kept_answer(kept: KeptCall, fingerprint: str) -> Response:
    """Returns the answer of a call that another record of the application keeps.

    Raises:
        HttpProblem: as :meth:`KeptAnswers.begin`. 503, the call has no answer and may have had its effect.
    """
    if kept.fingerprint != fingerprint:
        raise another_call()
    if kept.is_at_work:
        raise _in_progress()
    if not kept.status:
        detail = (
            f"the adapter stopped during the first call with this {HEADER}, so its answer is not known: the "
            "request may have been sent, and is not sent again; a call with another key would send it"
        )
        raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, detail)
    return Response(kept.body, kept.status, {REPLAYED: "true"}, "application/json")


def another_call() -> HttpProblem:
    """Returns the refusal of a key that belongs to another call."""
    detail = f"this {HEADER} belongs to a call with another path or body: give each call its own"
    return HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, detail)


def _in_progress() -> HttpProblem:
    detail = f"the first call with this {HEADER} is still in progress: repeat it in a moment"
    return HttpProblem(HTTPStatus.CONFLICT, detail, {"Retry-After": SECONDS_TO_RETRY})
