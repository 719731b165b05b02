"""Webhooks from a message to its outcome, by an adapter on a shared directory."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

import pytest

from tests.events.conftest import Bench, EventDeployment, bench
from tests.sinks.web_server import WebServer, answer, hang_up, server
from tests.tables import rows
from tests.waiting import wait_for

__all__ = ["bench", "server"]

OBJECTS = """\
business_object: Invoice
verbs: {Create: , Delete: }
attributes:
  InvoiceId: {type: String, key: true}
  Note: String
---
static_metaobject: MO_Config
rules:
  Invoice_Create: {InputDestination: queue://records, DataHandlerMimeType: application/jsonl}
---
datahandler_metaobject: MO_DataHandler_Default
handlers:
  application/jsonl: {split: true}
"""


def deploy(bench: Bench, server: WebServer, **subscription: Any) -> EventDeployment:
    webhook = {
        "url": f"{server.url}/invoices/{{InvoiceId}}",
        "headers": {"Authorization": "Bearer ${TOKEN:s3cr3t-t0ken}"},
    }
    return bench.deploy(
        subscriptions=[{"object": "Invoice", "name": "books", "webhook": webhook, **subscription}],
        objects=OBJECTS,
        InputDestination=["queue://in", "queue://records"],
        order="none",
    )


def invoice(number: str, verb: str = "Create") -> str:
    return json.dumps({"BusinessObject": "Invoice", "Verb": verb, "InvoiceId": number})


def test_each_object_is_a_request_and_its_message_is_archived(
    bench: Bench, server: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    deployment = deploy(bench, server)
    ids = [
        deployment.send("queue://in", invoice("7/../8")),
        deployment.send("queue://records", "".join(f"{invoice(number)}\n" for number in "ab")),
    ]
    assert deployment.outcomes() == dict.fromkeys(ids, ("published", ""))
    targets = sorted(one.target for one in server.asked)
    assert targets == ["/invoices/7%2F..%2F8", "/invoices/a", "/invoices/b"]
    assert {one.headers["authorization"] for one in server.asked} == {"Bearer s3cr3t-t0ken"}
    assert {one.headers["content-type"] for one in server.asked} == {"application/json"}
    assert len({one.headers["idempotency-key"] for one in server.asked}) == 3
    assert sorted(deployment.ids("archive")) == sorted(ids)
    assert "s3cr3t" not in caplog.text


def test_a_map_makes_the_object_of_the_request(bench: Bench, server: WebServer) -> None:
    url = f"{server.url}/{{BookId}}/{{InvoiceId}}"
    deployment = deploy(bench, server, map="ToBook", webhook={"url": url})
    names = "{BookId: {type: String, key: true}, InvoiceId: String}"
    book = f"business_object: Book\nverbs: [Create]\nattributes: {names}\n"
    attributes = "{BookId: \"join('', ['B', InvoiceId])\", InvoiceId: \"'none'\"}"
    rule = f"map: ToBook\nfrom: Invoice\nto: Book\nattributes: {attributes}\n"
    deployment.write("metaobjects/map.yaml", f"{book}---\n{rule}")
    identity = deployment.send("queue://in", invoice("7"))
    assert deployment.outcomes() == {identity: ("published", "")}
    (asked,) = server.asked
    assert asked.target == "/B7/7"  # the object of the event comes first
    assert json.loads(asked.body) == {
        "BusinessObject": "Book",
        "Verb": "Create",
        "BookId": "B7",
        "InvoiceId": "none",
    }


def test_tries_in_place_repeat_the_request_with_its_key(bench: Bench, server: WebServer) -> None:
    deployment = deploy(bench, server, retries=2)
    server.answers = [hang_up, answer(503, Retry_After="1")]
    deployment.send("queue://in", invoice("7"))
    assert list(deployment.outcomes().values()) == [("published", "")]
    first, second, third = server.asked
    assert first.headers == second.headers == third.headers
    assert first.body == second.body == third.body
    assert third.time - second.time >= 0.9, "Retry-After counts"


@rows("bare", [False, True])
def test_what_a_server_cannot_take_now_comes_after_retry_after(
    bench: Bench, server: WebServer, bare: bool
) -> None:
    deployment = deploy(bench, server, retry_later={"attempts": 3, "first": "10ms"})
    server.answers = [answer(429, Retry_After="1"), hang_up]
    if bare:
        deployment.drop("in", invoice("7"), "invoice.json")
    else:
        deployment.send("queue://in", invoice("7"))
    with deployment.running() as adapter:
        adapter.drain()
        assert adapter.summary.as_dict()["later"] >= 1
        wait_for(lambda: adapter.drain() and deployment.messages("archive"))
    assert [one.target for one in server.asked] == ["/invoices/7"] * 3
    assert server.asked[1].time - server.asked[0].time >= 0.9
    assert len({one.headers["idempotency-key"] for one in server.asked}) == 1


def test_two_files_of_one_name_are_two_deliveries(bench: Bench, server: WebServer) -> None:
    deployment = deploy(bench, server)
    for moment in (1, 2):
        deployment.drop("in", invoice("7"), "invoice.json")
        os.utime(f"{deployment.folders('in').target}/invoice.json", (moment, moment))
        deployment.drain()
    first, second = server.asked
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


def test_a_refused_event_fails_with_the_answer_and_without_secrets(
    bench: Bench, server: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    webhook = {"url": f"{server.url}/s3cr3t", "headers": {"X-Key": "s3cr3t-t0ken"}}
    deployment = deploy(bench, server, webhook=webhook)
    server.answers = [answer(422, b"no ledger for s3cr3t-t0ken")]
    deployment.send("queue://in", invoice("7"))
    ((outcome, found),) = deployment.outcomes().values()
    assert (outcome, found.startswith("books: "), ".py" in found) == ("failed", True, False)
    assert f"{server.url}: the answer is 422 Unprocessable Entity: no ledger for ********" in found
    assert "s3cr3t" not in caplog.text + found
