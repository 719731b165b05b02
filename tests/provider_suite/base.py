"""The shared fixtures, destinations and helpers of the suite."""

from __future__ import annotations

import inspect
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import Any, ClassVar, TypeVar

import pytest

from connector.core.connection import CoreConnection
from connector.errors import UnknownDestination
from connector.messaging.access import MessageAccess
from connector.messaging.claim import Claim
from connector.messaging.client import Consumer
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.messaging.polling import Poller
from connector.messaging.provider import Capabilities, Connection, Provider
from connector.messaging.roles import Leftover
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription

ORDERS = parse_destination("queue://orders")
NOTES = parse_destination("queue://notes")
ARCHIVE = parse_destination("queue://archive")
IN_PROGRESS = parse_destination("queue://in-progress")
PRICES = parse_destination("topic://prices")
NO_LIMIT = 1 << 40
SOON = 1000
"""Milliseconds until a message expires. A busy machine may need most of this time to send and to claim."""

Connect = Callable[..., Connection]


def look_again() -> None:
    """Lets a moment pass between two looks at what a provider does in its own time."""
    time.sleep(0.01)


Test = TypeVar("Test", bound=Callable[..., Any])


def needs(capability: str, *, has: bool = True) -> Callable[[Test], Test]:
    """Skips tests that do not fit the capabilities of the provider.

    Args:
        capability: name in :class:`connector.messaging.provider.Capabilities`, or of an attribute of
            :class:`SuiteBase`. The decorator is for a test or for a class of tests.
        has: False for tests of a provider without the capability.
    """

    def decorate(target: Any) -> Any:
        if isinstance(target, type):
            for name, function in list(vars(target).items()):
                if name.startswith("test_"):
                    setattr(target, name, decorate(function))
            return target

        needed = {**getattr(target, "needed", {}), capability: has}

        @wraps(target)
        def test(self: SuiteBase, *args: Any, **fixtures: Any) -> None:
            if _has(self, capability) is not has:
                pytest.skip(f"the provider has {'no ' * has}{capability}, and says so")
            target(self, *args, **fixtures)

        test.needed = needed  # type: ignore[attr-defined]  # a function has attributes, and mypy knows none
        return test

    return decorate


def _has(suite: SuiteBase | type[SuiteBase], capability: str) -> bool:
    """Whether a provider has a capability."""
    found: bool = getattr(suite.able if hasattr(Capabilities, capability) else suite, capability)
    return found


def _needs(test: Callable[..., Any]) -> Iterable[tuple[str, bool]]:
    """Returns the capabilities that a test depends on, and whether the provider must have them."""
    needed: dict[str, bool] = getattr(test, "needed", {})
    return needed.items()


