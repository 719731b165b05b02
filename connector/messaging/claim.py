"""The claim: a message that a client has taken and not yet settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from connector.messaging.destination import Destination
from connector.messaging.input import Input
from connector.messaging.message import AGAIN, FILE_NAME, Message, PropertyValue


def again_key(key: str, again: str) -> str:
    """Returns the duplicate key of a message that an operator has ordered to be processed once more.

    Args:
        again: :attr:`Claim.again`. Empty = there is no such order, and the key stays.
    """
    return f"{key}|{AGAIN}={again}".replace("\n", "%0A") if again else key


def file_key(destination: Destination, subscription: str, name: str) -> str:
    """Returns the duplicate key of a message that is known by the name of its file.

    Args:
        destination, subscription: of the claim.
        name: :attr:`Claim.file_name`.
    """
    return f"{destination} {subscription}".rstrip() + f"|{FILE_NAME}={name}".replace("\n", "%0A")


def value_key(destination: Destination, subscription: str, digest: str) -> str:
    """Returns the duplicate key of an event that is known by values of its object, or by its body.

    Args:
        destination, subscription: of the claim.
        digest: of the values.
    """
    return f"{destination} {subscription}".rstrip() + f"|duplicate_key={digest}"


class Claim(Protocol):
    """A message that this client has taken and not yet settled.

    Attributes are cheap unless their description says otherwise. Every message of every poll gets a claim.
    """

    __slots__ = ("input",)

    cycle: int
    """The number of the cycle in which the message was taken. Several polls may belong to one cycle."""
    sequence: int
    """The number of the claim, from 0, unique within its cycle. Names the claim in the journal.

    Events that keep an order are published in the order of these numbers. There may be gaps.
    """
    destination: Destination
    """The input destination that the message was taken from."""
    input: Input | None
    """The input that the message was taken from. None at first: who polls or adopts sets the attribute."""

    @property
    def reference(self) -> Any:
        """A picklable handle for :meth:`connector.messaging.access.MessageAccess.load`.

        The text (``str``) of the handle is short and names the claim. No other claim of the client has the
        same text. By value the handle contains the whole message, however large.
        """

    @property
    def delivery_count(self) -> int:
        """Deliveries begun before this claim, as counted by settlements (:attr:`.Settlement.delivery_count`).

        A message whose client ended without settling it counts one delivery more. A broker may count
        deliveries that were never begun: a rollback counts for every message of the transaction. Those do not
        count here, so a remote provider keeps its own counts.
        """

    @property
    def in_progress(self) -> bool:
        """Whether the message lies in an in-progress destination. The claim moved the message there."""

    @property
    def waits(self) -> bool:
        """Whether a settlement has left the message in an in-progress destination, without an owner."""

    @property
    def message_id(self) -> str:
        """The JMSMessageID."""

    @property
    def group_id(self) -> str | None:
        """The JMSXGroupID."""

    @property
    def duplicate_key(self) -> str:
        """A key that is equal for two copies of one message from one destination, never for two messages.

        ``orders`` and ``orders~EXPIRED`` are two destinations.
        """

    @property
    def subscription(self) -> str:
        """Names the subscription that the message was taken from, among those of its topic.

        Only :attr:`.Settlement.subscription` understands the text. Empty for a message of a queue.
        """
        return ""

    @property
    def file_name(self) -> str:
        """The name of the file that the message came in. Empty = it came in none."""
        return ""

    @property
    def again(self) -> str:
        """The order of an operator to process the message once more. Empty = there is none."""
        return ""

    def headers(self) -> Message:
        """Returns all readable headers and properties, without the body and the destination."""


class BrokerClaim(Claim, Protocol):
    """A claim in a transaction of a broker. A rollback makes the broker forget all but the message."""

    __slots__ = ()

    @property
    def identity(self) -> str:
        """Text that names the stored message, equal for two deliveries of one message."""

    @property
    def expiration(self) -> int:
        """JMSExpiration of the message in milliseconds since 1970. 0 = the message never expires."""

    def amend(self, begun: int, properties: Mapping[str, PropertyValue]) -> None:
        """Adds to the deliveries that the message carries, and to the properties that a task reads."""
