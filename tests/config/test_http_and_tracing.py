"""The sections ``http``: who is let in is what was meant, and ``tracing``: where spans go."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from connector.config.http_model import Address, is_loopback
from connector.config.resolved import as_document, as_yaml, explained
from connector.declare.masking import MASK
from connector.errors import ConnectorError
from connector.operate.tracer import Tracer, open_exporter
from connector.service.assembly import make_tracer
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

TOKEN = "0123456789abcdefghij"
NO_URL = "the URL of a collector, such as http://localhost:4318"


def test_an_empty_section_is_a_server_of_this_machine_alone(deployment: Sample) -> None:
    assert deployment.load().http is None
    deployment.add("http: {}")
    http = deployment.load().http
    assert http is not None
    assert (str(http.listen), http.listen.is_loopback, http.tokens) == ("127.0.0.1:8080", True, ())
    assert (http.max_body, http.max_requests, http.max_timeout) == (1 << 20, 1000, 300.0)
    assert (http.idempotency_time, http.idempotency_keys) == (86400.0, 10_000)


@rows(
    "text, host, port",
    [
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("'[::]:8080'", "::", 8080),
        ("localhost:0", "localhost", 0),
        ("orders.example.com:65535", "orders.example.com", 65535),
    ],
)
def test_an_address_is_a_host_and_a_port(deployment: Sample, text: str, host: str, port: int) -> None:
    deployment.add(f"http:\n  listen: {text}\n  tokens: {TOKEN}")
    http = deployment.load().http
    assert http is not None
    assert (http.listen, str(http.listen)) == (Address(host, port), text.strip("'"))


@rows(
    "host, loopback",
    [
        *((host, True) for host in ("127.0.0.1", "127.255.0.9", "::1", "localhost", "LOCALHOST.")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "")),
        ("127.0.0.1.example.com", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_token_has_a_name_and_roles_and_is_never_shown(deployment: Sample) -> None:
    written = "another-token-of-some-length"
    entries = f"[{{token: '${{TOKEN}}', name: alice, roles: [read, operate]}}, {written}]"
    deployment.add(f"http: {{tokens: {entries}}}")
    configuration = deployment.load(TOKEN=TOKEN)
    assert configuration.http is not None
    alice, other = configuration.http.tokens
    assert (alice.token, alice.name, alice.roles) == (TOKEN, "alice", ("read", "operate"))
    assert (other.token, other.name, other.roles) == (written, None, ("read", "operate", "request", "send"))
    document = as_document(configuration)
    shown = document["http"]["tokens"]
    assert shown == [{"token": MASK, "name": "alice", "roles": ["read", "operate"]}, MASK]
    for secret in (TOKEN, written):
        assert secret not in as_yaml(document) + repr(configuration) + str(configuration.http)


WRONG_TOKENS = [
    (f"[{{token: {TOKEN}, roles: [reed]}}]", "http.tokens[0].roles[0]", "did you mean 'read'"),
    (f"[{{token: {TOKEN}, roles: []}}]", "http.tokens[0].roles", "no role"),
    (f"[{{name: alice}}, {TOKEN}]", "http.tokens[0]", "token is missing"),
    (f"[{TOKEN}, {TOKEN}]", "http.tokens[1]", "a token that stands twice"),
    (f"[{{token: {TOKEN}, name: a}}, {{token: {TOKEN}x, name: a}}]", "http.tokens[1].name", "another token"),
    ("[{token: '${EMPTY}'}]", "http.tokens[0].token", "${EMPTY} is empty"),
    ("[{token: two words}]", "http.tokens[0].token", "a text that cannot be sent"),
    ("['${NOWHERE}']", "http.tokens[0]", "NOWHERE is not set"),
]
UNSENDABLE = ("two words", 'quo"te', "umlaut-ä", "a=b")


@rows(
    "entries, path, text, secret",
    [
        *((*row, TOKEN) for row in WRONG_TOKENS),
        (
            "[s3cr3t]",
            "http.tokens[0]",
            "a token of 6 characters can be guessed, expected 16 or more",
            "s3cr3t",
        ),
        *(("['${SECRET}']", "http.tokens[0]", "a text that cannot be sent", one) for one in UNSENDABLE),
    ],
)
def test_a_mistake_in_a_token_is_found_where_it_is_and_does_not_show_it(
    deployment: Sample, entries: str, path: str, text: str, secret: str
) -> None:
    deployment.add(f"http: {{tokens: {entries}}}")
    problem = deployment.problem(EMPTY="", SECRET=secret)
    assert (problem.path, problem.warning) == (path, "can be guessed" in text)
    assert text in str(problem)
    assert secret not in str(problem)


def test_each_key_is_explained_and_a_secret_is_masked(deployment: Sample) -> None:
    deployment.add(f'http: {{tokens: [{{token: "{TOKEN}", name: ann, roles: [read]}}]}}')
    found = explained(deployment.load())
    assert list(found) == list(as_document(deployment.load()))
    http = {one.key: one for one in found["http"]}
    assert http["tokens[1].token"].value == f"'{MASK}'"
    assert (http["tokens[1].name"].value, http["tokens[1].roles"].value) == ("ann", "[read]")
    assert TOKEN not in str(found)
    without = [(name, one.key) for name, rows in found.items() for one in rows if not one.text]
    assert without == []


# --- events -----------------------------------------------------------------------------------


def test_a_queue_takes_messages_by_its_name_and_the_secret_of_a_signature_is_never_shown(
    deployment: Sample,
) -> None:
    signed = "{destination: queue://customers, signature: {header: X-Signed, secret: '${KEY}'}}"
    deployment.add(f"http: {{tokens: {TOKEN}, events: [queue://orders, {signed}]}}")
    configuration = deployment.load(KEY=TOKEN)
    assert configuration.http is not None
    plain, other = configuration.http.events
    assert (str(plain.destination), plain.signature) == ("queue://orders", None)
    assert other.signature is not None
    assert (other.signature.header, other.signature.secret) == ("X-Signed", TOKEN)
    document = as_document(configuration)
    shown = document["http"]["events"]
    signature = {"header": "X-Signed", "secret": MASK}
    assert shown == ["queue://orders", {"destination": "queue://customers", "signature": signature}]
    assert TOKEN not in as_yaml(document) + repr(configuration) + str(configuration.http)


SIGNED = "{destination: queue://customers, signature: {header: X-Signed"


@rows(
    "events, path, text, warning",
    [
        ("[topic://prices]", "[0]", "is a topic: a message that nobody subscribes to", False),
        ("['queue://customers~EXPIRED']", "[0]", "is a view of a queue", False),
        ("[queue://customers, customers]", "[1]", "queue://customers stands twice", False),
        ("[queue://error]", "[0]", "queue://error is the ErrorDestination too", False),
        (f"[{SIGNED}}}}}]", "[0].signature", "secret is missing", False),
        (f"[{SIGNED}, secret: ''}}}}]", "[0].signature.secret", "an empty text", False),
        (f"[{SIGNED} 1, secret: {TOKEN}}}}}]", "[0].signature.header", "the name of a header", False),
        (f"[{SIGNED}, secret: s3cr3t}}}}]", "[0].signature.secret", "6 characters can be guessed", True),
        ("[queue://custmers]", "[0]", "is not polled: another adapter", True),
        ("[{destination: customers, sign: {}}]", "[0].sign", "did you mean 'signature'", False),
    ],
)
def test_a_mistake_in_the_events_is_found_where_it_is(
    deployment: Sample, events: str, path: str, text: str, warning: bool
) -> None:
    deployment.add(f"http: {{tokens: {TOKEN}, events: {events}}}")
    problem = deployment.problem()
    assert (problem.path, problem.warning) == (f"http.events{path}", warning)
    assert text in str(problem)
    assert "s3cr3t" not in str(problem)
    if "custmers" in events:
        assert problem.nearest == "queue://customers"


@rows(
    "more, events, warned",
    [
        ("", "queue://customers", True),
        (f"tokens: [{{token: {TOKEN}, roles: [read]}}],", "queue://customers", True),
        ("", f"[{SIGNED}, secret: {TOKEN}}}}}]", False),
    ],
)
def test_a_queue_that_nobody_can_send_to_is_a_warning(
    deployment: Sample, more: str, events: str, warned: bool
) -> None:
    deployment.add(f"http: {{{more} events: {events}}}")
    found = [problem for problem in deployment.check() if problem.path.startswith("http")]
    assert [problem.warning for problem in found] == ([True] if warned else [])
    assert not found or "no token has the role send" in str(found[0])


# --- tracing ----------------------------------------------------------------------------------


def test_an_empty_section_exports_all_traces_and_none_exports_none(deployment: Sample) -> None:
    assert deployment.load().tracing is None
    assert make_tracer(deployment.load()) is None
    deployment.add("tracing: {}")
    tracing = deployment.load().tracing
    assert tracing is not None
    assert (tracing.endpoint, tracing.service, tracing.sample) == (None, None, 1.0)
    assert as_document(deployment.load())["tracing"] == {"sample": 1.0}


@rows(
    "variable, value",
    [
        ("OTEL_BSP_SCHEDULE_DELAY", "0"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "99999"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "abc"),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "-1"),
    ],
)
def test_a_variable_that_tracing_refuses_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    tracer = Tracer(lambda: open_exporter("http://127.0.0.1:9"), "service", "instance", "memory")
    with pytest.raises(ConnectorError, match=rf"^tracing refuses a variable .* \({variable}\): "):
        tracer.open()


@rows("text, share", [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1.0", 1.0)])
def test_a_sample_is_a_share(deployment: Sample, text: str, share: float) -> None:
    deployment.add(f"tracing: {{sample: {text}}}")
    tracing = deployment.load().tracing
    assert tracing is not None
    assert tracing.sample == share


@rows(
    "section, key, expected",
    [
        *(
            (f"endpoint: '{url}'", "endpoint", NO_URL)
            for url in ("localhost:4318", "grpc://a:4317", "http://")
        ),
        ("endpoint: 'http://collector:99999'", "endpoint", NO_URL),
        ("endpoint: 'http://u:s3cr3t@collector'", "endpoint", "OTEL_EXPORTER_OTLP_HEADERS"),
        *((f"sample: {share}", "sample", "a share from 0 to 1") for share in ("2", "-0.1", "10%")),
        ("endpont: http://collector", "endpont", "did you mean 'endpoint'?"),
    ],
)
def test_a_mistake_in_the_tracing_has_its_place(
    deployment: Sample, section: str, key: str, expected: str
) -> None:
    deployment.add(f"tracing: {{{section}}}")
    problem = deployment.problem()
    assert problem.path == f"tracing.{key}"
    assert problem.line
    assert expected in str(problem)
    assert "s3cr3t" not in str(problem)


def test_the_packages_of_tracing_are_looked_for(deployment: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """By check, and by a start."""
    deployment.add("tracing: {}")
    tracer = make_tracer(deployment.load())
    assert tracer is not None
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConnectorError, match=r"pip install 'event-connector\[otel\]'"):
        tracer.open()
    monkeypatch.setattr("connector.config.tracing_model.find_spec", lambda *_: None)
    problem = deployment.problem()
    assert (problem.path, problem.expected) == ("tracing", "pip install 'event-connector[otel]'")
