"""Duplicate event elimination through poll cycles (WBI Adapter for JMS, "DEE")."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import cast

import pytest

from connector.messaging.destination import parse_destination
from connector.service.assembly import make_provider
from connector.state.duplicates import DuplicateWindow
from connector.testing.deployment import InProcessAdapter
from tests.events.conftest import ORDER, Bench, EventDeployment, customer, serving
from tests.tables import rows
from tests.waiting import wait_for


def again(identity: str, number: int) -> str:
    """Another file of the same message id."""
    return f"4.{identity}.T....copy{number}"


def kinds(adapter: InProcessAdapter) -> Counter[tuple[str, str]]:
    return Counter((e["id"], e["outcome"]) for e in adapter.summary.as_dict()["events"])


@rows("quantity", [1, 2, 100])
@rows("parallelism", [1, 3])
def test_copies_of_one_message_are_published_once(bench: Bench, quantity: int, parallelism: int) -> None:
    """Within one poll, and in the batch that is claimed while the job of the first runs."""
    deployment = bench.deploy(DuplicateEventElimination=True, PollQuantity=quantity, order="none")
    for number in range(4):
        for identity in ("x", "y"):
            deployment.drop("customers", customer(), again(identity, number))
    adapter = deployment.drain(parallelism=parallelism)
    assert sorted(bench.called()) == ["ID:x", "ID:y"]
    expected = {"published": 1, "duplicate": 3}
    assert kinds(adapter) == {(i, kind): n for i in ("ID:x", "ID:y") for kind, n in expected.items()}
    found = Counter(m.properties["connector_outcome"] for m in deployment.messages("archive"))
    assert found == {"published": 2, "duplicate": 6}


@rows("quantity", [1, 2, 100])
@rows("first, kind", [("a: fail x", "failed"), ("a: unsubscribed", "unsubscribed")])
def test_a_second_copy_runs_where_the_first_one_was_not_published(
    bench: Bench, quantity: int, first: str, kind: str
) -> None:
    deployment = bench.deploy(DuplicateEventElimination=True, PollQuantity=quantity)
    for number, name in enumerate((first, "", "")):
        deployment.drop("customers", customer(name), again("x", number))
    adapter = deployment.drain()
    assert kinds(adapter) == {("ID:x", one): 1 for one in (kind, "published", "duplicate")}
    assert deployment.names("customers") == []


def test_an_id_elsewhere_is_another_message(bench: Bench) -> None:
    deployment = bench.deploy(DuplicateEventElimination=True)
    with deployment.running() as adapter:
        for queue, body in (("customers", customer()), ("orders", ORDER)):
            deployment.drop(queue, body, again("x", 0))
        adapter.drain()
    assert bench.called() == ["ID:x", "ID:x"]
    assert adapter.summary.total.published == 2


def test_a_copy_of_an_earlier_version_with_a_bare_name_is_a_duplicate_when_it_comes_back(
    bench: Bench,
) -> None:
    deployment = bench.deploy(DuplicateEventElimination=True)
    deployment.drop("customers", customer(), "4.orders%2Ecsv.B.....JMS_dropboxmq_bareB=true")
    with deployment.running() as adapter:
        adapter.drain()
        deployment.move("archive", "customers")
        adapter.drain()
    assert kinds(adapter) == {("orders.csv", "published"): 1, ("orders.csv", "duplicate"): 1}
    properties = deployment.properties("archive", "orders.csv")
    expected = {"outcome": "duplicate", "reason": "it was published before", "attempts": 0}
    assert {name: properties[f"connector_{name}"] for name in expected} == expected


@contextmanager
def neighbour(deployment: EventDeployment) -> Iterator[DuplicateWindow]:
    """The window of a living neighbour, which has the message ID:x of the customers in flight."""
    provider = make_provider(deployment.configuration)
    with closing(provider.connect("test", "neighbour")) as connection:
        window = provider.state("test").window(connection.client_id, 100)
        window.reserve([X])
        yield cast(DuplicateWindow, window)


X = "queue://customers|ID:x"


def test_a_copy_of_what_a_neighbour_has_in_flight_goes_back_until_that_is_known(bench: Bench) -> None:
    deployment = bench.deploy(DuplicateEventElimination=True, order="none")
    for identity in ("x", "y"):
        deployment.drop("customers", customer(), again(identity, 0))
    with neighbour(deployment) as window, deployment.running() as adapter:
        report = adapter.poll()
        assert (report.claimed, report.settled, bench.called()) == (2, 1, ["ID:y"])
        assert deployment.deliveries("customers") == [("ID:x", 1)]
        window.release()
        adapter.poll()
    assert bench.called() == ["ID:y", "ID:x"]


def in_group(identity: str, group: str) -> str:
    return f"4.{identity}.T.....JMSXGroupIDS={group}" if group else f"4.{identity}.T"


@rows(
    "order, groups, meanwhile, afterwards",
    [
        ("destination", {"w": "", "x": "", "y": "", "z": ""}, "w", "xyz"),
        ("destination", {"x": "g", "y": "h"}, "", "xy"),
        ("group", {"w": "g", "x": "g", "y": "g", "z": "h"}, "wz", "xy"),
        ("group", {"x": "g", "v": "", "y": "g", "z": "g"}, "v", "xyz"),
        ("group", {"x": "", "y": "", "z": "h"}, "yz", "x"),
        ("none", {"x": "g", "y": "g", "z": "h"}, "yz", "x"),
    ],
)
def test_what_is_behind_a_copy_that_a_neighbour_has_in_flight_waits_for_it(
    bench: Bench, order: str, groups: dict[str, str], meanwhile: str, afterwards: str
) -> None:
    deployment = bench.deploy(DuplicateEventElimination=True, order=order)
    for identity, of in groups.items():
        deployment.drop("customers", customer(), in_group(identity, of))
    with neighbour(deployment) as window, deployment.running() as adapter:
        for _ in range(2):
            adapter.poll()
        assert sorted(bench.called()) == [f"ID:{one}" for one in meanwhile]
        assert deployment.deliveries("customers") == [(f"ID:{one}", 1) for one in afterwards]
        window.release()
        adapter.drain()
    assert bench.called()[len(meanwhile) :] == [f"ID:{one}" for one in afterwards]


def test_what_goes_back_is_free_for_a_neighbour(bench: Bench) -> None:
    """Although other events still run."""
    deployment = bench.deploy(DuplicateEventElimination=True, order="group")
    deployment.drop("customers", customer("a: wait-for gate"), in_group("a", "h"))
    for identity in ("x", "y"):
        deployment.drop("customers", customer(), in_group(identity, "g"))
    keys = [f"queue://customers|ID:{one}" for one in "ay"]
    with neighbour(deployment) as window, deployment.running(parallelism=2) as adapter, serving(adapter):
        wait_for((deployment.directory / "waiting").exists, what="the event that runs")
        busy = window.reserve(keys)
        deployment.write("gate", "")
    assert (busy, bench.called()) == ({keys[0]}, ["ID:a"])


def test_a_drain_takes_over_from_a_neighbour_that_dies_with_a_copy_in_flight(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connector.events.drain._RECOVERY_SECONDS", 0.0)
    deployment = bench.deploy(DuplicateEventElimination=True)
    deployment.drop("customers", customer(), again("x", 0))
    provider = make_provider(deployment.configuration)
    victim = provider.connect("test", "neighbour")
    claim = victim.poller(parse_destination("queue://customers")).take(1, 0)
    window = provider.state("test").window(victim.client_id, 100)
    assert claim is not None
    assert window.reserve([claim.duplicate_key]) == set()
    deployment.drop("customers", customer(), again("x", 1))
    reserve = DuplicateWindow.reserve

    def die(self: DuplicateWindow, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        busy = reserve(self, keys, held)
        if busy:  # the adapter has met its key
            victim.abandon()
        return busy

    monkeypatch.setattr(DuplicateWindow, "reserve", die)
    adapter = deployment.drain()
    assert kinds(adapter) == {("ID:x", "published"): 1, ("ID:x", "duplicate"): 1}


def test_two_draining_adapters_do_not_wait_for_another(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has in flight what the other wants, and would hold it for as long as the other does."""
    deployment = bench.deploy(DuplicateEventElimination=True, PollQuantity=1, order="destination")
    for identity in ("x", "y", "z"):
        deployment.drop("customers", customer(), again(identity, 0))
    reserve, release = DuplicateWindow.reserve, DuplicateWindow.release
    met: list[set[str]] = []

    def note(self: DuplicateWindow, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        met.append(reserve(self, keys, held))
        return met[-1]

    def release_both(self: DuplicateWindow, client_id: str | None = None) -> None:
        """The neighbour goes on as soon as the adapter has met its key, and has no key in flight."""
        release(self, client_id)
        if any(met) and self is not window:
            window.release()

    with neighbour(deployment) as window:
        monkeypatch.setattr(DuplicateWindow, "reserve", note)
        monkeypatch.setattr(DuplicateWindow, "release", release_both)
        deployment.drain()
    assert met[0] == {X}
    assert bench.called() == ["ID:x", "ID:y", "ID:z"]
