"""JSON: what is refused, with what text, and what is not."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.json_handler import JsonHandler
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint
from connector.testing.datahandlers import objects_of
from tests.datahandlers.definitions import SAMPLES, define, known, make
from tests.tables import rows

CUSTOMER = Hint("Customer", "Create")
STRICT = make(JsonHandler)
LENIENT = make(JsonHandler, IgnoreUndefinedAttributes=True, write_type=False)


def nested(depth: int, inner: bytes = b"1") -> bytes:
    """A body of ``depth`` levels, the first of which is the object itself."""
    return b'{"x":' + b"[" * (depth - 1) + inner + b"]" * (depth - 1) + b"}"


@rows(
    "body, reason",
    [
        (b"", "the body is empty, expected a JSON object"),
        (b" \n\t", "the body is empty, expected a JSON object"),
        (b'"text"', "the body is the text 'text', expected a JSON object"),
        (b"[]", "the body is a list, expected a JSON object"),
        (b'{"Name": "a",}', "line 1 column 13"),
        (b'{\n "Name": tru}', "line 2 column 10"),
        (b'{"Name": "a"} {}', "unexpected content after document: line 1 column 15"),
        (b'{"Limit": NaN}', "line 1 column 11"),
        (b'{"Limit": -Infinity}', "line 1 column 12"),
        (b'{"Limit": 1e999}', "Limit: found the number 1e999, expected a number within the range of 64 bits"),
        (b'{"Name": "\\ud800"}', "surrogate"),
        (b'{"Name": "\xff"}', "the body is not UTF-8: byte 10, line 1"),
        ('{"Name": "é"}'.encode("utf-16")[2:], "the body is not UTF-8: byte 20"),
        ('{"Name": "é"}'.encode("utf-16")[:-1], "the body is not utf-16-le: byte 26"),
        (b'\xef\xbb\xbf\xef\xbb\xbf{"Name": "a"}', "(BOM) is not supported: line 1 column 1"),
        (b'{"Name": 7}', "Customer: Name: found the number 7, expected a text"),
        (b'{"Rating": 12345678901234567890123}', "Rating: found the number 12345678901234567890123"),
        (b'{"Address": {"City": "a"}}', "Address: found an object, expected a list of objects (Address)"),
        (b'{"Address": [{"City": "a"}, {"City": 1}]}', "Customer: Address[1].City: found the number 1"),
        (b'{"Nmae": "a"}', "Nmae: no such attribute in Customer, did you mean 'Name'?"),
        (b'{"Meta": {"MessageID": "x"}}', "Meta: holds a meta-object of Customer, which is never part of a body"),
        (b'{"Name": "a", "Name": "b"}', "the key 'Name' stands twice in one object: line 1 column 15"),
        (b'{"Name": "a",\n  "N\\u0061me" : "b"}', "the key 'Name' stands twice in one object: line 2 column 3"),
        (b'{"Home": {"City": "a", "City": "a"}}', "the key 'City' stands twice in one object: line 1 column 24"),
        (b'{"Name": {"a":1}, "Name": "b:"}', "the key 'Name' stands twice in one object"),
        (nested(201), "nested deeper than 200 levels"),
        (nested(1023), "the body is nested deeper than 200 levels"),
        (nested(1025), "the body is nested deeper than 200 levels"),
        (nested(100_000), "the body is nested deeper than 200 levels"),
        (b'{"x":' * 100_000, "the body is nested deeper than 200 levels"),
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_with_its_place(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedData) as refused:
        STRICT.to_business_object(body, CUSTOMER)
    assert reason in str(refused.value)
    assert not isinstance(refused.value, UnknownBusinessObject)


def test_nesting_counts_also_where_attributes_are_passed_over() -> None:
    assert LENIENT.to_business_object(nested(200), CUSTOMER).as_dict() == {}
    with pytest.raises(MalformedData, match="nested deeper"):
        LENIENT.to_business_object(nested(201), CUSTOMER)


def test_duplicate_keys_are_refused_also_where_attributes_are_passed_over() -> None:
    with pytest.raises(MalformedData, match="the key 'b' stands twice"):
        LENIENT.to_business_object(b'{"x": [{"b": 1, "a": {"b": 2}, "b": 3}]}', CUSTOMER)


def test_objects_nested_as_deeply_as_allowed_are_read_and_written() -> None:
    values: dict[str, Any] = {"City": "a"}
    for _ in range(198):
        values = {"City": "a", "Before": values}
    bo = BusinessObject(SAMPLES, "Customer", "Create", {"Home": values})
    assert STRICT.to_business_object(STRICT.to_body(bo), None) == bo


def test_the_rule_wins_over_the_keys() -> None:
    bo = STRICT.to_business_object(b'{"BusinessObject": "Note", "Verb": "Update", "Name": "a"}', CUSTOMER)
    assert (bo.type, bo.verb, bo.as_dict()) == ("Customer", "Create", {"Name": "a"})


def test_a_rule_without_a_verb_leaves_it_to_the_body() -> None:
    assert STRICT.to_business_object(b'{"Verb": "Update"}', Hint("Customer")).verb == "Update"
    assert STRICT.to_business_object(b"{}", Hint("Customer")).verb is None


@rows("body", [b"{}", b'{"BusinessObject": null}', b'{"BusinessObject": "Custmer"}'])
def test_a_body_that_names_no_defined_object_is_unknown(body: bytes) -> None:
    with pytest.raises(UnknownBusinessObject):
        STRICT.to_business_object(body, None)


@rows("body", [b'{"BusinessObject": 7}', b'{"BusinessObject": "Note", "Verb": []}'])
def test_a_type_or_verb_that_is_no_text_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedData, match="expected a text") as refused:
        STRICT.to_business_object(body, None)
    assert not isinstance(refused.value, UnknownBusinessObject)


def test_an_attribute_called_verb_is_an_attribute() -> None:
    handler = make(JsonHandler, known(define("Word", Verb="String")))
    bo = handler.to_business_object(b'{"Verb": "run"}', Hint("Word", "Create"))
    assert (bo.verb, bo["Verb"]) == ("Create", "run")


def test_the_body_names_its_type_unless_told_not_to() -> None:
    bo = BusinessObject(SAMPLES, "Note", "Create", {"Text": "a"})
    assert json.loads(STRICT.to_body(bo)) == {"BusinessObject": "Note", "Verb": "Create", "Text": "a"}
    assert LENIENT.to_body(bo) == b'{"Text":"a"}'


def test_half_a_surrogate_pair_cannot_be_written_or_read() -> None:
    bo = BusinessObject(SAMPLES, "Note", "Create", {"Text": "\ud800"})
    with pytest.raises(MalformedData, match="Note cannot be written as JSON"):
        STRICT.to_body(bo)
    with pytest.raises(MalformedData, match="no valid Unicode"):
        STRICT.to_business_object('{"Text": "\ud800"}', Hint("Note"))


TEXTS = st.text(alphabet='a:"\\{}[], é', max_size=6)
PAIRS = st.recursive(
    st.one_of(st.none(), st.integers(0, 9), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(TEXTS, inner), max_size=4).map(lambda pairs: ("object", pairs)),
    ),
    max_leaves=12,
)


def written(value: Any, space: str) -> str:
    """JSON text of a value in which objects are lists of pairs, so that keys may be equal."""
    if isinstance(value, tuple):
        members = (f"{json.dumps(key)}{space}:{space}{written(inner, space)}" for key, inner in value[1])
        return "{" + f"{space},".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(inner, space) for inner in value) + "]"
    return json.dumps(value)


def has_duplicates(value: Any) -> bool:
    if isinstance(value, tuple):
        keys = [key for key, _ in value[1]]
        return len(set(keys)) < len(keys) or any(has_duplicates(inner) for _, inner in value[1])
    return isinstance(value, list) and any(has_duplicates(inner) for inner in value)


@settings(max_examples=300)
@given(value=PAIRS, space=st.sampled_from(["", " ", "\n"]))
def test_exactly_bodies_with_duplicate_keys_are_refused(value: Any, space: str) -> None:
    document = ("object", [("x", value)])
    body = written(document, space)
    if has_duplicates(document):
        with pytest.raises(MalformedData, match="stands twice in one object: line"):
            LENIENT.to_business_object(body, CUSTOMER)
    else:
        assert LENIENT.to_business_object(body, CUSTOMER).as_dict() == {}


@settings(max_examples=300)
@given(objects_of(SAMPLES, "Customer") | objects_of(SAMPLES, "Article"))
def test_every_object_can_be_written_and_comes_back(bo: BusinessObject) -> None:
    again = STRICT.to_business_object(STRICT.to_body(bo), None)
    assert (again.type, again.verb, again.as_dict()) == (bo.type, bo.verb, bo.as_dict())
