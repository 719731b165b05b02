"""Numbers, dates and words in the notation of a country, alike in all text formats."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.csv_handler import CsvHandler
from connector.datahandlers.delimited_handler import DelimitedHandler
from connector.datahandlers.fixedwidth_handler import FixedWidthHandler
from connector.datahandlers.namevalue_handler import NameValueHandler
from connector.errors import MalformedData
from connector.formats.datahandler import Hint
from connector.formats.date_format import DateFormat
from connector.testing.datahandlers import Sample
from tests.datahandlers.definitions import Suite, define, known, make, refusal
from tests.tables import rows

ROW = known(
    define(
        "Row",
        Id="String 8",
        Amount="Decimal 40",
        Count="Integer 14",
        Weight="Double 30",
        Day="Date 40",
        Paid="Boolean 8",
        Name="String 20",
    ),
    define("Rows", Amount="Decimal* 40", Paid="Boolean* 8", Day="Date* 40"),
)
HINT = Hint("Row", "Create")
GERMAN: dict[str, Any] = {
    "decimal": ",",
    "thousands": ".",
    "date_format": "%d.%m.%Y",
    "true": ["WAHR", "ja"],
    "false": ["FALSCH"],
}
NO_NAMES: dict[str, Any] = {"BONameSize": 0, "BOVerbSize": 0, "BOCountSize": 0}
VALUES: dict[str, Any] = {
    "Id": "1",
    "Amount": Decimal("-1234.50"),
    "Count": -3,
    "Weight": 1.5,
    "Day": "2024-05-31",
    "Paid": False,
}
WRITTEN = {
    CsvHandler: b"1;-1234,50;-3;1,5;31.05.2024;FALSCH;\r\n",
    DelimitedHandler: b"1;-1234,50;-3;1,5;31.05.2024;FALSCH;",
    NameValueHandler: b"Id=1\nAmount=-1234,50\nCount=-3\nWeight=1,5\nDay=31.05.2024\nPaid=FALSCH\nName=\n",
}
FORM: dict[type[Any], dict[str, Any]] = {
    CsvHandler: {"delimiter": ";", "header": False},
    DelimitedHandler: {"Delimiter": ";", "header": "none"},
    NameValueHandler: {"header": "none"},
    FixedWidthHandler: {**NO_NAMES, "PadCharacter": " "},
}


def german(kind: type[Any], **options: Any) -> Any:
    return make(kind, ROW, **{**FORM[kind], **GERMAN, **options})


class TestGermanCsv(Suite):
    DEFINITIONS = ROW
    HANDLERS = (make(CsvHandler, ROW, **GERMAN, delimiter="||", split=True),)
    OBJECTS = (("Row", "Create", {**VALUES, "Name": "a|b", "Weight": 1e300}),)
    BODIES = (
        Sample(b" Amount ||Paid\n1.234,50-||ja\n", HINT, {"Amount": Decimal("-1234.50"), "Paid": True}),
    )
    MALFORMED = (b"", b"Amount\n1.5", b"Day\n2024-05-31", b"Paid\ntrue", b"\xff", b"Amount;Id\n1,5;2")

    @pytest.fixture
    def samples(self, handler: CsvHandler) -> list[Any]:
        from connector.testing.datahandlers import Sample

        return [
            Sample(b" Amount ||Paid\n1.234,50-||ja\n", HINT, {"Amount": Decimal("-1234.50"), "Paid": True})
        ]


@rows(
    "text, value",
    [
        ("1.234,56", "1234.56"),
        ("1234,56", "1234.56"),
        ("-1.234.567,8", "-1234567.8"),
        ("+1", "1"),
        (",5", "0.5"),
        ("12,50-", "-12.50"),
        ("(12,50)", "-12.50"),
        (" 1,0 ", "1.0"),
        ("1,5e3", "1500"),
        ("1.5", None),
        ("1.2345", None),
        ("1234.567", None),
        ("1.234.56", None),
        ("1,234.56", None),
        ("--5", None),
        ("-5-", None),
        ("(-5)", None),
        ("(5", None),
        ("5)", None),
        (".", None),
        (",", None),
        ("1 234", None),
    ],
)
def test_numbers_are_read_by_decimal_and_groups_of_three(text: str, value: str | None) -> None:
    for kind in (CsvHandler, DelimitedHandler, NameValueHandler):
        body = {
            CsvHandler: f"1;{text};;;;;",
            DelimitedHandler: f"1;{text};;;;;",
            NameValueHandler: f"Amount = {text}",
        }[kind]
        if value is None:
            said = refusal(german(kind).to_business_object, body, HINT)
            name = "(Amount)" if kind is CsvHandler else "Amount"
            found = f"found the text {text.strip() if kind is NameValueHandler else text!r}"[:22]
            assert f"{name}: {found}" in said
            assert "expected a number in the form 1.234,56" in said
        else:
            assert german(kind).to_business_object(body, HINT)["Amount"] == Decimal(value)


@rows("text, value", [("5-", -5), ("(5)", -5), ("-5", -5), ("5", 5), ("5.0-", None), ("-(5)", None)])
def test_negatives_are_read_in_three_forms_without_an_option(text: str, value: int | None) -> None:
    handler = make(CsvHandler, ROW)
    body = f"Count\n{text}\n"
    if value is None:
        assert f"found the text {text!r}, expected an integer" in refusal(
            handler.to_business_object, body, HINT
        )
    else:
        assert handler.to_business_object(body, HINT)["Count"] == value


@pytest.mark.parametrize("kind", WRITTEN)
def test_values_are_written_in_the_notation(kind: type[Any]) -> None:
    assert german(kind).to_body(BusinessObject(ROW, "Row", "Create", VALUES)) == WRITTEN[kind]


@rows("negative, text", [("leading", b"-1234,50"), ("trailing", b"1234,50-"), ("brackets", b"(1234,50)")])
def test_the_sign_of_a_negative_number_has_its_place(negative: str, text: bytes) -> None:
    bo = BusinessObject(ROW, "Row", "Create", {"Amount": Decimal("-1234.50")})
    assert b"Amount=" + text + b"\n" in german(NameValueHandler, negative=negative).to_body(bo)


def test_fixed_width_has_the_width_of_its_dates_and_words() -> None:
    rows_ = known(define("Day", From="Date", Ok="Boolean", Count="Integer 6"))
    handler = make(
        FixedWidthHandler,
        rows_,
        **NO_NAMES,
        **{**GERMAN, "date_format": "%Y%m%d"},
        PadCharacter="0",
        negative="trailing",
    )
    bo = BusinessObject(rows_, "Day", "Create", {"From": "2024-05-31", "Ok": False, "Count": -12})
    body = handler.to_body(bo)
    assert body == b"20240531FALSCH00012-"
    assert handler.to_business_object(body, Hint("Day", "Create")) == bo
    said = refusal(handler.to_business_object, b"20240532FALSCH00012-", Hint("Day"))
    assert said == "line 1, columns 1 to 8: Day: From: found the text '20240532', expected a date as %Y%m%d"


# --- dates ------------------------------------------------------------------------------------


@rows(
    "form, text, value",
    [
        ("%d.%m.%Y", "31.05.2024", "2024-05-31"),
        ("%d.%m.%Y", "1.5.2024", "2024-05-01"),
        ("%d.%m.%Y", " 29.02.2024 ", "2024-02-29"),
        ("%d.%m.%Y", "29.02.2023", None),
        ("%d.%m.%Y", "31/05/2024", None),
        ("%d.%m.%Y", "2024-05-31", None),
        ("%Y%m%d", "20240531", "2024-05-31"),
        ("%Y%m%d", "2024531", None),
        ("%d%m%y", "310568", "2068-05-31"),
        ("%d%m%y", "310569", "1969-05-31"),
        ("%d.%m.%Y %H:%M", "31.05.2024 8:15", "2024-05-31T08:15:00"),
        ("%d.%m.%Y %H:%M", "31.05.2024 24:15", None),
        ("%m/%d/%Y %I:%M %p", "05/31/2024 12:05 am", "2024-05-31T00:05:00"),
        ("%m/%d/%Y %I:%M %p", "05/31/2024 13:05 PM", None),
        ("%d.%m.%Y %H:%M:%S.%f %z", "31.05.2024 08:15:30.25 +0530", "2024-05-31T08:15:30.25+05:30"),
        ("%d.%m.%Y %H:%M:%S%z", "31.05.2024 08:15:30Z", "2024-05-31T08:15:30Z"),
        ("%d.%m.%Y %H:%M:%S%z", "31.05.2024 08:15:30+00:00", "2024-05-31T08:15:30Z"),
        ("%%%d-%m-%Y", "%31-05-2024", "2024-05-31"),
    ],
)
def test_dates_are_read_in_their_form(form: str, text: str, value: str | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match="expected a date as"):
            DateFormat(form).read(text)
    else:
        assert DateFormat(form).read(text) == value
        assert DateFormat(form).read(DateFormat(form).write(value)) == value


@rows(
    "form, value, said",
    [
        ("%d.%m.%Y", "2024-05-31T08:00", "expected one without a time, as in %d.%m.%Y"),
        ("%d.%m.%Y %H:%M", "2024-05-31", "expected one with a time"),
        ("%d.%m.%Y %H:%M", "2024-05-31T08:00:30", "expected one without seconds"),
        ("%d.%m.%Y %H", "2024-05-31T08:30", "expected one without minutes"),
        ("%d.%m.%Y %H:%M:%S", "2024-05-31T08:00:30.5", "without such a part of a second"),
        ("%d.%m.%Y %H:%M", "2024-05-31T08:00Z", "expected one without a zone"),
        ("%d.%m.%Y %H:%M%z", "2024-05-31T08:00", "expected one with a zone"),
        ("%d.%m.%y", "1968-05-31", "which %d.%m.%y cannot hold"),
        ("%d.%m.%Y %H:%M", "2024-05-31T24:00", "cannot hold"),
    ],
)
def test_a_date_that_the_form_would_change_is_not_written(form: str, value: str, said: str) -> None:
    handler = german(CsvHandler, date_format=form)
    assert said in refusal(handler.to_body, BusinessObject(ROW, "Row", "Create", {"Day": value}))


STAMPED = known(
    define(
        "Row",
        Id="String 8",
        Day="Date 24 date_format=%d.%m.%Y",
        At="Date 24 date_format=%y%m%d %H:%M",
        Due="Date",
    )
)
STAMPS = {"Id": "1", "Day": "2024-05-31", "At": "2024-05-31T08:15:00", "Due": "2024-06-01"}
STAMPS_WRITTEN = {
    CsvHandler: b"1;31.05.2024;240531 08:15;2024-06-01\r\n",
    DelimitedHandler: b"1;31.05.2024;240531 08:15;2024-06-01",
    NameValueHandler: b"Id=1\nDay=31.05.2024\nAt=240531 08:15\nDue=2024-06-01\n",
    FixedWidthHandler: b"1       31.05.2024              240531 08:15            2024-06-01".ljust(88),
}


@rows("kind", FORM)
def test_dates_of_one_file_may_have_several_forms(kind: type[Any]) -> None:
    handler = make(kind, STAMPED, **FORM[kind])
    bo = BusinessObject(STAMPED, "Row", "Create", STAMPS)
    body = handler.to_body(bo)
    assert body == STAMPS_WRITTEN[kind]
    assert handler.to_business_object(body, HINT) == bo
    for forms in (["%d.%m.%Y", "%d.%m.%Y %H:%M"], ["%d.%m.%Y %H:%M", "%d.%m.%Y"]):
        handler = make(kind, ROW, **FORM[kind], date_format=forms)
        for value, text in (("2024-05-31", b"31.05.2024"), ("2024-05-31T08:15:00", b"31.05.2024 08:15")):
            bo = BusinessObject(ROW, "Row", "Create", {"Id": "1", "Day": value})
            body = handler.to_body(bo)
            assert text in body
            assert handler.to_business_object(body, HINT) == bo


@rows("kind", FORM)
def test_a_date_of_no_form_names_all_of_them(kind: type[Any]) -> None:
    handler = make(kind, ROW, **FORM[kind], date_format=["%d.%m.%Y", "%d.%m.%Y %H:%M"])
    body = handler.to_body(BusinessObject(ROW, "Row", "Create", {"Id": "1", "Day": "2024-05-31"}))
    said = refusal(lambda one: handler.to_business_object(one, HINT), body.replace(b"31.05", b"31/05"))
    assert "found the text '31/05.2024', expected a date as %d.%m.%Y or %d.%m.%Y %H:%M" in said
    late = BusinessObject(ROW, "Row", "Create", {"Id": "1", "Day": "2024-05-31T08:15:30"})
    assert "which no form can hold: %d.%m.%Y or %d.%m.%Y %H:%M" in refusal(handler.to_body, late)


def _dates(form: str) -> st.SearchStrategy[str]:
    is_short = "%y" in form
    first = datetime.datetime(1969 if is_short else 1, 1, 1)
    last = datetime.datetime(2068 if is_short else 9999, 12, 31)
    if "%H" not in form and "%I" not in form:
        return st.datetimes(first, last).map(lambda time: time.date().isoformat())
    times = st.datetimes(first, last).map(lambda time: time if "%f" in form else time.replace(microsecond=0))
    texts = times.map(
        lambda time: time.isoformat().rstrip("0") if "." in time.isoformat() else time.isoformat()
    )
    zones = st.sampled_from(["Z", "+05:30", "-11:00"]) if "%z" in form else st.just("")
    return st.builds("{}{}".format, texts, zones)


FORMS = ("", "%d.%m.%Y", "%Y%m%d", "%d%m%y", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%Y%m%d%H%M%S%f %z")


@settings(max_examples=400, deadline=None, database=None)
@given(data=st.data())
def test_what_is_written_is_read_equal_for_all_options(data: st.DataObject) -> None:
    draw = data.draw
    form = draw(st.sampled_from(FORMS))
    words = draw(st.sampled_from([{}, {"true": ["WAHR"]}, {"true": ["J", "ja"], "false": ["N"]}]))
    decimal = draw(st.sampled_from([".", ",", "'"]))
    options: dict[str, Any] = {
        "decimal": decimal,
        "thousands": draw(st.sampled_from([one for one in ("", ".", ",", "'", " ") if one != decimal])),
        "negative": draw(st.sampled_from(["leading", "trailing", "brackets"])),
        "date_format": form,
        **words,
    }
    dates = _dates(form) if form else st.dates().map(str)
    given_values = {
        "Amount": st.decimals(-(10**20), 10**20, places=5) | st.integers(-(10**25), 10**25).map(Decimal),
        "Count": st.integers(-(1 << 31), (1 << 31) - 1),
        "Weight": st.floats(allow_nan=False, allow_infinity=False),
        "Day": dates,
        "Paid": st.booleans(),
        "Name": st.text("aé,.;|'\"-() ", min_size=1, max_size=8).map(str.strip).filter(bool),
    }
    values = draw(st.fixed_dictionaries({"Id": st.just("1")}, optional=given_values))
    bo = BusinessObject(ROW, "Row", "Create", values)
    csv: dict[str, Any] = draw(
        st.sampled_from([{"delimiter": ";"}, {"delimiter": "||"}, {"delimiter": "\\t", "quote": "none"}])
    )
    pad = draw(st.sampled_from([" ", "0"]))
    fixed = {**NO_NAMES, "PadCharacter": pad}
    dialects: list[tuple[type[Any], dict[str, Any]]] = [(CsvHandler, csv), (FixedWidthHandler, fixed)]
    for kind, own in [*FORM.items(), *dialects]:
        handler = make(kind, ROW, **own, **options)
        try:
            body = handler.to_body(bo)
        except MalformedData:
            assert kind is FixedWidthHandler  # a pad character at the end of a text
            continue
        assert handler.to_business_object(body, HINT) == bo


def test_lists_of_values_are_in_the_notation_too() -> None:
    values = {"Amount": [Decimal("-1.5"), Decimal(2)], "Paid": [True, False], "Day": ["2024-05-31"]}
    bo = BusinessObject(ROW, "Rows", "Create", values)
    handler = german(NameValueHandler)
    body = handler.to_body(bo)
    assert body == b"Amount=2\nAmount=-1,5\nAmount=2\nPaid=2\nPaid=WAHR\nPaid=FALSCH\nDay=1\nDay=31.05.2024\n"
    assert handler.to_business_object(body, Hint("Rows", "Create")) == bo


@rows(
    "options, said",
    [
        ({"decimal": ""}, "decimal"),
        ({"decimal": "5"}, "decimal"),
        ({"thousands": "--"}, "thousands"),
        ({"decimal": ",", "thousands": ","}, "the same character"),
        ({"true": ["x"], "false": ["x"]}, "the same word, 'x'"),
        ({"true": [""]}, "without white space"),
        ({"date_format": "%d.%m"}, "one of %Y and %y"),
        ({"date_format": "%d.%m.%Y %Q"}, "found %Q"),
        ({"date_format": "%d.%m.%Y %d"}, "a part twice"),
        ({"date_format": "%d.%m.%Y %M"}, "hours before minutes"),
        ({"date_format": "%d.%m.%Y %I"}, "%I with %p"),
        ({"date_format": "%d.%m.%Y%"}, "found %,"),
        ({"date_format": ["%d.%m.%Y", ""]}, "one of %Y and %y"),
        ({"date_format": ["%d.%m.%Y", "%d.%m.%Y"]}, "a form twice"),
    ],
)
def test_a_notation_that_contradicts_itself_is_refused(options: dict[str, Any], said: str) -> None:
    for kind in FORM:
        with pytest.raises(ValueError, match=said):
            make(kind, ROW, **options)
