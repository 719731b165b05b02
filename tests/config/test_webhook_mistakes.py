"""Mistakes in a subscription with ``webhook``, each with its place, and never with a secret."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

P = "    process: processes:store_customer\n"
URL = "url: 'https://h.example/{CustomerId}'"


def put(deployment: Sample, webhook: str, *, more: str = "", name: str = "Customer") -> None:
    deployment.replace("adapter.yaml", "  - object: Customer\n", f"  - object: {name}\n")
    deployment.replace("adapter.yaml", P, f"    webhook: {{{webhook}}}\n{more}")


@rows(
    "webhook, key, text",
    [
        ("url: 'https://{CustomerId}/x'", "url", "a placeholder before the path, expected a host without"),
        ("url: 'https://u:s3cr3t@h.example/x'", "url", "a URL with a user"),
        ("url: 'https://u:${S}@h.example/x'", "url", "a URL with a user"),
        (
            "url: 'https://h.example/{Custmer}'",
            "url",
            "Customer has no attribute Custmer with a single value",
        ),
        ("url: 'https://h.example/{CustomerID}'", "url", "did you mean 'CustomerId'?"),
        ("url: 'https://h.example/{Address}'", "url", "no attribute Address with a single value"),
        (f"{URL}, method: post", "method", "did you mean 'POST'?"),
        (f"{URL}, timeout: 0s", "timeout", "a duration above 0"),
        (f"{URL}, mime_type: text/none", "mime_type", "there is no data handler for 'text/none'"),
        (f"{URL}, mime_type: text/xml, method: GET", "mime_type", "mime_type of a GET, without a body"),
        (f'{URL}, headers: {{X: "s3cr3t\\nY: z"}}', "headers.X", "a value that no header can have"),
        (f"{URL}, headers: {{X: 's3cr3t '}}", "headers.X", "a value that no header can have"),
        (f"{URL}, headers: {{X: 's3cr3tä'}}", "headers.X", "a value that no header can have"),
        (f"{URL}, headers: {{X: '${{LINE}}'}}", "headers.X", "a value that no header can have"),
        (f"{URL}, headers: {{'X Y': z}}", "headers", "X Y, no name of a header"),
        (f'{URL}, headers: {{"X\\r\\nY": z}}', "headers", "no name of a header"),
        (f"{URL}, headers: {{HOST: z}}", "headers", "HOST, which the connector sets"),
        (f"{URL}, headers: {{Idempotency-Key: z}}", "headers", "which the connector sets"),
        ("method: POST", "", "url is missing"),
        (f"{URL}, redirects: 3", "redirects", "unknown key"),
    ],
)
def test_a_mistake_has_its_place(deployment: Sample, webhook: str, key: str, text: str) -> None:
    put(deployment, webhook)
    (problem,) = deployment.check(S="s3cr3t", LINE="s3cr3t\n")
    assert problem.path == "subscriptions[0].webhook" + f".{key}" * bool(key)
    assert problem.line
    assert text in str(problem)
    assert "s3cr3t" not in str(problem)


@rows(
    "more, expected",
    [
        ("    reply: true\n", "it left out"),
        ("    mime_type: text/xml\n", "webhook: {mime_type: ...}"),
        ("    format: F\n", "it left out"),
        ("    rest_after: 3\n", "it with retry_later, which names failures"),
    ],
)
def test_a_key_that_a_webhook_cannot_have_is_named(deployment: Sample, more: str, expected: str) -> None:
    put(deployment, URL, more=more)
    (problem,) = deployment.check()
    assert (problem.path, problem.expected) == (f"subscriptions[0].{more.split(':')[0].strip()}", expected)


def test_attributes_of_a_pattern_are_known_only_when_an_object_comes(deployment: Sample) -> None:
    put(deployment, URL, name="Cust*")
    assert deployment.check() == []


def test_the_package_is_looked_for(deployment: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    put(deployment, URL)
    monkeypatch.setitem(sys.modules, "httpx", None)  # as if the extra were not installed
    (problem,) = deployment.check()
    assert problem.path == "subscriptions[0].webhook"
    assert problem.expected == "pip install 'event-connector[webhook]'"
