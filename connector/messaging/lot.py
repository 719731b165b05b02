"""Lots: durable claims of many messages under a name and a number."""

from __future__ import annotations

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
                (:meth:`connector.messaging.roles.LotTaking.claim`).
        """
