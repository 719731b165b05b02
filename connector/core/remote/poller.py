"""A poller of a source at a broker: one session for each open transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connector.core.remote.claims import LentClaim
from connector.core.remote.session import ReceivingSession
from connector.errors import ProviderError
from connector.messaging.polling import Poller


class RemotePoller(Poller):
    """See :class:`connector.messaging.polling.Poller`. The broker counts expired messages itself.

    Args:
        client_id: of the connection.
        check: raises ProviderError if the connection has ended.
        make: makes a session that receives from the source.
        ended: called when the poller is closed.
        move: moves claimed messages to an in-progress destination. None = they stay in the transaction.
    """

    expired = 0

    def __init__(
        self,
        client_id: str,
        check: Callable[[], None],
        make: Callable[[], ReceivingSession],
        ended: Callable[[RemotePoller], None],
        move: Callable[[ReceivingSession, Sequence[LentClaim]], Sequence[LentClaim]] | None = None,
    ) -> None:
        self._move = move
        self._client_id = client_id
        self._check = check
        self._make = make
        self._ended = ended
        self.sessions = [make()]
        self.destination = self.sessions[0].destination
        self._closed = False

    @property
    def is_full(self) -> bool:
        """See :attr:`connector.messaging.polling.Poller.is_full`."""
        return any(session.is_full for session in self.sessions)

    def claim(self, cycle: int, numbers: range) -> Sequence[LentClaim]:
        if self._closed:
            raise ProviderError(f"the poller of {self.destination} is closed")
        self._check()
        session = self._session(cycle)
        taken = session.claim(self._client_id, cycle, numbers)
        return self._move(session, taken) if taken and self._move is not None else taken

    def _session(self, cycle: int) -> ReceivingSession:
        """Returns the session with the transaction of a cycle, or else a session without a transaction."""
        free = None
        for session in self.sessions:
            if session.cycle == cycle:
                return session
            if session.cycle is None and free is None:
                free = session
        if free is None:
            free = self._make()
            self.sessions.append(free)
        return free

    def close(self) -> None:
        """Closes the sessions, each at the end of its open transaction."""
        if self._closed:
            return
        self._closed = True
        for session in self.sessions:
            session.leave()
        self._ended(self)
