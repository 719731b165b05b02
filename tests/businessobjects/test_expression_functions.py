"""The functions of expressions, and what they say of a wrong argument."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.expressions import compile_expression, files_of
from connector.businessobjects.lookups import read_lookups
from tests.tables import rows

ORDER = {
    "Id": "O-7",
    "Total": Decimal("100.10"),
    "Rate": 0.1,
    "Count": 3,
    "Note": "  a, b ",
    "At": "2024-05-31T08:05:09.25+02:00",
    "Day": "2024-05-31",
    "Nothing": None,
    "Region": "NL",
}


@rows(
    "expression, found",
    [
        ("add(Total, `0.205`)", Decimal("100.305")),
        ("add(Count, `1`)", 4),
        ("subtract(Total, `100`)", Decimal("0.10")),
        ("multiply(Total, `1.19`)", Decimal("119.1190")),
        ("multiply(Count, Count)", 9),
        ("multiply(Rate, `3`)", 0.3),
        ("divide(Total, `3`, `4`)", Decimal("33.3667")),
        ("divide(`-1`, `8`, `2`)", Decimal("-0.13")),
        ("divide(Count, `2`, `0`)", 2),
        ("round(`2.675`, `2`)", Decimal("2.68")),
        ("round(`-0.5`, `0`)", -1),
        ("round(`-0.001`, `2`)", Decimal("0.00")),
        ("round(Count, `2`)", Decimal("3.00")),
        ("upper(Region)", "NL"),
        ("lower(Region)", "nl"),
        ("trim(Note)", "a, b"),
        ("substring(Id, `0`, `1`)", "O"),
        ("substring(Id, `2`, `9`)", "7"),
        ("substring(Id, `9`, `1`)", ""),
        ("replace(Id, '-', '/')", "O/7"),
        ("split(trim(Note), ', ')", ["a", "b"]),
        ("pad(Id, `6`, '0')", "000O-7"),
        ("pad(Id, `-6`, '.')", "O-7..."),
        ("pad(Id, `2`, '0')", "O-7"),
        ("date(At, '%d.%m.%Y %H:%M:%S.%f %z')", "31.05.2024 08:05:09.250000 +0200"),
        ("date(At, '%y%m%d %I %p %%')", "240531 08 AM %"),
        ("date(Day, '%H:%M')", "00:00"),
        ("default(Nothing, 'x')", "x"),
        ("default(Missing, Id)", "O-7"),
        ("default('', 'x')", ""),
        ("lookup('countries.csv', Region)", "Netherlands"),
        ("lookup('countries.csv', 'code')", None),
        ("lookup('countries.csv', Nothing)", None),
        ("lookup('countries.csv', Count)", "three"),
        ("join('-', ['INV', Id])", "INV-O-7"),
    ],
)
def test_a_function_returns(tmp_path: Path, expression: str, found: Any) -> None:
    (tmp_path / "countries.csv").write_text("code,name\nNL,Netherlands\n3,three\n", "utf-8")
    lookups = read_lookups(files_of(compile_expression(expression).tree), tmp_path)
    result = compile_expression(expression, lookups).search(ORDER)
    assert (repr(result), type(result)) == (repr(found), type(found))


@rows(
    "expression, text",
    [
        ("upper(Nothing)", "Nothing: found null, expected a text in upper()"),
        ("upper(Total)", "Total: found the number 100.10, expected a text in upper()"),
        ("add(Id, `1`)", "Id: found the text 'O-7', expected a number in add()"),
        ("join('-', ['INV', Customer.Name])", "Customer.Name: found null, expected a text in join()"),
        ("sum([Total, Id])", "Id: found the text 'O-7', expected a number in sum()"),
        ("divide(Total, `0`, `2`)", "`0`: found the number 0, expected another number than 0 in divide()"),
        ("divide(Total, `2`, `1.5`)", "expected a whole number up to 1000 in divide()"),
        ("round(Total, `-1`)", "expected a whole number up to 1000 in round()"),
        ("substring(Id, `-1`, `1`)", "expected a whole number from 0 up in substring()"),
        ("split(Id, '')", "expected a text that is not empty in split()"),
        ("pad(Id, `9`, '00')", "'00': found the text '00', expected one character in pad()"),
        ("pad(Id, `1e9`, '0')", "expected a whole number up to 100000 in pad()"),
        ("date(Id, '%Y')", "Id: found the text 'O-7', expected a Date in date()"),
        ("date(Day, '%Q')", "'%Q': found the text '%Q', expected a format with some of %Y"),
        ("sort_by([@], &Missing)", "&Missing: found null, expected a text or a number in sort_by()"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_found(expression: str, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        compile_expression(expression).search(ORDER)


@rows(
    "expression, text",
    [
        ("uper(Id)", "there is no function uper(), did you mean 'upper'?"),
        ("add(Total)", "add() has 1 arguments, expected 2"),
        ("not_null()", "not_null() has 0 arguments, expected at least 1"),
        ("Lines[?lenght(Sku) > `1`]", "there is no function lenght(), did you mean 'length'?"),
    ],
)
def test_a_call_that_no_function_answers_is_no_expression(expression: str, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        compile_expression(expression)


MONEY = st.decimals(-(10**30), 10**30, places=4)


@given(MONEY, st.integers(0, 4))
def test_a_rounded_number_is_at_most_half_a_place_away(number: Decimal, places: int) -> None:
    found = compile_expression(f"round(Total, `{places}`)").search({"Total": number})
    assert abs(Decimal(found) - number) * 2 <= Decimal(1).scaleb(-places)


@given(MONEY, MONEY)
def test_sums_and_products_are_exact(one: Decimal, other: Decimal) -> None:
    document = {"A": one, "B": other}
    assert compile_expression("subtract(add(A, B), B)").search(document) == one
    product = compile_expression("multiply(A, B)").search(document)
    assert Fraction(product) == Fraction(one) * Fraction(other)


@rows(
    "content, text",
    [
        (None, "t.csv: No such file or directory, expected a CSV file beside the expression"),
        (b"code\nNL\n", "t.csv:2: found 1 column, expected two, separated by a comma"),
        (b"code,name\nNL,a\nNL,b\n", "t.csv:3: found a second value for 'NL', expected one row for each key"),
        (b"code,name\nNL,\xff\n", "t.csv: found bytes that are no UTF-8, expected a CSV file in UTF-8"),
        (b'code,name\nNL,"a\n', "t.csv:2: unexpected end of data, expected a CSV file"),
    ],
)
def test_a_file_that_cannot_be_looked_up_in_says_why(
    tmp_path: Path, content: bytes | None, text: str
) -> None:
    if content is not None:
        (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(text)):
        read_lookups(["t.csv"], tmp_path)
