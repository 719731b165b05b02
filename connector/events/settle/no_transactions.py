"""Claims without transactions, as of a local provider. Each is settled by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from connector.events.claim.polled_input import PolledInput, PolledInputs
from connector.events.outcome import Outcome
from connector.events.run.schedule import EndedClaims
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.settlement import TransactionRefused
from connector.messaging.state_store import ClientJournals


class NoTransactions:
    """The claims of one connection without transactions."""

    polls_alone = False
    """Whether the claims of one poll of one input are a transaction, so that each input is polled alone."""

    def __init__(self, journals: ClientJournals, inputs: PolledInputs) -> None:
        self._journals = journals
        self._inputs = inputs
        self._paused: set[Input | None] = set()
        """Inputs with a message that nobody takes."""

    def quantity(self, one: PolledInput) -> int:
        """Returns how many messages a poll of an input may take."""
        return one.quantity

    def may_overlap(self, one: PolledInput) -> bool:
        """Whether another transaction of an input may begin while the events of one run."""
        return False

    def hold(self, claims: Sequence[Claim]) -> bool:
        """Tells whether the provider holds these messages from now on, so that they do not run."""
        return False

    def must_wait(self, claims: Sequence[Claim]) -> bool:
        """Tells whether another client still has an event of these messages.

        Raises:
            ProviderError: the state or the broker cannot be used.
        """
        return False

    def begin(self, claims: Sequence[Claim]) -> tuple[Sequence[Claim], list[tuple[Claim, Outcome]]]:
        """Begins the transaction of the claims of one poll of one input.

        Returns:
            the claims whose events run, and the claims of done events.

        Raises:
            ProviderError: the claims cannot be recorded.
        """
        return claims, []

    def awaits(self, destination: Destination) -> bool:
        """Whether a broker delivers messages of an input again, of which the adapter remembers something."""
        return False

    def awaited_keys(self) -> Set[str]:
        """Returns the duplicate keys by values of published events whose messages a broker delivers again.

        Raises:
            ProviderError: the record cannot be read.
        """
        return frozenset()

    def complete(self, ended_claims: EndedClaims) -> Sequence[EndedClaims]:
        """Takes claims that leave the schedule. Returns what can be settled now, each part in one commit.

        Raises:
            ProviderError: the record cannot be written.
        """
        return [ended_claims] if ended_claims.decided or ended_claims.returned else []

    def note_settled(self, ended: EndedClaims) -> Sequence[Claim]:
        """Notes that claims were settled. Returns the published ones that the window may not have yet."""
        if (one := ended.claims[0].input) in self._paused:
            self._paused.discard(one)
            self._inputs[one].back_off.end()
        return ()

    def note_refusal(self, ended: EndedClaims, error: TransactionRefused) -> bool:
        """Records the events of a transaction that the broker has refused and rolled back.

        Args:
            ended: the claims of the transaction, all decided. An event to blame has failed afterwards.

        Returns:
            whether the transaction may be repeated at once.

        Raises:
            ProviderError: the record cannot be written.
        """
        one = ended.claims[0].input
        self._paused.add(one)
        self._inputs[one].back_off.begin()
        return False

    def obstacle(self, one: PolledInput, *, looks: bool = False) -> str:
        """Returns why an input rests: a destination of its events takes nothing now. Empty = it does not.

        Looks now and then, in another thread, whether the destinations take messages again.
        """
        return ""

    def forget(self, cycles: Iterable[int]) -> None:
        """Removes all that is kept for ended polls.

        Raises:
            ProviderError: the record cannot be written.
        """
        for cycle in cycles:
            self._journals.forget(cycle)

    def recover(self, timeout: float) -> None:
        """Takes over from dead clients, and looks whether commits without an answer have happened.

        Args:
            timeout: seconds to wait for a running task of a dead client.

        Raises:
            OSError: a journal cannot be read.
            ProviderError: the state or the broker cannot be used.
        """

    def close(self) -> None:
        """Removes the journals of this client."""
        self._journals.forget()
