"""The connection to a broker ends at a chosen moment of a request: a call goes on, or was not sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import pytest

from connector.brokers.engine.silence import BrokerSilent
from connector.businessobjects.definition import Verb
from connector.errors import ProviderError, SubscriptionError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.requests.client import RequestClient
from connector.requests.reply_listener import ReplyListener
from connector.requests.result import RequestResult
from connector.requests.settings import CORRELATION_ID
from connector.status import ReturnCode
from tests.brokers.engine.broker import BrokerError
from tests.brokers.engine.provider import ClientSession, LentProvider
from tests.requests.samples import matching
from tests.requests.test_provider_gone import BROKERED, LONG, end_connections
from tests.requests.world import PATIENCE, REPLIES, World, body_of, customer, done, is_greeted
from tests.waiting import wait_for

FIND: Final = Verb("Find", "response_selector=Who = '{1}':CustomerId")
WAYS: Final = ("id", "selector", "token")
"""How a reply finds its call."""
ELSEWHERE: Final = "queue://elsewhere"

pytestmark = BROKERED
by_each_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def consumers(monkeypatch: pytest.MonkeyPatch) -> Consumers:
    return Consumers(monkeypatch)


class Consumers:
    """The consumers that clients make at the reply destination, each after the next of some failures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.failures: list[Callable[[ClientSession], object]] = []
        make = ClientSession.receiver

        def receiver(session: ClientSession, source: Any, *arguments: Any) -> Any:
            if source == REPLIES:
                if self.failures:
                    self.failures.pop(0)(session)
                self.made += 1
            return make(session, source, *arguments)

        monkeypatch.setattr(ClientSession, "receiver", receiver)


def silence(session: ClientSession) -> None:
    raise BrokerSilent(f"{REPLIES} cannot be received from")


def end(session: ClientSession) -> None:
    session._session._connection.close()
    raise BrokerError("the connection has ended")


def refuse(session: ClientSession) -> None:
    raise BrokerError("another client has the queue for itself")


def forget(session: ClientSession) -> None:
    raise UnknownDestination(f"there is no {REPLIES}")


def client_of(world: World, way: str, **changes: Any) -> RequestClient:
    """A client whose connection is open. Its replies are found in one way."""
    if way == "token":
        changes["reply_matching"] = matching(CORRELATION_ID)
    client = world.client(FIND, **changes)
    opened = customer("first", ReplyToDestination=ELSEWHERE, TimeToLive="1")
    assert not client.request("Customer.Retrieve", opened, timeout=1).good
    return client


def ask(
    client: RequestClient, way: str, number: int, timeout: int = LONG, **meta: Any
) -> Future[RequestResult]:
    verb = "Find" if way == "selector" else "Retrieve"
    return client.request_async(f"Customer.{verb}", customer(number, **meta), timeout=timeout)


def sent(world: World) -> dict[str, Message]:
    """The requests that nobody has taken, by number."""
    return {body_of(request)["CustomerId"]: request for request in world.requests}


def is_answered(world: World, way: str, future: Future[RequestResult], number: int = 1) -> bool:
    """Answers a request. Returns whether its call gets the answer."""
    request = wait_for(lambda: sent(world).get(str(number)), what="the request")
    data = {"CustomerId": str(number), "Name": f"name of {number}"}
    keys: dict[str, Any] = {
        "id": {},
        "token": {"correlation_id": request.correlation_id},
        "selector": {"correlation_id": "", "properties": {"Who": str(number)}},
    }
    world.replying().reply(request, data, **keys[way])
    return is_greeted(done([future])[0], number)


@by_each_way
@pytest.mark.parametrize("failure", [silence, end])
def test_a_call_goes_on_although_its_consumer_is_not_made_again_at_once(
    world: World, consumers: Consumers, way: str, failure: Callable[[ClientSession], object]
) -> None:
    future = ask(client_of(world, way), way, 1)
    wait_for(lambda: "1" in sent(world) and consumers.made, what="the call waits")
    consumers.failures += [failure, failure]
    end_connections(world)
    wait_for(lambda: consumers.made == 2, what="another consumer")
    assert is_answered(world, way, future)


@by_each_way
@pytest.mark.parametrize("failure", [silence, end])
def test_a_call_begins_although_its_first_consumer_is_not_made(
    world: World, consumers: Consumers, way: str, failure: Callable[[ClientSession], object]
) -> None:
    client = client_of(world, way)
    consumers.failures.append(failure)
    assert is_answered(world, way, ask(client, way, 1))


@by_each_way
def test_a_refusal_of_the_broker_ends_the_calls_of_its_queue_and_no_other(
    world: World, consumers: Consumers, way: str
) -> None:
    client = client_of(world, way)
    for number, (failure, reason) in enumerate(
        [(refuse, "another client has the queue for itself"), (forget, f"there is no {REPLIES}")]
    ):
        other = ask(client, way, 10 + number, ReplyToDestination=ELSEWHERE)
        refused = ask(client, way, number)
        wait_for(lambda: len(sent(world)) == 2 * number + 2, what="both are sent")  # noqa: B023
        wait_for(lambda: consumers.made > number, what="the consumer of the call")  # noqa: B023
        consumers.failures.append(failure)
        end_connections(world)
        (result,) = done([refused])
        assert result.status is ReturnCode.APPRESPONSETIMEOUT
        assert reason in (result.message or "")
        assert is_answered(world, way, other, 10 + number)


