"""Claims messages round robin over the input destinations (WBI Adapter for JMS, "Polling").

First come the messages that wait in the in-progress destination because their process was not active. Then
come at most ``PollQuantity`` messages of each destination, without waiting. A poll asks an empty destination
only once.

The claims are numbered as if the poll had taken one message of each destination in turn. The number of a
claim is round x number of inputs + position of its input. Claims are processed in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from connector.errors import ProviderError
from connector.events.rates import RateLimit
from connector.events.settling import untouched_settlement
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.polling import Poller
from connector.messaging.roles import Recovering
from connector.messaging.settlement import SettlementOpen


@dataclass(slots=True)
class PollClaims:
    """The claims of one poll.

    Args:
        claims: in the order of their numbers.
        full: destinations that gave as many messages as a poll or a transaction may take, so that more may
            wait there.
        failure: error of the provider. The claims are finished all the same, then the poll ends.
    """

    claims: list[Claim] = field(default_factory=list)
    full: set[Destination] = field(default_factory=set)
    failure: ProviderError | None = None


class WaitingMessages:
    """Messages in the in-progress destination that wait because their process was not active.

    No client owns them. Any instance may run them, also after a crash. A rename decides which instance does.

    Args:
        connection: of this adapter.
        in_progress: InProgressDestination.
        inputs: the input destinations. Messages from other destinations belong to other applications.
        is_paused: whether an input is paused, by its name.
    """

    def __init__(
        self,
        connection: Recovering,
        in_progress: Destination,
        inputs: Iterable[Destination],
        is_paused: Callable[[str], bool],
    ) -> None:
        self._connection = connection
        self._in_progress = in_progress
        self._inputs = frozenset(inputs)
        self._is_paused = is_paused
        self._found: list[Claim] = []
        self._expired: list[Claim] = []
        """Claims of expired messages that do not go back now."""
        self._is_due = True

    def look(self) -> None:
        """Makes the next :meth:`take` look for waiting messages."""
        self._is_due = True

    def has(self, claim: Claim) -> bool:
        """Whether a message of the in-progress destination is a waiting message of this adapter."""
        return claim.waits and claim.destination in self._inputs

    def take(self, cycle: int, sequence: int) -> Claim | None:
        """Claims the next message, highest priority first, then oldest. Returns None if no message waits.

        An expired message goes back to the input, whose poller handles the expiration.

        Raises:
            ProviderError: the in-progress destination cannot be read, or a message cannot be given back.
        """
        if self._is_due:
            found = [
                claim
                for claim in self._connection.find_unowned(self._in_progress)
                if self.has(claim) and not self._is_paused(str(claim.destination))
            ]
            self._found = sorted(found, key=lambda claim: -claim.headers().priority)
            self._is_due = False
        while self._found:
            try:
                claim = self._connection.adopt(self._found.pop(0), cycle, sequence)
            except SettlementOpen:
                continue  # the message is found again
            if claim is None:
                continue
            if not claim.headers().has_expired():
                return claim
            self._expired.append(claim)
        self._give_back_expired()
        return None

    def _give_back_expired(self) -> None:
        expired, self._expired = self._expired, []
        for claim in expired:
            try:
                self._connection.settle([untouched_settlement(claim)])
            except SettlementOpen:
                self._expired.append(claim)


def claim_round_robin(
    pollers: Sequence[Poller],
    quantity: int,
    cycle: int,
    first: int = 0,
    waiting: WaitingMessages | None = None,
    rates: Sequence[RateLimit] = (),
) -> PollClaims:
    """Claims the waiting messages, then at most ``quantity`` messages of each poller.

    After a provider error the result contains the earlier claims and the error.

    Args:
        pollers: in the order of the configuration.
        quantity: PollQuantity.
        cycle: the cycle of all claims.
        first: the lowest number of a claim.
        waiting: messages whose process was not active. None without InProgressDestination.
        rates: of the pollers. Empty = no limits.
    """
    taken = PollClaims()
    claims = taken.claims
    count = len(pollers)
    try:
        while waiting is not None and (claim := waiting.take(cycle, first)) is not None:
            claims.append(claim)
            first += 1
        for position, poller in enumerate(pollers):
            numbers = range(first + position, first + count * quantity, count)
            if rates:
                numbers = numbers[: rates[position].allowed()]
            while numbers and (found := poller.claim(cycle, numbers)):
                claims += found
                if rates:
                    rates[position].note(len(found))
                numbers = numbers[len(found) :]  # a short list does not mean an empty destination
            if not numbers or poller.is_full:
                taken.full.add(poller.destination)
    except ProviderError as error:
        taken.failure = error
    claims.sort(key=_sequence)
    return taken


_sequence: Final = attrgetter("sequence")
