"""Transactions of sends and acknowledgements (JMS 2.0, 6.2.7, and JBoss Messaging Core, 2.2)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

from connector.core.ledger import Delivery, DeliveryState, Ledger
from connector.errors import ClaimLost, ProviderError, SettlementError, TransactionRolledBack
from connector.messaging.access import MessageAccess
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared


class SessionTransaction:
    """One transaction of a session or of channels, which ends with a commit or a rollback.

    Messages sent in the transaction are prepared (NOT_COMMITTED). Deliveries acknowledged in the transaction
    stay open. The commit settles both in one commit record of the provider.

    Args:
        key: names the messages. No other transaction of the client has this key.
        gives_back: whether a rollback gives the deliveries back. Otherwise the program keeps them.
    """

    def __init__(self, access: MessageAccess, ledger: Ledger, key: str, *, gives_back: bool) -> None:
        self.is_open = True
        self._access = access
        self._ledger = ledger
        self._key = key
        self._gives_back = gives_back
        self.deliveries: list[Delivery] = []
        """The deliveries that the commit acknowledges."""
        self._prepared: list[Prepared] = []
        self._first_to_expire = 0

    def send(self, destination: Destination, messages: list[Message]) -> list[str]:
        """Adds messages that nobody sees before the commit, all or none. Returns their ids.

        Raises:
            ProviderError: the messages cannot be written.
        """
        added: list[Prepared] = []
        ids: list[str] = []
        first_to_expire = self._first_to_expire
        try:
            for number, message in enumerate(messages, len(self._prepared)):
                added.append(self._access.prepare(destination, message, f"{self._key}{number}"))
                ids.append(message.message_id or "")  # prepare() gives each message an id
                if message.expiration:
                    first_to_expire = min(message.expiration, first_to_expire or message.expiration)
        except BaseException:
            for prepared in added:
                self._access.discard(prepared)
            raise
        self._prepared += added
        self._first_to_expire = first_to_expire
        return ids

    def acknowledge(self, delivery: Delivery) -> None:
        """Adds a delivery that the commit acknowledges."""
        self.deliveries.append(delivery)

    def commit(self, may_begin: Callable[[], bool] | None = None) -> None:
        """Sends and acknowledges everything.

        Args:
            may_begin: see :meth:`connector.core.session.CoreSession.commit`.

        Raises:
            TransactionRolledBack: a message to be sent has expired or cannot be made durable, another client
                has a received message, or the commit may not begin. Everything was undone.
            SettlementError: nothing has happened. The commit may be tried again.
            ProviderError: the transaction is committed, but not finished. Recovery does the rest.
        """
        if may_begin is None:
            self.check_expiry()
        try:
            if self._prepared:
                self._access.sync()
        except ProviderError as error:  # a second sync would not write the missing page
            self.undo(str(error), error)
        if may_begin is not None and not may_begin():
            self.undo("a message was given up")
        try:
            self._ledger.acknowledge(self.deliveries, self._prepared, fenced=True)
        except ClaimLost as error:
            self.undo(f"what was received or sent is not this client's any more: {error}", error)
        except SettlementError:
            raise  # nothing has happened, and another attempt may succeed
        except ProviderError:  # after the commit point: recovery finishes the commit
            for delivery in self.deliveries:
                if delivery.state is DeliveryState.OPEN:
                    self._ledger.remove(delivery, DeliveryState.ACKNOWLEDGED)
            self.end()
            raise
        self.end()

    def rollback(self) -> None:
        """Sends nothing and acknowledges nothing.

        Raises:
            ProviderError: the rollback failed. Nothing has changed.
        """
        self._ledger.give_back(self.deliveries if self._gives_back else (), self._prepared)
        for prepared in self._prepared:
            self._access.discard(prepared)
        self.end()

    def check_expiry(self) -> None:
        """Rolls back if a message to be sent has expired (JBoss Messaging Core, 5.1.3).

        Raises:
            TransactionRolledBack: a message has expired.
        """
        if 0 < self._first_to_expire <= time.time_ns() // 1_000_000:
            self.undo("a message to be sent has expired before the commit")

    def undo(self, why: str, cause: Exception | None = None) -> NoReturn:
        """Rolls back, and raises TransactionRolledBack."""
        self.rollback()
        outcome = "what was received comes again" if self._gives_back else "nothing was acknowledged"
        raise TransactionRolledBack(
            f"{why}; the transaction was rolled back: nothing was sent, {outcome}"
        ) from cause

    def end(self) -> None:
        """Marks the transaction as ended."""
        self.is_open = False
