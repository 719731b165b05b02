"""Drafts from XML Schema and JSON Schema."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connector.authoring.drafting.draft import Draft, DraftAttribute
from connector.authoring.drafting.samples import format_of
from connector.businessobjects.instance import finish
from connector.datahandlers.json_handler import JsonHandler
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from tests.authoring.drafting.drafts import defaults, definitions, draft
from tests.authoring.drafting.drafts import schema_shapes as shapes
from tests.tables import rows


def xsd(*parts: str) -> str:
    return (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" targetNamespace="urn:t"'
        ' elementFormDefault="qualified">' + "".join(parts) + "</xs:schema>"
    )


def order(*parts: str, more: str = "") -> str:
    """A schema with the element Order, of a complex type of these parts, and more declarations."""
    element = f'<xs:element name="Order"><xs:complexType>{"".join(parts)}</xs:complexType></xs:element>'
    return xsd(element, more)


def sequence(*parts: str) -> str:
    return f"<xs:sequence>{''.join(parts)}</xs:sequence>"


def groups(number: int, times: int) -> str:
    """A schema whose element is of groups, each of which is ``times`` the next one."""
    one = '<xs:group name="g{}"><xs:sequence>{}</xs:sequence></xs:group>'
    more = "".join(one.format(n, f'<xs:group ref="t:g{n + 1}"/>' * times) for n in range(number))
    return order('<xs:group ref="t:g0"/>', more=f'{more}<xs:group name="g{number}"/>')


def json_draft(schema: dict[str, Any], name: str = "Order") -> Draft:
    return draft(json.dumps(schema), "json-schema", name)


def required(made: Draft, name: str = "Order") -> list[str]:
    return [one.name for one in attributes_of(made, name).values() if one.required]


def attributes_of(made: Draft, name: str = "Order") -> dict[str, DraftAttribute]:
    return next(one for one in made.objects if one.name == name).attributes


BUILT_IN = {
    "String": "string time base64Binary anyType",
    "Integer": "int unsignedByte",
    "Decimal": "integer unsignedInt decimal",
    "Double": "double",
    "Float": "float",
    "Boolean": "boolean",
    "Date": "dateTime",
}
COMMENTS = {
    **dict.fromkeys(("double", "float"), "without INF and NaN"),
    "anyType": "of any type in the schema",
}


@rows("type_name, attribute", [(one, type_) for type_, all_ in BUILT_IN.items() for one in all_.split()])
def test_the_attribute_type_of_a_built_in_type(type_name: str, attribute: str) -> None:
    made = attributes_of(draft(order(sequence(f'<xs:element name="a" type="xs:{type_name}"/>')), "xsd"))["a"]
    assert (made.type, made.comment) == (attribute, COMMENTS.get(type_name, ""))


@rows(
    "base, facets, expected",
    [
        ("integer", "minInclusive=0 maxInclusive=100", {"type": "Integer"}),
        ("integer", "totalDigits=9", {"type": "Integer"}),
        ("integer", "totalDigits=10", {"type": "Decimal", "digits": 10, "scale": 0}),
        ("integer", "maxInclusive=100", {"type": "Decimal"}),
        ("decimal", "totalDigits=18 fractionDigits=5", {"type": "Decimal", "digits": 18, "scale": 5}),
        ("decimal", "pattern=[0-9]+", {"type": "String"}),
        ("int", "totalDigits=3", {"digits": 0, "scale": None}),
        ("string", "length=3", {"max_length": 3}),
        ("string", "enumeration=a maxLength=x", {"max_length": 0}),
        ("int", "maxLength=3", {"max_length": 0}),
        ("hexBinary", "length=3", {"max_length": 0}),  # bytes, so six characters
        ("base64Binary", "maxLength=3", {"max_length": 0}),
    ],
)
def test_facets_bound_numbers_and_texts(base: str, facets: str, expected: dict[str, Any]) -> None:
    pairs = (facet.partition("=") for facet in facets.split())
    texts = "".join(f'<xs:{name} value="{value}"/>' for name, _, value in pairs)
    inner = f'<xs:simpleType><xs:restriction base="xs:{base}">{texts}</xs:restriction></xs:simpleType>'
    made = attributes_of(draft(order(sequence(f'<xs:element name="a">{inner}</xs:element>')), "xsd"))["a"]
    assert {name: getattr(made, name) for name in expected} == expected


def test_the_facet_of_the_nearest_type_counts() -> None:
    types = "".join(
        f'<xs:simpleType name="{name}"><xs:restriction base="{base}"><xs:maxLength value="{length}"/>'
        "</xs:restriction></xs:simpleType>"
        for name, base, length in (("Code", "t:Text", 12), ("Text", "xs:token", 99))
    )
    made = draft(order(sequence('<xs:element name="a" type="t:Code"/>'), more=types), "xsd")
    assert attributes_of(made)["a"].max_length == 12


def test_xml_attributes_and_names_that_are_no_names_get_tags(tmp_path: Path) -> None:
    made = draft(
        order(
            sequence(
                '<xs:element name="order-id" type="xs:int"/>', '<xs:element name="lang" type="xs:string"/>'
            ),
            '<xs:attribute name="lang" type="xs:language" use="required"/>'
            '<xs:attribute name="x.y"/><xs:attribute name="old" use="prohibited"/>'
            '<xs:attribute ref="xml:lang"/>'
            '<xs:attribute ref="t:common"/>',
            more='<xs:attribute name="common" type="xs:int"/>',
        ),
        "xsd",
    )
    assert shapes(made)["Order"] == {
        "order_id": "Integer elem_name=order-id",
        "lang": "String",
        "lang_2": "String type=attribute;attr_name=lang;name=lang_2",
        "x_y": "String type=attribute;attr_name=x.y",
        "lang_3": "String type=attribute;attr_name=lang;name=lang_3;ns=http://www.w3.org/XML/1998/namespace",
        "common": "Integer type=attribute;ns=urn:t",
    }
    assert "lang_2" in required(made)
    assert "x_y" not in required(made)
    definitions(made, tmp_path)


def test_types_that_contain_themselves_are_defined_once(tmp_path: Path) -> None:
    schema = xsd(
        '<xs:element name="Order" type="t:Part"/><xs:complexType name="Part"><xs:sequence>'
        '<xs:element name="Id" type="xs:int"/><xs:element name="Part" type="t:Part" '
        'minOccurs="0" maxOccurs="5"/>'
        '<xs:element name="Id" type="xs:int"/><xs:element name="Part" type="t:Part"/>'
        "</xs:sequence></xs:complexType>"
    )
    made = draft(schema, "xsd")
    assert shapes(made) == {"Order": {"Id": "Integer n", "Part": "Order n"}}
    said = "Order.Id: the order among each other and the elements between; they are written name by name"
    assert made.left_out == [said]
    definitions(made, tmp_path)


def test_what_is_mixed_or_not_defined_is_told() -> None:
    code = (
        '<xs:element name="Code"><xs:complexType><xs:simpleContent><xs:restriction base="xs:string">'
        '<xs:maxLength value="3"/></xs:restriction></xs:simpleContent></xs:complexType></xs:element>'
    )
    schema = order(sequence(code, '<xs:element ref="t:gone"/><xs:element name="odd" type="t:Odd"/>'))
    made = draft(schema.replace("<xs:complexType>", '<xs:complexType mixed="true">', 1), "xsd")
    assert made.left_out == [
        "Order.text: text between elements",
        "Order.gone: the schema does not define this element",
    ]
    assert shapes(made) == {"Order": {"Code": "String", "odd": "String"}}
    assert attributes_of(made)["Code"].max_length == 3
    assert attributes_of(made)["odd"].comment == "the schema does not define the type Odd"


def test_the_root_is_the_element_of_the_name_else_the_only_one() -> None:
    two = xsd(
        *(
            f'<xs:element name="{name}"><xs:complexType><xs:sequence>'
            f'<xs:element name="{name}Id" type="xs:int"/>'
            "</xs:sequence></xs:complexType></xs:element>"
            for name in ("Order", "Invoice")
        )
    )
    assert shapes(draft(two, "xsd", "Invoice")) == {"Invoice": {"InvoiceId": "Integer"}}
    with pytest.raises(MalformedData, match="several root elements, name the object like one: Order, Inv"):
        draft(two, "xsd", "Bill")
    part = '<xs:complexType name="P"><xs:attribute name="a"/></xs:complexType>'
    made = draft(order(sequence('<xs:element name="p" type="t:P"/>'), more=part), "xsd", "Bestellung")
    assert list(shapes(made)) == ["Bestellung", "Bestellung_P"]
    assert "the tag elem_name says that the root element Order is a Bestellung" in made.checks
    assert made.top.tags == ["ns=urn:t", "elem_name=Order", "verb=false"]
    only_type = xsd('<xs:complexType name="T"><xs:attribute name="a"/></xs:complexType>')
    assert shapes(draft(only_type, "xsd")) == {"Order": {"a": "String type=attribute"}}


def test_local_schema_files_are_read_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "types").mkdir()
    main = tmp_path / "main.xsd"
    main.write_text(
        xsd(
            '<xs:include schemaLocation="types/address.xsd"/><xs:include schemaLocation="main.xsd"/>'
            '<xs:import namespace="u" schemaLocation="http://127.0.0.1:1/x.xsd"/><xs:import namespace="v"/>'
            '<xs:element name="Order"><xs:complexType><xs:sequence><xs:element name="a" type="t:Address"/>'
            "</xs:sequence></xs:complexType></xs:element>"
        )
    )
    address = tmp_path / "types/address.xsd"
    address.write_text(
        xsd(
            '<xs:include schemaLocation="../main.xsd"/><xs:complexType name="Address"><xs:sequence>'
            '<xs:element name="City" type="xs:string"/></xs:sequence></xs:complexType>'
        )
    )
    made = draft(main.read_text(), "xsd", path=main)
    assert shapes(made)["Order_Address"] == {"City": "String"}
    assert made.left_out == ["main.xsd:1: 'http://127.0.0.1:1/x.xsd': only local schema files are read"]
    address.write_text("<a>")
    with pytest.raises(MalformedData, match=r"main\.xsd:1: address\.xsd is no XML"):
        draft(main.read_text(), "xsd", path=main)
    address.unlink()
    with pytest.raises(MalformedData, match=r"main\.xsd:1: address\.xsd cannot be read: No such file or "):
        draft(main.read_text(), "xsd", path=main)


@rows(
    "schema, error",
    [
        ("<a/>", "the root element is a, expected xs:schema: line 1"),
        ("{", "the body is no XML"),
        (xsd(), "the schema has no element"),
        (xsd('<xs:element name="Order" type="xs:int"/>'), "Order holds a single value, expected elements: line 1"),
        (order('<xs:group ref="t:G"/>', more='<xs:group name="G"><xs:group ref="t:G"/></xs:group>'), "group G contains itself: line 1"),
        (
            order(sequence('<xs:element name="a" type="t:S"/>'), more='<xs:simpleType name="S"><xs:restriction base="t:S"/></xs:simpleType>'),
            "a simple type is based on itself: line 1",
        ),
        (groups(40, 2), "more than 200000 declarations: line 1"),
        (groups(5000, 1), "the groups or types of the schema are nested too deeply"),
    ],
)  # fmt: skip
def test_a_schema_that_describes_no_object_is_an_error(schema: str, error: str) -> None:
    with pytest.raises(MalformedData) as raised:
        draft(schema, "xsd")
    assert str(raised.value).startswith(error)


# --- JSON Schema -----------------------------------------------------------------------------

ORDER_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["orderId", "lines"],
    "properties": {
        "orderId": {"type": "string", "maxLength": 12},
        "order-date": {"type": "string", "format": "date"},
        "total": {"type": ["number", "null"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 9},
        "big": {"type": "integer", "format": "int64"},
        "some": {"type": "integer"},
        "paid": {"type": "boolean"},
        "state": {"enum": ["open", "closed"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "shipTo": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/address"}]},
        "billTo": {"allOf": [{"$ref": "#/$defs/address"}], "description": "x"},
        "inner": {"properties": {"x": {"const": 1}}},
    },
    "$defs": {
        "line": {
            "type": "object",
            "properties": {"article": {"type": "string"}, "part": {"$ref": "#/$defs/line"}},
        },
        "address": {"allOf": [{"$ref": "#/$defs/place"}, {"properties": {"street": {"type": "string"}}}]},
        "place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_a_json_schema_becomes_definitions_that_its_documents_fit(tmp_path: Path) -> None:
    made = json_draft(ORDER_SCHEMA)
    assert shapes(made) == {
        "Order": {
            "orderId": "String",
            "order_date": "Date name=order-date",
            "total": "Decimal",
            "count": "Integer",
            "big": "Decimal",
            "some": "Integer",
            "paid": "Boolean",
            "state": "String",
            "lines": "Order_line n",
            "shipTo": "Order_address",
            "billTo": "Order_address",
            "inner": "Order_inner",
        },
        "Order_line": {"article": "String", "part": "Order_line"},
        "Order_address": {"street": "String", "city": "String"},
        "Order_inner": {"x": "Integer"},
    }
    assert (required(made), required(made, "Order_address")) == (["orderId", "lines"], ["city"])
    assert attributes_of(made)["orderId"].max_length == 12
    assert attributes_of(made)["some"].comment == "the schema gives no bounds; Integer has 32 bits"
    assert made.left_out == []
    handler = JsonHandler(defaults(JsonHandler), definitions(made, tmp_path))
    lines = [{"article": "x", "part": {"article": "y"}}]
    body = json.dumps({"orderId": "1", "lines": lines, "billTo": {"city": "Ulm"}})
    bo = handler.to_business_object(body, Hint("Order", "Create"))
    finish(bo)
    assert bo["lines"][0]["part"]["article"] == "y"


def test_what_a_json_schema_has_and_no_attribute_can_hold_is_left_out(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}},
            "rows": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
            "pair": {"type": "array", "items": [{"type": "string"}]},
            "anything": True,
            "nothing": {},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "gone": {"anyOf": [{"$ref": "#/$defs/round"}, {"type": "object"}]},
            "both": {"type": ["string", "integer"]},
            "mixed": {"enum": [1, "a"]},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "far": {"$ref": "other.json#/x"},
            "lost": {"$ref": "#/$defs/gone"},
            "round": {"$ref": "#/$defs/round"},
            "file": {"type": "file"},
            "gaps": {"type": "array", "items": {"type": ["string", "null"]}},
            "anchor": {"$ref": "#gone"},
        },
        "patternProperties": {"^x-": {"type": "string"}},
        "$defs": {"round": {"$ref": "#/$defs/round"}},
    }
    made = json_draft(schema)
    assert [text.removeprefix("Order.") for text in made.left_out] == [
        "rows: a list of lists",
        "pair: a list whose elements differ by their place",
        "anything: any value fits",
        "nothing: a value of any type",
        "either: one of 2 schemas",
        "gone: one of 2 schemas",
        "both: a value of several types: string, integer",
        "mixed: a value of any type",
        "map: an object without properties",
        "far: the reference 'other.json#/x' leads out of the file",
        "lost: the reference '#/$defs/gone' leads nowhere",
        "round: references in a circle",
        "file: the type 'file'",
        "gaps: a list with null",
        "anchor: the reference '#gone' leads nowhere",
        "patternProperties: members of any name",
    ]
    assert shapes(made) == {"Order": {"id": "String", "tags": "String n"}}
    assert attributes_of(made)["tags"].max_length == 5
    definitions(made, tmp_path)


@rows(
    "schema, error",
    [
        ({}, "the schema describes no object: a value of any type"),
        ({"type": "string"}, "the schema describes no object with properties"),
        ({"type": "object"}, "the schema describes no object with properties"),
        ({"$ref": "http://x"}, "the schema describes no object: the reference 'http://x' leads out of the file"),
    ],
)  # fmt: skip
def test_a_json_schema_of_no_object_is_an_error(schema: dict[str, Any], error: str) -> None:
    with pytest.raises(MalformedData, match=f"^{error}$"):
        json_draft(schema)


MANY: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-06/schema#",
    "oneOf": [{"$ref": "#/definitions/Patient"}, {"$ref": "#/definitions/Bundle"}],
    "definitions": {
        "Patient": {
            "description": "a person",
            "properties": {
                "resourceType": {"const": "Patient"},
                "_birthDate": {"$ref": "#/definitions/Element"},
                "contained": {"type": "array", "items": {"$ref": "#/definitions/ResourceList"}},
                "given": {"type": "array", "items": {"$ref": "#/definitions/string"}},
                "contact": {"$ref": "#/definitions/Contact"},
            },
            "additionalProperties": False,
            "required": ["resourceType"],
        },
        "Element": {
            "properties": {
                "id": {"type": "string"},
                "extension": {"type": "array", "items": {"$ref": "#/definitions/Element"}},
            }
        },
        "string": {"type": "string"},
        "Bundle": {"properties": {"resourceType": {"const": "Bundle"}}},
        "ResourceList": {"oneOf": [{"$ref": "#/definitions/Patient"}] * 30},
        "Contact": {
            "required": ["kind"],
            "properties": {"kind": {"type": "string"}},
            "anyOf": [{"$ref": "#/definitions/Phone"}, {"properties": {"mail": {"type": "string"}}}],
        },
        "Phone": {"properties": {"kind": {"const": 1}, "number": {"type": "string"}}, "required": ["number"]},
    },
}


def test_a_json_schema_of_many_definitions_drafts_the_one_of_the_name(tmp_path: Path) -> None:
    made = json_draft(MANY, "Patient")
    assert shapes(made) == {
        "Patient": {
            "resourceType": "String",
            "_birthDate": "Patient_Element",
            "given": "String n",
            "contact": "Patient_Contact",
        },
        "Patient_Element": {"id": "String", "extension": "Patient_Element n"},
        "Patient_Contact": {"kind": "String", "number": "String", "mail": "String"},
    }
    needed = {name: required(made, name) for name in shapes(made)}
    assert needed == {"Patient": ["resourceType"], "Patient_Element": [], "Patient_Contact": ["kind"]}
    assert made.left_out == [
        "Patient.contained: one of 30 schemas",
        "Patient_Contact.kind: another type in another schema of a choice",
    ]
    definitions(made, tmp_path)
    assert list(shapes(json_draft(MANY, "Phone"))) == ["Phone"]
    titled = {**MANY, "title": "Bundle", "oneOf": MANY["oneOf"][:1]}
    whole = json_draft(titled, "Bundle")
    assert "given" in shapes(whole)["Bundle"]
    few = json_draft(MANY, "Any")  # a choice of two objects
    assert list(shapes(few)["Any"]) == ["resourceType", "_birthDate", "given", "contact"]


WITH_ID = {"properties": {"id": {"type": "string"}}}
SWAGGER = {"swagger": "2.0"}


@rows(
    "document",
    [
        {"$defs": {"Order": WITH_ID, "Other": {}}},
        {"openapi": "3.1.0", "components": {"schemas": {"Order": WITH_ID}}},
        {"definitions": {"Order": {"allOf": [{"$ref": "#o"}]}, "o": {"$anchor": "o", **WITH_ID}}, **SWAGGER},
    ],
)
def test_a_definition_of_the_name_is_found_in_each_place(document: dict[str, Any]) -> None:
    content = json.dumps(document).encode()
    assert format_of(Path("api.json"), content) == "json-schema"
    assert shapes(draft(content, "json-schema")) == {"Order": {"id": "String"}}
    with pytest.raises(MalformedData, match="; name the object like one of its definitions: Order"):
        draft(content, "json-schema", "Missing")


@rows(
    "described",
    [
        {"type": ["string", "null"]},
        {"type": "string", "nullable": True},
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]},
        {"enum": ["a", None]},
        {"$ref": "#/$defs/maybe"},
    ],
)
def test_what_may_be_null_is_not_required(described: dict[str, Any], tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": described},
        "required": ["id", "note"],
        "$defs": {"text": {"type": "string"}, "maybe": {"type": ["string", "null"]}},
    }
    made = json_draft(schema)
    assert [one.required for one in attributes_of(made).values()] == [True, False]
    assert attributes_of(made)["note"].comment == "required in the schema, where null is a value"
    handler = JsonHandler(defaults(JsonHandler), definitions(made, tmp_path))
    bo = handler.to_business_object('{"id": 1, "note": null}', Hint("Order", "Create"))
    finish(bo)
    assert bo["note"] is None


def test_parts_that_cannot_be_followed_are_left_out_once() -> None:
    schema = {"allOf": [{"$ref": "#/gone"}, {"properties": {"a": {"type": "string"}}}]}
    assert json_draft(schema).left_out == ["a part of allOf: the reference '#/gone' leads nowhere"]


WORDS = """
type properties items $ref allOf oneOf enum required a object array #/a # string integer maxLength
minimum format int64
"""
words = st.sampled_from(WORDS.split())
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(words, anything, max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_a_draft_or_malformed(tmp_path: Path, document: dict[str, Any]) -> None:
    try:
        made = json_draft({"type": "object", **document})
    except MalformedData:
        return
    definitions(made, tmp_path)


TAGS = """
element complexType simpleType sequence choice group attribute attributeGroup extension restriction
complexContent simpleContent any maxLength
"""
tags = st.sampled_from(TAGS.split())
marks = st.dictionaries(
    st.sampled_from(["name", "type", "ref", "base", "minOccurs", "maxOccurs", "value", "mixed", "use"]),
    st.sampled_from(["A", "t:A", "B", "xs:int", "xs:integer", "0", "2", "unbounded", "true", "required", ""]),
    max_size=3,
)
nodes: st.SearchStrategy[Any] = st.recursive(
    st.tuples(tags, marks, st.just([])),
    lambda inner: st.tuples(tags, marks, st.lists(inner, max_size=3)),
    max_leaves=12,
)


def markup(node: tuple[str, dict[str, str], list[Any]]) -> str:
    tag, named, inner = node
    texts = "".join(f' {name}="{text}"' for name, text in named.items())
    return f"<xs:{tag}{texts}>{''.join(map(markup, inner))}</xs:{tag}>"


@given(st.lists(nodes, max_size=4))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_xml_schema_is_a_draft_or_malformed(tmp_path: Path, parts: list[Any]) -> None:
    try:
        made = draft(xsd('<xs:element name="Order" type="t:A"/>', *map(markup, parts)), "xsd")
    except MalformedData:
        return
    definitions(made, tmp_path)


def test_children_that_require_each_other_are_not_required(tmp_path: Path) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/other"}}, "required": ["next"]}
    other = {"type": "object", "properties": {"back": {"$ref": "#"}, "x": {"$ref": "#/$defs/other"}}}
    made = json_draft({**node, "$defs": {"other": {**other, "required": ["back", "x"]}}})
    definitions(made, tmp_path)
    assert [required(made, name) for name in shapes(made)] == [["next"], []]
