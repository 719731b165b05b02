"""Sends messages once by key, from any thread, on a connection of its own."""

from __future__ import annotations

import contextlib
import threading

from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.provider import Connection, Provider


class OnceSender:
    """Sends the messages of one application once by key. Thread-safe.

    The first call connects. If the connection has failed, the next call connects anew.

    Args:
        application: ApplicationName, whose instances share the keys.
    """

    def __init__(self, provider: Provider, application: str) -> None:
        self._provider = provider
        self._application = application
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._is_closed = False

    def send(
        self, destination: Destination, message: Message, *, key: str, keep: float, fingerprint: str = ""
    ) -> SentOnce:
        """Sends a message unless the key is known (see :meth:`.once.SendingOnce.send_once`).

        Args:
            key: with a prefix of the caller.
            keep: seconds for which the key is remembered.
            fingerprint: says whether two messages with one key are equal.

        Raises:
            ProviderError: the key has no answer yet. Call again with the same key.
        """
        once = OnceKey(self._application, key, keep, fingerprint)
        with self._lock:
            try:
                return self._open().send_once(destination, message, once)
            except ProviderError:
                self._leave_failed()
                raise

    def send_new(self, destination: Destination, message: Message) -> str:
        """Sends a message without a key, and returns its id.

        Raises:
            ValueError: the message is not valid.
            ProviderError: nothing was sent.
        """
        with self._lock:
            try:
                (message_id,) = self._open().send(destination, [message])
            except ProviderError:
                self._leave_failed()
                raise
            return message_id

    def find(self, key: str) -> SentOnce | None:
        """Returns the answer of a remembered key, and sends nothing. None = the key is not remembered.

        Raises:
            ProviderError: the store cannot be used, or cannot tell.
        """
        with self._lock:
            try:
                return self._open().find_sent(self._application, key)
            except ProviderError:
                self._leave_failed()
                raise

    def close(self) -> None:
        """Ends the connection. Repeatable, never raises."""
        with self._lock:
            self._is_closed = True
            connection, self._connection = self._connection, None
            if connection is not None:
                with contextlib.suppress(ProviderError):
                    connection.close()

    def _open(self) -> Connection:
        if self._is_closed:
            raise ProviderError("nothing was sent: the sender is closed")
        if self._connection is None:
            self._connection = self._provider.connect()
        return self._connection

    def _leave_failed(self) -> None:
        """Ends the connection if it has failed."""
        if self._connection is None:
            return
        try:
            self._connection.check()
        except ProviderError:
            self._connection.abandon()
            self._connection = None
