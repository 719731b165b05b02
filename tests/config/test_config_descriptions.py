"""The schema and the reference describe the configuration that is really read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import yaml

from connector.config.loading import check
from connector.config.reference import dynamic_reference, reference
from connector.config.schema import json_schema
from tests.config.mistakes import A
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json_schema()

EVERY_KEY = """\
provider: {type: dropbox, root: ./data, create: true, incoming_directory: incoming,
  outgoing_directory: outgoing, durability: none, keep_processed: 7d, redelivery_limit: none, lease: none}
connector:
  ApplicationName: demo
  InputDestination:
    - queue://orders
    - {destination: queue://customers, rate: 50/s, PollQuantity: 5, order: none, max_body: 1MiB, parallel: 4,
      min_age: 2s, unpack: gzip,
      max_attempts: 3, convert_timeout: 5s, DataHandlerMimeType: text/xml, DefaultVerb: Update,
      ArchiveDestination: queue://done, ErrorDestination: queue://wrong, UnsubscribedDestination: queue://rest}
    - {destination: queue://notes, selector: "urgent = TRUE"}
    - {destination: topic://prices, subscription: prices, shared: true}
    - {destination: topic://prices, subscription: others, no_local: true}
  PollFrequency: 5000
  wake: false
  PollQuantity: 25
  PollStartTime: 22:00
  PollEndTime: "06:00"
  order: group
  parallel: 2
  max_body: 16MiB
  max_hops: 9
  max_attempts: 5
  convert_timeout: 20s
  worker_memory: 1GiB
  worker_events: 1000
  ArchiveDestination: queue://archive
  ErrorDestination: queue://error
  UnsubscribedDestination: queue://unsubscribed
  keep_archive: 90d
  keep_error: forever
  keep_unsubscribed: 30d
  DuplicateEventElimination: true
  duplicate_window: ${WINDOW:5000}
  duplicate_key: name
  ContainerManagedEvents: none
  ConfigurationMetaObject: MO_Config
  DataHandlerMimeType: application/json
  DataHandlerConfigMO: MO_DataHandler_Default
  DataHandlerClassName: handlers:Csv
  MessageFormatProperty: JMSType
  DefaultVerb: Create
  UseDefaults: false
  ReplyToDestination: queue://replies
  MessageResponseResultProperty: Result
  reply_matching: {request: JMSCorrelationID, reply: requestId}
  SessionPoolSizeForRequests: 100
  pool_timeout: 5s
  late_replies: archive
  late_replies_for: 2m
  response_selector_quoting: quoted
  RestartRetryCount: 3
  RestartRetryInterval: 1
  AgentTraceLevel: 0
  stop_timeout: 30s
  instance: host-a
subscriptions:
  - {object: Cust*, verbs: Create, process: "processes:store_customer", name: store, timeout: 60s, retries: 2,
     rest_after: 30, reply: true,
     retry_later: {attempts: 3, first: 1s, factor: 1.5, most: 1m, "on": [temporary, package.Error]}}
  - {object: Order, destination: "queue://erp-orders", mime_type: text/xml, format: 0710, when: "Id != ''"}
  - object: Customer
    table: shop.public.customers
    columns: {id: CustomerId, limit: "Limit", city: "Address[0].City"}
    on_conflict: update
    operation: insert
    children: {Address: {table: shop.public.addresses, key: {customer_id: CustomerId}, columns: {city: City}}}
  - {object: Order, process: "processes:store_customer", transaction: shop}
  - object: Order
    map: OrderToOrder
    webhook: {url: "https://books.example/orders/{Id}", method: PUT, mime_type: text/xml, timeout: 10s,
      headers: {Authorization: "Bearer ${TOKEN:0123456789abcdef}"}}
timers:
  - {name: 7, cron: "0 2 * * *", to: queue://jobs, misfire: all, object: Customer, verb: Update,
     mime_type: text/xml, data: {CustomerId: 0710, Limit: 1.5, Address: [{City: no}]}}
  - {name: each, every: "${EVERY:15m}", to: topic://news, body: 7}
databases: {shop: {url: "sqlite:///./shop.db"}}
metaobjects: [./metaobjects]
datahandlers: ./handlers.py
spark: {master: "local[2]", max_jobs: 2, python: python3, ship: [processes.py],
  conf: {spark.executor.memory: 2g}}
logging: {level: info, format: json}
min_free: 500MB
health: {failed_share: 0.25, failed_least: 10, last_good_poll: none, oldest_waiting: 2h, error_waiting: 1000,
  error_growth: none, workers_died: 3, instances: 2, longest_step: 5m}
history: {keep: 30d, keys: false}
http:
  listen: 127.0.0.1:8080
  console: true
  tokens: ["${TOKEN:0123456789abcdef}", 1234567890123456, {token: abcdef0123456789, name: ann, roles: read}]
  events:
    - {destination: queue://orders, signature: {header: X-Signed, secret: "${TOKEN:0123456789abcdef}"}}
  hosts: orders.example.com
  max_body: 1MiB
  max_requests: 100
  max_timeout: 5m
  idempotency_time: 1h
  idempotency_keys: 1000
tracing: {endpoint: "http://localhost:4318", service: orders, sample: 0.1}
"""
MEMORY = """\
provider: {type: memory, max_bytes: 1MiB, send_timeout: 500ms, accept_persistent: true, redelivery_limit: 3}
state: {directory: ./state}
"""
OTHERS = """\
  InProgressDestination: queue://in-progress
  InDoubtEvents: LogError
  CTX_InitialContextFactory: x.Y
  CTX_ProviderURL: file:///etc/jndi
  ConnectionFactoryName: cf
  LookupDestinationsUsingJNDI: true
"""
"""Keys of the connector that do not go with the others, and those for a provider of type jms."""


def violations(value: Any, part: dict[str, Any] | None = None) -> list[str]:
    """Where a value does not follow the schema, or a part of it."""
    validator = jsonschema_rs.validator_for({**(part or SCHEMA), "$defs": SCHEMA["$defs"]})
    return [f"{error.instance_path}: {error.message}" for error in validator.iter_errors(value)]


def test_the_check_and_the_schema_accept_a_configuration_with_every_key(deployment: Sample) -> None:
    deployment.write(A, EVERY_KEY)
    a_map = "map: OrderToOrder\nfrom: Order\nto: Order\nattributes: {Id: Id}\n"
    deployment.write("metaobjects/map.yaml", a_map)
    deployment.write(
        "handlers.py",
        'class Csv:\n    mime_types = ("text/csv",)\n'
        "    def to_business_object(self, body, hint): ...\n    def to_body(self, bo): ...\n",
    )
    assert deployment.check() == []
    assert violations(yaml.safe_load(EVERY_KEY)) == []


@rows("section", ["provider", "connector"])
def test_the_schema_accepts_jndi_where_the_check_does(section: str) -> None:
    keys: dict[str, Any] = {"CTX_ProviderURL": "file:///d", "CTX_queue.q": "Q", "ConnectionFactoryName": "cf"}
    document: dict[str, Any] = {
        "provider": {"type": "jms", "classpath": ["a.jar"]},
        "connector": {"ApplicationName": "demo"},
    }
    document[section] |= keys
    assert violations(document) == []
    document[section]["CTX"] = "x"
    assert violations(document)


def test_a_configuration_with_every_key_of_the_memory_provider_has_no_other_mistake(
    deployment: Sample,
) -> None:
    """That check refuses memory as such is a mistake of its own; see the table of mistakes."""
    text = deployment.read(A).partition("connector:")
    deployment.write(A, f"{MEMORY}connector:{text[2]}")
    assert violations(yaml.safe_load(deployment.read(A))) == []
    assert [problem.path for problem in deployment.check()] == ["provider.type"]


def test_the_test_of_the_schema_uses_every_key_there_is() -> None:
    sections = (
        *("dropbox", "memory", "Connector", "InputEntry", "ReplyMatching", "Spark", "Health", "Http"),
        *(
            "TokenEntry",
            "EventEntry",
            "Signature",
            "Tracing",
            "TableEntry",
            "ChildTable",
            "WebhookEntry",
            "Webhook",
        ),
        *("DatabaseSection", "HistorySection"),
    )
    for section in (SCHEMA, *(SCHEMA["$defs"][name] for name in sections)):
        for key in section["properties"]:
            assert re.search(rf"\b{key}:", EVERY_KEY + MEMORY + OTHERS), key


def test_the_schema_and_the_check_accept_every_configuration_of_the_project() -> None:
    for path in (*ROOT.glob("adapter.yaml"), *ROOT.glob("examples/**/adapter.yaml")):
        assert violations(yaml.safe_load(path.read_text())) == []
        mistakes = [str(problem) for problem in check(path) if not problem.warning]
        # whoever follows an example with a broker fetches the jars first
        assert [mistake for mistake in mistakes if "connector jars --resolve" not in mistake] == []


def test_the_schema_and_the_check_accept_a_key_with_nothing_behind_it_wherever_it_may_be_left_out(
    deployment: Sample,
) -> None:
    for section in (SCHEMA, *SCHEMA["$defs"].values()):
        for key, field in section["properties"].items():
            refused = violations(None, field)
            assert bool(refused) == (key in section.get("required", ())), key
    deployment.replace(A, "PollQuantity: 25", "PollQuantity:\n  reply_matching:\n  late_replies:")
    deployment.replace(A, "spark:\n  master: local[*]", "spark:\nhttp:\nlogging: {level: }")
    assert deployment.check() == []
    document = yaml.safe_load(deployment.read(A))
    assert violations(document) == []


@rows(
    "right, wrong",
    [
        ("PollQuantity: 25", "PollQuantity: 0"),
        ("PollQuantity: 25", "PollQuanity: 25"),
        ("order: group", "order: groups"),
        ("max_body: 16MiB", "max_body: 16MB"),
        ("ApplicationName: demo", "instances: 1"),
        ("UseDefaults: false", "UseDefaults: perhaps"),
        ("- object: Order", "- objects: Order"),
        ("late_replies: archive", "late_replies: keep"),
        ("{request: JMSCorrelationID", "{requests: JMSCorrelationID"),
        ("SessionPoolSizeForRequests: 100", "SessionPoolSizeForRequests: 0"),
        ("selector:", "selektor:"),
        ("lease: none", "max_bytes: 1MiB"),
    ],
)
def test_the_schema_refuses_what_the_check_refuses(right: str, wrong: str) -> None:
    assert violations(yaml.safe_load(EVERY_KEY.replace(right, wrong, 1))) != []


@rows("page, write", [("configuration", reference), ("dynamic-meta-object", dynamic_reference)])
def test_the_reference_in_the_documentation_is_current(page: str, write: Callable[[], str]) -> None:
    argument = "" if page == "configuration" else f" {page}"
    written = (ROOT / f"docs/reference/{page}.md").read_text("utf-8")
    assert written == write(), (
        f"run python -m connector.config.reference{argument} > docs/reference/{page}.md"
    )
