"""Claim: round robin over the input destinations (WBI Adapter for JMS, "Polling").

First what waits in the in-progress destination because its process was not active. Then one message of
each destination in turn, at most ``PollQuantity`` rounds, never waiting. A destination found empty is not
asked again in that poll; when all are empty the poll is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from connector.errors import ProviderError
from connector.events.outcome import Outcome
from connector.events.settling import untouched
from connector.messaging.destination import Destination
from connector.messaging.provider import Claim, Connection, Poller


@dataclass(slots=True)
class Batch:
    """The claims of one poll cycle.

    Args:
        cycle: number of the cycle, unique for this client.
        claims: in the order in which they were taken; position = sequence.
        keys: duplicate key of each claim; empty where duplicates are not eliminated.
        decided: outcomes that need no task, by sequence.
        waiting: sequences that wait for what becomes of another copy of the same message.
        returned: sequences that go back untouched.
        busy: how many of those returned a neighbour has in flight.
        more: a destination gave all that a poll may take of it, so more may wait there.
        failure: the provider failed in mid-round; what was claimed is finished, then the poll ends.
    """

    cycle: int
    claims: list[Claim] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    decided: dict[int, Outcome] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    returned: set[int] = field(default_factory=set)
    busy: int = 0
    more: bool = False
    failure: ProviderError | None = None

    def kept_back(self) -> set[int]:
        """Sequences that no task is for."""
        return self.returned.union(self.decided, self.waiting)

    def give_back(self) -> None:
        """All of it goes back untouched."""
        self.returned.update(range(len(self.claims)))
        self.decided.clear()
        self.waiting.clear()

    def held_keys(self) -> list[str]:
        """Duplicate keys that are at work here until the batch is settled."""
        return [key for sequence, key in enumerate(self.keys) if sequence not in self.returned]


class WaitingMessages:
    """Messages whose process was not active; they wait in the in-progress destination until they run again.

    They belong to nobody, so that any instance may run them, also after a crash. One rename decides which
    instance does.

    Args:
        connection: of this adapter.
        in_progress: InProgressDestination.
        inputs: the input destinations; what was taken from elsewhere is another application's.
    """

    def __init__(
        self, connection: Connection, in_progress: Destination, inputs: Iterable[Destination]
    ) -> None:
        self._connection = connection
        self._in_progress = in_progress
        self._inputs = frozenset(inputs)
        self._found: list[Claim] = []
        self._is_due = True

    def look(self) -> None:
        """There may be some: the next :meth:`take` looks for them."""
        self._is_due = True

    def has(self, claim: Claim) -> bool:
        """Whether a message of the in-progress destination is one of them."""
        return claim.waits and claim.destination in self._inputs

    def take(self, cycle: int, sequence: int) -> Claim | None:
        """Claims the next one, highest priority first, then oldest; None where there is none.

        One that has expired meanwhile goes back to its input, whose poller finds it expired.

        Raises:
            ProviderError: the in-progress destination cannot be read, or a message cannot be given back.
        """
        if self._is_due:
            found = [claim for claim in self._connection.unowned(self._in_progress) if self.has(claim)]
            self._found = sorted(found, key=lambda claim: -claim.headers().priority)
            self._is_due = False
        while self._found:
            claim = self._connection.adopt(self._found.pop(0), cycle, sequence)
            if claim is None:
                continue
            if not claim.headers().has_expired():
                return claim
            self._connection.settle([untouched(claim)])
        return None


def claim_round_robin(
    pollers: Sequence[Poller], quantity: int, cycle: int, waiting: WaitingMessages | None = None
) -> Batch:
    """Takes what waits, then at most ``quantity`` messages of each poller, in turn.

    A provider error ends it; what was taken before is in the batch, and so is the error.
    """
    batch = Batch(cycle)
    claims = batch.claims
    active = list(pollers)
    try:
        while waiting is not None and (claim := waiting.take(cycle, len(claims))) is not None:
            claims.append(claim)
        for _ in range(quantity):
            remaining = []
            for poller in active:
                claim = poller.take(cycle, len(claims))
                if claim is not None:
                    claims.append(claim)
                    remaining.append(poller)
            if not remaining:
                break
            active = remaining
        else:
            batch.more = True
    except ProviderError as error:
        batch.failure = error
    return batch
