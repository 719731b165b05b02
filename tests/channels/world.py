"""What the tests of channels share: providers to run them on, receivers that say what they are told to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from connector.channels.channels import Channels
from connector.channels.queue import QueueChannel
from connector.channels.state import MessageState
from connector.channels.topic import TopicChannel
from connector.channels.transaction import ChannelTransaction
from connector.core.receiver import NotAccepted, Reference
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.provider import Provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider

PROVIDERS = ("memory", "dropbox")
NEW, DELIVERED, NOT_COMMITTED = MessageState.NEW, MessageState.DELIVERED, MessageState.NOT_COMMITTED
AnyChannel = QueueChannel | TopicChannel


class World:
    """A provider and everything opened on it."""

    def __init__(self, kind: str, directory: str) -> None:
        self.directory = directory
        self.provider: Provider = MemoryProvider()
        if kind == "dropbox":
            self.provider = DropboxProvider(directory, create=True)
        self._opened: list[Channels] = []
        self._own: Channels | None = None

    def open(self, client_id: str = "") -> Channels:
        channels = Channels(self.provider, client_id)
        self._opened.append(channels)
        return channels

    def message(self, body: str = "", **headers: object) -> Message:
        """One that the channel takes responsibility for."""
        mode = PERSISTENT if self.provider.capabilities.reliable else NON_PERSISTENT
        return Message(body=body.encode(), **{"delivery_mode": mode, **headers})  # type: ignore[arg-type]

    @property
    def queue(self) -> QueueChannel:
        """The queue that most tests are about."""
        return self.channels.queue("orders")

    @property
    def channels(self) -> Channels:
        """The channels of the process of the test. Each call of ``open`` is another process."""
        self._own = self._own or self.open()
        return self._own

    def send(
        self,
        *bodies: str,
        to: AnyChannel | None = None,
        transaction: ChannelTransaction | None = None,
        **headers: object,
    ) -> list[Message]:
        """Sends messages, which the channel takes responsibility for. Returns them."""
        messages, channel = [self.message(body, **headers) for body in bodies], to or self.queue
        for message in messages:
            assert channel.handle(message, transaction) is True
        return messages

    def add(
        self, receiver: Recorder | None = None, selector: str = "", *, to: AnyChannel | None = None
    ) -> Recorder:
        """Adds a receiver, which acknowledges all unless said otherwise. Returns it."""
        receiver = receiver or Recorder()
        (to or self.queue).add_receiver(receiver, selector)
        return receiver

    def close(self) -> None:
        for channels in self._opened:
            channels.close()


@contextmanager
def a_world(kind: str) -> Iterator[World]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="channels-") as directory:
        world = World(kind, directory)
        try:
            yield world
        finally:
            world.close()


class Recorder:
    """A receiver that writes down what it gets.

    Args:
        answer: what it says: True, False, None, an exception to raise, or a function of the reference.
        wanted: which messages it accepts; None = all.
    """

    def __init__(
        self,
        receiver_id: str = "r",
        answer: bool | Exception | Callable[[Reference], bool | None] | None = True,
        wanted: Callable[[Reference], bool] | None = None,
    ) -> None:
        self.receiver_id = receiver_id
        self.answer = answer
        self.wanted = wanted
        self.received: list[Reference] = []
        self.bodies: list[str] = []

    def accepts(self, reference: Reference) -> bool:
        return self.wanted is None or self.wanted(reference)

    def handle(self, reference: Reference, /) -> bool | None:
        self.received.append(reference)
        self.bodies.append(reference.load().body.decode())
        if isinstance(self.answer, Exception):
            raise self.answer.with_traceback(None)  # else each raise makes its traceback longer
        return self.answer(reference) if callable(self.answer) else self.answer

    @property
    def ids(self) -> list[str]:
        return [reference.message_id for reference in self.received]

    @property
    def flags(self) -> list[bool]:
        return [reference.redelivered for reference in self.received]

    def forget(self) -> None:
        self.received.clear()
        self.bodies.clear()


def refusing(receiver_id: str = "refusing") -> Recorder:
    """Accepts every message in advance, and none when it is handed over."""
    return Recorder(receiver_id, NotAccepted("not any more"))


def broken(receiver_id: str = "broken") -> Recorder:
    return Recorder(receiver_id, RuntimeError("broken"))


def texts(messages: list[Message]) -> list[str]:
    return [message.body.decode() for message in messages]
