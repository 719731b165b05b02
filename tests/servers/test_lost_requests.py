"""Requests at real brokers while connections, queues and the broker itself end, and late replies."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from connector.brokers.jms.client import JmsConnection
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.session import JmsSession
from connector.brokers.jms.urls import QPID
from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.requests.client import RequestClient
from connector.status import ReturnCode
from tests.proxy import Link, Proxy, proxy_to
from tests.requests.world import (
    LATE,
    REPLIES,
    REQUESTS,
    World,
    body_of,
    customer,
    is_greeted,
    settings,
)
from tests.servers.broker import PASSWORD, SMALL, USER
from tests.servers.conftest import AT_ARTEMIS, Broker
from tests.waiting import wait_for

_LONG: Final = 600_000
"""Milliseconds that a call would wait if nothing told it."""


def ends_with_timeout(client: RequestClient, world: World, end: Callable[[], object]) -> None:
    """Checks the result of a call that waits when its connection or its queue ends."""
    call = client.request_async("Customer.Retrieve", customer("lost"), timeout=_LONG)
    world.requests_on_queue(1)
    end()
    assert call.result(_LONG / 2000).status is ReturnCode.APPRESPONSETIMEOUT


def test_a_call_whose_connection_or_temporary_queue_is_lost_is_told_and_the_next_one_works(
    broker: Broker, world: World
) -> None:
    with proxy_to(broker.port) as proxy:
        client = world.client(connect=broker.provider(proxy.port).connect, reply_to_destination=None)
        ends_with_timeout(client, world, proxy.cut)
        application = world.application()
        for number in range(3):
            assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
        queue = str(application.requests[-1].reply_to).removeprefix("queue://")
        application.end()
        ends_with_timeout(client, world, lambda: broker.remove(queue))
        world.application()
        for number in range(3, 6):
            assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
        client.stop()


def test_a_call_at_a_reply_destination_goes_on_and_its_late_reply_is_put_aside(
    broker: Broker, world: World
) -> None:
    """Also if the queue is removed, and made again."""
    with proxy_to(broker.port) as proxy:
        client = world.client(connect=broker.provider(proxy.port).connect)
        late = time_out(client, world)
        calls = [client.request_async("Customer.Retrieve", customer(n), timeout=_LONG) for n in (2, 3)]
        wait_for(lambda: len(client._listener._sources.sought) == 3, what="all calls are sent")
        for end in (proxy.cut, lambda: broker.remove(REPLIES.name)):
            end()
            wait_for(lambda: client.request("Customer.Create", customer("new")).good, what="it is connected")
        replying = world.replying()
        replying.reply(late, {"CustomerId": "1", "Name": "late 1"})
        application = world.application()
        for number, call in enumerate(calls, 2):
            assert is_greeted(call.result(_LONG / 2000), number)
        wait_for(lambda: "late 1" in names(world, True), what="the late reply is put aside")
        application.end()
        client.stop()
        assert world.browse(REPLIES) == []


class _Ending(Proxy):
    """A proxy that ends connections as they make a consumer of the replies (AMQP 1.0, 2.7.3)."""

    ends = 0

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        link = Link(client, server)
        request = link.request

        def end_or_pass(data: bytes) -> None:
            if self.ends and b"\x00\x53\x12" in data and REPLIES.name.encode() in data:
                self.ends -= 1
                raise ConnectionResetError
            request(data)

        link.request = end_or_pass  # type: ignore[method-assign]
        return link


def test_a_call_goes_on_while_connections_end_as_they_make_its_consumer(broker: Broker, world: World) -> None:
    world.application()
    with contextlib.closing(_Ending(broker.port)) as proxy:
        client = world.client(connect=broker.provider(proxy.port).connect)
        for number in range(10):
            proxy.ends = 2
            future = client.request_async("Customer.Retrieve", customer(number), timeout=_LONG)
            assert is_greeted(future.result(_LONG / 2000), number)
            assert proxy.ends == 0
        client.stop()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_first_error_of_a_consumer_shows_that_its_connection_has_ended(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before or after its consumer is made. The listener of the connection is told later, if at all."""
    with proxy_to(broker.port) as proxy, contextlib.closing(broker.provider(proxy.port).connect()) as found:
        connection = found.broker
        assert isinstance(connection, JmsConnection)
        connection.java.setExceptionListener(None)

        def has_ended(ask: Callable[[], object]) -> bool:
            with contextlib.suppress(ProviderError), connection.errors("a question"):
                ask()
                return False
            return True

        arrivals, make = found.arrivals(1 << 20), JmsSession._consumer

        def cut_and_make(session: JmsSession, *arguments: Any) -> Any:
            made = make(session, *arguments) if moment == "after" else None
            proxy.cut()
            ask = connection.java.getClientID if made is None else made.getMessageSelector
            wait_for(lambda: has_ended(ask), what="the end")
            connection._failure = None  # nobody has asked
            return made or make(session, *arguments)

        monkeypatch.setattr(JmsSession, "_consumer", cut_and_make)
        with pytest.raises(ProviderError, match="cannot be received from"):
            arrivals.add(REPLIES, "")
        assert connection.failure is not None


