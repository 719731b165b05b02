"""A copy says the kind and the place of its reason, and which object and subscription are concerned."""

from __future__ import annotations

from typing import Any

import pytest

from connector.events.outcome import Outcome
from connector.messaging.message import Message
from connector.status import OutcomeKind
from tests.events.conftest import Bench
from tests.tables import Table

PROCESSES = """\
import os, threading
import connector

def a(bo, event):
    what = bo["Name"]
    if what == "refuse":
        raise ValueError("no")
    if what == "fail":
        raise connector.Failed("no more")
    if what == "away":
        raise ConnectionRefusedError("nobody is there")
    if what == "temporary":
        raise connector.TemporaryFailure("soon")
    if what == "exit":
        os._exit(3)
    if what == "hang":
        threading.Event().wait()
"""


def customer(name: str) -> str:
    return f'{{"BusinessObject": "Customer", "CustomerId": "1", "Name": "{name}"}}'


def told(message: Message) -> dict[str, Any]:
    names = ("kind", "object", "verb", "subscription", "place")
    found = {name: message.properties.get(f"connector_{name}") for name in names}
    return {name: value for name, value in found.items() if value is not None}


OF_A = {"object": "Customer", "verb": "Create", "subscription": "a"}
CASES = {
    "{": {"kind": "malformed"},
    customer("x" * 3000): {"kind": "too_large"},
    customer("refuse"): {"kind": "refused", "place": "processes.py:7", **OF_A},
    customer("fail"): {"kind": "refused", "place": "processes.py:9", **OF_A},
    customer("away"): {"kind": "temporary", "place": "processes.py:11", **OF_A},
    customer("temporary"): {"kind": "temporary", "place": "processes.py:13", **OF_A},
    customer("exit"): {"kind": "worker_died"},
    customer("hang"): {"kind": "timeout", "subscription": "a"},
    '{"BusinessObject": "Note"}': {"kind": "unsubscribed", "object": "Note", "verb": "Create"},
    '{"BusinessObject": "Nothing"}': {"kind": "unsubscribed"},
}


@pytest.mark.process
def test_a_copy_says_what_kind_of_reason_it_has(bench: Bench) -> None:
    one = {"object": "Customer", "process": "processes:a", "name": "a", "timeout": "1s"}
    deployment = bench.deploy(subscriptions=[one], processes=PROCESSES, max_attempts=1, max_body="2KiB")
    for number, body in enumerate(CASES):
        deployment.drop("orders", body, f"4.{number}.T")
    deployment.drain(isolated=True)
    copies = [*deployment.messages("error"), *deployment.messages("unsubscribed")]
    found = {copy.message_id: told(copy) for copy in copies}
    with Table() as table:
        for number, (body, expected) in enumerate(CASES.items()):
            with table.row(body[:60]):
                assert found[f"ID:{number}"] == expected


def test_a_message_that_cannot_be_sent_on_names_its_subscription(bench: Bench) -> None:
    one = {"object": "Customer", "destination": "queue://crm", "name": "crm", "mime_type": "text/csv"}
    deployment = bench.deploy(subscriptions=[one], objects=WITH_CHILD)
    deployment.send(
        "queue://orders", '{"BusinessObject": "Customer", "CustomerId": "1", "Child": [{"A": "x"}]}'
    )
    deployment.drain()
    (copy,) = deployment.messages("queue://error")
    assert told(copy) == {"kind": "send_failed", **OF_A, "subscription": "crm"}


WITH_CHILD = """\
business_object: Customer
verbs: {Create: }
attributes:
  CustomerId: {type: String, key: true}
  Child: {type: Child, cardinality: n}
---
business_object: Child
attributes: {A: String}
---
static_metaobject: MO_Config
Default: {}
"""


def test_the_properties_go_when_the_message_is_processed_again(bench: Bench) -> None:
    one = {"object": "Customer", "process": "processes:a", "name": "a"}
    deployment = bench.deploy(subscriptions=[one], processes=PROCESSES)
    deployment.drop("orders", customer("refuse"), "4.1.T")
    deployment.drain()
    assert told(*deployment.messages("queue://error"))["kind"] == "refused"
    deployment.move("error", "orders", customer("right"))
    deployment.drain()
    assert told(*deployment.messages("queue://archive")) == {}


def test_a_journal_of_an_earlier_version_is_read() -> None:
    found = Outcome.from_list(["failed", "Order", "Create", "why", 1, [], [], []])
    assert (found.kind, found.reason_kind, found.place) == (OutcomeKind.FAILED, "", "")
