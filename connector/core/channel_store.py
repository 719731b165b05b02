"""Messages and their states at one provider: what the channels of a process stand on (seed 001, 2 to 4).

The *channel state* of the source is the connection that takes and settles, its *message store* the access
that prepares and loads; whether they are reliable is the provider's word. A provider that is not may make a
sender wait for room (3.1): no lock is held then that an acknowledgement needs, since that is what makes room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from connector.core.channel_receiver import Reference
from connector.core.takeover import Schedule, take_over
from connector.errors import ClaimLost, ProviderError, SessionStateError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import (
    Claim,
    Poller,
    Prepared,
    Provider,
    Settlement,
    TopicSubscription,
)
from connector.messaging.selector import Selector

_MAX_BODY: Final = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class NotCommitted:
    """A message of an open transaction."""

    prepared: Prepared
    destination: Destination
    message: Message


class ChannelStore:
    """One process's view of the channels of a provider. Thread-safe.

    Args:
        provider: where the messages live.
        client_id: of durable topic receivers; empty = there are none.

    Raises:
        ClientIdError: another connection holds the client id.
        ProviderError: the provider is out of reach.
    """

    def __init__(self, provider: Provider, client_id: str = "") -> None:
        self.capabilities = provider.capabilities
        self.is_reliable: Final = provider.capabilities.reliable
        self.client_id = client_id
        self.lock: Final = threading.RLock()
        """Guards the taking connection and all that channels know of their deliveries. Never held while a
        receiver handles a message, and never while a sender waits."""
        self._sending: Final = threading.Lock()
        self._preparing: Final = threading.Lock()
        self._taker = provider.connect(client_id=client_id)
        self._sender = provider.connect()
        self._loader = self._taker.access().open()
        self._preparer = self._taker.access().open()
        self._taken = 0
        self._prepared = 0
        self._not_committed: list[NotCommitted] = []
        self.deliverers: Final[dict[Destination, Callable[[], None]]] = {}
        """How the open channels attempt delivery."""
        self._schedule = Schedule()
        self._closed = False

    # -- not in the channel -> NEW, NOT_COMMITTED ----------------------------------------------------

    def send(self, destination: Destination, message: Message) -> None:
        """A message is NEW, or not there.

        Raises:
            ProviderError: nothing was sent.
        """
        if self.is_reliable:
            with self._sending:
                self.check_open()
                self._sender.send(destination, [message])
        else:  # it may have to wait for room: the room of what this process has claimed does not count then
            self.commit([], [self.prepare(destination, message)])

    def prepare(self, destination: Destination, message: Message) -> NotCommitted:
        """A message is NOT_COMMITTED, and belongs to whoever asked: to one transaction.

        Raises:
            ProviderError: it cannot be written.
        """
        with self.lock:
            self.check_open()
            self._prepared += 1
            key = f"channel|{self._prepared}"
        with self._preparing:
            prepared = self._preparer.prepare(destination, message, key)
        made = NotCommitted(prepared, destination, message)
        with self.lock:
            self._not_committed.append(made)
        return made

    def sync(self) -> None:
        """Makes what was prepared durable, before it is committed; where nothing is durable, nothing.

        Raises:
            ProviderError: it cannot.
        """
        if self.is_reliable:
            with self._preparing:
                self._preparer.sync()

    def discard(self, messages: Sequence[NotCommitted]) -> None:
        """NOT_COMMITTED messages are no more.

        Raises:
            ProviderError: they cannot be removed.
        """
        with self._preparing if self.is_reliable else nullcontext():
            for message in messages:
                self._preparer.discard(message.prepared)
        self._forget(messages)

    def commit(self, acknowledged: Iterable[Claim], messages: Sequence[NotCommitted]) -> None:
        """DELIVERED ones are gone and NOT_COMMITTED ones are NEW, all of them or none.

        Raises:
            ClaimLost: one of the claims is not ours any more; nothing has happened.
            SettlementError: nothing has happened.
            ProviderError: it is done as far as it could be; recovery finishes it.
        """
        settlements = [Settlement(claim) for claim in acknowledged]
        sends = [message.prepared for message in messages]
        with self.lock:
            try:
                self._taker.settle(settlements, sends=sends, fenced=bool(settlements))
            except (ClaimLost, SettlementError):
                raise
            except ProviderError:
                self._forget(messages)
                raise
            self._forget(messages)

    def not_committed(self, destination: Destination) -> list[Message]:
        """What is NOT_COMMITTED in a channel, as far as this process has sent it; oldest first."""
        with self.lock:
            return [made.message for made in self._not_committed if made.destination == destination]

    def _forget(self, messages: Sequence[NotCommitted]) -> None:
        with self.lock:
            gone = {id(message) for message in messages}
            self._not_committed = [made for made in self._not_committed if id(made) not in gone]

    def new_in(self, destination: Destination) -> None:
        """Has delivery attempted where a channel of this process has a new message."""
        deliver = self.deliverers.get(destination)
        if deliver is not None:
            deliver()

    # -- NEW -> DELIVERED, and from there ------------------------------------------------------------

    def poller(self, source: Destination | TopicSubscription, selector: Selector | None = None) -> Poller:
        """Takes from a queue, or from a subscription, which is made.

        Raises:
            SubscriptionError: another subscription, or a consumer of it, is in the way.
            ProviderError: it cannot be made.
        """
        with self.lock:
            self.check_open()
            return self._taker.poller(source, selector=selector)

    def take(self, poller: Poller) -> Claim | None:
        """The next NEW message is this process's; None where there is none.

        Raises:
            ProviderError: the provider cannot be read.
        """
        with self.lock:
            claim = poller.take(1, self._taken)
            if claim is not None:
                self._taken += 1
            return claim

    def reference(self, claim: Claim) -> Reference:
        """The handle of a claimed message that receivers get."""
        return Reference(claim.headers(), lambda: self._load(claim), claim.delivery_count + 1)

    def acknowledge(self, claim: Claim) -> None:
        """A DELIVERED message is gone.

        Raises:
            ClaimLost: it is not ours any more; nothing has happened.
            ProviderError: nothing has happened, or recovery finishes it.
        """
        with self.lock:
            self._taker.settle([Settlement(claim)])

    def give_back(self, claims: Iterable[tuple[Claim, int]]) -> None:
        """DELIVERED messages are NEW again, each with the deliveries that have begun so far.

        One that went to another process meanwhile is left to it.

        Raises:
            ProviderError: nothing has happened, or recovery finishes it.
        """
        settlements = [Settlement(claim, give_back=True, delivery_count=count) for claim, count in claims]
        if settlements:
            with self.lock:
                self._taker.settle(settlements)

    def _load(self, claim: Claim) -> Message:
        with self.lock:
            message = self._loader.load(claim.reference, _MAX_BODY)
        message.destination = str(claim.destination)
        return message

    # -- looking, recovery, the end --------------------------------------------------------------------

    def unsubscribe(self, name: str) -> None:
        """Removes a durable subscription of the client id, with its messages.

        Raises:
            SubscriptionError: there is none, it has a consumer, or a message of it is not acknowledged yet.
        """
        with self.lock:
            self._taker.unsubscribe(name, self.client_id)

    def browse(self, destination: Destination) -> list[Message]:
        """Messages that are NEW or DELIVERED, in the order of delivery.

        Raises:
            UnknownDestination: there is no such destination.
        """
        with self.lock:
            self.check_open()
            return list(self._taker.browse(destination))

    def take_over(self, *, at_start: bool = False) -> int:
        """What processes that died had been delivered is NEW again, flagged as redelivered; how many.

        Raises:
            ProviderError: a commit of the dead cannot be finished.
        """
        with self.lock:
            self.check_open()
            return take_over(self._taker, at_start=at_start)

    def take_over_now_and_then(self) -> None:
        """:meth:`take_over`, every 10 seconds at most."""
        if self._schedule.is_due():
            self.take_over()

    def close(self) -> None:
        """Ends both connections. Repeatable."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self._taker.close()
            self._sender.close()

    def abandon(self) -> None:
        """Ends as a crash does: what is DELIVERED stays so until somebody takes it over. For tests."""
        with self.lock:
            self._closed = True
            self._taker.abandon()
            self._sender.abandon()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def check_open(self) -> None:
        """Whether it can be used.

        Raises:
            SessionStateError: it is closed.
        """
        if self._closed:
            raise SessionStateError("the channels of this process are closed; open them anew")
