"""Subscriptions of topics, by the rules of :mod:`connector.core.subscriptions`.

A subscription is a record and a channel. Each consumer is a record, which ends with its client.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from connector.core.subscriptions import Attach, Existing, check, decide, is_local
from connector.errors import SubscriptionError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.selector import Selector, compile_selector
from connector.messaging.subscription import SubscriptionInfo, TopicSubscription
from connector.stores.engine.channel import Channel
from connector.stores.engine.client import CONSUMER, SUBSCRIPTION, Client
from connector.stores.engine.registry import Record

_log: Final = logging.getLogger("connector.core")


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A recorded subscription.

    Args:
        key: of the record and of the channel.
        details: as requested by the consumer that made the subscription.
        origin: messages of the same origin are local for no-local.
    """

    key: str
    details: TopicSubscription
    origin: str

    @property
    def channel(self) -> Channel:
        return Channel(self.details.topic, self.key)

    def selector(self) -> Selector | None:
        """Returns the compiled selector. None = all messages."""
        return compile_selector(self.details.selector) if self.details.selector else None


_Target = tuple[StoredSubscription, Channel, Selector | None]
"""A subscription with its channel and its compiled selector."""


class Subscriptions:
    """The subscriptions of a provider, as one client uses them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._numbers = itertools.count(1)
        self._ending: list[StoredSubscription] = []
        self._known: dict[Destination, tuple[Sequence[Record], list[_Target]]] = {}

    # -- receivers of a message -------------------------------------------------------------------

    def channels_for(
        self, topic: Destination, headers: Message, *, is_foreign: bool = False
    ) -> list[Channel]:
        """Returns the channels that get a message sent to a topic now.

        Args:
            is_foreign: whether another program sends the message, and not this client.
        """
        origin = "" if is_foreign else self._client.info.origin
        found = []
        for one, channel, selector in self._of(topic):
            if one.details.no_local and is_local(one.details, one.origin, origin):
                continue
            if selector is None or selector.matches(headers):
                found.append(channel)
        return found

    def of(self, topic: Destination) -> list[StoredSubscription]:
        """Returns the subscriptions of a topic."""
        return [subscription for subscription, _, _ in self._of(topic)]

    def _of(self, topic: Destination) -> list[_Target]:
        records = self._client.registry.records(SUBSCRIPTION, Channel(topic))
        if not records:
            self._known.pop(topic, None)
            return []
        known = self._known.get(topic)
        if known is None or known[0] is not records:
            before = {one[0].key: one for one in zip(*known, strict=True)} if known is not None else {}
            found = [_target(record, before.get(record.key)) for record in records]
            known = self._known[topic] = records, found
        return known[1]

    def _all(self) -> Iterator[StoredSubscription]:
        for topic in self._client.store.destinations():
            if not topic.is_queue:
                yield from self.of(topic)

    # -- consumers ---------------------------------------------------------------------------------

    def attach(self, wanted: TopicSubscription) -> tuple[StoredSubscription, Record]:
        """Adds a consumer: makes, uses or replaces the subscription, and records the consumer.

        Raises:
            DestinationError, SelectorError, SubscriptionError: see :mod:`connector.core.subscriptions`.
            ProviderError: the subscription cannot be made.
        """
        check(wanted)
        registry, store = self._client.registry, self._client.store
        with registry.lock():
            found = self._find(wanted.client_id, wanted.name, durable=wanted.durable) if wanted.name else None
            existing = self._describe(found) if found is not None else None
            todo = decide(wanted, existing if wanted.durable else None, None if wanted.durable else existing)
            if found is not None and todo is Attach.REPLACE:
                self._refuse_unacknowledged(found)
                _warn_of_loss(self.info(found), "made anew with other details")
                self._remove(found)
                found = None
            if found is None:
                subscription = StoredSubscription(self._key(wanted), wanted, self._client.info.origin)
                store.create(Channel(wanted.topic))
                self._write(subscription)
            elif existing is not None and not existing.consumers + existing.own:
                subscription = StoredSubscription(found.key, found.details, self._client.info.origin)
                if not wanted.durable:  # has ended, but is not removed yet
                    store.empty(found.channel)
                if subscription != found:
                    self._write(subscription)
            else:
                subscription = found
            return subscription, self.consume(subscription.channel)

    def consume(self, channel: Channel) -> Record:
        """Records a consumer of this client, under the lock of the registry."""
        info = self._client.info
        record = Record(CONSUMER, channel, f"{info.client_id}-{next(self._numbers)}", owner=info)
        self._client.registry.write(record)
        return record

    def detach(self, subscription: StoredSubscription, consumer: Record) -> None:
        """Removes a consumer. A subscription that is not durable ends with its last consumer."""
        with self._client.registry.lock():
            self._client.registry.remove(consumer)
            self._end_unattended(subscription)

    def consumers(self, channel: Channel) -> list[Record]:
        """Returns the consumers of a subscription or of a temporary queue."""
        return list(self._client.registry.records(CONSUMER, channel))

    def end_remaining(self) -> None:
        """Ends the subscriptions that could not end before, because a message of them was claimed."""
        if self._ending:
            ending, self._ending = self._ending, []
            with self._client.registry.lock():
                for subscription in ending:
                    self._end_unattended(subscription)

    def sweep(self) -> None:
        """Removes the subscriptions that have ended with dead clients."""
        with self._client.registry.lock():
            for subscription in list(self._all()):
                self._end_unattended(subscription)

    # -- removing and looking ----------------------------------------------------------------------

    def unsubscribe(self, name: str, client_id: str) -> SubscriptionInfo:
        """Removes a durable subscription with all messages, and returns it as it was."""
        with self._client.registry.lock():
            found = self._find(client_id, name, durable=True) if name else None
            whose = f" of client {client_id!r}" if client_id else ""
            if found is None:
                raise SubscriptionError(
                    f"there is no durable subscription {name!r}{whose or ' without a client id'}"
                )
            if consumers := self.consumers(found.channel):
                owner = consumers[0].owner
                raise SubscriptionError(
                    f"the subscription {name!r}{whose} of {found.details.topic} has "
                    f"{_number(len(consumers), 'consumer')} ({owner.who if owner else 'unknown'}); "
                    "close every consumer first"
                )
            self._refuse_unacknowledged(found)
            removed = self.info(found)
            self._remove(found)
        _warn_of_loss(removed, "removed")
        return removed

    def remove_all(self, topic: Destination) -> None:
        """Ends all subscriptions of a temporary topic, with their claims. Under the lock of the registry."""
        for subscription in self.of(topic):
            self._remove(subscription, claimed=True)

    def information(self) -> list[SubscriptionInfo]:
        """Returns all subscriptions, by topic, name and client id."""
        found = [self.info(one) for one in self._all()]
        found.sort(
            key=lambda one: (one.subscription.topic, one.subscription.name, one.subscription.client_id)
        )
        return found

    def info(self, one: StoredSubscription) -> SubscriptionInfo:
        """Returns the details and counts of a subscription."""
        counts = self._client.store.count(one.channel)
        numbers = (counts.waiting, counts.claimed, counts.expired, counts.error, counts.delayed)
        return SubscriptionInfo(one.details, len(self.consumers(one.channel)), *numbers)

    def _describe(self, found: StoredSubscription) -> Existing:
        consumers = self.consumers(found.channel)
        application = self._client.info.application
        own = [one for one in consumers if application and one.owner and one.owner.application == application]
        return Existing(found.details, len(consumers) - len(own), len(own))

    def _find(self, client_id: str, name: str, *, durable: bool) -> StoredSubscription | None:
        record = self._client.registry.subscription(client_id, name, durable=durable)
        return None if record is None else _read(record)

    def _key(self, wanted: TopicSubscription) -> str:
        unique = f"{self._client.info.client_id}-{next(self._numbers)}"
        return self._client.registry.subscription_key(wanted, unique)

    def _write(self, subscription: StoredSubscription) -> None:
        self._client.registry.write(_record(subscription))

    def _remove(self, subscription: StoredSubscription, *, claimed: bool = False) -> None:
        self._client.store.remove(subscription.channel, claimed=claimed)

    def _end_unattended(self, subscription: StoredSubscription) -> None:
        if not subscription.details.durable and not self.consumers(subscription.channel):
            self._remove(subscription)
            if self._client.store.has(subscription.channel):  # A message of the subscription is claimed.
                self._ending.append(subscription)

    def _refuse_unacknowledged(self, found: StoredSubscription) -> None:
        if claimed := self._client.store.count(found.channel).claimed:
            raise SubscriptionError(
                f"the subscription {found.details.name!r} of {found.details.topic} has "
                f"{_number(claimed, 'message')} not acknowledged, or in an open transaction; "
                "acknowledge every message and end the transaction first"
            )


def _target(record: Record, before: tuple[Record, _Target] | None) -> _Target:
    """Returns the subscription of a record, the same object as ``before`` if the record has not changed."""
    if before is not None and before[0] == record:
        return before[1]
    one = _read(record)
    return one, one.channel, one.selector()


def _record(subscription: StoredSubscription) -> Record:
    details = subscription.details
    data = {**asdict(details), "topic": str(details.topic), "origin": subscription.origin}
    return Record(SUBSCRIPTION, Channel(details.topic), subscription.key, data, durable=details.durable)


def _read(record: Record) -> StoredSubscription:
    data = dict(record.data)
    origin = data.pop("origin")
    # The topic is the same object in every channel of the topic, because each message compares the topic.
    data["topic"] = (
        record.of.destination if isinstance(record.of, Channel) else parse_destination(data["topic"])
    )
    return StoredSubscription(record.key, TopicSubscription(**data), origin)


def _warn_of_loss(ended: SubscriptionInfo, how: str) -> None:
    if losses := ended.losses():
        _log.warning(
            "the messages of a subscription were removed with the subscription",
            extra={
                "subscription": ended.subscription.name,
                "destination": str(ended.subscription.topic),
                "reason": how,
                "lost": losses,
            },
        )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