def test_a_sent_call_goes_on_if_its_consumer_had_to_be_made_again_just_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumers of destinations that nobody uses end, and a request is not used until it is expected."""
    client = client_of(world, "token")
    take_from, taken = ReplyListener.take_from, 0

    def forget_and_take(listener: ReplyListener, *arguments: Any) -> None:
        nonlocal taken
        taken += 1
        if taken == 2:
            listener._sources.destinations.clear()
            raise ProviderError("the connection has ended, and the next one, too")
        take_from(listener, *arguments)

    monkeypatch.setattr(ReplyListener, "take_from", forget_and_take)
    future = ask(client, "token", 1)
    wait_for(lambda: taken == 2, what="the request is sent")
    end_connections(world)
    assert is_answered(world, "token", future)


# -- temporary queues ----------------------------------------------------------------------------------------


def connection_of(client: RequestClient) -> object:
    return client._listener._receiver


@pytest.mark.parametrize("way", ["id", "selector"])
def test_a_request_whose_temporary_queue_has_ended_is_not_sent(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    client = client_of(world, way, reply_to_destination=None)
    temporary = ReplyListener.temporary

    def make_and_end(listener: ReplyListener, *, shared: bool) -> Destination:
        made = temporary(listener, shared=shared)
        end_connections(world)
        return made

    with monkeypatch.context() as moment:
        moment.setattr(ReplyListener, "temporary", make_and_end)
        (result,) = done([ask(client, way, 1)])
    assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert "has ended" in (result.message or "")
    assert is_answered(world, way, ask(client, way, 2), 2)
    assert "1" not in sent(world)


@pytest.mark.parametrize("way", ["id", "selector"])
def test_a_sent_call_is_told_that_its_temporary_queue_has_ended_just_then(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    client = client_of(world, way, reply_to_destination=None)
    await_reply, awaited = ReplyListener.await_reply, threading.Event()

    def end_and_await(listener: ReplyListener, *arguments: Any) -> None:
        before = connection_of(client)
        end_connections(world)
        wait_for(lambda: connection_of(client) not in (None, before), what="another connection")
        await_reply(listener, *arguments)
        awaited.set()

    monkeypatch.setattr(ReplyListener, "await_reply", end_and_await)
    (result,) = done([ask(client, way, 1)])
    assert awaited.wait(PATIENCE)
    assert (result.status, result.not_sent) == (ReturnCode.APPRESPONSETIMEOUT, False)
    assert "1" in sent(world)


@pytest.mark.parametrize("way", ["id", "selector"])
def test_a_new_request_gets_a_temporary_queue_of_a_new_connection(world: World, way: str) -> None:
    client = client_of(world, way, reply_to_destination=None)
    for number in range(20):
        assert is_answered(world, way, ask(client, way, number), number)
        end_connections(world)


# -- before a request is sent --------------------------------------------------------------------------------


def test_a_request_that_was_not_sent_for_a_broker_that_is_away_may_be_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(world.provider, LentProvider)
    clients = [client_of(world, "id", reply_to_destination=reply_to) for reply_to in (None, REPLIES)]
    assert sent(world) == {}

    def refuse_connection() -> object:
        raise BrokerError("nobody listens")

    with monkeypatch.context() as moment:
        moment.setattr(world.provider.broker, "connect", refuse_connection)
        end_connections(world)
        for client in clients:
            for verb in ("Retrieve", "Create"):
                result = client.request(f"Customer.{verb}", customer(0))
                assert (result.status, result.not_sent) == (ReturnCode.APPRESPONSETIMEOUT, True)
                assert "was not sent" in (result.message or "")
    for number, client in enumerate(clients, 1):
        assert is_answered(world, "id", ask(client, "id", number), number)
    assert sorted(sent(world)) == ["1", "2"]


def test_the_arrivals_of_a_broker_tell_a_refusal_from_a_failure_and_from_silence(
    world: World, consumers: Consumers
) -> None:
    assert isinstance(world.provider, LentProvider)
    connection = world.provider.connect()
    arrivals = connection.arrivals(1000)
    refusals = {refuse: SubscriptionError, forget: UnknownDestination}
    failures = {**refusals, silence: ProviderError, end: ProviderError}
    for one in (True, False):
        for failure, expected in failures.items():
            if connection.broker.failure is not None:
                connection = world.provider.connect()
                arrivals = connection.arrivals(1000)
            consumers.failures.append(failure)
            with pytest.raises(expected):
                arrivals.add(REPLIES, "", one=one)
    connection.close()
