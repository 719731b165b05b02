"""What a value of each simple type may be."""

from __future__ import annotations

import datetime
import math
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.types import SIMPLE_TYPES, TEXTS, text_converter, typed_converter
from tests.tables import rows

TYPED_GOOD = [
    ("String", "7", "7"),
    ("LongText", "a\nb", "a\nb"),
    ("Boolean", True, True),
    ("Boolean", False, False),
    ("Integer", -(2**31), -(2**31)),
    ("Integer", 2**31 - 1, 2**31 - 1),
    ("Float", 3, 3.0),
    ("Float", 0.1, 0.1),
    ("Float", 3.4028235e38, 3.4028235e38),  # how Java writes the largest
    ("Double", 1e308, 1e308),
    ("Date", "2024-02-29", "2024-02-29"),
    ("Date", "20240229", "20240229"),
    ("Date", "2024-02-29T23:59:60.123Z", "2024-02-29T23:59:60.123Z"),
    ("Date", "2024-05-31T24:00:00", "2024-05-31T24:00:00"),
    ("Date", "2024-05-31T08:00+05:30", "2024-05-31T08:00+05:30"),
    ("Date", "2024-05-31Z", "2024-05-31Z"),
    ("Date", "2024-05-31+02:00", "2024-05-31+02:00"),
    ("Date", "2024-05-31-14:00", "2024-05-31-14:00"),
    ("Date", datetime.date(2024, 5, 31), "2024-05-31"),
    ("Date", datetime.datetime(2024, 5, 31, 8, tzinfo=datetime.UTC), "2024-05-31T08:00:00+00:00"),
]
TYPED_BAD = [
    ("String", 7),
    ("String", True),
    ("String", ["a"]),
    ("LongText", 1.5),
    ("Boolean", 1),
    ("Boolean", "true"),
    ("Integer", "7"),
    ("Integer", True),
    ("Integer", 7.0),
    ("Integer", 2**31),
    ("Integer", -(2**31) - 1),
    ("Float", 3.5e38),
    ("Float", -3.4028236e38),
    ("Float", "1"),
    ("Double", math.nan),
    ("Double", math.inf),
    ("Double", 10**400),
    ("Double", True),
    ("Date", "2023-02-29"),
    ("Date", "2024-13-01"),
    ("Date", "0000-01-01"),
    ("Date", "2024-05-31 08:00"),
    ("Date", "2024-05-31T25:00"),
    ("Date", "2024-05-31+0200"),
    ("Date", "2024-05-31+14:30"),
    ("Date", "2024-05-31+2"),
    ("Date", "2024-05-31T24:01"),
    ("Date", "2024-0531"),
    ("Date", "31.5.2024"),
    ("Date", "٢٠٢٤-٠٥-٣١"),
    ("Date", "2024-05-31\n"),
    ("Date", 20240531),
]
TEXT_GOOD = [
    ("String", " a ", " a "),
    ("Boolean", "true", True),
    ("Boolean", " 0\n", False),
    ("Integer", " +007 ", 7),
    ("Integer", "-2147483648", -(2**31)),
    ("Double", "1.", 1.0),
    ("Double", "-.5E-3", -0.0005),
    ("Float", "1e3", 1000.0),
    ("Float", "-3.4028235E38", -3.4028235e38),
    ("Date", "2024-05-31T24:00:00.000", "2024-05-31T24:00:00.000"),
    ("Date", " 2024-05-31 ", "2024-05-31"),
]
TEXT_BAD = [
    *((kind, text) for kind in ("Integer", "Double") for text in ("²", "１２", "٣", ".", "1_0", "1.2.3")),
    ("Boolean", "yes"),
    ("Boolean", "TRUE"),
    ("Boolean", " "),
    ("Integer", "7.0"),
    ("Integer", "1_000"),
    ("Integer", "2147483648"),
    ("Integer", "9" * 5000),
    ("Integer", "٧"),
    ("Integer", " "),
    ("Double", "nan"),
    ("Double", "INF"),
    ("Double", "1e999"),
    ("Double", "1,5"),
    ("Double", "0x10"),
    ("Float", "1e39"),
    ("Date", "tomorrow"),
    ("Date", " "),
]


@rows("kind, value, kept", TYPED_GOOD)
def test_a_typed_value_that_fits_is_kept(kind: str, value: object, kept: object) -> None:
    result = typed_converter(kind)(value)
    assert (result, type(result)) == (kept, type(kept))


@rows("kind, value", TYPED_BAD)
def test_a_typed_value_that_does_not_fit_is_refused_briefly(kind: str, value: object) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        typed_converter(kind)(value)
    assert len(str(refused.value)) < 200


@rows("kind, text, kept", TEXT_GOOD)
def test_text_is_read_by_the_notation_of_its_type(kind: str, text: str, kept: object) -> None:
    result = text_converter(kind)(text)
    assert (result, type(result)) == (kept, type(kept))


@rows("kind, text", TEXT_BAD)
def test_text_in_another_notation_is_refused_briefly(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        text_converter(kind)(text)
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


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_read_from_its_own_text_is_the_same(number: float) -> None:
    assert text_converter("Double")(repr(number)) == number


@given(st.integers())
def test_an_integer_is_taken_exactly_when_it_has_32_bits(number: int) -> None:
    try:
        taken = typed_converter("Integer")(number)
    except ValueError:
        taken = None
    fits = -(2**31) <= number < 2**31
    assert taken == (number if fits else None)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_every_32_bit_number_is_a_float(number: float) -> None:
    assert typed_converter("Float")(number) == struct.unpack("<f", struct.pack("<f", number))[0]


@given(st.dates())
def test_every_day_of_the_calendar_is_a_date(day: datetime.date) -> None:
    assert typed_converter("Date")(day.isoformat()) == day.isoformat()


@given(st.datetimes(timezones=st.sampled_from([datetime.UTC, None])))
def test_every_moment_is_a_date(moment: datetime.datetime) -> None:
    assert typed_converter("Date")(moment.isoformat()) == moment.isoformat()


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
