"""Decimals in every format: exact, and never with an exponent in what is written."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pytest

from connector.businessobjects.definition import Attribute, Definitions
from connector.businessobjects.instance import BusinessObject, finish
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint
from tests.datahandlers.definitions import define, kind_of, known, refusal
from tests.datahandlers.definitions import make as make_handler
from tests.tables import rows, texts

HINT: Final = Hint("Payment", "Create")
FORMATS: Final[dict[str, tuple[str, str]]] = {
    "json": ("Json", '{"Amount":VALUE}'),
    "json-text": ("Json", '{"Amount":"VALUE"}'),
    "json-slow": ("Json", '{"Unknown":1.5,"Amount":VALUE}'),
    "jsonlines": ("JsonLines", '{"Amount":VALUE}\n'),
    "xml": ("Xml", "<Payment><Amount>VALUE</Amount></Payment>"),
    "soap": (
        "Soap",
        '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><Payment><Amount>VALUE</Amount></Payment></s:Body></s:Envelope>',
    ),
    "csv": ("Csv", "Amount\r\nVALUE\r\n"),
    "namevalue": ("NameValue", "BusinessObject=Payment\nVerb=\nAmount=VALUE\n"),
    "text": ("Text", "VALUE"),
}


def payment(*more: Attribute, digits: int = 0, scale: int | None = None, width: int = 0) -> Definitions:
    amount = Attribute("Amount", "Decimal", digits=digits, scale=scale, max_length=width)
    others = {one.name: one for one in more}
    return known(define("Payment", Amount=amount, Rate=f"Decimal* {width}", **others))


KNOWN: Final = payment()


def make(name: str, definitions: Definitions = KNOWN, **options: Any) -> DataHandler:
    kind = kind_of(name)
    declared = {option.name for option in kind.options}
    if name == "Text":
        options["attribute"] = "Amount"
    if "IgnoreUndefinedAttributes" in declared:
        options["IgnoreUndefinedAttributes"] = True
    handler: DataHandler = make_handler(kind, definitions, **options)
    return handler


def read(name: str, text: str, definitions: Definitions = KNOWN) -> BusinessObject:
    kind, body = FORMATS[name]
    return make(kind, definitions).to_business_object(body.replace("VALUE", text).encode(), HINT)


def written(name: str, bo: BusinessObject) -> str:
    body = make(FORMATS[name][0], bo.definitions).to_body(bo)
    return body if isinstance(body, str) else body.decode()


AS_WRITTEN = """
    0.1   10.00   0.10   -0.05   9007199254740993   0.30000000000000000000000000000001   0.0000001   0
    123456789012345678901234567890.123456789012345678901234567890
