"""The contract of sending once by key: a message is sent, and its key is remembered, in one durable step.

The keys of an application are its own, and all its instances share them. Each user of this contract puts a
prefix in its keys, such as ``timer/`` or ``http/``. Some remembered keys outlive their time for a while.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Protocol

from connector.messaging.destination import Destination
from connector.messaging.history import KEY
from connector.messaging.message import Message
from connector.messaging.roles import ProviderClient


class SentOnce(NamedTuple):
    """The answer to a message that was sent with a key.

    Args:
        message_id: of the first send.
        is_new: whether this call has sent the message. False = the key was there, and nothing was sent.
        fingerprint: of the first send.
    """

    message_id: str
    is_new: bool
    fingerprint: str


class OnceKey(NamedTuple):
    """A key with which a message is sent once.

    Args:
        application: ApplicationName, whose instances share the key. Not empty.
        key: any text of Unicode without U+0000, not empty.
        keep: seconds for which the key is remembered, by the clock of the store.
        fingerprint: for :attr:`SentOnce.fingerprint`. Says whether two messages with one key are equal.
    """

    application: str
    key: str
    keep: float
    fingerprint: str = ""

    def check(self) -> None:
        """Raises ValueError if the application or the key is no such text, or the time is not above 0."""
        if not self.application or not self.key:
            raise ValueError(f"expected an application and a key, both not empty: {self!r}")
        if b"\0" in f"{self.application}{self.key}{self.fingerprint}".encode():
            raise ValueError(f"expected a key and a fingerprint without the character U+0000: {self!r}")
        if not self.keep > 0:
            raise ValueError(f"expected a time of more than 0 seconds for the key {self.key!r}: {self.keep}")

    def mark(self, message: Message) -> Message:
        """Returns a copy of a message that carries the key as the property ``connector_key``."""
        marked = message.copy(message.body)
        marked.set_property(KEY, self.key)
        return marked


class SendingOnce(ProviderClient, Protocol):
    """Sends messages once by key."""

    @abstractmethod
    def send_once(self, destination: Destination, message: Message, once: OnceKey) -> SentOnce:
        """Sends a message and remembers its key, both durable, or neither. A known key sends nothing.

        Of several clients that use one key at the same time, one sends. The others wait, and get its answer.
        The message carries the key as the property ``connector_key``. The given message is not changed. At a
        topic the message goes to the subscriptions, as with :meth:`.roles.Settling.send`. The key is
        remembered also if there is none.

        After an error the caller calls again, with the same key, as often as wanted. Only an answer says that
        the message was sent or that the key was there.

        Raises:
            ValueError: the message or the key is not valid. Nothing was sent.
            CapabilityError: without the capability ``sends_once``, or the provider takes no such message.
            ProviderError: nothing was sent, or nobody knows whether the message was sent. Then the next call
                finds it out, or raises until the store can tell.
        """

    @abstractmethod
    def find_sent(self, application: str, key: str) -> SentOnce | None:
        """Returns the answer that :meth:`send_once` gives for a remembered key. Sends nothing.

        Returns None if the key is not remembered. The key of a send that has not ended may be missing.

        Raises:
            CapabilityError: without the capability ``sends_once``.
            ProviderError: the store cannot be used, or cannot tell.
        """
