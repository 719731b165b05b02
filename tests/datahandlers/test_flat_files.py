"""Flat files as they come: records without the header fields of the source, lines, and types of records."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.delimited_handler import DelimitedHandler
from connector.datahandlers.fixedwidth_handler import FixedWidthHandler
from connector.datahandlers.namevalue_handler import NameValueHandler
from connector.errors import ConfigurationError, MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint
from connector.testing.datahandlers import Sample, objects_of
from tests.datahandlers.definitions import Suite, define, known, make, refusal
from tests.tables import rows

FLAT = known(
    define("Price", Sku="String 6", Amount="Decimal 8", Since="Date 10", Place="Place"),
    define("Place", City="String 8", Zone="Integer 3"),
    define("Bank", Code="String 3", Day="String 8", Branches="Integer 4"),
    define(
        "Statement",
        "record=01",
        Account="String 6",
        Owner="Place",
        Entry="Entry*",
        Trailer="Trailer",
    ),
    define("Entry", "record=02", Amount="Decimal 8", Text="String 10", Note="Note*"),
    define("Note", "record=03", Text="String 5"),
    define("Trailer", "record=09", Count="Integer 3", Sum="Decimal 8"),
    define("Batch", "", Statement="Statement*", End="End"),
    define("End", "record=99", Count="Integer 3"),
    define("Loose", "record=01", Entry="Entry*", Note="Note*"),
    define("Twice", "record=01", One="Note", Other="Note*"),
    define("Bare", "", Name="String 5", Entry="Entry*"),
    define("Listed", "", Tag="String* 5"),
)
NO_NAMES: dict[str, Any] = {"BONameSize": 0, "BOVerbSize": 0, "BOCountSize": 0}
PRICE = Hint("Price", "Create")
STATEMENT = Hint("Statement", "Create")
ENTRIES: list[dict[str, Any]] = [
    {"Amount": Decimal("12.50"), "Text": "Rent", "Note": [{"Text": "late"}, {}]},
    {"Text": "Bread"},
]
BOOK: dict[str, Any] = {
    "Account": "A-1",
    "Owner": {"City": "Oslo"},
    "Entry": ENTRIES,
    "Trailer": {"Count": 2, "Sum": Decimal("12.50")},
}
FIXED_TEXT = (
    b"01A-1   Oslo       \n0212.50   Rent      \n03late \n03     \n02        Bread     \n092  12.50   \n"
)
DELIMITED_TEXT = b"01|A-1|Oslo|\n02|12.50|Rent\n03|late\n03|\n02||Bread\n09|2|12.50\n"
TYPED = make(FixedWidthHandler, FLAT, **NO_NAMES, record_type={"at": 1, "length": 2})
PIPES: dict[str, Any] = {"Delimiter": "|", "header": "none"}
DELIMITED = make(DelimitedHandler, FLAT, **PIPES, record_type={"field": 1})


# --- the suite --------------------------------------------------------------------------------


class TestFixedWidthWithoutNames(Suite):
    can_be_blank = False
    is_exact = False  # pad characters around a value are lost
    DEFINITIONS = FLAT
    HANDLERS = (
        make(FixedWidthHandler, FLAT, **NO_NAMES, split=True, line_end="\\r\\n", comment="#"),
        make(FixedWidthHandler, FLAT, **NO_NAMES, width="bytes", record_length=40, split=True),
    )
    OBJECTS = (
        ("Price", "Create", {"Sku": "B-1", "Amount": Decimal("2.50"), "Place": {"City": "Oslo"}}),
        ("Bank", "Update", {"Code": "CxB"}),
    )
    BODIES = (
        Sample(
            b"B-1   2.50    2024-05-31Oslo    7  ",
            PRICE,
            {
                "Sku": "B-1",
                "Amount": Decimal("2.50"),
                "Since": "2024-05-31",
                "Place": {"City": "Oslo", "Zone": 7},
            },
        ),
    )
    MALFORMED = (b"", b"\n", b"B-1", b"\xff", b"B-1   two     2024-05-31Oslo    7  ")


class TestDelimitedWithoutNames(Suite):
    can_be_blank = False
    DEFINITIONS = FLAT
    HANDLERS = (make(DelimitedHandler, FLAT, **PIPES, split=True, line_end="\r\n", comment="#"),)
    OBJECTS = (
        ("Price", "Create", {"Sku": "B|1\n", "Amount": Decimal("2.50"), "Place": {"City": "Oslo"}}),
        ("Listed", "Update", {"Tag": ["a", "b"]}),
    )
    BODIES = (
        Sample(b"1|20240531|5\n", Hint("Bank", "Create"), {"Code": "1", "Day": "20240531", "Branches": 5}),
        Sample(b"1|20240531|5|\n", Hint("Bank", "Create"), {"Code": "1", "Day": "20240531", "Branches": 5}),
        Sample(b"B\\|1||2024-05-31||\r\n", PRICE, {"Sku": "B|1", "Since": "2024-05-31"}),
    )
    MALFORMED = (b"", b"\n", b"1", b"1|2|x", b"1|2|3|4", b"1|2|3\n1|2|3", b"1|2|3\\", b"\xff")


class TestNameValueWithoutNames(Suite):
    can_be_blank = False
    DEFINITIONS = FLAT
    HANDLERS = (make(NameValueHandler, FLAT, header="none", SkipCxIgnore=True, comment=";"),)
    OBJECTS = (
        ("Price", "Create", {"Sku": "B = 1", "Place": {"City": "#1"}}),
        ("Listed", "Update", {"Tag": ["a", "b"]}),
    )
    BODIES = (
        Sample(
            b"  Code = 1 \n\n \t\nDay=\n\tBranches=5", Hint("Bank", "Create"), {"Code": "1", "Branches": 5}
        ),
    )
    MALFORMED = (b"", b"\n", b"BusinessObject=Bank\nVerb=\n", b"Code", b"Code=1\nCode=2", b"\xff")


class Typed(Suite):
    can_be_blank = False
    DEFINITIONS = FLAT
    OBJECTS = (
        ("Statement", "Create", BOOK),
        ("Statement", "Update", {"Account": "x"}),
        ("Batch", "Create", {"Statement": [BOOK, {"Trailer": {}}], "End": {"Count": 2}}),
    )
    TEXT: ClassVar = b""


class TestFixedWidthWithTypes(Typed):
    is_exact = False
    HANDLERS = (
        TYPED,
        make(FixedWidthHandler, FLAT, record_type={"at": 1, "length": 2}, BOCountSize=0, record_length=22),
    )
    BODIES = (Sample(FIXED_TEXT, STATEMENT, BOOK),)
    MALFORMED = (
        b"",
        b"02        Bread     \n",
        FIXED_TEXT + b"01A-1   Oslo       \n",
        FIXED_TEXT[:-1] + b"x",
    )

    @pytest.fixture
    def samples(self, handler: FixedWidthHandler) -> list[Sample]:
        body = handler.to_body(BusinessObject(FLAT, "Statement", "Create", BOOK))
        return [Sample(body, STATEMENT, BOOK)]


class TestDelimitedWithTypes(Typed):
    HANDLERS = (
        DELIMITED,
        make(DelimitedHandler, FLAT, record_type={"field": 1}, Delimiter="|", CxIgnore="", line_end="\r"),
    )
    BODIES = (Sample(DELIMITED_TEXT, STATEMENT, BOOK),)
    MALFORMED = (b"", b"02||Bread\n", DELIMITED_TEXT + b"01|A-1|Oslo|\n", b"01\n", b"1|a|b|c")


# --- what is written is read equal ------------------------------------------------------------

_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=5).map(str.strip)


def _bare(bo: BusinessObject) -> BusinessObject | None:
    """Returns an object whose texts fixed width can hold: without white space around them, not blank."""

    def clean(values: Any) -> Any:
        if isinstance(values, dict):
            return {
                name: clean(one) for name, one in values.items() if one not in ("", []) and clean(one) != ""
            }
        if isinstance(values, list):
            return [clean(one) for one in values]
        return values.strip() if isinstance(values, str) else values

    return BusinessObject(FLAT, bo.type, bo.verb, clean(bo.as_dict()))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_records_read_back_as_they_were_written(split: bool, line_end: str) -> None:
    handlers = (
        make(DelimitedHandler, FLAT, **PIPES, record_type={"field": 2}, split=split, line_end=line_end),
        make(
            FixedWidthHandler,
            FLAT,
            **NO_NAMES,
            record_type={"at": 3, "length": 2},
            split=split,
            line_end=line_end,
        ),
    )

    @settings(max_examples=100, deadline=None, database=None)
    @given(st.lists(objects_of(FLAT, "Statement", 3).map(_bare), min_size=1, max_size=3))
    def write(bos: list[BusinessObject]) -> None:
        for handler in handlers:
            for bo in bos:
                try:
                    body = handler.to_body(bo)
                except MalformedData:
                    continue
                assert handler.to_business_object(body, Hint(bo.type, bo.verb)) == bo
            if not split:
                continue
            try:
                body = handler.to_joint_body(bos)
            except MalformedData:
                continue
            again = list(handler.to_business_objects(body, STATEMENT))
            assert [one.as_dict() for one in again] == [bo.as_dict() for bo in bos]

    write()


# --- errors and refusals ----------------------------------------------------------------------


@rows(
    "handler, body, said",
    [
        (
            TYPED,
            b"02x\n",
            "line 1, columns 1 to 2: found a record '02', expected '01', with which Statement begins",
        ),
        (
            TYPED,
            FIXED_TEXT.replace(b"12.50   R", b"12,50   R"),
            "line 2, columns 3 to 10: Entry: Amount: found",
        ),
        (
            TYPED,
            FIXED_TEXT + b"05x",
            "line 7, columns 1 to 2: found a record '05', expected one of 01, 02, 09, 03",
        ),
        (
            TYPED,
            FIXED_TEXT + b"03x    ",
            "line 7, columns 1 to 2: found a record '03', where the order of Statement has none",
        ),
        (TYPED, FIXED_TEXT + b"01", "has none; or set the option split"),
        (TYPED, b"01A-1   Oslo       zz\n", "line 1, column 20: found 2 more characters after the end"),
        (
            TYPED,
            b"01A-1   Oslo\n",
            "line 1, columns 9 to 16: the line ends after 4 of 8 characters, and short_lines is not set",
        ),
        (TYPED, b"0", "line 1, columns 1 to 2: the line ends, expected a record type"),
        (
            DELIMITED,
            DELIMITED_TEXT.replace(b"12.50|R", b"12,50|R"),
            "line 2, field 2, column 4: Entry: Amount",
        ),
        (DELIMITED, b"01|A|B\n", "line 1, field 4, column 8: the line ends, expected Zone of Place"),
        (DELIMITED, b"01|A|B|1|9|8\n", "line 1, field 5, column 10: found 2 more fields"),
        (DELIMITED, b"01|A\\\n|B|x\n", "line 1, field 4, column 10: Place: Zone: found the text 'x'"),
    ],
)
def test_a_mistake_in_a_record_has_its_line_and_columns(handler: Any, body: bytes, said: str) -> None:
    assert said in refusal(handler.to_business_object, body, STATEMENT)


@rows(
    "type_name, values, said",
    [
        ("Loose", {"Entry": [{}], "Note": [{}]}, "a line '03' would be read as part of another"),
        ("Batch", {"End": {}}, "Statement is not set, and its line begins the lines of Batch"),
        ("Twice", {}, "two children have the record type '03'"),
        ("Bare", {}, "has the attribute Name, and no line; give it the tag record="),
        ("Listed", {}, "Tag is a list without a number of its objects"),
        ("Statement", {"Account": "a\nb"}, "Account contains a line break"),
        ("Statement", {"Account": "a", "Owner": {}}, "Owner: found an object without a value"),
    ],
)
def test_what_lines_cannot_hold_is_not_written(type_name: str, values: dict[str, Any], said: str) -> None:
    assert said in refusal(TYPED.to_body, BusinessObject(FLAT, type_name, "Create", values))


def test_records_are_written_as_they_came() -> None:
    bo = BusinessObject(FLAT, "Statement", "Create", BOOK)
    assert (TYPED.to_body(bo), DELIMITED.to_body(bo)) == (FIXED_TEXT, DELIMITED_TEXT)


MARKED = known(
    define("Book", "record=H", Kind="String record=type", Id="String 4", Line="Part*"),
    define("Part", "record=7", Sku="String 4", Kind="Integer record=type", Count="Integer 3"),
    define("Wrong", "record=H", Kind="Integer record=type"),
)
MARKS = {"Kind": "H", "Id": "O-1", "Line": [{"Sku": "B-1", "Kind": 7, "Count": 5}]}


@rows(
    "handler, body",
    [
        (
            make(FixedWidthHandler, MARKED, **NO_NAMES, record_type={"at": 1, "length": 2}),
            b"H O-1 \n7 B-1 5  \n",
        ),
        (make(DelimitedHandler, MARKED, **PIPES, record_type={"field": 2}), b"O-1|H\nB-1|7|5\n"),
    ],
)
def test_an_attribute_may_be_the_type_of_its_line(handler: Any, body: bytes) -> None:
    bo = handler.to_business_object(body, Hint("Book", "Create"))
    assert bo.as_dict() == MARKS
    assert handler.to_body(bo) == body
    del bo["Kind"]
    assert handler.to_body(bo) == body
    bo["Kind"] = "X"
    said = "Book: Kind: found the text 'X', expected 'H', the record type of its line"
    assert refusal(handler.to_body, bo) == said
    said = refusal(handler.to_body, BusinessObject(MARKED, "Wrong", "Create", {}))
    assert said == "Wrong: Kind is the record type: found the text 'H', expected an integer"


def test_each_group_of_lines_is_an_event_and_an_error_names_its_record() -> None:
    handler = make(DelimitedHandler, FLAT, **PIPES, record_type={"field": 1}, split=True, comment="#")
    body = b"# two statements\n" + DELIMITED_TEXT + b"\n" + DELIMITED_TEXT
    assert [bo.as_dict() for bo in handler.to_business_objects(body, STATEMENT)] == [BOOK, BOOK]
    broken = body.replace(b"Bread\n09|2", b"Bread\n09|x")
    said = refusal(lambda: list(handler.to_business_objects(broken, STATEMENT)))
    assert said.startswith("record 1: line 7, field 2, column 4: Trailer: Count: found the text 'x'")
    assert "found 2 records, expected one" in refusal(handler.to_business_object, body, STATEMENT)
    whole = make(DelimitedHandler, FLAT, **PIPES, record_type={"field": 1}, comment="#")
    batch = whole.to_business_object(body + b"99|2\n", Hint("Batch"))
    assert batch.as_dict() == {"Statement": [BOOK, BOOK], "End": {"Count": 2}}


def test_records_of_a_length_stand_without_line_ends() -> None:
    handler = make(
        FixedWidthHandler, FLAT, **NO_NAMES, split=True, record_length=16, charset="cp037", width="bytes"
    )
    values: list[dict[str, Any]] = [{"Code": "1", "Day": "20240531", "Branches": 5}, {"Code": "2"}]
    text = "1  20240531   5 2               ".replace("   5 ", "5    ")
    body = handler.to_joint_body([BusinessObject(FLAT, "Bank", "Create", one) for one in values])
    assert body == text.encode("cp037")
    assert [bo.as_dict() for bo in handler.to_business_objects(body, Hint("Bank"))] == values
    wrong = text.replace("5   ", "x   ").encode("cp037")
    said = refusal(lambda: list(handler.to_business_objects(wrong, Hint("Bank"))))
    assert said.startswith("record 1: record 1, columns 12 to 15: Bank: Branches")


def test_a_flat_record_needs_a_rule_and_is_one_line() -> None:
    fixed = make(FixedWidthHandler, FLAT, **NO_NAMES)
    flat = make(DelimitedHandler, FLAT, **PIPES)
    pairs = make(NameValueHandler, FLAT, header="none")
    for handler, body in ((fixed, b"1  20240531   5"), (flat, b"1|20240531|5"), (pairs, b"Code=1")):
        with pytest.raises(UnknownBusinessObject, match="names no business object"):
            handler.to_business_object(body, None)
    bo = BusinessObject(FLAT, "Bank", "Create", {"Code": "1", "Day": "20240531", "Branches": 5})
    assert (flat.to_body(bo), fixed.to_body(bo)) == (b"1|20240531|5", b"1  202405315   ")
    assert pairs.to_body(bo) == b"Code=1\nDay=20240531\nBranches=5\n"
    assert "found 2 records, expected one; set the option split" in refusal(
        flat.to_business_object, b"1|2|3\n4|5|6", Hint("Bank")
    )


def test_comments_and_blank_lines_of_name_value_text_count_as_lines() -> None:
    named = make(NameValueHandler, FLAT)
    body = b"# prices\nBusinessObject=Bank\n\nVerb=Create\nCode=#1\nBranches=x\n"
    assert refusal(named.to_business_object, body, None).startswith(
        "line 6: Bank: Branches: found the text 'x'"
    )
    assert named.to_business_object(body.replace(b"=x", b"=1"), None).as_dict() == {
        "Code": "#1",
        "Branches": 1,
    }
    bare = make(NameValueHandler, FLAT, header="none")
    said = refusal(bare.to_business_object, b"# c\n\n Code = 1 \n Branchs = 2", Hint("Bank"))
    assert said == "line 4: Bank has no attribute 'Branchs', did you mean 'Branches'?"


@rows(
    "kind, options, said",
    [
        (FixedWidthHandler, {"record_type": {"at": 1}}, "expected both at and length"),
        (FixedWidthHandler, {"record_type": {"field": 1}}, "a mapping of at, length to numbers from 1"),
        (
            FixedWidthHandler,
            {"record_type": {"at": 0, "length": 2}},
            "a mapping of at, length to numbers from 1",
        ),
        (FixedWidthHandler, {"record_type": "1"}, "a mapping of at, length to numbers from 1"),
        (FixedWidthHandler, {"split": True, "width": "bytes", "charset": "cp037"}, "give a record_length"),
        (DelimitedHandler, {"header": "no"}, "one of names, none"),
        (DelimitedHandler, {"line_end": "x"}, "line_end"),
        (DelimitedHandler, {"comment": "\n"}, "a text without a line break"),
    ],
)
def test_wrong_options_of_flat_files_are_refused(kind: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, ConfigurationError), match=said):
        make(kind, FLAT, **options)


def test_a_line_may_have_no_escape_character() -> None:
    handler = make(DelimitedHandler, FLAT, **PIPES, Escape="none", split=True)
    bank = Hint("Bank", "Create")
    (bo,) = handler.to_business_objects(b"C:\\|\\|5\r\n", bank)
    assert bo.as_dict() == {"Code": "C:\\", "Day": "\\", "Branches": 5}
    assert handler.to_body(bo) == b"C:\\|\\|5\n"
    assert "line 2, field 3, column 5" in refusal(
        lambda: list(handler.to_business_objects(b"a|b|1\n\\|c|x", bank))
    )
    for day in ("a|b", "a\nb"):
        bo["Day"] = day
        said = refusal(handler.to_body, bo)
        assert said.startswith("Bank: found a value with the Delimiter '|' or a line break, which cannot be")


def test_another_first_record_alone_needs_split() -> None:
    for body, is_another in (
        (b"01A-1   Oslo       \n" * 2, True),
        (FIXED_TEXT + b"02        x         \n", False),
    ):
        said = refusal(TYPED.to_business_object, body, STATEMENT)
        assert "where the order of Statement has none" in said
        assert ("or set the option split" in said) is is_another


def test_an_empty_body_of_names_and_values_lacks_a_record() -> None:
    for header, said in (("none", "a record"), ("names", "the name of an object, a verb and values")):
        handler = make(NameValueHandler, FLAT, header=header)
        assert refusal(handler.to_business_object, b"\n", PRICE) == f"the body is empty, expected {said}"


def test_a_type_may_lack_the_blanks_at_its_end_too() -> None:
    known_as = known(define("Row", "record=AB", Id="String 3"))
    options: dict[str, Any] = {**NO_NAMES, "record_type": {"at": 1, "length": 4}}
    row = Hint("Row", "Create")
    for width in ("characters", "bytes"):
        handler = make(FixedWidthHandler, known_as, **options, short_lines=True, width=width)
        assert handler.to_business_object(b"AB\n", row).as_dict() == {}
    strict = make(FixedWidthHandler, known_as, **options)
    assert "the line ends, expected a record type" in refusal(strict.to_business_object, b"AB\n", row)


def test_blocks_of_name_value_text_are_an_event_each() -> None:
    body = b"# two banks\nCode = 1\n# the day\nDay = x\n\n\nCode=2\nBranches=3\n"
    handler = make(NameValueHandler, FLAT, header="none", split=True)
    bos = list(handler.to_business_objects(body, Hint("Bank", "Create")))
    assert [bo.as_dict() for bo in bos] == [{"Code": "1", "Day": "x"}, {"Code": "2", "Branches": 3}]
    assert list(handler.to_business_objects(handler.to_joint_body(bos), Hint("Bank", "Create"))) == bos
    said = refusal(lambda: list(handler.to_business_objects(body.replace(b"=3", b"=x"), Hint("Bank"))))
    assert said.startswith("record 2: line 8: Bank: Branches: found the text 'x'")
    named = make(NameValueHandler, FLAT, split=True)
    assert list(named.to_business_objects(named.to_joint_body(bos), None)) == bos


def test_lines_without_the_blanks_at_their_ends_are_read_on_request() -> None:
    text = b"\n".join(line.rstrip() for line in FIXED_TEXT.split(b"\n"))
    options: dict[str, Any] = {**NO_NAMES, "record_type": {"at": 1, "length": 2}}
    for width in ("characters", "bytes"):
        handler = make(FixedWidthHandler, FLAT, **options, short_lines=True, width=width)
        assert handler.to_business_object(text, STATEMENT).as_dict() == BOOK
        assert handler.to_body(handler.to_business_object(text, STATEMENT)) == FIXED_TEXT
    assert "the line ends after 4 of 8 characters" in refusal(TYPED.to_business_object, text, STATEMENT)


@rows("handler", [DELIMITED, TYPED, make(NameValueHandler, FLAT), make(DelimitedHandler, FLAT)])
def test_without_split_one_body_holds_one_object(handler: Any) -> None:
    bo = BusinessObject(FLAT, "Statement", "Create", BOOK)
    assert "or set the option split" in refusal(handler.to_joint_body, [bo, bo])


def test_a_child_without_a_number_may_have_its_name() -> None:
    handler = make(FixedWidthHandler, FLAT, BONameSize=6, BOVerbSize=7, BOCountSize=0)
    for values in ({"Sku": "B-1", "Place": {"City": "Oslo"}}, {"Sku": "B-1"}):
        bo = BusinessObject(FLAT, "Price", "Create", values)
        assert handler.to_business_object(handler.to_body(bo), None) == bo
    body = handler.to_body(bo).replace(b"Place ", b"Plaza ")
    assert "Price: Place: found 'Plaza', expected the object Place" in refusal(
        handler.to_business_object, body, None
    )
