"""ContainerManagedEvents: one transaction takes, publishes and settles (WBI Adapter for JMS)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from connector.status import ReturnCode

Bench = Any
Outcomes = Callable[..., dict[str, tuple[str, str]]]
CopyOf = Callable[..., Any]

HANDLER = '''\
"""Writes customers while a shop is open, and never one whose name is bad."""
import os


class Shop:
    mime_types = ("text/shop",)
    options = ()

    def __init__(self, options, definitions):
        pass

    def to_body(self, bo):
        if bo["Name"] == "bad" or os.path.exists("closed"):
            raise RuntimeError("the shop is closed")
        if bo["Name"] == "deadly":
            os._exit(3)
        return "sold"

    def to_business_object(self, body, hint):
        raise NotImplementedError
'''

CRM = {"object": "Customer", "destination": "queue://crm", "name": "crm"}
SHOP = {"object": "Customer", "destination": "queue://shop", "name": "shop", "mime_type": "text/shop"}


def customer(name: str = "") -> str:
    return f'{{"CustomerId": "1", "Name": "{name}"}}'


@pytest.fixture
def managed(bench: Bench) -> Callable[..., Any]:
    """A deployment that sends customers to two queues in one transaction."""

    def deploy(**connector: Any) -> Any:
        deployment = bench.deploy(
            subscriptions=[CRM, SHOP],
            ContainerManagedEvents="JMS",
            more={"datahandlers": "./shop.py"},
            **connector,
        )
        deployment.write("shop.py", HANDLER)
        return deployment

    return deploy


def test_what_is_taken_and_what_is_sent_are_one_commit(
    managed: Callable[..., Any], bench: Bench, outcomes: Outcomes
) -> None:
    deployment = managed(PollQuantity=3)
    for n in range(7):
        deployment.drop("customers", customer(), f"4.{n}.T")
    assert {kind for kind, _ in outcomes(deployment).values()} == {"published"}
    assert (len(deployment.messages("crm")), len(deployment.messages("shop"))) == (7, 7)
    assert deployment.names("customers") == deployment.names("customers", "processing") == []


def test_a_failure_rolls_back_all_of_its_event_and_ends_no_poll(
    managed: Callable[..., Any],
) -> None:
    deployment = managed()
    deployment.drop("customers", customer("bad"), "4.1.T")
    with deployment.running() as adapter:
        report = adapter.poll()
        summary = adapter.summary.as_dict()
    assert (report.code, report.claimed, report.settled, report.rolled_back) == (ReturnCode.SUCCEED, 1, 0, 1)
    assert (summary["claimed"], summary["failed"], summary["events"]) == (0, 0, [])
    assert deployment.messages("crm") == deployment.messages("shop") == deployment.messages("error") == []
    assert deployment.names("crm", "working") == []
    (message,) = deployment.messages("customers")
    assert (message.delivery_count, message.redelivered) == (2, True)


def test_a_failure_that_passes_is_published_once_when_it_comes_again(managed: Callable[..., Any]) -> None:
    deployment = managed()
    closed = deployment.write("closed", "")
    deployment.drop("customers", customer(), "4.1.T")
    with deployment.running() as adapter:
        assert adapter.poll().rolled_back == 1
        assert adapter.poll().rolled_back == 1
        closed.unlink()
        assert adapter.poll().settled == 1
    assert (len(deployment.messages("crm")), len(deployment.messages("shop"))) == (1, 1)
    (copy,) = deployment.messages("archive")
    assert copy.message_id == "ID:1"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(customer("bad"), "RuntimeError: the shop is closed", id="a sink cannot take it"),
        pytest.param("{", "JSON", id="the body is malformed"),
    ],
)
@pytest.mark.parametrize("limit", [1, 3])
def test_what_fails_every_time_has_failed_after_max_attempts(
    managed: Callable[..., Any], outcomes: Outcomes, copy_of: CopyOf, body: str, reason: str, limit: int
) -> None:
    deployment = managed(max_attempts=limit)
    deployment.drop("customers", body, "4.1.T")
    found = outcomes(deployment)
    assert set(found) == {"ID:1"}
    kind, why = found["ID:1"]
    assert kind == "failed"
    assert reason in why
    assert why.startswith("tried 3 times: ") == (limit == 3)
    copy = copy_of(deployment, "error", "ID:1")
    assert copy.properties["connector_attempts"] == limit
    assert copy.properties["connector_reason"] == why
    assert deployment.messages("crm") == deployment.messages("shop") == []


def test_what_nobody_wants_is_no_failure(managed: Callable[..., Any], outcomes: Outcomes) -> None:
    deployment = managed()
    deployment.drop("orders", '{"BusinessObject": "Order"}', "4.1.T")
    assert outcomes(deployment)["ID:1"][0] == "unsubscribed"


@pytest.mark.parametrize(
    ("order", "published"),
    [
        pytest.param("destination", ["1"], id="those behind it wait for it"),
        pytest.param("group", ["1", "3"], id="those of its group wait for it"),
        pytest.param("none", ["1", "3", "4"], id="nobody waits for it"),
    ],
)
@pytest.mark.parametrize("isolated", [False, True])
def test_what_is_rolled_back_is_not_overtaken(
    managed: Callable[..., Any], order: str, published: list[str], isolated: bool
) -> None:
    deployment = managed(order=order)
    for n, of in enumerate("gghg", 1):
        name = f"4.{n:016}-x-{n}.T.....JMSXGroupIDS={of}"
        deployment.drop("customers", customer("bad" if n == 2 else ""), name)
    with deployment.running(isolated=isolated) as adapter:
        adapter.poll()
    assert [m.message_id[-1] for m in deployment.messages("archive")] == published
    waiting = [(m.message_id[-1], m.delivery_count) for m in deployment.messages("customers")]
    rest = [n for n in "1234" if n not in published]
    assert waiting == [(n, 2 if n == "2" else 1) for n in rest]


@pytest.mark.parametrize("order", ["destination", "none"])
def test_a_drain_brings_every_event_to_its_end_in_order(
    managed: Callable[..., Any], outcomes: Outcomes, order: str
) -> None:
    deployment = managed(order=order, PollQuantity=2, max_attempts=3)
    for n in range(1, 8):
        name = f"4.{n:016}-x-{n}.T"
        deployment.drop("customers", customer("bad" if n in (3, 6) else ""), name)
    with deployment.running() as adapter:
        report = adapter.drain()
        events = [(e["id"][-1], e["outcome"]) for e in adapter.summary.as_dict()["events"]]
    assert report.code is ReturnCode.SUCCEED
    assert sorted(events) == [(str(n), "failed" if n in (3, 6) else "published") for n in range(1, 8)]
    if order == "destination":
        assert [number for number, _ in events] == list("1234567")
    assert len(deployment.messages("crm")) == 5


def test_an_event_that_ends_its_worker_fails_and_harms_no_other(
    managed: Callable[..., Any], outcomes: Outcomes
) -> None:
    deployment = managed(max_attempts=2)
    for n, name in enumerate(["", "deadly", "bad", ""], 1):
        deployment.drop("customers", customer(name), f"4.{n:016}-x-{n}.T")
    found = outcomes(deployment, isolated=True)
    assert [found[i][0] for i in sorted(found)] == ["published", "failed", "failed", "published"]
    assert len(deployment.messages("crm")) == len(deployment.messages("shop")) == 2


COUNTING = '''\
import os


class Count:
    """Writes the delivery count; ends its worker at the first delivery, fails at the second."""

    mime_types = ("text/count",)
    options = ()

    def __init__(self, options, definitions):
        pass

    def to_body(self, bo):
        count = bo["Meta"]["DeliveryCount"]
        with open("counts", "a") as file:
            file.write(f"{count} {bo['Meta']['Redelivered']}\\n")
        if count == 1:
            os._exit(3)
        if count == 2:
            raise RuntimeError("not yet")
        return str(count)

    def to_business_object(self, body, hint):
        raise NotImplementedError
'''


def test_deliveries_are_counted_over_the_death_of_a_worker_and_over_a_rollback(bench: Bench) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "Customer", "destination": "queue://crm", "mime_type": "text/count"}],
        ContainerManagedEvents="JMS",
        more={"datahandlers": "./count.py"},
    )
    deployment.write("count.py", COUNTING)
    deployment.drop("customers", customer(), "4.1.T")
    with deployment.running(isolated=True) as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert (bench.directory / "counts").read_text().splitlines() == ["1 False", "2 True", "3 True"]
    assert [message.body for message in deployment.messages("crm")] == [b"3"]
