"""CSV: records, columns, types, and what other programs make of it."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import csv
import io
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.csv_handler import CsvHandler
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.columns import MAX_COLUMNS
from connector.formats.datahandler import Hint, SplittingHandler
from tests.datahandlers import definitions as tools
from tests.datahandlers.definitions import SAMPLES, define, known, make
from tests.tables import rows

ORDER = Hint("Order", "Create")
COLUMNS = {"Id": "String", "Text": "String", "Number": "Double", "Count": "Integer", "Done": "Boolean"}
PLAIN = known(define("Order", **COLUMNS, Secret="Ciphertext 5"))
TEXTS = known(define("Order", a="String", b="String", c="String"))


def handler(definitions: Definitions = PLAIN, **options: Any) -> CsvHandler:
    return make(CsvHandler, definitions, **options)


def order(values: dict[str, Any], definitions: Definitions = PLAIN) -> BusinessObject:
    return BusinessObject(definitions, "Order", "Create", values)


def customer(values: dict[str, Any]) -> BusinessObject:
    return BusinessObject(SAMPLES, "Customer", "Create", values)


def read(body: bytes | str, hint: Hint | None = ORDER, **options: Any) -> list[dict[str, Any]]:
    return [bo.as_dict() for bo in handler(**options).to_business_objects(body, hint)]


def refusal(body: bytes | str, hint: Hint | None = ORDER, **options: Any) -> str:
    return tools.refusal(read, body, hint, **options)


# --- records ----------------------------------------------------------------------------------


@rows(
    "rule, body, options, expected",
    [
        ("a record, an object", b'Id,Number\r\nA,1.5\r\n"B",\r\n\r\n,""\r\n', {}, [{"Id": "A", "Number": 1.5}, {"Id": "B"}, {"Number": ""}]),
        ("columns in any order, or missing", b"Count,Id\n7,A", {}, [{"Count": 7, "Id": "A"}]),
        ("spaces are part of a text, not of a number", b"Id,Number\n A , 1 ", {}, [{"Id": " A ", "Number": 1.0}]),
        ("empty is not set, with quotes it is blank", b'Id,Text,Number\n,"",\n"",,""', {}, [{"Text": ""}, {"Id": "", "Number": ""}]),
        ("another text means not set", b'Id,Text,Number\nNULL,"NULL",\n', {"null": "NULL"}, [{"Text": "NULL", "Number": ""}]),
        ("columns that the definition lacks", b'x,Id,"",x,Meta\n"a",A,b,c,d', {"IgnoreUndefinedAttributes": True}, [{"Id": "A"}]),
        *(
            ("any line end", end.join(["Id,Text", "A,x", "", 'B,"\r\n\r"', f"C,z{last}"]), {}, [{"Id": "A", "Text": "x"}, {"Id": "B", "Text": "\r\n\r"}, {"Id": "C", "Text": "z"}])
            for end in ("\r\n", "\n", "\r")
            for last in ("", end)
        ),
        *(("a byte order mark", "Id,Text\nA,Zoë".encode(charset), {}, [{"Id": "A", "Text": "Zoë"}]) for charset in ("utf-8-sig", "utf-16", "utf-32")),
    ],
)  # fmt: skip
def test_a_body_is_read(
    rule: str, body: bytes | str, options: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    assert read(body, **options) == expected, rule


def test_records_are_read_one_after_the_other() -> None:
    body = b"Id,Text\n" + b"A,some text\n" * 40_000
    one = handler(split=True)
    tracemalloc.start()
    begun = tracemalloc.get_traced_memory()[0]
    count = sum(bo["Id"] == "A" for bo in one.to_business_objects(body, ORDER))
    peak = tracemalloc.get_traced_memory()[1] - begun
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 1.2 * len(body)  # the text of the body


# --- writing ----------------------------------------------------------------------------------

FULL = {"Id": "A", "Text": 'a "b"', "Number": 1.5, "Count": 7, "Done": True}
BARE = {"write_header": False}


@rows(
    "values, options, body",
    [
        (FULL, {}, b'Id,Text,Number,Count,Done,Secret\r\nA,"a ""b""",1.5,7,true,\r\n'),
        (FULL, BARE, b'A,"a ""b""",1.5,7,true,\r\n'),
        (FULL, {**BARE, "escape": "\\", "quote": "'", "delimiter": " "}, b"A 'a \"b\"' 1.5 7 true \r\n"),
        (FULL, {**BARE, "escape": "\\"}, b'A,"a \\"b\\"",1.5,7,true,\r\n'),
        (
            FULL,
            {"write_type": True, "line_end": "\n"},
            b'BusinessObject,Verb,Id,Text,Number,Count,Done,Secret\nOrder,Create,A,"a ""b""",1.5,7,true,\n',
        ),
        ({"Id": "", "Number": ""}, {"header": False}, b'"",,"",,,\r\n'),
        ({"Id": "", "Text": "NULL"}, {"header": False, "null": "NULL"}, b'"","NULL",NULL,NULL,NULL,NULL\r\n'),
        *(
            ({"Text": "Zoë"}, {"charset": charset}, "Id,Text,Number,Count,Done,Secret\r\n,Zoë,,,,\r\n".encode(charset))
            for charset in ("ISO-8859-1", "utf-16", "utf-8-sig", "cp1252")
        ),
    ],
)  # fmt: skip
def test_a_body_is_written_and_read_back(
    values: dict[str, Any], options: dict[str, Any], body: bytes
) -> None:
    one = handler(**options)
    assert one.to_body(order(values)) == body
    if "write_header" not in options:
        assert one.to_business_object(body, ORDER) == order(values)


