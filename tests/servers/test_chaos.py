"""Events and requests go on while adapters and the broker are killed, and connections are cut."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections import Counter
from functools import partial
from operator import gt
from typing import TYPE_CHECKING, Final

import pytest

import connector
from tests.proxy import Proxy, proxy_to
from tests.servers.asking import asking, calls, is_named, serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from connector.requests.result import RequestResult
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_SECONDS: Final = 12.0
_BATCH: Final = 10
"""Events that are sent before each kill or cut."""
_INSTANCES: Final = 2
_WORKERS: Final = 2
_CALLERS: Final = 2
"""Threads of each client."""
_TIMEOUT: Final = 5000
"""Milliseconds of a request. Some are lost with a connection."""
_LATER: Final = 0.7
"""How often events and answers come before the next kill or cut. The others hit adapters that begin."""
_RETRIES: Final = {"RestartRetryCount": 1000, "RestartRetryInterval": 0.01}


class Clients:
    """Threads that make requests, each after the answer to the one before.

    Args:
        adapters: that make the requests.
    """

    def __init__(self, *adapters: connector.Adapter) -> None:
        self._stop = threading.Event()
        self.statuses: Counter[str] = Counter()
        self.wrong: list[tuple[str, RequestResult]] = []
        self._threads = [
            threading.Thread(target=self._ask, args=(adapter, f"q{number}-{caller}"))
            for number, adapter in enumerate(adapters)
            for caller in range(_CALLERS)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, adapter: connector.Adapter, name: str) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            key = f"{name}-{number}"
            result = adapter.request("Customer.Retrieve", {"CustomerId": key}, timeout=_TIMEOUT)
            self.statuses[result.status.name] += 1
            if not result.good:
                self._stop.wait(0.2)  # as a program that tries later
            elif not is_named(result, key):
                self.wrong.append((key, result))

    def stop(self) -> None:
        """Ends the threads, each after its last answer."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Chaos:
    """Kills and cuts in a random order, and sends events.

    Args:
        seed: of the order.
        broker: it.
        server: the deployment of the adapters.
        proxy: between the adapters and the broker.
        clients: of the adapters.
    """

    def __init__(
        self, seed: int, broker: Broker, server: BrokerDeployment, proxy: Proxy, clients: Clients
    ) -> None:
        self._clients = clients
        self._random = random.Random(seed)
        self._broker = broker
        self._server = server
        self._adapters = [server.start() for _ in range(_INSTANCES)]
        self._actions: dict[str, Callable[[], None]] = {
            "an adapter": self._kill_adapter,
            "the broker": self._kill_broker,
            "the connections": proxy.cut,
        }
        self.sent = 0
        self.done: list[str] = []

    def go_on(self, seconds: float) -> None:
        """Does one thing after the other."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or len(set(self.done)) < len(self._actions):
            before = self._progress()
            self._server.fill(_BATCH, first=self.sent)
            self.sent += _BATCH
            if self._random.random() < _LATER:
                self._server.wait_for(partial(self._has_gone_on, before), "work")
            time.sleep(self._random.uniform(0.0, 1.0))  # a killer needs a pause
            action = self._random.choice(list(self._actions))
            self.done.append(action)
            self._actions[action]()

    def _has_gone_on(self, before: tuple[int, int]) -> bool:
        return all(map(gt, self._progress(), before))

    def _progress(self) -> tuple[int, int]:
        """How many events were called, and how many requests have their answers."""
        events = sum(customer.isdecimal() for customer, _ in self._server.calls())
        return events, self._clients.statuses["VALCHANGE"]

    def _kill_adapter(self) -> None:
        number = self._random.randrange(_INSTANCES)
        self._adapters[number].kill_everything()
        self._adapters[number] = self._server.start()

    def _kill_broker(self) -> None:
        self._broker.kill()
        self._broker.start()

    def stop(self) -> None:
        """Lets all adapters end in order."""
        for adapter in self._adapters:
            adapter.stop()


@pytest.mark.process
@pytest.mark.timeout(900)  # many starts of an adapter and of a broker, on a busy machine
def test_nothing_is_lost_and_no_answer_is_wrong_in_chaos(broker: Broker, deploy: Deploy) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 32))
    print(f"CHAOS_SEED={seed} makes this order again")
    with proxy_to(broker.port) as proxy:
        server = serving(broker, deploy, port=proxy.port, **_RETRIES)
        askers = (
            asking(broker, deploy, server.input, port=proxy.port, late_replies="discard"),
            asking(
                *(broker, deploy, server.input),
                port=proxy.port,
                late_replies="discard",
                ReplyToDestination="queue://NAME.replies",
            ),
        )
        files = [asker.directory / "adapter.yaml" for asker in askers]
        with connector.Adapter.from_file(files[0]) as one, connector.Adapter.from_file(files[1]) as other:
            clients = Clients(one, other)
            try:
                chaos = Chaos(seed, broker, server, proxy, clients)
                chaos.go_on(_SECONDS)
                server.wait_for_calls(chaos.sent)
            finally:
                clients.stop()
            for number, adapter in enumerate((one, other)):
                last = adapter.request("Customer.Retrieve", {"CustomerId": f"last-{number}"}, timeout=60_000)
                assert is_named(last, f"last-{number}"), last.message
        chaos.stop()
        print(f"{chaos.sent} events, requests: {dict(clients.statuses)}, ends: {dict(Counter(chaos.done))}")
        assert clients.wrong == []
        assert clients.statuses["VALCHANGE"] > 0
        check(server, chaos)


def check(server: BrokerDeployment, chaos: Chaos) -> None:
    """Checks that each event was published once, and called again only after a kill or a cut."""

    def is_drained() -> bool:
        server.work()
        return server.leftovers() == []

    server.wait_for(is_drained, "that nothing is left", 180)  # an entry of an expired request stays a minute
    for queue in (server.input, "DLQ", server.error, f"connector.{server.name}.held"):
        assert server.bodies(queue) == [], queue
    archived = Counter(server.customers(server.archive))
    assert {number: count for number, count in archived.items() if count > 1} == {}
    events = {str(number) for number in range(chaos.sent)}
    assert events - set(archived) == set()
    called = calls(server)
    assert events - set(called) == set()
    again = {customer: count for customer, count in called.items() if count > 1}
    assert sum(again.values()) - len(again) <= len(chaos.done) * _INSTANCES * _WORKERS, again
    for customer in again:  # a second call says that it is one
        counts = [delivery for name, delivery in server.calls() if name == customer]
        assert counts == sorted(set(counts)), (customer, counts)
