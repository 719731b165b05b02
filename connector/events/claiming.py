"""Claim: round robin over the input destinations (WBI Adapter for JMS, "Polling").

First what waits in the in-progress destination because its process was not active. Then at most
``PollQuantity`` messages of each destination, never waiting. A destination found empty is not asked again in
that poll.

The claims are numbered as if one message of each destination had been taken in turn: the number of a claim is
round x number of inputs + position of its input. They are processed in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from connector.errors import ProviderError
from connector.events.settling import untouched
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.provider import Connection, Poller


@dataclass(slots=True)
class Taken:
    """What one poll has taken.

    Args:
        claims: in the order of their numbers.
        full: destinations that gave all that a poll may take of them, so that more may wait there.
        failure: the provider failed; what was claimed before is finished, then the poll ends.
    """

    claims: list[Claim] = field(default_factory=list)
    full: set[Destination] = field(default_factory=set)
    failure: ProviderError | None = None


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
    pollers: Sequence[Poller],
    quantity: int,
    cycle: int,
    first: int = 0,
    waiting: WaitingMessages | None = None,
) -> Taken:
    """Claims what waits, then at most ``quantity`` messages of each poller.

    A provider error ends it; what was claimed before is there all the same, and so is the error.

    Args:
        pollers: in the order of the configuration.
        quantity: PollQuantity.
        cycle: the cycle of all claims.
        first: the lowest number of a claim.
        waiting: messages whose process was not active; None without InProgressDestination.
    """
    taken = Taken()
    claims = taken.claims
    count = len(pollers)
    try:
        while waiting is not None and (claim := waiting.take(cycle, first)) is not None:
            claims.append(claim)
            first += 1
        for position, poller in enumerate(pollers):
            numbers = range(first + position, first + count * quantity, count)
            while numbers and (found := poller.claim(cycle, numbers)):
                claims += found
                numbers = numbers[len(found) :]  # what has ended a short list is seen by asking for the rest
            if not numbers:
                taken.full.add(poller.destination)
    except ProviderError as error:
        taken.failure = error
    claims.sort(key=_sequence)
    return taken


_sequence: Final = attrgetter("sequence")
