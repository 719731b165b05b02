"""JSON bodies that are checked against a JSON Schema."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.json_handler import JsonHandler
from connector.formats.datahandler import Hint
from connector.formats.json_schema import JsonSchema
from connector.formats.json_schema_files import json_path
from tests.datahandlers.definitions import SAMPLES, make
from tests.datahandlers.definitions import refusal as refused
from tests.tables import rows, texts

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
    return refused(schema.check, document, "the body")


def handler(schema: Path, **options: Any) -> JsonHandler:
    return make(JsonHandler, schema=str(schema), **options)


@pytest.fixture
def customer(tmp_path: Path) -> Path:
    return write(tmp_path, customer=SCHEMA, names=NAMES, places__address=ADDRESS)


@rows(
    "document, reason",
    [
        ({}, "$: found an object without 'CustomerId', expected required: [\"CustomerId\"]"),
        ({"CustomerId": "geheim"}, '$.CustomerId: found a text, expected pattern: "^(C|$)"'),
        ({"CustomerId": 271828}, '$.CustomerId: found a number, expected type: "string"'),
        ({"CustomerId": None}, '$.CustomerId: found null, expected type: "string"'),
        ({"CustomerId": True}, '$.CustomerId: found true or false, expected type: "string"'),
        ({"CustomerId": []}, '$.CustomerId: found a list, expected type: "string"'),
        ({"CustomerId": "C", "Name": "geheim geheim"}, "$.Name: found a text, expected maxLength: 10"),
        ({"CustomerId": "C", "Address": [{}, {"City": "geheim geheim"}]}, "$.Address[1].City: found a text, expected maxLength: 10"),
        ({"CustomerId": "C", "Address": [{}] * 4}, "$.Address: found a list, expected maxItems: 3"),
        ({"CustomerId": "C", "Address": [{"AddressID": 1}, {"AddressID": 1.0}]}, "$.Address: found a list, expected uniqueItems: true"),
        ({"CustomerId": "C", "Home": {"Before": {"Street": "geheim"}}}, "$.Home.Before: found an object with 'Street', expected additionalProperties: false"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named_with_its_path_and_no_value(
    customer: Path, document: dict[str, Any], reason: str
) -> None:
    text = refusal(JsonSchema(customer), document)
    assert text == f"the body breaks the schema customer.json: {reason}"
    assert "geheim" not in text
    assert refused(handler(customer).to_business_object, json.dumps(document), CUSTOMER) == text


def test_a_body_is_checked_before_it_is_read_and_before_it_is_sent(customer: Path) -> None:
    one = handler(customer, write_type=False)
    for body, words in (
        (b'{"CustomerId": 1}', "breaks the schema customer.json: $.CustomerId"),
        ('{"CustomerId": 1}'.encode("utf-16"), "breaks the schema customer.json: $.CustomerId"),
        (b'{"CustomerId": "C", "Rating": "a"}', "Customer: Rating: found the text 'a', expected an integer"),
    ):
        assert words in refused(one.to_business_object, body, CUSTOMER)
    right = b'{"CustomerId": "C", "Rating": null, "Home": {"City": "a", "Before": {"City": "b"}}}'
    values = {"CustomerId": "C", "Home": {"City": "a", "Before": {"City": "b"}}}
    assert one.to_business_object(right, CUSTOMER).as_dict() == values
    bo = BusinessObject(SAMPLES, "Customer", "Create", {"CustomerId": "C", "Rating": 2100000000})
    assert refused(one.to_body, bo) == (
        "Customer breaks the schema customer.json: $.Rating: found a number, expected maximum: 2000000000"
    )


def test_the_document_is_checked_as_it_is_sent(tmp_path: Path) -> None:
    path = write(tmp_path, note={"properties": {"Text": True}, "additionalProperties": False})
    bo = BusinessObject(SAMPLES, "Note", "Create", {"Text": "a"})
    assert handler(path, write_type=False).to_body(bo) == b'{"Text":"a"}'
    assert "found an object with 'BusinessObject'" in refused(handler(path).to_body, bo)


# --- alternatives -----------------------------------------------------------------------------


ONE_OF = {"oneOf": [{"type": "object", "required": ["a"]}, {"type": "array"}], "not": {"required": ["b"]}}
ANY_OF = {"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"type": "array"}]}
SEVERAL = {"properties": {"a": {"oneOf": [{"minimum": 1}, {"maximum": 5}]}}}


@rows(
    "rules, document, reason",
    [
        (ONE_OF, {}, "$: found an object without 'a', expected required: [\"a\"]"),
        (ONE_OF, {"a": 1, "b": 2}, "$: found an object, expected not:"),
        (ANY_OF, {"a": 1}, '$.a: found a number, expected type: "string"'),
        (SEVERAL, {"a": 3}, "$.a: found a number that fits 2 alternatives, expected oneOf: one that fits"),
        (
            {"anyOf": [{"maxLength": 1}, {"pattern": "^x"}]},
            "abc",
            "found a text that fits no alternative, expected anyOf: one that fits",
        ),
        ({"properties": {"a": False}}, {"a": "x"}, "$.a: found a text, expected nothing here"),
        (False, {}, "found an object, expected nothing here"),
    ],
)
def test_the_best_mistake_of_alternatives_is_named(
    tmp_path: Path, rules: Any, document: Any, reason: str
) -> None:
    assert reason in refusal(schema_of(tmp_path, a=rules), document)
    schema_of(tmp_path, b=SEVERAL).check({"a": 7}, "the body")


def test_a_hostile_body_takes_little_time_and_memory(tmp_path: Path) -> None:
    objects, lists = {"items": {"type": "object"}}, {"items": {"type": "array"}}
    properties = {
        "unique": {"uniqueItems": True},
        "any": {"anyOf": [objects, lists]},
        "one": {"oneOf": [objects, {"$ref": "other.json"}]},
        "all": objects,
    }
    other = {"$schema": "https://json-schema.org/draft/2020-12/schema", "anyOf": [lists]}
    schema = schema_of(tmp_path, root={"properties": properties}, other=other)
    documents: list[dict[str, list[Any]]] = [{name: [1] * 50_000} for name in ("any", "one", "all")]
    documents.append({"unique": [{"a": n} if n % 2 else n for n in range(50_000)] + [1.0, {"a": 1}, 1]})
    for document in documents:
        begun = time.process_time()
        tracemalloc.start()
        refusal(schema, document)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert time.process_time() - begun < 10
        assert peak < 25_000_000


def test_a_deep_path_a_huge_name_and_a_huge_rule_are_not_shown_whole(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, a={"properties": {"a": {"$ref": "#"}, "b": False}})
    document: dict[str, Any] = {"b": 1}
    for _ in range(500):
        document = {"a": document}
    assert refusal(schema, document).endswith("....: found a number, expected nothing here")
    schema = schema_of(tmp_path, a={"additionalProperties": {"enum": ["x" * 100_000]}})
    assert len(refusal(schema, {"y" * 100_000: 1})) < 500


# --- drafts and files -------------------------------------------------------------------------


def test_the_schema_names_its_draft(tmp_path: Path) -> None:
    items = {"items": [{"type": "string"}]}  # a list of schemas until 2019-09
    for draft in ("http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema"):
        assert "$[0]" in refusal(schema_of(tmp_path, old={"$schema": draft, **items}), [1])
    for rules, words in (
        (items, "is no JSON Schema"),
        ({"$schema": "urn:x"}, r"found the .schema 'urn:x', expected a draft such as"),
        ({"$schema": 7}, r"found the .schema 7, expected a draft"),
    ):
        with pytest.raises(ValueError, match=words):
            schema_of(tmp_path, odd=rules)
    seven = {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert "$[0]" in refusal(schema_of(tmp_path, a={"$ref": "b.json"}, b={**seven, **items}), [1])
    assert "$[0]" in refusal(schema_of(tmp_path, c={**seven, "$ref": "d.json"}, d=items), [1])


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
    schema_of(tmp_path, c={"$ref": "#"}).check({}, "a document without rules")


WRONG_REFERENCES = {
    "because nothing is fetched": """
        https://example.com/other.json   http://example.com/other.json#/a   //example.com/other.json
        ftp://example.com/other.json   urn:example:other   file://example.com/other.json
    """,
    "secret.json is outside of the directory of the schema": "../secret.json",
    "outside of the directory": "places/../../secret.json   ..%2Fsecret.json   link.json",
    "/etc/passwd is outside of the directory": "file:///etc/passwd",
    "missing.json: No such file or directory": "missing.json",
    "broken.json is no JSON": "broken.json",
    "list.json is no JSON Schema: found no object": "list.json",
    "wrong.json is no JSON Schema: $.type: ": "wrong.json",
    "Is a directory": "places",
    "leads to nothing": "#/$defs/missing   #missing   empty.json#/a",
}


@rows(
    "reference, reason",
    [(one, reason) for reason in WRONG_REFERENCES for one in texts(WRONG_REFERENCES[reason])],
)
@rows("key", ["$ref", "$dynamicRef"])
def test_a_reference_to_another_place_is_refused_at_the_start(
    tmp_path: Path, reference: str, reason: str, key: str
) -> None:
    write(tmp_path, secret={})
    directory = tmp_path / "schemas"
    order = {"properties": {"a": {"items": {"allOf": [{key: reference}]}}}}
    others: dict[str, Any] = {"broken": "{", "list": [], "wrong": {"type": "text"}, "empty": {}}
    path = write(directory, order=order, places__address={}, **others)
    (directory / "link.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(ValueError, match="the reference") as found:
        handler(path)
    assert reason in str(found.value)
    assert "order.json" in str(found.value)


@rows(
    "contents, reason",
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
    with pytest.raises(ValueError, match="is no JSON") as found:
        handler(write(tmp_path, order=contents))
    assert reason in str(found.value)
    with pytest.raises(ValueError, match=r"none.json: No such file or directory"):
        handler(tmp_path / "none.json")


def test_words_in_values_and_names_are_no_references_and_no_patterns(tmp_path: Path) -> None:
    text, wrong = {"type": "string"}, {"$ref": "x", "pattern": "(", "patternProperties": {"(": 1}}
    names = {"$ref": text, "pattern": text, "patternProperties": text}
    rules = {"examples": [wrong], "const": wrong, "default": wrong, "properties": names}
    schema_of(tmp_path, a={**rules, "$defs": {"pattern": {"enum": [wrong]}}})


def test_a_reference_may_lead_to_the_schema_of_schemas(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, a={"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert "$.type: found a text" in refusal(schema, {"type": "text"})


def test_an_address_of_a_file_or_of_a_schema_within_a_file_is_found(tmp_path: Path) -> None:
    schema = schema_of(
        tmp_path,
        order={
            "$id": "https://example.com/schemas/order",
            "properties": {
                "a": {"$ref": "https://example.com/schemas/customer"},
                "b": {"$ref": "customer#/$defs/name"},
                "c": {"$ref": "urn:example:city"},
                "d": {"$ref": "inner/street"},
                "e": {"$id": "https://other.example/", "items": {"$ref": "zip"}},
            },
        },
        parts__customer={
            "$id": "https://example.com/schemas/customer",
            "type": "object",
            "$defs": {
                "name": {"maxLength": 3},
                "city": {"$id": "urn:example:city", "$ref": "#/$defs/x", "$defs": {"x": {"minLength": 2}}},
                "street": {"$id": "inner/street", "const": 1},
                "zip": {"$id": "https://other.example/zip", "type": "string"},
            },
        },
        notes='{"$id": ',
    )
    wrong = {"a": (1, "type"), "b": ("abcd", "maxLength"), "c": ("x", "minLength"), "d": (2, "const")}
    for name, (value, rule) in {**wrong, "e": ([1], "type")}.items():
        assert f"expected {rule}: " in refusal(schema, {name: value}), name


# --- regular expressions ----------------------------------------------------------------------

PATTERNS = [
    ("^[0-9]+$", ["12", "007"], ["12\n", "৪"]),
    (r"^\d+$", ["42"], ["৪২"]),
    (r"^\D+$", ["৪২", "a"], ["1"]),
    (r"^\w+$", ["a_1"], ["é"]),
    (r"^\W$", ["é", " "], ["a"]),
    (r"^\W(?=$)", ["é"], ["a"]),
    (r"^\s+$", [" \t\v\f\u00a0\ufeff\u2028\u3000"], ["\x85", "\u180e", "\x1c"]),
    (r"^\S$", ["\x85"], ["\ufeff"]),
    (r"^[^\s\d]$", ["a", "\x85"], ["\u2003", "5"]),
    (r"^.$", ["a", "😀", "\x85"], ["\n", "\r", "\u2028", "\u2029", ""]),
    (r"^[^]$", ["a", "\n"], ["", "ab"]),
    (r"^a[]$", [], ["a", "ab"]),
    (r"^\p{L}+$", ["äß"], ["1"]),
    (r"^\p{Letter}cole$", ["école"], ["1cole"]),
    (r"^\p{Script=Greek}$", ["α"], ["a"]),
    (r"^\P{Lu}$", ["a"], ["A"]),
    (r"^(?<year>\d{4})$", ["1999"], ["99"]),
    (r"^(?<a>x|y)-\k<a>1\1$", ["x-x1x"], ["x-y1x", "x-x1y"]),
    (r"^(?<$a>x)$", ["x"], ["y"]),
    (r"^\u{1F600}$", ["😀"], ["a"]),
    (r"^\ud83d\ude00$", ["😀"], ["a"]),
    (r"^[\ud83d\ude00-\u{1F602}]$", ["😁"], ["a"]),
    (r"^[^\uD800-\uDFFF]+$", ["a", "a😀"], []),
    (r"^\ud800$", [], ["a", ""]),
    (r"^\cA\cj\0$", ["\x01\n\0"], ["A"]),
    (r"^[\b\0]$", ["\b", "\0"], ["b"]),
    (r"\ba\b", ["a", "éa", "x a."], ["ab", "_a"]),
    (r"^a\B", ["ab"], ["a b", "aé"]),
    (r"^\<\>\@\-\_\ \"$", ['<>@-_ "'], ["-"]),
    (r"^\/[\/\-\]]$", ["//", "/-", "/]"], ["/"]),
    (r"^[a&&b]$", ["&", "a"], ["&&"]),
    (r"^[a~~b[]$", ["~", "["], ["c"]),
    (r"^[+--]$", ["+", ",", "-"], ["."]),
    (r"^[\w-.]+$", ["a-b.c"], [","]),
    (r"^{[0-9a-f]+}]$", ["{af}]"], ["af"]),
    (r"^(?=.*[A-Z])(?=.*\d).{4,}$", ["aB1x"], ["ab1x"]),
    (r"(?<=€)\d|(?<!\w)x", ["€5", " x"], ["5", "ax"]),
]
NO_PATTERNS = r"""
\A \Z \z \a \h (?i)a (?P<n>a) (?>a) (?#a) a*+ a++ a** (a a) [a [z-a] \x4 \u12 \u{110000} \c1 \k<n>
(?<n>a)(?<n>b) \pL \ [\
"""


@rows("pattern, fitting, other", PATTERNS)
def test_patterns_are_those_of_ecma_262(
    tmp_path: Path, pattern: str, fitting: list[str], other: list[str]
) -> None:
    texts = schema_of(tmp_path, a={"properties": {"Id": {"pattern": pattern}}})
    names = schema_of(tmp_path, b={"patternProperties": {pattern: {"type": "string"}}})
    for text in fitting:
        texts.check({"Id": text}, "the body")
        assert f"{json_path([text])}: found a number, expected type" in refusal(names, {text: 1})
    for text in other:
        assert refusal(texts, {"Id": text}) == (
            f"the body breaks the schema a.json: $.Id: found a text, "
            f"expected pattern: {json.dumps(pattern, ensure_ascii=False)}"
        )
        names.check({text: 1}, "the body")


@rows("pattern", NO_PATTERNS.split())
def test_what_ecma_262_does_not_have_is_refused_at_the_start(tmp_path: Path, pattern: str) -> None:
    for number, schema in enumerate([{"pattern": pattern}, {"patternProperties": {pattern: True}}]):
        with pytest.raises(
            ValueError, match=r"is no JSON Schema: \$.properties.a.pattern.*no regular expression"
        ):
            schema_of(tmp_path, **{f"a{number}": {"properties": {"a": schema}}})


@rows("draft", ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"])  # fmt: skip
def test_patterns_are_the_same_in_every_draft(tmp_path: Path, draft: str) -> None:
    pattern = {"pattern": r"^\d+$"}
    schema = schema_of(tmp_path, a={"$schema": draft, "properties": {"Id": pattern}})
    schema.check({"Id": "42"}, "the body")
    assert "$.Id: found a text, expected pattern" in refusal(schema, {"Id": "৪২"})


ENDLESS = r"""
    ^([a-z]+)+$   ^(a|a)*$   (a+a+)+y   ^(a*)*\1b$   ^(?=(a+)+b)(a*)*$   (a*)(a*)(a*)\1b   (?:\ba*)*\bb
"""


@rows("pattern", texts(ENDLESS))
def test_a_pattern_that_goes_back_without_end_ends_soon(tmp_path: Path, pattern: str) -> None:
    """The limit of time is generous: without the limit of steps the comparison takes years."""
    begun = time.process_time()
    schema = schema_of(
        tmp_path,
        a={"properties": {"Id": {"pattern": pattern}}, "patternProperties": {pattern: {"minLength": 1}}},
    )
    assert "$.Id: found a text, expected pattern" in refusal(schema, {"Id": "a" * 5000 + "1"})
    assert time.process_time() - begun < 200


# --- numbers ----------------------------------------------------------------------------------


INTEGER = "12345678910111213141516171819202122232425262728293031"


@rows(
    "rule, number, fits",
    [
        ('{"multipleOf": 0.01}', "0.29", True),
        ('{"multipleOf": 0.01}', "19.99", True),
        ('{"multipleOf": 0.01}', "4.35000000000000000001", False),
        ('{"multipleOf": 0.1}', "100000000000000000000000000000.1", True),
        ('{"multipleOf": 0.1}', "100000000000000000000000000000.15", False),
        ('{"multipleOf": 3}', "1" + "0" * 40, False),
        ('{"multipleOf": 10}', "1" + "0" * 400, True),
        ('{"type": "integer"}', "1" + "0" * 400, True),
        ('{"type": "integer"}', INTEGER, True),
        ('{"type": "integer"}', f"{INTEGER}.5", False),
        ('{"type": "integer"}', "1e400", True),
        ('{"type": "integer"}', "1.0", True),
        ('{"maximum": 1e400}', "1e401", False),
        ('{"exclusiveMaximum": 972783798187987123879878123.18878137}', "972783798187987123879878123.188781371", False),
        ('{"minimum": 18446744073709551616}', "18446744073709551615", False),
        ('{"const": 0.1}', "0.10", True),
        ('{"const": 0.1}', "0.10000000000000000001", False),
        ('{"enum": [9007199254740993]}', "9007199254740992", False),
        ('{"enum": [9007199254740993]}', "9007199254740993", True),
    ],
)  # fmt: skip
def test_numbers_keep_all_digits(tmp_path: Path, rule: str, number: str, fits: bool) -> None:
    path = write(tmp_path, a=f'{{"properties": {{"Extra": {rule}}}}}')
    one = handler(path, IgnoreUndefinedAttributes=True)
    body = f'{{"CustomerId": "C", "Extra": {number}}}'.encode()
    if fits:
        assert one.to_business_object(body, CUSTOMER)["CustomerId"] == "C"
    else:
        assert "$.Extra: found a number, expected" in refused(one.to_business_object, body, CUSTOMER)


def test_a_number_that_python_does_not_take_is_refused(tmp_path: Path) -> None:
    one = handler(write(tmp_path, a={}), IgnoreUndefinedAttributes=True)
    for number in ("1" * 4301, "1e99999999999999999999"):
        reason = refused(one.to_business_object, f'{{"CustomerId": "C", "Extra": {number}}}', CUSTOMER)
        assert "an integer of more than 4300 digits, or an exponent" in reason


# --- what is evaluated ------------------------------------------------------------------------


def test_what_a_rule_has_evaluated_counts(tmp_path: Path) -> None:
    for draft in ("2019-09", "2020-12"):
        schema = schema_of(
            tmp_path,
            a={
                "$schema": f"https://json-schema.org/draft/{draft}/schema",
                "anyOf": [{"properties": {"a": True}, "required": ["a"]}, {"properties": {"b": True}}],
                "unevaluatedProperties": False,
            },
        )
        for document in ({"a": 1, "b": 2}, {"b": [1] * 10_000}):
            schema.check(document, "the body")
            reason = refusal(schema, {**document, "c": 1})
            assert "found an object with 'c', expected unevaluatedProperties: false" in reason


def test_the_place_of_a_mistake_in_a_large_document_is_named(tmp_path: Path) -> None:
    for draft in ("http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2020-12/schema"):
        either = {"oneOf": [{"type": "string"}, {"$ref": "b.json"}]}
        rules = {
            "$schema": draft,
            "properties": {"a": {"items": either}},
            "patternProperties": {"^b": {"items": {"maximum": 5}}},
        }
        schema = schema_of(tmp_path, a=rules, b={"anyOf": [{"type": "boolean"}, {"type": "null"}]})
        many = [True] * 10_000
        assert "$.a[10000]: found a number, expected oneOf: " in refusal(schema, {"a": [*many, 1]})
        assert "$.bb[10000]: found a number, expected maximum: 5" in refusal(schema, {"bb": [*many, 6]})
