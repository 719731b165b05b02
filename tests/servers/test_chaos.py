"""Events and requests go on while adapters and the broker are killed, and connections are cut."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from operator import gt
from typing import TYPE_CHECKING, Final

import pytest

import connector
from connector.events import redeliveries
from tests.proxy import Proxy, proxy_to
from tests.servers.asking import asking, calls, is_named, serving
from tests.servers.conftest import RETRIES

if TYPE_CHECKING:
    from connector.requests.result import RequestResult
    from tests.runs import Run
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_EACH: Final = 2
"""How often each thing is killed or cut."""
_BATCH: Final = 10
"""Events that are sent before each kill or cut."""
_SENT: Final = 3 * _EACH * _BATCH
_INSTANCES: Final = 2
_WORKERS: Final = 2
_CALLERS: Final = 2
"""Threads of each client."""
_TIMEOUT: Final = 5000
"""Milliseconds of a request. Some are lost with a connection."""
_LATER: Final = 0.7
"""How often events and answers come before the next kill or cut. The others hit adapters that begin."""


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


def cause_chaos(
    seed: int, broker: Broker, server: BrokerDeployment, proxy: Proxy, statuses: Counter[str]
) -> list[Run]:
    """Kills and cuts in a random order. Sends events before each, and waits until all are called.

    Args:
        seed: of the order.
        server: the deployment of the adapters.
        proxy: between the adapters and the broker.
        statuses: of the requests.

    Returns:
        the adapters that run then.
    """
    choices = random.Random(seed)
    adapters = [server.start() for _ in range(_INSTANCES)]

    def kill_adapter() -> None:
        number = choices.randrange(_INSTANCES)
        adapters[number].kill_everything()
        adapters[number] = server.start()

    def kill_broker() -> None:
        broker.kill()
        broker.start()

    def progress() -> tuple[int, int]:
        """How many events were called, and how many requests have their answers."""
        events = sum(customer.isdecimal() for customer, _ in server.calls())
        return events, statuses["VALCHANGE"]

    def has_gone_on(before: tuple[int, int]) -> bool:
        return all(map(gt, progress(), before))

    actions: list[Callable[[], None]] = [kill_adapter, kill_broker, proxy.cut] * _EACH
    choices.shuffle(actions)
    for number, action in enumerate(actions):
        before = progress()
        server.fill(_BATCH, first=number * _BATCH)
        if choices.random() < _LATER:
            server.wait_for(partial(has_gone_on, before), "work")
        time.sleep(choices.uniform(0.0, 1.0))  # a killer needs a pause
        action()
    server.wait_for_calls(_SENT)
    answered = statuses["VALCHANGE"]
    server.wait_for(lambda: statuses["VALCHANGE"] > answered + 4, "answers after the last cut")
    return adapters


@pytest.mark.process
@pytest.mark.timeout(900)  # many starts of an adapter and of a broker, on a busy machine
def test_nothing_is_lost_and_no_answer_is_wrong_in_chaos(
    broker: Broker, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or secrets.randbelow(1 << 32))
    print(f"CHAOS_SEED={seed} makes this order again")
    with proxy_to(broker.port) as proxy:
        server = serving(broker, deploy, port=proxy.port, **RETRIES)
        askers = [
            asking(broker, deploy, server.input, port=proxy.port, late_replies="discard", **replies)
            for replies in ({}, {"ReplyToDestination": "queue://NAME.replies"})
        ]
        files = [asker.directory / "adapter.yaml" for asker in askers]
        with connector.Adapter.from_file(files[0]) as one, connector.Adapter.from_file(files[1]) as other:
            clients = Clients(one, other)
            try:
                adapters = cause_chaos(seed, broker, server, proxy, clients.statuses)
            finally:
                clients.stop()
        for adapter in adapters:
            adapter.stop()
        assert clients.wrong == []
        monkeypatch.setattr(redeliveries, "_PATIENCE", 0.0)  # an entry of an expired request stays a minute
        check(server)


def check(server: BrokerDeployment) -> None:
    """Checks that each event was published once, and called again only after a kill or a cut."""

    def is_drained() -> bool:
        server.work()
        return server.leftovers() == []

    server.wait_for(is_drained, "that nothing is left")
    for queue in (server.input, "DLQ", server.error, f"connector.{server.name}.held"):
        assert server.bodies(queue) == [], queue
    archived = Counter(server.customers(server.archive))
    assert {number: count for number, count in archived.items() if count > 1} == {}
    events = {str(number) for number in range(_SENT)}
    called = calls(server)
    assert (events - set(archived), events - set(called)) == (set(), set())
    again = {customer: count for customer, count in called.items() if count > 1}
    assert sum(again.values()) - len(again) <= 3 * _EACH * _INSTANCES * _WORKERS, again
    for customer in again:  # a second call says that it is one
        counts = [delivery for name, delivery in server.calls() if name == customer]
        assert counts == sorted(set(counts)), (customer, counts)