@AT_ARTEMIS
def test_a_request_that_a_full_queue_does_not_take_in_time_is_never_sent(
    broker: Broker, world: World
) -> None:
    queue = parse_destination(f"queue://requests{SMALL}")
    rules = settings().rules
    assert rules is not None
    to_full = replace(rules, defaults={"OutputDestination": str(queue)})
    factory = Factory(QPID, f"{broker.url}?jms.sendTimeout=3000", USER, PASSWORD)
    connect = broker.provider(factory=factory).connect
    client = world.client(rules=to_full, reply_to_destination=None, connect=connect)
    world.send(queue, Message(b"in the way", "T"))
    for number in range(2):
        result = client.request("Customer.Retrieve", customer(number), timeout=500)
        assert (result.status, result.not_sent) == (ReturnCode.FAIL, True)
        assert str(queue) in (result.message or "")
    waits = client.request_async("Customer.Retrieve", customer(2), timeout=_LONG)
    world.application()
    assert is_greeted(world.client().request("Customer.Retrieve", customer(3)), 3), "another queue"
    application = world.application(queue=str(queue), answer=lambda request, replying: None)
    wait_for(lambda: len(application.requests) == 2, what="the request that goes on waiting")
    assert [body_of(one)["CustomerId"] for one in application.requests[1:]] == ["2"]
    client.stop()
    assert waits.done()


@AT_ARTEMIS
def test_requests_wait_for_no_broker_that_is_away(broker: Broker, world: World) -> None:
    client = world.client()
    broker.kill()
    result = client.request("Customer.Retrieve", customer(1))
    assert (result.status, result.not_sent) == (ReturnCode.APPRESPONSETIMEOUT, True)
    assert "was not sent" in (result.message or "")
    broker.start()
    world.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2)), 2)
    assert world.browse(REQUESTS) == []


def time_out(client: RequestClient, world: World) -> Message:
    """Makes a request that nobody answers in time. Returns its message."""
    result = client.request("Customer.Retrieve", customer(1, TimeToLive="600000"), timeout=50)
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    return world.request_on_queue()


def names(world: World, late: bool) -> list[str]:
    """The replies of the test that have a copy, or that stay."""
    found = [body_of(one)["Name"] for one in world.browse(LATE if late else REPLIES)]
    return [name for name in found if name.startswith("late")]


@AT_ARTEMIS
def test_a_reply_that_comes_after_late_replies_for_stays_in_its_queue(world: World) -> None:
    client = world.client(late_replies_for=0.2)
    request = time_out(client, world)
    world.application()  # answers it, too, and the later requests
    replying = world.replying()
    sent = 0

    def stays() -> bool:
        """Sends one more late reply. What the client takes is taken when later calls are answered."""
        nonlocal sent
        sent += 1
        replying.reply(request, {"CustomerId": "1", "Name": f"late {sent}"})
        for number in range(3):
            assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
        return f"late {sent}" in names(world, False)

    wait_for(stays, what="a late reply that stays")
    client.stop()
    assert names(world, False) == [f"late {sent}"]
    assert sorted(names(world, True)) == sorted(f"late {number}" for number in range(1, sent))
