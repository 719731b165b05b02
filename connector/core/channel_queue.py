"""A queue: every message goes to one receiver, and waits as long as none takes it (seed 001, 5.2.4)."""

from __future__ import annotations

from typing import NoReturn

from connector.core.channel import Channel
from connector.core.channel_delivered import Answer
from connector.core.channel_receiver import Receiver, Reference, wants
from connector.core.channel_store import ChannelStore
from connector.core.state import MessageState
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Claim, Poller
from connector.messaging.selector import Selector


class QueueChannel(Channel):
    """See :class:`connector.core.channel.Channel`. Receivers take turns."""

    is_storing_undeliverable = True

    def __init__(self, store: ChannelStore, destination: Destination) -> None:
        super().__init__(store, destination)
        self._list: tuple[Receiver, ...] = ()
        self._next = 0
        self._poller: Poller | None = None
        self._rejected = 0
        self._not_delivered: list[Claim] = []
        """Taken in the attempt that is under way, and not given back yet."""

    def add_receiver(self, receiver: Receiver) -> None:
        """Hands it messages from now on; delivery of those that wait is attempted.

        Raises:
            ValueError: there is a receiver of this id.
            SessionStateError: the channel is closed.
        """
        with self._store.lock:
            self._check_open()
            if any(other.receiver_id == receiver.receiver_id for other in self._list):
                raise ValueError(f"{self.destination} has a receiver {receiver.receiver_id} already")
            self._list = (*self._list, receiver)
        self._deliver_soon(anew=True)

    def remove_receiver(self, receiver_id: str) -> None:
        """See :meth:`connector.core.channel.Channel.remove_receiver`."""
        with self._store.lock:
            others = tuple(receiver for receiver in self._list if receiver.receiver_id != receiver_id)
            if len(others) == len(self._list):
                raise LookupError(f"{self.destination} has no receiver {receiver_id}")
            self._list = others

    def _receivers(self, reference: Reference) -> list[Receiver]:
        with self._store.lock:
            start = self._next % len(self._list) if self._list else 0
            in_turn = [*self._list[start:], *self._list[:start]]
        return [receiver for receiver in in_turn if wants(receiver, reference)]

    def _deliver_new(self, *, anew: bool) -> bool:
        self._return_not_delivered()  # should the provider have failed to take them back
        if not (self._list or anew):
            return False
        poller = self._poller_for(anew)
        may_probe_only = not (self._list or self._store.capabilities.selectors)
        all_delivered = True
        try:
            while not self._closed and (claim := self._store.take(poller)) is not None:
                if not self._offer(claim):
                    # kept until the end of the attempt, so that none is offered twice in one
                    self._not_delivered.append(claim)
                    all_delivered = False
                if may_probe_only:
                    break
        finally:
            self._return_not_delivered()
        return all_delivered and not (self._rejected or self._closed)

    def _return_not_delivered(self) -> None:
        """As if they had never been taken: the deliveries begun are as many as before."""
        with self._store.lock:
            self._store.give_back((claim, claim.delivery_count) for claim in self._not_delivered)
            self._not_delivered.clear()

    def _offer(self, claim: Claim) -> bool:
        """Hands a message to the first receiver that takes it; False where none does."""
        reference = self._store.reference(claim)
        for receiver in self._receivers(reference):
            if self._delivered.hand(receiver, claim, reference) is Answer.TAKEN:
                with self._store.lock:
                    if receiver in self._list:
                        self._next = self._list.index(receiver) + 1
                return True
        return False

    def _poller_for(self, anew: bool) -> Poller:
        """What takes the messages that a receiver wants. It may remember what it was told of a message, so an
        attempt that is to ask again needs a new one."""
        if anew and self._poller is not None:
            self._poller.close()
            self._poller = None
        if self._poller is None:
            self._rejected = 0
            selector = None
            if self._store.capabilities.selectors:  # what no receiver wants is then not even taken
                selector = Selector("", frozenset(), self._is_wanted)
            self._poller = self._store.poller(self.destination, selector)
        return self._poller

    def _is_wanted(self, message: Message) -> bool:
        reference = Reference(message, _not_taken, message.delivery_count)
        if reference.has_expired() or any(wants(receiver, reference) for receiver in self._list):
            return True  # expired ones are not delivered: taking them is what removes them
        self._rejected += 1
        return False

    def _browse(self) -> list[Message]:
        try:
            return self._store.browse(self.destination)
        except UnknownDestination:
            return []  # nothing was ever sent to it

    def _in_state(self, state: MessageState) -> list[Message]:
        with self._store.lock:
            delivered = {reference.message_id for reference in self._delivered.references()}
            found = self._browse()
            if found and self._store.capabilities.virtual_destinations:
                in_process = Destination("queue", f"{self.destination.name}~PROCESSING")
                delivered.update(message.message_id or "" for message in self._store.browse(in_process))
        return [
            message
            for message in found
            if (message.message_id in delivered) is (state is MessageState.DELIVERED)
        ]

    def _close(self) -> None:
        self._return_not_delivered()
        self._delivered.give_back()
        if self._poller is not None:
            self._poller.close()


def _not_taken() -> NoReturn:
    raise LookupError("the message is not taken yet: it can be accepted by its headers only")
