"""Messages: typed properties as in JMS and their names (JMS 2.0, 3.5.1), bodies, and destinations."""

from __future__ import annotations

import json
import math
import os
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connector.errors import DestinationError, MalformedData, SelectorError
from connector.messaging import Byte, Char, Double, Float, Int, Long, Short
from connector.messaging.bodies import decode_body, encode_body
from connector.messaging.destination import (
    Destination,
    known_destination,
    names_of,
    own_destination,
    parse_destination,
)
from connector.messaging.message import (
    PROPERTY_TYPES,
    Message,
    check_property,
    natural_type,
    parse_property,
)
from connector.messaging.selector import compile_selector
from connector.messaging.selectors.identifiers import KEYWORDS, check_property_name, is_providers_own
from connector.messaging.typed_values import TYPES, type_of, types_of
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


@given(st.floats(min_value=-3e38, max_value=3e38))
def test_a_float_property_is_rounded_to_32_bits(number: float) -> None:
    kept = check_property("float", number)
    assert kept == struct.unpack("<f", struct.pack("<f", number))[0]


def test_a_number_too_large_for_a_float_and_an_unknown_type_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit a float"):
        check_property("float", 1e39)
    assert {check_property(kind, math.inf) for kind in ("float", "double")} == {math.inf}
    with pytest.raises(ValueError, match="there are boolean, byte"):
        check_property("decimal", 1)


@rows(
    "kind, text, value",
    [
        *(("boolean", "TRUE", True), ("byte", "-128", -128), ("double", "1e3", 1000.0), ("string", "", "")),
        *(("boolean", "yes", None), ("int", "1.5", None), ("byte", "128", None), ("double", "x", None)),
    ],
)
def test_values_are_read_from_text_by_their_type(kind: str, text: str, value: object) -> None:
    if value is not None:
        assert parse_property(kind, text) == value
        return
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


def test_a_message_is_redelivered_from_its_second_delivery_on() -> None:
    assert [Message(delivery_count=n).headers()["JMSRedelivered"] for n in (1, 2, 3)] == [False, True, True]


@rows("expiration, expired", [(1_700_000_000_123, True), (1_700_000_000_124, False), (0, False)])
def test_a_message_has_expired_from_the_millisecond_of_its_expiration_on(
    monkeypatch: pytest.MonkeyPatch, expiration: int, expired: bool
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_123_999_999)
    assert Message(expiration=expiration).has_expired() is expired


# --- names -------------------------------------------------------------------------------------

NAMES = st.one_of(
    st.text(min_size=1, max_size=8),
    st.from_regex(r"\A(JMSX?_?)?[A-Za-z_$][\w$]{0,6}\Z"),
    st.sampled_from(sorted(KEYWORDS)).map(str.lower),
)


def is_allowed(name: str) -> bool:
    try:
        check_property_name(name)
    except ValueError:
        return False
    return True


def is_found(name: str) -> bool:
    """Whether a selector finds a property by its name, and nothing else."""
    message = Message()
    message.set_property(name, "there")
    try:
        return compile_selector(f"{name} = 'there'").matches(message)
    except SelectorError:
        return False


@given(NAMES)
@example("JMSXGroupID")
@example("größe")
@example("\ud800")
@example("a\u200db")
@example("a b")
@example("JMSPriority")
def test_a_name_is_allowed_exactly_when_a_selector_finds_it_and_no_provider_sets_it(name: str) -> None:
    assert is_allowed(name) == (is_found(name) and not is_providers_own(name))


@rows(
    "name, why",
    [
        ("", "needs a name"),
        ("a b", "it has ' '"),
        ("1a", "it has '1', expected a letter"),
        ("a-b", "it has '-'"),
        ("Null", "word of the selectors"),
        ("between", "word of the selectors"),
        ("JMSXDeliveryCount", "counts deliveries"),
        ("JMS_dropboxmq_hdr", "begin with JMS_"),
        ("JMSPriority", "are headers"),
        ("JMSFoo", "are headers"),
    ],
)
def test_a_name_that_is_not_allowed_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_property_name(name)
    if not name:
        with pytest.raises(ValueError, match=why):
            Message().set_property(name, 1)