def test_objects_are_written_together_with_one_header() -> None:
    bos = [order({"a": str(number)}, TEXTS) for number in range(3)]
    one: SplittingHandler = handler(TEXTS, split=True)
    assert (one.splits, handler().splits) == (True, False)
    body = one.to_joint_body(bos)
    assert body == b"a,b,c\r\n0,,\r\n1,,\r\n2,,\r\n"
    reason = tools.refusal(handler(TEXTS).to_business_object, body, ORDER)
    assert reason == "found 3 records, expected one; set the option split"
    assert list(one.to_business_objects(body, ORDER)) == bos
    note = BusinessObject(SAMPLES, "Note", "Create", {"Text": "a"})
    with pytest.raises(MalformedData, match=r"^record 2: found a Note, expected a Customer"):
        handler(SAMPLES).to_joint_body([customer({"Name": "n"}), note])
    with pytest.raises(MalformedData, match="found no object"):
        one.to_joint_body([])


@rows(
    "values, reason",
    [
        ({"Address": [{"City": "a"}]}, "Customer: Address: found a list of objects (Address), which CSV cannot hold"),
        ({"Home": {"City": "a", "Before": {"City": "b"}}}, "Home.Before: found an object (Address) within such an"),
        ({"Home": {"Before": {}}}, "Customer: Home.Before: found an object (Address) within such an object"),
        ({"Home": {}}, "Customer: Home: found an object without a value, expected at least one"),
        ({"Name": "a\0"}, "Customer: Name: the character NUL is not allowed in CSV"),
        ({"Name": "a\ud800"}, "Customer: Name: the character '\\ud800' does not exist in utf-8"),
    ],
)  # fmt: skip
def test_what_csv_cannot_hold_is_refused(values: dict[str, Any], reason: str) -> None:
    one = handler(SAMPLES)
    assert reason in tools.refusal(one.to_body, customer(values))
    joint = tools.refusal(one.to_joint_body, [customer({"Name": ""}), customer(values)])
    assert joint.startswith("record 2: ")
    assert reason in joint


def test_an_empty_line_is_not_written() -> None:
    bo = BusinessObject(SAMPLES, "Note", "Create")
    with pytest.raises(MalformedData, match="Note: its record is an empty line, which cannot be read"):
        handler(SAMPLES).to_body(bo)
    assert handler(SAMPLES, null="-").to_body(bo) == b"Text\r\n-\r\n"


