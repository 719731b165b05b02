"""Messages: typed properties as the Java Message Service has them."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.messaging.message import (
    PROPERTY_TYPES,
    Message,
    check_property,
    natural_type,
    parse_property,
)
from tests.tables import rows


@rows("kind, bits", [("byte", 8), ("short", 16), ("int", 32), ("long", 64)])
def test_an_integer_property_takes_its_whole_range_and_nothing_beyond(kind: str, bits: int) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    assert [check_property(kind, low), check_property(kind, high)] == [low, high]
    for beyond in (low - 1, high + 1):
        with pytest.raises(ValueError, match=f"does not fit a {kind}"):
            check_property(kind, beyond)


@rows("kind", sorted(set(PROPERTY_TYPES) - {"boolean"}))
def test_a_boolean_is_no_number_and_no_string(kind: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        check_property(kind, True)


def test_a_type_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match="there are boolean, byte"):
        check_property("decimal", 1)


@given(st.floats(allow_nan=False, width=32))
def test_a_float_property_keeps_every_32_bit_number(number: float) -> None:
    assert check_property("float", number) == number


@given(st.floats(min_value=-3e38, max_value=3e38))
def test_a_float_property_is_rounded_to_32_bits(number: float) -> None:
    kept = check_property("float", number)
    assert kept == struct.unpack("<f", struct.pack("<f", number))[0]


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit a float"):
        check_property("float", 1e39)
    assert math.isinf(float(check_property("double", math.inf)))


@rows(
    "kind, text, value",
    [("boolean", "TRUE", True), ("byte", "-128", -128), ("double", "1e3", 1000.0), ("string", "", "")],
)
def test_values_are_read_from_text_by_their_type(kind: str, text: str, value: object) -> None:
    assert parse_property(kind, text) == value


@rows("kind, text", [("boolean", "yes"), ("int", "1.5"), ("byte", "128"), ("double", "x")])
def test_text_that_is_no_value_of_its_type_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"is no {kind}"):
        parse_property(kind, text)


@given(
    st.one_of(st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), st.text())
)
def test_the_natural_type_of_a_value_holds_it_unchanged(value: bool | int | float | str) -> None:
    message = Message()
    message.set_property("p", value)
    assert message.properties["p"] == value
    assert type(message.properties["p"]) is type(value)
    assert message.property_types["p"] == natural_type(value)


def test_a_property_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        Message().set_property("", 1)


def test_a_message_is_redelivered_from_its_second_delivery_on() -> None:
    assert [Message(delivery_count=n).headers()["JMSRedelivered"] for n in (1, 2, 3)] == [False, True, True]


def test_a_message_has_expired_from_the_millisecond_of_its_expiration_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_123_999_999)
    assert Message(expiration=1_700_000_000_123).has_expired()
    assert not Message(expiration=1_700_000_000_124).has_expired()


def test_a_message_without_an_expiration_never_expires() -> None:
    assert not Message(expiration=0).has_expired()
