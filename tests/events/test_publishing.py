"""Publishing: every subscription that matches gets the event, and what their answers come to."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from connector.events.outcome import split_names
from connector.messaging.message import NON_PERSISTENT, PERSISTENT
from connector.status import ReturnCode
from tests.events.conftest import A_AND_B, OBJECTS, Bench, customer, serving
from tests.tables import Table, rows
from tests.waiting import wait_for

A_AND_QUEUE = (
    {"object": "Customer", "process": "processes:a", "name": "a"},
    {"object": "Customer", "destination": "queue://crm", "name": "crm"},
)


def placeless(reason: str) -> str:
    """A reason without the place in the process that it ends with; which place is not the matter here."""
    return re.sub(r" \(processes\.py:\d+\)", "", reason)


def test_everybody_who_subscribed_gets_the_event_in_the_order_of_the_configuration(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("customers", customer(), "4.1.T")
    deployment.drop("orders", '{"BusinessObject": "Order"}', "4.2.T")
    deployment.outcomes()
    assert [(call["who"], call["id"]) for call in bench.calls()] == [
        ("a", "ID:1"),
        ("b", "ID:1"),
        ("b", "ID:2"),
    ]


def test_what_the_answers_of_two_processes_come_to(bench: Bench) -> None:
    answers: dict[str, tuple[str, str, str, str | None]] = {
        "both return": ("", "published", "", "a;b"),
        "one raises": ("a: fail no stock", "failed", "a: ValueError: no stock", "b"),
        "both raise": ("a: fail x; b: fail y", "failed", "a: ValueError: x; b: ValueError: y", None),
        "one does not want it": ("a: unsubscribed", "published", "", "b"),
        "nobody wants it": (
            "a: unsubscribed too small; b: unsubscribed",
            "unsubscribed",
            "a: Unsubscribed: too small; b: Unsubscribed",
            None,
        ),
        "one does not want it, one fails": (
            "a: unsubscribed; b: fail x",
            "failed",
            "b: ValueError: x",
            None,
        ),
        "temporary, no retries": ("b: temporary busy", "failed", "b: TemporaryFailure: busy", "a"),
        "SystemExit is an exception": ("a: interpreter 3", "failed", "a: SystemExit: 3", "b"),
        "an exception that cannot be shown": ("b: mute", "failed", "b: Mute", "a"),
    }
    deployment = bench.deploy(subscriptions=A_AND_B)
    ids = [f"ID:{number}" for number in range(len(answers))]
    deployment.drop_customers(**{str(n): row[0] for n, row in enumerate(answers.values())})
    found = deployment.outcomes()
    with Table() as table:
        for identity, (name, (_, kind, reason, delivered)) in zip(ids, answers.items(), strict=True):
            with table.row(name):
                outcome, said = found[identity]
                assert (outcome, placeless(said)) == (kind, reason)
                queue = {"published": "archive", "failed": "error"}.get(kind, kind)
                properties = deployment.properties(queue, identity)
                assert properties.get("connector_delivered") == delivered
                assert properties.get("connector_reason", "") == said
    assert bench.called("a") == bench.called("b") == ids


def test_a_process_that_is_not_active_keeps_the_message_until_it_wakes_up(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop_customers(x="b: inactive-once until noon")
    with deployment.running() as adapter:
        for _ in range(3):
            report = adapter.poll()
            assert report.code is ReturnCode.APPRESPONSETIMEOUT
            assert report.reason == "b: NotActive: until noon"
            assert not report.provider_failed  # a new connection would not help
            assert (report.claimed, report.settled) == (1, 0)
            assert adapter.summary.total.claimed == 0  # given back is no outcome
            assert deployment.deliveries("customers") == [("ID:x", 1)]
            assert deployment.properties("customers", "ID:x")["connector_delivered"] == "a"
        deployment.write("woken", "")
        assert adapter.poll().code is ReturnCode.SUCCEED
    # the one that has confirmed is not bothered again, however often the other is asked
    assert bench.callers() == ["a", "b", "b", "b", "b"]
    assert {call["count"] for call in bench.calls()} == {1}
    properties = deployment.properties("archive", "ID:x")
    assert (properties["connector_delivered"], properties["connector_outcome"]) == ("a;b", "published")


@pytest.mark.process
@rows("in_progress", [None, "queue://busy"])
def test_a_message_that_is_given_back_keeps_the_count_of_the_worker_that_it_ended(
    bench: Bench, in_progress: str | None
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B, InProgressDestination=in_progress)
    deployment.drop("customers", customer("a: exit-once 3; b: inactive"), "4.1.T")
    with deployment.running(isolated=True) as adapter:
        for _ in range(3):
            assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
    assert [(call["who"], call["count"]) for call in bench.calls()] == [
        ("a", 1),
        ("a", 2),
        ("b", 2),
        ("b", 2),
        ("b", 2),
    ]


def test_a_service_asks_a_process_that_is_not_active_again(bench: Bench) -> None:
    deployment = bench.deploy(PollFrequency=100)
    deployment.drop_customers(x="a: inactive-once until noon")
    with deployment.running() as adapter, serving(adapter):
        wait_for(lambda: len(bench.called()) >= 2)
        deployment.write("woken", "")
        wait_for(lambda: deployment.ids("archive") == ["ID:x"])


def test_a_temporary_failure_alone_is_tried_again_in_place_with_back_off(bench: Bench) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "*", "process": "processes:a", "name": "a", "retries": 2}]
    )
    deployment.drop_customers(x1="a: temporary-once", x2="a: temporary locked", x3="a: fail x")
    started = time.monotonic()
    found = {
        identity: (kind, placeless(reason)) for identity, (kind, reason) in deployment.outcomes().items()
    }
    assert time.monotonic() - started >= 0.1 + 0.1 + 0.2
    assert found == {
        "ID:x1": ("published", ""),
        "ID:x2": ("failed", "a: TemporaryFailure: locked (tried 3 times)"),
        "ID:x3": ("failed", "a: ValueError: x"),
    }
    assert bench.called() == ["ID:x1", "ID:x1", "ID:x2", "ID:x2", "ID:x2", "ID:x3"]


def test_patterns_and_verbs_decide_who_gets_it(bench: Bench) -> None:
    some = {"object": "Order*", "verbs": ["Cancel"], "process": "processes:b", "name": "b"}
    every = {"object": "Order?*", "process": "processes:a", "name": "a"}
    deployment = bench.deploy(subscriptions=[some, every])
    for kind, verb in (("Order", "Create"), ("Order", "Cancel"), ("OrderLine", "Create")):
        body = f'{{"BusinessObject": "{kind}", "Verb": "{verb}"}}'
        deployment.drop("orders", body, f"4.{kind}-{verb}.T")
    assert deployment.outcomes() == {
        "ID:Order-Create": ("unsubscribed", "no subscription wants Order.Create"),
        "ID:Order-Cancel": ("published", ""),
        "ID:OrderLine-Create": ("published", ""),
    }
    assert (bench.called("a"), bench.called("b")) == (["ID:OrderLine-Create"], ["ID:Order-Cancel"])


# -- repair ------------------------------------------------------------------------------------------


def test_a_repaired_event_goes_only_to_those_who_have_not_confirmed(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=(*A_AND_B, A_AND_QUEUE[1]))
    deployment.drop("customers", customer("b: fail x"), "4.1.T")
    with deployment.running() as adapter:
        adapter.poll()
        failed = deployment.properties("error", "ID:1")
        assert failed["connector_delivered"] == "a"
        assert deployment.names("crm") == []  # what failed is not sent either
        assert deployment.names("crm", "working") == []
        deployment.move("error", "customers", customer())
        adapter.poll()
    assert bench.callers() == ["a", "b", "b"]
    assert len(deployment.names("crm")) == 1
    properties = deployment.properties("archive", "ID:1")
    told = {"attempts": 2, "outcome": "published", "delivered": "a;b", "reason": None}
    assert {name: properties.get(f"connector_{name}") for name in told} == told


def test_who_has_confirmed_is_kept_through_a_repair_that_went_wrong(bench: Bench) -> None:
    subscriptions = ({**A_AND_B[0], "name": "a;x"}, A_AND_B[1])  # one name, though it has a semicolon
    deployment = bench.deploy(subscriptions=subscriptions, max_body="1KiB")
    deployment.drop("customers", customer("b: fail x"), "4.1.T")
    with deployment.running() as adapter:
        adapter.poll()
        for body, words in (("{", "no JSON"), (" " * 2000, "max_body"), (customer("b: fail y"), "y")):
            deployment.move("error", "customers", body)
            adapter.poll()
            properties = deployment.properties("error", "ID:1")
            assert split_names(properties["connector_delivered"]) == ("a;x",)
            assert words in properties["connector_reason"]
        assert properties["connector_attempts"] == 2  # two of the four were delivered to somebody
        deployment.move("error", "customers", customer())
        adapter.poll()
    assert bench.callers() == ["a", "b", "b", "b"]
    assert deployment.properties("archive", "ID:1")["connector_attempts"] == 3


@pytest.mark.process
def test_who_has_confirmed_is_kept_when_the_repaired_event_ends_its_worker(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B, max_attempts=2)
    deployment.drop("customers", customer("b: fail x"), "4.1.T")
    with deployment.running(isolated=True) as adapter:
        adapter.poll()
        deployment.move("error", "customers", customer("b: exit 3"))
        adapter.poll()
        properties = deployment.properties("error", "ID:1")
        assert "ended with status 3" in properties["connector_reason"]
        assert properties["connector_delivered"] == "a"
        assert properties["connector_attempts"] == 3
    assert bench.called("a") == ["ID:1"]


def test_an_archived_event_moved_back_is_processed_anew_by_all(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("customers", customer(), "4.1.T")
    with deployment.running() as adapter:
        adapter.poll()
        deployment.move("archive", "customers")
        adapter.poll()
    assert bench.callers() == ["a", "b", "a", "b"]
    assert deployment.properties("archive", "ID:1")["connector_attempts"] == 2


# -- what a process is told and returns ---------------------------------------------------------------

TELLING = """\
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def tell(bo, event):
    with open(os.path.join(HERE, "told"), "a") as file:
        file.write(f"{event.subscription} {event.id}\\n")
    event.subscription = "changed"


