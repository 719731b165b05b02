"""The view of a Spark task on a provider: the other half of :mod:`connector.messaging.provider`."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, Protocol

from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared


class AccessSpec(Protocol):
    """A picklable recipe for :class:`MessageAccess`."""

    @abstractmethod
    def open(self) -> MessageAccess:
        """Opens the access for the calling process. Several accesses of one client do not disturb each other.

        Raises:
            CapabilityError: the messages cannot be reached from this process.
            ProviderError: the provider is gone.
        """


class MessageAccess(Protocol):
    """The view of a Spark task on a provider."""

    @abstractmethod
    def check(self) -> None:
        """Checks that this machine sees the same provider as the driver.

        Raises:
            ProviderError: the view differs. The text names the machine.
        """

    @abstractmethod
    def load(self, reference: Any, max_body: int) -> Message:
        """Reads a claimed message. The message has no ``destination``, because the claim has the destination.

        Raises:
            MalformedData: the message is larger than ``max_body`` bytes, or is no message after all.
            LookupError: the message is gone, because another client has settled it. Never raised by value.
            ProviderError: the message cannot be read now.
        """

    @abstractmethod
    def identity(self, reference: Any, message: Message) -> str:
        """Returns text that names the stored message.

        Equal at every delivery of one message of one input, never for two messages.

        Args:
            message: as :meth:`load` has returned it.

        Raises:
            LookupError, ProviderError: as :meth:`load`.
        """

    @abstractmethod
    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        """Makes a message without sending it. The same ``key`` and destination replace the earlier message.

        By value nothing is written. Then only the settlement shows whether the destination takes the message.

        Raises:
            ValueError: the message is not valid (:meth:`Message.check`).
            ProviderError: the message cannot be written.
        """

    @abstractmethod
    def discard(self, prepared: Prepared) -> None:
        """Removes a prepared message that will not be sent, or forgets one that a settlement has removed."""

    def now(self) -> int:
        """Returns the time by the clock of the provider, in milliseconds since 1970.

        Raises:
            ProviderError: the provider is out of reach.
        """
        return time.time_ns() // 1_000_000

    @abstractmethod
    def write(self) -> None:
        """Writes all prepared messages, so that they outlive this process.

        A task calls this method before it notes that an event with prepared messages has begun or is done.

        Raises:
            ProviderError: the messages cannot be written now.
        """

    @abstractmethod
    def sync(self) -> None:
        """Makes all prepared messages durable. Called once at the end of a task, or before a commit.

        Raises:
            ProviderError: the messages cannot be made durable, and another call will not help. None of them
                may be committed.
        """
