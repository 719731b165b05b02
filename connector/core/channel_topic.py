"""A topic: every message goes to every receiver there is, and waits for no other (seed 001, 5.2.4).

A receiver has a subscription of its own at the provider, which holds its share of every message. A message is
DELIVERED while at least one receiver holds its share, and has left the channel with the last of them.
"""

from __future__ import annotations

from connector.core.channel import Channel
from connector.core.channel_delivered import Answer
from connector.core.channel_receiver import Receiver, Reference, wants
from connector.core.channel_store import ChannelStore
from connector.core.state import MessageState
from connector.errors import ClaimLost
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Claim, Poller, TopicSubscription


class _Share:
    """One receiver and its messages."""

    def __init__(self, receiver: Receiver, poller: Poller, durable: bool) -> None:
        self.receiver = receiver
        self.poller = poller
        self.durable = durable
        self.removed = False
        self.waiting: list[Claim] = []
        """NEW ones: taken for this receiver, and not delivered because it is broken."""


class TopicChannel(Channel):
    """See :class:`connector.core.channel.Channel`. What a receiver does not accept is discarded for it."""

    is_storing_undeliverable = False

    def __init__(self, store: ChannelStore, destination: Destination) -> None:
        super().__init__(store, destination)
        self._shares: tuple[_Share, ...] = ()

    def add_receiver(self, receiver: Receiver, *, durable: bool = False) -> None:
        """Hands it a share of every message sent from now on.

        Args:
            durable: its share is kept while it is away, under its id and the client id of the channels, until
                :meth:`unsubscribe`.

        Raises:
            ValueError: there is a receiver of this id.
            SubscriptionError: it has no client id, or another subscription is in the way.
            SessionStateError: the channel is closed.
            ProviderError: its subscription cannot be made.
        """
        with self._store.lock:
            self._check_open()
            share = self._find(receiver.receiver_id)
            if share is not None and not share.removed:
                raise ValueError(f"{self.destination} has a receiver {receiver.receiver_id} already")
            if share is not None:  # it comes back while it still holds messages
                share.receiver, share.removed = receiver, False
            else:
                wanted = TopicSubscription(
                    self.destination,
                    name=receiver.receiver_id if durable else "",
                    client_id=self._store.client_id,
                    durable=durable,
                )
                self._shares = (*self._shares, _Share(receiver, self._store.poller(wanted), durable))
        self._deliver_soon(anew=True)

    def remove_receiver(self, receiver_id: str) -> None:
        """See :meth:`connector.core.channel.Channel.remove_receiver`."""
        with self._store.lock:
            share = self._find(receiver_id)
            if share is None or share.removed:
                raise LookupError(f"{self.destination} has no receiver {receiver_id}")
            share.removed = True
        self._deliver_soon()

    def unsubscribe(self, receiver_id: str) -> None:
        """Keeps nothing more for a durable receiver, which was removed.

        Raises:
            SubscriptionError: there is none, it is still there, or holds messages.
        """
        self._store.unsubscribe(receiver_id)

    def _receivers(self, reference: Reference) -> list[Receiver]:
        return [s.receiver for s in self._shares if not s.removed and wants(s.receiver, reference)]

    def _find(self, receiver_id: str) -> _Share | None:
        return next((share for share in self._shares if share.receiver.receiver_id == receiver_id), None)

    def _deliver_new(self, *, anew: bool) -> bool:
        for share in self._shares:
            if share.removed:
                self._drain(share)
            else:
                self._deliver_share(share)
        return not (self._closed or any(share.waiting for share in self._shares))

    def _deliver_share(self, share: _Share) -> None:
        not_delivered: list[Claim] = []
        try:
            while not (self._closed or share.removed) and (claim := self._next_of(share)) is not None:
                reference = self._store.reference(claim)
                if reference.has_expired():
                    self._store.give_back([(claim, claim.delivery_count)])  # to be found expired
                    continue
                answer = Answer.REFUSED
                if wants(share.receiver, reference):
                    answer = self._delivered.hand(share.receiver, claim, reference)
                if answer is not Answer.TAKEN:
                    not_delivered.append(claim)
                if answer is Answer.REFUSED:
                    self._discard(claim)
                    not_delivered.pop()
        finally:
            share.waiting = not_delivered + share.waiting

    def _next_of(self, share: _Share) -> Claim | None:
        """Its next NEW message; those that have waited come first."""
        with self._store.lock:
            return share.waiting.pop(0) if share.waiting else self._store.take(share.poller)

    def _discard(self, claim: Claim) -> None:
        try:
            self._store.acknowledge(claim)
        except ClaimLost:
            pass  # not ours any more, nor to be discarded by us

    def _drain(self, share: _Share) -> None:
        """Ends the share of a receiver that was removed, once it holds nothing any more."""
        with self._store.lock:
            self._let_go(share)
            if share.removed and not self._delivered.of(share.receiver.receiver_id):
                share.poller.close()
                self._shares = tuple(other for other in self._shares if other is not share)

    def _let_go(self, share: _Share) -> None:
        """What waits for a receiver goes when it goes, but for one that is durable."""
        if share.durable:
            self._store.give_back((claim, claim.delivery_count) for claim in share.waiting)
        else:
            while (claim := self._next_of(share)) is not None:
                self._discard(claim)
        share.waiting = []

    def _pull(self) -> None:
        """Takes what has come for its receivers, so that it can be looked at."""
        for share in self._shares:
            if not share.removed:
                while (claim := self._store.take(share.poller)) is not None:
                    share.waiting.append(claim)

    def _new_references(self) -> list[Reference]:
        return [self._store.reference(claim) for share in self._shares for claim in share.waiting]

    def _browse(self) -> list[Message]:
        with self._store.lock:
            self._pull()
            return _loaded([*self._new_references(), *self._delivered.references()])

    def _in_state(self, state: MessageState) -> list[Message]:
        with self._store.lock:
            self._pull()
            delivered = self._delivered.references()
            if state is MessageState.DELIVERED:
                return _loaded(delivered)
            held = {reference.message_id for reference in delivered}
            return _loaded([new for new in self._new_references() if new.message_id not in held])

    def _close(self) -> None:
        for share in self._shares:
            self._let_go(share)
            if not share.durable:
                self._delivered.drop(share.receiver.receiver_id)
        self._delivered.give_back()
        for share in self._shares:
            share.poller.close()
        self._shares = ()


def _loaded(references: list[Reference]) -> list[Message]:
    """Each message once, in the order of delivery."""
    found: dict[str, Message] = {}
    for reference in sorted(references):
        if reference.message_id not in found:
            try:
                found[reference.message_id] = reference.load()
            except LookupError:
                continue  # taken away by hand
    return list(found.values())
