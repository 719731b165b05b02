"""A provider on the broker in this process: everything above the client of a broker, without Java."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from connector.brokers.engine import broker as contract
from connector.brokers.engine.broker import NO_LIMIT, CommitUnknown, Received, UnreadableMessage
from connector.brokers.engine.provider import COMMIT_QUEUE, RemoteProvider
from connector.brokers.engine.silence import BrokerSilent
from connector.brokers.engine.transaction_limits import TransactionLimits
from connector.errors import (
    CapabilityError,
    ClientIdError,
    DestinationError,
    SubscriptionError,
    UnknownDestination,
)
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Capabilities
from connector.messaging.selector import compile_selector
from connector.messaging.subscription import TopicSubscription
from tests.brokers.engine.broker import Broker, BrokerConnection, BrokerError, BrokerSession

_LOOK: Final = 0.02
_providers: Final[WeakValueDictionary[int, LentProvider]] = WeakValueDictionary()


class LentProvider(RemoteProvider):
    """Queues of a broker in this process."""

    capabilities = Capabilities(
        selectors=True,
        takeover=False,
        transactions=True,
        shows_all=False,
        shares_client_ids=False,
        chooses_ids=False,
        lots=True,
        sends_once=True,
    )

    def __init__(
        self,
        state_directory: str | os.PathLike[str],
        *,
        commit_queue: str | None = COMMIT_QUEUE,
        **limits: Any,
    ) -> None:
        super().__init__(state_directory, TransactionLimits(**limits), commit_queue)
        self.broker = Broker()
        _providers[id(self)] = self

    def __reduce__(self) -> tuple[Callable[[int], LentProvider], tuple[int]]:
        """Pickles a reference, because the broker is in this process."""
        return _find, (id(self),)

    def client(self) -> LentClient:
        return LentClient(self.broker, has_temporaries=self.capabilities.temporary_destinations)

    def check(self) -> bool:
        return True


class ProviderForRequests(LentProvider):
    """Also has delays, and temporary queues that are like those of a real broker where requests need that."""

    capabilities = replace(
        LentProvider.capabilities, temporary_destinations=True, delays=True, retries_later=True
    )


class LentClient(contract.BrokerClient):
    def __init__(self, broker: Broker, *, has_temporaries: bool) -> None:
        self._broker = broker
        self._has_temporaries = has_temporaries

    def connect(self, client_id: str) -> ClientConnection:
        connection = self._broker.connect()
        with self._broker.changed:
            holder = self._broker.client_ids.get(client_id)
            if client_id and holder is not None and not holder.ended:
                raise ClientIdError(f"the client id {client_id!r} is in use; choose another client id")
            self._broker.client_ids[client_id] = connection
        return ClientConnection(connection, has_temporaries=self._has_temporaries)


class ClientConnection(contract.BrokerConnection):
    def __init__(self, connection: BrokerConnection, *, has_temporaries: bool) -> None:
        self._connection = connection
        self._has_temporaries = has_temporaries

    @property
    def failure(self) -> str | None:
        return "the connection has ended" if self._connection.ended else None

    @property
    def shortage(self) -> str:  # type: ignore[override]
        return getattr(self._connection, "shortage", "")

    def session(self, *, individual: bool = False) -> ClientSession:
        return ClientSession(self._connection.broker, self._connection.session())

    def browse(
        self, queue: Destination, selector: str, unreadable: Callable[[Message, str], object] | None = None
    ) -> Iterator[Message]:
        if self._connection.broker.is_mute:
            raise BrokerSilent(f"{queue} cannot be browsed")
        if queue.name not in self._connection.broker.queues:
            raise UnknownDestination(f"there is no {queue}")
        waiting = self._connection.broker.waiting(queue.name, selector)
        found = [stored.message.copy(stored.message.body) for stored in waiting]
        for message in found:
            message.destination = str(queue)
        return iter(found)

    def unsubscribe(self, name: str) -> None:
        raise SubscriptionError(f"there is no subscription {name!r}")

    def temporary(self, kind: str) -> Destination:
        if kind != "queue" or not self._has_temporaries:
            raise CapabilityError(f"this provider has no temporary {kind}s")
        return Destination("queue", self._connection.temporary())

    def delete_temporary(self, destination: Destination) -> None:
        if destination.name not in self._connection.temporaries:
            raise DestinationError(f"{destination} is no temporary destination of this connection")
        self._connection.temporaries.remove(destination.name)
        del self._connection.broker.queues[destination.name]

    def close(self) -> None:
        self._connection.close()


class ClientSession(contract.BrokerSession):
    def __init__(self, broker: Broker, session: BrokerSession) -> None:
        self._broker = broker
        self._session = session
        self._unread: dict[int, tuple[Message, bytes]] = {}
        """Messages whose bodies were too large to be read, with the bodies."""

    def receiver(self, source: Destination | TopicSubscription, selector: str, limit: int) -> ClientReceiver:
        if not isinstance(source, Destination) or not source.is_queue:
            raise CapabilityError(f"cannot poll {source}: this provider has queues only")
        if selector:
            compile_selector(selector)
        self._broker.waiting(source.name)
        return ClientReceiver(self._broker, self._session, source.name, selector, limit, self._unread)

    def arrivals(self, limit: int) -> ClientArrivals:
        return ClientArrivals(self._broker, lambda queue, selector: self.receiver(queue, selector, limit))

    def send(self, destination: Destination, message: Message, *, copied: Message | None = None) -> None:
        if not destination.is_queue:
            raise CapabilityError(f"cannot send to {destination}: this provider has no topics")
        unread = self._unread.get(id(copied))
        sent = message if unread is None else message.copy(unread[1])
        self._session.send(destination.name, sent)
        message.message_id, message.timestamp = sent.message_id, sent.timestamp

    def acknowledge(self, message: Message) -> None:
        self._session.acknowledge(message.message_id)

    def check_sends(self) -> None:
        """Does nothing: a send is refused at once."""

    def commit(self) -> None:
        try:
            self._session.commit()
        except BrokerError as error:
            raise CommitUnknown(f"the connection was lost in a commit: {error}") from error

    def rollback(self) -> None:
        self._session.rollback()

    def close(self) -> None:
        self._session.close()


@dataclass
class ClientReceiver(contract.BrokerReceiver):
    _broker: Broker
    _session: BrokerSession
    _queue: str
    _selector: str
    _limit: int
    _unread: dict[int, tuple[Message, bytes]]

    def receive(self, seconds: float, most: int = 1, most_bytes: int = NO_LIMIT) -> list[Received]:
        if not seconds and self._broker.is_mute:
            raise BrokerSilent(self._queue)
        until = time.monotonic() + seconds
        found: list[Received] = []
        size = 0
        while len(found) < most and size < most_bytes:
            one = self._next(ignores=bool(seconds) and self._queue in self._broker.slow)
            left = until - time.monotonic()
            if one is not None:
                found.append(one)
                size += len(one.message.body)
            elif found or left <= 0:
                break
            else:
                with self._broker.changed:
                    self._broker.changed.wait(min(left, _LOOK))  # a delayed message notifies nobody
        return found

    def _next(self, *, ignores: bool) -> Received | None:
        message = None if ignores else self._session.receive(self._queue, self._selector)
        if message is None:
            return None
        size = len(message.body)
        if message.body in self._broker.unreadable:
            raise UnreadableMessage("the library cannot read the message")
        if size > self._limit:
            self._unread[id(message)] = message, message.body
            message.body = b""
        return Received(message, size)

    def close(self) -> None:
        """Does nothing."""


class ClientArrivals(contract.BrokerArrivals):
    def __init__(self, broker: Broker, make: Callable[[Destination, str], ClientReceiver]) -> None:
        self._broker = broker
        self._make = make
        self._receivers: dict[int, ClientReceiver] = {}
        self._numbers = itertools.count(1)
        self._woken = False

    def add(self, queue: Destination, selector: str) -> int:
        number = next(self._numbers)
        self._receivers[number] = self._make(queue, selector)
        return number

    def remove(self, number: int) -> None:
        self._receivers.pop(number, None)

    def take(self, seconds: float, most: int) -> list[tuple[int, Received]] | None:
        until = time.monotonic() + seconds
        with self._broker.changed:
            while True:
                found = [
                    (number, received)
                    for number, receiver in self._receivers.items()
                    for received in receiver.receive(0.0, most)
                ]
                left = until - time.monotonic()
                if found or self._woken or left <= 0:
                    woken, self._woken = self._woken, False
                    return found if found or not woken else None
                self._broker.changed.wait(left)

    def wake(self) -> None:
        with self._broker.changed:
            self._woken = True
            self._broker.changed.notify_all()


def _find(key: int) -> LentProvider:
    return _providers[key]
