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
    """Queues and topics by name. A context manager; thread-safe.

    Opening them takes over what processes that died had been delivered: it is NEW again, and flagged as
    redelivered (JBoss Messaging Core, 2 and 5.3).

    Args:
        provider: where the messages live. All processes that use its messages have the same channels.
        client_id: of durable topic receivers; empty = there are none.

    Raises:
        ClientIdError: another process holds the client id.
        ProviderError: the provider is out of reach.
    """

    def __init__(self, provider: Provider, client_id: str = "") -> None:
        self._client = ChannelClient(provider, client_id)
        self._channels: dict[Destination, QueueChannel | TopicChannel] = {}
        self._client.take_over(at_start=True)

    def queue(self, name: str) -> QueueChannel:
        """The queue of this name, the same at every call until it is closed.

        Raises:
            DestinationError: it is no name of a queue.
            SessionStateError: the channels are closed.
        """
        return self._open(QueueChannel, Destination("queue", _plain(name)))

    def topic(self, name: str) -> TopicChannel:
        """The topic of this name, the same at every call until it is closed.

        Raises:
            DestinationError: it is no name of a topic.
            SessionStateError: the channels are closed.
        """
        return self._open(TopicChannel, Destination("topic", _plain(name)))

    def transaction(self) -> ChannelTransaction:
        """A new transaction over any of these channels.

        Raises:
            SessionStateError: the channels are closed.
        """
        return ChannelTransaction(self._client)

    def take_over(self) -> int:
        """What processes that died had been delivered is NEW again; how many messages.

        ``deliver`` does so by itself, every 10 seconds at most.

        Raises:
            ProviderError: a commit of the dead cannot be finished.
        """
        return self._client.take_over()

    def close(self) -> None:
        """Closes every channel. Messages of transactions that are still open are lost. Repeatable.

        Raises:
            SessionStateError: a receiver calls it while it handles a message.
            ProviderError: the provider failed; what is left is taken over when this process has ended.
        """
        for channel in list(self._channels.values()):
            channel.close()
        self._client.close()

    def abandon(self) -> None:
        """Leaves everything as a crash of this process would, for tests of recovery."""
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
    """A valid name without a kind, and of no virtual destination."""
    destination = parse_destination(f"queue://{name}")
    if destination.view:
        raise DestinationError(
            f"{name!r} shows a part of {destination.base}, and a channel is the whole of it: open that"
        )
    return destination.name