# --- bodies ---------------------------------------------------------------------------------------

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), 1 << 63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(max_size=20)
)
_keys = st.text(st.characters(exclude_categories=["Cs"])).filter(lambda key: key != "$bytes")
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.lists(_values, max_size=5)
    | st.dictionaries(_keys, _values, max_size=5)
)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    assert decode_body(*encode_body(value)) == value


@rows("value, letter", [(None, "M"), ("", "T"), (b"", "B"), (bytearray(b"x"), "B"), ({}, "P"), ([], "S")])
def test_the_python_type_chooses_the_message_class(value: Any, letter: str) -> None:
    assert encode_body(value)[0] == letter


def test_maps_and_streams_are_json_that_others_can_read_and_bytes_are_marked_base64() -> None:
    assert encode_body({"a": [1, None, "\u20ac"]})[1] == '{"a":[1,null,"€"]}'.encode()
    assert json.loads(encode_body({"a": b"\x00\x01"})[1]) == {"a": {"$bytes": "AAE="}}


@rows("value", [object(), 3, {1: 2}, [object()], {"a": {1, 2}}])
def test_what_no_message_carries_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"cannot carry|keys of a map"):
        encode_body(value)


@rows("value", [{"$bytes": "AAE="}, [{"$bytes": 1}], [float("nan")], ["\ud800"]])
def test_what_would_be_read_as_something_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of json, codecs and ours
        encode_body(value)


@rows(
    "letter, body",
    [
        *(("T", b"\xff"), ("O", b"\x80\x04N.")),
        *(("P", body) for body in (b"[]", b"{", b"\xff")),
        *(("S", body) for body in (b"{}", b'[{"$bytes": "?"}]', b'[{"$bytes": 1}]', b"[" * 100_000)),
    ],
)
def test_a_body_that_is_not_what_its_class_says_is_malformed(letter: str, body: bytes) -> None:
    with pytest.raises(MalformedData):
        decode_body(letter, body)


# --- destinations ---------------------------------------------------------------------------------


@rows(
    "text, kind, name",
    [
        ("queue://orders", "queue", "orders"),
        ("topic://prices", "topic", "prices"),
        ("orders", "queue", "orders"),
        ("queue://a b.c-d", "queue", "a b.c-d"),
        ("queue://Zürich", "queue", "Zürich"),
        ("queue://ID:a:1", "queue", "ID:a:1"),
    ],
)
def test_kind_and_name_are_read_and_a_bare_name_is_a_queue(text: str, kind: str, name: str) -> None:
    assert parse_destination(text) == Destination(kind, name)


REFUSED = {
    "empty": ("", "queue://", "queue://~EXPIRED"),
    "no '/'": ("queue://../x",),
    r"no '\.\.'": ("queue://a..b", "queue://..", "topic://a..b"),
    "begin with a dot": ("queue://.hidden",),
    "does not end with a dot": ("topic://prices.",),
    "no ": ("queue://a\\b",),
    "no ';'": ("queue://a;b",),
    "white space": ("queue:// a", "queue://a\n"),
    "control character": ("queue://a\x07b",),
    "reserved": ("queue://topic-root", "queue://DropboxMQ"),
    "PROCESSING": ("queue://orders~DONE",),
    "only queues": ("topic://prices~EXPIRED",),
    "longer than 200 bytes": ("queue://" + "x" * 201,),
    "not valid Unicode": ("queue://\ud800",),
    "neither 'queue' nor 'topic'": ("mail://x",),
    "a bare name has no ':', .* did you mean 'queue://orders'": ("queue:orders",),
    "did you mean 'topic://prices'": ("Topic:/prices",),
    "a bare name has no ':', the form is queue://NAME$": ("a:b",),
}


@rows("text, reason", [(text, reason) for reason, names in REFUSED.items() for text in names])
def test_what_is_no_destination_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(DestinationError, match=reason):
        parse_destination(text)


@given(st.text())
def test_an_accepted_name_is_one_directory_below_the_root_and_reads_back(name: str) -> None:
    try:
        destination = parse_destination(f"queue://{name}")
    except DestinationError:
        return
    assert os.path.normpath(f"/base/{destination.name}") == f"/base/{destination.name}"
    assert os.path.dirname(f"/base/{destination.name}") == "/base"
    assert parse_destination(str(destination)) == destination


