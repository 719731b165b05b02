"""Response selectors are read and filled as WBI Adapter for JMS, "Response criteria", has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.errors import RequestRefused
from connector.messaging.message import Message
from connector.messaging.selector import compile_selector
from connector.requests.response_selector import ResponseSelector
from connector.requests.selector_values import MAX_SELECTOR, Value, marker, put_values
from tests.tables import rows


def defined(name: str, info: str, *attributes: Attribute) -> Definition:
    return Definition(
        name,
        app_specific_info=info,
        attributes={attribute.name: attribute for attribute in attributes},
        verbs={"Retrieve": Verb("Retrieve")},
    )


DEFINITIONS = Definitions(
    {
        definition.name: definition
        for definition in (
            defined(
                "Customer",
                "cw_mo_conn=MyDynamicMO",
                Attribute("PrimaryID", "String"),
                Attribute("Foo", "String"),
                Attribute("Age", "Integer"),
                Attribute("Limit", "Double"),
                Attribute("Urgent", "Boolean"),
                Attribute("Address", "Address", cardinality="n"),
                Attribute("MyDynamicMO", "Meta"),
            ),
            defined("Address", "", Attribute("AddressID", "String"), Attribute("Kind", "String")),
            defined("Meta", "", Attribute("CorrelationID", "String")),
        )
    }
)


def request(**values: Any) -> BusinessObject:
    return BusinessObject(DEFINITIONS, "Customer", "Retrieve", values)


def fill(info: str, values: Mapping[str, Any], quoting: Any = "quoted") -> str:
    selector = ResponseSelector.parse(info, quoting)
    assert selector is not None
    return selector.fill(request(**values))


# --- the examples of the source ------------------------------------------------------------------

ADDRESSES = [{"AddressID": f"A{index}", "Kind": "home"} for index in range(6)]
EXAMPLES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no placeholder": (
        "response_selector=JMSType = 'xmlResponse'",
        {},
        "JMSType = 'xmlResponse'",
    ),
    "dynamic meta-object": (
        "response_selector=JMSCorrelationID LIKE '{1}':MyDynamicMO.CorrelationID",
        {"MyDynamicMO": {"CorrelationID": "123ABC"}},
        "JMSCorrelationID LIKE '123ABC'",
    ),
    "two placeholders, no space before AND": (
        "response_selector=Name LIKE '{1}'AND Zip LIKE '{2}':PrimaryID,Address[4].AddressID",
        {"PrimaryID": "P1", "Address": ADDRESSES},
        "Name LIKE 'P1'AND Zip LIKE 'A4'",
    ),
    "literal brace": (
        "response_selector=PrimaryID LIKE {{1}",
        {"PrimaryID": "P1"},
        "PrimaryID LIKE {1}",
    ),
    "special characters in a value, key with a capital": (
        "Response_selector=PrimaryID = '{1}':Foo",
        {"Foo": "{A:B};{C:D}"},
        "PrimaryID = '{A:B};{C:D}'",
    ),
}


@rows("name", EXAMPLES)
def test_the_examples_of_the_source_byte_for_byte(name: str) -> None:
    info, values, expected = EXAMPLES[name]
    assert fill(info, values, "quoted") == fill(info, values, "raw") == expected
    if name != "literal brace":
        assert compile_selector(expected).identifiers


# --- where it stands ------------------------------------------------------------------------------


@rows("info", ["", "cw_mo_x=y", "selector=a", "response_selector", "x=response_selector"])
def test_without_the_name_there_is_no_response_selector(info: str) -> None:
    assert ResponseSelector.parse(info, "quoted") is None


@rows(
    "info, expected",
    [
        ("a=b;response_selector=x = 1;c=d", "x = 1"),
        ("a=it's;response_selector=x = 1", "x = 1"),
        ("RESPONSE_SELECTOR = x = 1 ; c=d", "x = 1"),
        ("response_selector=x = ';' AND y = 'a;b=c';response=1", "x = ';' AND y = 'a;b=c'"),
        ("response_selector=x = 'it''s;'", "x = 'it''s;'"),
        ("response_selector=x = 'a:b'", "x = 'a:b'"),
        ("a;response_selector=x = 1;;", "x = 1"),
    ],
)
def test_it_is_one_of_the_pairs_of_the_verb_and_a_separator_in_quotes_is_none(
    info: str, expected: str
) -> None:
    assert fill(info, {}) == expected


# --- placeholders and paths -----------------------------------------------------------------------


def test_a_value_that_looks_like_a_placeholder_is_not_one() -> None:
    values = {"PrimaryID": "{2} {{ '{1}", "Foo": "foo"}
    assert fill("response_selector=a = '{1}' AND b = '{2}':PrimaryID,Foo", values) == (
        "a = '{2} {{ ''{1}' AND b = 'foo'"
    )


def test_a_placeholder_may_stand_several_times_and_in_any_order() -> None:
    info = "response_selector=a = '{2}{1}' OR a = '{{{1}}':PrimaryID, Foo"
    assert fill(info, {"PrimaryID": "p", "Foo": "f"}) == "a = 'fp' OR a = '{p}'"


@rows(
    "path, expected",
    [
        ("Address[-1].AddressID", "A5"),
        ("Address[1:2]|[0].AddressID", "A1"),
        ("Address[?AddressID=='A3'].AddressID|[0]", "A3"),
        ("join(',', Address[:2].AddressID)", "A0,A1"),
        ("max_by(Address, &AddressID).AddressID", "A5"),
    ],
)
def test_a_path_is_any_jmespath(path: str, expected: str) -> None:
    assert fill(f"response_selector=a = '{{1}}':{path}", {"Address": ADDRESSES}) == f"a = '{expected}'"


def test_an_attribute_that_no_placeholder_names_need_not_be_set() -> None:
    assert fill("response_selector=a = '{1}':PrimaryID,Foo", {"PrimaryID": "p"}) == "a = 'p'"


# --- values ----------------------------------------------------------------------------------------


@rows("values, text, expected", [
        ({"Age": 5}, "a = {1}:Age", "a = 5"),
        ({"Age": -5}, "a = {1}:Age", "a = -5"),
        ({"Age": -5}, "a -{1} = 3:Age", "a - -5 = 3"),
        ({"Limit": 1e30}, "a = {1}:Limit", "a = 1E+30"),
        ({"Limit": 2.0}, "a = {1}:Limit", "a = 2.0"),
        ({"Urgent": True}, "a = {1}:Urgent", "a = TRUE"),
        ({"Urgent": False}, "a = {1}:Urgent", "a = FALSE"),
        ({"Urgent": True}, "a = '{1}':Urgent", "a = 'true'"),
        ({"Age": 5}, "a = '{1}':Age", "a = '5'"),
        ({"Foo": ""}, "a = '{1}':Foo", "a = ''"),
        ({"Foo": "O'Hara"}, "a = '{1}':Foo", "a = 'O''Hara'"),
        ({"Foo": "100%_"}, "a = '{1}':Foo", "a = '100%_'"),
        ({"Foo": "100%"}, "a LIKE '{1}%':Foo", r"a LIKE '100\%%' ESCAPE '\'"),
        ({"Foo": r"\%"}, "a like '{1}'AND b = 1:Foo", r"a like '\!%' ESCAPE '!'AND b = 1"),
        ({"Foo": "a_b"}, r"a NOT LIKE '\{1}' :Foo", r"a NOT LIKE '\a!_b' ESCAPE '!'"),
        ({"Foo": "a_!"}, "a LIKE '!%{1}' ESCAPE '!':Foo", "a LIKE '!%a!_!!' ESCAPE '!'"),
        ({"Foo": "a'_"}, "a LIKE '{1}'escape'''':Foo", "a LIKE 'a''''''_'escape''''"),
        ({"Foo": "_"}, "likes = '{1}' AND b LIKE 'x':Foo", "likes = '_' AND b LIKE 'x'"),
        ({"Foo": "%"}, "a IN ('{1}', 'LIKE', '{1}'):Foo", "a IN ('%', 'LIKE', '%')"),
    ])  # fmt: skip
def test_a_value_is_written_as_what_stands_around_it_demands(
    values: dict[str, Any], text: str, expected: str
) -> None:
    assert fill(f"response_selector={text}", values) == expected
    assert compile_selector(expected).text == expected


@rows("text, words", [
        ("a = '{2}':PrimaryID,MyDynamicMO.CorrelationID", ("{2}", "MyDynamicMO.CorrelationID", "no value")),
        ("a = '{1}':Address[7].AddressID", ("{1}", "Address[7].AddressID", "no value")),
        ("a = '{1}':Address", ("{1}", "Address", "a list")),
        ("a = '{1}':Address[0]", ("{1}", "Address[0]", "an object")),
        ("a = {1}:PrimaryID", ("{1}", "PrimaryID", "put '...' around it")),
        ("a LIKE 'x!{1}' ESCAPE '!':PrimaryID", ("{1}", "PrimaryID", "escape character")),
        ("a LIKE '{1}' ESCAPE '!!':PrimaryID", ("ESCAPE takes one character",)),
        (f"a = '{{1}}':{'(' * 5000}", ("no path of an attribute",)),
        ("a = '{1}':abs(PrimaryID)", ("{1}", "abs(PrimaryID)", "abs() cannot be applied")),
    ])  # fmt: skip
def test_what_cannot_be_filled_is_refused_with_attribute_and_placeholder_and_without_the_value(
    text: str, words: tuple[str, ...]
) -> None:
    values = {"PrimaryID": "confidential", "Address": ADDRESSES}
    with pytest.raises(RequestRefused) as caught:
        fill(f"response_selector={text}", values)
    for word in words:
        assert word in str(caught.value)
    assert "confidential" not in str(caught.value)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(RequestRefused, match="lone surrogate"):
        fill("response_selector=a = '{1}':Foo", {"Foo": "x\ud800"})


def test_a_selector_that_its_values_make_too_long_is_refused() -> None:
    with pytest.raises(RequestRefused, match=f"at most {MAX_SELECTOR}"):
        fill("response_selector=a = '{1}':Foo", {"Foo": "x" * MAX_SELECTOR})


@rows("number", [float("inf"), float("nan"), 1 << 63, -(1 << 63)])
def test_a_number_that_no_selector_can_have_is_refused(number: float) -> None:
    with pytest.raises(RequestRefused, match="no "):
        put_values(f"a = {marker(0)}", [Value("{1}", number)], "quoted")


# --- strings that would be more than a value -------------------------------------------------------

INJECTIONS = [
    "' OR TRUE OR 'a' = '",
    "' OR 1 = 1 --",
    "x' OR '1'='1",
    "'; DROP TABLE messages; --",
    "' OR JMSCorrelationID LIKE '%",
    "%",
    "_",
    "%%%%",
    "x%' ESCAPE 'x",
    "\\' OR TRUE OR a = '",
    "\\",
    "\\%",
    "\\_' OR TRUE OR a LIKE '",
    "'' OR TRUE OR a = ''",
    "''' OR TRUE OR '''' = '",
    "') OR ('a' = 'a",
    "a' IS NOT NULL OR a <> 'b",
    "/* */' OR TRUE /*",
    "{1}",
    "{{1}}",
    "{{ PrimaryID }}",
    "{% if True %}' OR TRUE{% endif %}",
    "\x000\x00",
    "\x00",
    "\n' OR TRUE OR a = '",
    "\u2019 OR TRUE OR a = \u2019",
    "\uff07 OR TRUE",
    "' ESCAPE '!",
    "!",
    "',a) OR TRUE OR a IN ('",
]
STRANGERS = ["", "stranger", "x", "%", "a", "0", "P", "' OR TRUE OR 'a' = '!", "\\x", "AA"]


@rows("form", ["a = '{1}'", "a LIKE '{1}'", "a LIKE '{1}' ESCAPE '!'", "a IN ('{1}')"])
@rows("key", ["response_selector", "response_selector_template"])
@rows("value", INJECTIONS)
def test_an_injected_value_selects_its_own_reply_and_no_stranger(value: str, key: str, form: str) -> None:
    info = f"{key}={form}:Foo"
    if key.endswith("template"):
        info = f"{key}={form.replace('{1}', '{{ Foo }}')}"
    matches = compile_selector(fill(info, {"Foo": value, "PrimaryID": "P"})).matches
    assert matches(Message(properties={"a": value}))
    assert not any(matches(Message(properties={"a": other})) for other in STRANGERS if other != value)
    assert not matches(Message())


@rows("value", INJECTIONS)
def test_a_text_outside_quotes_is_refused_whatever_it_is(value: str) -> None:
    with pytest.raises(RequestRefused, match="outside quotes"):
        fill("response_selector=a = {1}:Foo", {"Foo": value})


def test_raw_quoting_lets_a_value_be_more_than_a_value_but_not_null() -> None:
    info = "response_selector=a = '{1}':Foo"
    assert fill(info, {"Foo": "' OR TRUE OR a = '"}, "raw") == "a = '' OR TRUE OR a = ''"
    with pytest.raises(RequestRefused, match=r"\{1\}, Foo, has no value"):
        fill("response_selector=a = {1}:Foo", {}, "raw")
