"""The claim: a message that a client has taken and not yet settled."""

from __future__ import annotations

from typing import Any, Protocol

from connector.messaging.destination import Destination
from connector.messaging.message import Message


class Claim(Protocol):
    """A message this client has taken and not yet settled.

    Attributes are cheap unless said otherwise: a claim is made for every message of every poll.
    """

    cycle: int
    """The number under which it was taken, by one poll or by several that were collected."""
    sequence: int
    """Its number in the cycle, from 0: unique within the cycle, names the claim in the journal.

    Events of one order are published by these numbers. There may be gaps.
    """
    destination: Destination
    """The input destination it was taken from."""

    @property
    def reference(self) -> Any:
        """Picklable handle for :meth:`connector.messaging.provider.MessageAccess.load`.

        Its text (``str``) is short and names the claim: no other claim of the client has it. By value it has
        the message with it, however large that is.
        """

    @property
    def delivery_count(self) -> int:
        """Deliveries begun before this claim, as settlements have said (:attr:`.Settlement.delivery_count`).

        What came back because its client ended, and nobody settled it, counts once more. A broker may count
        deliveries that nobody began: a rollback is one of every message of its transaction. Those do not
        count, so a remote provider keeps numbers of its own.
        """

    @property
    def in_progress(self) -> bool:
        """Whether it lies in an in-progress destination: taking it was the move there."""

    @property
    def waits(self) -> bool:
        """Whether a settlement has left it to wait in an in-progress destination; then nobody owns it."""

    @property
    def message_id(self) -> str:
        """JMSMessageID."""

    @property
    def group_id(self) -> str | None:
        """JMSXGroupID."""

    @property
    def duplicate_key(self) -> str:
        """Equal for two copies of one message from one destination, never for two messages.

        A virtual destination is another one than its queue.
        """

    def headers(self) -> Message:
        """All headers and properties that can be read, without the body and the destination."""
