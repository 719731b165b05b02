"""The connection of the ``memory`` provider (see :class:`connector.messaging.provider.Connection`)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from connector.core.state import Transition, check_in_progress
from connector.errors import (
    CapabilityError,
    DestinationError,
    SettlementError,
    SubscriptionError,
    UnknownDestination,
)
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import (
    Claim,
    DestinationInfo,
    Prepared,
    Pruned,
    Retention,
    Settlement,
    SubscriptionInfo,
    TopicSubscription,
)
from connector.messaging.selector import Selector
from connector.providers.memory import subscriptions
from connector.providers.memory.access import MemoryAccessSpec
from connector.providers.memory.channel import Inbox, Queue, Subscription
from connector.providers.memory.claims import MemoryClaim, drop_claimed
from connector.providers.memory.clients import Client
from connector.providers.memory.entries import Entry, copy_message, weigh
from connector.providers.memory.memory import Memory
from connector.providers.memory.poller import MemoryPoller
from connector.providers.memory.recovery import (
    ORIGIN,
    MemoryLeftover,
    adopt,
    drop_prepared,
    find_leftovers,
    leave,
    unowned_claims,
)
from connector.providers.memory.settlement import Settler
from connector.providers.memory.waiter import MemoryWaiter


class MemoryConnection:
    """One client of one memory provider."""

    def __init__(self, memory: Memory, client: Client) -> None:
        self.memory = memory
        self.client = client
        self.client_id = client.client_id
        self._settler = Settler(memory, client)
        self._waiter = MemoryWaiter(memory, client)
        self._pollers: list[MemoryPoller] = []
        self._make_poller = partial(
            MemoryPoller, memory, client, come=self._waiter.come, forget=self._forget_poller
        )
        self._temporary_numbers = itertools.count(1)

    @property
    def sent_ids(self) -> str:
        """See :meth:`connector.messaging.provider.Connection.sent_ids`; ids are ``TIME-CLIENT-NUMBER``."""
        return f"%-{self.client_id}-%"  # of letters and digits: there is nothing to escape

    # -- taking ------------------------------------------------------------------------------------

    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: Selector | None = None,
    ) -> MemoryPoller:
        """See :meth:`connector.messaging.provider.Connection.poller`.

        Raises:
            CapabilityError: ``~PROCESSING``, a topic without a subscription, a subscription with a
                selector or an in-progress destination beside it.
            DestinationError: a temporary destination of another connection.
            UnknownDestination: a temporary destination that has ended.
        """
        with self.memory:
            self.client.check_open()
            if isinstance(source, TopicSubscription):
                if in_progress is not None or selector is not None:
                    raise CapabilityError(
                        f"{source.topic}: a subscription has a selector of its own, and no in-progress "
                        "destination"
                    )
                self._check_may_consume(source.topic)
                subscription = subscriptions.attach(self.memory, source, self.client)
                poller = self._make_poller(subscription, source.topic)
            else:
                poller = self._queue_poller(source, in_progress, selector)
            self._pollers.append(poller)
            return poller

    def _queue_poller(
        self, source: Destination, in_progress: Destination | None, selector: Selector | None
    ) -> MemoryPoller:
        if not source.is_queue:
            raise CapabilityError(f"{source}: a topic is polled through a subscription")
        if source.view == "PROCESSING":
            raise CapabilityError(f"{source}: what is claimed can be browsed, not taken")
        check_in_progress(source, in_progress)
        self._check_may_consume(source)
        queue = self.memory.queue(source.base)
        return self._make_poller(
            queue.part(source.view),
            source,
            selector=selector,
            in_progress=self.memory.queue(in_progress) if in_progress is not None else None,
            requeue=queue if source.view == "RECOVER-ERROR" else None,
            is_view=bool(source.view),
        )

    def _check_may_consume(self, destination: Destination) -> None:
        owner = self.memory.temporary.get(destination.base)
        if owner is not None and owner.origin != self.client.origin:
            raise DestinationError(
                f"{destination} is temporary: only the connection that made it takes from it"
            )

    def _forget_poller(self, poller: MemoryPoller) -> None:
        self._pollers.remove(poller)
        if isinstance(poller.channel, Subscription):
            subscriptions.leave(self.memory, poller.channel, self.client)

    def wait(self, seconds: float) -> None:
        """See :meth:`connector.messaging.provider.Connection.wait`; returns at once where it is closed."""
        self._waiter.wait_for(lambda: any(poller.pending for poller in self._pollers), seconds)

    def waiter(self) -> MemoryWaiter:
        """See :meth:`connector.messaging.provider.Connection.waiter`."""
        self.check()
        return self._waiter

    def wake(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.wake`."""
        self._waiter.wake()

    def check(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.check`."""
        with self.memory:
            self.client.check_open()

    # -- subscriptions and destinations ------------------------------------------------------------

    def unsubscribe(self, name: str, client_id: str = "") -> SubscriptionInfo:
        """See :meth:`connector.messaging.provider.Connection.unsubscribe`."""
        with self.memory:
            self.client.check_open()
            return subscriptions.unsubscribe(self.memory, name, client_id)

    def subscriptions(self) -> list[SubscriptionInfo]:
        """See :meth:`connector.messaging.provider.Connection.subscriptions`."""
        with self.memory:
            self.client.check_open()
            return subscriptions.information(self.memory)

    def names(self) -> list[Destination]:
        """See :meth:`connector.messaging.provider.Connection.names`."""
        with self.memory:
            self.client.check_open()
            return sorted([*self.memory.queues, *self.memory.topics])

    def destinations(self) -> list[DestinationInfo]:
        """See :meth:`connector.messaging.provider.Connection.destinations`."""
        with self.memory:
            self.client.check_open()
            everything = subscriptions.information(self.memory)
            found = [
                DestinationInfo(
                    destination,
                    waiting=queue.count,
                    in_progress=queue.claimed,
                    expired=queue.expired.count,
                    error=queue.error.count,
                )
                for destination, queue in self.memory.queues.items()
            ]
            found += [
                DestinationInfo(
                    destination,
                    subscriptions=tuple(one for one in everything if one.subscription.topic == destination),
                )
                for destination in self.memory.topics
            ]
            temporary = self.memory.temporary
            found = [one for one in found if temporary.get(one.destination, self.client) is self.client]
        found.sort(key=lambda one: one.destination)
        return found

    def temporary(self, kind: str) -> Destination:
        """See :meth:`connector.messaging.provider.Connection.temporary`."""
        with self.memory:
            self.client.check_open()
            name = f"temporary-{self.client_id}-{next(self._temporary_numbers)}"
            destination = parse_destination(f"{kind}://{name}")
            self.memory.temporary[destination] = self.client
            if destination.is_queue:
                self.memory.queues[destination] = Queue(self.memory.store, destination)
            else:
                self.memory.topics[destination] = {}
            return destination

    def delete_temporary(self, destination: Destination) -> None:
        """See :meth:`connector.messaging.provider.Connection.delete_temporary`."""
        with self.memory:
            self.client.check_open()
            if self.memory.temporary.get(destination) is not self.client:
                raise DestinationError(f"{destination} is no temporary destination of this connection")
            if consumers := self._consumers(destination):
                raise SubscriptionError(
                    f"{destination} has {consumers} consumer{'s' * (consumers != 1)} in this process; close "
                    "that first"
                )
            self._end_temporary(destination)

    def _consumers(self, destination: Destination) -> int:
        queue = self.memory.queues.get(destination)
        if queue is None:
            return sum(len(one.members) for one in self.memory.topics[destination])
        return sum(len(part.consumers) for part in queue.parts())

    def _end_temporary(self, destination: Destination) -> None:
        memory = self.memory
        del memory.temporary[destination]
        queue = memory.queues.pop(destination, None)
        ended: list[Inbox] = [queue] if queue is not None else list(memory.topics.pop(destination, ()))
        for channel in ended:
            channel.end()
            for part in channel.parts():
                for entry in list(part.delivered.values()):
                    drop_claimed(entry)

    # -- settling ----------------------------------------------------------------------------------

    def settle(
        self,
        settlements: Sequence[Settlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        """See :meth:`connector.messaging.provider.Connection.settle`."""
        with self.memory:
            self.client.check_open(SettlementError)
            window = self.memory.state(self.client.application).published
            self._settler.settle(settlements, sends, discards, fenced=fenced, window=window)

    def access(self) -> MemoryAccessSpec:
        self.check()
        return MemoryAccessSpec(self.memory.key, self.memory.pid, self.client_id)

    # -- recovery ----------------------------------------------------------------------------------

    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[MemoryLeftover]:
        """See :meth:`connector.messaging.provider.Connection.leftovers`; the dead are connections that
        were abandoned, or closed with claims open."""
        self.check()
        return find_leftovers(self.memory, self.client, in_progress)

    def unowned(self, in_progress: Destination) -> list[MemoryClaim]:
        """See :meth:`connector.messaging.provider.Connection.unowned`."""
        with self.memory:
            self.client.check_open()
            return unowned_claims(self.memory, in_progress)

    def adopt(self, claim: Claim, cycle: int, sequence: int) -> MemoryClaim | None:
        """See :meth:`connector.messaging.provider.Connection.adopt`."""
        assert isinstance(claim, MemoryClaim)
        with self.memory:
            self.client.check_open()
            return adopt(self.memory, claim, self.client, cycle, sequence)

    def leave(self, claim: Claim) -> None:
        """See :meth:`connector.messaging.provider.Connection.leave`."""
        assert isinstance(claim, MemoryClaim)
        with self.memory:
            self.client.check_open()
            leave(self.memory, claim)

    def prune(self, retentions: Sequence[Retention] = (), *, seconds: float = 0.5) -> Pruned:
        """See :meth:`connector.messaging.provider.Connection.prune`. What is settled is not kept itself."""
        copies: dict[Destination, int] = {}
        with self.memory:
            self.client.check_open()
            for retention in retentions if self.client.application else ():
                queue = self.memory.queues.get(retention.destination)
                old = [] if queue is None else [one for one in queue.waiting if _is_over(one, retention)]
                for entry in old:
                    assert queue is not None
                    queue.drop(entry)
                if old:
                    copies[retention.destination] = len(old)
        return Pruned(copies=copies)

    # -- sending and looking -----------------------------------------------------------------------

    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        """See :meth:`connector.messaging.provider.Connection.send`. Waits while there is no room.

        Raises:
            CapabilityError: one is persistent, and that is not accepted.
            DestinationError: a virtual destination.
            UnknownDestination: a temporary destination that has ended.
        """
        made = list(messages)
        memory = self.memory
        with memory:
            self.client.check_open()
            memory.check_target(destination)
            for message in made:
                memory.check_delivery_mode(message)
            if destination.is_queue or memory.topic(destination):
                size = sum(weigh(message) + len(message.body) for message in made)
                memory.wait_for_room(size, destination, self.client)
                memory.check_target(destination)  # it may have ended meanwhile
            entries = [memory.new_entry(message, self.client) for message in made]
            for entry in entries:
                memory.store.add(entry)
                memory.deliver(entry, destination, Transition.SEND)
            return [entry.headers.message_id or "" for entry in entries]

    def browse(
        self, destination: Destination, unreadable: Callable[[Message, str], object] | None = None
    ) -> Iterator[Message]:
        """See :meth:`connector.messaging.provider.Connection.browse`; of a topic there is nothing to see."""
        memory = self.memory
        with memory:
            self.client.check_open()
            if destination in memory.topics:
                return iter(())
            queue = memory.queues.get(destination.base)
            if queue is None:
                lasting = {*memory.queues, *memory.topics} - {*memory.temporary}
                known = ", ".join(str(one) for one in sorted(lasting))
                raise UnknownDestination(
                    f"there is no {destination} in memory" + (f"; there are {known}" if known else "")
                )
            found = []
            for entry in queue.shown(destination.view):
                message = copy_message(entry.headers, entry.body.data)
                message.destination = str(destination)
                if entry.hold is not None and entry.hold.home is not entry.channel:
                    message.set_property(ORIGIN, str(entry.hold.destination))
                found.append(message)
        return iter(found)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.close`. Claims that are open all the same are
        left to whoever recovers."""
        with self.memory:
            self._end(abandoned=False)

    def abandon(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.abandon`."""
        with self.memory:
            self._end(abandoned=True)

    def _end(self, *, abandoned: bool) -> None:
        client, memory = self.client, self.memory
        if not client.alive:
            return
        client.alive = False
        for poller in list(self._pollers):
            poller.close()
        for destination in [one for one, owner in memory.temporary.items() if owner is client]:
            self._end_temporary(destination)
        for dead in memory.clients.taken_over_by(client):
            dead.taken_by = None
        if not abandoned:
            drop_prepared(memory, client)
            if not client.claims:
                memory.clients.remove(client)
        self._waiter.end()
        memory.store.wake_senders()


def _is_over(entry: Entry, retention: Retention) -> bool:
    """Whether a message that waits was kept long enough; nobody knows since when it lies there."""
    now = time.time()
    return entry.hold is None and retention.is_over(entry.headers, now, now)
