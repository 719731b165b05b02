"""Null on request: read, told from not set and blank, and written again."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import json
from copy import copy
from typing import Any

import pytest

from connector.businessobjects.dump import dump
from connector.businessobjects.instance import BusinessObject, UnknownAttribute, check, finish
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint
from tests.datahandlers.definitions import define, kind_of, known, make, refusal, without_decoder
from tests.tables import rows

XSI = "http://www.w3.org/2001/XMLSchema-instance"
DEFINITIONS = known(
    define(
        "Doc",
        "cw_mo_conn=Meta",
        Text="String 8",
        Count="Integer name=count",
        Cost="Decimal",
        Day="Date",
        Days="Date*",
        Tag="String*",
        Costs="Decimal*",
        Ship="Part",
        Line="Part*",
        Meta="Part",
        Code="String type=attribute",
        Old="String nil=unset",
        Kept="String nil=blank",
    ),
    define("Part", Item="String name=item", Part="Part"),
)
RULE = Hint("Doc", "Create")
ALL = ("Text", "Count", "Cost", "Day", "Days", "Tag", "Costs", "Ship", "Line", "Old")
NULLS: dict[str, Any] = {**dict.fromkeys(ALL), "Code": "7", "Kept": "k"}
SOAP = "http://www.w3.org/2003/05/soap-envelope"


def handler(name: str, null: str = "value") -> DataHandler:
    made: DataHandler = make(kind_of(name), DEFINITIONS, null=null)
    return made


def xml(values: dict[str, Any]) -> str:
    elements = "".join(
        f'<{name} x:nil="true"/>' if value is None else f"<{name}>{value}</{name}>"
        for name, value in values.items()
        if name != "Code"
    )
    return f'<Doc xmlns:x="{XSI}" Code="7">{elements}</Doc>'


def body(name: str, values: dict[str, Any]) -> str:
    if name in ("Xml", "Soap"):
        text = xml(values)
        return text if name == "Xml" else f'<s:Envelope xmlns:s="{SOAP}"><s:Body>{text}</s:Body></s:Envelope>'
    return json.dumps({"count" if name == "Count" else name: value for name, value in values.items()})


FORMATS = ["Json", "JsonLines", "Xml", "Soap"]


@rows("name", FORMATS)
def test_null_is_read_and_written_on_request(name: str) -> None:
    made = handler(name)
    bo = made.to_business_object(body(name, NULLS), RULE)
    assert [one for one in bo.definition.attributes if bo.is_null(one)] == [*ALL]
    assert bo.as_dict() == NULLS
    again = made.to_body(bo)
    assert made.to_business_object(again, RULE) == bo
    text = again.decode() if isinstance(again, bytes) else again
    assert text.count("null" if name.startswith("Json") else ':nil="true"') == len(ALL)


@rows("name", ["Xml", "Soap"])
def test_what_is_not_set_is_never_written_as_null(name: str) -> None:
    made = handler(name)
    bo = made.to_business_object(body(name, {"Code": "7"}), RULE)
    assert made.to_business_object(made.to_body(bo), RULE) == bo  # also with nil=unset


@rows("name", FORMATS)
def test_null_means_not_set_by_default(name: str) -> None:
    made = handler(name, "ignore")
    single = {one: value for one, value in NULLS.items() if one not in ("Days", "Tag", "Costs")}
    bo = made.to_business_object(body(name, single), RULE)
    assert bo.as_dict() == {"Code": "7", "Kept": "k"}
    assert make(kind_of(name), DEFINITIONS).to_business_object(body(name, single), RULE) == bo
    bo.set_null("Text")
    bo["Ship"] = {"Part": {}}
    bo["Ship"]["Part"].set_null("Item")
    again = made.to_business_object(made.to_body(bo), RULE)
    assert again.as_dict() == {"Code": "7", "Kept": "k", "Ship": {"Part": {}}}


def test_both_ways_to_read_json_give_the_same() -> None:
    text = body("Json", {**NULLS, "Ship": {"item": None, "Part": None}, "Line": [{"item": None}]})
    decoded = handler("Json").to_business_object(text, RULE)
    with without_decoder():
        parsed = handler("Json").to_business_object(text, RULE)
    assert decoded == parsed
    assert decoded["Ship"].is_null("Part")
    assert decoded["Line"][0].is_null("Item")
    assert json.loads(handler("Json").to_body(decoded))["Ship"] == {"item": None, "Part": None}


@rows(
    "name, text",
    [("Json", '{"Tag": [null]}'), ("Json", '{"Line": [null]}'), ("Json", '{"Meta": null}'), ("Json", '{"Other": null}'), ("Xml", f"<Doc xmlns:x='{XSI}'><Line x:nil='1'/><Line/></Doc>")],
)  # fmt: skip
def test_no_place_but_an_attribute_can_be_null(name: str, text: str) -> None:
    for null in ("ignore", "value"):
        refusal(handler(name, null).to_business_object, text, RULE)


def test_null_is_one_of_three_in_python() -> None:
    bo = BusinessObject(DEFINITIONS, "Doc", "Create", {"Text": "", "Count": None})
    bo.set_null("Day")
    assert [bo[name] for name in ("Text", "Count", "Day")] == ["", None, None]
    assert [bo.is_null(name) for name in ("Text", "Count", "Day")] == [False, False, True]
    assert [bo.is_blank(name) for name in ("Text", "Count", "Day")] == [True, False, False]
    assert list(bo) == ["Text", "Day"]
    assert bo.as_dict(keeps_null=False) == {"Text": ""}
    assert copy(bo) == bo != BusinessObject(DEFINITIONS, "Doc", "Create", {"Text": ""})
    assert '"Day": null' in dump(bo)
    bo["Day"] = None
    assert "Day" not in bo
    bo.set_null("Line")
    bo.set_null("Ship")
    assert "null" in dump(bo)
    bo.add("Line")["Item"] = "a"
    bo.add("Ship")
    assert (len(bo["Line"]), bo["Ship"].as_dict()) == (1, {})
    for name in ("Txt", "Meta"):
        with pytest.raises((UnknownAttribute, MalformedData)):
            bo.set_null(name)
    with pytest.raises(UnknownAttribute):
        bo.is_null("Txt")


def test_a_key_or_a_required_attribute_cannot_be_null() -> None:
    from connector.businessobjects.definition import Attribute

    definitions = known(
        define(
            "Doc",
            Key=Attribute("Key", "String", is_key=True),
            Must=Attribute("Must", "String", is_required=True, default="d"),
        )
    )
    for name, reason in (("Key", "Key: a key, but null"), ("Must", "Must: required, but null")):
        bo = BusinessObject(definitions, "Doc", "Create", {"Key": "k", "Must": "m"})
        bo.set_null(name)
        assert reason in refusal(lambda bo=bo: finish(bo, use_defaults=True))
        assert reason in refusal(lambda bo=bo: check(bo))


@rows("name, reason", [("Code", "Code is null, but it is an XML attribute"), ("Kept", "nil=blank says that xsi:nil is blank")])  # fmt: skip
def test_what_cannot_be_null_in_xml_is_refused(name: str, reason: str) -> None:
    bo = BusinessObject(DEFINITIONS, "Doc", "Create", {"Text": "a"})
    bo.set_null(name)
    assert reason in refusal(handler("Xml").to_body, bo)


def test_other_formats_write_null_as_not_set() -> None:
    definitions = known(define("Doc", Text="String 8", Count="Integer"))
    bo = BusinessObject(definitions, "Doc", "Create", {"Text": "a"})
    for name in ("Csv", "NameValue", "Delimited", "FixedWidth"):
        made = make(kind_of(name), definitions)
        plain = made.to_body(bo)
        bo.set_null("Count")
        assert made.to_body(bo) == plain
        bo["Count"] = None
