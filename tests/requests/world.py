"""A request client, the application on the other side, strangers beside both, over one real provider."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from connector.brokers.engine.client import BrokerMessagingConnection
from connector.brokers.engine.provider import RemoteProvider
from connector.businessobjects.definition import Definitions, Verb
from connector.businessobjects.rules import OutputEntry, StaticMetaObject
from connector.core.connection import CoreConnection
from connector.errors import UnknownDestination
from connector.formats.handlers import HandlerSpec
from connector.messaging.claim import Claim
from connector.messaging.client import ReceivedMessage, Session
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message, PropertyValue
from connector.messaging.polling import Poller
from connector.messaging.provider import Capabilities, Connection, Provider
from connector.requests.client import RequestClient
from connector.requests.result import RequestResult
from connector.requests.settings import RequestSettings
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider
from tests.brokers.engine.provider import LentProvider, ProviderForRequests
from tests.requests import samples
from tests.waiting import wait_for

STORES: Final = ("dropbox", "memory")
PROVIDERS: Final = (*STORES, "broker")
IN_MEMORY: Final = pytest.mark.parametrize("world", ["memory"], indirect=True)
"""For what a client does by itself, whatever the provider."""
REQUESTS: Final = parse_destination("queue://requests")
REPLIES: Final = parse_destination("queue://replies")
LATE: Final = parse_destination("queue://late")
REPOSITORY: Final = Path(__file__).resolve().parents[2]
PATIENCE: Final = 120.0
"""Seconds after which what has not happened will not."""

Answer = Callable[[ReceivedMessage, "Replying"], object]
"""What an application does with a request."""


def definitions(*verbs: Verb, **options: Any) -> Definitions:
    """The business objects of the samples, with these verbs too. Times are texts."""
    return samples.definitions(*verbs, types={"ResponseTimeout": "String", "TimeToLive": "String"}, **options)


def settings(*verbs: Verb, reliable: bool = True, **changes: Any) -> RequestSettings:
    """Requests to queue://requests: Create waits for no reply, all other verbs do, on queue://replies.

    Args:
        verbs: more of them, with their application-specific information.
        reliable: whether messages are persistent.
        changes: of the settings.
    """
    entries = [
        OutputEntry(f"Customer_{verb}", "Customer", verb, properties={"ResponseTimeout": "120000"})
        for verb in ("Retrieve", *(verb.name for verb in verbs))
    ]
    made = RequestSettings(
        definitions=definitions(*verbs),
        rules=StaticMetaObject("MO_Config", (), {"OutputDestination": str(REQUESTS)}, entries),
        handlers=(HandlerSpec("application/json", "JsonHandler", "connector.datahandlers.json_handler"),),
        default_handler="application/json",
        persistent=reliable,
        connector=samples.SECTION,
    )
    keys = {"reply_to_destination": REPLIES, "session_pool_size_for_requests": 50, "error_destination": LATE}
    return samples.changed(made, **{**keys, **changes})


@dataclass
class Replying:
    """A session that replies, as an application does.

    Args:
        session: to send with.
        mode: delivery mode of the replies.
    """

    session: Session
    mode: int

    def reply(
        self,
        request: Message,
        body: object = None,
        result: PropertyValue | None = "VALCHANGE",
        *,
        property: str = "ResponseResult",
        correlation_id: str | None = None,
        message_class: str = "T",
        type: str | None = None,
        properties: Mapping[str, PropertyValue] | None = None,
        to: str | None = None,
    ) -> str:
        """Sends a reply to a request: bytes as they are, None = empty, all else as JSON."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        message = Message(data, message_class, type=type, delivery_mode=self.mode)
        message.correlation_id = request.message_id if correlation_id is None else correlation_id
        for name, value in (properties or {}).items():
            message.set_property(name, value)
        if result is not None:
            message.set_property(property, result)
        return self.session.send(to or request.reply_to or "", message)


def body_of(message: Message) -> Any:
    """What a request says."""
    return json.loads(message.body)


def greet(request: ReceivedMessage, replying: Replying) -> None:
    """The answer that can only be right for one request: its own number, in the name."""
    number = body_of(request)["CustomerId"]
    if request.reply_to:
        replying.reply(request, {"CustomerId": number, "Name": f"name of {number}"})


def is_greeted(result: RequestResult, number: object) -> bool:
    """Whether it is the answer of :func:`greet` to the request with this number."""
    found = (result.status.name, result.object["CustomerId"], result.object["Name"])
    return found == ("VALCHANGE", str(number), f"name of {number}")


def all_greeted(futures: Sequence[Future[RequestResult]]) -> bool:
    """Whether requests with the numbers from 0 up each have the answer of :func:`greet`, in time."""
    return all(is_greeted(result, number) for number, result in enumerate(done(futures)))


