"""Requests that a business process makes while it handles an event: two adapters talk to each other."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connector.messaging.provider_kind import AdapterProvider
from connector.service.assembly import make_requests, make_task_settings
from tests.events.conftest import IN_MEMORY, Bench, EventDeployment, serving, with_rules

FRONT = """\
import json, os, signal, time

HERE = os.path.dirname(os.path.abspath(__file__))

def note(**values):
    descriptor = os.open(os.path.join(HERE, "answers"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(descriptor, json.dumps({"pid": os.getpid(), **values}).encode() + b"\\n")
    os.close(descriptor)

def ask(customer, event):
    result = event.request("Order.Create", {"Id": customer["CustomerId"]})
    note(id=event.id, count=event.delivery_count, **result.as_dict())
    if customer["Name"] == "die" and event.delivery_count == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if customer["Name"] == "fork":
        ask_in_a_child(event)

def ask_without_waiting(customer, event):
    futures = [event.request_async("Order.Create", {"Id": str(number)}) for number in range(5)]
    note(answers=[future.result(120).as_dict() for future in futures])

def ask_in_vain(customer, event):
    note(count=event.delivery_count)
    event.request("Order.Create", {"Id": "1"}, timeout=60_000)

def ask_in_a_child(event):
    child = os.fork()
    if child == 0:
        try:
            event.request("Order.Create", {"Id": "1"})
        except Exception as error:
            note(error=str(error))
        os._exit(0)
    os.waitpid(child, 0)
"""

BACK = """\
import os

def serve(order, event):
    with open(os.path.join(os.path.dirname(__file__), "askers"), "a") as file:
        print(event.message.reply_to, file=file)
    if order["Id"] == "13":
        raise ValueError("no luck")
    return {"Id": f"seen {order['Id']}"}
"""


class TwoAdapters:
    """One whose processes ask, and one whose process answers, over the same provider."""

    def __init__(self, bench: Bench, directory: Path) -> None:
        self.bench = bench
        self._back = Bench(directory, bench.root)

    def asking(self, process: str, *, timeout: str | None = None, **settings: Any) -> EventDeployment:
        """The deployment whose process asks."""
        subscription = {"object": "Customer", "process": f"processes:{process}", "name": "asking"}
        rules = "  Order_Create: {OutputDestination: queue://asked, ResponseTimeout: 60000}\n"
        return self.bench.deploy(
            subscriptions=[{**subscription, "timeout": timeout} if timeout else subscription],
            objects=with_rules(rules),
            processes=FRONT,
            InputDestination="queue://customers",
            **settings,
        )

    def askers(self) -> set[str]:
        """The queues in which replies were awaited."""
        return set((self._back.directory / "askers").read_text().split())

    @contextmanager
    def answering(self, memory: AdapterProvider | None = None) -> Iterator[None]:
        """Serves while it is open. A memory is shared within this process."""
        deployment = self._back.deploy(
            subscriptions=[{"object": "Order", "process": "processes:serve", "reply": True}],
            processes=BACK,
            provider=IN_MEMORY if memory else None,
            ApplicationName="back",
            InputDestination="queue://asked",
            instance="back",
        )
        deployment._provider = memory
        with deployment.running() as adapter, serving(adapter):
            yield

    def answers(self) -> list[dict[str, Any]]:
        """What the processes that asked have noted."""
        path = self.bench.directory / "answers"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def remains(self) -> list[str]:
        """What clients that have ended have left behind."""
        root = self.bench.root
        queues = [name for name in os.listdir(root) if "temporary" in name]
        return [*queues, *os.listdir(root / "dropboxmq" / "clients")]


ITSELF = """\
def ask(customer, event):
    event.request("Order.Create", {"Id": customer["CustomerId"]}, timeout=60_000)

def serve(order, event):
    return {"Id": f"seen {order['Id']}"}
"""


def test_a_drain_serves_the_requests_of_its_own_processes(bench: Bench) -> None:
    deployment = bench.deploy(
        subscriptions=[
            {"object": "Customer", "process": "processes:ask"},
            {"object": "Order", "process": "processes:serve", "reply": True},
        ],
        objects=with_rules("  Order_Create: {OutputDestination: queue://asked, ResponseTimeout: 60000}\n"),
        processes=ITSELF,
        InputDestination=["queue://customers", "queue://asked"],
    )
    deployment.drop("customers", '{"BusinessObject": "Customer", "CustomerId": "1"}')
    with deployment.running(isolated=True, parallelism=2) as adapter:
        began = time.monotonic()
        assert adapter.drain().settled == 2
    assert time.monotonic() - began < 30


@pytest.fixture
def two(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> TwoAdapters:
    return TwoAdapters(bench, tmp_path_factory.mktemp("back"))


def customer(number: int = 1, name: str = "") -> str:
    return json.dumps({"BusinessObject": "Customer", "CustomerId": str(number), "Name": name})


@pytest.mark.parametrize("isolated", [False, pytest.param(True, marks=pytest.mark.process)])
def test_a_process_asks_another_adapter_and_goes_on_with_its_answer(two: TwoAdapters, isolated: bool) -> None:
    """Also when its worker is killed meanwhile. What the process has forked makes no requests in its name."""
    deployment = two.asking("ask")
    asked = [(1, ""), (13, ""), (2, "die"), (3, "fork")][: 4 if isolated else 2]
    ids = [deployment.send("customers", customer(*one)) for one in asked]
    with two.answering():
        assert {kind for kind, _ in deployment.outcomes(isolated=isolated).values()} == {"published"}
    notes = [note for note in two.answers() if "error" not in note]
    found = [(ids.index(a["id"]), a["count"], a["status"], a["object"], a["message"]) for a in notes]
    expected = [
        (0, 1, "VALCHANGE", {"Id": "seen 1"}, None),
        (1, 1, "FAIL", {"Id": "13"}, "ValueError: no luck"),
    ]
    again = [(2, count, "VALCHANGE", {"Id": "seen 2"}, None) for count in (1, 2)]
    again.append((3, 1, "VALCHANGE", {"Id": "seen 3"}, None))
    assert found == expected + (again if isolated else [])
    refused = "a forked process cannot make requests"
    errors = [note["error"] for note in two.answers() if "error" in note]
    assert [error.startswith(refused) for error in errors] == [True] * isolated
    workers = {note["pid"] for note in notes}
    assert (os.getpid() in workers) is not isolated
    assert len(two.askers()) == len(workers), "each worker has one client for all its requests"
    if isolated:
        deployment.outcomes()  # removes what the killed worker has left
    assert two.remains() == []


def test_a_process_may_have_several_requests_on_their_way_and_memory_will_do(two: TwoAdapters) -> None:
    deployment = two.asking("ask_without_waiting", provider=IN_MEMORY)
    deployment.send("customers", customer())
    with two.answering(deployment.provider):
        deployment.drain()
    (note,) = two.answers()
    assert [answer["object"]["Id"] for answer in note["answers"]] == [f"seen {n}" for n in range(5)]


@pytest.mark.process
def test_the_timeout_of_a_process_counts_while_it_waits_for_a_reply(two: TwoAdapters) -> None:
    deployment = two.asking("ask_in_vain", timeout="1s", max_attempts=2)
    identity = deployment.send("customers", customer())
    ended = "its worker did not return from asking in time and was ended; it was tried 2 times (max_attempts)"
    assert deployment.outcomes(isolated=True) == {identity: ("failed", ended)}
    assert [note["count"] for note in two.answers()] == [1, 2]
    assert two.remains() != []
    deployment.outcomes()  # a neighbour, or the next start, removes what its clients have left
    assert two.remains() == []


def test_what_requests_need_adds_next_to_nothing_to_what_travels_with_every_job(two: TwoAdapters) -> None:
    configuration = two.asking("ask").configuration
    provider = two.bench.deploy().provider
    with closing(provider.connect("test", "one")) as connection:
        requests = make_requests(configuration, provider)
        task_settings = make_task_settings(configuration, provider, connection.access(), requests)
    alone = len(pickle.dumps(replace(task_settings, requests=None), protocol=5))
    assert len(pickle.dumps(task_settings, protocol=5)) - alone < 2200
    assert pickle.loads(pickle.dumps(task_settings)).requests is not None
