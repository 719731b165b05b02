"""CSV, JSON and XML as partners send them: other delimiters, no quotes, lists, document types."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from typing import Any

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.csv_handler import CsvHandler
from connector.datahandlers.delimited_handler import DelimitedHandler
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.formats.datahandler import Hint
from connector.testing.datahandlers import Sample
from tests.datahandlers.definitions import Suite, define, known, make, refusal
from tests.datahandlers.test_suite import OBJECTS
from tests.tables import rows

ROW = known(define("Row", Id="String", Name="String", Count="Integer"))
HINT = Hint("Row", "Create")
BARE: dict[str, Any] = {"quote": "none", "delimiter": "\\t", "split": True}


class TestCsvWithoutQuotes(Suite):
    can_be_blank = False
    DEFINITIONS = ROW
    HANDLERS = (
        make(CsvHandler, ROW, **BARE),
        make(CsvHandler, ROW, quote="none", delimiter="::", header=False),
    )
    OBJECTS = (("Row", "Create", {"Id": "1", "Name": 'Bolt "M8"', "Count": 2}),)
    MALFORMED = (b"", b"Id\tNme\n1\t2", b"1::2", b"1::2::x")

    @pytest.fixture
    def samples(self, handler: CsvHandler) -> list[Sample]:
        text = b'Id\tName\tCount\n1\t"M8\t2\n' if handler.has_header else b'1::"M8::2'
        return [Sample(text, HINT, {"Id": "1", "Name": '"M8', "Count": 2})]


class TestJsonList(Suite):
    OBJECTS = OBJECTS
    HANDLERS = (make(JsonHandler, split=True),)
    BODIES = (
        Sample(b' [{"CustomerId": "C1", "Name": null}]', Hint("Customer", "Create"), {"CustomerId": "C1"}),
        Sample(b'{"Rating": 7}', Hint("Customer", "Create"), {"Rating": 7}),
    )
    MALFORMED = (b"", b"[]", b"[1]", b"[{},{}]", b"[{}", b'[{"Rating": "7"}]', b"7")


def csv(**options: Any) -> CsvHandler:
    return make(CsvHandler, ROW, **options)


@rows(
    "options, body, values",
    [
        ({}, b"sep=;\r\nId;Name\r\n1;a,b\r\n", {"Id": "1", "Name": "a,b"}),
        ({"delimiter": ";"}, b"\xef\xbb\xbfsep=|\nId|Name\n1|x\n", {"Id": "1", "Name": "x"}),
        ({"header": False}, b"sep=\t\n1\tx\t2\n", {"Id": "1", "Name": "x", "Count": 2}),
        ({}, b" Id ,\tName\n1,x\n", {"Id": "1", "Name": "x"}),
        ({"delimiter": "||"}, b"Id||Name\n1||x|y\n", {"Id": "1", "Name": "x|y"}),
        ({"delimiter": "||"}, b'Id||Name\n1||"x||y"\n', {"Id": "1", "Name": "x||y"}),
        ({"quote": "none"}, b'Id,Name\n1,"x"\n', {"Id": "1", "Name": '"x"'}),
        ({"delimiter": ";"}, b'Id;Name;;\n1;x;;""\n', {"Id": "1", "Name": "x"}),
    ],
)
def test_a_body_says_its_delimiter_and_names_have_no_blanks(
    options: dict[str, Any], body: bytes, values: dict[str, Any]
) -> None:
    assert csv(**options).to_business_object(body, HINT).as_dict() == values


@rows(
    "options, body, said",
    [
        (
            {},
            b"Id;Name\n1;2\n",
            "names no attribute of Row; the delimiter seems to be ';', so set the option delimiter: line 1",
        ),
        ({"IgnoreUndefinedAttributes": True}, b"Id\tName\n1\t2\n", "the delimiter seems to be '\\t'"),
        ({"delimiter": "||"}, b'"Id","Name"\n1,2\n', "the delimiter seems to be ','"),
        (
            {"header": False},
            b"1|2|3\n",
            "record 1: found 1 fields, expected 3; the delimiter seems to be '|'",
        ),
        ({}, b"a;b\n1;2\n", "set the option header to false if the first record is no header"),
        ({}, b'sep="\nId\n1\n', "line 1: the delimiter of sep= cannot be used"),
        ({}, b"Id,Name,\n1,x\n", "record 1: found 2 fields, expected 3: line 2"),
        (
            {},
            b"Id,Name,,\n1,x,y,\n",
            "record 1: column 3: found a value, and the header has no name for it: line 2",
        ),
        ({}, "Id,Name\n1,x".encode("utf-16-be"), "the body seems to be utf-16-be, without a byte order mark"),
        (
            {},
            b"sep=;\nId;Count\n1;x\n",
            "record 1: column 2 (Count): found the text 'x', expected an integer: line 3",
        ),
    ],
)
def test_a_wrong_delimiter_is_recognised(options: dict[str, Any], body: bytes, said: str) -> None:
    assert said in refusal(csv(**options).to_business_object, body, HINT)


def test_a_line_without_the_delimiter_names_the_one_that_it_has() -> None:
    handler = make(DelimitedHandler, ROW, header="none", Delimiter="|")
    assert refusal(handler.to_business_object, b"1;2;3", HINT) == (
        "line 1, field 2, column 7: the line ends without the Delimiter '|', but it has ';', expected Name of Row"
    )


@rows(
    "options, values, said",
    [
        (BARE, {"Id": "a\tb"}, "Row: Id: found the delimiter '\\t', which needs quotes"),
        (BARE, {"Name": "a\nb"}, "Row: Name: found a line break, which needs quotes"),
        (BARE, {"Name": ""}, "Row: Name: found a blank text, which needs quotes"),
        (
            {**BARE, "null": "NULL"},
            {"Name": "NULL"},
            "Row: Name: found the text 'NULL' of a field that is not set",
        ),
        ({**BARE, "header": False}, {"Id": "sep=\t"}, "found the delimiter"),
        ({**BARE, "header": False, "delimiter": "="}, {"Id": "sep", "Name": ";"}, ""),
    ],
)
def test_what_needs_quotes_is_not_written_without(options: dict[str, Any], values: Any, said: str) -> None:
    handler = csv(**options)
    bo = BusinessObject(ROW, "Row", "Create", values)
    if said:
        assert said in refusal(handler.to_body, bo)
    else:
        assert handler.to_business_object(handler.to_body(bo), HINT) == bo


def test_a_first_line_that_would_name_a_delimiter_has_quotes() -> None:
    text = known(define("Row", Id="String"))
    bo = BusinessObject(text, "Row", "Create", {"Id": "sep=;"})
    handler = make(CsvHandler, text, header=False)
    assert handler.to_body(bo) == b'"sep=;"\r\n'
    assert handler.to_business_object(handler.to_body(bo), HINT) == bo
    bare = make(CsvHandler, text, header=False, quote="none")
    assert "the first line would be 'sep=;', which names a delimiter" in refusal(bare.to_body, bo)


# --- JSON -------------------------------------------------------------------------------------


def test_a_list_of_json_objects_is_an_event_each() -> None:
    handler = make(JsonHandler, ROW, split=True)
    bos = list(handler.to_business_objects(b'[{"Id": "1"},\n {"Id": "2", "Count": 3}]', HINT))
    assert [bo.as_dict() for bo in bos] == [{"Id": "1"}, {"Id": "2", "Count": 3}]
    assert list(handler.to_business_objects(handler.to_joint_body(bos), None)) == bos
    sixteen = make(JsonHandler, ROW, split=True, charset="utf-16")
    assert list(sixteen.to_business_objects(sixteen.to_joint_body(bos), None)) == bos


@rows(
    "body, said",
    [
        (b'{"Id": "1"}', "the body is an object, expected a list of JSON objects; the option split is set"),
        (b"[]", "the list is empty, expected an object in it"),
        (b'[{"Id": "1"}, {"Id": 2}]', "record 2: Row: Id: found the number 2, expected a text"),
        (b'[{"Id": "1"}, 7]', "record 2: found the number 7, expected a JSON object"),
        (
            b'[{"Id": "1"},\n {"Id": "1", "Id": "2"}]',
            "the key 'Id' stands twice in one object: line 2 column 14",
        ),
        (b'[{"Id": "1"},]', "the body is no JSON"),
    ],
)
def test_a_mistake_in_a_list_names_its_object(body: bytes, said: str) -> None:
    assert said in refusal(lambda: list(make(JsonHandler, ROW, split=True).to_business_objects(body, HINT)))


def test_without_split_a_list_names_the_option() -> None:
    said = refusal(make(JsonHandler, ROW).to_business_object, b'[{"Id": "1"}]', HINT)
    assert said == "the body is a list, expected a JSON object; or set the option split"


# --- XML --------------------------------------------------------------------------------------

CXML = b'<?xml version="1.0"?>\n<!DOCTYPE cXML SYSTEM "http://xml.cxml.org/schemas/cXML/1.2.014/cXML.dtd">\n<Row>%s</Row>'


@rows("body", [CXML % b"<Id>1</Id>", (CXML % b"<Id>1</Id>").decode().encode("utf-16")])
def test_a_document_type_without_a_subset_is_passed_over_on_request(body: bytes) -> None:
    assert make(XmlHandler, ROW, doctype="ignore").to_business_object(body, HINT).as_dict() == {"Id": "1"}
    said = refusal(make(XmlHandler, ROW).to_business_object, body, HINT)
    assert "send it without, or set doctype: ignore, or Validation and DTDPath" in said


@rows(
    "body",
    [
        b'<!DOCTYPE Row [<!ENTITY x "y">]><Row><Id>&x;</Id></Row>',
        b'<!DOCTYPE Row SYSTEM "a.dtd" [<!ENTITY x SYSTEM "/etc/passwd">]><Row><Id>&x;</Id></Row>',
        b"<!DOCTYPE Row []><Row/>",
    ],
)
def test_an_internal_subset_is_always_refused(body: bytes) -> None:
    said = refusal(make(XmlHandler, ROW, doctype="ignore").to_business_object, body, HINT)
    assert (
        said
        == "the body has a document type declaration with an internal subset, which is refused; send it without: line 1 column 1"
    )
