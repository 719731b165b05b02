"""Name handlers: how the business object of a body is found when no rule names it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.name_handlers import make_name_handler, name_handler
from connector.errors import ConfigurationError, MalformedData, UnknownBusinessObject
from tests.tables import rows

XML = "<o:Order xmlns:o='urn:o' kind='Big'><Type>Small</Type></o:Order>"
JSON = '{"Kind": "Order", "head": {"type": "Deep"}, "list": [1], "n": 7}'


@rows(
    "text, body, name",
    [
        ("root", XML, "Order"),
        ("com.crossworlds.DataHandlers.xml.TopElementNameHandler", XML.encode("utf-16"), "Order"),
        ("key:Kind", JSON, "Order"),
        ("key:Kind", "\ufeff" + JSON, "Order"),
        ("key:BusinessObject", "Verb=Create\r\nBusinessObject=Order\r\n", "Order"),
        ("first_field", "Order~Create~1", "Order"),
        ("first_field", b"\xef\xbb\xbf  Order,Create", "Order"),
        ("jmespath:head.type", JSON, "Deep"),
        ("xpath:Type", XML, "Small"),
        ("xpath:string(@kind)", XML, "Big"),
        ("xpath:@kind", XML, "Big"),
        ("xpath:local-name()", XML, "Order"),
        ("names:find", b"anything", "Found"),
    ],
)
def test_the_name_is_found(tmp_path: Path, text: str, body: bytes | str, name: str) -> None:
    (tmp_path / "names.py").write_text("def find(body):\n    return 'Found' if body else None\n")
    assert name_handler(text) is None
    assert make_name_handler(text, "", tmp_path)(body) == name
    assert make_name_handler(text, "App", tmp_path)(body) == f"App_{name}"


@rows(
    "text, body",
    [
        ("key:Nothing", JSON),
        ("key:list", "[]"),
        ("first_field", "~~"),
        ("jmespath:nothing", JSON),
        ("xpath:Nothing", XML),
        ("names:find", b""),
    ],
)
def test_a_body_without_a_name_is_unknown(tmp_path: Path, text: str, body: bytes | str) -> None:
    (tmp_path / "names.py").write_text("def find(body):\n    return None\n")
    with pytest.raises(UnknownBusinessObject):
        make_name_handler(text, "", tmp_path)(body)


@rows(
    "text, body, words",
    [
        ("root", b"no XML", "no XML"),
        ("root", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", "document type"),
        ("key:Kind", b'{"Kind": ', "no JSON"),
        ("key:n", JSON, "finds int, expected a text"),
        ("jmespath:length(n)", JSON, "jmespath:length"),
        ("jmespath:a", b"[" * 200_000, "no JSON"),
        ("first_field", b"\xff\xff\xff", "byte 0"),
        ("broken:find", b"x", r"ValueError: no name \(broken.py:2\)"),
        ("broken:number", b"x", "finds int, expected a text"),
    ],
)
def test_a_body_that_cannot_be_read_is_malformed(
    tmp_path: Path, text: str, body: bytes | str, words: str
) -> None:
    (tmp_path / "broken.py").write_text(
        "def find(body):\n    raise ValueError('no name')\ndef number(body):\n    return 7\n"
    )
    begun = time.process_time()
    with pytest.raises(MalformedData, match=words):
        make_name_handler(text, "", tmp_path)(body)
    assert time.process_time() - begun < 5


@rows("text", ["top", "key:", "jmespath:a[?", "xpath:a[", "a b:c", "module:1st", ":x", "a.:b"])
def test_a_value_that_means_nothing_is_told(text: str) -> None:
    assert name_handler(text)


@rows("text", ["nowhere:find", "names:missing", "names:VALUE"])
def test_a_function_that_cannot_be_loaded_is_told_at_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "names.py").write_text("VALUE = 7\n")
    with pytest.raises(ConfigurationError, match="NameHandlerClass"):
        make_name_handler(text, "", tmp_path)


@given(
    body=st.binary(max_size=100),
    text=st.sampled_from(["root", "key:a", "first_field", "jmespath:a", "xpath:a"]),
)
def test_any_bytes_have_a_name_or_are_refused(body: bytes, text: str) -> None:
    try:
        name = make_name_handler(text, "", Path())(body)
    except MalformedData as error:
        name = str(error)
    assert name
