"""Static rules: which business object a message means (WBI Adapter for JMS, "Business object mapping")."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.definition import Definition, Definitions, Verb
from connector.businessobjects.rule_conditions import SeenMessage, TextPath, needed_texts
from connector.businessobjects.rules import (
    OutputEntry,
    Rule,
    StaticMetaObject,
    message_format,
    split_rule_name,
)
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message, PropertyValue
from tests.tables import rows, texts

INPUT = parse_destination("MyInputDest")
OTHER = parse_destination("queue://Other")
FORMAT = Rule("B_Create", "B", "Create", "Cust_In")


URGENT = Rule("A_Create", "A", "Create", "F", selector="urgent = TRUE")
BIG = Rule("B_Create", "B", "Create", jmespath="lines[?price > `100`]")


def message_of(body: bytes = b"", urgent: bool | None = None) -> Message:
    message = Message(body)
    if urgent is not None:
        message.set_property("urgent", urgent)
    return message


@rows(
    "message, found_format, matching",
    [
        (message_of(urgent=True), "F", (URGENT,)),
        (message_of(urgent=True), "G", ()),
        (message_of(urgent=False), "F", ()),
        (message_of(), "F", ()),
        (message_of(b'{"lines": [{"price": 7}, {"price": 101}]}'), "G", (BIG,)),
        (message_of(b'\xef\xbb\xbf{"lines": [{"price": 101}]}'), None, (BIG,)),
        (message_of(b'{"lines": [{"price": 7}]}'), None, ()),
        (message_of(b'{"lines": "no list"}'), None, ()),
        (message_of(b"no JSON"), None, ()),
        (message_of(b"[" * 100_000), None, ()),
        (message_of(b'{"lines": [{"price": 101}]}', urgent=True), "F", (URGENT, BIG)),
    ],
)
def test_a_selector_and_an_expression_are_match_keys(
    message: Message, found_format: str | None, matching: tuple[Rule, ...]
) -> None:
    static = pickle.loads(pickle.dumps(StaticMetaObject("MO_Config", [URGENT, BIG])))
    assert static.match(found_format, INPUT, message) == matching
    for rule in static.rules:
        assert (rule in matching) == (rule.mismatches(found_format, INPUT, SeenMessage(message)) == [])


@rows(
    "expression, value, fits",
    [
        *(("x", value, True) for value in (b"0", b"1")),
        *(("x", value, False) for value in (b"false", b"null", b'""', b"[]", b"{}")),
        ("x == `0.1000000000000000000001`", b"0.1000000000000000000001", True),
        ("x == `0.1000000000000000000001`", b"0.1", False),
        ("length(x) > `2`", b'"abc"', True),
        ("length(x) > `2`", b"5", False),  # it fails on this value
    ],
)
def test_an_expression_fits_by_the_truth_of_jmespath(expression: str, value: bytes, fits: bool) -> None:
    rule = Rule("A_Create", "A", "Create", jmespath=expression)
    found = StaticMetaObject("MO", [rule]).match(None, INPUT, message_of(b'{"x": %b}' % value))
    assert found == ((rule,) if fits else ())


def test_of_several_matching_rules_the_highest_priority_counts() -> None:
    low = Rule("A_Create", "A", "Create", "F")
    middle = Rule("B_Create", "B", "Create", "F", rule_priority=1)
    high = Rule("C_Create", "C", "Create", None, OTHER, rule_priority=2)
    static = StaticMetaObject("MO", [low, middle, high])
    assert static.only_match("F", INPUT) is middle
    assert static.only_match("F", OTHER) is high
    twice = Rule("D_Create", "D", "Create", "F", rule_priority=1)
    assert StaticMetaObject("MO", [low, middle, twice]).match("F", INPUT) == (middle, twice)


def test_rules_of_one_name_have_ids_of_their_own() -> None:
    urgent, big = (replace(URGENT, number=0), replace(URGENT, jmespath="size > `1`", number=1))
    assert [URGENT.id, urgent.id, big.id] == ["A_Create", "A_Create[0]", "A_Create[1]"]
    assert StaticMetaObject("MO", [urgent, big]).match("F", INPUT, message_of(urgent=True)) == (urgent,)


def test_an_object_and_verb_are_sent_as_one_entry_says() -> None:
    entries = [OutputEntry(f"A_Create[{n}]", "A", "Create", {"OutputFormat": str(n)}) for n in range(2)]
    static = StaticMetaObject("MO", [URGENT], {"OutputFormat": "D"}, entries[1:])
    assert [static.properties("A", verb) for verb in ("Create", "Delete")] == [
        {"OutputFormat": "1"},
        {"OutputFormat": "D"},
    ]
    with pytest.raises(ValueError, match=r"^MO: A_Create\[0\] and A_Create\[1\] both say how an object"):
        StaticMetaObject("MO", [URGENT], {}, entries)


def test_a_rule_says_why_it_does_not_match() -> None:
    rule = Rule("A_Create", "A", "Create", "F", OTHER, {}, "urgent = TRUE", "type == 'x'")
    assert rule.mismatches("G", INPUT, SeenMessage(message_of(b"{}"))) == [
        "InputFormat is 'F', the message has the format 'G'",
        "InputDestination is queue://Other, the message is from queue://MyInputDest",
        "the message does not fit the selector urgent = TRUE",
        "the body does not fit the expression type == 'x'",
    ]
    for one, why in (
        (FORMAT, "InputFormat is 'Cust_In', the message has no format"),
        (Rule("A_Create", "A", "Create"), "the rule has no match key"),
    ):
        assert one.mismatches(None, INPUT, SeenMessage(message_of())) == [why]


FORMATS = st.sampled_from([None, "", "a", "b", "A"])
DESTINATIONS = st.sampled_from([parse_destination(name) for name in ("x", "y", "topic://x")])
RULES = st.lists(
    st.builds(Rule, st.just("A_V"), st.just("A"), st.just("V"), FORMATS, st.none() | DESTINATIONS), max_size=5
)


@given(rules=RULES, messages=st.lists(st.tuples(FORMATS, DESTINATIONS), min_size=1, max_size=5))
def test_matching_is_what_each_rule_says_by_itself(
    rules: list[Rule], messages: list[tuple[str | None, Destination]]
) -> None:
    static = StaticMetaObject("MO", rules)
    for found_format, destination in messages * 2:
        expected = [
            rule
            for rule in rules
            if (rule.input_format, rule.input_destination) != (None, None)
            and rule.input_format in (None, found_format)
            and rule.input_destination in (None, destination)
        ]
        assert list(static.match(found_format, destination)) == expected
        dictating = static.only_match(found_format, destination)
        assert dictating == (expected[0] if len(expected) == 1 else None)


SELECTORS = """
    country = 'NL'   country = 'NL' AND size > 1   size > 1 AND (country IN ('NL', 'BE') AND size < 9)
    country = 'NL' OR country = 'BE'   country <> 'NL'   NOT country = 'NL'   country = ''
    JMSType = 'NL'   JMSPriority = 4
