"""Records: one walk reads and writes every format with one value after the other. Several in one body."""

from __future__ import annotations

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint
from connector.formats.plan import MAX_DEPTH, Item
from connector.formats.records import NAME, VERB, Cursor, Missing, RecordHandler
from connector.formats.splitting import in_record, read_one, write_each
from connector.testing.datahandlers import sample_definitions
from tests.datahandlers.definitions import refusal
from tests.tables import rows

DEFINITIONS = sample_definitions()


class Words(RecordHandler):
    """Words with a space between two."""

    unit = "word"
    mime_types = ("text/x-words",)
    options = ()

    def split(self, text: str) -> list[str]:
        return text.split(" ")

    def take(self, cursor: Cursor, slot: Item | str) -> str:
        if cursor.place == len(cursor.texts):
            raise Missing("no word is left, expected")
        cursor.place += 1
        word: str = cursor.texts[cursor.place - 1]
        return word

    def put(self, texts: list[str], slot: Item | str, text: str, place: str) -> None:
        if " " in text:
            raise MalformedData(f"{place} has a space")
        texts.append(text)

    def join(self, texts: list[str], bo: BusinessObject) -> str:
        return " ".join(texts)


WORDS = Words({"CxIgnore": "-", "CxBlank": "blank", "charset": ""}, DEFINITIONS)


def test_children_and_lists_stand_behind_their_number() -> None:
    values = {"ArticleId": "A1", "Tag": ["x", ""], "Size": [], "Part": [{"Name": "n"}]}
    bo = BusinessObject(DEFINITIONS, "Article", "Create", values)
    body = WORDS.to_body(bo)
    assert body == b"Article Create A1 2 x blank 0 - - - - - 1 Article  - - - - - - - - - n -"
    assert WORDS.to_business_object(body, None) == bo


def test_a_child_is_one_object_or_none() -> None:
    for home in ({"City": "Oslo", "Before": {"City": "Rome"}}, None):
        bo = BusinessObject(DEFINITIONS, "Customer", "Update", {"CustomerId": "C", "Home": home})
        assert WORDS.to_business_object(WORDS.to_body(bo), None) == bo
    assert "Home" not in WORDS.to_business_object(b"Customer Update" + b" -" * 8 + b" 0 -", None)


def test_a_rule_dictates_object_and_verb() -> None:
    bo = WORDS.to_business_object("Customer Create hello", Hint("Note", "Update"))
    assert (bo.type, bo.verb, bo.as_dict()) == ("Note", "Update", {"Text": "hello"})
    assert WORDS.to_business_object("Any Create hello", Hint("Note")).verb == "Create"


@rows(
    "body, reason",
    [
        (" ", "the body is empty"),
        ("Note", "word 2: no word is left, expected the verb of Note"),
        ("Note Create", "word 3: no word is left, expected Text of Note"),
        ("Note Create a b c", "word 4: found 2 more words after the end of Note"),
        ("Address  x Oslo -", "word 3: Address: AddressID: found the text 'x', expected an integer"),
        ("Address  1 Oslo many", "word 5: Address: Before: found 'many', expected a number of objects"),
        ("Address  1 Oslo 2", "word 5: Address: Before: found 2 objects, expected at most one"),
        ("Address  1 Oslo 1", "word 6: no word is left, expected the name of object 1 of 1 of Before"),
        ("Address  1 Oslo 1 Note", "word 6: Address: Before: found 'Note', expected the object Address"),
        ("Article  A 2 x", "word 6: no word is left, expected value 2 of 2 of Tag of Article"),
        ("Article  A 2 x -", "word 6: Article: Tag[1]: found a value that is not set"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place(body: str, reason: str) -> None:
    assert refusal(WORDS.to_business_object, body, None).startswith(reason)


def test_a_body_that_names_no_object_is_unknown() -> None:
    for body in (" Create a", "Nobody Create a"):
        with pytest.raises(UnknownBusinessObject):
            WORDS.to_business_object(body, None)


def test_objects_are_nested_as_deeply_as_the_limit_and_no_deeper() -> None:
    def nested(levels: int) -> BusinessObject:
        outermost = innermost = BusinessObject(DEFINITIONS, "Address")
        for _ in range(levels - 1):
            innermost = innermost.add("Before")
        return outermost

    body = WORDS.to_body(nested(MAX_DEPTH))
    assert WORDS.to_business_object(body, None) == nested(MAX_DEPTH)
    assert "Address is nested deeper than 200 levels" in refusal(WORDS.to_body, nested(MAX_DEPTH + 1))
    body = b"Address  - - 1 " * MAX_DEPTH + b"Address  - - -"
    assert refusal(WORDS.to_business_object, body, None) == "word 1001: nested deeper than 200 levels"


def test_what_the_format_cannot_hold_is_named_with_its_place() -> None:
    for values, place in (
        ({"ArticleId": "a b"}, "Article: ArticleId has a space"),
        ({"Tag": ["a", "b c"]}, "Article: Tag[1] has a space"),
        ({"Part": [{"Name": "n m"}]}, "Article: Name has a space"),
    ):
        assert place in refusal(WORDS.to_body, BusinessObject(DEFINITIONS, "Article", "Create", values))


def test_a_format_is_asked_for_each_text_by_what_it_is() -> None:
    asked: list[str] = []

    class Asking(Words):
        def take(self, cursor: Cursor, slot: Item | str) -> str:
            asked.append(slot if isinstance(slot, str) else slot.name)
            return super().take(cursor, slot)

    handler = Asking({"CxIgnore": "-", "CxBlank": "", "charset": ""}, DEFINITIONS)
    handler.to_business_object("Address  1 Oslo 1 Address  2 Rome -", None)
    assert asked == [NAME, VERB, "AddressID", "City", "Before"] * 2


# --- several objects in one body ----------------------------------------------------------------

NOTES = [BusinessObject(DEFINITIONS, "Note", "Create", {"Text": text}) for text in "abc"]


def test_a_body_for_one_object_may_hold_no_more() -> None:
    records = iter(NOTES)
    with pytest.raises(MalformedData, match="found 3 records, expected one; set the option split"):
        read_one((bo for bo in records), records)
    records = iter(NOTES[:1])
    assert read_one((bo for bo in records), records) is NOTES[0]


def test_each_object_is_written_and_a_mistake_has_the_number_of_its_record() -> None:
    assert write_each(NOTES, lambda bo: str(bo["Text"])) == ["a", "b", "c"]

    def refuse_b(bo: BusinessObject) -> None:
        if bo["Text"] == "b":
            raise MalformedData("no b")

    with pytest.raises(MalformedData, match=r"^record 2: no b$"):
        write_each(NOTES, refuse_b)
    with pytest.raises(MalformedData, match="found no object, expected at least one"):
        write_each([], refuse_b)


def test_an_object_that_is_not_defined_stays_unknown() -> None:
    unknown = in_record(7, UnknownBusinessObject("no such object"))
    assert isinstance(unknown, UnknownBusinessObject)
    assert str(unknown) == "record 7: no such object"
    assert str(in_record(7, MalformedData("x"), "y")) == "record 7: y"
