"""What a configuration without mistakes means."""

from __future__ import annotations

import datetime
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connector.config.loading import Configuration, load
from connector.config.resolved import as_document, as_yaml
from connector.cron import Cron
from connector.errors import ConfigurationError
from connector.messaging.destination import Destination
from connector.sinks.destination.settings import DestinationEntry
from connector.spark.section import Spark
from connector.stores.dropbox.section import DropboxSection
from connector.stores.memory.section import MemorySection
from tests.config.mistakes import A, O, R
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

Q = "PollQuantity: 25"
TWO_INPUTS = "    - queue://orders\n    - queue://customers\n"
CUSTOMER_RULE = "{InputFormat: CUST_IN, OutputDestination: queue://crm}"


def spark_of(configuration: Configuration) -> Spark:
    assert isinstance(configuration.spark, Spark)
    return configuration.spark


def test_paths_count_from_the_directory_of_the_file(
    deployment: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = deployment.directory / "adapter.yaml"
    monkeypatch.chdir("/")
    configuration = load(file, {})
    assert configuration.directory == deployment.directory
    assert isinstance(configuration.provider, DropboxSection)
    assert configuration.provider.root == deployment.directory / "data"
    assert not configuration.provider.root.exists()


@rows(
    "written, attribute, value",
    [
        ("PollFrequency: no", "poll_frequency", None),
        ("PollFrequency: NO", "poll_frequency", None),
        ("PollStartTime: 22:00\n  PollEndTime: 6:30", "poll_start_time", datetime.time(22, 0)),
        ("PollStartTime: 22:00\n  PollEndTime: 6:30", "poll_end_time", datetime.time(6, 30)),
        ("PollFrequency: 0", "poll_frequency", 0),
        ('PollFrequency: "250"', "poll_frequency", 250),
        ('PollFrequency: "cron 0 6  * * Mon-Fri"', "poll_frequency", Cron("0 6 * * Mon-Fri")),
        ("MessageFormatProperty: on", "message_format_property", "on"),
        ("instance: 0710", "instance", "0710"),
        ("instance: 1_000", "instance", "1_000"),
        ("ApplicationName: 1e3", "application_name", "1e3"),
        ("ApplicationName: 2024-05-31", "application_name", "2024-05-31"),
        ("UseDefaults: True", "use_defaults", True),
        ("ContainerManagedEvents: none", "container_managed_events", False),
        ("max_body: 64KiB", "max_body", 65536),
        ("stop_timeout: 500ms", "stop_timeout", 0.5),
        ("stop_timeout: 7d", "stop_timeout", 604800.0),
        ("RestartRetryInterval: 0.5", "restart_retry_interval", 0.5),
        ("RestartRetryInterval:", "restart_retry_interval", 1.0),
    ],
)
def test_a_value_is_read_by_the_type_of_its_key(
    deployment: Sample, written: str, attribute: str, value: object
) -> None:
    key = written.partition(":")[0]
    text = deployment.read(A)
    lines = [line for line in text.split("\n") if not line.startswith(f"  {key}:")]
    lines.insert(lines.index("connector:") + 1, f"  {written}")
    deployment.write(A, "\n".join(lines))
    assert getattr(deployment.load().connector, attribute) == value


@rows("outgoing", ["", "\n  outgoing_directory: ''"])
def test_an_empty_directory_name_is_no_directory(deployment: Sample, outgoing: str) -> None:
    deployment.replace(A, "root: ./data", f"root: ./data\n  lease: 30s\n  incoming_directory: ''{outgoing}")
    provider = deployment.load().provider
    assert isinstance(provider, DropboxSection)
    assert (provider.incoming_directory, provider.outgoing_directory or "", provider.lease) == ("", "", 30.0)


def test_format_codes_and_switch_words_in_metaobjects_stay_texts(deployment: Sample) -> None:
    deployment.replace(R, "InputFormat: CUST_IN", "InputFormat: 0710")
    deployment.replace(R, 'text/xml: {BOPrefix: ""', "Text/XML; charset=utf-8: {BOPrefix: on")
    metaobjects = deployment.load().metaobjects
    rule = metaobjects.static["MO_Config"].rules[0]
    assert rule.input_format == "0710"
    options = metaobjects.handler_options["MO_DataHandler_Default"]  # by MIME type, however it is written
    assert list(options) == ["text/xml"]
    assert options["text/xml"]["BOPrefix"] == "on"


@rows(
    "written",
    [
        "[queue://orders, customers, {destination: queue://notes}]",
        "queue://orders;customers; queue://notes ;",
        '"orders;customers;notes"',
    ],
)
def test_inputs_are_a_list_or_one_text_in_the_order_written(deployment: Sample, written: str) -> None:
    deployment.replace(A, f"InputDestination:\n{TWO_INPUTS}", f"InputDestination: {written}\n")
    inputs = [entry.destination for entry in deployment.load().connector.inputs]
    assert inputs == [Destination("queue", name) for name in ("orders", "customers", "notes")]


def test_an_input_is_told_from_another_by_its_selector_or_subscription(deployment: Sample) -> None:
    deployment.replace(
        A,
        TWO_INPUTS,
        "    - {destination: orders, selector: \"region = 'EU'\"}\n"
        "    - {destination: orders, selector: \"region <> 'EU'\"}\n"
        "    - {destination: topic://prices, subscription: all}\n"
        "    - {destination: topic://prices, subscription: dear, selector: price > 100, shared: true}\n"
        "    - {destination: topic://news, subscription: a.b|c, no_local: true}\n"
        "    - customers\n    - customers~EXPIRED\n    - customers~REJECT-ERROR\n",
    )
    inputs = deployment.load().connector.inputs
    assert [(str(i.destination), i.selector, i.subscription, i.shared, i.no_local) for i in inputs] == [
        ("queue://orders", "region = 'EU'", None, False, False),
        ("queue://orders", "region <> 'EU'", None, False, False),
        ("topic://prices", None, "all", False, False),
        ("topic://prices", "price > 100", "dear", True, False),
        ("topic://news", None, "a.b|c", False, True),
        ("queue://customers", None, None, False, False),
        ("queue://customers~EXPIRED", None, None, False, False),
        ("queue://customers~REJECT-ERROR", None, None, False, False),
    ]


def test_only_a_deployment_in_one_process_has_its_messages_in_memory(deployment: Sample) -> None:
    deployment.replace(A, "  type: dropbox\n  root: ./data\n", "  type: memory\n  send_timeout: 2s\n")
    provider = load(A, {}, in_process=True).provider
    assert isinstance(provider, MemorySection)
    assert (provider.max_bytes, provider.send_timeout, provider.accept_persistent) == (64 << 20, 2.0, False)
    with pytest.raises(ConfigurationError, match="tests without Spark"):
        load(A, {})


def test_environment_variables_are_filled_in_inside_values(deployment: Sample) -> None:
    deployment.replace(A, Q, "PollQuantity: ${QUANTITY}")
    deployment.replace(A, "    mime_type: text/xml", "    format: ${A:a}-$${B}-${C}")
    deployment.replace(A, "destination: queue://erp-orders", "destination: topic://${TOPIC}")
    configuration = deployment.load(QUANTITY="7", C="x: [y", B="unused", TOPIC="orders-done")
    assert configuration.connector.poll_quantity == 7
    entry = configuration.subscriptions[1]
    assert isinstance(entry, DestinationEntry)
    assert (entry.format, entry.destination) == ("a-${B}-x: [y", Destination("topic", "orders-done"))


@rows("written", ["${ERRORS:}", '"${ERRORS:}"'])
def test_a_variable_that_says_nothing_is_as_if_the_key_were_not_there(
    deployment: Sample, written: str
) -> None:
    deployment.replace(A, "ErrorDestination: queue://error", f"ErrorDestination: {written}")
    assert deployment.load().connector.error_destination is None


def test_the_names_of_the_source_and_the_short_ones_are_the_same_keys(deployment: Sample) -> None:
    short = deployment.load().metaobjects.definitions["Customer"]
    names = {
        "{type: String, key: true, required: true, max": "{Type: String, IsKey: true, IsRequired: true, Max",
        "_length: 20}": "Length: 20}",
        "{type: Double, required: true, default: 0}": "{Type: Double, IsRequired: true, DefaultValue: 0}",
        "{type: Address, cardinality: n}": "{Type: Address, Cardinality: N}",
        "app_specific_info: cw_mo_conn": "AppSpecificInfo: cw_mo_conn",
    }
    deployment.edit((O, old, new) for old, new in names.items())
    assert deployment.load().metaobjects.definitions["Customer"] == short
    assert list(short.attributes) == ["CustomerId", "Name", "Limit", "Address", "Meta"]
    assert list(short.verbs) == ["Create", "Update"]
    assert short.attributes["Limit"].default == 0.0


def test_rules_may_be_written_as_pairs_and_take_what_they_lack_from_default(
    deployment: Sample,
) -> None:
    mapping = deployment.load().metaobjects.static["MO_Config"]
    deployment.replace(R, CUSTOMER_RULE, '"InputFormat=CUST_IN; OutputDestination=queue://crm;"')
    pairs = deployment.load().metaobjects.static["MO_Config"]
    assert pairs == mapping
    customer, order = pairs.rules
    assert customer.handler["DataHandlerMimeType"] == "application/json"
    assert order.handler["DataHandlerMimeType"] == "text/xml"
    assert order.input_destination == Destination("queue", "orders")


@rows("empty", ['""', '" "', "null", ""])
def test_an_empty_selector_of_an_input_or_a_rule_is_no_selector(deployment: Sample, empty: str) -> None:
    deployment.replace(A, "- queue://orders", f"- {{destination: orders, selector: {empty}}}")
    rules = deployment.read(R)
    deployment.write(R, rules.replace("Customer_Create: {", f"Customer_Create: {{selector: {empty}, "))
    configuration = deployment.load()
    assert configuration.connector.inputs[0].selector is None
    assert [rule.selector for rule in configuration.metaobjects.static["MO_Config"].rules] == [None, None]
    assert as_yaml(as_document(configuration)).count("selector:") == 0


@rows(
    "rule",
    [
        "{selector: \"size > 10 AND region = 'EU'\", jmespath: 'a.b == `1`', rule_priority: 3}",
        "\"selector=size > 10 AND region = 'EU';jmespath=a.b == `1`;rule_priority=3\"",
    ],
)
def test_a_rule_may_have_a_selector_an_expression_and_a_priority(deployment: Sample, rule: str) -> None:
    deployment.replace(R, CUSTOMER_RULE, rule)
    customer = deployment.load().metaobjects.static["MO_Config"].rules[0]
    assert (customer.selector, customer.jmespath) == ("size > 10 AND region = 'EU'", "a.b == `1`")
    assert customer.rule_priority == 3
    sent = deployment.load().metaobjects.static["MO_Config"].properties("Customer", "Create")
    assert not {"selector", "jmespath", "rule_priority"} & set(sent)


def test_an_object_and_verb_may_have_several_rules(deployment: Sample) -> None:
    rules = deployment.read(R)
    several = """[
    {InputDestination: orders, DataHandlerMimeType: text/xml},
    "InputDestination=customers;OutputFormat=O2",
    {InputFormat: ORDER},
  ]"""
    deployment.write(
        R, rules.replace("{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", several)
    )
    static = deployment.load().metaobjects.static["MO_Config"]
    orders = static.rules[1:]
    assert [one.id for one in static.rules] == ["Customer_Create", *(f"Order_Create[{n}]" for n in range(3))]
    assert {(one.name, one.object, one.verb) for one in orders} == {("Order_Create", "Order", "Create")}
    by_destination = [static.only_match(None, Destination("queue", name)) for name in ("orders", "customers")]
    assert by_destination == list(orders[:2])
    assert [one.handler["DataHandlerMimeType"] for one in orders] == ["text/xml", *["application/json"] * 2]
    assert static.entry("Order", "Create").id == "Order_Create[1]"  # type: ignore[union-attr]
    assert static.properties("Order", "Create") == {
        "DataHandlerMimeType": "application/json",
        "OutputFormat": "O2",
    }


def test_a_list_of_rules_without_properties_for_sending_leaves_sending_to_default(deployment: Sample) -> None:
    rules = deployment.read(R)
    several = "[{InputDestination: orders, DataHandlerMimeType: text/xml}, {InputFormat: ORDER}]"
    deployment.write(
        R, rules.replace("{InputDestination: queue://orders, DataHandlerMimeType: text/xml}", several)
    )
    static = deployment.load().metaobjects.static["MO_Config"]
    assert static.entry("Order", "Create") is None
    assert static.properties("Order", "Create") == {"DataHandlerMimeType": "application/json"}


def test_a_data_handler_that_a_rule_names_stands_against_one_of_default_however_either_is_named(
    deployment: Sample,
) -> None:
    deployment.write("handlers.py", "class Csv:\n    to_business_object = to_body = print\n")
    deployment.write(
        R,
        """\
static_metaobject: MO_Config
Default: {DataHandlerClassName: "handlers:Csv"}
rules:
  Customer_Create: {InputFormat: A, DataHandlerMimeType: text/xml}
  Customer_Update: {InputFormat: B}
""",
    )
    static = deployment.load().metaobjects.static["MO_Config"]
    named, filled = static.entry("Customer", "Create"), static.entry("Customer", "Update")
    assert named is not None
    assert filled is not None
    assert named.properties == {"DataHandlerMimeType": "text/xml"}
    assert filled.properties == {"DataHandlerClassName": "handlers:Csv"}


def test_subscriptions_get_names_from_what_they_want_and_who(deployment: Sample) -> None:
    names = [subscription.name for subscription in deployment.load().subscriptions]
    assert names == ["Customer processes:store_customer", "Order queue://erp-orders"]


def test_managed_events_have_destinations_only_and_settings_may_be_written_as_they_are(
    deployment: Sample,
) -> None:
    deployment.replace(A, Q, "ContainerManagedEvents: JMS")
    deployment.replace(A, "process: processes:store_customer", "destination: queue://crm")
    deployment.replace(A, f"  InputDestination:\n{TWO_INPUTS}", "")
    deployment.replace(A, "local[*]", "local[*]\n  conf: {spark.speculation: FALSE}")
    configuration = deployment.load()
    assert configuration.connector.container_managed_events is True
    assert configuration.connector.inputs == ()
    assert spark_of(configuration).conf == {}


def test_a_configuration_can_be_pickled(deployment: Sample) -> None:
    configuration = deployment.load()
    again = pickle.loads(pickle.dumps(configuration))
    assert (again.connector, again.subscriptions) == (configuration.connector, configuration.subscriptions)
    assert dict(again.metaobjects.definitions) == dict(configuration.metaobjects.definitions)


def test_the_resolved_configuration_is_itself_the_same_configuration(deployment: Sample) -> None:
    deployment.replace(A, Q, "PollStartTime: 06:00\n  PollEndTime: 22:00\n  MessageFormatProperty: x")
    deployment.replace(A, "    mime_type: text/xml", "    format: $${x}")
    deployment.replace(A, "- queue://orders", "- {destination: queue://orders, selector: \"x LIKE '$${y}'\"}")
    deployment.replace(
        A, "- queue://customers", "- customers\n    - {destination: topic://t, subscription: s}"
    )
    first = deployment.load()
    deployment.write(A, as_yaml(as_document(first)))
    second = deployment.load()
    for section in ("connector", "provider", "subscriptions", "spark"):
        assert getattr(second, section) == getattr(first, section)


def test_an_error_never_shows_what_the_environment_gave(deployment: Sample) -> None:
    deployment.replace(A, Q, "PollQuantity: ${PW}\n  InProgressDestination: a/${PW}\n  order: ${PW}")
    for key, value in (("master", "local[*]"), ("object", "Order"), ("mime_type", "text/xml")):
        deployment.replace(A, f"{key}: {value}", f"{key}: x${{PW}}")
    deployment.replace(A, "process: processes:store_customer", "process: x${PW}:f")
    deployment.replace(A, "MO_Config", "x${PW}")
    problems = deployment.check(PW="hunter2")
    assert len(problems) == 8
    assert "hunter2" not in "\n".join(str(problem) for problem in problems)
    assert "hunter2" not in repr(problems)


ALIASES = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))]
"""Each holds ten times what the one before holds."""


