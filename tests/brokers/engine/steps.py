"""The steps at which an adapter on a broker is killed, and what it must not leave."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from connector.brokers.engine.state import RemoteState

STEPS: Final = (
    "claim:3",
    "claim.noted",
    "claim.noted:2",
    "begin:2",
    "deliver:2",
    "done:2",
    "settle.record",
    "settle.committing",
    "settle.committing:2",
    "settle.finished",
    "settle.finished:2",
)
"""Places and counts, for at least 12 messages in polls of 10. Each process counts for itself."""

STEPS_BEFORE_A_ROLLBACK: Final = ("rollback", "claim.noted:2", "settle.committing", "settle.finished")
"""The first transaction is rolled back."""

STEPS_IN_PROGRESS: Final = (
    "claim",
    "begin:2",
    "deliver:2",
    "done:2",
    "settle.committing",
    "settle.committing:3",
    "settle.finished:3",
)
"""With an InProgressDestination. The first commits are the moves."""

_RUNS_AGAIN: Final = ("begin", "deliver")


def runs_again(step: str) -> int:
    """Returns how many events may run again after a kill: those of two workers whose delivery was begun."""
    return 2 if step.partition(":")[0] in _RUNS_AGAIN else 0


def leftovers(state: RemoteState) -> list[str]:
    """Returns what an adapter that has settled everything does not leave in its state."""
    path = Path(state.path)
    found = [one for one in path.glob("@*/*") if one.name != "lock"]
    found += [*path.glob("published/.*"), *path.glob("clients/*")]
    return [*map(str, found), *map(str, state.redeliveries().read())]
