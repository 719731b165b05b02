"""``event.send``: messages that belong to the delivery of a process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, text

from connector.errors import CapabilityError
from connector.messaging.message import Message
from connector.sinks.contract import Event
from connector.testing.processes import call
from tests.events.conftest import PROCESSES, Bench, EventDeployment, with_rules
from tests.tables import rows
from tests.waiting import wait_for

SENDING = f"""{PROCESSES}
def send(bo, event):
    key = event.send("Order.Create", {{"Id": bo["CustomerId"]}}, destination="queue://orders-out")
    with open("keys", "a") as keys:
        keys.write(key + "\\n")
    event.send(b"raw", destination="queue://raw", properties={{"region": "EU"}}, priority=7,
               correlation_id="c", group="g")
    obey("send", bo, event)

def twice(bo, event):
    event.send(bo, destination="queue://copies")
    event.send(bo, destination="queue://copies", verb="Update", mime_type="text/xml")

def by_rule(bo, event):
    event.send("Note.Create", {{"Text": "hello"}})

def large(bo, event):
    event.send("x", destination="queue://raw")
    event.send("x" * (1 << 20), destination="queue://raw")

def late(bo, event):
    threading.Thread(target=later, args=(event,)).start()

def later(event):
    while not os.path.exists(os.path.join(HERE, "ended")):
        time.sleep(0.01)
    try:
        event.send("x", destination="queue://raw")
    except Exception as error:
        with open(os.path.join(HERE, "refused"), "w") as file:
            file.write(f"{{type(error).__name__}}: {{error}}")

def nowhere(bo, event):
    event.send("Order.Create", {{"Id": "1"}})

def wrong(bo, event):
    event.send("Order.Create", {{"Idd": "1"}}, destination="queue://orders-out")

def book(bo, event):
    event.send("Order.Create", {{"Id": event.id}}, destination="queue://orders-out")
    event.transaction.execute("insert into booked values (?)", (event.id,))
    obey("book", bo, event)
