"""Response selectors and their templates, as WBI Adapter for JMS, "Response criteria", has them."""

from __future__ import annotations

from typing import Any

import pytest

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import RequestRefused
from connector.messaging.selector import compile_selector
from connector.requests.response_selector import ResponseSelector
from connector.requests.response_template import MAX_ROUNDS
from connector.requests.selector_values import MAX_SELECTOR, Value, marker, put_values
from tests.requests.samples import defined
from tests.tables import rows

CUSTOMER = defined(
    "Customer",
    "cw_mo_conn=MyDynamicMO",
    PrimaryID="String",
    Foo="String",
    Age="Integer",
    Limit="Double",
    Urgent="Boolean",
    Address="Address[]",
    MyDynamicMO="Meta",
)
ADDRESS = defined("Address", AddressID="String", Kind="String")
META = defined("Meta", CorrelationID="String")
CUSTOMERS = Definitions({one.name: one for one in (CUSTOMER, ADDRESS, META)})


def fill(info: str, values: dict[str, Any], quoting: Any = "quoted", of: Definitions = CUSTOMERS) -> str:
    """The selector of a request for the first of the business objects."""
    selector = ResponseSelector.parse(info, quoting)
    assert selector is not None
    return selector.fill(BusinessObject(of, next(iter(of)), "Get", values))


# --- the examples of the source ------------------------------------------------------------------

ADDRESSES = [{"AddressID": f"A{index}", "Kind": "home"} for index in range(6)]
EXAMPLES: list[tuple[str, dict[str, Any], str]] = [
    ("response_selector=JMSType = 'xmlResponse'", {}, "JMSType = 'xmlResponse'"),
    (
        "response_selector=JMSCorrelationID LIKE '{1}':MyDynamicMO.CorrelationID",
        {"MyDynamicMO": {"CorrelationID": "123ABC"}},
        "JMSCorrelationID LIKE '123ABC'",
    ),
    (  # no space before AND
        "response_selector=Name LIKE '{1}'AND Zip LIKE '{2}':PrimaryID,Address[4].AddressID",
        {"PrimaryID": "P1", "Address": ADDRESSES},
        "Name LIKE 'P1'AND Zip LIKE 'A4'",
    ),
    ("response_selector=PrimaryID LIKE {{1}", {"PrimaryID": "P1"}, "PrimaryID LIKE {1}"),
    ("Response_selector=PrimaryID = '{1}':Foo", {"Foo": "{A:B};{C:D}"}, "PrimaryID = '{A:B};{C:D}'"),
]


@rows("info, values, expected", EXAMPLES)
def test_the_examples_of_the_source_byte_for_byte(info: str, values: dict[str, Any], expected: str) -> None:
    assert fill(info, values, "quoted") == fill(info, values, "raw") == expected
    if "LIKE {" not in expected:  # a literal brace is in no selector
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


# --- values, placeholders and paths -----------------------------------------------------------------


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
        # an attribute that no placeholder names need not be set, and a value that looks like one is none
        ({"PrimaryID": "p"}, "a = '{1}':PrimaryID,Foo", "a = 'p'"),
        (
            {"PrimaryID": "{2} {{ '{1}", "Foo": "f"},
            "a = '{1}' AND b = '{2}':PrimaryID,Foo",
            "a = '{2} {{ ''{1}' AND b = 'f'",
        ),
        ({"Foo": "f", "Age": 5}, "a = '{2}{1}' OR a = '{{{1}}':Age, Foo", "a = 'f5' OR a = '{5}'"),
        # a path is any JMESPath
        ({"Address": ADDRESSES}, "a = '{1}':Address[-1].AddressID", "a = 'A5'"),
        ({"Address": ADDRESSES}, "a = '{1}':Address[1:2]|[0].AddressID", "a = 'A1'"),
        ({"Address": ADDRESSES}, "a = '{1}':Address[?AddressID=='A3'].AddressID|[0]", "a = 'A3'"),
        ({"Address": ADDRESSES}, "a = '{1}':join(',', Address[:2].AddressID)", "a = 'A0,A1'"),
        ({"Address": ADDRESSES}, "a = '{1}':max_by(Address, &AddressID).AddressID", "a = 'A5'"),
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


