"""One transaction after the other over a provider connection that is open already (seed 002).

What is received is claimed, what is sent is prepared (NOT_COMMITTED); :meth:`TransactedSession.commit`
acknowledges the one and sends the other in one commit record of the provider. A rollback gives
back what was received, its delivery count one more, and drops what was sent. The next transaction
begins by itself.

It needs nothing of a provider but the contract in :mod:`connector.messaging.provider`, so every local
provider has it.
"""

from __future__ import annotations

from types import TracebackType

from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Claim, Connection, Poller, Prepared, Settlement

_MAX_BODY = 1 << 40


class TransactedSession:
    """One transaction after the other over one connection. For one thread.

    A context manager: leaving it commits, or rolls back when an exception is on its way.

    Args:
        connection: of the provider; stays the caller's to close.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._access = connection.access().open()
        self._pollers: dict[Destination, Poller] = {}
        self._transaction = 1
        self._received: list[Claim] = []
        self._prepared: list[Prepared] = []
        self._sent = 0
        self._closed = False

    def send(self, destination: Destination, message: Message) -> str:
        """Adds a message to the transaction; nobody sees it before the commit. Returns its id.

        Raises:
            ProviderError: it cannot be written, or the session is closed.
        """
        self._check_open()
        self._sent += 1
        key = f"{self._connection.client_id}|{self._transaction}|{self._sent}"
        self._prepared.append(self._access.prepare(destination, message, key))
        assert message.message_id is not None  # prepare() gives one
        return message.message_id

    def receive(self, destination: Destination) -> Message | None:
        """Takes the next message into the transaction; None where nothing waits. Never blocks.

        Raises:
            MalformedData: its headers or its body cannot be read; it is part of the transaction all the
                same, so that a commit removes it and a rollback brings it again.
            ProviderError: the destination or the message cannot be read now, or the session is closed.
        """
        self._check_open()
        poller = self._pollers.get(destination)
        if poller is None:
            poller = self._pollers[destination] = self._connection.poller(destination)
        while True:
            claim = poller.take(self._transaction, len(self._received))
            if claim is None:
                return None
            self._received.append(claim)  # whatever comes of reading it, it is ours to settle
            try:
                message = self._access.load(claim.reference, _MAX_BODY)
            except LookupError:
                self._received.pop()  # removed by hand between claim and read: there is nothing to deliver
                continue
            message.destination = str(destination)
            return message

    def commit(self) -> None:
        """Acknowledges what was received and sends what was sent, both or neither.

        Raises:
            ProviderError: it could not be; before the commit point the transaction goes on as it was.
        """
        self._check_open()
        if self._prepared:
            self._access.sync()
        self._connection.settle([Settlement(claim) for claim in self._received], sends=self._prepared)
        self._begin()

    def rollback(self) -> None:
        """Gives back what was received, redelivered from now on, and drops what was sent.

        Raises:
            ProviderError: it could not be; the transaction goes on as it was.
        """
        self._check_open()
        self._roll_back()

    def close(self) -> None:
        """Rolls back what is open. Repeatable."""
        if not self._closed:
            self._roll_back()
            self._closed = True

    def __enter__(self) -> TransactedSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()

    def _roll_back(self) -> None:
        returned = [
            Settlement(claim, give_back=True, delivery_count=claim.delivery_count + 1)
            for claim in self._received
        ]
        self._connection.settle(returned, discards=self._prepared)
        self._begin()

    def _begin(self) -> None:
        self._transaction += 1
        self._received = []
        self._prepared = []

    def _check_open(self) -> None:
        if self._closed:
            raise ProviderError("the session is closed")
