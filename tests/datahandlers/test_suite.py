"""The shipped handlers pass the shipped suite."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.json_handler import JsonHandler
from connector.datahandlers.text_handler import TextHandler
from connector.datahandlers.xml_handler import XmlHandler
from connector.formats.datahandler import DataHandler, Hint, resolve_options
from connector.testing.datahandlers import DataHandlerSuite, Sample, sample_definitions

DEFINITIONS = sample_definitions()
CUSTOMER = Hint("Customer", "Create")
FULL = {
    "CustomerId": "C-1",
    "Name": 'Zoë <&> "quoted" \\ back',
    "Notes": "two\nlines ]]> 💶",
    "Active": True,
    "Rating": -2147483648,
    "Discount": 0.1,
    "Limit": 1e300,
    "Since": "2024-02-29T23:59:60.5+05:30",
    "Home": {"City": "Delft"},
    "Address": [
        {"AddressID": 1, "City": "Oslo", "Before": {"City": "Bergen"}},
        {"AddressID": 0, "City": " "},
    ],
}

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


def customers() -> list[BusinessObject]:
    return [
        BusinessObject(DEFINITIONS, "Customer", "Update", FULL),
        BusinessObject(
            DEFINITIONS, "Customer", "Create", {"CustomerId": "C-2", "Active": False, "Name": "n"}
        ),
        BusinessObject(DEFINITIONS, "Customer", "Create", {"Rating": "", "Since": "", "Limit": ""}),
        BusinessObject(DEFINITIONS, "Note", "Create", {"Text": "a"}),
        BusinessObject(DEFINITIONS, "Article", "Create", LISTS),
    ]


class TestJson(DataHandlerSuite):
    @pytest.fixture
    def handler(self) -> DataHandler:
        return JsonHandler({"IgnoreUndefinedAttributes": False, "write_type": True}, DEFINITIONS)

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        return customers()

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return [
            Sample(b'{"CustomerId": "C1", "Name": null}', CUSTOMER, {"CustomerId": "C1"}),
            Sample(
                b'{"BusinessObject": "Customer", "Verb": "Update", "Rating": 7, "Address": [{"City": ""}]}',
                None,
                {"Rating": 7, "Address": [{"City": ""}]},
                "Customer",
                "Update",
            ),
        ]

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        return [
            b"",
            b"\n",
            b"[]",
            b"null",
            b"{",
            b'{"Rating": "7"}',
            b'{"Rating": 7.0}',
            b'{"Rating": NaN}',
            b"{} {}",
        ]


class TestXml(DataHandlerSuite):
    @pytest.fixture
    def handler(self) -> DataHandler:
        return XmlHandler(
            resolve_options(XmlHandler.options, {"BOPrefix": "", "IgnoreUndefinedAttributes": False}, "test"),
            DEFINITIONS,
        )

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        return customers()

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return [
            Sample(b"<Customer><CustomerId>C1</CustomerId></Customer>", CUSTOMER, {"CustomerId": "C1"}),
            Sample(
                b'<Customer verb="Update"><!-- x --><Rating> 7 </Rating>'
                b"<Address><City/></Address></Customer>",
                None,
                {"Rating": 7, "Address": [{"City": ""}]},
                "Customer",
                "Update",
            ),
        ]

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        return [b"", b"\n", b"<Customer>", b"text", b"<Customer><Rating>x</Rating></Customer>", b"<a/><b/>"]


class TestText(DataHandlerSuite):
    is_exact = False  # the body of an object without a text is empty, and an empty body is a blank text

    @pytest.fixture
    def handler(self) -> DataHandler:
        return TextHandler({"attribute": "Text", "charset": "UTF-8"}, DEFINITIONS)

    @pytest.fixture
    def objects(self) -> Sequence[BusinessObject]:
        return [
            BusinessObject(DEFINITIONS, "Note", "Create", {"Text": text}) for text in ("one", " é\r\n\0 ")
        ]

    @pytest.fixture
    def samples(self) -> Sequence[Sample]:
        return [
            Sample(b"some text\n", Hint("Note", "Create"), {"Text": "some text\n"}),
            Sample(b"", Hint("Note", "Create"), {"Text": ""}),
        ]

    @pytest.fixture
    def malformed(self) -> Sequence[bytes]:
        return [b"caf\xe9", b"\xff\xfe"]