@given(st.lists(st.text("ab.~/ ", max_size=5), min_size=1).map(".".join))
def test_each_part_of_an_accepted_topic_is_one_directory(name: str) -> None:
    try:
        topic = parse_destination(f"topic://{name}")
    except DestinationError:
        return
    path = os.path.join("/base", *topic.name.split("."))
    assert os.path.normpath(path) == path
    assert path.count("/") == name.count(".") + 2


def test_a_virtual_destination_shows_a_part_of_its_queue() -> None:
    expired = parse_destination("orders~EXPIRED")
    assert (expired.view, str(expired)) == ("EXPIRED", "queue://orders~EXPIRED")
    assert expired.base == parse_destination("orders")
    plain = parse_destination("topic://prices")
    assert (plain.view, plain.base) == ("", plain)


_own_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.text(
    "a%2F./~;\\ é\n", min_size=1
)


@given(st.sampled_from(["queue", "topic"]), _own_names)
@example("queue", "x%2Fy")
@example("queue", "dropboxMQ")
@example("topic", "%")
def test_a_name_of_a_server_reads_back_and_is_also_one_directory(kind: str, name: str) -> None:
    destination = own_destination(kind, name)
    assert destination.own_name == name
    assert parse_destination(str(destination), own_names=True) == destination
    assert known_destination(str(destination)) == destination
    if len(destination.name.encode()) <= 200:
        assert parse_destination(str(destination)) == destination


@rows(
    "text, name",
    [
        ("queue://a%2Fb", "a/b"),
        ("a/b", "a/b"),
        ("topic://PRICES/NYSE", "PRICES/NYSE"),
        ("queue://50%", "50%"),
        ("queue://a%20b", "a b"),
        ("queue://rep%7EEXPIRED", "rep~EXPIRED"),
        ("queue://a~b?x=1", "a~b?x=1"),
        ("queue://" + "x" * 999, "x" * 999),
    ],
)
def test_a_name_of_a_server_is_read_with_and_without_escapes(text: str, name: str) -> None:
    destination = parse_destination(text, own_names=True)
    assert (destination.own_name, destination.view) == (name, "")
    with names_of(own_names=True):
        assert parse_destination(text) == destination


@rows("text", ["queue://", "queue://%FF", "queue://\ud800", "mail://x", "a:b"])
def test_what_names_nothing_at_a_server_is_refused(text: str) -> None:
    with pytest.raises(DestinationError):
        parse_destination(text, own_names=True)


# --- typed values ---------------------------------------------------------------------------------

_typed = (
    st.builds(Byte, st.integers(-(1 << 7), (1 << 7) - 1))
    | st.builds(Short, st.integers(-(1 << 15), (1 << 15) - 1))
    | st.builds(Int, st.integers(-(1 << 31), (1 << 31) - 1))
    | st.builds(Long, st.integers(-(1 << 63), (1 << 63) - 1))
    | st.builds(Float, st.floats(allow_nan=False, allow_infinity=False, width=32))
    | st.builds(Double, st.floats(allow_nan=False, allow_infinity=False))
    | st.builds(Char, st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
)


@given(st.dictionaries(_keys, _typed | _values, max_size=5) | st.lists(_typed | _values, max_size=5))
def test_the_types_of_values_are_kept_beside_a_plain_body(value: Any) -> None:
    letter, body = encode_body(value)
    message = Message(body, letter)
    if types := types_of(value):
        message.set_property(TYPES, types)
    assert message.value == value
    pairs = (
        zip(message.value.values(), value.values(), strict=True)
        if letter == "P"
        else zip(message.value, value, strict=True)
    )
    assert all(type_of(found) == type_of(given_) for found, given_ in pairs)
    assert decode_body(letter, body) == value


@rows(
    "make, value",
    [
        (Byte, 128),
        (Short, 1 << 15),
        (Int, 1 << 31),
        (Long, 1 << 63),
        (Float, 1e39),
        (Char, "xy"),
        (Char, "\ud800"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_refused(make: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"does not fit|no single character"):
        make(value)


@rows("types", ["", "[", "{}", '{"a":"short"}', '{"a":{"b":1}}', '"int"', "[" * 100_000])
def test_types_that_a_stranger_has_set_spoil_no_body(types: str) -> None:
    message = Message(b'{"a":"x"}', "P")
    message.set_property(TYPES, types)
    assert message.value == {"a": "x"}
