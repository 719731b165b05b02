"""Messages in the in-progress destination that wait because their process was not active."""

from __future__ import annotations

from connector.events.claim.polled_input import PolledInputs
from connector.events.settle.settling import untouched_settlement
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.roles import Recovering
from connector.messaging.settlement import SettlementOpen


class WaitingMessages:
    """The waiting messages of an adapter.

    No client owns them. Any instance may run them, also after a crash. A rename decides which instance does.

    Args:
        inputs: of this adapter. Messages from other destinations belong to other applications.
    """

    def __init__(self, connection: Recovering, in_progress: Destination, inputs: PolledInputs) -> None:
        self._connection = connection
        self._in_progress = in_progress
        self._inputs = inputs
        self._found: list[Claim] = []
        self._expired: list[Claim] = []
        """Claims of expired messages that do not go back now."""
        self._is_due = True

    def look(self) -> None:
        """Makes the next :meth:`take` look for waiting messages."""
        self._is_due = True

    def has(self, claim: Claim) -> bool:
        """Whether a message of the in-progress destination is a waiting message of this adapter."""
        return claim.waits and claim.destination in self._inputs.destinations

    def take(self, claims: list[Claim], cycle: int, first: int) -> None:
        """Claims all waiting messages, highest priority first, then oldest.

        An expired message goes back to the input, whose poller handles the expiration.

        Args:
            claims: gets the claims, also those before an error.
            first: the number of the first claim.

        Raises:
            ProviderError: the in-progress destination cannot be read, or a message cannot be given back.
        """
        if self._is_due:
            found = [
                claim
                for claim in self._connection.find_unowned(self._in_progress)
                if self.has(claim) and self._inputs.destinations[claim.destination][0].is_open
            ]
            self._found = sorted(found, key=lambda claim: -claim.headers().priority)
            self._is_due = False
        while self._found:
            try:
                claim = self._connection.adopt(self._found.pop(0), cycle, first + len(claims))
            except SettlementOpen:
                continue  # the message is found again
            if claim is None:
                continue
            if claim.headers().has_expired():
                self._expired.append(claim)
                continue
            self._inputs.name(claim)
            claims.append(claim)
        self._give_back_expired()

    def _give_back_expired(self) -> None:
        expired, self._expired = self._expired, []
        for claim in expired:
            try:
                self._connection.settle([untouched_settlement(claim)])
            except SettlementOpen:
                self._expired.append(claim)
