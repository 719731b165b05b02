"""The shipped handlers pass the shipped suite."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.binary_handler import BinaryHandler
from connector.datahandlers.csv_handler import CsvHandler
from connector.datahandlers.delimited_handler import DelimitedHandler
from connector.datahandlers.fixedwidth_handler import FixedWidthHandler
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.jsonlines_handler import JsonLinesHandler
from connector.datahandlers.namevalue_handler import NameValueHandler
from connector.datahandlers.soap_handler import SoapHandler
from connector.datahandlers.text_handler import TextHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.formats.datahandler import DataHandler, Hint
from connector.testing.datahandlers import Sample
from tests.datahandlers.definitions import WIDE, Suite, make

CUSTOMER = Hint("Customer", "Create")
NOTE = Hint("Note", "Create")
PLAIN = {
    "CustomerId": "C-1",
    "Active": True,
    "Rating": -2147483648,
    "Discount": 0.1,
    "Since": "2024-02-29T23:59:60.5+05:30",
    "Home": {"City": "Delft"},
}
FULL = {
    **PLAIN,
    "Name": 'Zoë <&> "quoted", \\ back',
    "Notes": "two\r\nlines\rand\n]]> 💶",
    "Limit": 1e300,
}
ADDRESSES = [
    {"AddressID": 1, "City": "Oslo", "Before": {"City": "Bergen"}},
    {"AddressID": 0, "City": " "},
]
LISTS = {
    "Tag": ["a", "", " <b> & c "],
    "Size": [-1, 2],
    "InStock": [True, ""],
    "Weight": [0.5],
    "Sold": ["2024-02-29"],
    "Price": Decimal("0.10"),
    "Rebate": [Decimal("12345678901234567890.50"), 7, ""],
    "Part": [{"Size": [7]}, {"Tag": ["x"]}],
}
SOME: list[tuple[str, str, dict[str, Any]]] = [
    ("Customer", "Create", {"CustomerId": "C-2", "Active": False, "Name": "n"}),
    ("Customer", "Create", {"Rating": "", "Since": "", "Limit": ""}),
    ("Note", "Create", {"Text": "a"}),
]
OBJECTS = (("Customer", "Update", {**FULL, "Address": ADDRESSES}), *SOME, ("Article", "Create", LISTS))


# --- JSON -------------------------------------------------------------------------------------


class TestJson(Suite):
    OBJECTS = OBJECTS
    HANDLERS = (make(JsonHandler),)
    BODIES = (
        Sample(b'{"CustomerId": "C1", "Name": null}', CUSTOMER, {"CustomerId": "C1"}),
        Sample(
            b'{"BusinessObject": "Customer", "Verb": "Update", "Rating": 7, "Address": [{"City": ""}]}',
            None,
            {"Rating": 7, "Address": [{"City": ""}]},
            "Customer",
            "Update",
        ),
    )
    MALFORMED = (
        *(b"", b"\n", b"[]", b"null", b"{", b"{} {}"),
        *(b'{"Rating": "7"}', b'{"Rating": 7.0}', b'{"Rating": NaN}'),
    )


class TestJsonLines(Suite):
    HANDLERS = (make(JsonLinesHandler),)
    OBJECTS = OBJECTS
    BODIES = (
        Sample(b'\n{"CustomerId": "C1", "Name": null}\r\n \t\r\n', CUSTOMER, {"CustomerId": "C1"}),
        Sample(
            b'\xef\xbb\xbf{"BusinessObject": "Note", "Verb": "Update", "Text": ""}',
            None,
            {"Text": ""},
            "Note",
            "Update",
        ),
    )
    MALFORMED = (b"", b"\n\r\n", b"[]", b"{", b"{}\n{}", b'{\n"Name": "a"}', b'{"Rating": "7"}', b"\xff")


# --- XML --------------------------------------------------------------------------------------


class TestXml(Suite):
    OBJECTS = OBJECTS
    HANDLERS = (make(XmlHandler),)
    BODIES = (
        Sample(b"<Customer><CustomerId>C1</CustomerId></Customer>", CUSTOMER, {"CustomerId": "C1"}),
        Sample(
            b'<Customer verb="Update"><!-- x --><Rating> 7 </Rating><Address><City/></Address></Customer>',
            None,
            {"Rating": 7, "Address": [{"City": ""}]},
            "Customer",
            "Update",
        ),
    )
    MALFORMED = (b"", b"\n", b"<Customer>", b"text", b"<Customer><Rating>x</Rating></Customer>", b"<a/><b/>")


ENVELOPE = '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope">{}</s:Envelope>'
NOTE_IN_SOAP = ENVELOPE.format("<s:Body><Note verb='Update'><Text>a</Text></Note></s:Body>").encode()


class TestSoap(Suite):
    HANDLERS = (make(SoapHandler, version="1.1"), make(SoapHandler, version="1.2"))
    OBJECTS = OBJECTS
    BODIES = (
        Sample(NOTE_IN_SOAP, None, {"Text": "a"}, "Note", "Update"),
        Sample(NOTE_IN_SOAP, NOTE, {"Text": "a"}),
    )
    MALFORMED = (b"", b"<Note/>", ENVELOPE.format("").encode(), ENVELOPE.format("<s:Body/>").encode())


# --- CSV --------------------------------------------------------------------------------------


class Csv(Suite):
    OBJECTS = (("Customer", "Update", FULL), *SOME)


class TestCsv(Csv):
    HANDLERS = (make(CsvHandler),)
    BODIES = (
        Sample(b"CustomerId,Name\r\nC1,\r\n", CUSTOMER, {"CustomerId": "C1"}),
        Sample(
            b'\n"Rating",Name,Home.City\n7,"a ""b"",\n",""',
            CUSTOMER,
            {"Rating": 7, "Name": 'a "b",\n', "Home": {"City": ""}},
        ),
        Sample(b"Verb,Rating,BusinessObject\nUpdate,7,Customer\n", None, {"Rating": 7}, "Customer", "Update"),
    )
    MALFORMED = (
        *(b"", b"\r\n\n", b"Rating", b"Rating\n7\n8", b"Rating\nx", b"Rating\n7,8", b"Rating,Name\n7"),
        *(b"Rating,Rating\n7,7", b'Rating\n"7', b"Ratting\n7", b"\xff", b"Name\n\0"),
    )


class TestTabSeparated(Csv):
    HANDLERS = (
        make(CsvHandler, delimiter="\\t", quote="'", escape="\\", null="\\N", line_end="\\n", split=True),
    )
    BODIES = (
        Sample(
            b"CustomerId\tName\tNotes\tHome.City\nC1\t\\N\t\t'\\N'\n",
            CUSTOMER,
            {"CustomerId": "C1", "Notes": "", "Home": {"City": "N"}},
        ),
        Sample(b"Notes\r'it''s\\'\\\r\n\t'", CUSTOMER, {"Notes": "it's'\r\n\t"}),
    )
    MALFORMED = (b"", b"Name\n'", b"Name\n\\", b"Name\nx\ty", b"Name,Rating\nx,1")


class TestCsvWithoutHeader(Csv):
    HANDLERS = (make(CsvHandler, header=False, charset="utf-16"),)
    BODIES = (
        Sample('"\ufeffa,b"'.encode("utf-16"), NOTE, {"Text": "\ufeffa,b"}),
        Sample('""\n'.encode("utf-16"), NOTE, {"Text": ""}),
    )
    MALFORMED = (b"", b"a", "a,b".encode("utf-16"), '"'.encode("utf-16"))


class TestCsvWithType(Csv):
    HANDLERS = (make(CsvHandler, write_type=True, null="NULL"),)
    BODIES = (
        Sample(
            b"BusinessObject,Verb,Name,Notes\nNote,Update,NULL,",
            CUSTOMER,
            {"Notes": ""},
            "Customer",
            "Create",
        ),
        Sample(b'Verb,BusinessObject,Text\nNULL,Note,"NULL"', None, {"Text": "NULL"}, "Note", None),
    )
    MALFORMED = (b"BusinessObject,Verb,BusinessObject,Name\nNote,Update,Note,x", b"BusinessObject\n")


# --- records ----------------------------------------------------------------------------------


class Records(Suite):
    """What its handlers write of a note is the sample."""

    OBJECTS = (
        (
            "Customer",
            "Update",
            {**PLAIN, "Name": "Zoë ~ \\ = quoted", "Address": [ADDRESSES[0], {"City": "Rom"}]},
        ),
        *SOME,
        ("Article", "Create", {"Tag": ["~", "", "="], "Part": [{"Size": [7, 8]}]}),
    )
    TEXT: ClassVar = ""
    END: ClassVar = b""

    @pytest.fixture
    def samples(self, handler: DataHandler) -> Sequence[Sample]:
        values = {"Text": self.TEXT}
        body = handler.to_body(BusinessObject(self.DEFINITIONS, "Note", "Update", values))
        assert isinstance(body, bytes)
        return [Sample(body, NOTE, values), Sample(body + self.END, None, values, "Note", "Update")]


class TestNameValue(Records):
    HANDLERS = (
        make(NameValueHandler),
        make(NameValueHandler, SkipCxIgnore=True),
        make(NameValueHandler, ValidateAttrCount=True, charset="UTF-16"),
    )
    TEXT = "hello = x"
    MALFORMED = (
        *(b"", b"\n", b"Text=a"),
        *(b"BusinessObject=Note\nVerb=\nNo=\n", b"BusinessObject=Note\nVerb=\nText"),
    )


class TestDelimited(Records):
    HANDLERS = (
        make(DelimitedHandler),
        make(DelimitedHandler, OmitObjectEventId=True, Delimiter="~~", Escape="="),
    )
    TEXT = "a ~~ \\ = b\n"
    MALFORMED = (b"", b"\n", b"Note", b"\xff", b"Note~~Create~~a~~b~~c~~d")


class TestFixedWidth(Records):
    is_exact = False  # pad characters around a value are lost
    DEFINITIONS = WIDE
    HANDLERS = (
        make(FixedWidthHandler, WIDE),
        make(FixedWidthHandler, WIDE, Alignment="RIGHT", PadCharacter="*"),
        make(FixedWidthHandler, WIDE, Alignment="LEFT", width="bytes"),
    )
    TEXT = "é x"
    END = b"\r\n"
    MALFORMED = (b"", b"\n", b"Note", b"Note" + b" " * 46 + b"Create" + b" " * 14 + b"x" * 50)


# --- a body that is one attribute ---------------------------------------------------------------


class TestText(Suite):
    is_exact = False  # the body of an object without a text is empty, and an empty body is a blank text
    HANDLERS = (make(TextHandler, charset="UTF-8"),)
    OBJECTS = tuple(("Note", "Create", {"Text": text}) for text in ("one", " é\r\n\0 "))
    BODIES = (Sample(b"some text\n", NOTE, {"Text": "some text\n"}), Sample(b"", NOTE, {"Text": ""}))
    MALFORMED = (b"caf\xe9", b"\xff\xfe")


class TestBinary(Suite):
    is_exact = False  # the body of an object without bytes is empty, and base64 has several forms
    # Any bytes are a right body.
    test_a_malformed_body_is_refused_with_a_reason = None  # type: ignore[assignment]
    test_nothing_of_a_refused_body_is_left_for_the_next = None  # type: ignore[assignment]
    HANDLERS = (make(BinaryHandler, attribute="Text"),)
    OBJECTS = tuple(("Note", "Create", {"Text": text}) for text in ("AP8=", ""))
    BODIES = (Sample(b"\0\xff", NOTE, {"Text": "AP8="}), Sample(b"", NOTE, {"Text": ""}))

    def test_a_big_text_arrives_whole(self, handler: DataHandler) -> None:  # type: ignore[override]
        body = bytes(range(256)) * 4096
        assert handler.to_body(handler.to_business_object(body, NOTE)) == body
