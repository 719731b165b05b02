"""The channels of one process over one provider, and their transactions (JBoss Messaging Core)."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from connector.core.channel_client import ChannelClient, ChannelTransaction
from connector.core.channel_queue import QueueChannel
from connector.core.channel_topic import TopicChannel
from connector.errors import DestinationError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider import Provider

_Channel = TypeVar("_Channel", QueueChannel, TopicChannel)


class Channels:
    """Queues and topics by name. A context manager. Thread-safe.

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
        self._client = ChannelClient(provider, client_id)
        self._channels: dict[Destination, QueueChannel | TopicChannel] = {}
        self._client.take_over(at_start=True)

    def queue(self, name: str) -> QueueChannel:
        """Returns the queue of this name, the same at every call until the queue is closed.

        Raises:
            DestinationError: the name is no name of a queue.
            SessionStateError: the channels are closed.
        """
        return self._open(QueueChannel, Destination("queue", _plain(name)))

    def topic(self, name: str) -> TopicChannel:
        """Returns the topic of this name, the same at every call until the topic is closed.

        Raises:
            DestinationError: the name is no name of a topic.
            SessionStateError: the channels are closed.
        """
        return self._open(TopicChannel, Destination("topic", _plain(name)))

    def transaction(self) -> ChannelTransaction:
        """Returns a new transaction over any of these channels.

        Raises:
            SessionStateError: the channels are closed.
        """
        return ChannelTransaction(self._client)

    def take_over(self) -> int:
        """Makes the DELIVERED messages of dead processes NEW again. Returns the number of messages.

        ``deliver`` does so by itself, every 10 seconds at most.

        Raises:
            ProviderError: a commit of a dead process cannot be finished.
        """
        return self._client.take_over()

    def close(self) -> None:
        """Closes every channel. Messages of open transactions are lost. Repeatable.

        Raises:
            SessionStateError: a receiver calls this method while handling a message.
            ProviderError: the provider failed. The rest is taken over after the end of this process.
        """
        for channel in list(self._channels.values()):
            channel.close()
        self._client.close()

    def abandon(self) -> None:
        """Ends the channels as a crash of this process would, for tests of recovery."""
        self._client.abandon()

    def __enter__(self) -> Channels:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, kind: type[_Channel], destination: Destination) -> _Channel:
        with self._client.lock:
            self._client.check_open()
            channel = self._channels.get(destination)
            if not isinstance(channel, kind) or channel.is_closed:
                channel = kind(self._client, destination)
                self._channels[destination] = channel
            return channel


def _plain(name: str) -> str:
    """Returns a valid name without a kind. Refuses virtual destinations."""
    destination = parse_destination(f"queue://{name}")
    if destination.view:
        raise DestinationError(
            f"{name!r} is a view of {destination.base}, and a view has no channel: open {destination.base}"
        )
    return destination.name
