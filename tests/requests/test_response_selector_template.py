"""A template of a response selector chooses and joins; what it puts in stays a value."""

from __future__ import annotations

from typing import Any

import pytest

from connector.businessobjects.definition import Attribute, Definition, Definitions, Verb
from connector.businessobjects.instance import BusinessObject
from connector.errors import RequestRefused
from connector.requests.response_selector import ResponseSelector
from connector.requests.response_template import MAX_ROUNDS
from connector.requests.selector_values import MAX_SELECTOR
from tests.tables import rows

ORDER = Definition(
    "Order",
    attributes={
        attribute.name: attribute
        for attribute in (
            Attribute("Id", "String"),
            Attribute("Size", "Integer"),
            Attribute("Urgent", "Boolean"),
            Attribute("items", "Item", cardinality="n"),
            Attribute("Buyer", "Item"),
        )
    },
    verbs={"Get": Verb("Get")},
)
ITEM = Definition("Item", attributes={"keys": Attribute("keys", "String"), "No": Attribute("No", "Integer")})
DEFINITIONS = Definitions({"Order": ORDER, "Item": ITEM})


def fill(template: str, /, quoting: Any = "quoted", **values: Any) -> str:
    selector = ResponseSelector.parse(f"response_selector_template={template}", quoting)
    assert selector is not None
    return selector.fill(BusinessObject(DEFINITIONS, "Order", "Get", values))


def problems(template: str) -> list[str]:
    selector = ResponseSelector.parse(f"response_selector_template={template}", "quoted")
    assert selector is not None
    return [str(mistake) for mistake in selector.problems(ORDER, DEFINITIONS)]


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
    assert fill(template, Id="i'%", Size=7, Urgent=True, items=ITEMS) == expected


def test_raw_quoting_is_for_templates_too() -> None:
    assert fill("a = '{{ Id }}'", "raw", Id="' OR TRUE OR a = '") == "a = '' OR TRUE OR a = ''"


def test_a_value_that_is_a_template_is_a_value() -> None:
    text = "{{ Size }}{% for x in items %}'"
    assert fill("a = '{{ Id }}'", Id=text) == f"a = '{text}'" + "'"


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
        fill(template, Size=1, items=[{"keys": "confidential"}])
    assert words in str(caught.value)
    assert "confidential" not in str(caught.value)


# --- what a template must not do -------------------------------------------------------------------


@rows(
    "template",
    [
        "{{ Id.__class__.__mro__ }}",
        "{{ ''['__class__'] }}",
        "{{ Id | attr('__class__') }}",
        "{{ range(1000000000) }}",
        "{{ Id.upper() }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ lipsum }}",
        "{{ loop.__class__ }}",
        "{% for i in items %}{{ loop.__init__ }}{% endfor %}",
        "{{ 'x' * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% from 'os' import path %}",
        "{% extends 'x' %}",
        "{% block x %}{% endblock %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% call m() %}{% endcall %}",
        "{% filter upper %}{{ Id }}{% endfilter %}",
        "{% set x %}{{ Id }}{% endset %}",
        "{% for x in items recursive %}{{ loop(x) }}{% endfor %}",
        "{% autoescape false %}{{ Id }}{% endautoescape %}",
        "(" * 5000 + "{{ " + "(" * 5000,
        "{{ " + "9" * 5000 + " }}",
        "{% if Id %}" * 30 + "{% endif %}" * 30 + "{{ Nothing }}",
        "{{ Id | safe }}",
        "{{ Id | _value('x') }}",
        "{{ Id | format }}",
        "{{ _connector_found }}",
        "{{ _connector_rounds }}",
    ],
)
def test_a_template_reaches_nothing_but_the_object(template: str) -> None:
    with pytest.raises(RequestRefused):
        fill(f"a = '{template}'", Id="x", items=ITEMS)


def test_loops_are_bounded_together() -> None:
    loops = 8
    template = "{% for x in items %}" * loops + "{% endfor %}" * loops + "a = 1"
    with pytest.raises(RequestRefused, match=f"more than {MAX_ROUNDS} rounds"):
        fill(template, items=[{"No": number} for number in range(100)])


def test_the_output_is_bounded() -> None:
    template = "{% for x in items %}" + "x" * 1000 + "{% endfor %}"
    with pytest.raises(RequestRefused, match=f"more than {MAX_SELECTOR} characters"):
        fill(template, items=[{"No": number} for number in range(100)])


def test_a_text_that_is_set_is_bounded() -> None:
    doubling = "{% set x = x ~ x %}"
    with pytest.raises(RequestRefused, match=f"more than {MAX_SELECTOR} characters"):
        fill(f"{{% set x = Id %}}{doubling * 40}a = 1", Id="0123456789")


def test_a_list_that_is_set_is_bounded() -> None:
    doubling = "{% set x = x + x %}"
    with pytest.raises(RequestRefused, match=f"more than {MAX_SELECTOR} values"):
        fill(f"{{% set x = items %}}{doubling * 20}a = 1", items=ITEMS)


# --- what the check says ---------------------------------------------------------------------------


@rows(
    "template, words",
    [
        ("a = '{{ Idd }}'", ["Order has no attribute 'Idd'"]),
        ("a = '{{ Buyer.key }}'", ["Item has no attribute 'key'"]),
        ("a = '{{ items.keys }}'", ["items is a list, expected items[0].keys"]),
        ("a = '{{ Buyer }}'", ["Buyer is a business object (Item)"]),
        ("a = '{{ Id.x }}'", ["Id is a String"]),
        ("a = {{ Id }}", ["with sample values: Id is a text and stands outside quotes"]),
        ("{% if Idd %}a = 1{% else %}a = 2{% endif %}", ["Order has no attribute 'Idd'"]),
        ("a = ", ["with sample values it is no selector"]),
        ("a = '{{ Id'", ["no template"]),
        ("a = '{{ Id | uper }}'", ["no filter 'uper'"]),
        ("a = '{% if Id is sting %}{% endif %}'", ["no test 'sting'"]),
        ("a = '{{ f(Id) }}'", ["a call in a template"]),
    ],
)
def test_the_check_says_what_is_wrong_with_a_template(template: str, words: list[str]) -> None:
    found = problems(template)
    assert len(found) == len(words), found
    for problem, word in zip(found, words, strict=True):
        assert word in problem


@rows(
    "template",
    [
        "a = '{{ Id }}' AND n = {{ Size }}",
        "a = '{{ items[4].keys }}'",
        "{% for item in items %}a = '{{ item.keys }}'{% if not loop.last %} OR {% endif %}{% endfor %}",
        "{% if Buyer and items %}a = {{ Buyer.No }}{% endif %}",
        "{% set x = items | first %}n = {{ x.No }} AND s = {{ items | length }}",
    ],
)
def test_the_check_finds_nothing_wrong_with_a_good_template(template: str) -> None:
    assert problems(template) == []
