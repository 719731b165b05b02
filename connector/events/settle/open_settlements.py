"""Settlements at a broker that are not done. Each is tried in a thread of its own, which may have to wait.

A settlement stays open while a message does not come from the broker, or a destination takes nothing. Its
claims are decided, and no process is called again. The same settlement is tried again after longer and longer
pauses. Meanwhile nothing is claimed from its input. If the broker refuses a message for good, its event has
failed, and the settlement is planned anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from connector.events.claim.order_groups import NONE, Orders
from connector.events.hooks.grouped_log import GroupedLog
from connector.events.settle.settling import Commit
from connector.messaging.input import Input

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0
"""Seconds between two tries."""
_MOST: Final = 2
"""Settlements of an input, at most, before a poll takes more messages of it."""


@dataclass(slots=True)
class _Open:
    commit: Commit
    input: Input | None
    runs: bool = False
    reason: str = ""
    due: float = 0.0


class OpenSettlements:
    """The settlements of one connection that are not done, in the order of their events. For one thread.

    Args:
        orders: of the destinations. With an order each settlement waits for the earlier ones of its input.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, lines: GroupedLog, orders: Orders, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lines = lines
        self._orders = orders
        self._clock = clock
        self._open: list[_Open] = []

    def reason(self, named: Input) -> str:
        """Returns why a settlement of events of an input stays open. Empty = none does."""
        return next((one.reason for one in self._open if one.input == named and one.reason), "")

    def are_many(self, named: Input) -> bool:
        """Whether so many settlements of an input are not done that no more messages may be taken."""
        return sum(one.input == named for one in self._open) >= _MOST

    @property
    def first_reason(self) -> str:
        """Why the oldest settlement stays open. Empty = none does."""
        return next((one.reason for one in self._open if one.reason), "")

    @property
    def is_running(self) -> bool:
        """Whether a settlement is tried now."""
        return any(one.runs for one in self._open)

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, commit: Commit) -> None:
        """Adds a settlement of events of one input."""
        self._open.append(_Open(commit, commit.claims.claims[0].input))

    def begin(self, *, at_once: bool = False) -> Iterator[Commit]:
        """Yields the settlements to try now."""
        stopped: set[Input | None] = set()
        for one in self._open:
            is_due = at_once or self._clock() >= one.due
            if is_due and not one.runs and one.input not in stopped:
                one.runs = True
                yield one.commit
            if self._orders.of(one.commit.claims.claims[0].destination) != NONE:
                stopped.add(one.input)

    def remove(self, commit: Commit) -> None:
        """Removes a settlement whose try has ended it."""
        self._open = [one for one in self._open if one.commit is not commit]

    def repeat(self, commit: Commit) -> None:
        """Lets a settlement that was planned anew be tried at once."""
        (one,) = (one for one in self._open if one.commit is commit)
        one.runs, one.due = False, 0.0

    def keep(self, commit: Commit, reason: str) -> None:
        """Keeps a settlement whose try has not ended it.

        Args:
            reason: why it stays open.
        """
        (one,) = (one for one in self._open if one.commit is commit)
        commit.pause = min(max(_FIRST_PAUSE, 2 * commit.pause), _LONGEST_PAUSE)
        one.runs, one.reason, one.due = False, reason, self._clock() + commit.pause
        fields = {"destination": str(one.input), "reason": reason}
        self._lines.error("a settlement stays open and is tried again", extra=fields)
