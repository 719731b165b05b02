"""What the meta-data say about a request: every property, wherever it stands, in the order that counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.definition import Attribute, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.rules import OutputEntry, StaticMetaObject
from connector.errors import RequestRefused
from connector.messaging.destination import Destination, parse_destination
from connector.requests.properties import RequestProperties, resolve
from tests.requests.samples import SAMPLES, customer, definitions, settings
from tests.tables import rows

Q = parse_destination
A, C = Q("queue://a"), Q("queue://c")


def refusal(bo: BusinessObject, **of_plan: Any) -> str:
    with pytest.raises(RequestRefused) as refused:
        resolve(bo, settings(**of_plan))
    return str(refused.value)


# --- precedence: dynamic > static entry > Default > connector -----------------------------------

PRECEDENCE = [
    # property, field, the values at three levels, and what they mean
    ("OutputDestination", "output_destination", ("queue://a", "topic://b", "c"), (A, Q("topic://b"), C)),
    ("OutputFormat", "output_format", ("A", "B", "C"), ("A", "B", "C")),
    ("CorrelationID", "correlation_id", ("a", "b", "c"), ("a", "b", "c")),
    ("ReplyToDestination", "reply_to", ("queue://a", "b", "c"), (A, Q("b"), C)),
    ("Priority", "priority", (9, "0", "5"), (9, 0, 5)),
    ("DeliveryMode", "delivery_mode", ("Persistent", "NonPersistent", "2"), (2, 1, 2)),
    ("ResponseTimeout", "response_timeout", (1, "0", "30000"), (1, 0, 30000)),
    ("TimeToLive", "time_to_live", (1000, "0", "60000"), (1000, 0, 60000)),
    ("TimeoutFatal", "timeout_fatal", (True, "false", "true"), (True, False, True)),
    ("DataHandlerMimeType", "handler", ("a/a", "b/b", "c/c"), (("a/a", ""), ("b/b", ""), ("c/c", ""))),
    ("DataHandlerClassName", "handler", ("a:A", "b:B", "c:C"), (("a:A", ""), ("b:B", ""), ("c:C", ""))),
    ("DataHandlerConfigMO", "handler", ("A", "B", "C"), tuple(("application/json", mo) for mo in "ABC")),
]
IDS = [row[0] for row in PRECEDENCE]


@rows("name, field, values, meant", PRECEDENCE)
def test_the_dynamic_meta_object_counts_before_the_entry_of_the_static_one_and_that_before_default(
    name: str, field: str, values: tuple[Any, ...], meant: tuple[Any, ...]
) -> None:
    default = {"OutputDestination": "queue://elsewhere", name: values[2]}

    def found(bo: BusinessObject, entry: dict[str, str] | None) -> object:
        return getattr(resolve(bo, settings(entry=entry, default=default)), field)

    assert found(customer(**{name: values[0]}), {name: values[1]}) == meant[0]
    assert found(customer(), {name: values[1]}) == meant[1]
    assert found(customer(), {}) == found(customer(), None) == meant[2]
    for blank in ("", " \t") if isinstance(values[0], str) else ():
        assert found(customer(SAMPLES, None, **{name: blank}), {name: values[1]}) == meant[1]


def test_a_blank_of_a_typed_attribute_is_not_given() -> None:
    entry = {"ResponseTimeout": "7", "TimeoutFatal": "false"}
    typed = {"ResponseTimeout": "Integer", "TimeToLive": "Double", "Priority": "Float"}
    typed["TimeoutFatal"] = "Boolean"
    of = definitions(types=typed)
    blank: dict[str, Any] = dict.fromkeys(typed, "")
    found = resolve(customer(of, **blank), settings(of, entry=entry))
    assert found == resolve(customer(of), settings(of, entry=entry))
    assert (found.response_timeout, found.timeout_fatal, found.time_to_live) == (7, False, None)


def test_all_is_undefined_where_nobody_says_anything() -> None:
    nothing = RequestProperties(Destination("queue", "out"), handler=("application/json", ""))
    assert resolve(customer(), settings()) == nothing
    assert nothing.timeout_fatal is True
    other = customer()
    other.verb = "Retrieve"
    assert resolve(other, settings(entry={"Priority": "9"})) == nothing  # an entry of another verb


def test_each_meta_object_alone_is_enough() -> None:
    plain = BusinessObject(SAMPLES, "Plain", "Create", {"Text": "x"})
    found = resolve(plain, settings(default={"OutputDestination": "queue://a", "Priority": "3"}))
    assert (found.output_destination, found.priority) == (Q("queue://a"), 3)
    assert resolve(customer(OutputDestination="queue://a"), settings(rules=None)).output_destination == Q("a")


# --- data handlers --------------------------------------------------------------------------------


CLASS, XML = {"DataHandlerClassName": "m:C"}, {"DataHandlerMimeType": "text/xml"}


@rows(
    "meta, plan, handler",
    [
        ({}, {"default_handler": "text/xml"}, "text/xml"),  # the connector's own is the last that counts
        (XML, {"entry": CLASS}, "text/xml"),  # a dynamic MIME type counts before a static class
        # the MIME type of an entry counts before the class of Default
        ({}, {"entry": XML, "default": {"OutputDestination": "queue://a", **CLASS}}, "text/xml"),
        # a class counts before the MIME type beside it, and has no options
        ({}, {"entry": {**XML, **CLASS, "DataHandlerConfigMO": "MO"}}, "m:C"),
        # neither has the connector's own class
        ({}, {"entry": {"DataHandlerConfigMO": "MO"}, "default_handler": "m:C"}, "m:C"),
    ],
)
def test_one_data_handler_counts(meta: dict[str, Any], plan: dict[str, Any], handler: str) -> None:
    assert resolve(customer(**meta), settings(**plan)).handler == (handler, "")


# --- table 1: header population --------------------------------------------------------------------


def test_tables_1_and_5_reply_to_destination_is_a_queue_and_the_connectors_in_a_synchronous_request() -> None:
    text = refusal(customer(ReplyToDestination="topic://replies"))
    assert text.startswith("Customer.Meta.ReplyToDestination: 'topic://replies' is a topic, expected a queue")
    plan = settings(reply_to_destination=Q("replies"))
    assert resolve(customer(), plan).reply_to is None
    assert resolve(customer(ResponseTimeout=0), plan).reply_to == Q("replies")
    mine = customer(ResponseTimeout=0, ReplyToDestination="queue://mine")
    assert resolve(mine, plan).reply_to == Q("mine")


# --- table 2: delivery -----------------------------------------------------------------------------


META = SAMPLES["CustomerMeta"]
OTHERS = {name: one for name, one in META.attributes.items() if name != "OutputDestination"}
WITHOUT = Definitions({**SAMPLES, META.name: replace(META, attributes=OTHERS)})


@rows(
    "bo, of_plan, words",
    [
        (
            customer(Priority=3),
            {"entry": {}, "default": {}},
            "Customer.Create: no OutputDestination: Customer.Meta.OutputDestination is not set; the entry "
            "Customer_Create of MO_Config has none; Default of MO_Config has none. Say it in one of them",
        ),
        (
            customer(),
            {
                "rules": StaticMetaObject(
                    "MO", entries=[OutputEntry("Customer_Create[1]", "Customer", "Create")]
                )
            },
            "the entry Customer_Create[1] of MO has none",
        ),
        (customer(), {"default": {}}, "the dynamic meta-object Customer.Meta is not set"),
        (customer(), {"default": {}}, "MO_Config has no entry Customer_Create"),
        (BusinessObject(SAMPLES, "Plain", "Create"), {"default": {}}, "Plain has no dynamic meta-object"),
        (customer(), {"rules": None}, "there is no static meta-object (ConfigurationMetaObject)"),
        (
            customer(WITHOUT, Priority=1),
            {"of": WITHOUT, "default": {}},
            "Customer.Meta (CustomerMeta) has no such attribute",
        ),
    ],
)
def test_table_2_output_destination_is_required_and_the_text_says_where_it_was_looked_for(
    bo: BusinessObject, of_plan: dict[str, Any], words: str
) -> None:
    assert words in refusal(bo, **of_plan)


SPELLINGS = {
    2: ("Persistent", "PERSISTENT", "persistent", "2"),
    1: ("NonPersistent", "NON_PERSISTENT", "non-persistent", "Non Persistent", " 1 "),
}


@rows("written, mode", [(written, mode) for mode, all_of in SPELLINGS.items() for written in all_of])
def test_table_2_delivery_mode_is_persistent_or_not_in_any_usual_spelling(written: str, mode: int) -> None:
    assert resolve(customer(DeliveryMode=written), settings()).delivery_mode == mode
    assert resolve(customer(), settings(entry={"DeliveryMode": written})).delivery_mode == mode


# --- table 4: synchronous requests -----------------------------------------------------------------


@rows("timeout, synchronous", [(None, False), ("-1", False), ("-500", False), ("0", True), ("1", True)])
def test_table_4_response_timeout_makes_a_request_synchronous_from_0_up(
    timeout: str | None, synchronous: bool
) -> None:
    entry = {} if timeout is None else {"ResponseTimeout": timeout}
    assert resolve(customer(), settings(entry=entry)).synchronous is synchronous


def test_the_timeout_of_a_call_counts_before_all_meta_objects() -> None:
    bo, plan = customer(ResponseTimeout=5), settings(entry={"ResponseTimeout": "6"})
    for timeout in (-1, 0, 77):
        assert resolve(bo, plan, timeout=timeout).response_timeout == timeout
    with pytest.raises(RequestRefused, match="timeout: found the number 4294967296, expected milliseconds"):
        resolve(bo, plan, timeout=2**32)


# --- values ----------------------------------------------------------------------------------------


@rows(
    "name, kind, value, field, meant",
    [
        ("Priority", "String", " 7 ", "priority", 7),
        ("Priority", "Double", 7.0, "priority", 7),
        ("ResponseTimeout", "LongText", "+500", "response_timeout", 500),
        ("ResponseTimeout", "Float", 500.0, "response_timeout", 500),
        ("TimeToLive", "String", " 1000 ", "time_to_live", 1000),
        ("TimeToLive", "Double", 1e12, "time_to_live", 10**12),
        ("TimeToLive", "Integer", 0, "time_to_live", 0),
        ("TimeToLive", "LongText", "9000000000000000000", "time_to_live", 9 * 10**18),
        ("DeliveryMode", "Integer", 1, "delivery_mode", 1),
        ("DeliveryMode", "Double", 2.0, "delivery_mode", 2),
        ("TimeoutFatal", "String", "FALSE", "timeout_fatal", False),
        ("TimeoutFatal", "Boolean", False, "timeout_fatal", False),
        ("Priority", "Integer", "", "priority", None),
        ("OutputFormat", "Integer", 710, "output_format", "710"),
        ("OutputFormat", "Boolean", True, "output_format", "true"),
        ("CorrelationID", "Date", "2024-05-31", "correlation_id", "2024-05-31"),
    ],
)
def test_a_value_is_read_from_whatever_type_its_attribute_has(
    name: str, kind: str, value: Any, field: str, meant: object
) -> None:
    of = definitions(types={name: kind})
    assert getattr(resolve(customer(of, **{name: value}), settings(of)), field) == meant


@rows(
    "name, kind, value, words",
    [
        ("Priority", "Integer", 10, "found the number 10, expected a whole number from 0 to 9"),
        ("Priority", "Integer", -1, "from 0 to 9"),
        ("Priority", "String", "high", "found the text 'high'"),
        ("Priority", "Double", 1.5, "found the number 1.5"),
        ("Priority", "Boolean", True, "found true"),
        ("ResponseTimeout", "String", "5s", "expected milliseconds"),
        ("ResponseTimeout", "Double", 1e10, "at most 2147483647"),
        ("TimeToLive", "Integer", -1, "found the number -1, expected milliseconds: a whole number from 0"),
        ("TimeToLive", "String", "1h", "found the text '1h', expected milliseconds"),
        ("TimeToLive", "Double", 1.5, "found the number 1.5"),
        ("TimeToLive", "Boolean", True, "found true"),
        ("TimeToLive", "String", "9223372036854775807", "JMSExpiration is a long"),
        ("TimeToLive", "Double", 1e30, "JMSExpiration is a long"),
        ("TimeToLive", "String", "9" * 5000, "expected milliseconds"),
        ("DeliveryMode", "String", "durable", "expected Persistent (2) or NonPersistent (1)"),
        ("DeliveryMode", "Integer", 3, "found the number 3"),
        ("DeliveryMode", "Boolean", True, "found true"),
        ("TimeoutFatal", "String", "yes", "expected true or false"),
        ("TimeoutFatal", "Integer", 1, "found the number 1"),
        ("OutputDestination", "String", "queue://../x", "no destination"),
        ("OutputDestination", "String", "file://x", "neither 'queue' nor 'topic'"),
        ("OutputDestination", "String", "orders~EXPIRED", "nothing can be sent there"),
        ("ReplyToDestination", "String", "orders~EXPIRED", "nothing can be sent there"),
        ("CorrelationID", "String", "\ud800", "not valid Unicode"),
    ],
)
def test_a_value_that_will_not_do_is_refused_with_its_place(
    name: str, kind: str, value: Any, words: str
) -> None:
    of = definitions(types={name: kind})
    text = refusal(customer(of, **{name: value}), of=of)
    assert text.startswith(f"Customer.Meta.{name}: ")
    assert words in text


def test_a_wrong_text_of_the_static_meta_object_is_refused_with_its_place() -> None:
    entry, default = {"Priority": "x"}, {"OutputDestination": "o", "Priority": "x"}
    text = refusal(customer(), entry=entry)
    assert text.startswith("MO_Config.rules.Customer_Create.Priority: ")
    for no_entry in ({"Note": ""}, None):
        text = refusal(customer(), entry=no_entry, default=default)
        assert text.startswith("MO_Config.Default.Priority: ")


# --- JMSProperties: typed and named as a message has them ------------------------------------------


@rows(
    "kind, tag, value, meant",
    [
        ("String", "type=String", "x", ("string", "x")),
        ("String", "", "x", ("string", "x")),
        ("Integer", "", 5, ("int", 5)),
        ("Boolean", "", False, ("boolean", False)),
        ("Float", "", 0.5, ("float", 0.5)),
        ("Double", "", 0.1, ("double", 0.1)),
        ("Date", "", "2024-05-31", ("string", "2024-05-31")),
        ("LongText", "", "x", ("string", "x")),
        ("String", "type=Int", " 5 ", ("int", 5)),
        ("String", "type=Boolean", "TRUE", ("boolean", True)),
        ("String", "type=Long", str(2**40), ("long", 2**40)),
        ("Double", "type=Long", 1700000000123.0, ("long", 1700000000123)),
        ("Integer", "type=Byte", 127, ("byte", 127)),
        ("Integer", "type=Short", 300, ("short", 300)),
        ("Integer", "type=Double", 5, ("double", 5.0)),
        ("Integer", "type=String", 5, ("string", "5")),
        ("Boolean", "type=String", True, ("string", "true")),
        ("String", "type=String", "", ("string", "")),
    ],
)
def test_a_property_is_sent_as_the_type_in_its_tag_else_that_of_its_attribute(
    kind: str, tag: str, value: Any, meant: tuple[str, object]
) -> None:
    of = definitions(properties=(Attribute("P", kind, app_specific_info=f"name=p;{tag}"),))
    ((name, *found),) = resolve(customer(of, JMSProperties={"P": value}), settings(of)).user_properties
    assert (name, tuple(found)) == ("p", meant)
    assert type(found[1]) is type(meant[1])


def test_a_property_without_a_name_is_called_as_its_attribute_and_a_blank_number_is_not_sent() -> None:
    for kind, value in (("String", "EU"), ("Integer", ""), ("Boolean", ""), ("Double", "")):
        of = definitions(properties=(Attribute("P", kind),))
        found = resolve(customer(of, JMSProperties={"P": value}), settings(of)).user_properties
        assert found == ((("P", "string", "EU"),) if value else ()), kind


@rows(
    "kind, tag, value, words",
    [
        ("Integer", "type=Byte", 128, "does not fit a byte"),
        ("String", "type=Int", "many", "'many' is no int"),
        ("Double", "type=Int", 0.5, "0.5 is no int"),
        ("Integer", "type=Boolean", 1, "1 is no boolean"),
        ("String", "type=Number", "x", "no property can be a Number"),
        ("String", "type=String", "\ud800", "not valid Unicode"),
        ("String", "name=region.code", "x", "no property can be called 'region.code': it has '.'"),
        ("String", "name=NOT", "x", "a word of the selectors"),
        ("String", "name=JMSType", "x", "names that begin with JMS are headers"),
        ("Integer", "name=JMSXDeliveryCount", 1, "the provider counts deliveries itself"),
    ],
)
def test_a_property_that_cannot_be_sent_is_refused_with_its_place(
    kind: str, tag: str, value: Any, words: str
) -> None:
    of = definitions(properties=(Attribute("P", kind, app_specific_info=tag),))
    text = refusal(customer(of, JMSProperties={"P": value}), of=of)
    assert text.startswith("Customer.Meta.JMSProperties.P: ")
    assert words in text


def test_two_attributes_cannot_say_the_same_property() -> None:
    twice = (Attribute("A", "String"), Attribute("B", "String", app_specific_info="name=A"))
    of = definitions(properties=twice)
    text = refusal(customer(of, JMSProperties={"A": "x", "B": "y"}), of=of)
    assert text == "Customer.Meta.JMSProperties.B: the property 'A' is set twice"


# --- whatever the values ---------------------------------------------------------------------------

TYPED = st.one_of(
    st.tuples(st.sampled_from(["String", "LongText"]), st.text()),
    st.tuples(st.just("Integer"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("Double"), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just("Boolean"), st.booleans()),
)


@given(name=st.sampled_from(IDS), typed=TYPED)
def test_any_value_of_any_type_is_either_read_or_refused_with_its_place(
    name: str, typed: tuple[str, Any]
) -> None:
    kind, value = typed
    of = definitions(types={name: kind})
    refused, found = None, None
    try:
        found = resolve(customer(of, **{name: value}), settings(of))
    except RequestRefused as error:
        refused = str(error)
    if found is None:
        assert str(refused).startswith(f"Customer.Meta.{name}: ")
    else:
        assert found.priority is None or 0 <= found.priority <= 9
        assert found.delivery_mode in (None, 1, 2)
        assert found.reply_to is None or found.reply_to.is_queue
        assert found.time_to_live is None or found.time_to_live >= 0
        assert found.response_timeout is None or found.response_timeout >= -1