def answer(bo, event):
    tell(bo, event)
    return {"CustomerId": "8"}
"""


def test_each_process_of_an_event_is_told_the_name_of_its_own_subscription(bench: Bench) -> None:
    subscriptions: list[dict[str, Any]] = [
        {"object": "Customer", "process": "processes:tell", "name": "first"},
        {"object": "*", "process": "processes:tell"},
        {"object": "Customer", "process": "processes:answer", "name": "last", "reply": True},
    ]
    deployment = bench.deploy(subscriptions=subscriptions, processes=TELLING)
    identity = deployment.send("customers", customer(), reply_to="queue://replies")
    deployment.drain()
    told = (bench.directory / "told").read_text().splitlines()
    assert told == [f"first {identity}", f"* processes:tell {identity}", f"last {identity}"]


def test_what_a_process_returns_and_nobody_awaits_is_logged_once_for_each_subscription(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    subscriptions: list[dict[str, Any]] = [
        {"object": "Customer", "process": "processes:answer", "name": "one"},
        {"object": "Customer", "process": "processes:answer", "name": "two"},
        {"object": "Customer", "process": "processes:tell", "name": "nothing"},
        {"object": "Customer", "process": "processes:answer", "name": "awaited", "reply": True},
    ]
    deployment = bench.deploy(subscriptions=subscriptions, processes=TELLING)
    ids = [deployment.send("customers", customer()) for _ in range(3)]
    found = deployment.outcomes()
    assert {kind for kind, _ in found.values()} == {"published"}, "returning anything means done"
    logged = [record for record in caplog.records if "returned" in record.message]
    assert [(vars(one)["subscription"], vars(one)["message_id"]) for one in logged] == [
        ("one", ids[0]),
        ("two", ids[0]),
    ]
    assert {(one.levelname, one.getMessage()) for one in logged} == {
        ("WARNING", "a process returned a value, but its subscription does not set reply: true")
    }


# -- destinations ------------------------------------------------------------------------------------


def test_a_destination_gets_the_object_once_with_the_settlement(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=[A_AND_QUEUE[1]])
    deployment.drop(
        "customers", '{"CustomerId": "7", "Address": []}', "8.1.T..corr-9.replies.IN.JMSXGroupIDS=g&xI=1"
    )
    deployment.outcomes()
    (sent,) = deployment.messages("crm")
    assert json.loads(sent.body) == {
        "BusinessObject": "Customer",
        "Verb": "Create",
        "CustomerId": "7",
        "Address": [],
    }
    assert (sent.type, sent.correlation_id, sent.priority) == ("CUST_OUT", "corr-9", 8)
    assert sent.properties == {"JMSXGroupID": "g", "connector_event_id": "ID:1"}
    assert sent.message_id != "ID:1"
    assert (sent.message_class, sent.expiration, sent.delivery_count) == ("T", 0, 1)
    assert len(deployment.names("archive")) == 1
    assert deployment.names("crm", "working") == []


CHAIN = OBJECTS.replace(
    "rules:\n",
    "Default: {DeliveryMode: NonPersistent}\n"
    "rules:\n"
    "  Customer_Update: {InputDestination: queue://crm, Priority: 9, DeliveryMode: Persistent}\n",
)
"""Customers are created by one queue and updated by the next."""

HOPS = (
    {"object": "Customer", "verbs": ["Create"], "destination": "queue://crm"},
    {"object": "Customer", "verbs": ["Update"], "destination": "queue://billing"},
)


def test_what_is_sent_names_its_event_and_the_next_hop_names_its_own(bench: Bench) -> None:
    deployment = bench.deploy(objects=CHAIN, subscriptions=HOPS[:1], InputDestination="queue://customers")
    first = deployment.send("customers", customer(), priority=3)
    deployment.outcomes()
    deployment = bench.deploy(objects=CHAIN, subscriptions=HOPS[1:], InputDestination="queue://crm")
    deployment.outcomes()
    (last,) = deployment.messages("billing")
    second = str(last.properties["connector_event_id"])
    archived = deployment.copy("archive", second)
    assert archived.properties["connector_event_id"] == first
    assert archived.properties["connector_outcome"] == "published"
    assert "connector_event_id" not in deployment.properties("archive", first)
    assert (archived.priority, archived.delivery_mode) == (3, NON_PERSISTENT), "as the event, and as Default"
    assert (last.priority, last.delivery_mode) == (9, PERSISTENT), "as the entry of the rule"


def test_the_event_that_a_message_came_from_is_neither_its_history_nor_lost_when_it_fails(
    bench: Bench,
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    identity = deployment.send(
        "customers", customer("b: fail x"), properties={"connector_event_id": "ID:far"}
    )
    deployment.outcomes()
    assert deployment.properties("error", identity)["connector_event_id"] == "ID:far"
    deployment.move("error", "customers", customer())
    deployment.outcomes()
    assert [(call["who"], call["count"]) for call in bench.calls()] == [("a", 1), ("b", 1), ("b", 2)]
    properties = deployment.properties("archive", identity)
    assert (properties["connector_event_id"], properties["connector_attempts"]) == ("ID:far", 2)


@rows(
    "options, place, said, body",
    [
        ({"mime_type": "text/xml"}, None, ("CUST_OUT", "c", {}), b"<Customer"),
        ({"format": "OWN"}, None, ("OWN", "c", {}), b'{"BusinessObject"'),
        (
            {"mime_type": "application/json; charset=UTF-8", "format": "V.2"},
            "JMSType",
            ("V.2", "c", {}),
            b'{"BusinessObject"',
        ),
        ({"format": "OWN"}, "JMSCorrelationID", (None, "OWN", {}), b"{"),
        ({"format": "OWN"}, "kind", (None, "c", {"kind": "OWN"}), b"{"),
    ],
)
def test_format_and_mime_type_are_those_of_the_subscription_and_said_where_the_connector_wants_it(
    bench: Bench, options: dict[str, str], place: str | None, said: tuple[object, ...], body: bytes
) -> None:
    deployment = bench.deploy(subscriptions=[{**A_AND_QUEUE[1], **options}], MessageFormatProperty=place)
    deployment.send("customers", customer(), correlation_id="c")
    deployment.drain()
    (sent,) = deployment.messages("crm")
    own = {key: value for key, value in sent.properties.items() if not key.startswith("connector_")}
    assert (sent.type, sent.correlation_id, own) == said
    assert body in sent.body


def test_an_object_that_the_format_cannot_hold_fails_naming_the_subscription(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=[{**A_AND_QUEUE[1], "mime_type": "text/plain"}])
    deployment.drop("customers", customer(), "4.1.T")
    kind, reason = deployment.outcomes()["ID:1"]
    assert kind == "failed"
    assert reason.startswith("crm: MalformedData: ")


def test_a_destination_that_cannot_be_prepared_gives_the_event_back_with_who_has_confirmed(
    bench: Bench,
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_QUEUE)
    deployment.drop("customers", customer(), "4.1.T")
    with deployment.running() as adapter:
        blocked = Path(deployment.folders("crm").working)
        blocked.rmdir()
        blocked.write_text("in the way")
        report = adapter.poll()
        assert report.code is ReturnCode.APPRESPONSETIMEOUT
        assert report.provider_failed
        assert "queue://crm" in report.reason
        blocked.unlink()
        blocked.mkdir()
        assert adapter.poll().code is ReturnCode.SUCCEED
    assert bench.called("a") == ["ID:1"]
    assert len(deployment.messages("crm")) == 1


@rows("durability", ["none", "batch"])
def test_what_was_prepared_before_a_task_stopped_early_does_not_trouble_the_next(
    bench: Bench, durability: str
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_QUEUE, provider={"durability": durability})
    for n, name in enumerate(["", "a: inactive-once", ""]):
        deployment.drop("customers", customer(name), f"4.{n}.T")
    with deployment.running() as adapter:
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        assert len(deployment.messages("crm")) == 1
        deployment.write("woken", "")
        assert adapter.poll().code is ReturnCode.SUCCEED
    assert len(deployment.messages("crm")) == 3
