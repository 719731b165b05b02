"""Requests at a real broker while connections, queues and the broker itself end."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from connector.errors import ConnectorError
from connector.requests.client import RequestClient
from connector.requests.result import RequestResult
from connector.status import ReturnCode
from tests.proxy import proxy_to
from tests.requests.world import REQUESTS, Application, World, customer, is_greeted
from tests.servers.conftest import Broker
from tests.waiting import wait_for

_LONG: Final = 600_000
"""Milliseconds that a call would wait if nothing told it."""


def ends_with_timeout(client: RequestClient, world: World, end: Callable[[], object]) -> None:
    """Checks the result of a call that waits when its connection or its queue ends."""
    call = client.request_async("Customer.Retrieve", customer("lost"), timeout=_LONG)
    world.requests_on_queue(1)
    end()
    assert call.result(_LONG / 2000).status is ReturnCode.APPRESPONSETIMEOUT


@pytest.mark.parametrize("reply_to", ["temporary", "fixed"])
def test_a_call_whose_connection_is_cut_is_told_and_the_next_one_works(
    broker: Broker, world: World, reply_to: str
) -> None:
    changes = {"reply_to": None} if reply_to == "temporary" else {}
    with proxy_to(broker.port) as proxy:
        client = world.client(connect=broker.provider(proxy.port).connect, **changes)
        ends_with_timeout(client, world, proxy.cut)
        world.application()
        for number in range(3):
            assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)
        client.stop()


@pytest.mark.parametrize("reply_to", ["temporary", "fixed"])
def test_a_call_whose_reply_queue_is_removed_is_told_and_the_next_one_works(
    broker: Broker, world: World, reply_to: str
) -> None:
    client = world.client(**({"reply_to": None} if reply_to == "temporary" else {}))
    application = world.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(0)), 0)
    queue = str(application.requests[-1].reply_to).removeprefix("queue://")
    application.end()
    ends_with_timeout(client, world, lambda: broker.remove(queue))
    world.application()
    for number in range(1, 4):
        assert is_greeted(client.request("Customer.Retrieve", customer(number)), number)


@pytest.mark.timeout(900)  # each request is several turns of two processes, on a busy machine
def test_thousands_of_requests_through_kills_of_the_broker_have_their_own_answers(
    broker: Broker, world: World
) -> None:
    """An answer, or an error that says that there is none."""
    callers, total = 20, 3_000
    numbers = iter(range(total))  # for all callers
    statuses: Counter[str] = Counter()
    wrong: list[RequestResult] = []
    serves = threading.Event()
    ends = threading.Event()

    def serve() -> None:
        while not ends.is_set():
            with contextlib.suppress(ConnectorError):  # the broker is away
                application = Application(world.provider)
                serves.set()
                while application.is_alive() and not ends.wait(0.05):
                    pass
                application.end()

    def ask(client: RequestClient) -> None:
        for number in numbers:
            result = client.request("Customer.Retrieve", customer(number), timeout=5000)
            statuses[result.status.name] += 1
            if not result.good:
                ends.wait(0.1)  # as a program that tries later
            elif not is_greeted(result, number):
                wrong.append(result)

    def has_ended(number: int) -> bool:
        return sum(statuses.values()) >= number

    server = threading.Thread(target=serve)
    server.start()
    assert serves.wait(60)
    client = world.client(reply_to=None, pool_size=callers)
    asking = [threading.Thread(target=ask, args=(client,)) for _ in range(callers)]
    for thread in asking:
        thread.start()
    for kill in range(1, 4):
        wait_for(partial(has_ended, kill * total // 5), 600)
        broker.kill()
        broker.start()
    for thread in asking:
        thread.join()
    ends.set()
    server.join()
    assert wrong == []
    assert sum(statuses.values()) == total
    assert statuses["VALCHANGE"] > total / 2, statuses


def test_requests_wait_for_no_broker_that_is_away(broker: Broker, world: World) -> None:
    client = world.client()
    broker.kill()
    result = client.request("Customer.Retrieve", customer(1))
    assert result.status is ReturnCode.APPRESPONSETIMEOUT
    assert "was not sent" in (result.message or "")
    broker.start()
    world.application()
    assert is_greeted(client.request("Customer.Retrieve", customer(2)), 2)
    assert world.browse(REQUESTS) == []
