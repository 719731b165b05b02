"""What a stop makes of requests: each completes, and nothing is sent any more."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest

from connector.brokers.engine.connection import RemoteConnection
from connector.core.session import sole_session
from connector.errors import ProviderError
from connector.messaging.client import AcknowledgeMode
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.requests.result import RequestResult
from connector.requests.sender import Outgoing, Sender
from connector.requests.settings import ListenerIntervals
from connector.status import ReturnCode
from tests.brokers.engine.provider import LentProvider
from tests.requests.world import (
    IN_MEMORY,
    REQUESTS,
    World,
    a_world,
    all_greeted,
    ask,
    customer,
    done,
    is_greeted,
)
from tests.waiting import beside, wait_for


def test_a_stop_completes_what_is_in_flight_and_what_waits_once_each(world: World) -> None:
    client = world.client(pool_size=4)
    completed: list[int] = []
    futures = [ask(client, number, told=completed) for number in range(10)]
    world.requests_on_queue(4)
    client.stop(0.2)
    assert sorted(completed) == list(range(10))
    results = done(futures, 0.0)
    assert [result.not_sent for result in results] == [False] * 4 + [True] * 6
    assert {result.status for result in results[4:]} == {ReturnCode.FAIL}
    assert not any(result.good for result in results)
    assert all(result.message for result in results)
    assert len(world.requests) == 4


def test_a_stop_waits_for_nothing_whatever_the_listener_is_doing(world: World) -> None:
    """Neither for the next look of the listener."""
    for number in range(12):
        client = world.client(intervals=ListenerIntervals(idle=600.0, grace=600.0, takeover=600.0))
        client.request("Customer.Retrieve", customer(number), timeout=0)
        for _ in range(number % 6):
            client.request("Customer.Create", customer(number))
        beside(client.stop).result(120)


@pytest.mark.parametrize("way", ["stop", "refuse"])
@IN_MEMORY
def test_what_waits_for_its_turn_is_told_at_once_though_what_is_in_flight_has_its_reply(
    world: World, way: str
) -> None:
    client = world.client(pool_size=1)
    flying = ask(client, 0)
    request = world.request_on_queue()
    waiting = [ask(client, number) for number in range(5)]
    stopping = beside(partial(client.stop, 120.0) if way == "stop" else client.refuse)
    for result in done(waiting):
        assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert client.request("Customer.Create", customer(3)).not_sent
    assert not flying.done()
    world.replying().reply(request, {"CustomerId": "0", "Name": "name of 0"})
    assert all_greeted([flying])
    stopping.result(120)
    assert len(world.requests) == 1


@IN_MEMORY
def test_nothing_is_sent_after_a_stop(world: World) -> None:
    world.application()
    client, unused = world.client(), world.client()
    assert is_greeted(client.request("Customer.Retrieve", customer(1)), 1)
    client.stop()
    client.stop()
    unused.stop(1.0)
    for one in (client, unused):
        for verb in ("Retrieve", "Create"):
            called = one.request(f"Customer.{verb}", customer(2))
            for result in (called, *done([one.request_async(f"Customer.{verb}", customer(2))])):
                assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
    assert world.requests == world.replies == []


@IN_MEMORY
def test_callers_in_threads_of_their_own_all_return_when_the_client_stops(world: World) -> None:
    world.application()
    client = world.client(pool_size=4)
    results: list[tuple[int, RequestResult]] = []

    def call(first: int) -> None:
        for number in itertools.count(first, 100):
            result = client.request("Customer.Retrieve", customer(number), timeout=600_000)
            results.append((number, result))
            if not result.good:
                return

    calling = [beside(call, number) for number in range(30)]
    wait_for(lambda: len(results) > 60, what="requests go on")
    client.stop(0.1)
    assert [one.exception(120) for one in calling] == [None] * 30
    for number, result in results:
        ended = (result.status, result.not_sent)
        is_told = ended in ((ReturnCode.FAIL, True), (ReturnCode.APPRESPONSETIMEOUT, False))
        assert is_greeted(result, number) if result.good else is_told


def test_a_request_that_a_stop_overtakes_is_told_so_and_connects_to_nothing(world: World) -> None:
    connections: list[Connection] = []

    def connect() -> Connection:
        connections.append(world.provider.connect())
        found = connections[-1]
        return found.session_connection() if isinstance(found, RemoteConnection) else found

    sender = Sender(lambda: sole_session(connect(), AcknowledgeMode.TRANSACTED, world.provider.capabilities))
    message = Message(b"{}", delivery_mode=world.mode)
    sender.send(Outgoing(REQUESTS, message, lambda *_: None))
    sender.close()
    with pytest.raises(ProviderError, match="stopped"):
        sender.send(Outgoing(REQUESTS, message, lambda *_: None))
    assert len(connections) == 1
    assert len(world.requests) == 1


def test_a_client_that_only_sends_leaves_no_connection_behind(tmp_path: Path) -> None:
    with a_world("broker", tmp_path) as world:
        client = world.client()
        assert client.request("Customer.Create", customer(1)).good
        client.stop()
        assert isinstance(world.provider, LentProvider)
        assert [connection for connection in world.provider.broker.connections if not connection.ended] == []
