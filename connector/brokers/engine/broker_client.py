"""What every client of a broker does in the same way: sending at once, and looking."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator

from connector.brokers.engine.access import sendable
from connector.brokers.engine.broker import BrokerConnection, BrokerSession
from connector.brokers.engine.claims import original
from connector.brokers.engine.delays import check_delays
from connector.errors import DestinationError, ProviderError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.history import about
from connector.messaging.message import Message
from connector.messaging.provider import SessionClient
from connector.messaging.subscription import SubscriptionInfo, TopicSubscription


class BrokerClientConnection(SessionClient):
    """A client on a connection of a broker. The base of those of adapters and of sessions."""

    def __init__(self, broker: BrokerConnection) -> None:
        self.broker = broker
        self._sending: BrokerSession | None = None
        """For messages that are sent at once."""
        self.temporaries: set[Destination] = set()
        """The temporary destinations that this client has made."""
        self._ended = False

    def check(self) -> None:
        if self._ended:
            raise ProviderError("the connection is closed")
        failure = self.broker.failure
        if failure is not None:
            raise ProviderError(f"the connection to the broker has failed: {failure}")

    def check_message(self, message: Message) -> None:
        """Checks that a message can be sent.

        Raises:
            ValueError: the message is not valid.
            CapabilityError: the message has a delivery delay, which the broker does not keep.
            ProviderError: the connection has failed.
        """
        message.check()
        if message.delivery_time:
            check_delays(self.broker)

    def sending_session(self) -> BrokerSession:
        """Returns the session for messages that are sent at once."""
        self._sending = self._sending or self.broker.session()
        return self._sending

    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        self.check()
        sent = list(messages)
        for message in sent:
            self.check_message(message)
        session = self.sending_session()
        try:
            ids = [send_in(session, destination, message) for message in sent]
        except BaseException:
            with contextlib.suppress(ProviderError):
                session.rollback()
            raise
        session.commit()
        return ids

    def browse(
        self,
        destination: Destination,
        unreadable: Callable[[Message, str], object] | None = None,
        *,
        delayed: bool = False,
        ids: Collection[str] | None = None,
    ) -> Iterator[Message]:
        self.check()
        if delayed:
            found = self._delayed(destination)
        else:
            _check_browsable(destination)
            found = map(_with_original_headers, self.broker.browse(destination, "", unreadable))
        return found if ids is None else about(found, ids)

    def _delayed(self, destination: Destination) -> Iterator[Message]:
        """Returns the delayed messages of a destination."""
        _check_browsable(destination)
        return iter(())

    def unsubscribe(self, name: str, client_id: str = "") -> SubscriptionInfo:
        self.check()
        self.broker.unsubscribe(name)
        return SubscriptionInfo(TopicSubscription(Destination("topic", "?"), name, client_id, True), 0, 0, 0)

    def temporary(self, kind: str) -> Destination:
        self.check()
        made = self.broker.temporary(kind)
        self.temporaries.add(made)
        return made

    def delete_temporary(self, destination: Destination) -> None:
        self.check()
        self.broker.delete_temporary(destination)


def send_in(session: BrokerSession, destination: Destination, message: Message) -> str:
    """Sends a message in a transaction, and sets its id, time and expiration. Returns the id.

    Raises:
        DestinationError: the destination shows a part of another one.
        ProviderError: the broker refuses the message.
    """
    if destination.view:
        raise DestinationError(f"cannot send to {destination}: it shows a part of {destination.base}")
    made = sendable(message)
    session.send(destination, made)
    message.message_id, message.timestamp = made.message_id, made.timestamp
    message.expiration = made.expiration
    return message.message_id or ""


def _check_browsable(destination: Destination) -> None:
    if not destination.is_queue or destination.view:
        raise UnknownDestination(f"cannot browse {destination}: a broker shows whole queues only")


def _with_original_headers(message: Message) -> Message:
    original(message)
    return message
