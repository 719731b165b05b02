"""Settlements that are open: a message does not come from the broker, or a destination takes nothing.

Their claims are decided, and no process is called again. The same settlement is tried again after longer and
longer pauses. Meanwhile nothing is claimed from their inputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from connector.events.grouped_log import GroupedLog
from connector.events.schedule import EndedClaims
from connector.events.settling import Commit
from connector.messaging.destination import Destination

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
"""Seconds between two tries."""


@dataclass(slots=True)
class _Open:
    commit: Commit
    inputs: frozenset[Destination]
    reason: str
    due: float


class OpenSettlements:
    """The open settlements of one connection, in the order of their events. For one thread.

    Args:
        lines: the log.
        clock: returns monotonic seconds.
    """

    def __init__(self, lines: GroupedLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = lines
        self._clock = clock
        self._open: list[_Open] = []

    def reason(self, destination: Destination) -> str:
        """Returns why a settlement of events of an input is open. Empty = none is."""
        return next((one.reason for one in self._open if destination in one.inputs), "")

    @property
    def first_reason(self) -> str:
        """Why the oldest settlement is open. Empty = none is."""
        return self._open[0].reason if self._open else ""

    def __bool__(self) -> bool:
        return bool(self._open)

    def blocking(self, ended: EndedClaims) -> str:
        """Returns why claims have to wait for an earlier settlement of their inputs. Empty = they do not."""
        inputs = (claim.destination for claim in ended.claims)
        return next(filter(None, map(self.reason, inputs)), "") if self._open else ""

    def add(self, commit: Commit, reason: str) -> None:
        """Adds a settlement that was tried, or that waits for an earlier one."""
        inputs = frozenset(claim.destination for claim in commit.claims.claims)
        self._open.append(_Open(commit, inputs, reason, self._due(commit)))
        self._log(self._open[-1])

    def _due(self, commit: Commit) -> float:
        """Returns when a settlement is tried next."""
        commit.pause = min(max(_FIRST_PAUSE, 2 * commit.pause), _LONGEST_PAUSE)
        return self._clock() + commit.pause

    def try_again(self, settle: Callable[[Commit], str], *, at_once: bool = False) -> Iterator[Commit]:
        """Tries the settlements again that are due, each behind the earlier ones of its inputs.

        Args:
            settle: settles, and returns why the settlement is still open. Empty = it is done.
            at_once: whether all are due.

        Yields:
            what is settled.
        """
        stopped: set[Destination] = set()
        for one in list(self._open):
            if stopped.isdisjoint(one.inputs) and (at_once or self._clock() >= one.due):
                reason = settle(one.commit)
                if not reason:
                    self._open.remove(one)
                    yield one.commit
                    continue
                one.reason, one.due = reason, self._due(one.commit)
                self._log(one)
            stopped |= one.inputs

    def _log(self, one: _Open) -> None:
        fields = {"destination": str(min(one.inputs, key=str)), "reason": one.reason}
        self._lines.error("a settlement stays open and is tried again", extra=fields)
