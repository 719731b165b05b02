"""What an expression means for the objects of a definition: mistakes, and comparisons of dates."""

from __future__ import annotations

import re
from typing import Any

import pytest

from connector.businessobjects.condition import Condition
from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.expression_types import type_expression
from connector.businessobjects.expressions import compile_expression
from connector.businessobjects.facets import Facets
from connector.businessobjects.instance import BusinessObject
from tests.tables import rows


def definition(name: str, *attributes: Attribute) -> Definition:
    return Definition(name, attributes={one.name: one for one in attributes})


DEFINITIONS = Definitions(
    {
        one.name: one
        for one in (
            definition(
                "Order",
                Attribute("Id", "String", is_key=True),
                Attribute("Total", "Decimal"),
                Attribute("Open", "Boolean"),
                Attribute("At", "Date"),
                Attribute("Until", "Date"),
                Attribute("Since", "Date", facets=Facets(minimum="2020-01-01T00:00:00Z")),
                Attribute("Lines", "Line", cardinality="n"),
                Attribute("Buyer", "Party"),
                Attribute("Tags", "String", cardinality="n"),
                Attribute("Code", "Ciphertext"),
            ),
            definition(
                "Line", Attribute("Sku", "String"), Attribute("Quantity", "Integer"), Attribute("Due", "Date")
            ),
            definition("Party", Attribute("Name", "String")),
        )
    }
)


def mistakes(expression: str) -> list[str]:
    found = type_expression(compile_expression(expression), DEFINITIONS.schema("Order")).mistakes
    return [f"{one.found}, expected {one.expected}" for one in found]


def order(**values: Any) -> BusinessObject:
    return BusinessObject(DEFINITIONS, "Order", "Create", values)


def holds(expression: str, bo: BusinessObject) -> bool:
    return Condition(expression).holds(bo, bo.as_dict())


@rows(
    "expression",
    [
        "Total > `100` && Id == 'x'",
        "Total == '' || Until == null || Until == `null`",
        "length(Lines) > `1` && Lines[0].Sku == 'x'",
        "Lines[?Quantity > `2` && Due < '2024-05-31'].Sku | [0]",
        "sum(Lines[*].Quantity) == `3`",
        "sort_by(Lines, &Quantity)[0].Sku == 'a'",
        "max_by(Lines, &Quantity).Due > '2024-05-31'",
        "contains(Tags, 'new') || Tags[0] == 'x' || Tags[1:]",
        "Buyer.Name || 'nobody'",
        "Lines[].{a: Sku, b: Quantity} | [?b > `1`].a",
        "{n: Buyer.Name}.n == 'x'",
        "At > Until && default(Until, '2024-05-31') < '2024-06-01'",
        "upper(to_string(Total)) == '1'",
        "!Open",
        "values(@)[0] == `1`",
    ],
)
def test_an_expression_without_a_mistake(expression: str) -> None:
    assert mistakes(expression) == []


@rows(
    "expression, text, near",
    [
        ("Totl > `1`", "Order has no attribute 'Totl', expected one of Id, Total", "Total"),
        ("Buyer.Nam == 'x'", "Party has no attribute 'Nam', expected one of Name", "Name"),
        ("Lines[?Quantty > `1`]", "Line has no attribute 'Quantty'", "Quantity"),
        ("sort_by(Lines, &Skus)", "Line has no attribute 'Skus'", "Sku"),
        ("Lines[].{a: Sku} | [0].b", "no b, expected one of a", None),
        ("Lines.Sku", "Sku of a list of objects (Line), expected a name within its elements", None),
        ("Buyer[0].Name", "[0] of an object (Party), expected a list", None),
        ("Total.x", "x of a Decimal, expected a name of an object", None),
        ("Total > '5'", "Total, which is a Decimal, beside '5', which is a text, expected", None),
        ("Id == `5`", "Id, which is a String, beside `5`, which is a number, expected", None),
        (
            "Open == true",
            "true without back quotes, which is the name of an attribute, expected `true`",
            None,
        ),
        ("upper(Total)", "Total is a Decimal in upper(), expected a text", None),
        (
            "sum(Lines[].Sku)",
            "Lines[].Sku is a list of values (String) in sum(), expected a list of num",
            None,
        ),
        ("date(At, '%Q')", "'%Q' in date(), expected a format with some of %Y", None),
        ("At > 'soon'", "'soon' beside a Date, expected a date such as", None),
        (
            "At == '2024-05-31T00:00:00Z' || At == '2024-05-31'",
            "'2024-05-31' without a zone beside '2024-05-31T00:00:00Z' with a zone, expected both with",
            None,
        ),
        (
            "default(At, '2024-05-31') > '2024-05-31Z'",
            "'2024-05-31' without a zone beside '2024-05-31Z'",
            None,
        ),
        ("Since > '2024-05-31'", "'2024-05-31' without a zone beside Since (its bound is 2020", None),
    ],
)
def test_a_mistake_is_found_without_an_object(expression: str, text: str, near: str | None) -> None:
    (found,) = mistakes(expression)
    assert text in found
    typed = type_expression(compile_expression(expression), DEFINITIONS.schema("Order"))
    assert typed.mistakes[0].near == near


@rows(
    "date, expression, found",
    [
        ("2024-05-31T08:00:00Z", "At == '2024-05-31T10:00:00+02:00'", True),
        ("2024-05-31T08:00:00Z", "At != '20240531T10+02'", False),
        ("2024-05-31T23:30:00-02:00", "At > '2024-06-01T01:00:00Z'", True),
        ("2024-05-31", "At == '2024-05-31T00:00'", True),
        ("2024-05-31", "At >= '20240531'", True),
        ("2024-05-31T24:00:00", "At == '2024-06-01'", True),
        ("2024-05-31T08:00:00.1234567Z", "At > '2024-05-31T08:00:00.1234566Z'", True),
        ("2024-05-31T08:00:00.10Z", "At == '2024-05-31T08:00:00,1Z'", True),
        ("2016-12-31T23:59:60Z", "At > '2016-12-31T23:59:59.9Z' && At < '2017-01-01T00:00:00Z'", True),
        ("9999-12-31T24:00:00Z", "At > '9999-12-31T23:00:00Z'", True),
        (None, "At == '2024-05-31'", False),
        (None, "At < '2024-05-31'", False),
        ("", "At == ''", True),
        ("2024-05-31", "At == null", False),
    ],
)
def test_dates_are_compared_as_instants(date: str | None, expression: str, found: bool) -> None:
    bo = order() if date is None else order(At=date)
    assert holds(expression, bo) is found


@rows(
    "expression, text",
    [
        (
            "At > '2024-05-31'",
            "At: found the text '2024-05-31T08:00:00Z', expected a Date without a zone, as",
        ),
        ("At > Until", "At: found the text '2024-05-31T08:00:00Z', expected a Date without a zone, as Until"),
        ("Lines[0].Quantity > Id", "Lines[0].Quantity: found the number 2, expected a text, which Id is"),
    ],
)
def test_values_that_cannot_be_compared_are_a_failure(expression: str, text: str) -> None:
    bo = order(Id="7", At="2024-05-31T08:00:00Z", Until="2024-06-01", Lines=[{"Quantity": 2}])
    with pytest.raises(ValueError, match=re.escape(text)):
        holds(expression, bo)


def test_no_failure_shows_a_ciphertext() -> None:
    with pytest.raises(ValueError, match=r"^Code: found a text, expected a number in add\(\)$"):
        holds("add(Code, `1`) > `1`", order(Code="s3cr3t"))
