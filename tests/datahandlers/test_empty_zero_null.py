"""The empty, the zero and the null: one meaning in each format, as the page of the formats says."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import MIN_INTEGER
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint
from tests.datahandlers.definitions import define, kind_of, known, refusal
from tests.datahandlers.definitions import make as make_handler
from tests.tables import rows

DEFINITIONS = known(
    define(
        "Doc",
        Text="String 8",
        Count="Integer 11",
        Price="Double 24",
        Paid="Boolean 7",
        Day="Date 10",
        Cost="Decimal 12",
    ),
    define("Line", Item="String 8"),
    define("Order", Id="String 4", Line="Line*", Ship="Line", Tag="String* 8"),
)
RULE = Hint("Doc", "Create")
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "JSON": ("Json", {}),
    "JSON Lines": ("JsonLines", {}),
    "XML": ("Xml", {}),
    "SOAP": ("Soap", {}),
    "CSV": ("Csv", {}),
    "CSV with `null`": ("Csv", {"null": "NULL"}),
    "name-value": ("NameValue", {}),
    "name-value, skipping": ("NameValue", {"SkipCxIgnore": True}),
    "delimited": ("Delimited", {}),
    "fixed width": ("FixedWidth", {}),
    "fixed width, right": ("FixedWidth", {"Alignment": "RIGHT"}),
    "fixed width, bytes": ("FixedWidth", {"width": "bytes"}),
    "fixed width, zeros": ("FixedWidth", {"Alignment": "RIGHT", "PadCharacter": "0"}),
    "fixed width, zeros, both": ("FixedWidth", {"PadCharacter": "0"}),
    "fixed width, zeros, bytes": ("FixedWidth", {"PadCharacter": "0", "width": "bytes"}),
    "fixed width, words": ("FixedWidth", {"PadCharacter": "0", "CxIgnore": "none"}),
}


def make(name: str, **more: Any) -> DataHandler:
    kind, options = FORMATS[name]
    handler: DataHandler = make_handler(kind_of(kind), DEFINITIONS, **{**options, **more})
    return handler


def doc(values: dict[str, Any], name: str = "Doc") -> BusinessObject:
    return BusinessObject(DEFINITIONS, name, "Create", values)


def back(handler: DataHandler, bo: BusinessObject) -> dict[str, Any]:
    return handler.to_business_object(handler.to_body(bo), Hint(bo.type, "Create")).as_dict()


VALUES: dict[str, tuple[Any, ...]] = {
    "Text": ("x", "", "0x"),
    "Count": (0, 10, -10, MIN_INTEGER, ""),
    "Price": (0.0, -0.0, 100.0, 1e-07, ""),
    "Paid": (False, True, ""),
    "Cost": (Decimal("0"), Decimal("-100"), Decimal("0.10"), ""),
    "Day": ("2024-10-30", ""),
}


@rows("attribute, value", [(name, value) for name, values in VALUES.items() for value in values])
@rows("name", FORMATS)
def test_what_is_written_is_read_back(name: str, attribute: str, value: Any) -> None:
    values = {"Text": "a", attribute: value}  # CSV has no record without a value
    if value == "0x" and ("zeros" in name or "words" in name):
        assert "Text begins or ends with the PadCharacter" in refusal(make(name).to_body, doc(values))
    else:
        assert back(make(name), doc(values)) == values


def fixed(*texts: str) -> str:
    columns = zip([50, 20, 8, 11, 24, 7, 10, 12], ["Doc", "Create", *texts, *[""] * 6], strict=False)
    return "".join(f"{text:{width}}" for width, text in columns)


ZEROS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("0" * 11, "0" * 24, "0" * 7, "0" * 10, "0" * 12), {"Count": 0, "Price": 0.0, "Paid": False, "Cost": Decimal(0)}),
    (
        ("00000000100", f"{0.5:024}", "0000001", "2024-01-10", "-00000001.50"),
        {"Count": 100, "Price": 0.5, "Paid": True, "Day": "2024-01-10", "Cost": Decimal("-1.50")},
    ),
    (("-0000000100", f"{-100.5:024}", "00false", "0" * 10), {"Count": -100, "Price": -100.5, "Paid": False}),
    (("00000000-10", "+0", "      0", ""), {"Count": -10, "Price": 0.0, "Paid": False}),
    (("", "", "", ""), {}),
    (("    CxBlank", " " * 17 + "CxBlank", "CxBlank", "000CxBlank"), {"Count": "", "Price": "", "Paid": "", "Day": ""}),
]  # fmt: skip
READ: list[tuple[str, str, dict[str, Any]]] = [
    ("JSON", '{"Text": null, "Count": null, "Day": null}', {}),
    ("JSON", '{"Text": "", "Count": "", "Day": ""}', {"Text": "", "Count": "", "Day": ""}),
    ("JSON", '{"Count": 0, "Price": 0, "Paid": false}', {"Count": 0, "Price": 0.0, "Paid": False}),
    ("JSON", '{"Count": -0, "Price": -0.0}', {"Count": 0, "Price": 0.0}),
    ("JSON Lines", '{"Text": null, "Count": "", "Price": 0}\n', {"Count": "", "Price": 0.0}),
    ("XML", "<Doc/>", {}),
    ("XML", "<Doc><Text/><Count></Count><Day/></Doc>", {"Text": "", "Count": "", "Day": ""}),
    ("XML", "<Doc xmlns:x='http://www.w3.org/2001/XMLSchema-instance'><Count x:nil='1'/></Doc>", {}),
    ("XML", "<Doc><Count>000</Count><Price>-0</Price><Paid>0</Paid></Doc>", {"Count": 0, "Price": 0.0, "Paid": False}),
    ("XML", "<Doc><Text> </Text></Doc>", {"Text": " "}),
    ("CSV", "Text,Count,Price,Paid,Day\r\n,,,,2024-01-01", {"Day": "2024-01-01"}),
    ("CSV", 'Text,Count,Price,Paid,Day\r\n"","",0,0,""', {"Text": "", "Count": "", "Price": 0.0, "Paid": False, "Day": ""}),
    ("CSV with `null`", "Text,Count,Price\r\nNULL,NULL,00", {"Price": 0.0}),
    ("CSV with `null`", 'Text,Count,Price\r\n"NULL",,"0"', {"Text": "NULL", "Count": "", "Price": 0.0}),
    ("name-value", "BusinessObject=Doc\nText=\nCount=CxIgnore\nPrice=CxBlank\nPaid=0\nDay=", {"Price": "", "Paid": False}),
    ("name-value", "BusinessObject=Doc\rVerb=Create\rText=a\rCount=0\rObjectEventId=\r", {"Text": "a", "Count": 0}),
    ("name-value", "BusinessObject=Doc\r\nText=a\rCount=0\nPrice=1\r\n", {"Text": "a", "Count": 0, "Price": 1.0}),
    ("delimited", "Doc~Create~~CxIgnore~CxBlank~0~~", {"Price": "", "Paid": False}),
    ("delimited", "Doc~Create~CxBlank~000~-0~false~CxBlank~", {"Text": "", "Count": 0, "Price": 0.0, "Paid": False, "Day": ""}),
    ("fixed width", fixed(), {}),
    ("fixed width", fixed("CxBlank", "CxBlank", "0", "0"), {"Text": "", "Count": "", "Price": 0.0, "Paid": False}),
    ("fixed width, right", fixed("       x", "00000000100", "00.0", "false"), {"Text": "x", "Count": 100, "Price": 0.0, "Paid": False}),
    *(
        (name, fixed("0" * 8, *texts), expected)
        for name in FORMATS
        if "zeros" in name
        for texts, expected in ZEROS
    ),
]  # fmt: skip


@rows("name, body, expected", READ)
def test_each_notation_means_what_the_page_says(name: str, body: str, expected: dict[str, Any]) -> None:
    assert make(name).to_business_object(body, RULE).as_dict() == expected


@rows("name", FORMATS)
def test_an_empty_list_and_an_empty_child(name: str) -> None:
    keeps_lists = name.startswith(("JSON", "name-value", "delimited"))
    if name.startswith("CSV"):
        assert back(make(name), doc({"Id": "1", "Line": [], "Tag": []}, "Order")) == {"Id": "1"}
        reason = refusal(make(name).to_body, doc({"Id": "1", "Ship": {}}, "Order"))
        assert "Ship: found an object without a value" in reason
        return
    found = back(make(name), doc({"Id": "1", "Line": [], "Tag": []}, "Order"))
    assert found == ({"Id": "1", "Line": [], "Tag": []} if keeps_lists else {"Id": "1"})
    assert back(make(name), doc({"Id": "1", "Ship": {}}, "Order"))["Ship"] in ({}, {"Item": ""})


def test_a_whole_body_is_an_attribute() -> None:
    count = make_handler(kind_of("Text"), DEFINITIONS, attribute="Count")
    for kind in ("Text", "Binary"):
        handler = make_handler(kind_of(kind), DEFINITIONS, attribute="Text")
        assert handler.to_business_object(b"", RULE).as_dict() == {"Text": ""}
        assert handler.to_body(doc({})) in (b"", "")
    assert count.to_business_object(b"", RULE).as_dict() == {"Count": ""}
    assert count.to_business_object(b"000", RULE).as_dict() == {"Count": 0}
    assert back(count, doc({"Count": 0})) == {"Count": 0}


# --- fixed width ------------------------------------------------------------------------------


@rows("alignment, text", [("RIGHT", "0000000a"), ("BOTH", "a0000000")])
def test_a_number_padded_with_zeros_is_written_as_others_read_it(alignment: str, text: str) -> None:
    handler = make("fixed width, zeros", Alignment=alignment)
    body = handler.to_body(doc({"Text": "a", "Count": -100, "Price": 2.5, "Paid": True, "Cost": "-12.50"}))
    assert body[70:] == f"{text}-0000000100{2.5:024}000true{'0' * 10}-00000012.50".encode()


@rows("value", ["*a", "a*", "***"])
def test_a_value_with_the_pad_at_its_edge_is_not_written(value: str) -> None:
    words = "has only pad characters" if value == "***" else "begins or ends with the PadCharacter"
    assert f"Text {words}, which " in refusal(
        make("fixed width", PadCharacter="*").to_body, doc({"Text": value})
    )
    minus = make("fixed width, right", PadCharacter="-")
    assert "Count begins or ends with the PadCharacter" in refusal(minus.to_body, doc({"Count": -5}))


def test_only_the_fraction_of_a_number_is_cut_off() -> None:
    small = known(define("Doc", Text="String 2", Count="Integer 2", Price="Double 4", Paid="Boolean 2"))
    handler = make_handler(kind_of("FixedWidth"), small, Truncation=True)
    written = handler.to_body(BusinessObject(small, "Doc", "Create", {"Text": "ab", "Price": 0.123456}))
    assert written[70:] == b"ab  0.12  "
    for values in ({"Count": 123}, {"Price": 12345.5}, {"Price": 1.5e-7}, {"Paid": True}):
        reason = refusal(handler.to_body, BusinessObject(small, "Doc", "Create", values))
        assert "would be another value if cut" in reason


# --- nothing vanishes -------------------------------------------------------------------------

INSERTED = ["LOST", "7", "<LOST/>", "\0", '"', "=", ",", "~", "&", "{}"]


OBJECTS = [doc({"Text": "t", "Count": 5, "Paid": True}), doc({"Id": "1", "Ship": {"Item": "c"}}, "Order")]


@rows("bo", OBJECTS)
@rows("name", FORMATS)
def test_what_stands_anywhere_in_a_body_is_read_or_refused(name: str, bo: BusinessObject) -> None:
    """The page names the exceptions: instructions of XML, and values of ObjectEventIds."""
    options: dict[str, Any] = {"delimited": {"OmitObjectEventId": True}, "CSV": {"write_type": True}}
    handler = make(name, **options.get(name.split(" with")[0], {}))
    written = handler.to_body(bo)
    body = (written.decode() if isinstance(written, bytes) else written).removeprefix(
        "<?xml version='1.0' encoding='UTF-8'?>\n"
    )
    assert handler.to_business_object(body, None) == bo
    for text in INSERTED:
        for place in range(len(body) + 1):
            changed = f"{body[:place]}{text}{body[place:]}"
            if re.search(r"(?m)^ObjectEventId=.+$", changed):
                continue
            try:
                assert handler.to_business_object(changed, None) != bo, changed
            except MalformedData:
                pass  # refused


EDGES = ["\0", "\x01", "\t", "\n", "\r", "\r\n", "\x85", "\u2028", "\ufeff", "\ufffe", "\ud800", "\x7f", " "]
EDGES += ["]]>", "&", "<", "-->", "\\", "~", "=", ",", '"', "'", "%", "€", "\U0010ffff"]


@rows("charset", ["", "utf-16", "utf-8-sig", "iso-8859-1", "cp1252", "utf-16-le", "utf-32"])
@rows("name", FORMATS)
def test_each_character_at_the_edge_of_a_text_is_kept_or_refused(name: str, charset: str) -> None:
    """In fixed width, blanks at the edge of a text are pad characters."""
    try:
        handler = make(name, charset=charset)
    except ValueError as refused:
        assert "a character of one byte" in str(refused)  # noqa: PT017  # most of the formats have none
        return
    for edge in EDGES:
        for text in (edge, f"{edge}a", f"a{edge}", f"{edge}a{edge}"):
            bo = doc({"Text": text[:8]})
            try:
                body = handler.to_body(bo)
            except MalformedData:
                continue
            found = handler.to_business_object(body, RULE)
            if name.startswith("fixed"):
                assert found["Text"].strip(" ") == text[:8].strip(" ")
            else:
                assert found == bo
