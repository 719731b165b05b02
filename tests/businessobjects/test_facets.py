"""Facets of attributes: what they refuse, where, and in both directions."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.definition import Attribute, Definitions
from connector.businessobjects.facets import Facets
from connector.businessobjects.instance import BusinessObject, check, finish
from connector.errors import MalformedData
from connector.sinks.contract import write_body
from tests.datahandlers.definitions import define, known, refusal
from tests.tables import rows


def _order(kind: str, facets: Facets, value: Any, **more: Any) -> BusinessObject:
    cell = Attribute("Cell", kind, facets=facets, **more)
    definitions: Definitions = known(
        define("Order", Line=Attribute("Line", "Line", cardinality="n")), define("Line", Cell=cell)
    )
    return BusinessObject(definitions, "Order", "Create", {"Line": [{}, {"Cell": value}]})


@rows(
    "kind, facets, value, expected",
    [
        ("String", Facets(values=("EU", "US")), "XX", "found the text 'XX', expected one of EU, US"),
        ("String", Facets(values=("EU", "US")), "", "found the text '', expected one of EU, US"),
        ("String", Facets(pattern="O-[0-9]+|x"), "xO-1", "expected a text of the pattern 'O-[0-9]+|x'"),
        ("String", Facets(pattern="a"), "a\n", "expected a text of the pattern"),
        ("String", Facets(min_length=2), "a", "expected at least 2 characters"),
        ("Ciphertext", Facets(min_length=9), "hush", "found another text, expected at least 9 characters"),
        ("Decimal", Facets(minimum=Decimal("0.1")), "0.0999999999999999999999", "expected at least 0.1"),
        ("Decimal", Facets(maximum=Decimal(100)), "100.00000000000000000001", "expected at most 100"),
        ("Integer", Facets(values=(1, 2)), 3, "found the number 3, expected one of 1, 2"),
        ("Date", Facets(minimum="2024-05-31"), "2024-05-30T23:59", "expected at least 2024-05-31"),
        ("Date", Facets(maximum="2024-05-31"), "20240601", "expected at most 2024-05-31"),
        (
            "Date",
            Facets(maximum="2024-05-31T10:00"),
            "2024-05-31T10:00:01Z",
            "expected at most 2024-05-31T10",
        ),
        ("Date", Facets(minimum="2024-05-31T10:00Z"), "2024-05-31T11:00+02:00", "expected at least"),
        ("Date", Facets(minimum="2024-05-31Z"), "2024-06-30", "expected a Date with a zone"),
        ("Date", Facets(maximum="2024-05-31Z"), "2024-05-31T23:30-01:00", "expected at most 2024-05-31Z"),
    ],
)
def test_a_value_that_does_not_fit_is_malformed_with_its_place_in_both_directions(
    kind: str, facets: Facets, value: Any, expected: str
) -> None:
    bo = _order(kind, facets, value)
    for reason in (refusal(finish, bo), refusal(check, bo), refusal(write_body, lambda _: b"", bo)):
        assert reason.startswith("Order: Line[1].Cell: ")
        assert expected in reason


@rows(
    "kind, facets, value",
    [
        ("String", Facets(values=("EU", "US")), "EU"),
        ("String", Facets(pattern="(?i)o-[0-9]+"), "O-7"),
        ("Decimal", Facets(minimum=Decimal(1), values=(Decimal(5),)), "5.00"),
        ("Double", Facets(minimum=0.1, maximum=0.1), 0.1),
        ("Integer", Facets(minimum=5), ""),
        ("Date", Facets(values=("2024-05-31",)), ""),
        ("Date", Facets(minimum="2024-05-31", maximum="2024-05-31"), "2024-05-31T23:59:60+14:00"),
        ("Date", Facets(minimum="2024-05-31T10:00Z"), "2024-05-31T12:00+02:00"),
        ("Date", Facets(maximum="9999-12-31"), "9999-12-31T24:00"),
        ("Date", Facets(maximum="9999-12-31+01:00"), "9999-12-31T23:30-12:00"),
        ("Date", Facets(minimum="2024-05-31"), ""),
    ],
)
def test_a_value_that_fits_and_a_blank_that_is_no_text_are_taken(
    kind: str, facets: Facets, value: Any
) -> None:
    finish(_order(kind, facets, value))


def test_a_text_that_may_be_blank_need_not_fit_when_it_is() -> None:
    finish(_order("String", Facets(values=("EU",), min_length=2), "", may_be_blank=True))


def test_each_value_of_a_list_is_checked() -> None:
    bo = _order("Integer", Facets(maximum=3), [1, 4], cardinality="n")
    assert "Line[1].Cell[1]: found the number 4, expected at most 3" in refusal(finish, bo)


@given(st.decimals(-99, 99, places=4), st.decimals(-50, 50), st.decimals(-50, 50))
def test_bounds_are_compared_exactly(value: Decimal, low: Decimal, high: Decimal) -> None:
    bo = _order("Decimal", Facets(minimum=low, maximum=high), value)
    try:
        finish(bo)
    except MalformedData:
        assert not low <= value <= high
    else:
        assert low <= value <= high


def test_no_text_makes_a_pattern_hang() -> None:
    begun = time.process_time()
    assert "pattern" in refusal(finish, _order("String", Facets(pattern="((a+)+)+b"), "a" * 100_000))
    assert time.process_time() - begun < 5
