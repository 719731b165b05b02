"""Mistakes in a timer, each with its place. Those of its object are found before the night."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from connector.config.resolved import as_document, as_yaml
from connector.config.schema import json_schema
from connector.cron import Cron
from connector.stores.dropbox.provider import DropboxProvider
from tests.config.conftest import Sample
from tests.tables import rows

GOOD = "name: nightly, every: 15m, to: queue://orders"
OBJECT = "object: Customer, data: {CustomerId: 7, Limit: 1.5}"


def add(deployment: Sample, *timers: str) -> None:
    deployment.add("timers:\n" + "".join(f"  - {{{one}}}\n" for one in timers))


@rows(
    "timer, path, text",
    [
        ("every: 15m, to: orders, body: x", "", "name is missing"),
        ('name: "a\\tb", every: 15m, to: orders, body: x', "name", "without control characters"),
        ("name: a, to: orders, body: x", "", "neither every nor cron, expected every: 15m, or cron:"),
        (f'{GOOD}, cron: "0 2 * * *", body: x', "cron", "cron with every, expected one of them"),
        ('name: a, cron: "0 2 * *", to: orders, body: x', "cron", "which has 4 fields"),
        ('name: a, cron: "0 2 * * 9", to: orders, body: x', "cron", "a number from 0 to 7, or sun to sat"),
        ("name: a, every: 100ms, to: orders, body: x", "every", "which is too short, expected 1s to 366d"),
        ("name: a, every: 400d, to: orders, body: x", "every", "which is too long"),
        ("name: a, every: often, to: orders, body: x", "every", "expected a duration"),
        (f"{GOOD}, misfire: twice, body: x", "misfire", "expected once | all | none"),
        ("name: a, every: 15m, body: x", "", "to is missing"),
        ("name: a, every: 15m, to: orders~EXPIRED, body: x", "to", "nothing can be sent there"),
        (
            "name: a, every: 15m, to: error, body: x",
            "to",
            "queue://error is the ErrorDestination too (line 13)",
        ),
        (GOOD, "", "neither object nor body"),
        (f"{GOOD}, {OBJECT}, body: x", "body", "body with object, expected one of them"),
        (f"{GOOD}, body: x, verb: Create", "verb", "verb without object, expected object: NAME too"),
        (f"{GOOD}, body: x, data: {{A: b}}", "data", "data without object"),
        (f"{GOOD}, body: {{A: b}}", "body", "a mapping, expected the text of the body, or object and data"),
        (
            f"{GOOD}, object: Custmer",
            "object",
            "there is no business object 'Custmer', expected a business object of metaobjects, did you mean 'Customer'?",
        ),
        (
            f"{GOOD}, {OBJECT}, verb: Creat",
            "verb",
            "Customer has no verb 'Creat', expected one of Create, Update, did you mean 'Create'?",
        ),
        (f"{GOOD}, object: Address, data: {{City: x}}", "data", "Address has no verb 'Create'"),
        (f"{GOOD}, object: Customer", "object", "CustomerId: required, but not set"),
        (f"{GOOD}, object: Customer, data: {{CustomerId: 7}}", "data", "Limit: required, but not set"),
        (
            f"{GOOD}, object: Customer, data: {{CustomerId: 7, Limit: much}}",
            "data.Limit",
            "expected a number",
        ),
        (
            f"{GOOD}, object: Customer, data: {{CustomerId: 7, Limit: '${{PIN}}'}}",
            "data.Limit",
            "'${PIN}' from the environment",
        ),
        (
            f"{GOOD}, object: Customer, data: {{CustomerId: '${{LONG}}', Limit: 1}}",
            "data.CustomerId",
            "'${LONG}' from the environment",
        ),
        (
            f"{GOOD}, object: Customer, data: {{CustomerId: 7, Limit: 1, Nme: x}}",
            "data.Nme",
            "did you mean 'Name'?",
        ),
        (
            f"{GOOD}, object: Customer, data: {{CustomerId: 7, Limit: 1, Address: {{City: x}}}}",
            "data.Address",
            "a mapping, expected a list of mappings",
        ),
        (f"{GOOD}, object: Customer, data: [7]", "data", "a list, expected a mapping with the attributes"),
        (f"{GOOD}, {OBJECT}, mime_type: text/none", "mime_type", "there is no data handler for 'text/none'"),
        (f"{GOOD}, body: x, mime_type: text/none", "mime_type", "there is no data handler for 'text/none'"),
        (f"{GOOD}, {OBJECT}, mime_type: text/plain", "data", "no attribute 'Text' to hold a plain text"),
        (f"{GOOD}, body: x, evry: 1m", "evry", "did you mean 'every'?"),
    ],
)
def test_a_mistake_in_a_timer_has_its_place(deployment: Sample, timer: str, path: str, text: str) -> None:
    add(deployment, timer)
    problem = deployment.problem(PIN="s3cr3t", LONG="s3cr3t" * 9)
    assert problem.path == f"timers[0].{path}".rstrip(".")
    assert problem.line
    assert text in str(problem)
    assert "s3cr3t" not in str(problem)


def test_timers_have_names_of_their_own(deployment: Sample) -> None:
    add(deployment, f"{GOOD}, body: x", f"{GOOD}, body: y")
    problem = deployment.problem()
    assert problem.path == "timers[1].name"
    assert "a second timer named 'nightly', first in line" in str(problem)


def test_a_queue_that_is_nearly_another_is_a_warning(deployment: Sample) -> None:
    add(deployment, "name: a, every: 15m, to: queue://order, body: x", "name: b, every: 15m, to: q, body: x")
    problem = deployment.problem()
    assert (problem.path, problem.warning, problem.nearest) == ("timers[0].to", True, "queue://orders")


def test_a_timer_is_read_and_written(deployment: Sample) -> None:
    add(
        deployment,
        'name: 7, cron: " 0 2 * *  mon-fri", to: orders, misfire: all, object: Customer, data: {CustomerId: 0710, '
        "Name: null, Limit: 1.50, Address: [{City: no}], }",
        "name: body, every: 90s, to: topic://news, body: 'yes', mime_type: text/x",
    )
    assert deployment.check() == []
    configuration = deployment.load()
    first, second = configuration.timers
    assert (first.name, first.cron, first.times) == ("7", Cron("0 2 * * mon-fri"), "cron 0 2 * * mon-fri")
    assert first.data == {"CustomerId": "0710", "Name": None, "Limit": 1.5, "Address": [{"City": "no"}]}
    assert (second.every, second.body, second.misfire) == (90.0, "yes", "once")
    document = as_document(configuration)
    deployment.write("adapter.yaml", as_yaml(document))
    again = deployment.load()
    assert again.timers == configuration.timers
    assert yaml.safe_load(as_yaml(as_document(again)))["timers"] == document["timers"]


def test_secrets_of_a_timer_are_masked(deployment: Sample) -> None:
    deployment.write("key", "s3cr3t-of-a-file\n")
    deployment.replace("metaobjects/objects.yaml", "  Name: String\n", "  Name: String\n  Password: String\n")
    data = "CustomerId: 7, Limit: 1, Password: s3cr3t"
    add(
        deployment,
        f"{GOOD}, object: Customer, data: {{{data}}}",
        "name: b, every: 1m, to: orders, body: 'x ${file:key}'",
    )
    configuration = deployment.load()
    assert configuration.timers[1].body == "x s3cr3t-of-a-file"
    assert "s3cr3t" not in as_yaml(as_document(configuration))


def test_an_editor_knows_the_keys() -> None:
    entry = json_schema()["$defs"]["TimerEntry"]
    assert entry["required"] == ["name", "to"]
    assert {"every", "cron", "misfire", "object", "verb", "data", "body", "mime_type"} < entry[
        "properties"
    ].keys()


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("timers", f"timers: [{{{GOOD}, body: x}}]"),
        ("http.events", "http: {events: [queue://orders], tokens: [a-token-of-enough-characters]}"),
    ],
)
def test_a_provider_that_cannot_send_once_has_no_timers_and_no_events_over_http(
    deployment: Sample, monkeypatch: pytest.MonkeyPatch, path: str, section: str
) -> None:
    deployment.add(f"{section}\n")
    able = DropboxProvider.capabilities
    monkeypatch.setattr(DropboxProvider, "capabilities", replace(able, sends_once=False))
    problem = deployment.problem()
    assert problem.path == path
    assert "the provider dropbox cannot send a message once by key" in str(problem)
