"""What a value of each simple type may be."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.types import SIMPLE_TYPES, TEXTS, text_converter, typed_converter
from tests.tables import rows

TYPED_GOOD: dict[str, tuple[tuple[object, object], ...]] = {
    # a value, and what is kept of it
    "String": (("7", "7"),),
    "LongText": (("a\nb", "a\nb"),),
    "Boolean": ((True, True), (False, False)),
    "Integer": ((-(2**31), -(2**31)), (2**31 - 1, 2**31 - 1)),
    "Float": ((3, 3.0), (0.1, 0.1), (3.4028235e38, 3.4028235e38)),  # how Java writes the largest
    "Double": ((1e308, 1e308),),
    "Date": (
        *((text, text) for text in ("2024-02-29", "20240229", "2024-02-29T23:59:60.123Z")),
        *((text, text) for text in ("2024-05-31T24:00:00", "2024-05-31T08:00+05:30", "2024-05-31Z")),
        *((text, text) for text in ("2024-05-31+02:00", "2024-05-31-14:00")),
        (datetime.date(2024, 5, 31), "2024-05-31"),
        (datetime.datetime(2024, 5, 31, 8, tzinfo=datetime.UTC), "2024-05-31T08:00:00+00:00"),
    ),
}
TYPED_BAD: dict[str, tuple[object, ...]] = {
    "String": (7, True, ["a"]),
    "LongText": (1.5,),
    "Boolean": (1, "true"),
    "Integer": ("7", True, 7.0, 2**31, -(2**31) - 1),
    "Float": (3.5e38, -3.4028236e38, "1"),
    "Double": (math.nan, math.inf, 10**400, True),
    "Date": (
        *("2023-02-29", "2024-13-01", "0000-01-01", "2024-05-31 08:00", "2024-05-31T25:00", "2024-05-31\n"),
        *("2024-05-31+0200", "2024-05-31+14:30", "2024-05-31+2", "2024-05-31T24:01", "2024-0531"),
        *("31.5.2024", "٢٠٢٤-٠٥-٣١", 20240531),
    ),
}
TEXT_GOOD: dict[str, tuple[tuple[str, object], ...]] = {
    "String": ((" a ", " a "),),
    "Boolean": (("true", True), (" 0\n", False)),
    "Integer": ((" +007 ", 7), ("-2147483648", -(2**31))),
    "Double": (("1.", 1.0), ("-.5E-3", -0.0005)),
    "Float": (("1e3", 1000.0), ("-3.4028235E38", -3.4028235e38)),
    "Date": (("2024-05-31T24:00:00.000", "2024-05-31T24:00:00.000"), (" 2024-05-31 ", "2024-05-31")),
}
NO_NUMBER = ("²", "１２", "٣", ".", "1_0", "1.2.3")
TEXT_BAD: dict[str, tuple[object, ...]] = {
    "Boolean": ("yes", "TRUE", " "),
    "Integer": (*NO_NUMBER, "7.0", "1_000", "2147483648", "9" * 5000, "٧", " "),
    "Double": (*NO_NUMBER, "nan", "INF", "1e999", "1,5", "0x10"),
    "Float": ("1e39",),
    "Date": ("tomorrow", " "),
}
CONVERTERS: dict[str, Callable[..., Any]] = {"typed": typed_converter, "text": text_converter}


@rows(
    "way, kind, value, kept",
    [
        (way, kind, value, kept)
        for way, table in (("typed", TYPED_GOOD), ("text", TEXT_GOOD))
        for kind, pairs in table.items()
        for value, kept in pairs
    ],
)
def test_a_value_that_fits_its_type_or_the_notation_of_its_type_is_kept(
    way: str, kind: str, value: object, kept: object
) -> None:
    result = CONVERTERS[way](kind)(value)
    assert (result, type(result)) == (kept, type(kept))


@rows(
    "way, kind, value",
    [
        (way, kind, value)
        for way, table in (("typed", TYPED_BAD), ("text", TEXT_BAD))
        for kind, values in table.items()
        for value in values
    ],
)
def test_a_value_that_does_not_fit_is_refused_briefly(way: str, kind: str, value: object) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        CONVERTERS[way](kind)(value)
    assert len(str(refused.value)) < 200


@rows("kind", SIMPLE_TYPES)
def test_every_type_can_be_blank(kind: str) -> None:
    assert typed_converter(kind)("") == ""
    assert text_converter(kind)("") == ""


@rows("kind", TEXTS)
def test_a_maximal_length_counts_characters(kind: str) -> None:
    assert typed_converter(kind, 3)("💶éa") == "💶éa"
    with pytest.raises(ValueError, match="4 characters, expected at most 3"):
        text_converter(kind, 3)("abcd")


@rows("value", [271828, 2718.25, ["271828"], {"a": "271828"}, True])
def test_what_is_no_ciphertext_is_refused_without_being_shown(value: object) -> None:
    with pytest.raises(ValueError, match="found another kind of value, expected a text") as refused:
        typed_converter("Ciphertext")(value)
    assert "2718" not in str(refused.value)
    with pytest.raises(ValueError, match="6 characters, expected at most 3") as refused:
        text_converter("Ciphertext", 3)("271828")
    assert "2718" not in str(refused.value)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_32_bit_number_is_a_float(number: float) -> None:
    assert typed_converter("Float")(number) == struct.unpack("<f", struct.pack("<f", number))[0]


@given(st.text(max_size=30))
def test_any_text_is_taken_or_refused_by_every_type(text: str) -> None:
    for kind in SIMPLE_TYPES:
        for convert in (text_converter(kind), typed_converter(kind)):
            result, reason = None, "expected"
            try:
                result = convert(text)
            except ValueError as refused:
                reason = str(refused)
            assert "expected" in reason
            assert result is None or isinstance(result, str | int | float | Decimal)