class SuiteBase:
    """Fixtures and helpers. The subclass defines the fixtures ``provider`` and ``unwritable``.

    A subclass that sets ``able`` has only the tests for these capabilities. Without ``able`` the other tests
    are skipped while they run.
    """

    has_limit: ClassVar[bool] = True
    """Whether the provider has a redelivery limit."""
    can_tell: ClassVar[bool] = True
    """Whether the provider has a waiter."""

    can_spoil: ClassVar[bool] = False
    """Whether another program can make a message of the provider unreadable. Then define ``spoil``."""

    by_value: ClassVar[bool] = False
    """Whether claims and prepared messages carry the whole message (:mod:`connector.messaging.provider`)."""

    fetches_ahead: ClassVar[bool] = False
    """Whether a client library fetches messages before they are claimed."""

    message_groups: ClassVar[bool] = False
    """Whether a poller by group leaves the groups of which another client has a message in progress."""

    administers: ClassVar[bool] = True
    """Whether a connection lists all queues, topics and subscriptions with the numbers of their messages.

    Then the connection also uses the subscriptions of every client id, and ends its temporary destinations.

    Otherwise the lists are empty. As in JMS, a connection has the shared subscriptions and those of its own
    client id, and a temporary destination ends with its connection.
    """

    client_class: ClassVar[type[CoreConnection]] = CoreConnection
    """Makes the sessions of a program on the provider."""
    wait_timeout: ClassVar[float] = 30.0
    """Seconds after which every client sees a message that was sent or given back."""

    able: Capabilities
    """The capabilities of the provider under test."""
    delivery_mode: int
    """The delivery mode of test messages: persistent if the provider is reliable."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        able = cls.__dict__.get("able")
        for name in dir(cls) if able is not None else ():
            test = getattr(cls, name)
            if not name.startswith("test_") or test is None:
                continue
            fixtures = inspect.signature(test).parameters.keys()
            if (
                any(_has(cls, capability) is not has for capability, has in _needs(test))
                or (not cls.has_limit and fixtures & {"limited", "strict"})
                or (not cls.can_tell and "waiter" in fixtures)
                or (not cls.can_spoil and fixtures & {"spoil", "bad"})
            ):
                setattr(cls, name, None)

    @pytest.fixture
    def provider(self) -> Provider:
        """The provider under test, empty."""
        raise NotImplementedError("override the fixture 'provider'")

    @pytest.fixture
    def unwritable(self, provider: Provider) -> Any:
        """A destination with a valid name to which nothing can be sent."""
        raise NotImplementedError("override the fixture 'unwritable'")

    @pytest.fixture
    def spoil(self, provider: Provider) -> Callable[[Destination, str], None]:
        """Makes a waiting message unreadable, as another program may.

        Called with its destination and its JMSMessageID. Some header or property then has an invalid value.
        """
        raise NotImplementedError("override the fixture 'spoil', or say can_spoil = False")

    @pytest.fixture
    def capabilities(self, provider: Provider) -> Capabilities:
        return provider.capabilities

    @pytest.fixture(autouse=True)
    def _look_at_the_provider(self, capabilities: Capabilities) -> None:
        assert getattr(type(self), "able", capabilities) == capabilities
        self.able = capabilities
        self.delivery_mode = PERSISTENT if capabilities.reliable else NON_PERSISTENT

    @pytest.fixture
    def connect(self, provider: Provider) -> Iterator[Connect]:
        """Opens connections, which end with the test."""
        opened: list[Connection] = []

        def open_connection(application: str = "suite", instance: str = "", **options: str) -> Connection:
            if application and not instance:
                instance = f"instance-{len(opened)}"
            connection = provider.connect(application, instance, **options)
            opened.append(connection)
            return connection

        yield open_connection
        for connection in opened:
            connection.abandon()

    @pytest.fixture
    def connection(self, connect: Connect) -> Connection:
        """One connection."""
        return connect()

    @pytest.fixture
    def client(self, connect: Connect) -> Callable[..., Connection]:
        """Opens connections of programs that are no adapter, each a separate client."""
        return partial(connect, "")

    def message(self, body: bytes = b"", message_class: str = "T", **headers: Any) -> Message:
        """Returns a message that the provider takes."""
        headers.setdefault("delivery_mode", self.delivery_mode)
        return Message(body, message_class, **headers)

    def text(self, body: str, **headers: Any) -> Message:
        """Returns a text message that the provider takes."""
        return self.message(body.encode(), **headers)

    def send(
        self, connection: Connection, destination: Destination, *bodies: str, **headers: Any
    ) -> list[str]:
        """Sends text messages in one call. Returns their ids."""
        return connection.send(destination, [self.text(body, **headers) for body in bodies])

    def take(self, poller: Poller, cycle: int = 1, sequence: int = 0) -> Claim:
        """Takes a message that waits. A client library that fetches ahead may still be fetching it."""
        if self.fetches_ahead:
            return self.take_soon(poller, cycle, sequence)
        claim = poller.take(cycle, sequence)
        assert claim is not None
        return claim

    def take_soon(self, poller: Poller, cycle: int = 1, sequence: int = 0) -> Claim:
        """Takes a message that may take a moment to come."""
        deadline = time.monotonic() + self.wait_timeout
        while (claim := poller.take(cycle, sequence)) is None:
            assert time.monotonic() < deadline, f"nothing came to {poller.destination}"
            look_again()
        return claim

    def claim(self, poller: Poller, cycle: int, numbers: range) -> list[Claim]:
        """Claims a message for each number. The messages wait, as for :meth:`take`."""
        if self.fetches_ahead:
            return self.claim_soon(poller, cycle, numbers)
        claims = list(poller.claim(cycle, numbers))
        assert len(claims) == len(numbers)
        return claims

    def claim_soon(self, poller: Poller, cycle: int, numbers: range) -> list[Claim]:
        """Claims a message for each number. Some may take a moment to come."""
        deadline = time.monotonic() + self.wait_timeout
        claims = list(poller.claim(cycle, numbers))
        while len(claims) < len(numbers):
            late = f"{len(claims)} of {len(numbers)} came to {poller.destination}"
            assert time.monotonic() < deadline, late
            look_again()
            claims += poller.claim(cycle, numbers[len(claims) :])
        return claims

    @staticmethod
    def let_pass(moment: int) -> None:
        """Waits until the time is past a moment, such as an expiration, in milliseconds since 1970."""
        while time.time_ns() // 1_000_000 <= moment:
            look_again()

    def release_fetched(self, source: Poller | Consumer) -> None:
        """Closes a poller or consumer that may have fetched messages ahead, so that others see them soon."""
        if self.fetches_ahead:
            source.close()

    def count_after_return(self, begun: int) -> int:
        """Returns the delivery count of a claim that was given back. A broker forgets the count."""
        return 0 if self.able.transactions else begun

    @staticmethod
    def access(connection: Connection) -> MessageAccess:
        """Returns the access that a task makes from a pickled recipe."""
        spec = pickle.loads(pickle.dumps(connection.access()))  # a pickle of our own
        access: MessageAccess = spec.open()
        return access

    def load(self, connection: Connection, claim: Claim) -> Message:
        return self.access(connection).load(claim.reference, NO_LIMIT)

    def drain(self, connection: Connection, source: Destination | TopicSubscription) -> list[str]:
        """Takes and settles all waiting messages. Returns their bodies in the order of taking."""
        return self.rest(connection, connection.poller(source))

    def rest(self, connection: Connection, poller: Poller) -> list[str]:
        """Takes and settles all waiting messages of a poller.

        Returns their bodies in the order of taking.
        """
        found: list[str] = []
        while (claim := poller.take(1, len(found))) is not None:
            found.append(self.load(connection, claim).body.decode())
            connection.settle([Settlement(claim)])
        return found

    def rest_soon(self, connection: Connection, poller: Poller, count: int) -> list[str]:
        """Does the same as :meth:`rest`, but waits until ``count`` messages have come."""
        deadline = time.monotonic() + self.wait_timeout
        found = self.rest(connection, poller)
        while len(found) < count and time.monotonic() < deadline:
            look_again()
            found += self.rest(connection, poller)
        return found

    def in_queue(self, connection: Connection, destination: Destination, *, claimed: str) -> bool:
        """Whether a queue holds only claimed messages with these bodies, as far as browsing shows."""
        return self.visible(connection, destination) == (list(claimed) if self.able.shows_all else [])

    @staticmethod
    def bodies(connection: Connection, destination: Any) -> list[str]:
        return [message.body.decode() for message in connection.browse(destination)]

    def bodies_soon(self, connection: Connection, destination: Destination, count: int) -> list[str]:
        """Does the same as :meth:`bodies`, but waits until ``count`` messages are visible."""
        deadline = time.monotonic() + self.wait_timeout
        while len(found := self.bodies(connection, destination)) < count and time.monotonic() < deadline:
            look_again()
        return found

    def visible(self, connection: Connection, destination: Any) -> list[str]:
        """Does the same as :meth:`bodies`, but returns nothing if the destination does not exist yet."""
        with suppress(UnknownDestination):
            return self.bodies(connection, destination)
        return []

    def end_all(self, leftovers: Iterator[Leftover], *, expected: int) -> None:
        """Gives back all claims of dead clients. A provider without takeover must have none."""
        found: Sequence[Leftover] = list(leftovers)
        assert len(found) == (expected if self.able.takeover else 0)
        for leftover in found:
            leftover.forget()