class Application:
    """Takes requests in a thread and answers them.

    Args:
        provider: where.
        answer: what it does with each.
        queue: where the requests come from, ``queue://requests``, or a topic.
    """

    def __init__(self, provider: Provider, answer: Answer = greet, queue: str = str(REQUESTS)) -> None:
        self.requests: list[ReceivedMessage] = []
        self._answer = answer
        self._stop = threading.Event()
        self._connection = connected(provider)
        self._session = self._connection.session()
        self._consumer = self._session.consumer(queue)
        mode = PERSISTENT if provider.capabilities.reliable else NON_PERSISTENT
        self._replying = Replying(self._session, mode)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                request = self._consumer.receive(timeout=0.1)
                if request is not None:
                    self.requests.append(request)
                    self._answer(request, self._replying)
        except Exception as error:
            if not self._stop.is_set():
                self._error = error

    def is_alive(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Ends it; raises what it has failed with."""
        self._stop.set()
        self._consumer.close()  # which ends a wait for the next request
        self._thread.join()
        self._connection.close()
        if self._error is not None:
            raise self._error


@dataclass
class World:
    """What a test plays with.

    Args:
        provider: with all messages.
        root: of a dropbox.
        clients: that were made.
    """

    provider: Provider
    root: Path
    clients: list[RequestClient] = field(default_factory=list)
    _ends: list[Callable[[], object]] = field(default_factory=list)
    _looking: Connection | None = None

    @property
    def reliable(self) -> bool:
        return self.provider.capabilities.reliable

    @property
    def is_broker(self) -> bool:
        return self.provider.capabilities.transactions

    @property
    def mode(self) -> int:
        return PERSISTENT if self.reliable else NON_PERSISTENT

    def client(
        self,
        *verbs: Verb,
        connect: Callable[[], Connection] | None = None,
        capabilities: Capabilities | None = None,
        **changes: Any,
    ) -> RequestClient:
        """A request client, of the settings above, with changes."""
        made = RequestClient(
            settings(*verbs, reliable=self.reliable, **changes),
            connect or self.provider.connect,
            capabilities or self.provider.capabilities,
            str(REPOSITORY),
        )
        self._ends.append(made.stop)
        self.clients.append(made)
        return made

    def application(self, answer: Answer = greet, queue: str = str(REQUESTS)) -> Application:
        """An application that runs until the test ends."""
        made = Application(self.provider, answer, queue)
        self._ends.append(made.end)
        return made

    def session(self) -> Session:
        """A session of somebody else's."""
        connection = connected(self.provider)
        self._ends.append(connection.close)
        return connection.session()

    def replying(self) -> Replying:
        """To reply from the test itself."""
        return Replying(self.session(), self.mode)

    def send(self, queue: Destination, *messages: Message) -> list[str]:
        """Sends messages as they are."""
        for message in messages:
            message.delivery_mode = self.mode
        return self.looking.send(queue, messages)

    def block(self, queue: Destination) -> None:
        """Lets nothing be sent to a queue."""
        if isinstance(self.provider, MemoryProvider):
            self.provider.refuse(queue)
        elif isinstance(self.provider, LentProvider):
            self.provider.broker.refused.add(queue.name)
        else:
            self.looking.check()
            self.root.joinpath(queue.name).write_text("a file where the queue should be")

    @property
    def looking(self) -> Connection:
        """A connection that looks at queues, and sends."""
        if self._looking is None:
            self._looking = self.provider.connect()
            self._ends.append(self._looking.close)
        return self._looking

    def browse(self, queue: Destination) -> list[Message]:
        """The messages of a queue."""
        with suppress(UnknownDestination):
            return list(self.looking.browse(queue))
        return []

    @property
    def requests(self) -> list[Message]:
        """The requests that nobody has taken."""
        return self.browse(REQUESTS)

    @property
    def replies(self) -> list[Message]:
        """The messages that wait on the reply queue."""
        return self.browse(REPLIES)

    @property
    def late(self) -> list[Message]:
        """The replies that were put aside."""
        return self.browse(LATE)

    def request_on_queue(self, queue: Destination = REQUESTS) -> Message:
        """The request that is sent, or will be in a moment."""
        return self.requests_on_queue(1, queue)[0]

    def requests_on_queue(self, count: int, queue: Destination = REQUESTS) -> list[Message]:
        """As many requests, when they have been sent."""
        wait_for(lambda: len(self.browse(queue)) >= count, what=f"{count} requests on {queue}")
        return self.browse(queue)

    def end(self) -> None:
        for end in reversed(self._ends):
            end()


def watched(connection: Connection, look: Callable[[], object]) -> Connection:
    """A real connection that calls a function before each look for messages."""
    make = connection.poller

    def poller(*arguments: Any, **options: Any) -> Poller:
        made = make(*arguments, **options)
        claim = made.claim

        def look_and_claim(cycle: int, numbers: range) -> Sequence[Claim]:
            look()
            return claim(cycle, numbers)

        made.claim = look_and_claim  # type: ignore[method-assign]
        return made

    connection.poller = poller  # type: ignore[method-assign]
    return connection


@contextmanager
def a_world(kind: str, directory: Path, **options: Any) -> Iterator[World]:
    """A world on a provider; ended at the end."""
    root = directory / "root"
    provider: Provider
    if kind == "dropbox":
        provider = DropboxProvider(root, create=True, **{"durable": False, **options})
    elif kind == "broker":
        provider = ProviderForRequests(root / "state", **options)
    else:
        provider = MemoryProvider(**options)
    world = World(provider, root)
    try:
        yield world
    finally:
        world.end()


def connected(provider: Provider) -> CoreConnection:
    """A connection of a program."""
    if isinstance(provider, RemoteProvider):
        return BrokerMessagingConnection(provider)
    return CoreConnection(provider)


def customer(number: object, **meta: Any) -> dict[str, Any]:
    """The data of a request; ``meta`` is its dynamic meta-object."""
    return {"CustomerId": str(number), **({"Meta": meta} if meta else {})}


def ask(
    client: RequestClient, number: Any, timeout: int | None = None, told: list[Any] | None = None, **meta: Any
) -> Future[RequestResult]:
    """Makes a request with a number and a dynamic meta-object. ``told`` gets the number when it completes."""
    future = client.request_async("Customer.Retrieve", customer(number, **meta), timeout=timeout)
    if told is not None:
        future.add_done_callback(lambda _: told.append(number))
    return future


def done(futures: Sequence[Future[RequestResult]], patience: float = PATIENCE) -> list[RequestResult]:
    """The results of requests, which all complete in time."""
    deadline = time.monotonic() + patience
    return [future.result(max(0.0, deadline - time.monotonic())) for future in futures]
