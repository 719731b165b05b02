"""Plain text: the whole body is one attribute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.text_handler import TextHandler
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint
from connector.testing.datahandlers import sample_definitions
from tests.tables import rows

DEFINITIONS = sample_definitions()
NOTE = Hint("Note", "Create")


def handler(attribute: str = "Text", charset: str = "UTF-8") -> TextHandler:
    return TextHandler({"attribute": attribute, "charset": charset}, DEFINITIONS)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_whole_body_is_the_attribute_as_it_stands(text: str) -> None:
    bo = handler().to_business_object(text.encode(), NOTE)
    assert (bo.type, bo.verb, bo["Text"]) == ("Note", "Create", text)
    assert handler().to_body(bo) == text.encode()


def test_without_a_rule_nobody_names_the_object() -> None:
    with pytest.raises(UnknownBusinessObject, match="plain text names no business object"):
        handler().to_business_object(b"text", None)


@rows("charset", ["ISO-8859-1", "utf-16", "cp1252", "Shift_JIS"])
def test_the_character_set_is_an_option(charset: str) -> None:
    text = "Zoe" if charset == "Shift_JIS" else "Zoë"
    bo = handler(charset=charset).to_business_object(text.encode(charset), NOTE)
    assert bo["Text"] == text
    assert handler(charset=charset).to_body(bo) == text.encode(charset)


def test_a_body_in_another_character_set_is_refused_with_the_byte() -> None:
    with pytest.raises(MalformedData, match="the body is not UTF-8: byte 2"):
        handler().to_business_object("Zoë".encode("latin-1") + b"!", Hint("Note"))


def test_a_character_that_the_character_set_lacks_cannot_be_written() -> None:
    bo = BusinessObject(DEFINITIONS, "Note", "Create", {"Text": "5 €"})
    with pytest.raises(
        MalformedData, match=r"Note: Text: the character '\\u20ac' does not exist in ISO-8859-1"
    ):
        handler(charset="ISO-8859-1").to_body(bo)


@rows(
    "attribute, object_name, reason",
    [
        ("Text", "Customer", "Customer has no attribute 'Text' to hold a plain text"),
        ("Meta", "Note", "Note has no attribute 'Meta' to hold a plain text"),
        ("Home", "Customer", "Home is a Address, expected an attribute of a simple type"),
        ("Rating", "Customer", "Customer: Rating: found the text 'text', expected an integer"),
    ],
)
def test_an_attribute_that_cannot_hold_the_text_is_named(
    attribute: str, object_name: str, reason: str
) -> None:
    with pytest.raises(MalformedData) as refused:
        handler(attribute).to_business_object(b"text", Hint(object_name))
    assert reason in str(refused.value)
