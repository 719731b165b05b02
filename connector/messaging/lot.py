"""Lots: durable claims of many messages under a name and a number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import GroupSettlement, Settlement


@dataclass(frozen=True, slots=True)
class LotInfo:
    """A lot that is not settled.

    Args:
        destination: the queue of the messages.
        owner: the living client that owns the name: ``this process``, or ``process 12 on host``. Empty =
            nobody.
    """

    destination: Destination
    name: str
    number: int
    messages: int
    owner: str = ""


@dataclass(frozen=True, slots=True)
class LotPosition:
    """The place of a name in its sequence of lots.

    Args:
        sequence_id: of the sequence, as in :class:`Lot`.
        settled: the number that was settled last. 0 = none was. There may be gaps.
        open: the number of the lot that is not settled. None = there is none.
    """

    sequence_id: str
    settled: int
    open: int | None


class Lot(Protocol):
    """A durable claim of many messages. It outlives its process and never changes its composition.

    For one thread at a time.
    """

    destination: Destination
    """The queue that the messages were taken from."""
    name: str
    number: int
    """From 1. A later lot of the name has a higher number. There may be gaps. No number is used twice."""
    sequence_id: str
    """A random text, made with the first number of the name. Numbers of another sequence mean other lots."""
    claims: Sequence[Claim]
    """The claims of the messages, in the order of taking. Any process may load a message by its reference."""
    ends_at_limit: bool = False
    """True = a limit of the provider has ended the lot, so more messages may wait. False also = not known."""

    def read(self) -> Iterator[Message]:
        """Yields the messages, in the order of :attr:`claims`. Repeatable until the lot is settled.

        Raises:
            LotError: the lot is settled, or another client owns the name now. Raised by the call.
            MalformedData: a message cannot be read. A :class:`~connector.messaging.access.MessageAccess`
                loads the others by their references.
            ProviderError: a message cannot be read now.
        """

    def settle(self, outcomes: Sequence[Settlement | GroupSettlement]) -> None:
        """Settles all messages, or none, in one durable step. The number is then settled for ever.

        Args:
            outcomes: of all :attr:`claims`, each claim in one of them. See
                :meth:`connector.messaging.roles.Settling.settle`.

        Raises:
            LotError: the lot is settled, or another client owns the name now. Nothing has happened.
            ClaimLost: a message is gone. Nothing has happened.
            SettlementError: nothing has happened.
            ValueError: a claim is missing, named twice, or of another lot. Nothing has happened.
            ProviderError: the settlement may have happened. Then the lot is settled
                (:meth:`LotTaking.claim`).
        """


class LotTaking(Protocol):
    """Takes many messages at a time, as a lot."""

    @abstractmethod
    def claim(
        self,
        destination: Destination,
        name: str,
        limit: int,
        *,
        number: int | None = None,
        selector: str = "",
    ) -> Lot | None:
        """Returns the lot of a name that is not settled, or makes a new lot of waiting messages.

        The first call makes this connection the owner of the name, until the connection ends. The lot stays.
        No poller gets its messages, and who takes over from dead clients leaves them alone. The next owner of
        the name gets the same lot, with the same number and the same messages.

        Args:
            destination: a queue.
            name: of the lot, for example of the program that takes lots. One name is for one queue at a time.
            limit: the largest number of messages of a new lot, from 1. At a broker a lot also has no more
                messages than a transaction.
            number: return the lot of this number, and make no new one. None = any.
            selector: of the messages of a new lot. Empty = all messages.

        Returns:
            the lot. None = no message waits.

        Raises:
            LotError: another client owns the name. Or the name has a lot of another queue. Or a message of
                the lot is gone. Or the lot ``number`` is settled or does not exist.
            CapabilityError: the destination is a topic, virtual or temporary.
            ValueError: the name is empty, or the limit is less than 1.
            SelectorError: the selector is wrong.
            ProviderError: the provider failed. A message that it has taken is in the next lot.
        """

    @abstractmethod
    def position(self, destination: Destination, name: str) -> LotPosition:
        """Returns the place of a name in its sequence, and begins the sequence if there is none.

        The connection becomes the owner of the name, as by :meth:`claim`.

        Raises:
            LotError, CapabilityError, ProviderError: as :meth:`claim`.
        """

    @abstractmethod
    def give_back(self, name: str) -> LotInfo:
        """Ends the lot of a name by hand: its messages wait again in their queue, as one more delivery.

        Returns:
            the lot as it was.

        Raises:
            LotError: the name has no lot that is not settled, or another client owns the name.
            ProviderError: the messages cannot be given back.
        """
