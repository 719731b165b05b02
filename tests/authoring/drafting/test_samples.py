"""Drafts from sample bodies: the definitions that are guessed, and that they fit the sample."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree

from connector.authoring.drafting.draft import clean
from connector.authoring.drafting.sample_files import Samples, read_sample
from connector.authoring.drafting.sample_reading import read_samples
from connector.authoring.drafting.samples import FORMATS, draft_of, format_of
from connector.businessobjects.instance import finish
from connector.datahandlers.delimited_handler import DelimitedHandler
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.namevalue_handler import NameValueHandler
from connector.datahandlers.soap_handler import SoapHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from tests.authoring.drafting.drafts import defaults, definitions, draft, draft_all, shapes
from tests.tables import rows


def test_what_json_members_no_attribute_can_hold_is_left_out(tmp_path: Path) -> None:
    made = draft(
        '{"id": 1, "tags": ["a", ""], "matrix": [[1]], "gaps": [1, null], "mixed": [{"a": 1}, 2],'
        ' "a;b": 1, " c ": 1, "": 1,'
        ' "rows": [{"v": 1, "w": {}, "l": 1}, {"v": "x", "w": 5, "l": [1]}], "one": {"x": 1}}',
        "json",
    )
    assert made.left_out == [
        "Order.matrix: a list of lists",
        "Order.gaps: a list with null",
        "Order.mixed: an object in one place, a whole number of 32 bits in another",
        "Order.a;b: no tag can carry this name",
        "Order. c : no tag can carry this name",
        "Order.: no tag can carry this name",
        "Order_rows.v: no type fits a text and a whole number of 32 bits",
        "Order_rows.w: an object in one place, a whole number of 32 bits in another",
        "Order_rows.l: a list in one place, a single value in another",
    ]
    assert shapes(made) == {
        "Order": {"id": "Decimal", "tags": "String n", "rows": "Order_rows n", "one": "Order_one"},
        "Order_rows": {},
        "Order_one": {"x": "Decimal"},
    }
    assert "bodies with parts that were left out need IgnoreUndefinedAttributes: true" in made.checks
    text = str(made.documents()[0])
    assert text.startswith("# Left out:\n#   matrix: a list of lists")
    assert "Order_rows: it has no attribute that can be its key" in made.checks
    definitions(made, tmp_path)


def test_what_xml_no_attribute_can_hold_is_left_out(tmp_path: Path) -> None:
    made = draft(
        '<Order id="1"><t>1</t><t>2</t><p currency="EUR">5</p>so<m>a<b/>c</m><id>x</id><x y="1"/></Order>',
        "xml",
    )
    assert made.left_out == ["Order.text: text between elements"]
    assert shapes(made) == {
        "Order": {
            "id": "String type=attribute",
            "t": "String n",
            "p": "Order_p",
            "m": "String type=xml",
            "id_2": "String elem_name=id;name=id_2",
            "x": "Order_x",
        },
        "Order_p": {"Value": "String type=pcdata;notag", "currency": "String type=attribute"},
        "Order_x": {"y": "String type=attribute"},
    }
    definitions(made, tmp_path)


NIL = """\
<Order xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="a b" verb="Create" Value="x"
>{}</Order>"""


def test_an_xml_sample_with_text_beside_attributes_and_nil_comes_back(tmp_path: Path) -> None:
    inner = (
        '<Sum Cur="EUR">10.00</Sum><Note>a</Note><Note xsi:nil="true"/><Paid xsi:nil="true"/>'
        '<To xsi:nil="true"/><By><Value a="1">5</Value></By><By><Value/></By><Mark/><Mark> </Mark>'
    )
    made = draft(NIL.format(inner), "xml")
    assert shapes(made)["Order"] == {
        "schemaLocation": "String type=xsischemalocation",
        "Value": "String type=attribute",
        "Sum": "Order_Sum",
        "Note": "String n nil=blank",
        "Paid": "String nil=unset",
        "To": "String nil=unset",
        "By": "Order_By n",
        "Mark": "String n",
    }
    assert made.left_out == []
    handler = XmlHandler(defaults(XmlHandler), definitions(made, tmp_path))
    bo = handler.to_business_object(NIL.format(inner), None)
    assert (bo.verb, bo["Paid"]) == ("Create", None)
    back = handler.to_body(bo)
    assert canonical(back) == canonical(NIL.format(inner).encode())
    beside = draft(NIL.format('<To a="1" xsi:nil="true"/>'), "xml")
    assert beside.left_out == ['Order.To: XML attributes beside xsi:nil="true"']


def canonical(text: bytes) -> bytes:
    return etree.tostring(etree.fromstring(text), method="c14n")


def test_names_that_are_no_names_of_attributes_are_kept_in_a_tag(tmp_path: Path) -> None:
    made = draft('{"order-id": 1, "order_id": 2, "größe": 3, "日本": 4, "Order.Id": {"x": 1}}', "json")
    assert shapes(made)["Order"] == {
        "order_id": "Decimal name=order-id",
        "order_id_2": "Decimal name=order_id",
        "gro_e": "Decimal name=größe",
        "Attribute": "Decimal name=日本",
        "Order_Id": "Order_Order_Id name=Order.Id",
    }
    definitions(made, tmp_path)
    made = draft('<Order><order-id>1</order-id><x a.b="1"/></Order>', "xml")
    assert shapes(made) == {
        "Order": {"order_id": "String elem_name=order-id", "x": "Order_x"},
        "Order_x": {"a_b": "String type=attribute;attr_name=a.b"},
    }


@rows(
    "values, type_name",
    [
        *(((value,), "Decimal") for value in ("2147483648", "9007199254740993", "1.50", "1e400")),
        *(((value,), "Decimal") for value in ("123456789012345678901234567890", "0.12345678901234567890")),
        *(((value,), "String") for value in ('"2024-02-30"', '"20240531"', '"7"', "null", '""')),
        (("1", "2"), "Decimal"),
        (("1", "2.5"), "Decimal"),
        (("1e3",), "Decimal"),
        (("1e3", "1.5"), "Decimal"),
        (("1e3", "9007199254740993"), "Decimal"),
        (("true", "false", "null"), "Boolean"),
        (('"2024-05-31"', '"2024-05-31T08:00:00Z"', '""'), "Date"),
        (('"2024-05-31"', '"soon"'), "String"),
        (("true", "1"), None),
        (("1", '"2024-05-31"'), None),
        (("1", '""'), "Decimal"),
    ],
)
def test_the_type_of_json_values(values: tuple[str, ...], type_name: str | None) -> None:
    rows = ", ".join(f'{{"v": {value}}}' for value in values)
    assert shapes(draft(f'{{"rows": [{rows}]}}', "json"))["Order_rows"].get("v") == type_name


ONE_SAMPLE = {
    "String": ["1 2", "12.50", "true false", "1e3", "007", "+1", "1e400", "true 1", "2024-05-31 1", "- -"],
    "Date": ["2024-05-31 -"],
}


@rows("values, type_name", [(one, name) for name, found in ONE_SAMPLE.items() for one in found])
def test_the_type_of_texts_in_one_sample(values: str, type_name: str) -> None:
    """A lone ``-`` stands for an empty text."""
    records = "".join(f"{'' if value == '-' else value},x\n" for value in values.split())
    assert shapes(draft(f"v,w\n{records}", "csv"))["Order"]["v"] == type_name


MORE_SAMPLES = {
    "Integer": ["1 2", "1 -2 -", "5 12 250", "0 123456789"],
    "Decimal": ["12.50 13.99", "1 2.5", "0.5 100.25"],
    "Boolean": ["true false", "true true"],
    "Date": ["2024-05-31 2024-05-31T08:00:00Z"],
    "String": [
        *(
            "101530 112233",
            "10 25",
            "007 12",
            "5 012",
            "1e3 2",
            "1 1234567890",
            "2147483648 1",
            "1 -",
            "true -",
        ),
        *("1 x", "true 1", "1.2345678901234567 1", "+1 2", "2024-05-31 1"),
    ],
}


@rows("values, type_name", [(one, name) for name, found in MORE_SAMPLES.items() for one in found])
def test_the_type_of_texts_in_several_samples(values: str, type_name: str) -> None:
    texts = ["" if value == "-" else value for value in values.split()]
    made = draft_all(*(f"<Order><v>{text}</v></Order>" for text in texts), format_name="xml")
    assert shapes(made)["Order"]["v"] == type_name


def test_whole_numbers_of_several_json_samples_are_integers() -> None:
    assert shapes(draft_all('{"v": 1}', '{"v": 2}', format_name="json"))["Order"]["v"] == "Integer"
    for one, other in (("1", "2147483648"), ("1", "1.5"), ("1", "null")):
        made = draft_all(f'{{"v": {one}}}', f'{{"v": {other}}}', format_name="json")
        assert shapes(made)["Order"]["v"] == "Decimal"


def test_each_guess_is_told() -> None:
    made = draft(
        "<Order><CRETIM>101530</CRETIM><MANDT>010</MANDT><Total>12.50</Total><sku>1E5</sku><Paid>true</Paid>"
        "<Day>2024-05-31</Day><Note>x</Note><Line><No>1</No><No>12</No></Line></Order>",
        "xml",
    )
    assert [text for text in made.checks if "kept as" in text] == [
        "CRETIM: six digits, kept as String",
        "MANDT: three digits, kept as String",
        "Total: a decimal number, kept as String",
        "sku: a number with an exponent, kept as String",
        "Paid: true or false, kept as String",
        "Day: dates in all samples, kept as Date: other texts are refused",
        "Order_Line.No: digits, kept as String",
    ]
    made = draft_all("a,b\n1,true\n", "a,b\n12,false\n", format_name="csv")
    assert [text for text in made.checks if "kept as" in text] == [
        "a: numbers in all samples, kept as Integer: zeros in front are lost",
        "b: true or false in all samples, kept as Boolean: 1 is written as true",
    ]


def test_samples_of_one_shape_make_one_draft(tmp_path: Path) -> None:
    made = draft_all(
        '<Order verb="Create"><Id>1</Id></Order>',
        "<Order><Id>12</Id><Line><No>1</No></Line><Line><No>2</No></Line></Order>",
        format_name="xml",
    )
    assert shapes(made) == {
        "Order": {"Id": "Integer", "Line": "Order_Line n"},
        "Order_Line": {"No": "String"},
    }
    assert "verb=false" not in made.top.tags
    definitions(made, tmp_path)
    lines = draft_all('{"a": 1}\n\n{"b": "x"}\n', '{"a": 2}', format_name="jsonlines")
    assert shapes(lines) == {"Order": {"a": "Integer", "b": "String"}}
    pairs = (f"BusinessObject=Order\nVerb=Create\nA={value}\n" for value in ("1", "12"))
    assert shapes(draft_all(*pairs, format_name="namevalue")) == {"Order": {"A": "Integer"}}
    texts = draft_all("Order~Create~5~x", "Order~Create~12~y", format_name="delimited")
    assert shapes(texts)["Order"] == {"Attribute1": "Integer", "Attribute2": "String"}


SOAP_1_2 = "http://www.w3.org/2003/05/soap-envelope"


@rows(
    "format_name, bodies, reason",
    [
        ("xml", ("<A><b/></A>", "<B><b/></B>"), "found the root element B, expected A as in sample0"),
        ("xml", ("<A xmlns='urn:1'><b/></A>", "<A xmlns='urn:2'><b/></A>"), "{urn:2}A, expected {urn:1}A"),
        ("csv", ("a,b\n1,2\n", "a,c\n1,2\n"), "found the columns a, c, expected a, b as in sample0"),
        ("delimited", ("A~~1~2", "A~~1"), "found a number of values: 3, expected 4 as in sample0"),
        ("namevalue", ("BusinessObject=A\na=1", "BusinessObject=B\na=1"), "found the object B, expected A"),
        ("jsonlines", ('{"a": 1}\n{', '{"a": 1}'), "record 2: the body is no JSON"),
        ("xml", (f"<e:Envelope xmlns:e='{SOAP_1_2}'><e:Body/></e:Envelope>",), "the SOAP envelope is empty"),
    ],
)  # fmt: skip
def test_samples_of_several_shapes_are_refused(
    format_name: str, bodies: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(MalformedData, match=re.escape(reason)):
        draft_all(*bodies, format_name=format_name)


SOAP = """<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:o="urn:o">
<s:Header><o:Trace>7</o:Trace></s:Header>
<s:Body>{}</s:Body></s:Envelope>"""


def test_a_soap_sample_is_drafted_without_its_envelope(tmp_path: Path) -> None:
    body = SOAP.format("<o:SubmitOrder><o:Id>1</o:Id></o:SubmitOrder>")
    made = draft(body, "xml", "SubmitOrder")
    assert shapes(made) == {"SubmitOrder": {"Id": "String"}}
    assert "the sample is a SOAP envelope: the data handler is application/soap+xml" in made.checks
    assert "the header block 'Trace' is passed over: a child with the tag soap=header keeps it" in made.checks
    handler = SoapHandler(defaults(SoapHandler), definitions(made, tmp_path))
    bo = handler.to_business_object(body, Hint("SubmitOrder", "Create"))
    assert bo.as_dict() == {"Id": "1"}
    assert handler.to_business_object(handler.to_body(bo), Hint("SubmitOrder", "Create")) == bo
    with pytest.raises(MalformedData, match="is a fault"):
        draft(SOAP.format("<s:Fault><faultcode>x</faultcode></s:Fault>"), "xml")


def test_separated_values_may_have_no_header(tmp_path: Path) -> None:
    made = draft_all("7;Zoë\n8;\n", "12;x\n", format_name="csv", header=False, charset="cp1252")
    assert shapes(made)["Order"] == {"Column1": "Integer", "Column2": "String"}
    assert "the first record is no header: the data handler needs header: false" in made.checks
    definitions(made, tmp_path)


@rows(
    "body, told",
    [
        (
            "a;b\n1.234,50;31.05.2024\n7;1.6.24 08:15\n",
            ("numbers such as 1.234,50", "dates such as 31.05.2024"),
        ),
        (
            "a;b\n(12,50);x\n",
            ("numbers such as (12,50), kept as String: a Decimal needs decimal or thousands",),
        ),
        (
            "a,b\n12.50-,31/05/2024\n",
            ("numbers such as 12.50-", "dates such as 31/05/2024, kept as String: a Date needs date_format"),
        ),
        ("a||b|c\n1||2\n".replace("|c", ""), ("the values are separated by '||'",)),
        ("a,b\n1,'x,y'\n", ("the quotes are single: the data handler needs quote: '",)),
        ("a,b,,\n1,2,,\n3,4,,\n", ("the sample has several records: the data handler needs split: true",)),
        ("007;Meier\n008;Kunz\n", ("the name '007' looks like a value; for no header, give --header no",)),
    ],
)
def test_what_is_special_in_separated_values_is_told(body: str, told: tuple[str, ...]) -> None:
    checks = draft(body, "csv").checks
    for text in told:
        assert any(text in one for one in checks), checks


def test_other_texts_beside_numbers_of_a_country_are_texts() -> None:
    for first, second in (
        ("1,50", "x"),
        ("31.05.2024", "1,50"),
        ("31.05.2024", "7"),
        ("1,50", "2024-05-31"),
        ("x" * 50, "1,50"),
    ):
        checks = draft(f"a;b\n{first};x\n{second};y\n", "csv").checks
        assert not any("such as" in one for one in checks), checks


def test_headers_may_have_another_order(tmp_path: Path) -> None:
    made = draft_all("a,b\n1,x\n", "b,a\ny,22\n", format_name="csv")
    assert shapes(made) == {"Order": {"a": "Integer", "b": "String"}}


def test_an_order_that_is_left_out_needs_no_option() -> None:
    made = draft("<O><a>1</a><b>2</b><a>3</a></O>", "xml")
    assert "the order among each other" in made.left_out[0]
    assert not any("IgnoreUndefinedAttributes" in one for one in made.checks)


@rows(
    "body, format_name, records, options",
    [
        ("A~Create~1~x\nA~Create~2~y\n", "delimited", 2, {"split": True}),
        ("A~Create~1~x\ny", "delimited", 1, {}),
        ("BusinessObject=A\nX=1\n\nBusinessObject=A\nX=2\n", "namevalue", 2, {"split": True}),
        ("BusinessObject=A\r\nX=1\r\n\r\nBusinessObject=A\r\nX=2", "namevalue", 2, {"split": True}),
        ("# c\n X = a=b\n\nY=\n", "namevalue", 1, {"header": "none", "comment": "#"}),
        ("X=1\nY=2\n\n\nX=2\n", "namevalue", 2, {"header": "none", "split": True}),
    ],
)
def test_texts_may_have_several_records_or_no_name(
    tmp_path: Path, body: str, format_name: str, records: int, options: dict[str, Any]
) -> None:
    made = draft(body, format_name)
    assert made.options == options
    samples = Samples([(Path("sample"), body.encode())])
    reading = read_samples(made, samples, definitions(made, tmp_path))
    assert reading.mistakes == []
    assert len(reading.objects) == records
    assert format_of(Path("sample"), b"X=1\nY=2\n") == "namevalue"


@rows(
    "body, error",
    [
        ("X=1\nX=2\n", "the name 'X' stands twice in a record: line 2"),
        ("#c\nX=1\n;d\n", "found comments with # and with ;"),
    ],
)
def test_names_and_values_that_are_no_record_are_an_error(body: str, error: str) -> None:
    with pytest.raises(MalformedData, match=re.escape(error)):
        draft(body, "namevalue")


@rows(
    "first, second, type_name",
    [
        ("1", "2", "Integer"),
        ("7", "7", "String"),
        ("1.5", "1.5", "String"),
        ("-0", "12", "String"),
        ("-0.0", "1.5", "String"),
        ("-5", "12", "Integer"),
    ],
)
def test_texts_are_numbers_only_where_none_would_change(first: str, second: str, type_name: str) -> None:
    made = draft_all(f"<O><A>{first}</A></O>", f"<O><A>{second}</A></O>", format_name="xml")
    assert shapes(made)["Order"] == {"A": type_name}


def test_the_key_is_the_most_likely_attribute() -> None:
    for sample, key in (
        ('{"CustomerId": 1, "order_id": 2, "id": 3}', "order_id"),
        ('{"CustomerId": 1, "ID": 3}', "ID"),
        ('{"paid": 1, "customer_id": 3}', "customer_id"),
        ('{"c": {"a": 1}, "paid": 1, "grid": 3}', "paid"),
    ):
        assert [one.name for one in draft(sample, "json").top.attributes.values() if one.is_key] == [key]
    line = draft('{"Line": [{"OrderId": 1, "LineId": 2}]}', "json")
    assert "Order_Line: is LineId its key?" in line.checks


def test_children_get_names_that_are_free() -> None:
    samples = Samples([(Path("s"), b'{"Line": {"x": 1}, "Line_2": {"y": 1}}')])
    made = draft_of("Order", samples, "json", {"Order_Line"})
    assert list(shapes(made)) == ["Order", "Order_Line_2", "Order_Line_2_2"]
    deep: dict[str, Any] = {"x": 1}
    for _ in range(100):
        deep = {"part": deep}
    made = draft(json.dumps(deep), "json")
    names = list(shapes(made))
    assert len(names) == len(set(names)) == 101
    assert max(map(len, names)) == 80


def test_another_object_and_verb_in_the_sample_are_noted() -> None:
    made = draft('{"BusinessObject": "Bestellung", "Verb": "Upsert", "id": 1}', "json")
    assert "the sample says 'Bestellung': a rule has to name Order" in made.checks
    verbs = made.documents()[0].entries["verbs"]
    assert list(verbs) == ["Create", "Update", "Delete", "Retrieve", "Upsert"]


def test_the_first_record_of_separated_values_names_the_attributes(tmp_path: Path) -> None:
    made = draft('\ufeffOrder No;Amount;"Note; more"\r\n7;1.5;"a\nb"\r\n8;2;\r\n', "csv")
    assert shapes(made)["Order"] == {"Order_No": "String name=Order No", "Amount": "String"}
    assert made.left_out == ["Order.Note; more: no tag can carry this name"]
    assert "the values are separated by ';': an option of the data handler" in made.checks
    definitions(made, tmp_path)


def test_columns_may_name_the_object_and_the_verb() -> None:
    made = draft("BusinessObject,Verb,Id\nBestellung,Upsert,1\nBestellung,Create,2\n", "csv")
    assert shapes(made)["Order"] == {"Id": "String"}
    assert made.checks.count("the sample says 'Bestellung': a rule has to name Order") == 1
    assert "Upsert" in made.documents()[0].entries["verbs"]


def test_a_delimited_sample_has_a_name_a_verb_and_values_without_names(tmp_path: Path) -> None:
    body = "Order~Create~O\\~1~7~CxIgnore~2024-05-31\r\n"
    made = draft(body, "delimited")
    assert shapes(made)["Order"] == {
        "Attribute1": "String",
        "Attribute2": "String",
        "Attribute3": "String",
        "Attribute4": "Date",
    }
    assert any("rename Attribute1" in text for text in made.checks)
    known = definitions(made, tmp_path)
    bo = DelimitedHandler(defaults(DelimitedHandler), known).to_business_object(body, None)
    finish(bo)
    assert bo.as_dict() == {"Attribute1": "O~1", "Attribute2": "7", "Attribute4": "2024-05-31"}


NAMES_AND_VALUES = """
    BusinessObject=Order Verb=Create AttributeCount=4 OrderId=O-1 Line=2
    BusinessObject=Order_Line Verb= Article=a=b Price=1.5 Part=0 ObjectEventId=1
    BusinessObject=Order_Line Verb= Article=c Price=2 Part=1
    BusinessObject=Order_Line Article=d ObjectEventId= ObjectEventID=2
    None=CxIgnore Zero=0 ShipTo=1 BusinessObject=Address City=Ulm ObjectEventId=3 Total=3.5 ObjectEventId=4