def test_the_page_of_formats_shows_a_body() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "data-formats.md").read_text()
    body = page.partition("```csv\n")[2].partition("```")[0]
    definitions = known(
        define("Order", CustomerId="String", Name="String", Limit="Double", Active="Boolean", Home="Place"),
        define("Place", Street="String", City="String"),
    )
    one = handler(definitions, split=True, line_end="\n")
    bos = list(one.to_business_objects(body, ORDER))
    home = {"Street": "Nygade 1", "City": "København"}
    assert [bo.as_dict() for bo in bos] == [
        {"CustomerId": "C-1", "Name": "Miller, Zoë", "Limit": 100.5, "Active": True, "Home": home},
        {"CustomerId": "C-2", "Name": ""},
    ]
    assert one.to_joint_body(bos).decode() == body
    reason = page.partition(
        "The reason names the record, the column with its number, and the line:\n\n```text\n"
    )[2]
    wrong = body.replace('C-2,"",,,,', 'C-2,,,,,\nC-3,,"1,5",,,')
    assert refusal(wrong, definitions=definitions) == reason.partition("\n")[0]


# --- columns ----------------------------------------------------------------------------------


def test_a_tag_names_the_column() -> None:
    definitions = known(
        define("Order", Id="String name=Order No.;type=x", To="Place name=Deliver To", From="Place"),
        define("Place", Town="String name=City; x=y"),
    )
    bo = order({"Id": "1", "To": {"Town": "Oslo"}, "From": {"Town": "Rome"}}, definitions)
    body = handler(definitions).to_body(bo)
    assert body == b"Order No.,Deliver To.City,From.City\r\n1,Oslo,Rome\r\n"
    assert handler(definitions).to_business_object(body, ORDER) == bo
    assert "the header: column 'Id': the attribute Id of Order is 'Order No.' in CSV" in refusal(
        b"Order No.,Id\n1,2", definitions=definitions
    )


def test_two_attributes_cannot_have_one_column_and_an_object_needs_one() -> None:
    definitions = known(define("Order", a="String name=b", b="String x=y"))
    for reason in (
        refusal(b"b\n1", definitions=definitions),
        tools.refusal(handler(definitions).to_body, order({}, definitions)),
    ):
        assert "Order: two attributes have the column 'b'" in reason
    assert "Order has no attribute that CSV can hold" in refusal(b"b\n1", definitions=known(define("Order")))


def test_objects_within_objects_without_end_do_not_hang() -> None:
    levels = 30
    last = define(f"N{levels}", x="String")
    wide = [define(f"N{n}", a=f"N{n + 1}", b=f"N{n + 1}") for n in range(levels)]
    assert f"N0 has more than {MAX_COLUMNS} columns" in refusal(
        b"x\n1", Hint("N0"), definitions=known(*wide, last)
    )
    deep = [define(f"N{n}", x="String", c=f"N{n + 1}") for n in range(3000)]
    definitions = known(*deep, define("N3000", x="String"))
    assert read(b"c.c.x\n1", Hint("N0"), definitions=definitions) == [{"c": {"c": {"x": "1"}}}]


@rows(
    "header, reason",
    [
        ("Name,Nmae", "the header: column 'Nmae': no such attribute in Customer, did you mean 'Name'?; define it, or set IgnoreUndefinedAttributes: line 1"),
        ("Name,Meta", "column 'Meta': holds a meta-object of Customer, which is never part of a body"),
        ("Name,Meta.MessageID", "column 'Meta.MessageID': no such attribute in Customer"),
        ("Name,Home", "column 'Home': no such attribute in Customer"),
        ("Name,Address", "column 'Address': Address is a list of objects (Address), which CSV cannot hold"),
        ("Name,Address.City", "column 'Address.City': Address is a list of objects"),
        ("Home.City,Home.Before.City", "'Home.Before.City': Home.Before is an object (Address) within such an"),
        ("Name,Rating,Name", "the header: column 'Name' stands twice, expected each name once: line 1"),
        ("Name,Verb,Verb", "the header: column 'Verb' stands twice"),
        ('Name,"x', 'the header: field 2: the quote " is not closed: line 1'),
        ('\n\nName,"x"y', "the header: field 2: found text after the closing quote"),
        ("\n\nName,Nmae", "; define it, or set IgnoreUndefinedAttributes: line 3"),
        ("x," * 20_000, "the header: found more than 16384 fields: line 1"),
    ],
)  # fmt: skip
def test_a_wrong_header_is_refused(header: str, reason: str) -> None:
    assert reason in refusal(f"{header}\n1,2,3", Hint("Customer"), definitions=SAMPLES)


