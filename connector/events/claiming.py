"""Claim: round robin over the input destinations (seed 004, "Event detection").

One message of each destination in turn, at most ``PollQuantity`` rounds, never waiting. A
destination found empty is not asked again in that poll; when all are empty the poll is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from connector.errors import ProviderError
from connector.events.outcome import Outcome
from connector.messaging.provider import Claim, Poller


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
        failure: the provider failed in mid-round; what was claimed is finished, then the poll ends.
    """

    cycle: int
    claims: list[Claim] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    decided: dict[int, Outcome] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    returned: set[int] = field(default_factory=set)
    busy: int = 0
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


def claim_round_robin(pollers: Sequence[Poller], quantity: int, cycle: int) -> Batch:
    """Takes at most ``quantity`` messages of each poller, in turn.

    A provider error ends it; what was taken before is in the batch, and so is the error.
    """
    batch = Batch(cycle)
    claims = batch.claims
    active = list(pollers)
    try:
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
    except ProviderError as error:
        batch.failure = error
    return batch