"""
"""A body, whose lines stand beside each other here."""


def test_names_and_values_with_children(tmp_path: Path) -> None:
    lines = NAMES_AND_VALUES.split()
    made = draft("\n".join(lines), "namevalue")
    assert shapes(made) == {
        "Order": {
            "OrderId": "String",
            "Line": "Order_Line n",
            "None": "String",
            "Zero": "String",
            "ShipTo": "Address",
            "Total": "String",
        },
        "Order_Line": {"Article": "String", "Price": "String", "Part": "Order_Line"},
        "Address": {"City": "String"},
    }
    known = definitions(made, tmp_path)
    assert "the sample has AttributeCount: the data handler needs ValidateAttrCount: true" in made.checks
    body = "\n".join(line for line in lines if line != "AttributeCount=4")
    bo = NameValueHandler(defaults(NameValueHandler), known).to_business_object(body, None)
    finish(bo)
    found = (bo["Line"][0]["Article"], bo["Line"][1]["Part"]["Article"], bo["ShipTo"]["City"])
    assert found == ("a=b", "d", "Ulm")


def test_a_child_of_a_taken_name_has_to_be_renamed() -> None:
    line = "BusinessObject=Order.Line\nA=%s\nObjectEventId=\n"
    body = f"BusinessObject=Order\nX=1\n{line % 1}Y=1\n{line % 'x'}"
    made = draft(body, "namevalue")
    assert shapes(made) == {"Order": {"X": "Order_X", "Y": "Order_X"}, "Order_X": {"A": "String"}}
    assert "the sample says 'Order.Line', expected Order_X: change one of them" in made.checks


@rows(
    "body, format_name, error",
    [
        ("[1]", "json", "record 1: found the number 1, expected a JSON object"),
        ('{"a": 1,}', "json", "the body is no JSON: "),
        ('{"a": 1, "a": 1}', "json", "the key 'a' stands twice in one object: line 1 column 10"),
        ('{"a":' * 300 + "1" + "}" * 300, "json", "the body is nested deeper than 200 levels"),
        ("<a>", "xml", "the body is no XML: "),
        ("<!DOCTYPE a []><a/>", "xml", "the body has a document type declaration"),
        ("<a>x</a>", "xml", "the root element holds text, expected elements: line 1"),
        ("<a>" * 220 + "</a>" * 220, "xml", "elements nested deeper than 200 levels: line 1"),
        ("a,b\n1\n", "csv", "found 1 values, expected 2 as in the first record: line 2"),
        ("a,a\n", "csv", "the name 'a' stands twice in the first record: line 1"),
        (
            "a,,b\n",
            "csv",
            "value 2 of the first record is empty, expected a name; if it is no header, ",
        ),
        ('a\n"b', "csv", 'value 1: the quote " is not closed: line 2'),
        ("\n\n", "csv", "the body is empty, expected a record with the names of the attributes"),
        ("," * 3000, "csv", "more than 2000 values in a record: line 1"),
        (b"a,b\n\xff,1", "csv", "the body is not utf-8: byte 4"),
        ("Order~Create", "delimited", "found 2 values, expected name, verb and values between ~"),
        ("~" * 3000, "delimited", "more than 2000 values"),
        ("a.b=c", "namevalue", "expected BusinessObject=... in the first line"),
        ("BusinessObject=A\nb", "namevalue", "found 'b', expected Name=value: line 2"),
        ("BusinessObject=A\nX=\nBusinessObject=B", "namevalue", "X: found '', expected a number: line 2"),
        ("BusinessObject=A\nX=2\nBusinessObject=B", "namevalue", "X: expected 2 children: line 2"),
        (
            "BusinessObject=A\nObjectEventId=1\nX=1",
            "namevalue",
            "found 'X' after the end of the object: line 3",
        ),
        ("BusinessObject=A\nX=1\n" * 300, "namevalue", "nested deeper than 200 levels: line 401"),
    ],
)
def test_a_sample_that_is_not_of_its_format_is_an_error(
    body: str | bytes, format_name: str, error: str
) -> None:
    with pytest.raises(MalformedData) as raised:
        draft(body, format_name)
    assert str(raised.value).startswith(error)


@rows(
    "name, body, format_name",
    [
        ("a.json", ' {"a": 1}', "json"),
        ("a.txt", '{"a": 1}', "json"),
        ("a", '\ufeff{"$schema": "x"}', "json-schema"),
        ("a.json", '{"type": "object", "properties": {}}', "json-schema"),
        ("a.json", '{"type": "object", "amount": 1}', "json"),
        ("a.schema.json", "{}", "json-schema"),
        ("a.txt", "<?xml version='1.0'?><a/>", "xml"),
        ("a.xml", "<s:schema xmlns:s='http://www.w3.org/2001/XMLSchema'/>", "xsd"),
        ("a.xsd", "anything", "xsd"),
        ("a.csv", "a~b", "csv"),
        ("a.TSV", "a", "csv"),
        ("a.txt", "a,b\n1,2", "csv"),
        ("a.txt", "Order~Create~1", "delimited"),
        ("a.txt", '[{"a": 1}]', "json"),
        ("a.xml", '<!DOCTYPE a SYSTEM "a.dtd"><a/>', "xml"),
        ("a.txt", "BusinessObject=A\n", "namevalue"),
    ],
)
def test_the_format_is_that_of_the_suffix_or_of_the_content(name: str, body: str, format_name: str) -> None:
    assert format_of(Path(name), body.encode()) == format_name
    assert format_name in FORMATS


@rows(
    "body, format_name, attributes, check",
    [
        (
            '[{"A": "x"}, {"A": "y", "B": "z"}]',
            "json",
            "A B",
            "the sample is a list: the data handler needs split: true",
        ),
        ('{"A": {"B": null}}', "json", "A", "null means not set: the data handler needs null: value"),
        (
            '<a xmlns:x="http://www.w3.org/2001/XMLSchema-instance"><A x:nil="1"/></a>',
            "xml",
            "A",
            "xsi:nil means not set: the data handler needs null: value",
        ),
        (
            '<!DOCTYPE a SYSTEM "a.dtd"><a><A>1</A></a>',
            "xml",
            "A",
            "the sample has a document type: the data handler needs doctype: ignore",
        ),
        (
            'A\tB\n"1\t2"\n',
            "csv",
            "A B",
            "quotes are characters like any other: the data handler needs quote: none",
        ),
        (" A ; B \n1;2\n", "csv", "A B", "the values are separated by ';'"),
        ("sep=|\r\nA|B\r\n1|2\r\n", "csv", "A B", ""),
        ("A,B\r1,2\r", "csv", "A B", ""),
    ],
)
def test_a_draft_reads_what_the_data_handler_reads(
    body: str, format_name: str, attributes: str, check: str
) -> None:
    made = draft(body, format_name)
    assert (list(made.top.attributes), made.left_out) == (attributes.split(), [])
    assert not check or any(one.startswith(check) for one in made.checks)


def test_what_only_looks_like_delimited_text_is_unknown() -> None:
    with pytest.raises(MalformedData, match="for another format, connector new datahandler drafts a data"):
        format_of(Path("a"), b"ISA*00*   *ZZ*0*T*>~\nGS*PO~\n")


def test_lines_of_json_are_counted_in_the_file() -> None:
    with pytest.raises(MalformedData, match=r"^record 2: .*: line 3 column 9$"):
        draft('{"a": 1}\n\n{"a": 1,\n', "jsonlines")


def test_xml_in_another_encoding_is_xml() -> None:
    assert format_of(Path("a"), "<?xml version='1.0' encoding='UTF-16'?><a/>".encode("utf-16")) == "xml"
    with pytest.raises(
        MalformedData, match="the format is not known: line 1: found 'hello', expected a sample"
    ):
        format_of(Path("a"), b"hello")


def test_a_sample_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    with open(tmp_path / "huge", "wb") as file:
        file.truncate((16 << 20) + 1)
    reasons = {"gone": "cannot be read: No such file", "empty": "is empty", "huge": "is larger than 16 MiB"}
    for name, reason in reasons.items():
        with pytest.raises(MalformedData, match=reason):
            read_sample(tmp_path / name)


plain_names = st.text("abAB_1", min_size=1, max_size=4)
values = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.dates().map(str)
)
objects: st.SearchStrategy[Any] = st.deferred(
    lambda: st.dictionaries(plain_names, values | objects | st.lists(objects, max_size=3), max_size=4)
)


@given(objects)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_object_converts_by_its_draft(tmp_path: Path, sample: dict[str, Any]) -> None:
    body = json.dumps(sample).encode()
    made = draft(body, "json")
    handler = JsonHandler(
        defaults(JsonHandler, IgnoreUndefinedAttributes=bool(made.left_out)), definitions(made, tmp_path)
    )
    handler.to_business_object(body, Hint("Order", "Create"))


elements = st.recursive(
    st.text("abc 019.-", max_size=6),
    lambda inner: st.lists(st.tuples(st.sampled_from(["a", "B", "c_1", "d-e"]), inner), max_size=4),
    max_leaves=12,
)


def tree(name: str, content: Any) -> etree._Element:
    node = etree.Element(name)
    if isinstance(content, str):
        node.text = content
    else:
        node.extend([tree(*part) for part in content])
    return node


@given(elements.filter(lambda content: not isinstance(content, str)))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_xml_document_of_plain_names_converts_by_its_draft(tmp_path: Path, content: Any) -> None:
    body = etree.tostring(tree("Order", content))
    made = draft(body, "xml")
    ignore = bool(made.left_out) or any(
        one.app_specific_info for o in made.objects for one in o.attributes.values()
    )
    handler = XmlHandler(defaults(XmlHandler, IgnoreUndefinedAttributes=ignore), definitions(made, tmp_path))
    handler.to_business_object(body, Hint("Order", "Create"))


@given(st.binary(max_size=60) | st.text('{}[]<>=~,\n"ab1 :/', max_size=40).map(str.encode))
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_a_draft_or_malformed(content: bytes) -> None:
    for format_name in (*FORMATS, None):
        try:
            draft(content, format_name or format_of(Path("a"), content))
        except MalformedData:
            pass


@given(st.text(max_size=100))
def test_any_name_has_a_clean_one(name: str) -> None:
    assert 0 < len(clean(name)) <= 80
    assert clean(clean(name)) == clean(name)
    assert clean(name).isascii()
