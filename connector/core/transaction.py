"""Sends and receives that stand or fall together (seed 002; seed 001, 5.1.3 and 6.2)."""

from __future__ import annotations

import time

from connector.core.ledger import DeliveryState, Ledger
from connector.errors import ClaimLost, ProviderError, SettlementError, TransactionRolledBack
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection, MessageAccess, Prepared


class Transaction:
    """One transaction after the other: each begins where the one before ended.

    What is sent is prepared (NOT_COMMITTED), what is received stands in the ledger. A commit settles both
    in one commit record of the provider.
    """

    def __init__(self, connection: Connection, access: MessageAccess, ledger: Ledger) -> None:
        self._connection = connection
        self._access = access
        self._ledger = ledger
        self._number = 0
        self._prepared: list[Prepared] = []
        self._first_to_expire = 0
        self._begin()

    def send(self, destination: Destination, messages: list[Message]) -> list[str]:
        """Adds messages that nobody sees before the commit, all or none; returns their ids.

        Raises:
            ProviderError: they cannot be written.
        """
        added: list[Prepared] = []
        ids: list[str] = []
        first_to_expire = self._first_to_expire
        try:
            for number, message in enumerate(messages, len(self._prepared)):
                added.append(self._access.prepare(destination, message, f"{self._key}{number}"))
                ids.append(message.message_id or "")  # prepare() gives each an id
                if message.expiration:
                    first_to_expire = min(message.expiration, first_to_expire or message.expiration)
        except BaseException:
            for prepared in added:
                self._access.discard(prepared)
            raise
        self._prepared += added
        self._first_to_expire = first_to_expire
        return ids

    def commit(self) -> None:
        """See :meth:`connector.messaging.client.Session.commit`."""
        if 0 < self._first_to_expire <= time.time_ns() // 1_000_000:
            self._undo("a message to be sent has expired before the commit")
        try:
            if self._prepared:
                self._access.sync()
        except ProviderError as error:  # a page that was not written is not written by asking again
            self._undo(str(error), error)
        try:
            self._ledger.acknowledge(self._ledger.open(), self._prepared, fenced=True)
        except ClaimLost as error:
            self._undo(f"what was received or sent is not this session's any more: {error}", error)
        except SettlementError:
            raise  # nothing has happened, and it may be possible in a moment
        except ProviderError:  # behind the commit point: it will be finished, so this one is over
            for delivery in self._ledger.open():
                self._ledger.forget(delivery, DeliveryState.ACKNOWLEDGED)
            self._begin()
            raise
        self._begin()

    def rollback(self) -> None:
        """See :meth:`connector.messaging.client.Session.rollback`."""
        self._ledger.give_back(self._ledger.open(), self._prepared)
        for prepared in self._prepared:
            self._access.discard(prepared)
        self._begin()

    def _undo(self, why: str, cause: Exception | None = None) -> None:
        self.rollback()
        raise TransactionRolledBack(
            f"{why}; the transaction was rolled back: nothing was sent, what was received comes again"
        ) from cause

    def _begin(self) -> None:
        self._number += 1
        self._key = f"{self._connection.client_id}|{self._number}|"
        self._prepared = []
        self._first_to_expire = 0
