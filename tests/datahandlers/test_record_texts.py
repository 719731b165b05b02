"""Name-value, delimited and fixed-width text (WBI Data Handler Guide)."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.delimited_handler import DelimitedHandler
from connector.datahandlers.fixedwidth_handler import FixedWidthHandler
from connector.datahandlers.namevalue_handler import NameValueHandler
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from connector.formats.plan import MAX_DEPTH
from tests.datahandlers.definitions import SAMPLES, WIDE, define, known, make, refusal
from tests.tables import rows

SAMPLE = known(
    define("Order", Id="String 6", Total="Double 8", Line="Line*", Ship="Address", Text="String 10"),
    define("Line", Item="String 4"),
    define("Address", City="String 5"),
    define("Known", Id="String 4", ObjectEventId="String 8"),
)
VALUES = {"Id": "O-1", "Total": 2.5, "Line": [{"Item": "tea"}, {"Item": "rum"}], "Text": "hi"}


# --- the texts themselves ---------------------------------------------------------------------


def test_name_value_text_looks_as_in_the_source() -> None:
    body = make(NameValueHandler, SAMPLE, ValidateAttrCount=True).to_body(
        BusinessObject(SAMPLE, "Order", "Create", VALUES)
    )
    assert body == (
        b"BusinessObject=Order\nVerb=Create\nAttributeCount=5\nId=O-1\nTotal=2.5\n"
        b"Line=2\nBusinessObject=Line\nVerb=\nAttributeCount=1\nItem=tea\nObjectEventId=\n"
        b"BusinessObject=Line\nVerb=\nAttributeCount=1\nItem=rum\nObjectEventId=\n"
        b"Ship=CxIgnore\nText=hi\nObjectEventId=\n"
    )


def test_a_sample_in_the_form_of_the_source_is_read() -> None:
    body = (
        b"BusinessObject=Order\r\nVerb=Update\r\nId=O-1\r\nTotal=CxIgnore\r\nLine=1\r\nBusinessObject=Line\r\n"
        b"Verb=Create\r\nItem=CxBlank\r\nObjectEventID=L_17\r\nShip=1\r\nBusinessObject=Address\r\nVerb=\r\n"
        b"City=Oslo\r\nObjectEventID=\r\nText=\r\nObjectEventID=Order_12\r\n"
    )
    bo = make(NameValueHandler, SAMPLE).to_business_object(body, None)
    assert (bo.type, bo.verb) == ("Order", "Update")
    assert bo.as_dict() == {"Id": "O-1", "Line": [{"Item": ""}], "Ship": {"City": "Oslo"}}
    assert bo["Line"][0].verb == "Create"


def test_delimited_text_looks_as_in_the_source() -> None:
    bo = BusinessObject(SAMPLE, "Order", "Create", {**VALUES, "Text": "a~b\\c"})
    assert make(DelimitedHandler, SAMPLE).to_body(bo) == (
        b"Order~Create~O-1~2.5~2~Line~~tea~~Line~~rum~~CxIgnore~a\\~b\\\\c~"
    )
    assert make(DelimitedHandler, SAMPLE, OmitObjectEventId=True, Delimiter="|", CxIgnore="").to_body(bo) == (
        b"Order|Create|O-1|2.5|2|Line||tea|Line||rum||a~b\\\\c"
    )


def test_a_delimited_object_may_end_without_an_event_id_and_with_a_line_end() -> None:
    handler = make(DelimitedHandler, SAMPLE)
    for end in ("", "~", "~Order_7", "\n", "~\r\n"):
        bo = handler.to_business_object(f"Order~Create~O-1~2.5~0~~hi{end}", None)
        assert bo.as_dict() == {"Id": "O-1", "Total": 2.5, "Line": [], "Text": "hi"}
    assert handler.to_business_object("Order~Create~O-1~2.5~0~~hi", Hint("Order")).verb == "Create"


def test_fixed_width_text_looks_as_in_the_source() -> None:
    options: dict[str, Any] = {"BONameSize": 8, "BOVerbSize": 7, "BOCountSize": 3}
    bo = BusinessObject(SAMPLE, "Order", "Create", VALUES)
    assert make(FixedWidthHandler, SAMPLE, **options).to_body(bo) == (
        b"Order   Create O-1   2.5     2  Line           tea Line           rum 0  hi        "
    )
    right = make(FixedWidthHandler, SAMPLE, Alignment="RIGHT", PadCharacter="*", **options)
    assert right.to_body(bo) == (
        b"***Order*Create***O-1*****2.5**2****Line********tea****Line********rum**0********hi"
    )
    assert right.to_business_object(right.to_body(bo), None) == bo


def test_an_object_event_id_that_is_an_attribute_is_written_and_read() -> None:
    bo = BusinessObject(SAMPLE, "Known", "Create", {"Id": "7", "ObjectEventId": "E-1"})
    for kind in (NameValueHandler, DelimitedHandler, FixedWidthHandler):
        handler = make(kind, SAMPLE)
        assert handler.to_business_object(handler.to_body(bo), None) == bo
    for kind in (DelimitedHandler, FixedWidthHandler):
        handler = make(kind, SAMPLE, OmitObjectEventId=True)
        assert handler.to_business_object(handler.to_body(bo), None).as_dict() == {"Id": "7"}


def test_widths_may_count_bytes() -> None:
    options: dict[str, Any] = {"BONameSize": 8, "BOVerbSize": 7, "OmitObjectEventId": True, "width": "bytes"}
    handler = make(FixedWidthHandler, SAMPLE, **options)
    bo = BusinessObject(SAMPLE, "Known", "Create", {"Id": "éé"})
    assert handler.to_body(bo) == "Known   Create éé".encode()
    assert handler.to_business_object(handler.to_body(bo), None) == bo
    cut = refusal(handler.to_business_object, "Known   Create axxé".encode(), None)
    assert "a field cuts a character: byte 18" in cut
    bo["Id"] = "ééx"
    assert "Known: Id has 5 bytes, expected at most 4" in refusal(handler.to_body, bo)
    bo["Id"] = "xéé"
    cutting = make(FixedWidthHandler, SAMPLE, **options, Truncation=True)
    assert cutting.to_body(bo) == "Known   Create xé ".encode()
    bo["Id"] = "éééé"
    latin = make(FixedWidthHandler, SAMPLE, **options, charset="ISO-8859-1")
    assert latin.to_body(bo)[-4:] == b"\xe9" * 4


def test_a_byte_order_mark_is_no_part_of_the_first_field_and_one_in_a_value_stays() -> None:
    handler = make(FixedWidthHandler, SAMPLE, width="bytes", BONameSize=8, BOVerbSize=7)
    bo = BusinessObject(SAMPLE, "Known", "Create", {"Id": "\ufeffa"})
    body = handler.to_body(bo)
    assert handler.to_business_object(body, None) == bo
    assert isinstance(body, bytes)
    assert handler.to_business_object(b"\xef\xbb\xbf" + body, None) == bo


@rows(
    "kind, options, words",
    [
        (DelimitedHandler, {"Delimiter": ""}, "Delimiter"),
        (DelimitedHandler, {"Escape": "~"}, "Escape"),
        (DelimitedHandler, {"Escape": "ab"}, "Escape"),
        (NameValueHandler, {"CxBlank": "CxIgnore"}, "the same text"),
        (FixedWidthHandler, {"PadCharacter": ""}, "PadCharacter"),
        (FixedWidthHandler, {"PadCharacter": "é", "width": "bytes"}, "one byte"),
        (
            FixedWidthHandler,
            {"PadCharacter": "0", "Alignment": "LEFT"},
            "PadCharacter 0 needs Alignment RIGHT or",
        ),
        (FixedWidthHandler, {"PadCharacter": "1"}, "expected no digit but 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    kind: type[Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        make(kind, **options)


@rows(
    "kind, options, body, words",
    [
        (NameValueHandler, {}, "BusinessObject=Order\nVerb=\nTotal=x\n", "line 3: Order: Total: found the text 'x'"),
        (NameValueHandler, {}, "BusinessObject=Order\nVerb=\nTotl=1\n", "line 3: Order has no attribute 'Totl', did you"),
        (NameValueHandler, {}, "BusinessObject=Order\nVerb=\nId=1\nId=2\n", "line 4: Order: Id stands twice"),
        (NameValueHandler, {}, "BusinessObject=Order\nVerb=\nLine=2\nBusinessObject=Line\nVerb=\nItem=a\n", "line 7: found the end of the body, expected BusinessObject= with the name of object 2 of 2 of Line of Order"),
        (NameValueHandler, {}, "BusinessObject=Order\nVerb=\nLine=999999999\n", "1 of 999999999"),
        (NameValueHandler, {}, "BusinessObject=Order\nVerb=\nObjectEventId=\nmore\n", "line 4: found 'more' after the end of Order"),
        (NameValueHandler, {"ValidateAttrCount": True}, "BusinessObject=Order\nVerb=\nAttributeCount=2\nId=1\n", "AttributeCount is 2, but Order has 1"),
        (NameValueHandler, {"ValidateAttrCount": True}, "BusinessObject=Order\nVerb=\nId=1\n", "line 3: found 'Id=1', expected AttributeCount="),
        (DelimitedHandler, {}, "Order~Create~O-1~x~0~~hi", "field 4: Order: Total: found the text 'x'"),
        (DelimitedHandler, {}, " ", "the body is empty"),
        (DelimitedHandler, {}, "Order", "field 2: the body ends, expected the verb of Order"),
        (DelimitedHandler, {}, "Order~Create~O-1~2", "field 5: the body ends, expected Line of Order"),
        (DelimitedHandler, {}, "Order~Create~O-1~2~0~many", "field 6: Order: Ship: found 'many', expected a number of objects"),
        (DelimitedHandler, {}, "Order~Create~O-1~2~0~2", "field 6: Order: Ship: found 2 objects, expected at most one"),
        (DelimitedHandler, {}, "Order~Create~O-1~2~0~1", "field 7: the body ends, expected the name of object 1 of 1 of Ship"),
        (DelimitedHandler, {}, "Order~Create~O-1~2~0~1~Line", "field 7: Order: Ship: found 'Line', expected the object Address"),
        (DelimitedHandler, {}, "Order~Create~O-1~2~0~~hi~E~more", "field 9: found 1 more fields"),
        (DelimitedHandler, {}, "Order~Create~O-1~2~999999999~Line~~tea~", "object 2 of 999999999"),
        (DelimitedHandler, {}, "Order~Create~O-1\\", "ends after an escape character"),
        (DelimitedHandler, {}, "Known~Create~7~12345678x", "field 4: Known: ObjectEventId: found a text of 9 characters"),
        (NameValueHandler, {}, "BusinessObject=Known\nObjectEventId=12345678x\n", "line 2: Known: ObjectEventId: found a text of 9"),
        (FixedWidthHandler, {}, "Known".ljust(50) + "Create".ljust(20) + "ab", "character 71: the body ends after 2 of 4 characters, expected Id of Known"),
        (FixedWidthHandler, {}, "Known".ljust(50) + "Create".ljust(20) + "a".ljust(12) + "x", "character 83: found 1 more characters"),
        (FixedWidthHandler, {}, "Order".ljust(50) + "Create".ljust(20) + "a".ljust(6) + "1x".ljust(8), "character 77: Order: Total: found the text '1x'"),
        (FixedWidthHandler, {}, "Order".ljust(50) + "Create".ljust(20) + "a".ljust(6) + "1".ljust(8) + "999", "of object 1 of 999"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(
    kind: type[Any], options: dict[str, Any], body: str, words: str
) -> None:
    assert words in refusal(make(kind, SAMPLE, **options).to_business_object, body, None)


@rows("kind", [NameValueHandler, DelimitedHandler, FixedWidthHandler])
def test_objects_are_nested_as_deeply_as_the_limit_and_no_deeper(kind: type[Any]) -> None:
    handler = make(kind, WIDE, CxIgnore="-")
    outermost = innermost = BusinessObject(WIDE, "Address")
    for _ in range(MAX_DEPTH - 1):
        innermost = innermost.add("Before")
    assert handler.to_business_object(handler.to_body(outermost), None) == outermost
    innermost.add("Before")
    assert "Address is nested deeper than 200 levels" in refusal(handler.to_body, outermost)
    if kind is DelimitedHandler:
        body = "Address~~-~-~1~" * MAX_DEPTH + "Address~~-~-~-"
        reason = refusal(handler.to_business_object, body, None)
        assert reason == "field 1001: nested deeper than 200 levels"


@rows(
    "kind, options, values, words",
    [
        (NameValueHandler, {}, {"Id": "a\nb"}, "Id contains a line break"),
        (NameValueHandler, {}, {"Text": "CxIgnore"}, "Text is the text of a special value"),
        (NameValueHandler, {"CxBlank": ""}, {"Id": ""}, "Id is blank, and CxBlank gives no text"),
        (DelimitedHandler, {}, {"Text": "CxBlank"}, "Text is the text of a special value"),
        (FixedWidthHandler, {}, {"Text": "x" * 10, "Total": 0.123456789}, "Total has 11 characters, expected at most 8"),
        (FixedWidthHandler, {}, {"Id": "  "}, "Id has only pad characters"),
    ],
)  # fmt: skip
def test_a_value_that_would_be_lost_is_not_written(
    kind: type[Any], options: dict[str, Any], values: dict[str, Any], words: str
) -> None:
    bo = BusinessObject(SAMPLE, "Order", "Create", values)
    assert words in refusal(make(kind, SAMPLE, **options).to_body, bo)


def test_a_text_without_a_width_is_told() -> None:
    bo = BusinessObject(SAMPLES, "Note", "Create", {"Text": "a"})
    assert "Note: Text has no width: give max_length" in refusal(make(FixedWidthHandler).to_body, bo)


@rows("piece", ["~", "a~", "\n", "a\n", "=\n", "Item=x\n", " ", "\\", "\\~", "x"])
@rows("kind", [NameValueHandler, DelimitedHandler, FixedWidthHandler])
def test_a_body_needs_a_small_multiple_of_its_size(kind: type[Any], piece: str) -> None:
    begin = {
        NameValueHandler: "BusinessObject=Order\nVerb=\nLine=999999999\nBusinessObject=Line\nVerb=\n",
        DelimitedHandler: "Order~Create~O-1~1~999999999~Line~~",
    }.get(kind, "Order".ljust(50) + "Create".ljust(20) + "O-1".ljust(6) + "1".ljust(8) + "999")
    body = (begin + piece * (1 << 16)).encode()[: 1 << 16]
    handler = make(kind, SAMPLE)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedData):
            handler.to_business_object(body, None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 80 * len(body)
