"""Webhooks from a message to its outcome, by ``connector run --drain`` on a shared directory."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Run, ServiceDeployment
from tests.sinks.web_server import WebServer, answer, hang_up, serving

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
Deploy = Callable[..., ServiceDeployment]


@pytest.fixture
def server() -> Iterator[WebServer]:
    with serving() as made:
        yield made


@pytest.fixture
def deploy(tmp_path: Path, server: WebServer) -> Iterator[Deploy]:
    made = []

    def deploy(**subscription: Any) -> ServiceDeployment:
        deployment = ServiceDeployment(tmp_path, OBJECTS, "")
        entry = {
            "object": "Invoice",
            "name": "books",
            "webhook": {
                "url": f"{server.url}/invoices/{{InvoiceId}}",
                "headers": {"Authorization": "Bearer ${TOKEN:s3cr3t-t0ken}"},
            },
            **subscription,
        }
        document = {
            "provider": {"type": "dropbox", "root": "./data", "create": True, "durability": "none"},
            "connector": {
                "ApplicationName": "books",
                "InputDestination": ["queue://in", "queue://records"],
                "order": "none",
                **{f"{role}Destination": f"queue://{role.lower()}" for role in ("Archive", "Error")},
                "DataHandlerMimeType": "application/json",
                "ConfigurationMetaObject": "MO_Config",
            },
            "subscriptions": [entry],
            "metaobjects": "./metaobjects",
        }
        deployment.write("adapter.yaml", json.dumps(document))
        made.append(deployment)
        return deployment

    yield deploy
    for one in made:
        one.close()


def invoice(number: str, verb: str = "Create") -> str:
    return json.dumps({"BusinessObject": "Invoice", "Verb": verb, "InvoiceId": number})


def drain_until(deployment: ServiceDeployment, done: Callable[[], bool]) -> list[Run]:
    """Drains until a condition holds: a drain ends when nothing is due."""
    deadline, runs = time.monotonic() + 60, [deployment.drain()]
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)
        runs.append(deployment.drain())
    return runs


def test_each_object_is_a_request_and_its_message_is_archived(deploy: Deploy, server: WebServer) -> None:
    deployment = deploy()
    first = deployment.send("queue://in", invoice("7/../8"))
    records = "".join(f"{invoice(number)}\n" for number in "ab")
    deployment.send("queue://records", records)
    run = deployment.drain()
    assert run.summary["published"] == 2
    assert sorted(one.target for one in server.asked) == [
        "/invoices/7%2F..%2F8",
        "/invoices/a",
        "/invoices/b",
    ]
    assert {one.headers["authorization"] for one in server.asked} == {"Bearer s3cr3t-t0ken"}
    assert {one.headers["content-type"] for one in server.asked} == {"application/json"}
    assert len({one.headers["idempotency-key"] for one in server.asked}) == 3
    assert first in {message.message_id for message in deployment.messages("archive")}
    assert "s3cr3t" not in run.errors


def test_tries_in_place_repeat_the_request_with_its_key(deploy: Deploy, server: WebServer) -> None:
    deployment = deploy(retries=2)
    server.answers = [hang_up, answer(503, Retry_After="1")]
    deployment.send("queue://in", invoice("7"))
    assert deployment.drain().summary["published"] == 1
    first, second, third = server.asked
    assert first.headers == second.headers == third.headers
    assert first.body == second.body == third.body
    assert third.time - second.time >= 0.9, "Retry-After counts"


@pytest.mark.parametrize("bare", [False, True])
def test_what_a_server_cannot_take_now_comes_again_not_before_retry_after(
    deploy: Deploy, server: WebServer, bare: bool
) -> None:
    deployment = deploy(retry_later={"attempts": 3, "first": "10ms"})
    server.answers = [answer(429, Retry_After="2"), hang_up]
    if bare:
        deployment.drop("in", invoice("7"), "invoice.json")
    else:
        deployment.send("queue://in", invoice("7"))
    runs = drain_until(deployment, lambda: bool(deployment.messages("archive")))
    assert runs[0].summary["later"] == 1
    assert [one.target for one in server.asked] == ["/invoices/7"] * 3
    assert server.asked[1].time - server.asked[0].time >= 1.9
    assert len({one.headers["idempotency-key"] for one in server.asked}) == 1


def test_two_files_of_one_name_are_two_deliveries(deploy: Deploy, server: WebServer) -> None:
    deployment = deploy()
    for _ in range(2):
        deployment.drop("in", invoice("7"), "invoice.json")
        deployment.drain()
        time.sleep(0.01)
    first, second = server.asked
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (answer(422, b"no ledger for s3cr3t-t0ken"), "422 Unprocessable Entity: no ledger for ********"),
        (answer(302, Location="/other"), "302 Found, and a webhook follows no redirect"),
        (answer(503), "503 Service Unavailable"),
    ],
)
def test_a_refused_event_fails_with_the_answer_and_without_secrets(
    deploy: Deploy, server: WebServer, said: Any, reason: str
) -> None:
    deployment = deploy(webhook={"url": f"{server.url}/s3cr3t", "headers": {"X-Key": "s3cr3t-t0ken"}})
    server.answers = [said]
    deployment.send("queue://in", invoice("7"))
    run = deployment.drain()
    (message,) = deployment.messages("error")
    found = str(message.properties["connector_reason"])
    assert found.startswith("books: ")
    assert f"{server.url}: the answer is {reason}" in found
    assert ".py" not in found
    assert "s3cr3t" not in run.errors + found


def test_a_missing_value_fails_the_event_and_nothing_is_sent(deploy: Deploy, server: WebServer) -> None:
    deployment = deploy(webhook={"url": f"{server.url}/{{Note}}"}, verbs=["Create"])
    deployment.send("queue://in", invoice("7"))
    deployment.drain()
    (message,) = deployment.messages("error")
    assert "the URL needs Note, which has no value" in str(message.properties["connector_reason"])
    assert server.asked == []
