"""JMSProperties: the properties that a dynamic meta-object says, typed and named as a message has them."""

from __future__ import annotations

from typing import Any

import pytest

from connector.businessobjects.definition import Attribute
from connector.businessobjects.instance import BusinessObject
from connector.errors import RequestRefused
from connector.requests.properties import resolve
from tests.requests.samples import customer, definitions, settings
from tests.tables import rows


def refusal(bo: BusinessObject, **of_plan: Any) -> str:
    with pytest.raises(RequestRefused) as refused:
        resolve(bo, settings(**of_plan))
    return str(refused.value)


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


@rows("kind", ["Integer", "Boolean", "Double"])
def test_a_blank_property_that_is_no_string_is_not_sent(kind: str) -> None:
    of = definitions(properties=(Attribute("P", kind),))
    assert resolve(customer(of, JMSProperties={"P": ""}), settings(of)).user_properties == ()


def test_a_property_without_a_name_in_its_tag_is_called_as_its_attribute() -> None:
    of = definitions(properties=(Attribute("Region", "String"),))
    found = resolve(customer(of, JMSProperties={"Region": "EU"}), settings(of)).user_properties
    assert found == (("Region", "string", "EU"),)


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
    of = definitions(
        properties=(Attribute("A", "String"), Attribute("B", "String", app_specific_info="name=A"))
    )
    text = refusal(customer(of, JMSProperties={"A": "x", "B": "y"}), of=of)
    assert text == "Customer.Meta.JMSProperties.B: the property 'A' is set twice"
