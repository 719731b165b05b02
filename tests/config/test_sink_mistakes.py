"""Mistakes in a subscription with ``webhook``, ``load``, ``dataframe`` or ``table``, each with its place."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from connector.lake.settings import DataframeEntry, LoadEntry
from tests.config.mistakes import A, Mistake, O, P, R, case
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

URL = "url: 'https://h.example/{CustomerId}'"
FILES = "format: parquet, path: ./lake"


def put(deployment: Sample, entry: str, *, name: str = "Customer") -> None:
    """Gives the first subscription another sink."""
    deployment.replace(A, "  - object: Customer\n", f"  - object: {name}\n")
    deployment.replace(A, P, "\n".join(f"    {line}" for line in entry.split("\n")))


# --- webhook ----------------------------------------------------------------------------------


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
        ("url: 'https://h.example/{Address}'", "url", "no attribute Address with a single value"),
        (f"{URL}, method: post", "method", "did you mean 'POST'?"),
        (f"{URL}, timeout: 0s", "timeout", "a duration above 0"),
        (f"{URL}, mime_type: text/none", "mime_type", "there is no data handler for 'text/none'"),
        (f"{URL}, mime_type: text/xml, method: GET", "mime_type", "mime_type of a GET, without a body"),
        (f'{URL}, headers: {{X: "s3cr3t\\nY: z"}}', "headers.X", "a value that no header can have"),
        (f"{URL}, headers: {{X: 's3cr3tä'}}", "headers.X", "a value that no header can have"),
        (f"{URL}, headers: {{X: '${{LINE}}'}}", "headers.X", "a value that no header can have"),
        (
            f"{URL}, headers: {{X-A: s3cr3t, x-a: z}}",
            "headers",
            "X-A and x-a, one header, expected one of the two",
        ),
        (f"{URL}, headers: {{'X Y': z}}", "headers", "X Y, no name of a header"),
        (f"{URL}, headers: {{HOST: z}}", "headers", "HOST, which the connector sets"),
        (f"{URL}, headers: {{Idempotency-Key: z}}", "headers", "which the connector sets"),
        ("method: POST", "", "url is missing"),
        (f"{URL}, redirects: 3", "redirects", "unknown key"),
    ],
)
def test_a_mistake_in_a_webhook_has_its_place_and_never_shows_a_secret(
    deployment: Sample, webhook: str, key: str, text: str
) -> None:
    put(deployment, f"webhook: {{{webhook}}}")
    problem = deployment.problem(S="s3cr3t", LINE="s3cr3t\n")
    assert problem.path == "subscriptions[0].webhook" + f".{key}" * bool(key)
    assert problem.line
    assert text in str(problem)
    assert "s3cr3t" not in str(problem)


@rows(
    "more, expected",
    [
        ("reply: true", "it left out"),
        ("mime_type: text/xml", "webhook: {mime_type: ...}"),
        ("format: F", "it left out"),
        ("rest_after: 3", "it with retry_later, which names failures"),
    ],
)
def test_a_key_that_a_webhook_cannot_have_is_named(deployment: Sample, more: str, expected: str) -> None:
    put(deployment, f"webhook: {{{URL}}}\n{more}")
    problem = deployment.problem()
    assert (problem.path, problem.expected) == (f"subscriptions[0].{more.partition(':')[0]}", expected)


def test_attributes_of_a_pattern_are_known_only_when_an_object_comes(deployment: Sample) -> None:
    put(deployment, f"webhook: {{{URL}}}", name="Cust*")
    assert deployment.check() == []


def test_the_package_is_looked_for(deployment: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    put(deployment, f"webhook: {{{URL}}}")
    monkeypatch.setitem(sys.modules, "httpcore", None)  # as if the extra were not installed
    problem = deployment.problem()
    expected = ("subscriptions[0].webhook", "pip install 'event-connector[webhook]'")
    assert (problem.path, problem.expected) == expected


@rows(
    "name, value, url, found",
    [
        ("HTTPS_PROXY", "http://u:s3cr3t@proxy:port", URL, "HTTPS_PROXY without a valid host and port"),
        ("all_proxy", "ftp://proxy", URL, "all_proxy with a proxy for ftp"),
        ("NO_PROXY", "localhost,[::1", URL, "NO_PROXY with '[::1'"),
        (
            "SSL_CERT_FILE",
            "/no/such/file",
            URL,
            "SSL_CERT_FILE with '/no/such/file' (No such file or directory)",
        ),
        ("SSL_CERT_FILE", "/no/such/file", "url: 'http://h.example'", None),
    ],
)
def test_a_variable_that_run_cannot_use_is_a_mistake(
    deployment: Sample, name: str, value: str, url: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(deployment, f"webhook: {{{url}}}")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    monkeypatch.setenv(name, value)
    if name == "all_proxy":
        monkeypatch.delenv("HTTPS_PROXY")
    problems = [(one.path, one.found) for one in deployment.check()]
    assert problems == ([("subscriptions[0].webhook", found)] if found else [])


# --- destination ------------------------------------------------------------------------------

TO = "destination: 'queue://to-{CustomerId}'\ndestinations: ['queue://to-*']"


@rows(
    "entry, path, text",
    [
        ("destination: 'queue://to-{CustomerId}'", "destination", "expected destinations: [queue://to-*]"),
        ("destination: 'queue://to-{CustomerId}'\ndestinations: []", "destinations", "an empty list"),
        ("destination: queue://to\ndestinations: [queue://to]", "destinations", "without braces"),
        ("destination: 'queue://to-{CustomerId'\ndestinations: ['*']", "destination", "a single {"),
        ("destination: 'queue://to-{Customer Id}'\ndestinations: ['*']", "destination", "names no attribute"),
        ("destination: '{CustomerId}://x'\ndestinations: ['*']", "destination", "braces before the name"),
        ("destination: 'queue://a/{CustomerId}'\ndestinations: ['*']", "destination", "a name has no '/'"),
        ("destination: 'queue://a~{CustomerId}'\ndestinations: ['*']", "destination", "behind '~'"),
        (TO.replace("to-*", "at-*"), "destinations", "which queue://to-{CustomerId} can never become"),
        (TO.replace("to-*", "a/*"), "destinations[0]", "a name has no '/'"),
        (TO.replace("{CustomerId}", "{CustmerId}"), "destination", "did you mean 'CustomerId'?"),
        (
            TO.replace("{CustomerId}", "{Address.City}"),
            "destination",
            "no attribute Address with a single child",
        ),
        (f"{TO}\nproperties: {{a: '{{Custmer}}'}}", "properties.a", "no attribute Custmer"),
        (f"{TO}\nproperties: {{JMSXGroupID: x}}", "properties.JMSXGroupID", "group: ..., which sets it"),
        (f"{TO}\nproperties: {{JMSXUserID: x}}", "properties.JMSXUserID", "which a provider sets"),
        (
            f"{TO}\nproperties: {{connector_event_id: x}}",
            "properties.connector_event_id",
            "the connector sets",
        ),
        (f"{TO}\nproperties: {{a b: x}}", "properties.a b", "a b"),
        (f"{TO}\npriority: 11", "priority", "a whole number from 0 to 9"),
        (f"{TO}\npriority: '{{Custmer}}'", "priority", "no attribute Custmer"),
        (f"{TO}\ndelay: 3w", "delay", "a duration such as 30s"),
        (f"{TO}\ngroup: '{{Secret}}'", "group", "Secret is a Ciphertext, and logs would show it"),
    ],
)
def test_a_mistake_in_a_computed_destination_has_its_place(
    deployment: Sample, entry: str, path: str, text: str
) -> None:
    put(deployment, entry)
    if "Secret" in entry:
        deployment.replace(O, "  CustomerId:", "  Secret: Ciphertext\n  CustomerId:")
    problem = deployment.problem()
    assert problem.path == f"subscriptions[0].{path}"
    assert text in str(problem)


def test_placeholders_of_a_pattern_are_known_only_when_an_object_comes(deployment: Sample) -> None:
    put(deployment, f"{TO}\npriority: 3\ndelay: 5s\ncorrelation_id: '{{Any.Thing}}'", name="Cust*")
    assert deployment.check() == []


# --- load and dataframe -----------------------------------------------------------------------


def test_the_defaults_of_a_dataframe(deployment: Sample) -> None:
    put(deployment, f"dataframe: {{{FILES}}}")
    assert deployment.check() == []
    entry = deployment.configuration.subscriptions[0]
    assert isinstance(entry, DataframeEntry)
    assert (entry.size, entry.every, entry.retry_later.rules().attempts) == (10_000, 60.0, 10)
    assert (entry.name, entry.sends_to) == ("Customer ./lake", None)


def test_a_function_with_all_keys(deployment: Sample) -> None:
    put(deployment, "load: processes:store_customer\nsize: 5000\nevery: 30s\nretry_later: {attempts: 3}")
    assert deployment.check() == []
    entry = deployment.configuration.subscriptions[0]
    assert isinstance(entry, LoadEntry)
    assert (entry.size, entry.every, entry.retry_later.attempts) == (5000, 30.0, 3)


@rows(
    "entry, path, text",
    [
        ("load: processes:store_custmer", "load", "did you mean 'processes:store_customer'?"),
        ("load: processes", "load", "module:function"),
        ("load: processes:store_customer\nsize: 0", "size", "a whole number from 1 up"),
        ("load: processes:store_customer\nmime_type: text/xml", "mime_type", "it with a destination only"),
        (f"dataframe: {{{FILES}}}\nformat: X", "format", "format of a dataframe"),
        (f"dataframe: {{{FILES}}}\nreply: true", "reply", "reply of a dataframe"),
        ("dataframe: {format: avro, path: ./lake}", "dataframe.format", "parquet | orc | json"),
        ("dataframe: {format: parquet}", "dataframe.path", "format: parquet without a path"),
        (f"dataframe: {{{FILES}, table: a.b}}", "dataframe.table", "table with format: parquet"),
        (f"dataframe: {{{FILES}, partition_by: CustomerID}}", "dataframe.partition_by", "did you mean 'CustomerId'?"),
        (f"dataframe: {{{FILES}, partition_by: [Address]}}", "dataframe.partition_by", "'Address'"),
        (f"dataframe: {{{FILES}, options: {{txnVersion: 1}}}}", "dataframe.options.txnVersion", "sets"),
        (f"dataframe: {{{FILES}, options: {{Header: 1, header: 0}}}}", "dataframe.options.header", "one option"),
        ("dataframe: {format: delta, path: x, options: {a: b}}", "dataframe.options", "with format: delta"),
        ("dataframe: {format: table, table: shop.c}", "dataframe.format", "without a column for Address"),
        ("dataframe: {format: table}", "dataframe.table", "no table"),
        ("dataframe: {format: table, table: orders}", "dataframe.table", "DATABASE.TABLE"),
        ("dataframe: {format: table, table: shp.orders}", "dataframe", "did you mean 'shop'?"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_load_or_a_dataframe_has_its_place(
    deployment: Sample, entry: str, path: str, text: str
) -> None:
    is_flat = "format: table" in entry and "shop.c" not in entry
    put(deployment, entry, name="Order" if is_flat else "Customer")
    if is_flat:
        deployment.replace(A, "    verbs: [Create, Update]\n", "")
    problem = deployment.problem()
    assert problem.path == f"subscriptions[0].{path}"
    assert text in str(problem)


def test_a_pattern_has_no_columns(deployment: Sample) -> None:
    put(deployment, f"dataframe: {{{FILES}}}", name="Cust*")
    problem = deployment.problem()
    assert (problem.path, problem.expected) == ("subscriptions[0].object", "the name of one object")


def test_a_path_of_this_machine_is_no_place_for_a_cluster(deployment: Sample) -> None:
    put(deployment, f"dataframe: {{{FILES}}}")
    deployment.replace(A, "master: local[*]", "master: spark://host:7077")
    (problem,) = [one for one in deployment.check() if "dataframe" in one.path]
    assert (problem.path, problem.warning) == ("subscriptions[0].dataframe.path", True)


# --- lists of values where only a single value has a place ------------------------------------

ORDER = "attributes:\n  Id: {type: String, key: true}\n"


@pytest.fixture
def with_list(deployment: Sample) -> Sample:
    deployment.replace(O, ORDER, f"{ORDER}  Note: {{type: String, cardinality: n}}\n  Total: Double\n")
    return deployment


@rows("mime_type", ["text/plain", "application/octet-stream"])
@rows("place", ["rule", "Default", "connector"])
def test_a_body_that_is_one_attribute_cannot_be_a_list(with_list: Sample, mime_type: str, place: str) -> None:
    with_list.replace(R, "  text/xml: {", f"  {mime_type}: {{attribute: Note}}\n  text/xml: {{")
    with_list.replace(R, "queue://orders, DataHandlerMimeType: text/xml}", "queue://orders}")
    if place == "rule":
        with_list.replace(R, "queue://orders}", f"queue://orders, DataHandlerMimeType: {mime_type}}}")
    elif place == "Default":
        with_list.replace(R, "DataHandlerMimeType: application/json", f"DataHandlerMimeType: {mime_type}")
    else:
        with_list.replace(R, "Default:\n  DataHandlerMimeType: application/json\n", "")
        with_list.replace(A, "DataHandlerMimeType: application/json", f"DataHandlerMimeType: {mime_type}")
    (found,) = [one for one in with_list.check() if one.path == "MO_Config.rules.Order_Create"]
    assert (found.found, found.expected) == (
        "Order: Note is a list of values",
        "an attribute with a single value",
    )
    assert not found.warning


TABLE = "destination: queue://erp-orders\n    mime_type: text/xml"
LINE = "{Item: {type: String, key: true}, Tag: {type: String, cardinality: n}}"
MISTAKES = [
    case("message of one attribute", A, "mime_type: text/xml", "mime_type: text/plain", "subscriptions[1].mime_type", "Order: Note is a list of values", more=((R, "  text/xml: {", "  text/plain: {attribute: Note}\n  text/xml: {"),)),
    case("table", A, TABLE, "table: shop.orders", "subscriptions[1].table", "Note is a list of values (String), and a column holds a single value"),
    case("column", A, TABLE, "table: shop.orders\n    columns: {id: Id, note: Note}", "subscriptions[1].columns.note", "Note is a list of values (String)"),
    case(
        "table of children", A, TABLE, "table: shop.orders\n    columns: {id: Id}\n    children: {Line: {table: shop.line, key: {id: Id}}}", "subscriptions[1].children.Line.table", "Tag is a list of values (String)",
        more=((O, "  Total: Double", "  Total: Double\n  Line: {type: Line, cardinality: n}"), (O, "business_object: Address", f"business_object: Line\nattributes: {LINE}\n---\nbusiness_object: Address")),
    ),
]  # fmt: skip


@rows("mistake", MISTAKES)
def test_no_single_value_is_a_list(with_list: Sample, mistake: Mistake) -> None:
    mistake.assert_alone(with_list)


@rows("expression", ["Note[0]", "join(', ', Note)", "length(Note)"])
def test_a_column_may_have_an_expression_on_a_list(with_list: Sample, expression: str) -> None:
    with_list.replace(A, TABLE, f'table: shop.orders\n    columns: {{id: Id, note: "{expression}"}}')
    assert with_list.check() == []