@rows(
    "content, words, place",
    [
        (b"", "is empty", (0, 0)),
        (b"# nothing\n", "is empty", (0, 0)),
        (b"\x00\x01", "control character", (1, 1)),
        (b"provider:\n  root: \xff\n", "not UTF-8", (2, 9)),
        ("provider: é\n".encode("utf-16"), "not UTF-8", (1, 1)),
        (b"- a\n", "a list", (1, 1)),
        (b"text", "a single value", (1, 1)),
        (b"provider:\n  root: [a\nconnector: b\n", "no YAML", (3, 10)),
        (b"a: b: c\n", "no YAML", (1, 5)),
        (b"[" * 5000, "nested deeper", (1, 61)),
        (b"a: " + b"x" * (5 << 20), "larger than", (0, 0)),
        ("\n".join(ALIASES).encode(), "aliases", (6, 35)),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration_is_one_problem(
    tmp_path: Path, content: bytes, words: str, place: tuple[int, int]
) -> None:
    file = tmp_path / A
    file.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load(file, {})
    (problem,) = caught.value.problems
    assert words in problem.found
    assert (problem.line, problem.column) == place


def test_a_missing_file_a_directory_and_a_pipe_are_named_as_such(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("nothing", "no such file"), ("", "a directory"), ("pipe", "not a regular file")):
        with pytest.raises(ConfigurationError, match=words):
            load(tmp_path / name, {})


def test_a_metaobject_file_that_is_no_yaml_causes_no_other_problems(deployment: Sample) -> None:
    deployment.write(O, "a: [b\n")
    problems = deployment.check()
    assert [(problem.file, "no YAML" in problem.found) for problem in problems] == [(O, True)]