# --- mistakes ---------------------------------------------------------------------------------


@rows(
    "body, reason",
    [
        ("", "the body is empty, expected a header and a record"),
        ("\r\n \r\n", "the header names no attribute of Order"),
        ("A,geheim\n", "the header names no attribute of Order; set the option header to false if the first record is no header: line 1"),
        ("\r\n\r\n", "the body is empty, expected a header and a record"),
        ("Id,Text\r\n\r\n", "the body holds no record, only a header, expected a record"),
        ("Id,Number\nA,1\nB,x\n", "record 2: column 2 (Number): found the text 'x', expected a number: line 3"),
        ('Id,Count\n"A\n\nB",1\n\n"\r",\n"\r\n",7.0', "record 3: column 2 (Count): found the text '7.0', expected an"),
        ('Id,Count\n"A\n\nB",1\n\n"\r",\n"\r\n",7.0', "an integer: line 9"),
        ("Id,Text\nA\n", "record 1: found 1 fields, expected 2: line 2"),
        ("Id,Text\nA,B\nA,B,C\n", "record 2: found more than 2 fields, expected 2: line 3"),
        ('Id,Text\nA,"B\nC,D\n', 'record 1: column 2 (Text): the quote " is not closed: line 2'),
        ('Id,Text\nA,"B\n\n"C,D\n', "record 1: column 2 (Text): found text after the closing quote"),
        ('Id,Text\nA,B"\n', 'record 1: column 2 (Text): found the quote " within a field without quotes'),
        ("Id,Secret\nA,geheim", "record 1: column 2 (Secret): found a text of 6 characters, expected at most 5: line 2"),
        ("Id,Text\nA,b\0", "found the character NUL, which CSV does not allow: line 2"),
        (b"Id,Text\nA,\xff", "the body is not utf-8: byte 10"),
        (f"Id,{'x' * 100_000}\n1,2", "no such attribute"),
    ],
)  # fmt: skip
def test_a_wrong_body_is_refused_with_its_place(body: bytes | str, reason: str) -> None:
    text = refusal(body)
    assert reason in text
    assert "geheim" not in text
    assert len(text) < 300


