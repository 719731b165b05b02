"""Publishing: every subscription that matches gets the event, and what their answers come to."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connector.messaging.message import NON_PERSISTENT, PERSISTENT
from connector.status import ReturnCode
from tests.events.conftest import OBJECTS

Bench = Any
Outcomes = Callable[..., dict[str, tuple[str, str]]]
CopyOf = Callable[..., Any]

A_AND_B = (
    {"object": "Customer", "process": "processes:a", "name": "a"},
    {"object": "*", "process": "processes:b", "name": "b"},
)
A_AND_QUEUE = (
    {"object": "Customer", "process": "processes:a", "name": "a"},
    {"object": "Customer", "destination": "queue://crm", "name": "crm"},
)


def placeless(reason: str) -> str:
    """A reason without the place in the process that it ends with; which place is not the matter here."""
    return re.sub(r" \(processes\.py:\d+\)", "", reason)


def customer(name: str = "") -> str:
    return f'{{"CustomerId": "1", "Name": "{name}"}}'


def test_everybody_who_subscribed_gets_the_event_in_the_order_of_the_configuration(
    bench: Bench, outcomes: Outcomes
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("customers", customer(), "4.1.T")
    deployment.drop("orders", '{"BusinessObject": "Order"}', "4.2.T")
    outcomes(deployment)
    assert [(call["who"], call["id"]) for call in bench.calls()] == [
        ("a", "ID:1"),
        ("b", "ID:1"),
        ("b", "ID:2"),
    ]


@pytest.mark.parametrize(
    ("name", "kind", "reason", "delivered"),
    [
        pytest.param("", "published", "", "a;b", id="both return"),
        pytest.param("a: fail no stock", "failed", "a: ValueError: no stock", "b", id="one raises"),
        pytest.param(
            "a: fail x; b: fail y", "failed", "a: ValueError: x; b: ValueError: y", None, id="both raise"
        ),
        pytest.param("a: unsubscribed", "published", "", "b", id="one does not want it"),
        pytest.param(
            "a: unsubscribed too small; b: unsubscribed",
            "unsubscribed",
            "a: Unsubscribed: too small; b: Unsubscribed",
            None,
            id="nobody wants it",
        ),
        pytest.param(
            "a: unsubscribed; b: fail x",
            "failed",
            "b: ValueError: x",
            None,
            id="one does not want it, one fails",
        ),
        pytest.param(
            "b: temporary busy",
            "failed",
            "b: TemporaryFailure: busy",
            "a",
            id="temporary, no retries",
        ),
        pytest.param("a: interpreter 3", "failed", "a: SystemExit: 3", "b", id="SystemExit is an exception"),
        pytest.param("b: mute", "failed", "b: Mute", "a", id="an exception that cannot be shown"),
    ],
)
def test_what_the_answers_of_two_processes_come_to(
    bench: Bench,
    outcomes: Outcomes,
    copy_of: CopyOf,
    name: str,
    kind: str,
    reason: str,
    delivered: str | None,
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("customers", customer(name), "4.1.T")
    found = outcomes(deployment)["ID:1"]
    assert (found[0], placeless(found[1])) == (kind, reason)
    assert bench.called("a") == bench.called("b") == ["ID:1"]
    copy = copy_of(deployment, {"published": "archive", "failed": "error"}.get(kind, kind), "ID:1")
    assert copy.properties.get("connector_delivered") == delivered
    assert copy.properties.get("connector_reason", "") == found[1]


def test_a_process_that_is_not_active_keeps_the_message_and_ends_the_poll(bench: Bench) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("customers", customer("b: inactive until noon"), "4.1.T")
    with deployment.running() as adapter:
        report = adapter.poll()
        assert report.code is ReturnCode.APPRESPONSETIMEOUT
        assert report.reason == "b: NotActive: until noon"
        assert not report.provider_failed  # a new connection would not help
        assert (report.claimed, report.settled) == (1, 0)
        assert adapter.summary.total.claimed == 0  # given back is no outcome
        (message,) = deployment.messages("customers")
        assert message.delivery_count == 1
        assert message.properties["connector_delivered"] == "a"
        adapter.poll()
        adapter.poll()
    # the one that has confirmed is not bothered again, however often the other is asked
    assert [call["who"] for call in bench.calls()] == ["a", "b", "b", "b"]
    assert {call["count"] for call in bench.calls()} == {1}


@pytest.mark.parametrize("in_progress", [None, "queue://busy"])
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


def test_a_process_that_wakes_up_gets_what_it_missed(bench: Bench, copy_of: CopyOf) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("customers", customer("b: inactive-once"), "4.1.T")
    with deployment.running() as adapter:
        assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        deployment.write("woken", "")
        assert adapter.poll().code is ReturnCode.SUCCEED
    assert [call["who"] for call in bench.calls()] == ["a", "b", "b"]
    copy = copy_of(deployment, "archive", "ID:1")
    assert copy.properties["connector_delivered"] == "a;b"
    assert copy.properties["connector_outcome"] == "published"


def test_a_temporary_failure_is_tried_again_in_place_with_back_off(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "*", "process": "processes:a", "name": "a", "retries": 2}]
    )
    deployment.drop("customers", customer("a: temporary-once"), "4.1.T")
    deployment.drop("customers", customer("a: temporary locked"), "4.2.T")
    started = time.monotonic()
    found = outcomes(deployment)
    assert time.monotonic() - started >= 0.1 + 0.1 + 0.2
    assert found["ID:1"] == ("published", "")
    kind, reason = found["ID:2"]
    assert (kind, placeless(reason)) == ("failed", "a: TemporaryFailure: locked (tried 3 times)")
    assert bench.called() == ["ID:1", "ID:1", "ID:2", "ID:2", "ID:2"]


def test_retries_are_for_temporary_failures_only(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "*", "process": "processes:a", "name": "a", "retries": 3}]
    )
    deployment.drop("customers", customer("a: fail x"), "4.1.T")
    kind, reason = outcomes(deployment)["ID:1"]
    assert (kind, placeless(reason)) == ("failed", "a: ValueError: x")
    assert bench.called() == ["ID:1"]


@pytest.mark.parametrize(
    ("object_name", "verbs", "wanted"),
    [
        ("Order", None, True),
        ("Order*", None, True),
        ("*", None, True),
        ("Order?*", None, False),
        ("Order", ["Cancel"], False),
        ("Order", ["Cancel", "Create"], True),
        ("Note", None, False),
    ],
)
def test_patterns_and_verbs_decide_who_gets_it(
    bench: Bench, outcomes: Outcomes, object_name: str, verbs: list[str] | None, wanted: bool
) -> None:
    entry: dict[str, Any] = {"object": object_name, "process": "processes:a", "name": "a"}
    deployment = bench.deploy(subscriptions=[{**entry, "verbs": verbs} if verbs else entry])
    deployment.drop("orders", '{"BusinessObject": "Order"}', "4.1.T")
    kind, reason = outcomes(deployment)["ID:1"]
    assert kind == ("published" if wanted else "unsubscribed")
    assert reason == ("" if wanted else "no subscription wants Order.Create")
    assert bench.called() == (["ID:1"] if wanted else [])


# -- repair ------------------------------------------------------------------------------------------


def move_back(deployment: Any, source: str, target: str, body: str | None = None) -> None:
    """As an operator does it: ``mv error/incoming/target/* customers/incoming/target/``."""
    for name in deployment.names(source):
        path = Path(deployment.folders(source).target) / name
        if body is not None:
            path.write_text(body)
        os.rename(path, Path(deployment.folders(target).target) / name)


def test_a_repaired_event_goes_only_to_those_who_have_not_confirmed(bench: Bench, copy_of: CopyOf) -> None:
    deployment = bench.deploy(subscriptions=(*A_AND_B, A_AND_QUEUE[1]))
    deployment.drop("customers", customer("b: fail x"), "4.1.T")
    with deployment.running() as adapter:
        adapter.poll()
        failed = copy_of(deployment, "error", "ID:1").properties
        assert failed["connector_delivered"] == "a"
        assert deployment.names("crm") == []  # what failed is not sent either
        assert deployment.names("crm", "working") == []
        move_back(deployment, "error", "customers", customer())
        adapter.poll()
    assert [call["who"] for call in bench.calls()] == ["a", "b", "b"]
    assert len(deployment.names("crm")) == 1
    properties = copy_of(deployment, "archive", "ID:1").properties
    assert properties["connector_attempts"] == 2
    assert properties["connector_outcome"] == "published"
    assert properties["connector_delivered"] == "a;b"
    assert "connector_reason" not in properties


def test_who_has_confirmed_is_kept_through_a_repair_that_went_wrong(bench: Bench, copy_of: CopyOf) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B, max_body="1KiB")
    deployment.drop("customers", customer("b: fail x"), "4.1.T")
    with deployment.running() as adapter:
        adapter.poll()
        for body, words in (("{", "no JSON"), (" " * 2000, "max_body"), (customer("b: fail y"), "y")):
            move_back(deployment, "error", "customers", body)
            adapter.poll()
            properties = copy_of(deployment, "error", "ID:1").properties
            assert properties["connector_delivered"] == "a"
            assert words in properties["connector_reason"]
        assert properties["connector_attempts"] == 2  # two of the four were delivered to somebody
        move_back(deployment, "error", "customers", customer())
        adapter.poll()
    assert [call["who"] for call in bench.calls()] == ["a", "b", "b", "b"]
    assert copy_of(deployment, "archive", "ID:1").properties["connector_attempts"] == 3


def test_who_has_confirmed_is_kept_when_the_repaired_event_ends_its_worker(
    bench: Bench, copy_of: CopyOf
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B, max_attempts=2)
    deployment.drop("customers", customer("b: fail x"), "4.1.T")
    with deployment.running(isolated=True) as adapter:
        adapter.poll()
        move_back(deployment, "error", "customers", customer("b: exit 3"))
        adapter.poll()
        properties = copy_of(deployment, "error", "ID:1").properties
        assert "ended with status 3" in properties["connector_reason"]
        assert properties["connector_delivered"] == "a"
        assert properties["connector_attempts"] == 3
    assert bench.called("a") == ["ID:1"]


def test_an_archived_event_moved_back_is_processed_anew_by_all(bench: Bench, copy_of: CopyOf) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    deployment.drop("customers", customer(), "4.1.T")
    with deployment.running() as adapter:
        adapter.poll()
        move_back(deployment, "archive", "customers")
        adapter.poll()
    assert [call["who"] for call in bench.calls()] == ["a", "b", "a", "b"]
    assert copy_of(deployment, "archive", "ID:1").properties["connector_attempts"] == 2


def test_a_name_with_a_semicolon_is_one_name(bench: Bench, copy_of: CopyOf) -> None:
    subscriptions = ({**A_AND_B[0], "name": "a;x"}, A_AND_B[1])
    deployment = bench.deploy(subscriptions=subscriptions)
    deployment.drop("customers", customer("b: fail x"), "4.1.T")
    with deployment.running() as adapter:
        adapter.poll()
        move_back(deployment, "error", "customers", customer())
        adapter.poll()
    assert [call["who"] for call in bench.calls()] == ["a", "b", "b"]


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


@pytest.mark.parametrize("isolated", [False, True])
def test_each_process_of_an_event_is_told_the_name_of_its_own_subscription(
    bench: Bench, isolated: bool
) -> None:
    subscriptions = [
        {"object": "Customer", "process": "processes:tell", "name": "first"},
        {"object": "*", "process": "processes:tell"},
        {"object": "Customer", "process": "processes:answer", "name": "last", "reply": True},
    ]
    deployment = bench.deploy(subscriptions=subscriptions, processes=TELLING)
    identity = deployment.send("customers", customer(), reply_to="queue://replies")
    with deployment.running(isolated=isolated) as adapter:
        adapter.drain()
    told = (bench.directory / "told").read_text().splitlines()
    assert told == [f"first {identity}", f"* processes:tell {identity}", f"last {identity}"]


def test_what_a_process_returns_and_nobody_awaits_is_logged_once_for_each_subscription(
    bench: Bench, outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    subscriptions = [
        {"object": "Customer", "process": "processes:answer", "name": "one"},
        {"object": "Customer", "process": "processes:answer", "name": "two"},
        {"object": "Customer", "process": "processes:tell", "name": "nothing"},
        {"object": "Customer", "process": "processes:answer", "name": "awaited", "reply": True},
    ]
    deployment = bench.deploy(subscriptions=subscriptions, processes=TELLING)
    ids = [deployment.send("customers", customer()) for _ in range(3)]
    found = outcomes(deployment)
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


def test_a_destination_gets_the_object_once_with_the_settlement(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy(subscriptions=[A_AND_QUEUE[1]])
    deployment.drop(
        "customers", '{"CustomerId": "7", "Address": []}', "8.1.T..corr-9.replies.IN.JMSXGroupIDS=g&xI=1"
    )
    outcomes(deployment)
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


def test_what_is_sent_names_its_event_and_the_next_hop_names_its_own(
    bench: Bench, outcomes: Outcomes, copy_of: CopyOf
) -> None:
    deployment = bench.deploy(objects=CHAIN, subscriptions=HOPS[:1], InputDestination="queue://customers")
    first = deployment.send("customers", customer(), priority=3)
    outcomes(deployment)
    deployment = bench.deploy(objects=CHAIN, subscriptions=HOPS[1:], InputDestination="queue://crm")
    outcomes(deployment)
    (last,) = deployment.messages("billing")
    second = last.properties["connector_event_id"]
    archived = copy_of(deployment, "archive", second)
    assert archived.properties["connector_event_id"] == first
    assert archived.properties["connector_outcome"] == "published"
    assert "connector_event_id" not in copy_of(deployment, "archive", first).properties
    assert (archived.priority, archived.delivery_mode) == (3, NON_PERSISTENT), "as the event, and as Default"
    assert (last.priority, last.delivery_mode) == (9, PERSISTENT), "as the entry of the rule"


def test_the_event_that_a_message_came_from_is_neither_its_history_nor_lost_when_it_fails(
    bench: Bench, outcomes: Outcomes, copy_of: CopyOf
) -> None:
    deployment = bench.deploy(subscriptions=A_AND_B)
    identity = deployment.send(
        "customers", customer("b: fail x"), properties={"connector_event_id": "ID:far"}
    )
    outcomes(deployment)
    assert copy_of(deployment, "error", identity).properties["connector_event_id"] == "ID:far"
    move_back(deployment, "error", "customers", customer())
    outcomes(deployment)
    assert [(call["who"], call["count"]) for call in bench.calls()] == [("a", 1), ("b", 1), ("b", 2)]
    copy = copy_of(deployment, "archive", identity)
    assert copy.properties["connector_event_id"] == "ID:far"
    assert copy.properties["connector_attempts"] == 2


@pytest.mark.parametrize(
    ("options", "kind", "body"),
    [
        ({"mime_type": "text/xml"}, "CUST_OUT", b"<Customer"),
        ({"format": "OWN"}, "OWN", b'{"BusinessObject"'),
        ({"mime_type": "application/json; charset=UTF-8", "format": "V.2"}, "V.2", b'{"BusinessObject"'),
    ],
)
def test_format_and_mime_type_are_those_of_the_subscription(
    bench: Bench, outcomes: Outcomes, options: dict[str, str], kind: str, body: bytes
) -> None:
    deployment = bench.deploy(subscriptions=[{**A_AND_QUEUE[1], **options}])
    deployment.drop("customers", customer(), "4.1.T")
    outcomes(deployment)
    (sent,) = deployment.messages("crm")
    assert sent.type == kind
    assert body in sent.body


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("JMSType", ("OWN", "c", {})),
        ("JMSCorrelationID", (None, "OWN", {})),
        ("kind", (None, "c", {"kind": "OWN"})),
    ],
)
def test_the_format_is_said_where_message_format_property_wants_it(
    bench: Bench, outcomes: Outcomes, name: str, said: tuple[object, ...]
) -> None:
    deployment = bench.deploy(subscriptions=[{**A_AND_QUEUE[1], "format": "OWN"}], MessageFormatProperty=name)
    deployment.send("customers", customer(), correlation_id="c")
    outcomes(deployment)
    (sent,) = deployment.messages("crm")
    own = {key: value for key, value in sent.properties.items() if not key.startswith("connector_")}
    assert (sent.type, sent.correlation_id, own) == said


def test_nothing_is_sent_of_an_event_that_fails(bench: Bench, outcomes: Outcomes) -> None:
    deployment = bench.deploy(subscriptions=A_AND_QUEUE)
    deployment.drop("customers", customer("a: fail x"), "4.1.T")
    deployment.drop("customers", customer(), "4.2.T")
    outcomes(deployment)
    assert len(deployment.messages("crm")) == 1
    assert deployment.names("crm", "working") == []


def test_an_object_that_the_format_cannot_hold_fails_naming_the_subscription(
    bench: Bench, outcomes: Outcomes
) -> None:
    deployment = bench.deploy(subscriptions=[{**A_AND_QUEUE[1], "mime_type": "text/plain"}])
    deployment.drop("customers", customer(), "4.1.T")
    kind, reason = outcomes(deployment)["ID:1"]
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


@pytest.mark.parametrize("durability", ["none", "batch"])
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


def test_container_managed_events_go_from_queue_to_queue_in_one_commit(
    bench: Bench, outcomes: Outcomes
) -> None:
    deployment = bench.deploy(subscriptions=[A_AND_QUEUE[1]], ContainerManagedEvents="JMS", PollQuantity=3)
    for n in range(7):
        deployment.drop("customers", customer(), f"4.{n}.T")
    deployment.drop("customers", "{", "4.bad.T")
    found = outcomes(deployment)
    assert sorted(kind for kind, _ in found.values()) == ["failed"] + ["published"] * 7
    assert len(deployment.messages("crm")) == 7
    assert bench.calls() == []