"""
EXACT: Final = (
    {text: text for text in (*texts(AS_WRITTEN), "9" * 5000)}
    | {"1.5E3": "1500", "15e-4": "0.0015", "-0": "0", "-0.00": "0.00"}
    | {"1e400": "1" + "0" * 400, "1e-400": "0." + "0" * 399 + "1", "1e1000": "1" + "0" * 1000}
)
"""What is written, by the text that is read."""


@rows("name", FORMATS)
@rows("text", EXACT)
def test_every_digit_of_a_number_is_kept(name: str, text: str) -> None:
    bo = read(name, text)
    assert type(bo["Amount"]) is Decimal
    assert format(bo["Amount"], "f") == EXACT[text]
    body = written(name, bo)
    assert EXACT[text] in body
    again = make(FORMATS[name][0]).to_business_object(body.encode(), HINT)
    assert again["Amount"] == bo["Amount"]
    assert str(again["Amount"]) in (str(bo["Amount"]), EXACT[text])


@rows("name", FORMATS)
@rows(
    "text",
    [
        *("NaN", "nan", "sNaN", "Infinity", "-inf", "1_000", "1;5", "0x10", "١٢", "1e", "--1", "."),
        *("1e1001", "1E+999999999", "1e-1002", "1e99999999999999999999999"),
    ],
)
def test_what_is_no_number_or_a_huge_one_is_refused_by_every_format(name: str, text: str) -> None:
    reason = refusal(read, name, text)
    assert len(reason) < 500
    if not name.startswith("json") or text[0].isdigit():
        assert "Amount" in reason or name == "json" or "no JSON" in reason


@rows("name", FORMATS)
@rows(
    "text, reason",
    [
        *((text, "") for text in ("123.45", "-123.45", "0.05", "123.4500", "99999")),
        ("1.234", "with 3 places after the point, expected at most 2"),
        ("1e-3", "with 3 places after the point, expected at most 2"),
        ("123456", "with 6 digits, expected at most 5"),
        ("1e5", "with 6 digits, expected at most 5"),
        ("1234.56", "with 6 digits, expected at most 5"),
    ],
)
def test_digits_and_scale_are_limits_and_nothing_is_rounded(name: str, text: str, reason: str) -> None:
    definitions = payment(digits=5, scale=2)
    assert "1 places after the point, expected at most 0" in refusal(read, name, "7.5", payment(scale=0))
    if not reason:
        assert read(name, text, definitions)["Amount"] == Decimal(text)
        return
    found = refusal(read, name, text, definitions)
    assert reason in found
    assert "Amount" in found


@rows(
    "body, values",
    [
        ('{"Amount": ""}', {"Amount": ""}),
        ('{"Amount": "", "Unknown": 1}', {"Amount": ""}),
        ('{"Amount": null, "Rate": null}', {}),
        ('{"Amount": "\\u0031.50"}', {"Amount": Decimal("1.50")}),
    ],
)
def test_json_may_say_a_blank_or_nothing_or_escape_the_digits(body: str, values: dict[str, Any]) -> None:
    bo = make("Json").to_business_object(body.encode(), HINT)
    assert bo.as_dict() == values
    for name in ("xml", "namevalue"):
        assert make(FORMATS[name][0]).to_business_object(written(name, bo).encode(), HINT).as_dict() == values


@rows("more", ["", ', "Unknown": 1.5'])
@rows("value", ["true", "[1]", '{"a": 1}', '" 1"', '"1 "', '"1\\n"', '"one"'])
def test_json_of_another_kind_is_refused(value: str, more: str) -> None:
    with pytest.raises(MalformedData, match=r"Payment: Amount: found .*, expected a number"):
        make("Json").to_business_object(f'{{"Amount": {value}{more}}}'.encode(), HINT)


# --- records -----------------------------------------------------------------------------------

SIZES: dict[str, Any] = {"BONameSize": 7, "BOVerbSize": 6, "BOCountSize": 1}


@rows(
    "alignment, pad",
    [
        (alignment, pad)
        for alignment in ("LEFT", "RIGHT", "BOTH")
        for pad in " *0-."
        if (alignment, pad) != ("LEFT", "0")  # zeros behind a number are refused with the options
    ],
)
@rows("text", ["12.50", "-12.50", "100", "-100", "0.50", "5.5", "55", "0.05", "1.0"])
def test_a_number_in_a_field_comes_back_or_cannot_be_written(alignment: str, pad: str, text: str) -> None:
    definitions = payment(width=10)
    handler = make("FixedWidth", definitions, Alignment=alignment, PadCharacter=pad, **SIZES)
    bo = BusinessObject(definitions, "Payment", "Create", {"Amount": text, "Rate": [text]})
    try:
        body = handler.to_body(bo)
    except MalformedData as refused:
        assert (pad in "0-." and "PadCharacter" in str(refused)) or "pad characters" in str(refused)  # noqa: PT017
        return
    again = handler.to_business_object(body, HINT)
    assert again["Amount"] == Decimal(text)
    assert again["Rate"] == [Decimal(text)]


def test_a_width_comes_from_the_digits_and_a_number_is_never_cut() -> None:
    definitions = known(define("Payment", Amount=Attribute("Amount", "Decimal", digits=6)))
    handler = make("FixedWidth", definitions, Truncation=True, **SIZES)
    bo = BusinessObject(definitions, "Payment", "Create", {"Amount": "-123.456"})
    assert handler.to_body(bo) == b"PaymentCreate-123.456"
    bo["Amount"] = "-123.4560"
    assert "Amount has 9 characters, expected at most 8" in refusal(handler.to_body, bo)


# --- Python ------------------------------------------------------------------------------------


@rows("value", [Decimal("1.50"), 7, "1.50", "", 10**400, Decimal("1E+3")])
def test_a_decimal_takes_exact_numbers(value: Any) -> None:
    bo = BusinessObject(KNOWN, "Payment", "Create", {"Amount": value})
    assert bo.value("Amount") == (Decimal(value) if value != "" else "")


@rows(
    "value, reason",
    [
        (0.1, "found the float 0.1, which is not exact, expected a decimal.Decimal, an integer, or the digits as a text"),
        (float("nan"), "found the float nan"),
        (Decimal("NaN"), "expected a finite number"),
        (Decimal("sNaN"), "expected a finite number"),
        (Decimal("-Infinity"), "expected a finite number"),
        (Decimal("1E+1001"), "at most 1000 zeros"),
        (Decimal("1E-999999"), "at most 1000 zeros"),
        (True, "found true, expected a number"),
        ([1], "found a list"),
        (b"1", "expected a number"),
    ],
)  # fmt: skip
def test_a_decimal_refuses_what_is_not_exact(value: Any, reason: str) -> None:
    found = refusal(BusinessObject, KNOWN, "Payment", "Create", {"Amount": value})
    assert reason in found
    assert "Payment: Amount: " in found


def test_numbers_are_equal_whatever_their_zeros_are() -> None:
    one, other = (BusinessObject(KNOWN, "Payment", "Create", {"Amount": text}) for text in ("10.00", "1e1"))
    assert one == other
    assert one.as_dict() == {"Amount": Decimal(10)}


def test_a_default_is_exact() -> None:
    tax = Attribute("Tax", "Decimal", is_required=True, default=Decimal("0.190"))
    bo = BusinessObject(payment(tax), "Payment", "Create", {})
    finish(bo, use_defaults=True)
    assert str(bo["Tax"]) == "0.190"
