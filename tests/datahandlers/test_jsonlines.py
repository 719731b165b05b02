"""JSON Lines: one object a line, by the rules of JSON."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.jsonlines_handler import JsonLinesHandler
from connector.errors import UnknownBusinessObject
from connector.formats.datahandler import Hint, SplittingHandler
from tests.datahandlers import definitions as tools
from tests.datahandlers.definitions import SAMPLES, make
from tests.tables import rows

CUSTOMER = Hint("Customer", "Create")
NOTE = Hint("Note", "Create")


def handler(**options: Any) -> JsonLinesHandler:
    return make(JsonLinesHandler, **options)


def note(text: str, verb: str = "Create") -> BusinessObject:
    return BusinessObject(SAMPLES, "Note", verb, {"Text": text})


def refusal(body: bytes | str, hint: Hint | None = CUSTOMER, **options: Any) -> str:
    return tools.refusal(lambda: list(handler(**options).to_business_objects(body, hint)))


def test_each_line_is_an_object_of_its_own() -> None:
    body = b'{"Text": "a"}\n\n{"Verb": "Update", "Text": "b"}\r\n  {"Text": "c"}'
    found = list(handler(split=True).to_business_objects(body, Hint("Note")))
    assert [(bo.verb, bo["Text"]) for bo in found] == [(None, "a"), ("Update", "b"), (None, "c")]


def test_lines_may_be_of_different_types() -> None:
    bos = [note("a\nb", "Update"), BusinessObject(SAMPLES, "Customer", "Create", {"Name": "c"})]
    one: SplittingHandler = handler(split=True)
    assert (one.splits, handler().splits) == (True, False)
    body = one.to_joint_body(bos)
    assert body == (
        b'{"BusinessObject":"Note","Verb":"Update","Text":"a\\nb"}\n'
        b'{"BusinessObject":"Customer","Verb":"Create","Name":"c"}\n'
    )
    assert list(one.to_business_objects(body, None)) == bos


def test_lines_are_read_one_after_the_other() -> None:
    body = b'{"Text": "a"}\n' * 20_000
    one = handler(split=True)
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
        (b'{}\n{"a": "line 1"}', "record 2: Customer: a: no such attribute in Customer: line 2"),
        (
            b'\n{"Name": "a", "Name": "b"}',
            "record 1: the key 'Name' stands twice in one object: line 2 column 15",
        ),
        (b'{}\n{"Name": "\xff"}', "record 2: the body is not UTF-8: byte 13, line 2"),
        (b'\xef\xbb\xbf{}\n{"Name": "\xff"}', "record 2: the body is not UTF-8: byte 16, line 2"),
        (b"{}\n\xef\xbb\xbf{}", "record 2: the body is no JSON"),
        ('{}\n{"Name": "\ud800"}', "the body is no valid Unicode: character 13"),
        ('{}\n{"Name"'.encode("utf-16")[:-1], "the body is not utf-16-le: byte 20"),
    ],
)
def test_a_mistake_names_the_record_and_the_line(body: bytes | str, reason: str) -> None:
    assert reason in refusal(body)


def test_a_line_that_names_no_defined_object_is_unknown() -> None:
    with pytest.raises(UnknownBusinessObject, match=r"^record 2: no business object 'X' is defined: line 2$"):
        list(handler().to_business_objects(b'{"BusinessObject": "Note"}\n{"BusinessObject": "X"}', None))


def test_the_options_of_json_are_those_of_each_line(tmp_path: Path) -> None:
    schema = tmp_path / "note.json"
    schema.write_text('{"properties": {"Text": {"minLength": 2}}}')
    one = handler(IgnoreUndefinedAttributes=True, write_type=False, schema=str(schema), charset="ISO-8859-1")
    bo = one.to_business_object('{"Text": "Zoë", "x": 1}'.encode("ISO-8859-1"), NOTE)
    assert one.to_body(bo) == '{"Text":"Zoë"}\n'.encode("ISO-8859-1")
    reason = "breaks the schema note.json: $.Text: found a text, expected minLength: 2"
    found = tools.refusal(list, one.to_business_objects(b'{"Text": "ab"}\n{"Text": "a"}', NOTE))
    assert found == f"record 2: the body {reason}: line 2"
    assert tools.refusal(one.to_joint_body, [note("a")]).startswith("record 1: Note breaks the schema")


def test_the_options_are_those_of_json() -> None:
    ours = {(one.name, one.type, one.default) for one in JsonLinesHandler.options}
    json_options = {(one.name, one.type, one.default) for one in JsonHandler.options}
    assert ours == json_options | {("split", bool, False)}