@rows(
    "options, reason",
    [
        ({"delimiter": "|\n"}, "delimiter: found '|\\n'"),
        ({"header": False, "write_type": True}, "write_type needs a header"),
        ({"write_header": False, "write_type": True}, "write_type needs a header"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=r"expected|needs") as refused:
        handler(**options)
    assert reason in str(refused.value)


# --- type and verb ----------------------------------------------------------------------------


def test_the_columns_name_type_and_verb_where_no_rule_does() -> None:
    body = b"BusinessObject,Verb,Text,Name\nNote,Update,a,\nCustomer,,,b\n"
    assert "the header: column 'Name': no such attribute in Note" in refusal(body, None, definitions=SAMPLES)
    found = handler(SAMPLES, IgnoreUndefinedAttributes=True).to_business_objects(body, None)
    assert [(bo.type, bo.verb, bo.as_dict()) for bo in found] == [
        ("Note", "Update", {"Text": "a"}),
        ("Customer", None, {"Name": "b"}),
    ]
    body = b"Id,Verb\nA,Update\nB,\n"  # a rule without a verb leaves it to the record
    assert [bo.verb for bo in handler().to_business_objects(body, Hint("Order"))] == ["Update", None]
    assert [bo.verb for bo in handler().to_business_objects(body, ORDER)] == ["Create", "Create"]


@rows(
    "body, options, reason",
    [
        (b"Id\nA", {}, "neither a rule nor a column BusinessObject names a business object"),
        (b"A,B", {"header": False}, "neither a rule nor a column BusinessObject names a business object"),
        (b"Id,BusinessObject\nA,Order\nB,", {}, "record 2: neither a rule nor the column BusinessObject"),
        (b"Id,BusinessObject\nA,Order\n\nB,Ordr", {}, "record 2: no business object 'Ordr' is defined, did you"),
        (b"Id,BusinessObject\nA,Order\n\nB,Ordr", {}, "line 4"),
    ],
)  # fmt: skip
def test_a_record_that_names_no_defined_object_is_unknown(
    body: bytes, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnknownBusinessObject, match=reason):
        read(body, None, **options)


def test_attributes_called_so_are_attributes() -> None:
    definitions = known(define("Order", Verb="String", BusinessObject="String"))
    bo = order({"Verb": "run", "BusinessObject": "x"}, definitions)
    body = handler(definitions, write_type=True).to_body(bo)
    assert body == b"Verb,BusinessObject\r\nrun,x\r\n"
    assert handler(definitions).to_business_object(body, ORDER) == bo
    bo = handler(definitions).to_business_object(b"Verb,BusinessObject\nrun,Order", None)
    assert (bo.verb, bo.as_dict()) == (None, {"Verb": "run", "BusinessObject": "Order"})


def test_a_character_that_is_not_in_the_set_is_refused_with_its_place() -> None:
    bos = [order({"Text": text}) for text in ("", "a", "€")]
    with pytest.raises(MalformedData, match=r"record 3: Order: Text: the character '.u20ac' does not exist"):
        handler(charset="ISO-8859-1").to_joint_body(bos)
    definitions = known(define("Order", a="String name=€"))
    with pytest.raises(MalformedData, match="the header of Order: the character"):
        handler(definitions, charset="ISO-8859-1").to_body(order({"a": "b"}, definitions))


# --- other programs ---------------------------------------------------------------------------

VALUES = st.lists(
    st.lists(st.text(st.sampled_from("aé\",;\t|'\\ \r\n€")), min_size=3, max_size=3), min_size=1, max_size=5
)


@st.composite
def dialects(draw: st.DrawFn) -> dict[str, Any]:
    escape = draw(st.sampled_from([None, "\\", "^"]))
    quoting = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC] + [csv.QUOTE_NONE] * bool(escape)
    return {
        "delimiter": draw(st.sampled_from(",;\t| ")),
        "quotechar": draw(st.sampled_from("\"'")),
        "escapechar": escape,
        "doublequote": escape is None or draw(st.booleans()),
        "lineterminator": draw(st.sampled_from(["\r\n", "\n", "\r"])),
        "quoting": draw(st.sampled_from(quoting)),
    }


def ours(dialect: dict[str, Any]) -> CsvHandler:
    return handler(
        TEXTS,
        delimiter=dialect["delimiter"],
        quote=dialect["quotechar"],
        escape=dialect["escapechar"] or "",
        line_end=dialect["lineterminator"],
        split=True,
    )


@settings(max_examples=200)
@given(dialect=dialects(), rows=VALUES)
def test_the_csv_module_reads_what_is_written(dialect: dict[str, Any], rows: list[list[str]]) -> None:
    bos = [order({**dict(zip("abc", row, strict=True)), "b": row[1] or None}, TEXTS) for row in rows]
    body = ours(dialect).to_joint_body(bos).decode()
    reading = {name: value for name, value in dialect.items() if name != "lineterminator"}
    reading |= {"doublequote": dialect["escapechar"] is None, "quoting": csv.QUOTE_MINIMAL, "strict": True}
    assert list(csv.reader(io.StringIO(body, newline=""), **reading)) == [["a", "b", "c"], *rows]


NUMBERS = st.lists(
    st.fixed_dictionaries(
        {
            "Id": st.text(st.sampled_from('aé", \n€'), min_size=1),
            "Text": st.none() | st.text(st.sampled_from('aé", \n€'), min_size=1),
            "Number": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "Count": st.integers(-(2**31), 2**31 - 1),
            "Done": st.booleans(),
        }
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=100)
@given(rows=NUMBERS)
def test_pandas_reads_the_types_of_what_is_written(rows: list[dict[str, Any]]) -> None:
    body = handler().to_joint_body([order(row) for row in rows])
    frame = pandas.read_csv(
        io.BytesIO(body),
        dtype={"Id": str, "Text": str, "Secret": str},
        na_values=[""],
        keep_default_na=False,
        float_precision="round_trip",
    )
    for row, found in zip(rows, frame.to_dict("records"), strict=True):
        for name, value in row.items():
            if value is None:
                assert isinstance(found[name], float)
                assert math.isnan(found[name])
            else:
                assert found[name] == value