"""
EXPRESSIONS = """
    country == 'NL'   order.country == 'NL' && size   size && order.country == 'BE'
    order.country == 'NL' || country == 'NL'   order.country != 'NL'   country == `4`
    order[0].country == 'NL'   'NL' == country   order.country == ''
"""
COUNTRIES = st.sampled_from([None, "", "NL", "BE", 4, True])
BODIES = st.builds(
    lambda *values: json.dumps(dict(zip(("country", "order", "size"), values, strict=True))).encode(),
    COUNTRIES,
    COUNTRIES.map(lambda one: {"country": one}) | COUNTRIES | st.just([{"country": "NL"}]),
    st.integers(0, 2),
) | st.sampled_from([b"", b"no JSON", b"[]", b'"NL"'])


@given(
    conditions=st.lists(
        st.tuples(st.sampled_from([None, *texts(SELECTORS)]), st.sampled_from([None, *texts(EXPRESSIONS)])),
        max_size=6,
    ),
    messages=st.lists(st.tuples(COUNTRIES, st.integers(0, 2), BODIES), min_size=1, max_size=3),
)
def test_matching_by_conditions_is_what_each_rule_says_by_itself(
    conditions: list[tuple[str | None, str | None]], messages: list[tuple[PropertyValue | None, int, bytes]]
) -> None:
    rules = [Rule(f"A_V{n}", "A", f"V{n}", None, None, {}, *both) for n, both in enumerate(conditions)]
    static = StaticMetaObject("MO", rules)
    for country, size, body in messages:
        message = Message(body, type=country if isinstance(country, str) else None)
        message.set_property("size", size)
        if country is not None:
            message.set_property("country", country)
        expected = [rule for rule in rules if not rule.mismatches(None, INPUT, SeenMessage(message))]
        assert list(static.match(None, INPUT, message)) == expected


def test_a_rule_is_found_by_the_text_that_its_condition_asks_for() -> None:
    by_property = needed_texts("size > 1 AND country IN ('NL', 'BE')", None)
    assert by_property == (TextPath(False, ("country",)), frozenset({"NL", "BE"}))
    by_body = needed_texts("size > 1", "size && order.country == 'NL'")
    assert by_body == (TextPath(True, ("order", "country")), frozenset({"NL"}))
    assert needed_texts("size > 1", "length(lines) > `3`") is None


def test_formats_of_strangers_do_not_pile_up() -> None:
    static = StaticMetaObject("MO", [FORMAT])
    for number in range(5000):
        static.match(str(number), INPUT)
    assert len(pickle.dumps(static)) < 200_000
    assert static.match("Cust_In", INPUT) == (FORMAT,)


def defined(*pairs: tuple[str, str]) -> Definitions:
    names = dict.fromkeys(name for name, _ in pairs)
    return Definitions({n: Definition(n, verbs={v: Verb(v) for o, v in pairs if o == n}) for n in names})


CUSTOMERS = defined(("Customer", "Create"), ("My_Customer", "Create"), ("Customer", "Create_Again"))


@rows(
    "definitions, name, pairs",
    [
        (CUSTOMERS, "Customer_Create", (("Customer", "Create"),)),
        (CUSTOMERS, "My_Customer_Create", (("My_Customer", "Create"),)),
        (CUSTOMERS, "Customer_Create_Again", (("Customer", "Create_Again"),)),
        *((CUSTOMERS, name, ()) for name in ("Customer_Delete", "Default", "Customer", "_")),
        (defined(("A", "B_C"), ("A_B", "C")), "A_B_C", (("A", "B_C"), ("A_B", "C"))),  # it fits both
    ],
)
def test_a_rule_name_is_split_where_the_definitions_say(
    definitions: Definitions, name: str, pairs: tuple[tuple[str, str], ...]
) -> None:
    assert split_rule_name(name, definitions) == pairs


def test_the_message_format_is_a_header_or_a_property() -> None:
    message = Message(type="T1", correlation_id="c")
    message.set_property("format", "F1")
    message.set_property("number", 7)
    found = [message_format(message, name) for name in ("format", "number", "JMSCorrelationID", "absent")]
    assert found == ["F1", "7", "c", None]
    assert (message_format(message), message_format(Message())) == ("T1", None)
