"""Bodies as Python has them, and how they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import MalformedData
from connector.messaging.bodies import decode_body, encode_body
from tests.tables import rows

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