@rows("value, words", [("x\ud800", "lone surrogate"), ("x" * MAX_SELECTOR, f"at most {MAX_SELECTOR}")])
def test_half_a_character_or_a_selector_that_is_too_long_is_refused(value: str, words: str) -> None:
    with pytest.raises(RequestRefused, match=words):
        fill("response_selector=a = '{1}':Foo", {"Foo": value})


@rows("number", [float("inf"), float("nan"), 1 << 63, -(1 << 63)])
def test_a_number_that_no_selector_can_have_is_refused(number: float) -> None:
    with pytest.raises(RequestRefused, match="no "):
        put_values(f"a = {marker(0)}", [Value("{1}", number)], "quoted")


def test_raw_quoting_lets_a_value_be_more_than_a_value_but_not_null() -> None:
    info = "response_selector=a = '{1}':Foo"
    assert fill(info, {"Foo": "' OR TRUE OR a = '"}, "raw") == "a = '' OR TRUE OR a = ''"
    with pytest.raises(RequestRefused, match=r"\{1\}, Foo, has no value"):
        fill("response_selector=a = {1}:Foo", {}, "raw")


# --- templates: they choose and join, and what they put in stays a value ---------------------------

ORDER = defined("Order", Id="String", Size="Integer", Urgent="Boolean", items="Item[]", Buyer="Item")
ITEM = defined("Item", keys="String", No="Integer")
ORDERS = Definitions({one.name: one for one in (ORDER, ITEM)})


def fill_template(template: str, /, quoting: Any = "quoted", **values: Any) -> str:
    return fill(f"response_selector_template={template}", values, quoting, ORDERS)


ITEMS = [{"keys": "a", "No": 1}, {"keys": "b'%", "No": 2}]


@rows(
    "template, expected",
    [
        ("JMSType = 'x'", "JMSType = 'x'"),
        ("a = '{{ Id }}' AND n = {{ Size }} AND {{ Urgent }}", "a = 'i''%' AND n = 7 AND TRUE"),
        ("a LIKE '{{ Id }}%'", r"a LIKE 'i''\%%' ESCAPE '\'"),
        ("{% if Urgent %}u = {{ Urgent }}{% else %}a = 1{% endif %};x=y", "u = TRUE"),
        ("{% if Buyer.keys %}a = 1{% else %}a = 2{% endif %}", "a = 2"),
        ("a = '{{ Buyer.keys or 'nobody' }}'", "a = 'nobody'"),
        ("a = '{{ Buyer.keys | default(\"it's;\") }}'", "a = 'it''s;'"),
        ("a = '{{ items[1].keys }}' AND n = {{ items[1].No }}", "a = 'b''%' AND n = 2"),
        (
            "{% for i in items %}a = '{{ i.keys | upper }}'{% if not loop.last %} OR {% endif %}{% endfor %}",
            "a = 'A' OR a = 'B''%'",
        ),
        ("{% set first = items[0].keys ~ '-' %}a = '{{ first }}'", "a = 'a-'"),
        ("a IN ('{{ Id[:1] }}')", "a IN ('i')"),
        ("{# none; of it #}a = '{{ Id | replace(\"'\", '') | title }}'", "a = 'I%'"),
        ("a = '{{ \"' OR '\" }}'", "a = ''' OR '''"),
        ("n = {{ Size - 1 }} AND m = {{ -Size }}", "n = 6 AND m = -7"),
    ],
)
def test_a_template_becomes_a_selector(template: str, expected: str) -> None:
    assert fill_template(template, Id="i'%", Size=7, Urgent=True, items=ITEMS) == expected


