"""The channels of one process over one provider, and their transactions (JBoss Messaging Core)."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TypeVar

from connector.channels.channel import ChannelOwner
from connector.channels.queue import QueueChannel
from connector.channels.topic import TopicChannel
from connector.channels.transaction import ChannelTransaction, Sent
from connector.core.session import sole_session
from connector.core.takeover import take_over
from connector.errors import DestinationError, SessionStateError
from connector.messaging.client import AcknowledgeMode, Closeable
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Provider

_Channel = TypeVar("_Channel", QueueChannel, TopicChannel)


class Channels(ChannelOwner, Closeable):
    """Queues and topics by name. A context manager. Thread-safe.

    All channels take and settle with one session, in which each message is acknowledged by itself. A second
    session sends. In an unreliable provider a sender may wait for room (JBoss Messaging Core, 3.1). Meanwhile
    other threads can acknowledge, because acknowledgements make room.

    The constructor takes over the DELIVERED messages of dead processes. They are NEW again, and flagged as
    redelivered (JBoss Messaging Core, 2 and 5.3).

    Args:
        provider: of the messages. All processes with this provider have the same channels.
        client_id: of durable topic receivers. Empty = there are none.

    Raises:
        ClientIdError: another process holds the client id.
        ProviderError: the provider is out of reach.
    """

    def __init__(self, provider: Provider, client_id: str = "") -> None:
        mode, capabilities = AcknowledgeMode.INDIVIDUAL, provider.capabilities
        self._own_names = capabilities.own_names
        self._connection = provider.connect(client_id=client_id)
        self.session = sole_session(
            self._connection, mode, capabilities, self._connection, client_id=client_id
        )
        self.transactions: list[ChannelTransaction] = []
        self._channels: dict[Destination, QueueChannel | TopicChannel] = {}
        self._keys = itertools.count(1)
        with ExitStack() as undo:
            undo.callback(self.session.abandon)
            self._sender = sole_session(provider.connect(), AcknowledgeMode.AUTO, capabilities)
            undo.callback(self._sender.abandon)
            take_over(self._connection, at_start=True)
            undo.pop_all()

    def queue(self, name: str) -> QueueChannel:
        """Returns the queue of this name, the same at every call until the queue is closed.

        Raises:
            DestinationError: the name is no name of a queue.
            SessionStateError: the channels are closed.
        """
        return self._open(QueueChannel, Destination("queue", _plain(name, own_names=self._own_names)))

    def topic(self, name: str) -> TopicChannel:
        """Returns the topic of this name, the same at every call until the topic is closed.

        Raises:
            DestinationError: the name is no name of a topic.
            SessionStateError: the channels are closed.
        """
        return self._open(TopicChannel, Destination("topic", _plain(name, own_names=self._own_names)))

    def transaction(self) -> ChannelTransaction:
        """Returns a new transaction over any of these channels.

        Raises:
            SessionStateError: the channels are closed.
        """
        with self.session.lock:
            self._check_open()
            key = f"channel|{next(self._keys)}|"
            made = ChannelTransaction(self.session, key, self._attempt_delivery, self.transactions.remove)
            self.transactions.append(made)
            return made

    def send(self, destination: Destination, message: Message) -> None:
        if not self.session.capabilities.reliable:
            # in a transaction, the claims of this process take up no room while the message waits for room
            with self.transaction() as transaction:
                transaction.send(destination, [message])
            return
        self._sender.dispatch(destination, [message])
        self._attempt_delivery([(destination, message)])

    def _attempt_delivery(self, sent: Sent) -> None:
        for destination in dict.fromkeys(destination for destination, _ in sent):
            channel = self._channels.get(destination)
            if channel is not None:
                channel.on_sent([message for where, message in sent if where == destination])

    def take_over(self) -> int:
        """Makes the DELIVERED messages of dead processes NEW again. Returns the number of messages.

        ``deliver`` does so by itself, every 10 seconds at most.

        Raises:
            ProviderError: a commit of a dead process cannot be finished.
        """
        with self.session.lock:
            self._check_open()
            return take_over(self._connection, at_start=False)

    def close(self) -> None:
        """Closes every channel. Messages of open transactions are lost. Repeatable.

        Raises:
            SessionStateError: a receiver calls this method while handling a message.
            ProviderError: the provider failed. The rest is taken over after the end of this process.
        """
        for channel in list(self._channels.values()):
            channel.close()
        self.session.close()
        self._sender.close()

    def abandon(self) -> None:
        """Ends the channels as a crash of this process would, for tests of recovery."""
        with self.session.lock:
            self.session.abandon()
            self._sender.abandon()

    def _open(self, kind: type[_Channel], destination: Destination) -> _Channel:
        with self.session.lock:
            self._check_open()
            channel = self._channels.get(destination)
            if not isinstance(channel, kind) or channel.is_closed:
                channel = kind(self, destination)
                self._channels[destination] = channel
            return channel

    def _check_open(self) -> None:
        if self.session.closing:
            raise SessionStateError("the channels of this process are closed; open them anew")


def _plain(name: str, *, own_names: bool) -> str:
    """Returns a valid name without a kind. Refuses virtual destinations."""
    destination = parse_destination(f"queue://{name}", own_names=own_names)
    if destination.view:
        raise DestinationError(
            f"{name!r} is a view of {destination.base}, and a view has no channel: open {destination.base}"
        )
    return destination.name
