"""Producers: send messages to a destination with given headers (JMS 2.0, 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from connector.errors import CapabilityError, DestinationError, SessionStateError
from connector.messaging.bodies import Value, encode_body
from connector.messaging.client import Body, Producer
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import (
    NON_PERSISTENT,
    PERSISTENT,
    Message,
    PropertyValue,
    check_priority,
    check_text,
    delivery_time_after,
    expiration_after,
)
from connector.messaging.provider import Capabilities
from connector.messaging.selectors.identifiers import check_property_name, is_providers_own
from connector.messaging.typed_values import TYPES, types_of


class ProducerOwner(Protocol):
    """The part of a session that a producer needs."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the provider."""

    def dispatch(self, destination: Destination, messages: list[Message]) -> list[str]:
        """Sends prepared messages, all or none. Returns their ids."""


class SessionProducer(Producer):
    """A producer of a session."""

    def __init__(
        self,
        session: ProducerOwner,
        destination: Destination | str | None = None,
        *,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        delivery_delay: int | None = None,
    ) -> None:
        self._session = session
        self._destination = None if destination is None else self._destination_of(destination)
        self._delivery_mode = _check_mode(delivery_mode)
        self._priority = _check_priority(priority)
        self._time_to_live = _check_time(time_to_live)
        self._delivery_delay = self._check_delay(delivery_delay)
        self._closed = False

    def send(
        self,
        body: Body,
        *,
        destination: Destination | str | None = None,
        type: str | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | str | None = None,
        properties: Mapping[str, PropertyValue] | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
        delivery_delay: int | None = None,
    ) -> str:
        message = self._message(
            body,
            self._delivery_mode if delivery_mode is None else _check_mode(delivery_mode),
            self._priority if priority is None else _check_priority(priority),
            self._time_to_live if time_to_live is None else _check_time(time_to_live),
            self._delivery_delay if delivery_delay is None else self._check_delay(delivery_delay),
        )
        if type is not None:
            message.type = type or None
        if correlation_id is not None:
            message.correlation_id = correlation_id or None
        if reply_to is not None:
            message.reply_to = str(self._destination_of(reply_to))
        for name, value in (properties or {}).items():
            check_property_name(name)
            message.set_property(name, value)
        return self._session.dispatch(self._where(destination), [message])[0]

    def send_many(self, bodies: Iterable[Body], *, destination: Destination | str | None = None) -> list[str]:
        where = self._where(destination)
        messages = [
            self._message(body, self._delivery_mode, self._priority, self._time_to_live, self._delivery_delay)
            for body in bodies
        ]
        return self._session.dispatch(where, messages) if messages else []

    def close(self) -> None:
        self._closed = True

    def _where(self, destination: Destination | str | None) -> Destination:
        if self._closed:
            raise SessionStateError("the producer is closed: make another one")
        if destination is None:
            if self._destination is None:
                raise DestinationError(
                    "the producer has no destination: name a destination with each message"
                )
            return self._destination
        if self._destination is not None:
            raise DestinationError(
                f"the producer sends to {self._destination}: make one without a destination to send "
                f"elsewhere ({destination})"
            )
        return self._destination_of(destination)

    def _destination_of(self, destination: Destination | str) -> Destination:
        return as_destination(destination, self._session.capabilities)

    def _message(
        self, body: Body, mode: int | None, priority: int | None, ttl: int | None, delay: int | None
    ) -> Message:
        message = _copy(body, self._session.capabilities) if isinstance(body, Message) else self._make(body)
        if message.delivery_time and not self._session.capabilities.delays:
            raise _no_delays()
        if mode is not None:
            message.delivery_mode = mode
        if priority is not None:
            message.priority = priority
        if ttl is not None:
            message.expiration = expiration_after(ttl)
        if delay is not None:
            message.delivery_time = delivery_time_after(delay)
        return message

    def _check_delay(self, milliseconds: int | None) -> int | None:
        if milliseconds is not None:
            delivery_time_after(milliseconds)
            if milliseconds and not self._session.capabilities.delays:
                raise _no_delays()
        return milliseconds

    def _make(self, value: Value) -> Message:
        message_class, body = encode_body(value)
        mode = PERSISTENT if self._session.capabilities.reliable else NON_PERSISTENT
        message = Message(body, message_class, delivery_mode=mode)
        if types := types_of(value):
            message.set_property(TYPES, types)
        return message


def _copy(message: Message, capabilities: Capabilities) -> Message:
    """Returns a copy of a message that looks as if it had never been sent or delivered.

    A message with an id comes from a store. The program is not responsible for the property names of such a
    message, because other programs may have chosen them. The properties of the provider are left out.

    Raises:
        ValueError: a property that the program has set has an invalid name, or the priority or JMSReplyTo is
            not valid.
    """
    names, reply_to = list(message.properties), message.reply_to
    if message.message_id is None:
        check_priority(message.priority)
        if reply_to:
            found = as_destination(check_text(reply_to), capabilities)
            reply_to = str(found) if capabilities.own_names else reply_to
        for name in names:
            check_property_name(name, message.property_types.get(name))
    else:
        names = [name for name in names if not is_providers_own(name)]
    return Message(
        body=message.body,
        message_class=message.message_class,
        correlation_id=message.correlation_id or None,
        reply_to=reply_to,
        type=message.type or None,
        delivery_mode=message.delivery_mode,
        priority=message.priority,
        expiration=message.expiration,
        delivery_time=0 if message.message_id else message.delivery_time,
        properties={name: message.properties[name] for name in names},
        property_types={name: message.property_types[name] for name in names},
    )


def _no_delays() -> CapabilityError:
    return CapabilityError("the provider cannot delay a message: send it without a delivery delay")


def as_destination(destination: Destination | str, capabilities: Capabilities) -> Destination:
    """Returns a destination that is given as object or as text. Raises DestinationError."""
    if not isinstance(destination, str):
        return destination
    return parse_destination(destination, own_names=capabilities.own_names)


def _check_mode(mode: int | None) -> int | None:
    if mode not in (None, PERSISTENT, NON_PERSISTENT):
        raise ValueError(f"{mode!r} is no delivery mode; there are PERSISTENT and NON_PERSISTENT")
    return mode


def _check_priority(priority: int | None) -> int | None:
    return None if priority is None else check_priority(priority)


def _check_time(milliseconds: int | None) -> int | None:
    if milliseconds is not None:
        expiration_after(milliseconds)
    return milliseconds