@rows(
    "quoting, value, expected",
    [
        ("raw", "' OR TRUE OR a = '", "a = '' OR TRUE OR a = ''"),
        ("quoted", "{{ Size }}{% for x in items %}'", "a = '{{ Size }}{% for x in items %}'''"),
    ],
)
def test_a_value_that_is_a_template_is_a_value_and_raw_quoting_is_for_templates_too(
    quoting: str, value: str, expected: str
) -> None:
    assert fill_template("a = '{{ Id }}'", quoting, Id=value) == expected


@rows(
    "template, words",
    [
        ("a = '{{ Id }}'", "Id has no value"),
        ("a = '{{ Buyer.keys }}'", "Buyer.keys has no value"),
        ("a = '{{ items[3].keys }}'", "items[3].keys has no value"),
        ("a = '{{ 'x' ~ Id }}'", "Id has no value"),
        ("a = '{{ Id | upper }}'", "Id has no value"),
        ("a = '{{ items }}'", "items is a list"),
        ("a = '{{ items[0] }}'", "items[0] is an object"),
        ("a = {{ items[0].keys }}", "items[0].keys is a text and stands outside quotes"),
        ("a = '{{ items[0].keys + 1 }}'", "TypeError"),
        ("{% if Urgent %}a = 1{% endif %}", "empty"),
        ("a = 'x{{ Size }}", "not closed"),
    ],
)
def test_what_cannot_be_filled_is_refused_and_named(template: str, words: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        fill_template(template, Size=1, items=[{"keys": "confidential"}])
    assert words in str(caught.value)
    assert "confidential" not in str(caught.value)


@rows(
    "template",
    [
        *("{{ Id.__class__.__mro__ }}", "{{ ''['__class__'] }}", "{{ Id | attr('__class__') }}"),
        *("{{ self }}", "{{ self._TemplateReference__context }}", "{{ cycler.__init__.__globals__ }}"),
        *("{{ lipsum }}", "{{ loop.__class__ }}", "{% for i in items %}{{ loop.__init__ }}{% endfor %}"),
        *("{{ range(1000000000) }}", "{{ Id.upper() }}", "{{ 'x' * 1000000000 }}", "{{ 9 ** 9 ** 9 }}"),
        *("{{ '%1000000000d' % 1 }}", "{{ '{:1000000000}'.format(1) }}"),
        *("{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{% from 'os' import path %}"),
        *("{% extends 'x' %}", "{% block x %}{% endblock %}", "{% call m() %}{% endcall %}"),
        *("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% filter upper %}{{ Id }}{% endfilter %}"),
        *("{% set x %}{{ Id }}{% endset %}", "{% autoescape false %}{{ Id }}{% endautoescape %}"),
        *("{% for x in items recursive %}{{ loop(x) }}{% endfor %}", "{{ " + "9" * 5000 + " }}"),
        "(" * 5000 + "{{ " + "(" * 5000,
        "{% if Id %}" * 30 + "{% endif %}" * 30 + "{{ Nothing }}",
        *("{{ Id | safe }}", "{{ Id | _value('x') }}", "{{ Id | format }}"),
        *("{{ _connector_found }}", "{{ _connector_rounds }}"),
    ],
)
def test_a_template_reaches_nothing_but_the_object(template: str) -> None:
    with pytest.raises(RequestRefused):
        fill_template(f"a = '{template}'", Id="x", items=ITEMS)


EACH = "{% for x in items %}"


@rows(
    "template, words",
    [
        (EACH * 8 + "{% endfor %}" * 8 + "a = 1", f"more than {MAX_ROUNDS} rounds"),
        (EACH + "x" * 1000 + "{% endfor %}", f"more than {MAX_SELECTOR} characters"),
        ("{% set x = 'ten chars.' %}" + "{% set x = x ~ x %}" * 40, f"more than {MAX_SELECTOR} characters"),
        ("{% set x = items %}" + "{% set x = x + x %}" * 20, f"more than {MAX_SELECTOR} values"),
    ],
)
def test_loops_the_output_and_what_is_set_are_bounded(template: str, words: str) -> None:
    with pytest.raises(RequestRefused, match=words):
        fill_template(template, items=[{"No": number} for number in range(100)])
