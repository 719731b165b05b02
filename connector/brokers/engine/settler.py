"""Settles the transactions of a client of a broker: each is committed, or given back, as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connector import faults
from connector.brokers.engine.held import HeldMessages
from connector.brokers.engine.probe import Probe, replies, targets
from connector.brokers.engine.session import LendingSession
from connector.brokers.engine.state import RemoteState
from connector.errors import ClaimLost, SettlementError
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.settlement import Prepared, Settlement, SettlementOpen, TransactionRefused


class TransactionSettler:
    """The open transactions of one client.

    Args:
        sessions: returns the sessions with an open transaction.
        commit_queue: shows which transactions were committed. None = commits are not marked.
        state: of the adapter. None = the client is no adapter.
        held: the held messages. None = the client is no adapter, or the broker has no limit of deliveries.
    """

    def __init__(
        self,
        client_id: str,
        sessions: Callable[[], Sequence[LendingSession]],
        probe: Probe,
        commit_queue: Destination | None,
        state: RemoteState | None,
        held: HeldMessages | None,
    ) -> None:
        self._client_id = client_id
        self._sessions = sessions
        self._probe = probe
        self._commit_queue = commit_queue
        self._state = state
        self._held = held

    def settle(self, settlements: Sequence[Settlement], sends: Sequence[Prepared], *, fenced: bool) -> bool:
        """Settles transactions one after the other, ``sends`` with the first.

        Returns:
            whether a claim is in an open transaction. Otherwise nothing has happened.

        Raises:
            SettlementError, ProviderError: as :meth:`connector.messaging.roles.Settling.settle`.
        """
        transactions = self._transactions(settlements, fenced=fenced)
        for number, (session, ours) in enumerate(transactions):
            if all(one.give_back and not one.due for one in ours):
                self._give_back(session)
            else:
                self._commit(session, ours, sends if number == 0 else ())
        return bool(transactions)

    def hold(self, claims: Sequence[Claim]) -> bool:
        """As :meth:`connector.messaging.provider.TransactionalConnection.hold`."""
        if self._held is None:
            return False
        for session in self._sessions():
            if any(one is claims[0] for one in session.claims) and self._held.must_move(session.claims):
                return self._held.move(session)
        return False

    def _give_back(self, session: LendingSession) -> None:
        if self._held is None or not self._held.must_keep(session.claims):
            session.rollback()
        elif not self._held.move(session):
            raise SettlementOpen(
                f"nothing was settled: {self._held.queue} takes no message, and the broker would soon put "
                f"messages of {session.destination} aside"
            )

    def _commit(
        self, session: LendingSession, settlements: Sequence[Settlement], sends: Sequence[Prepared]
    ) -> None:
        """Settles a transaction. The published keys are recorded before, and count afterwards.

        A refusal rolls the transaction back. If the next delivery would be the last one, the destinations are
        asked first.
        """
        if self._held is not None and self._held.is_near(session.claims):
            self._probe.ask(targets(settlements, sends), replies(settlements))
        state, cycle = self._state, settlements[0].claim.cycle
        if state is None:
            session.settle(settlements, sends)
            return
        keys = [one.published for one in settlements if one.published is not None]
        state.pend(self._client_id, cycle, keys)
        faults.point("settle.record")
        try:
            session.settle(settlements, sends)
        except SettlementError as error:
            state.drop(self._client_id, cycle)
            if isinstance(error, TransactionRefused):
                wanted = targets(settlements)
                if self._commit_queue is not None:
                    wanted.add(self._commit_queue)
                error.destinations = self._probe.refusing(wanted)
            raise
        state.confirm(self._client_id, cycle)

    def _transactions(
        self, settlements: Sequence[Settlement], *, fenced: bool
    ) -> list[tuple[LendingSession, list[Settlement]]]:
        """Returns the settlements by transaction, each whole.

        Raises:
            ClaimLost: a claim was given back before, and the caller wants to know.
            SettlementError: a claim of a transaction is missing, or some of them are given back.
        """
        owner = {id(claim): session for session in self._sessions() for claim in session.claims}
        found: dict[int, tuple[LendingSession, list[Settlement]]] = {}
        for settlement in settlements:
            session = owner.get(id(settlement.claim))
            if session is not None:
                found.setdefault(id(session), (session, []))[1].append(settlement)
            elif fenced or len(settlements) == 1:
                raise ClaimLost(
                    f"nothing was settled: {settlement.claim.message_id} is with the broker again"
                )
        for session, ours in found.values():
            back = sum(one.give_back and not one.due for one in ours)
            if len(ours) != len(session.claims) or back not in (0, len(ours)):
                raise SettlementError(
                    f"nothing was settled: a broker settles all {len(session.claims)} messages of a "
                    f"transaction of {session.destination} together"
                )
        return list(found.values())
