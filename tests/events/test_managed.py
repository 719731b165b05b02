"""ContainerManagedEvents: one transaction takes, publishes and settles (WBI Adapter for JMS)."""

from __future__ import annotations

from typing import Any

import pytest

from connector.status import ReturnCode
from tests.events.conftest import ORDER, Bench, EventDeployment, customer, handler
from tests.tables import rows

SHOP_HANDLER = handler(
    "text/shop",
    head="import os",
    writes="""\
if bo["Name"] == "bad" or os.path.exists("closed"):
    raise RuntimeError("the shop is closed")
if bo["Name"] == "deadly":
    os._exit(3)
if bo["Name"] == "third":  # ends its worker at the first delivery, fails at the second
    with open("counts", "a") as file:
        print(bo["Meta"]["DeliveryCount"], bo["Meta"]["Redelivered"], file=file)
    if bo["Meta"]["DeliveryCount"] == 1:
        os._exit(3)
    if bo["Meta"]["DeliveryCount"] == 2:
        raise RuntimeError("not yet")
return 'sold'""",
)
"""Writes customers while a shop is open, and never one whose name is bad."""

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
    deployment.write("shop.py", SHOP_HANDLER)
    return deployment


def drop(deployment: EventDeployment, *names: str, groups: str = "") -> None:
    """Drops customers with the numbers 1, 2 ... in their order."""
    for number, name in enumerate(names, 1):
        group = f".....JMSXGroupIDS={groups[number - 1]}" if groups else ""
        deployment.drop("customers", customer(name), f"4.{number:016}-x-{number}.T{group}")


def test_a_failure_rolls_back_all_of_its_event_ends_no_poll_and_is_tried_again(bench: Bench) -> None:
    deployment = deploy(bench)
    closed = deployment.write("closed", "")
    deployment.drop_customers(x="")
    with deployment.running() as adapter:
        for count in (2, 3):
            report = adapter.poll()
            found = (report.code, report.claimed, report.settled, report.rolled_back)
            assert found == (ReturnCode.SUCCEED, 1, 0, 1)
            summary = adapter.summary.as_dict()
            assert (summary["claimed"], summary["failed"], summary["events"]) == (0, 0, [])
            assert [deployment.messages(queue) for queue in ("crm", "shop", "error")] == [[], [], []]
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
def test_what_always_fails_has_failed_after_max_attempts(
    bench: Bench, body: str, reason: str, limit: int
) -> None:
    deployment = deploy(bench, max_attempts=limit)
    deployment.drop("customers", body, "4.1.T")
    found = deployment.outcomes()
    assert set(found) == {"ID:1"}
    kind, why = found["ID:1"]
    assert (kind, reason in why) == ("failed", True)
    assert why.startswith("tried 3 times: ") == (limit == 3)
    properties = deployment.properties("error", "ID:1")
    assert (properties["connector_attempts"], properties["connector_reason"]) == (limit, why)
    assert deployment.messages("crm") == deployment.messages("shop") == []


@pytest.mark.process
@rows(
    "order, published, isolated",
    [
        ("destination", ["1"], True),  # those behind it wait for it
        ("group", ["1", "3"], False),  # those of its group wait for it
        ("none", ["1", "3", "4"], False),  # nobody waits for it
    ],
)
def test_what_is_rolled_back_stays_first(
    bench: Bench, order: str, published: list[str], isolated: bool
) -> None:
    deployment = deploy(bench, order=order)
    drop(deployment, "", "bad", "", "", groups="gghg")
    with deployment.running(isolated=isolated) as adapter:
        adapter.poll()
    assert [identity[-1] for identity in deployment.ids("archive")] == published
    waiting = [(identity[-1], count) for identity, count in deployment.deliveries("customers")]
    rest = [n for n in "1234" if n not in published]
    assert waiting == [(n, 2 if n == "2" else 1) for n in rest]


@rows("order", ["destination", "none"])
def test_a_drain_brings_every_event_to_its_end_in_order(bench: Bench, order: str) -> None:
    deployment = deploy(bench, order=order, PollQuantity=2, max_attempts=3)
    drop(deployment, "", "", "bad", "", "", "bad", "")
    deployment.drop("orders", ORDER, "4.unwanted.T")
    outcomes = deployment.outcomes()
    assert outcomes.pop("ID:unwanted")[0] == "unsubscribed"
    events = [(identity[-1], outcome) for identity, (outcome, _) in outcomes.items()]
    assert sorted(events) == [(str(n), "failed" if n in (3, 6) else "published") for n in range(1, 8)]
    if order == "destination":
        assert [number for number, _ in events] == list("1234567")
    assert len(deployment.messages("crm")) == len(deployment.messages("shop")) == 5
    assert deployment.names("customers") == deployment.names("customers", "processing") == []


@pytest.mark.process
def test_an_event_that_ends_its_worker_harms_no_other_and_each_delivery_counts(bench: Bench) -> None:
    """The counts go on over the death of a worker and over a rollback."""
    deployment = deploy(bench, max_attempts=3)
    drop(deployment, "", "deadly", "bad", "third", "")
    found = deployment.outcomes(isolated=True)
    assert [found[i][0] for i in sorted(found)] == ["published", "failed", "failed", "published", "published"]
    assert (bench.directory / "counts").read_text().splitlines() == ["1 False", "2 True", "3 True"]
    assert len(deployment.messages("crm")) == len(deployment.messages("shop")) == 3
