"""JMESPath with exact numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.expressions import compile_expression
from connector.businessobjects.rule_conditions import SeenMessage
from connector.messaging.message import Message
from connector.text.json_text import from_json, to_json, to_json_text
from tests.tables import rows, texts

BODY = b"""{"total": 0.10, "big": 12345678901234567890.12, "text": "10.50", "zero": 0.0, "huge": 1e400,
"beyond": 1e999999999, "lines": [{"price": 1.10, "n": 1}, {"price": 2.20, "n": 2}, {"price": 3, "n": 3}]}"""

TRUE = """
    total == `0.1`   total <= `0.1`   big == `12345678901234567890.12`   total == `1e-1`   zero == `0`
    big > `12345678901234567890.11` && big < `12345678901234567890.13`   huge > `1e399`
    contains(`[0.1, 0.2]`, total)
"""
FALSE = "total == `0.10000000000000000001`   total < `0.1`   big == `12345678901234567890.13`"


@rows(
    "expression, found",
    [
        *((text, True) for text in texts(TRUE)),
        *((text, False) for text in texts(FALSE)),
        *((text, None) for text in ("beyond", "beyond > `1`", "ceil(beyond)", "to_number('x')")),
        ("lines[?price == `1.1`].n", [1]),
        ("lines[?price > `1.10`].n", [2, 3]),
        ("lines[?price > `1.1` && n < `3`].n | [0]", 2),
        ("sum(lines[].price)", Decimal("6.30")),
        ("avg(lines[].price)", Decimal("2.10")),
        ("max(lines[].price)", 3),
        ("min(lines[].price)", Decimal("1.10")),
        ("sort(lines[].price)", [Decimal("1.10"), Decimal("2.20"), 3]),
        ("max_by(lines, &price).n", 3),
        ("abs(total)", Decimal("0.10")),
        ("ceil(total)", 1),
        ("floor(total)", 0),
        ("type(total)", "number"),
        ("type(text)", "string"),
        ("to_string(total)", "0.10"),
        ("to_string(lines[0])", '{"price": 1.10, "n": 1}'),
        ("to_number(text)", Decimal("10.50")),
        ("to_number('7')", 7),
        ("to_number(total)", Decimal("0.10")),
        ('`[0.1, {"a": 1.5}]`', [Decimal("0.1"), {"a": Decimal("1.5")}]),
    ],
)
def test_numbers_keep_their_digits(expression: str, found: Any) -> None:
    try:
        result = compile_expression(expression).search(from_json(BODY))
    except jmespath.exceptions.JMESPathError:
        result = None
    assert result == found
    assert str(result) == str(found)


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)


@given(NUMBERS, NUMBERS)
def test_comparisons_are_those_of_the_numbers(left: Decimal, right: Decimal) -> None:
    document = {"left": left}
    literal = format(right, "f")
    for sign, expected in (("==", left == right), ("<", left < right), (">=", left >= right)):
        assert compile_expression(f"left {sign} `{literal}`").search(document) is expected
        raw = from_json(to_json(document))
        assert compile_expression(f"left {sign} `{literal}`").search(raw) is expected


def test_floats_stay_floats() -> None:
    found = compile_expression("[a, sum([a, b]), `0.5`]").search({"a": 0.1, "b": 0.2})
    assert found == [0.1, 0.3, Decimal("0.5")]
    assert [type(one) for one in found] == [float, float, Decimal]
    assert compile_expression("a == `0.1`").search({"a": 0.1}) is True


@rows(
    "expression",
    [
        *("a ==", "`0.1", "sum(", "a[?b == `0.1`"),
        *("`NaN`", "a == `Infinity`", "`[1, -Infinity]`", '`{"a": [NaN]}`', "sum([`1.5`, `NaN`])"),
    ],
)
def test_a_wrong_expression_is_refused(expression: str) -> None:
    with pytest.raises(jmespath.exceptions.JMESPathError):
        compile_expression(expression)


def test_json_text_keeps_the_digits_and_everything_else() -> None:
    value = {"a": Decimal("10.00"), "b": ["x", Decimal("1E+2"), 1.5, None], "c": {"d": '"10" é'}}
    assert to_json_text(value) == '{"a": 10.00, "b": ["x", 100, 1.5, null], "c": {"d": "\\"10\\" é"}}'
    assert from_json(to_json(value))["c"] == value["c"]
    with pytest.raises(TypeError):
        to_json_text({"a": object()})


@rows(
    "expression, value",
    [
        ("floor(to_number(Id))", "inf"),
        ("ceil(to_number(Id))", "nan"),
        ("abs(Id)", "x"),
        ("sum(Id)", "x"),
        ("max_by(Id, &x)", [{"x": 1}, {"x": "a"}]),
        ("sort(Id)", [1, "a"]),
        ("join(',', Id)", [1]),
        ("keys(Id)", 1),
        ("map(&floor(@), Id)", ["a"]),
        ("reverse(Id)", {}),
    ],
)
def test_whatever_an_expression_raises_it_fits_no_message(expression: str, value: Any) -> None:
    body = to_json({"Id": value})
    with pytest.raises(jmespath.exceptions.JMESPathError):
        compile_expression(expression).search(from_json(body))
    assert not SeenMessage(Message(body)).fits_expression(expression)
