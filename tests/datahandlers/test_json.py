"""JSON and JSON Lines: what is refused, with what text, names of members, character sets, and lines."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.definition import Attribute, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.jsonlines_handler import JsonLinesHandler
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint, SplittingHandler
from connector.formats.json_decoder import JsonDecoder
from connector.formats.json_plan import JsonPlans, name_in_json
from tests.datahandlers.definitions import (
    RENAMED,
    RENAMED_BODY,
    RENAMED_VALUES,
    SAMPLES,
    define,
    known,
    make,
    refusal,
)
from tests.tables import rows

CUSTOMER = Hint("Customer", "Create")
ORDER = Hint("Order", "Create")
STRICT = make(JsonHandler)
LENIENT = make(JsonHandler, IgnoreUndefinedAttributes=True, write_type=False)


def handler(definitions: Definitions = RENAMED, **options: Any) -> JsonHandler:
    return make(JsonHandler, definitions, **{"write_type": False, **options})


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
        (b'{"Name": "\xff"}', "the body is not utf-8: byte 10, line 1 column 11; the option charset names another"),
        ('{"Name": "é"}'.encode("utf-16-le"), "the body seems to be utf-16-le, without a byte order mark; the"),
        (b'{"Name": "\xe9"}', "the body is not utf-8: byte 10"),
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
        (b'{"Nmae": "a"}', "; define it, or set IgnoreUndefinedAttributes: line 1 column 2"),
        (b'{"Address": [{"City": "{"},\n {"City": 1}]}', "Address[1].City: found the number 1, expected a text: line 2 column 3"),
        (b'{"Address": [{},\r\n [7]]}', "expected an object (Address): line 2 column 2"),
        (b'{"Name": {"a":1}, "Name": "b:"}', "the key 'Name' stands twice in one object"),
        (nested(201), "nested deeper than 200 levels: line 1 column "),
        (nested(1023), "the body is nested deeper than 200 levels"),
        (nested(1025), "the body is nested deeper than 200 levels"),
        (nested(100_000), "the body is nested deeper than 200 levels"),
        (b'{"x":' * 100_000, "the body is nested deeper than 200 levels"),
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_with_its_place(body: bytes, reason: str) -> None:
    assert reason in refusal(STRICT.to_business_object, body, CUSTOMER)


def test_nesting_and_keys_count_also_where_attributes_are_passed_over() -> None:
    assert LENIENT.to_business_object(nested(200), CUSTOMER).as_dict() == {}
    assert "nested deeper" in refusal(LENIENT.to_business_object, nested(201), CUSTOMER)
    twice = b'{"x": [{"b": 1, "a": {"b": 2}, "b": 3}]}'
    assert "the key 'b' stands twice" in refusal(LENIENT.to_business_object, twice, CUSTOMER)


def test_objects_nested_as_deeply_as_allowed_are_read_and_written() -> None:
    values: dict[str, Any] = {"City": "a"}
    for _ in range(198):
        values = {"City": "a", "Before": values}
    bo = BusinessObject(SAMPLES, "Customer", "Create", {"Home": values})
    assert STRICT.to_business_object(STRICT.to_body(bo), None) == bo


@rows(
    "body, hint, found",
    [
        (b'{"BusinessObject": "Note", "Verb": "Update", "Name": "a"}', CUSTOMER, ("Customer", "Create")),
        (b'{"Verb": "Update"}', Hint("Customer"), ("Customer", "Update")),
    ],
)
def test_the_rule_wins_over_the_keys(body: bytes, hint: Hint | None, found: tuple[str, str | None]) -> None:
    bo = STRICT.to_business_object(body, hint)
    assert (bo.type, bo.verb) == found


@rows("body", [b"{}", b'{"BusinessObject": null}', b'{"BusinessObject": "Custmer"}'])
def test_a_body_that_names_no_defined_object_is_unknown(body: bytes) -> None:
    with pytest.raises(UnknownBusinessObject):
        STRICT.to_business_object(body, None)


@rows("body", [b'{"BusinessObject": 7}', b'{"BusinessObject": "Note", "Verb": []}'])
def test_a_type_or_verb_that_is_no_text_is_malformed(body: bytes) -> None:
    assert "expected a text" in refusal(STRICT.to_business_object, body, None)


def test_the_body_names_its_type_unless_told_not_to() -> None:
    bo = BusinessObject(SAMPLES, "Note", "Create", {"Text": "a"})
    assert json.loads(STRICT.to_body(bo)) == {"BusinessObject": "Note", "Verb": "Create", "Text": "a"}
    assert LENIENT.to_body(bo) == b'{"Text":"a"}'


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


# --- members that are not called as their attributes ------------------------------------------


def test_the_application_specific_information_names_the_members() -> None:
    bo = BusinessObject(RENAMED, "Order", "Create", RENAMED_VALUES)
    assert json.loads(handler().to_body(bo)) == RENAMED_BODY
    assert list(json.loads(handler().to_body(bo))) == list(RENAMED_BODY)
    assert handler().to_business_object(json.dumps(RENAMED_BODY), ORDER) == bo


@rows(
    "info, name",
    [
        ("", "a"),
        ("name=b;elem_name=c;attr_name=d", "b"),
        ("attr_name=d;elem_name=c", "c"),
        ("ATTR_NAME = d e ", "d e"),
        ("name=;attr_name=d", "d"),
        ("name", "a"),
    ],
)
def test_the_first_tag_counts(info: str, name: str) -> None:
    assert name_in_json(Attribute("a", "String", app_specific_info=info)) == name


@rows(
    "body, reason",
    [
        ('{"Id": "1"}', "Order: Id: the attribute Id of Order is 'order-id' in JSON"),
        ('{"order-idd": "1"}', "order-idd: no such attribute in Order, did you mean 'order-id'?"),
        ('{"Meta": {}}', "Meta: holds a meta-object of Order, which is never part of a body"),
        ('{"meta": {}}', "meta: no such attribute in Order"),
        (
            '{"lines": [{}, {"at": {"City": "a"}}]}',
            "Line[1].Place.City: the attribute City of Place is 'town'",
        ),
        ('{"lines": [{}, {"at": {"town": 1}}]}', "Line[1].Place.City: found the number 1, expected a text"),
        ('{"lines": {}}', "Order: Line: found an object, expected a list of objects (Line)"),
        ('{"lines": [1]}', "Order: Line[0]: found the number 1, expected an object (Line)"),
        ('{"Home": []}', "Order: Home: found a list, expected an object (Place)"),
        ('{"Plain": {"text": "a"}}', "Order: Plain.text: no such attribute in Plain, did you mean 'Text'?"),
    ],
)
def test_a_wrong_member_is_refused_with_its_path(body: str, reason: str) -> None:
    assert reason in refusal(handler().to_business_object, body, ORDER)


def test_members_that_are_no_attribute_may_be_passed_over() -> None:
    body = '{"Id": "1", "order-id": "2", "Home": {"City": "a", "town": "b"}, "meta": 1}'
    bo = handler(IgnoreUndefinedAttributes=True).to_business_object(body, ORDER)
    assert bo.as_dict() == {"Id": "2", "Home": {"City": "b"}}


@rows("attributes", [("name=c", "name=c"), ("name=b", ""), ("", "attr_name=a")])
def test_two_attributes_cannot_have_one_name(attributes: tuple[str, str]) -> None:
    first, second = (f"String {info}" for info in attributes)
    definitions = known(define("Order", Child="Inner"), define("Inner", a=first, b=second))
    for reason in (
        refusal(handler(definitions).to_business_object, b"{}", ORDER),
        refusal(handler(definitions).to_body, BusinessObject(definitions, "Order")),
        refusal(JsonDecoder(JsonPlans(definitions)).decode, "Order", b"{}"),
    ):
        assert "Inner: a and b are both '" in reason


def test_objects_nested_without_end_are_named() -> None:
    count = 3000
    chain = [define(f"N{n}", c=f"N{n + 1}", x="String") for n in range(count)]
    definitions = known(*chain, define(f"N{count}", x="String name=y"))
    assert not JsonPlans(definitions).get("N0").is_plain
    for body, name in ((b'{"c": {"x": "a"}}', "N0"), (b'{"c": {"y": "a"}}', f"N{count - 1}")):
        found = handler(definitions).to_business_object(body, Hint(name))
        assert found.as_dict() == {"c": {"x": "a"}}


# --- character sets ---------------------------------------------------------------------------


@rows("charset", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_names_the_character_set(charset: str) -> None:
    body = '{"order-id": "Zoë €"}'.encode(charset)
    assert handler().to_business_object(body, ORDER)["Id"] == "Zoë €"


def test_the_character_set_is_an_option() -> None:
    one = handler(charset="ISO-8859-1")
    bo = one.to_business_object('{"order-id": "Zoë"}'.encode("ISO-8859-1"), ORDER)
    assert bo["Id"] == "Zoë"
    assert one.to_body(bo) == '{"order-id":"Zoë"}'.encode("ISO-8859-1")
    bo["Id"] = "€"
    assert "the character '\\u20ac' does not exist in ISO-8859-1" in refusal(one.to_body, bo)


@rows(
    "charset, body, reason",
    [
        *(
            ("", mark, "the body is empty")  # the mark alone
            for mark in (b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff")
        ),
        ("", b'{"order-id": "\xff"}', "the body is not utf-8: byte 14, line 1"),
        ("", '{"order-id"'.encode("utf-16")[:-1], "the body is not utf-16-le: byte 22"),
        ("utf-8", b'{"order-id": "\xff"}', "the body is not utf-8: byte 14"),
        ("utf-8", '{"order-id"}'.encode("utf-16"), "the body is not utf-8: byte 0"),
        ("ascii", '{"order-id": "ë"}'.encode(), "the body is not ascii: byte 14"),
        ("utf-16-le", b"{}\0\xd8", "the body is not utf-16-le: byte 2"),
        ("", b"\xff\xfe\xff\xfe{\0}\0", "the body is no JSON"),
    ],
)
def test_a_body_in_another_character_set_is_refused_with_its_byte(
    charset: str, body: bytes, reason: str
) -> None:
    assert reason in refusal(handler(charset=charset).to_business_object, body, ORDER)


# --- JSON Lines -----------------------------------------------------------------------------------

NOTE = Hint("Note", "Create")


def lines_handler(**options: Any) -> JsonLinesHandler:
    return make(JsonLinesHandler, **options)


def note(text: str, verb: str = "Create") -> BusinessObject:
    return BusinessObject(SAMPLES, "Note", verb, {"Text": text})


def refusal_of(body: bytes | str, hint: Hint | None = CUSTOMER, **options: Any) -> str:
    return refusal(lambda: list(lines_handler(**options).to_business_objects(body, hint)))


def test_each_line_is_an_object_of_its_own() -> None:
    body = b'{"Text": "a"}\n\n{"Verb": "Update", "Text": "b"}\r\n  {"Text": "c"}'
    found = list(lines_handler(split=True).to_business_objects(body, Hint("Note")))
    assert [(bo.verb, bo["Text"]) for bo in found] == [(None, "a"), ("Update", "b"), (None, "c")]


def test_lines_may_be_of_different_types() -> None:
    bos = [note("a\nb", "Update"), BusinessObject(SAMPLES, "Customer", "Create", {"Name": "c"})]
    one: SplittingHandler = lines_handler(split=True)
    assert (one.splits, lines_handler().splits) == (True, False)
    body = one.to_joint_body(bos)
    assert body == (
        b'{"BusinessObject":"Note","Verb":"Update","Text":"a\\nb"}\n'
        b'{"BusinessObject":"Customer","Verb":"Create","Name":"c"}\n'
    )
    assert list(one.to_business_objects(body, None)) == bos


def test_lines_are_read_one_after_the_other() -> None:
    body = b'{"Text": "a"}\n' * 20_000
    one = lines_handler(split=True)
    list(one.to_business_objects(b"{}", NOTE))
    tracemalloc.start()
    count = sum(bo["Text"] == "a" for bo in one.to_business_objects(body, NOTE))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 100_000


@rows(
    "body, reason",
    [
        (b" \n\n", "the body is empty, expected a JSON object in a line"),
        (b'{}\n\n{"Name": tru}', "record 2: the body is no JSON: "),
        (b'{}\n\n{"Name": tru}', ": line 3 column 10"),
        (b"{}\n[]\n", "record 2: the body is a list, expected a JSON object: line 2"),
        (b'{}\n{"Name": "a",\n"Rating": 1}\n', "record 2: the body is no JSON: "),
        (b'{}\n{"Name": 1}', "record 2: Customer: Name: found the number 1, expected a text: line 2"),
        (
            b'{}\n{"a": "line 1"}',
            "record 2: Customer: a: no such attribute in Customer; define it, or set IgnoreUndefinedAttributes: line 2 column 2",
        ),
        (
            b'\n{"Name": "a", "Name": "b"}',
            "record 1: the key 'Name' stands twice in one object: line 2 column 15",
        ),
        (b'{}\n{"Name": "\xff"}', "record 2: the body is not utf-8: byte 13, line 2"),
        (b'\xef\xbb\xbf{}\n{"Name": "\xff"}', "record 2: the body is not utf-8: byte 16, line 2"),
        (b"{}\n\xef\xbb\xbf{}", "record 2: the body is no JSON"),
        ('{}\n{"Name": "\ud800"}', "the body is no valid Unicode: character 13"),
        ('{}\n{"Name"'.encode("utf-16")[:-1], "the body is not utf-16-le: byte 20"),
    ],
)
def test_a_mistake_names_the_record_and_the_line(body: bytes | str, reason: str) -> None:
    assert reason in refusal_of(body)


def test_a_line_that_names_no_defined_object_is_unknown() -> None:
    with pytest.raises(UnknownBusinessObject, match=r"^record 2: no business object 'X' is defined: line 2$"):
        list(
            lines_handler().to_business_objects(b'{"BusinessObject": "Note"}\n{"BusinessObject": "X"}', None)
        )


def test_the_options_of_json_are_those_of_each_line(tmp_path: Path) -> None:
    schema = tmp_path / "note.json"
    schema.write_text('{"properties": {"Text": {"minLength": 2}}}')
    one = lines_handler(
        IgnoreUndefinedAttributes=True, write_type=False, schema=str(schema), charset="ISO-8859-1"
    )
    bo = one.to_business_object('{"Text": "Zoë", "x": 1}'.encode("ISO-8859-1"), NOTE)
    assert one.to_body(bo) == '{"Text":"Zoë"}\n'.encode("ISO-8859-1")
    reason = "breaks the schema note.json: $.Text: found a text, expected minLength: 2"
    found = refusal(list, one.to_business_objects(b'{"Text": "ab"}\n{"Text": "a"}', NOTE))
    assert found == f"record 2: the body {reason}: line 2"
    assert refusal(one.to_joint_body, [note("a")]).startswith("record 1: Note breaks the schema")


def test_the_options_are_those_of_json() -> None:
    ours = {(one.name, one.type, one.default) for one in JsonLinesHandler.options}
    json_options = {(one.name, one.type, one.default) for one in JsonHandler.options}
    assert ours == json_options | {("split", bool, False)}
