"""Several objects in one body."""

from __future__ import annotations

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.splitting import in_record, read_one, write_each
from connector.testing.datahandlers import sample_definitions

NOTES = [BusinessObject(sample_definitions(), "Note", "Create", {"Text": text}) for text in "abc"]


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
