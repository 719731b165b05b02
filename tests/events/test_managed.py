"""ContainerManagedEvents: one transaction takes, publishes and settles (WBI Adapter for JMS)."""

from __future__ import annotations

from typing import Any

import pytest

from connector.status import ReturnCode
from tests.events.conftest import ORDER, Bench, EventDeployment, customer
from tests.tables import rows

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


def deploy(bench: Bench, **connector: Any) -> EventDeployment:
    """A deployment that sends customers to two queues in one transaction."""
    deployment = bench.deploy(
        subscriptions=[CRM, SHOP],
        ContainerManagedEvents="JMS",
        more={"datahandlers": "./shop.py"},
        **connector,
    )
    deployment.write("shop.py", HANDLER)
    return deployment


def test_what_is_taken_and_what_is_sent_are_one_commit(bench: Bench) -> None:
    deployment = deploy(bench, PollQuantity=3)
    for n in range(7):
        deployment.drop("customers", customer(), f"4.{n}.T")
    deployment.drop("orders", ORDER, "4.unwanted.T")
    outcomes = deployment.outcomes()
    assert outcomes.pop("ID:unwanted")[0] == "unsubscribed"
    assert set(outcomes.values()) == {("published", "")}
    assert (len(deployment.messages("crm")), len(deployment.messages("shop"))) == (7, 7)
    assert deployment.names("customers") == deployment.names("customers", "processing") == []


def test_a_failure_rolls_back_all_of_its_event_ends_no_poll_and_is_tried_again(bench: Bench) -> None:
    deployment = deploy(bench)
    closed = deployment.write("closed", "")
    deployment.drop_customers(x="")
    with deployment.running() as adapter:
        for count in (2, 3):
            report = adapter.poll()
            assert (report.code, report.claimed) == (ReturnCode.SUCCEED, 1)
            assert (report.settled, report.rolled_back) == (0, 1)
            summary = adapter.summary.as_dict()
            assert (summary["claimed"], summary["failed"], summary["events"]) == (0, 0, [])
            for queue in ("crm", "shop", "error"):
                assert deployment.messages(queue) == []
            assert deployment.names("crm", "working") == []
            (message,) = deployment.messages("customers")
            assert (message.delivery_count, message.redelivered) == (count, True)
        closed.unlink()
        assert adapter.poll().settled == 1
    assert (len(deployment.messages("crm")), len(deployment.messages("shop"))) == (1, 1)
    assert deployment.ids("archive") == ["ID:x"]


@rows(
    "body, reason",
    [
        (customer("bad"), "RuntimeError: the shop is closed"),  # a sink cannot take it
        ("{", "JSON"),  # the body is malformed
    ],
)
@rows("limit", [1, 3])
def test_what_fails_every_time_has_failed_after_max_attempts(
    bench: Bench, body: str, reason: str, limit: int
) -> None:
    deployment = deploy(bench, max_attempts=limit)
    deployment.drop("customers", body, "4.1.T")
    found = deployment.outcomes()
    assert set(found) == {"ID:1"}
    kind, why = found["ID:1"]
    assert kind == "failed"
    assert reason in why
    assert why.startswith("tried 3 times: ") == (limit == 3)
    properties = deployment.properties("error", "ID:1")
    assert (properties["connector_attempts"], properties["connector_reason"]) == (limit, why)
    assert deployment.messages("crm") == deployment.messages("shop") == []


@pytest.mark.process
@rows(
    "order, published",
    [
        ("destination", ["1"]),  # those behind it wait for it
        ("group", ["1", "3"]),  # those of its group wait for it
        ("none", ["1", "3", "4"]),  # nobody waits for it
    ],
)
@rows("isolated", [False, True])
def test_what_is_rolled_back_is_not_overtaken(
    bench: Bench, order: str, published: list[str], isolated: bool
) -> None:
    deployment = deploy(bench, order=order)
    for n, of in enumerate("gghg", 1):
        name = f"4.{n:016}-x-{n}.T.....JMSXGroupIDS={of}"
        deployment.drop("customers", customer("bad" if n == 2 else ""), name)
    with deployment.running(isolated=isolated) as adapter:
        adapter.poll()
    assert [identity[-1] for identity in deployment.ids("archive")] == published
    waiting = [(identity[-1], count) for identity, count in deployment.deliveries("customers")]
    rest = [n for n in "1234" if n not in published]
    assert waiting == [(n, 2 if n == "2" else 1) for n in rest]


@rows("order", ["destination", "none"])
def test_a_drain_brings_every_event_to_its_end_in_order(bench: Bench, order: str) -> None:
    deployment = deploy(bench, order=order, PollQuantity=2, max_attempts=3)
    for n in range(1, 8):
        name = f"4.{n:016}-x-{n}.T"
        deployment.drop("customers", customer("bad" if n in (3, 6) else ""), name)
    events = [(identity[-1], outcome) for identity, (outcome, _) in deployment.outcomes().items()]
    assert sorted(events) == [(str(n), "failed" if n in (3, 6) else "published") for n in range(1, 8)]
    if order == "destination":
        assert [number for number, _ in events] == list("1234567")
    assert len(deployment.messages("crm")) == 5


@pytest.mark.process
def test_an_event_that_ends_its_worker_fails_and_harms_no_other(bench: Bench) -> None:
    deployment = deploy(bench, max_attempts=2)
    for n, name in enumerate(["", "deadly", "bad", ""], 1):
        deployment.drop("customers", customer(name), f"4.{n:016}-x-{n}.T")
    found = deployment.outcomes(isolated=True)
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


@pytest.mark.process
def test_deliveries_are_counted_over_the_death_of_a_worker_and_over_a_rollback(bench: Bench) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "Customer", "destination": "queue://crm", "mime_type": "text/count"}],
        ContainerManagedEvents="JMS",
        more={"datahandlers": "./count.py"},
    )
    deployment.write("count.py", COUNTING)
    deployment.drop("customers", customer(), "4.1.T")
    deployment.drain(isolated=True)
    assert (bench.directory / "counts").read_text().splitlines() == ["1 False", "2 True", "3 True"]
    assert [message.body for message in deployment.messages("crm")] == [b"3"]