"""


def one(process: str, **more: Any) -> dict[str, Any]:
    return {"object": "Customer", "process": f"processes:{process}", "name": process, **more}


def deploy(bench: Bench, *subscriptions: Mapping[str, Any], **settings: Any) -> EventDeployment:
    return bench.deploy(subscriptions=subscriptions, processes=SENDING, **settings)


def bodies(deployment: EventDeployment, queue: str) -> list[Any]:
    return [json.loads(message.body) for message in deployment.messages(queue)]


def test_what_a_process_sends_leaves_when_its_delivery_is_confirmed(
    bench: Bench, section: Mapping[str, str]
) -> None:
    deployment = deploy(bench, one("send"), provider=section)
    identity = deployment.send("customers", '{"BusinessObject": "Customer", "CustomerId": "7"}')
    deployment.drain()
    assert bodies(deployment, "orders-out") == [{"BusinessObject": "Order", "Verb": "Create", "Id": "7"}]
    (order,) = deployment.messages("orders-out")
    assert (bench.directory / "keys").read_text() == f"{identity}/send/1\n"
    assert order.properties["connector_key"] == f"{identity}/send/1"
    assert order.properties["connector_event_id"] == identity
    assert order.properties["connector_hops"] == 1
    (raw,) = deployment.messages("raw")
    assert (raw.message_class, raw.body, raw.priority, raw.correlation_id) == ("B", b"raw", 7, "c")
    assert raw.properties["region"] == "EU"
    assert raw.properties["JMSXGroupID"] == "g"
    assert raw.properties["connector_key"] == f"{identity}/send/2"


@rows(
    "name, place",
    [
        ("send: fail", "error"),
        ("send: inactive", "customers"),
        ("send: unsubscribed", "unsubscribed"),
        ("send: failed", "error"),
    ],
)
def test_a_delivery_that_does_not_confirm_sends_nothing(bench: Bench, name: str, place: str) -> None:
    deployment = deploy(bench, one("send"))
    deployment.drop_customers(x=name)
    with deployment.running() as adapter:
        adapter.poll()
    assert len(deployment.messages(place)) == 1
    assert deployment.messages("orders-out") == deployment.messages("raw") == []
    assert deployment.names("orders-out", "working") == []


def test_what_one_subscription_has_sent_leaves_although_another_one_fails(bench: Bench) -> None:
    deployment = deploy(bench, one("send"), one("a"))
    deployment.drop_customers(x="a: fail-with broken")
    (bench.directory / "broken").touch()
    deployment.drain()
    assert len(deployment.messages("error")) == len(deployment.messages("orders-out")) == 1
    (bench.directory / "broken").unlink()
    deployment.move("error", "customers")
    deployment.drain()
    assert len(deployment.messages("archive")) == 1
    assert len(deployment.messages("orders-out")) == 1, "a repaired event sends nothing twice"
    assert bench.called("send") == ["ID:x"]


def test_a_delivery_that_comes_again_sends_once(bench: Bench) -> None:
    later = {"attempts": 5, "first": "1ms", "most": "1ms"}
    deployment = deploy(bench, one("send", retries=3), one("a", retry_later=later))
    deployment.drop_customers(x="send: temporary-once; a: refused-until 2")
    deployment.drain()
    assert Counter(call["who"] for call in bench.calls()) == {"send": 2, "a": 3}
    assert len(deployment.messages("archive")) == len(deployment.messages("orders-out")) == 1
    assert len(deployment.messages("raw")) == 1


def test_an_object_is_sent_in_the_format_that_is_asked_for(bench: Bench) -> None:
    deployment = deploy(bench, one("twice"))
    deployment.drop_customers(x="Ann")
    deployment.drain()
    first, second = deployment.messages("copies")
    assert json.loads(first.body)["Name"] == "Ann"
    assert b'<Customer verb="Update">' in second.body


def test_a_rule_says_where_an_object_goes_and_in_which_format(bench: Bench) -> None:
    rules = (
        "  Customer_Create: {InputDestination: queue://customers}\n"
        "  Note_Create: {OutputDestination: queue://notes-out, OutputFormat: NOTE, Priority: 8, "
        "DataHandlerMimeType: text/plain}\n"
    )
    deployment = deploy(bench, one("by_rule"), objects=with_rules(rules))
    deployment.drop_customers(x="")
    deployment.drain()
    (note,) = deployment.messages("notes-out")
    assert (note.body, note.type, note.priority) == (b"hello", "NOTE", 8)


@rows(
    "process, reason",
    [
        ("large", "a delivery sends at most 1048576 bytes together"),
        ("nowhere", "give destination=, or an OutputDestination in the rule Order_Create"),
        ("wrong", "Order: Idd: no such attribute in Order, did you mean 'Id'?"),
    ],
)
def test_what_cannot_be_sent_fails_its_event_with_a_reason(bench: Bench, process: str, reason: str) -> None:
    deployment = deploy(bench, one(process))
    deployment.drop_customers(x="")
    ((kind, found),) = deployment.outcomes().values()
    assert kind == "failed"
    assert reason in found
    assert deployment.messages("raw") == []


def test_after_the_return_nothing_is_sent_any_more(bench: Bench) -> None:
    deployment = deploy(bench, one("late"))
    deployment.drop_customers(x="")
    deployment.drain()
    (bench.directory / "ended").touch()
    refused = bench.directory / "refused"
    wait_for(refused.exists)
    wait_for(lambda: "the delivery has ended" in refused.read_text())
    assert refused.read_text().startswith("SessionStateError: ")


def shop_of(directory: Path) -> str:
    url = f"sqlite:///{directory}/shop.db"
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text("create table booked (id text)"))
    return url


def booked(url: str) -> int:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return int(connection.execute(text("select count(*) from booked")).scalar() or 0)


def test_rows_and_messages_of_a_transaction_are_one_fact(bench: Bench, tmp_path: Path) -> None:
    url = shop_of(tmp_path)
    shop = {"databases": {"shop": {"url": url}}}
    deployment = deploy(bench, one("book", transaction="shop"), more=shop, max_attempts=2)
    deployment.drop_customers(a="", b="book: fail", c="book: exit-once 3", d="book: exit 3")
    found = deployment.outcomes(isolated=True)
    assert {name: kind for name, (kind, _) in found.items()} == {
        "ID:a": "published",
        "ID:b": "failed",
        "ID:c": "published",
        "ID:d": "failed",
    }
    assert sorted(body["Id"] for body in bodies(deployment, "orders-out")) == ["ID:a", "ID:c"]
    assert booked(url) == 2


def test_an_old_table_of_outcomes_gets_the_column(bench: Bench, tmp_path: Path) -> None:
    url = shop_of(tmp_path)
    old = (
        "create table connector_outcome "
        "(application varchar(100) not null, subscription varchar(255) not null, "
        "event varchar(64) not null, message_id varchar(255) not null, client varchar(100) not null, "
        "batch bigint not null, written bigint not null, primary key (application, subscription, event))"
    )
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text(old))
    shop = {"databases": {"shop": {"url": url}}}
    deployment = deploy(bench, one("book", transaction="shop"), more=shop)
    deployment.drop_customers(a="")
    deployment.drain()
    assert (booked(url), len(deployment.messages("orders-out"))) == (1, 1)


def test_the_history_leads_from_the_event_to_what_it_has_sent(bench: Bench) -> None:
    steps = [one("send"), {"object": "Order", "process": "processes:b", "name": "b"}]
    deployment = deploy(bench, *steps, InputDestination=["queue://customers", "queue://orders-out"])
    deployment.drop_customers(x="")
    deployment.drain()
    assert bench.called("b") != []
    (order,) = [message for message in deployment.messages("archive") if b"Order" in message.body]
    assert isinstance(order, Message)
    assert order.properties["connector_event_id"] == "ID:x"


def test_a_test_of_a_process_shows_what_it_has_sent(bench: Bench) -> None:
    deployment = deploy(bench, one("by_rule"))
    adapter = deployment.directory / "adapter.yaml"

    def send(bo: Any, event: Any) -> str:
        event.send("Note.Create", {"Text": bo["Name"]}, destination="queue://notes", properties={"n": 1})
        return "done"

    async def send_async(bo: Any, event: Any) -> str:
        return send(bo, event)

    for process in (send, send_async):
        result = call(process, "Customer.Create", {"CustomerId": "1", "Name": "Ann"}, adapter=adapter)
        (sent,) = result.sent
        assert (result.returned, sent.destination) == ("done", "queue://notes")
        assert sent.object is not None
        assert (sent.object.type, sent.object["Text"]) == ("Note", "Ann")
        assert sent.properties["n"] == 1
        assert sent.properties["connector_key"] == f"ID:test/{process.__name__}/1"
        assert sent.body == b"Ann"


def test_an_event_without_an_adapter_says_how_to_send(bench: Bench) -> None:
    event = Event("ID:1", "queue://in", 1, Message())
    with pytest.raises(CapabilityError, match=r"connector\.testing\.processes\.call"):
        event.send("x", destination="queue://out")
