"""Temporary destinations: ``temporary-<client>-<n>``, a queue or topic that ends with its client.

Any client may send to a temporary destination while its owner lives. Only connections of the owner's origin
consume from it. A destination that has a consumer is not deleted.
"""

from __future__ import annotations

import itertools

from connector.errors import DestinationError, ProviderError, SubscriptionError
from connector.messaging.destination import Destination
from connector.stores.engine.channel import Channel, temporary_owner
from connector.stores.engine.client import Client, has_ended
from connector.stores.engine.subscriptions import Subscriptions


class TemporaryDestinations:
    """The temporary destinations of a provider, as one client uses them."""

    def __init__(self, client: Client, subscriptions: Subscriptions) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._numbers = itertools.count(1)
        self._made: dict[Destination, None] = {}

    def make(self, kind: str) -> Destination:
        """Makes a temporary ``queue`` or ``topic`` of this client."""
        if kind not in ("queue", "topic"):
            raise DestinationError(f"{kind!r} is neither 'queue' nor 'topic'")
        info = self._client.info
        if not info.client_id:
            raise ProviderError("a connection that only browses cannot make temporary destinations")
        destination = Destination(kind, f"temporary-{info.client_id}-{next(self._numbers)}")
        with self._client.registry.lock():
            self._client.store.create(Channel(destination))
        self._made[destination] = None
        return destination

    def has_ended(self, destination: Destination) -> bool:
        """Whether a destination is temporary and its owner has ended it, or is dead."""
        owner = temporary_owner(destination)
        if owner is None:
            return False
        return (
            not self._client.store.has(Channel(destination))
            or self._client.registry.find_alive(owner) is None
        )

    def check_there(self, destination: Destination) -> None:
        """Checks that messages can be sent to a destination. Looks at temporary destinations only.

        Raises:
            UnknownDestination: the destination has ended.
        """
        if self.has_ended(destination):
            raise has_ended(destination)

    def check_consumer(self, destination: Destination) -> None:
        """Checks that this client may consume from a destination. Looks at temporary destinations only.

        Raises:
            DestinationError: the destination belongs to another client.
            UnknownDestination: the destination has ended.
        """
        self.check_there(destination)
        owner = temporary_owner(destination)
        if owner is None or owner == self._client.info.client_id:
            return
        client = self._client.registry.find_alive(owner)
        if client is None or client.origin != self._client.info.origin:
            raise DestinationError(
                f"{destination} is the temporary destination of another connection: anybody may send to it, "
                "only that connection consumes from it"
            )

    def delete(self, destination: Destination) -> None:
        """Ends a temporary destination of this client, with all messages."""
        owner = temporary_owner(destination)
        if owner is None:
            raise DestinationError(f"{destination} is no temporary destination")
        if owner != self._client.info.client_id:
            raise DestinationError(f"{destination} is the temporary destination of another connection")
        with self._client.registry.lock():
            if not self._client.store.has(Channel(destination)):
                raise DestinationError(f"the temporary destination {destination} does not exist any more")
            consumers = self._subscriptions.consumers(Channel(destination))
            for subscription in self._subscriptions.of(destination):
                consumers += self._subscriptions.consumers(subscription.channel)
            if consumers:
                who = consumers[0].owner.who if consumers[0].owner else "unknown"
                raise SubscriptionError(f"{destination} has a consumer ({who}): close that consumer first")
            self._remove(destination)
            self._made.pop(destination, None)

    def end_all(self) -> None:
        """Ends the temporary destinations of this client."""
        if self._made:
            with self._client.registry.lock():
                for destination in self._made:
                    self._remove(destination)

    def end_of(self, client_id: str) -> None:
        """Ends the temporary destinations of a dead client."""
        with self._client.registry.lock():
            for destination in self._client.store.destinations():
                if temporary_owner(destination) == client_id:
                    self._remove(destination)

    def _remove(self, destination: Destination) -> None:
        self._subscriptions.remove_all(destination)
        self._client.store.remove(Channel(destination), claimed=True)
