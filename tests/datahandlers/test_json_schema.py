"""JSON bodies that are checked against a JSON Schema."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import Draft202012Validator

from connector.businessobjects.datahandler import DataHandler, Hint
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.json_schema import JsonSchema
from connector.datahandlers.json_handler import JsonHandler
from connector.errors import MalformedData
from connector.testing.datahandlers import DataHandlerSuite, Sample, sample_definitions

DEFINITIONS = sample_definitions()
CUSTOMER = Hint("Customer", "Create")
SCHEMA = {
    "type": "object",
    "properties": {
        "CustomerId": {"type": "string", "pattern": "^(C|$)"},
        "Name": {"$ref": "names.json#/$defs/name"},
        "Rating": {"type": ["integer", "null", "string"], "maximum": 2000000000},
        "Home": {"$ref": "places/address.json"},
        "Address": {"items": {"$ref": "places/address.json"}, "maxItems": 3, "uniqueItems": True},
    },
    "required": ["CustomerId"],
}
NAMES = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"name": {"maxLength": 10}}}
ADDRESS = {
    "properties": {"City": {"$ref": "../names.json#/$defs/name"}, "Before": {"$ref": "#"}, "AddressID": True},
    "additionalProperties": False,
}


def write(directory: Path, **files: Any) -> Path:
    """Writes the files, ``a__b`` as a/b.json. Returns the path of the first."""
    paths = []
    for name, contents in files.items():
        path = directory / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents if isinstance(contents, str) else json.dumps(contents))
        paths.append(path)
    return paths[0]


def schema_of(directory: Path, **files: Any) -> JsonSchema:
    return JsonSchema(write(directory, **files))


def refusal(schema: JsonSchema, document: Any) -> str:
    with pytest.raises(MalformedData) as refused:
        schema.check(document, "the body")
    return str(refused.value)


def handler(schema: Path | str, **options: Any) -> JsonHandler:
    defaults = {one.name: one.default for one in JsonHandler.options}
    return JsonHandler({**defaults, "schema": str(schema), **options}, DEFINITIONS)


@pytest.fixture
def customer(tmp_path: Path) -> Path:
    return write(tmp_path, customer=SCHEMA, names=NAMES, places__address=ADDRESS)


class TestSchema(DataHandlerSuite):
    @pytest.fixture
    def handler(self, customer: Path) -> DataHandler:
        return handler(customer)

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        values = {
            "CustomerId": "C-1",
            "Rating": 7,
            "Address": [{"City": "Oslo"}],
            "Notes": "x",
        }
        return [BusinessObject(DEFINITIONS, "Customer", "Update", values)]

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return [
            Sample(b'{"CustomerId": "C1", "Rating": null}', CUSTOMER, {"CustomerId": "C1"}),
            Sample(
                b'{"CustomerId": "C1", "Home": {"City": "a", "Before": {"City": "b"}}}',
                CUSTOMER,
                {"CustomerId": "C1", "Home": {"City": "a", "Before": {"City": "b"}}},
            ),
        ]

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        return [
            b"{}",
            b'{"CustomerId": "D"}',
            b'{"CustomerId": "C", "Name": "12345678901"}',
            b"",
            b"[]",
            b"{",
        ]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "$: found an object without 'CustomerId', expected required: [\"CustomerId\"]"),
        ({"CustomerId": "geheim"}, '$.CustomerId: found a text, expected pattern: "^(C|$)"'),
        ({"CustomerId": 271828}, '$.CustomerId: found a number, expected type: "string"'),
        ({"CustomerId": None}, '$.CustomerId: found null, expected type: "string"'),
        ({"CustomerId": True}, '$.CustomerId: found true or false, expected type: "string"'),
        ({"CustomerId": []}, '$.CustomerId: found a list, expected type: "string"'),
        ({"CustomerId": "C", "Name": "geheim geheim"}, "$.Name: found a text, expected maxLength: 10"),
        (
            {"CustomerId": "C", "Address": [{}, {"City": "geheim geheim"}]},
            "$.Address[1].City: found a text, expected maxLength: 10",
        ),
        ({"CustomerId": "C", "Address": [{}] * 4}, "$.Address: found a list, expected maxItems: 3"),
        (
            {"CustomerId": "C", "Address": [{"AddressID": 1}, {"AddressID": 1.0}]},
            "$.Address: found a list, expected uniqueItems: true",
        ),
        (
            {"CustomerId": "C", "Home": {"Before": {"Street": "geheim"}}},
            "$.Home.Before: found an object with 'Street', expected additionalProperties: false",
        ),
    ],
)
def test_a_broken_rule_is_named_with_its_path_and_no_value(
    customer: Path, document: dict[str, Any], reason: str
) -> None:
    text = refusal(JsonSchema(customer), document)
    assert text == f"the body breaks the schema customer.json: {reason}"
    assert "geheim" not in text
    with pytest.raises(MalformedData) as refused:
        handler(customer).to_business_object(json.dumps(document), CUSTOMER)
    assert str(refused.value) == text


def test_a_body_is_checked_before_it_is_read_and_before_it_is_sent(customer: Path) -> None:
    one = handler(customer, write_type=False)
    with pytest.raises(MalformedData, match=r"breaks the schema customer.json: \$.CustomerId"):
        one.to_business_object(b'{"CustomerId": 1}', CUSTOMER)
    with pytest.raises(MalformedData, match="Customer: Rating: found the text 'a', expected an integer"):
        one.to_business_object(b'{"CustomerId": "C", "Rating": "a"}', CUSTOMER)
    bo = BusinessObject(DEFINITIONS, "Customer", "Create", {"CustomerId": "C", "Rating": 2100000000})
    with pytest.raises(MalformedData) as refused:
        one.to_body(bo)
    assert str(refused.value) == (
        "Customer breaks the schema customer.json: $.Rating: found a number, expected maximum: 2000000000"
    )


def test_the_document_is_checked_as_it_is_sent(tmp_path: Path) -> None:
    path = write(tmp_path, note={"properties": {"Text": True}, "additionalProperties": False})
    bo = BusinessObject(DEFINITIONS, "Note", "Create", {"Text": "a"})
    assert handler(path, write_type=False).to_body(bo) == b'{"Text":"a"}'
    with pytest.raises(MalformedData, match="found an object with 'BusinessObject'"):
        handler(path).to_body(bo)


def test_a_body_in_another_character_set_is_checked(customer: Path) -> None:
    body = '{"CustomerId": "D"}'.encode("utf-16")
    with pytest.raises(MalformedData, match="breaks the schema"):
        handler(customer).to_business_object(body, CUSTOMER)


def test_the_library_is_loaded_only_for_the_option() -> None:
    program = (
        "import sys; from connector.datahandlers.json_handler import JsonHandler; "
        "from connector.testing.datahandlers import sample_definitions; "
        "JsonHandler({**{o.name: o.default for o in JsonHandler.options}}, sample_definitions()); "
        "sys.exit(any(name.startswith(('jsonschema.', 'referencing')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- alternatives -----------------------------------------------------------------------------


def test_the_best_mistake_of_alternatives_is_named(tmp_path: Path) -> None:
    schema = schema_of(
        tmp_path,
        a={"oneOf": [{"type": "object", "required": ["a"]}, {"type": "array"}], "not": {"required": ["b"]}},
        b={"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"type": "array"}]},
    )
    assert "$: found an object without 'a', expected required: [\"a\"]" in refusal(schema, {})
    assert "$: found an object, expected not:" in refusal(schema, {"a": 1, "b": 2})
    assert '$.a: found a number, expected type: "string"' in refusal(
        JsonSchema(tmp_path / "b.json"), {"a": 1}
    )
    several = schema_of(tmp_path, c={"properties": {"a": {"oneOf": [{"minimum": 1}, {"maximum": 5}]}}})
    several.check({"a": 7}, "the body")
    assert "$.a: found a number, expected oneOf: " in refusal(several, {"a": 3})
    nothing = schema_of(tmp_path, d={"properties": {"a": False}})
    assert "$.a: found a text, expected nothing here" in refusal(nothing, {"a": "x"})
    assert "found an object, expected nothing here" in refusal(schema_of(tmp_path, e=False), {})


@pytest.mark.parametrize(
    ("items", "is_unique"),
    [
        ([1, 1.0], False),
        ([1, True], True),
        ([0, False, "0", None, [], {}], True),
        ([[1, True], [1, 1]], True),
        ([{"a": 1, "b": [0]}, {"b": [0.0], "a": 1.0}], False),
        ([{"a": 1}, {"a": True}], True),
        ([{}, []], True),
        ([{}, {}], False),
        (["a", ["a"]], True),
    ],
)
def test_equal_elements_are_found(tmp_path: Path, items: list[Any], is_unique: bool) -> None:
    schema = schema_of(tmp_path, a={"uniqueItems": True}, b={"uniqueItems": False})
    assert Draft202012Validator({"uniqueItems": True}).is_valid(items) == is_unique
    if is_unique:
        schema.check(items, "the body")
    else:
        assert "uniqueItems: true" in refusal(schema, items)
    JsonSchema(tmp_path / "b.json").check(items, "the body")


def test_a_hostile_body_takes_little_time_and_memory(tmp_path: Path) -> None:
    schema = schema_of(
        tmp_path,
        root={
            "properties": {
                "unique": {"uniqueItems": True},
                "any": {"anyOf": [{"items": {"type": "object"}}, {"items": {"type": "array"}}]},
                "one": {"oneOf": [{"items": {"type": "object"}}, {"$ref": "other.json"}]},
                "all": {"items": {"type": "object"}},
            }
        },
        other={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "anyOf": [{"items": {"type": "array"}}],
        },
    )
    documents = [{name: [1] * 200_000} for name in ("any", "one", "all")]
    documents.append({"unique": [{"a": n} if n % 2 else n for n in range(200_000)] + [1.0, {"a": 1}, 1]})
    for document in documents:
        begun = time.process_time()
        tracemalloc.start()
        refusal(schema, document)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert time.process_time() - begun < 10
        assert peak < 100_000_000


def test_a_body_nested_too_deeply_for_the_rules_is_refused(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, a={"properties": {"a": {"$ref": "#"}}})
    document: dict[str, Any] = {}
    for _ in range(2000):
        document = {"a": document}
    assert refusal(schema, document) == "the body is nested too deeply for the schema a.json"


def test_a_huge_name_or_rule_is_not_shown_whole(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, a={"additionalProperties": {"enum": ["x" * 100_000]}})
    assert len(refusal(schema, {"y" * 100_000: 1})) < 500


# --- drafts and files -------------------------------------------------------------------------


def test_the_schema_names_its_draft(tmp_path: Path) -> None:
    items = {"items": [{"type": "string"}]}  # a list of schemas until 2019-09
    for draft in ("http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema"):
        assert "$[0]" in refusal(schema_of(tmp_path, old={"$schema": draft, **items}), [1])
    with pytest.raises(ValueError, match="is no JSON Schema"):
        schema_of(tmp_path, new=items)
    with pytest.raises(ValueError, match=r"found the .schema 'urn:x', expected a draft such as"):
        schema_of(tmp_path, odd={"$schema": "urn:x"})
    with pytest.raises(ValueError, match=r"found the .schema 7, expected a draft"):
        schema_of(tmp_path, odd={"$schema": 7})
    with pytest.raises(ValueError, match=r"found the .schemas .*2020-12.* and .*draft-07.*, expected one"):
        schema_of(tmp_path, a={"$ref": "b.json"}, b={"$schema": "http://json-schema.org/draft-07/schema#"})


def test_an_address_on_the_web_stands_for_the_place_of_the_file(tmp_path: Path) -> None:
    schema = schema_of(
        tmp_path,
        order={
            "$id": "https://example.com/schemas/order.json",
            "properties": {
                "Home": {"$ref": "places/address.json"},
                "Name": {"$ref": "#name"},
                "x": {"$ref": "/s"},
            },
            "$defs": {"n": {"$anchor": "name", "minLength": 1}, "s": {"$id": "/s", "type": "string"}},
        },
        places__address={
            "$id": "https://example.com/schemas/places/address.json",
            "properties": {"City": {"$ref": "../names.json"}},
        },
        names={"type": "string"},
    )
    assert "$.Home.City: found a number" in refusal(schema, {"Home": {"City": 1}})
    assert "$.Name: found a text, expected minLength: 1" in refusal(schema, {"Name": ""})
    assert '$.x: found a number, expected type: "string"' in refusal(schema, {"x": 1})


def test_references_may_run_in_a_circle(tmp_path: Path) -> None:
    schema = schema_of(
        tmp_path,
        a={"properties": {"b": {"$ref": "b.json"}}, "type": "object"},
        b={"properties": {"a": {"$ref": "a.json#"}}, "type": "object"},
    )
    assert '$.b.a.b: found a number, expected type: "object"' in refusal(schema, {"b": {"a": {"b": 1}}})
    with pytest.raises(ValueError, match="refers to itself without end"):
        schema_of(tmp_path, c={"$ref": "#"})


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("https://example.com/other.json", "because nothing is fetched"),
        ("http://example.com/other.json#/a", "because nothing is fetched"),
        ("https://json-schema.org/draft/2020-12/schema", "because nothing is fetched"),
        ("//example.com/other.json", "because nothing is fetched"),
        ("ftp://example.com/other.json", "because nothing is fetched"),
        ("urn:example:other", "because nothing is fetched"),
        ("file://example.com/other.json", "because nothing is fetched"),
        ("../secret.json", "secret.json is outside of the directory of the schema"),
        ("places/../../secret.json", "outside of the directory"),
        ("..%2Fsecret.json", "outside of the directory"),
        ("link.json", "outside of the directory"),
        ("file:///etc/passwd", "/etc/passwd is outside of the directory"),
        ("missing.json", "missing.json: No such file or directory"),
        ("broken.json", "broken.json is no JSON"),
        ("list.json", "list.json is no JSON Schema: found no object"),
        ("wrong.json", "wrong.json is no JSON Schema: $.type: "),
        ("places", "Is a directory"),
        ("#/$defs/missing", "leads to nothing"),
        ("#missing", "leads to nothing"),
        ("empty.json#/a", "leads to nothing"),
    ],
)
@pytest.mark.parametrize("key", ["$ref", "$dynamicRef"])
def test_a_reference_to_another_place_is_refused_at_the_start(
    tmp_path: Path, reference: str, reason: str, key: str
) -> None:
    write(tmp_path, secret={})
    directory = tmp_path / "schemas"
    path = write(
        directory,
        order={"properties": {"a": {"items": {"allOf": [{key: reference}]}}}},
        places__address={},
        broken="{",
        list=[],
        wrong={"type": "text"},
        empty={},
    )
    (directory / "link.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ValueError, match="the reference") as refused:
        handler(path)
    assert reason in str(refused.value)
    assert "order.json" in str(refused.value)


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ("", "order.json is no JSON"),
        ("[]", "order.json is no JSON Schema: found no object"),
        ({"type": "text"}, "order.json is no JSON Schema: $.type: "),
        ({"properties": {"a": {"pattern": "("}}}, "order.json is no JSON Schema: $.properties.a.pattern: "),
        ({"patternProperties": {"[": True}}, "order.json is no JSON Schema: $.patternProperties"),
        ({"multipleOf": 0}, "order.json is no JSON Schema: $.multipleOf: "),
    ],
)
def test_a_file_that_is_no_schema_is_refused_at_the_start(tmp_path: Path, contents: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="is no JSON") as refused:
        handler(write(tmp_path, order=contents))
    assert reason in str(refused.value)


def test_a_missing_file_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.json: No such file or directory"):
        handler(tmp_path / "none.json")


def test_words_in_examples_are_no_references(tmp_path: Path) -> None:
    schema_of(
        tmp_path,
        a={"examples": [{"$ref": "x"}], "const": {"$ref": "x"}, "properties": {"$ref": {"type": "string"}}},
    )
