"""The connection of a local provider (see :mod:`connector.messaging.roles`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from connector.core.subscriptions import check
from connector.errors import CapabilityError, ProviderError, SettlementError, UnknownDestination
from connector.messaging.access import AccessSpec
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.history import about
from connector.messaging.message import Message
from connector.messaging.notes import OwnerNote
from connector.messaging.once import OnceKey, SentOnce
from connector.messaging.polling import Waiter
from connector.messaging.provider import Capabilities, Connection
from connector.messaging.retention import Pruned, Retention
from connector.messaging.selector import Selector, compile_selector, selector_text
from connector.messaging.settlement import GroupSettlement, Prepared, Settlement
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription
from connector.status import OutcomeKind
from connector.stores.engine.channel import Channel, Part, channel_of, temporary_owner
from connector.stores.engine.claims import LocalClaim
from connector.stores.engine.client import Client, check_sendable, hold_client_id
from connector.stores.engine.headers import MessageIds
from connector.stores.engine.lots import Lots
from connector.stores.engine.poller import LocalPoller
from connector.stores.engine.recovery import LocalLeftover, LocalRecovery
from connector.stores.engine.registry import Record, Registry
from connector.stores.engine.rules import DeliveryRules
from connector.stores.engine.settlement import LocalSettler
from connector.stores.engine.store import Reader, Store, Unreadable, Watch
from connector.stores.engine.subscriptions import StoredSubscription, Subscriptions
from connector.stores.engine.temporary import TemporaryDestinations
from connector.stores.engine.topics import ForeignMessages

_CLOCK_TICK = 0.001
"""Seconds. Times of delivery are whole milliseconds."""


class _DueWaiter(Waiter):
    """A waiter that also reports a delayed message when the message is due.

    Args:
        until_due: returns the seconds until the next delayed message is due, its argument at most.
    """

    def __init__(self, watch: Watch, until_due: Callable[[float], float]) -> None:
        self._watch = watch
        self._until_due = until_due

    def begin(self) -> bool:
        return self._watch.begin()

    def wait(self, seconds: float) -> bool:
        left = self._until_due(seconds)
        began = time.monotonic()
        has_come = self._watch.wait(left + _CLOCK_TICK)
        return has_come or (left < seconds and time.monotonic() - began >= left)  # else it was woken


CAPABILITIES: Final = Capabilities(
    topics=True,
    selectors=True,
    temporary_destinations=True,
    virtual_destinations=True,
    delays=True,
    retries_later=True,
    lots=True,
    sends_once=True,
)
"""What the engine can do with a store that keeps lots."""


class LocalConnection(Connection):
    """A client of a local provider.

    Args:
        store, registry, watch: made for this client. ``store`` stays an attribute, for code that knows its
            class.
        limit: deliveries begun after which a message is put aside. None = no limit.
        client_id: of JMS, held as long as the connection lives. Empty = none.
        virtual_destinations: whether the provider has them. Otherwise the store need not keep messages that
            are put aside.
        lots: whether the store and the registry keep lots.

    Raises:
        ClientIdError: another client holds the client id.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        watch: Watch,
        *,
        limit: int | None,
        client_id: str = "",
        virtual_destinations: bool = True,
        lots: bool = False,
    ) -> None:
        self.client_id = registry.info.client_id
        self._client = client = Client(store, registry, watch, limit, MessageIds(self.client_id))
        self.store = store
        self._registry = registry
        self._watch = watch
        self._has_views = virtual_destinations
        self._subscriptions = Subscriptions(client)
        self._temporaries = TemporaryDestinations(client, self._subscriptions)
        self._foreign = ForeignMessages(client, self._subscriptions) if store.has_foreign else None
        self._settler = LocalSettler(client, self._subscriptions, self._temporaries)
        self._lots = Lots(client, self._settler) if lots else None
        self._recovery = LocalRecovery(client, self._subscriptions, self._temporaries)
        self._queues: dict[Destination, tuple[Channel]] = {}
        """Queues that were sent to and are not temporary. They need no further check."""
        self._pollers: dict[LocalPoller, None] = {}
        self._leftovers: list[LocalLeftover] = []
        self._closed = False
        self._ending = threading.RLock()
        if client_id:
            try:
                hold_client_id(client, client_id)
            except BaseException:
                self.close()
                raise

    @property
    def sent_ids(self) -> str:
        return self._client.stamp.pattern

    def _check_open(self, error: type[ProviderError] = ProviderError) -> None:
        """Raises ``error`` if the connection has ended."""
        if self._closed:
            raise error(f"the connection {self.client_id} is closed, nothing was done: connect anew")

    # -- taking ------------------------------------------------------------------------------------

    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: str = "",
        by_group: bool = False,
    ) -> LocalPoller:
        self._check_open()
        if not isinstance(source, TopicSubscription):
            poller = self._queue_poller(source, in_progress, selector, by_group=by_group)
        elif in_progress is not None or selector:
            raise CapabilityError(
                f"a subscription of {source.topic} has a selector of its own and no in-progress destination"
            )
        else:
            poller = self._subscription_poller(source, by_group=by_group)
        self._pollers[poller] = None
        return poller

    def picker(self, queue: Destination, wanted: Callable[[Message], bool]) -> LocalPoller:
        self._check_open()
        channel = self._takeable(queue)
        if channel.can_end:
            raise CapabilityError(f"{queue} is temporary: only its consumers take its messages")
        if not self.store.has(Channel(queue.base)):
            raise UnknownDestination(f"there is no {queue} in {self.store.title}")
        judge = DeliveryRules(None, Selector("", frozenset(), wanted), is_view=True)
        reader = self.store.reader(channel, judge, None, queue)
        poller = LocalPoller(self._client, channel, reader, queue, self._remove_poller, may_end=False)
        self._pollers[poller] = None
        return poller

    def _takeable(self, source: Destination) -> Channel:
        """Returns the channel that messages of a queue are taken from."""
        if not source.is_queue:
            raise CapabilityError(f"the topic {source} holds no messages itself: subscribe to the topic")
        if source.view == "PROCESSING":
            raise CapabilityError(f"{source} can only be browsed: its messages are claimed already")
        if source.view and not self._has_views:
            raise CapabilityError(f"{self.store.title} has no virtual destinations: poll {source.base}")
        return channel_of(source)

    def _queue_poller(
        self, source: Destination, in_progress: Destination | None, selector: str, *, by_group: bool
    ) -> LocalPoller:
        channel = self._takeable(source)
        _check_in_progress(source, in_progress)
        compiled = compile_selector(selector) if selector_text(selector) else None
        on_close: Callable[[LocalPoller], None] = self._remove_poller
        if channel.can_end:
            with self._registry.lock():
                self._temporaries.check_consumer(source.base)
                consumer = self._subscriptions.consume(Channel(source.base))
            on_close = partial(self._close_temporary, consumer)
        else:
            self.store.create(Channel(source.base))
        if in_progress is not None:
            self.store.create(Channel(in_progress))
        judge = DeliveryRules(self._client.limit, compiled, is_view=bool(source.view), by_group=by_group)
        into = Channel(in_progress) if in_progress is not None else None
        reader = self.store.reader(channel, judge, into, source)

        def read_again() -> Reader:
            of_again, is_view = _of_again(selector), bool(source.view)
            again = DeliveryRules(self._client.limit, of_again, is_view=is_view, by_group=by_group)
            return self.store.reader(channel, again, into, source)

        poller = LocalPoller(
            self._client, channel, reader, source, on_close, may_end=channel.can_end, wanted=compiled
        )
        poller.read_again = read_again
        return poller

    def _subscription_poller(self, wanted: TopicSubscription, *, by_group: bool) -> LocalPoller:
        check(wanted)
        self._temporaries.check_consumer(wanted.topic)
        self.store.create(Channel(wanted.topic))
        if self._foreign is not None:
            self._foreign.distribute(wanted.topic)  # earlier messages are not for the new subscription
        subscription, consumer = self._subscriptions.attach(wanted)
        judge = DeliveryRules(self._client.limit, None, is_view=False, by_group=by_group)
        reader = self.store.reader(subscription.channel, judge, None, wanted.topic)
        on_close = partial(self._close_subscription, subscription, consumer)
        poller = LocalPoller(
            self._client,
            subscription.channel,
            reader,
            wanted.topic,
            on_close,
            may_end=True,
            foreign=self._foreign,
        )

        def read_again() -> Reader:
            again = DeliveryRules(self._client.limit, _of_again(), is_view=False, by_group=by_group)
            return self.store.reader(subscription.channel, again, None, wanted.topic)

        poller.read_again = read_again
        return poller

    def _remove_poller(self, poller: LocalPoller) -> None:
        self._pollers.pop(poller, None)

    def _close_temporary(self, consumer: Record, poller: LocalPoller) -> None:
        self._remove_poller(poller)
        with self._registry.lock():
            self._registry.remove(consumer)

    def _close_subscription(
        self, subscription: StoredSubscription, consumer: Record, poller: LocalPoller
    ) -> None:
        self._remove_poller(poller)
        self._subscriptions.detach(subscription, consumer)

    def wait(self, seconds: float) -> None:
        pollers = tuple(self._pollers)
        self._watch.wait_for_news(
            lambda: any(poller.has_news() for poller in pollers), self._until_due(seconds)
        )

    def _until_due(self, seconds: float) -> float:
        """Returns the seconds until the next delayed message is due, ``seconds`` at most."""
        try:
            return max(0.0, min((seconds, *(poller.due_in() for poller in tuple(self._pollers)))))
        except ProviderError:  # the next poll names the cause
            return 0.0

    def waiter(self) -> Waiter | None:
        self._check_open()
        return _DueWaiter(self._watch, self._until_due) if self._watch.can_tell else None

    def wake(self) -> None:
        self._watch.wake()

    def check(self) -> None:
        self._check_open()
        self._registry.check()

    @property
    def lots(self) -> Lots:
        self._check_open()
        if self._lots is None:
            raise CapabilityError(f"{self.store.title} keeps no lots: use a poller")
        return self._lots

    # -- subscriptions and destinations ------------------------------------------------------------

    def unsubscribe(self, name: str, client_id: str = "") -> SubscriptionInfo:
        self._check_open()
        return self._subscriptions.unsubscribe(name, client_id)

    def subscriptions(self) -> list[SubscriptionInfo]:
        self._check_open()
        return self._subscriptions.information()

    def names(self) -> list[Destination]:
        self._check_open()
        return sorted(self.store.destinations())

    def destinations(self) -> list[DestinationInfo]:
        self._check_open()
        by_topic: dict[Destination, list[SubscriptionInfo]] = {}
        for one in self._subscriptions.information():
            by_topic.setdefault(one.subscription.topic, []).append(one)
        lots = self._lots.information() if self._lots is not None else {}
        found = []
        for destination in sorted(self.store.destinations()):
            if temporary_owner(destination) in (None, self.client_id):
                counts = self.store.count(Channel(destination))
                found.append(
                    DestinationInfo(
                        destination,
                        counts.waiting,
                        counts.claimed,
                        counts.processed,
                        counts.expired,
                        counts.error,
                        tuple(by_topic.get(destination, ())),
                        counts.delayed,
                        tuple(lots.get(destination, ())),
                    )
                )
        return found

    def temporary(self, kind: str) -> Destination:
        self._check_open()
        return self._temporaries.make(kind)

    def delete_temporary(self, destination: Destination) -> None:
        self._check_open()
        self._temporaries.delete(destination)

    # -- settling and recovery ---------------------------------------------------------------------

    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        self._check_open(SettlementError)
        self._settler.settle(settlements, sends, discards, fenced=fenced)

    def access(self) -> AccessSpec:
        self._check_open()
        return self.store.tasks()

    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[LocalLeftover]:
        self._check_open()
        return self._take_over(in_progress, at_start=at_start)

    def _take_over(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[LocalLeftover]:
        for leftover in self._recovery.leftovers(in_progress, at_start=at_start):
            self._leftovers.append(leftover)
            yield leftover

    def find_unowned(self, in_progress: Destination) -> Sequence[LocalClaim]:
        self._check_open()
        return self._recovery.find_unowned(in_progress)

    def adopt(self, claim: Claim, cycle: int, sequence: int) -> LocalClaim | None:
        self._check_open()
        assert isinstance(claim, LocalClaim)
        return self._recovery.adopt(claim, cycle, sequence)

    def leave_unowned(self, claim: Claim) -> None:
        self._check_open()
        assert isinstance(claim, LocalClaim)
        self._recovery.leave_unowned(claim)

    def prune(self, retentions: Sequence[Retention] = (), *, seconds: float = 0.5) -> Pruned:
        self._check_open()
        return self.store.prune(retentions if self._client.info.application else (), seconds)

    # -- sending and looking -----------------------------------------------------------------------

    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        self._check_open()
        queue = self._queue(destination)
        given = list(messages)
        if len(given) > 1 and len(set(map(id, given))) < len(given):  # each message gets a separate id
            given = [message.copy(message.body) for message in given]
        if queue is None:
            self.store.create(Channel(destination))
        ids: list[str] = []
        stored: list[tuple[Message, Sequence[Channel]]] = []
        for message in given:
            made = self._client.stamp.new(message)
            ids.append(made.message_id or "")
            stored.append((made, queue or self._subscriptions.channels_for(destination, made)))
        self.store.put(stored)
        return ids

    def _queue(self, destination: Destination) -> tuple[Channel] | None:
        """Returns the channel of a queue that messages are sent to. None = the destination is a topic."""
        queue = self._queues.get(destination)
        if queue is None:
            check_sendable(destination)
            self._temporaries.check_there(destination)
            if destination.is_queue:
                queue = (Channel(destination),)
                if not queue[0].can_end:
                    self._queues[destination] = queue
        return queue

    def send_once(self, destination: Destination, message: Message, once: OnceKey) -> SentOnce:
        self._check_open()
        once.check()
        queue = self._queue(destination)
        if queue is None:
            self.store.create(Channel(destination))
        made = self._client.stamp.new(once.mark(message))
        channels = queue or self._subscriptions.channels_for(destination, made)
        return self.store.put_once(made, channels, once)

    def find_sent(self, application: str, key: str) -> SentOnce | None:
        self._check_open()
        return self.store.find_sent(application, key)

    def browse(
        self,
        destination: Destination,
        unreadable: Callable[[Message, str], object] | None = None,
        *,
        delayed: bool = False,
        ids: Collection[str] | None = None,
    ) -> Iterator[Message]:
        self._check_open()
        if not self.store.has(Channel(destination.base)):
            lasting = [one for one in self.store.destinations() if not Channel(one).can_end]
            known = ", ".join(str(one) for one in sorted(lasting))
            raise UnknownDestination(
                f"there is no {destination} in {self.store.title}" + (f"; there are {known}" if known else "")
            )
        if not destination.is_queue:
            return iter(())
        plain = None if ids is None else frozenset(one.removeprefix("ID:") for one in ids)
        found = self._scan(destination, unreadable, delayed=delayed, ids=plain)
        return found if ids is None else about(found, ids)

    def _scan(
        self,
        destination: Destination,
        unreadable: Unreadable | None,
        *,
        delayed: bool,
        ids: frozenset[str] | None,
    ) -> Iterator[Message]:
        view = destination.view
        channel = Channel(destination.base, part=Part.DELAYED) if delayed else channel_of(destination)
        waiting, claimed = view != "PROCESSING", not delayed and view in ("", "PROCESSING")
        for message in self.store.scan(
            channel, waiting=waiting, claimed=claimed, unreadable=unreadable, ids=ids
        ):
            message.destination = str(destination)
            yield message

    def owners(self, queue: Destination) -> dict[str, list[OwnerNote]]:
        self._check_open()
        return self._recovery.owners(Channel(queue.base))

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        with self._ending:
            if self._closed:
                return
            self._closed = True
            try:
                for poller in tuple(self._pollers):
                    poller.close()
                self._subscriptions.end_remaining()
                self._temporaries.end_all()
            finally:
                self._end(abandoned=False)

    def abandon(self) -> None:
        with self._ending:
            if self._closed:
                return
            self._closed = True
            for poller in tuple(self._pollers):
                poller.abandon()
            self._end(abandoned=True)

    def _end(self, *, abandoned: bool) -> None:
        for leftover in self._leftovers:
            leftover.release()
        if self._lots is not None:
            self._lots.close()
        self._watch.close()  # First, so that a waiting thread does not find the store closed.
        self._registry.close(abandoned=abandoned)


def _of_again(selector: str = "") -> Selector:
    """Returns the selector of messages whose events come again later, among those of another selector."""
    comes_again = f"(connector_retries IS NOT NULL OR connector_outcome = '{OutcomeKind.LATER.value}')"
    return compile_selector(f"({selector}) AND {comes_again}" if selector_text(selector) else comes_again)


def _check_in_progress(source: Destination, in_progress: Destination | None) -> None:
    """Checks that messages of one destination can be in progress in another.

    Raises:
        CapabilityError: the destinations are not two whole queues.
    """
    if in_progress is None:
        return
    if not in_progress.is_queue or in_progress.view or source.view or in_progress == source:
        raise CapabilityError(
            f"messages of {source} cannot be in progress in {in_progress}: name two different queues, and no "
            "view of a queue"
        )
