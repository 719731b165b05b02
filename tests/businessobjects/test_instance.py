"""Business objects: values, their checks, and how they are completed."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import copy
import datetime
import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from connector.businessobjects.definition import Attribute
from connector.businessobjects.instance import BusinessObject, UnknownAttribute, check, finish
from connector.errors import MalformedData
from connector.formats.catalogue import discover
from connector.formats.datahandler import Hint
from connector.formats.handlers import Handlers
from connector.testing.datahandlers import sample_definitions
from tests.datahandlers.definitions import define, known, refusal
from tests.tables import rows

DEFINITIONS = sample_definitions()


def customer(values: dict[str, Any] | None = None) -> BusinessObject:
    return BusinessObject(DEFINITIONS, "Customer", "Create", values)


def test_a_value_is_read_by_its_path_and_is_none_if_it_is_not_set() -> None:
    bo = customer({"CustomerId": "C1", "Address": [{"City": "Oslo"}]})
    assert (bo.type, bo.verb) == ("Customer", "Create")
    assert (bo["CustomerId"], bo["Address"][0]["City"], bo["Name"]) == ("C1", "Oslo", None)
    assert bo.get("Home", []) == []
    assert "Name" not in bo


def test_an_attribute_that_does_not_exist_is_a_key_error_with_the_nearest_name() -> None:
    bo = customer()
    with pytest.raises(KeyError) as read:
        bo["Nmae"]
    assert str(read.value) == "Customer has no attribute 'Nmae', did you mean 'Name'?"
    with pytest.raises(UnknownAttribute):
        bo["Nmae"] = "x"
    with pytest.raises(MalformedData, match="did you mean 'City'"):
        bo.add("Home")["Citty"]


def test_assigning_checks_the_type_and_none_unsets() -> None:
    bo = customer({"Name": "n"})
    bo["Rating"] = 7
    with pytest.raises(MalformedData, match=r"^Customer: Rating: found the text '7', expected an integer$"):
        bo["Rating"] = "7"
    bo["Name"] = None
    assert bo.as_dict() == {"Rating": 7}


def test_attributes_are_read_and_set_as_those_of_python() -> None:
    bo: Any = customer({"CustomerId": "C1", "Address": [{"City": "Oslo"}]})
    bo.Rating = 7
    bo.Address[0].City = "Bergen"
    bo.Name = "n"
    bo.Name = None
    assert bo.as_dict() == {"CustomerId": "C1", "Rating": 7, "Address": [{"City": "Bergen"}]}
    assert (bo.CustomerId, bo.Name, bo.Address[0].City) == ("C1", None, "Bergen")
    with pytest.raises(MalformedData, match="Rating: found the text '7'"):
        bo.Rating = "7"
    with pytest.raises(AttributeError, match="Customer has no attribute 'Nmae', did you mean 'Name'"):
        bo.Nmae  # noqa: B018  # it raises
    with pytest.raises(AttributeError, match="did you mean 'Name'"):
        bo.Nmae = "x"
    assert not hasattr(bo, "__len__")
    assert {"Rating", "as_dict"} <= set(dir(bo))
    assert (copy.deepcopy(bo), pickle.loads(pickle.dumps(bo)), copy.copy(bo).verb) == (bo, bo, "Create")


def test_an_attribute_with_the_name_of_a_method_hides_nothing() -> None:
    names = {name: Attribute(name, "String") for name in ("date", "type", "verb", "_parts")}
    bo: Any = BusinessObject(known(define("Thing", **names)), "Thing", "Create", dict.fromkeys(names, "x"))
    assert (bo.type, bo.verb, callable(bo.date)) == ("Thing", "Create", True)
    for name in ("date", "type"):
        with pytest.raises(AttributeError, match=rf"^{name} is a name of every .* is bo\['{name}'\]$"):
            setattr(bo, name, "y")
    for wrong in (lambda: bo._parts, lambda: setattr(bo, "_parts", "y")):
        with pytest.raises(AttributeError, match="_parts"):
            wrong()
    bo.verb, bo.object_event_id = "Update", "e"
    assert (bo.verb, bo["verb"], bo.object_event_id) == ("Update", "x", "e")


def test_children_are_assigned_as_mappings_or_objects() -> None:
    bo = customer()
    home = BusinessObject(DEFINITIONS, "Address", values={"City": "Bonn"})
    bo["Home"] = home
    bo["Address"] = [home, {"City": "Oslo"}]
    assert bo.as_dict() == {"Home": {"City": "Bonn"}, "Address": [{"City": "Bonn"}, {"City": "Oslo"}]}
    with pytest.raises(MalformedData, match="Home: found a Note, expected an object"):
        bo["Home"] = BusinessObject(DEFINITIONS, "Note")


@rows(
    "values, error",
    [
        ({"Address": [{"City": "a"}, {"City": 7}]}, "Customer: Address[1].City: found the number 7, expected a text"),
        ({"Address": [{"Before": {"Before": {"City": True}}}]}, "Customer: Address[0].Before.Before.City: found true"),
        ({"Address": {"City": "a"}}, "Customer: Address: found an object, expected a list of objects (Address)"),
        ({"Address": [None]}, "Customer: Address[0]: found null, expected an object (Address)"),
        ({"Home": [{}]}, "Customer: Home: found a list, expected an object (Address)"),
        ({"Home": {"Citty": "a"}}, "Customer: Home.Citty: no such attribute in Address, did you mean 'City'?"),
        ({"CustomerId": "x" * 21}, "Customer: CustomerId: found a text of 21 characters, expected at most 20"),
    ],
)  # fmt: skip
def test_an_error_names_the_path_of_the_attribute(values: dict[str, Any], error: str) -> None:
    assert refusal(customer, values).startswith(error)


def test_undefined_attributes_are_passed_over_only_on_demand() -> None:
    bo = customer()
    bo.set_values({"x": 1, "Home": {"y": 2, "City": "a"}}, ignore_undefined=True)
    assert bo.as_dict() == {"Home": {"City": "a"}}
    assert "x: no such attribute in Customer" in refusal(bo.set_values, {"x": 1})


def test_a_body_cannot_set_the_meta_object() -> None:
    bo, values = customer(), {"Meta": {"MessageID": "x"}}
    reason = refusal(bo.set_values, values, body_only=True)
    assert "Meta: holds a meta-object of Customer, which is never part of a body" in reason
    bo.set_values(values, body_only=True, ignore_undefined=True)
    assert bo.as_dict() == {}
    bo.set_values(values)
    assert (bo.as_dict(), bo.as_dict(body_only=True)) == (values, {})


def test_as_dict_has_the_order_of_the_definition_and_is_json() -> None:
    bo = customer({"Since": "2024-05-31", "Home": {"City": "a", "AddressID": 1}, "CustomerId": "C1"})
    assert json.dumps(bo.as_dict()) == (
        '{"CustomerId": "C1", "Since": "2024-05-31", "Home": {"AddressID": 1, "City": "a"}}'
    )
    assert list(bo) == ["CustomerId", "Since", "Home"]


def test_a_single_child_is_added_once() -> None:
    bo = customer()
    bo.add("Home").set_text("AddressID", " 5 ")
    assert bo.as_dict() == {"Home": {"AddressID": 5}}
    assert "Home: found a second time" in refusal(bo.add, "Home")
    assert "Name: found a child, expected a String" in refusal(bo.add, "Name")
    assert "Home: found a text, expected an object" in refusal(bo.set_text, "Home", "x")


def test_copies_are_equal_and_independent() -> None:
    bo = customer({"CustomerId": "C1", "Address": [{"City": "Oslo"}]})
    bo.object_event_id = "ID:1"
    for again in (copy.deepcopy(bo), pickle.loads(pickle.dumps(bo))):
        assert again == bo
        assert again.object_event_id == "ID:1"
        again["Address"][0]["City"] = "Rome"
        assert again != bo
    assert bo["Address"][0]["City"] == "Oslo"


def test_the_event_id_is_no_attribute_unless_the_definition_declares_it() -> None:
    bo = customer({"CustomerId": "C1"})
    bo.object_event_id = "ID:1"
    assert bo.as_dict() == {"CustomerId": "C1"}
    required = Attribute("ObjectEventId", "String", is_required=True)
    other = BusinessObject(known(define("A", ObjectEventId=required)), "A", "Create")
    finish(other)
    other.object_event_id = "ID:1"
    assert other["ObjectEventId"] == "ID:1"


def test_no_verb_and_a_verb_that_the_object_lacks_are_malformed_and_the_verbs_are_named() -> None:
    reason = refusal(finish, BusinessObject(DEFINITIONS, "Note"))
    assert "neither rule, body nor DefaultVerb name a verb; it has Create, Update" in reason
    for verb, kept in ((None, "Create"), ("Update", "Update")):
        bo = BusinessObject(DEFINITIONS, "Note", verb)
        finish(bo, default_verb="Create")
        assert bo.verb == kept
    reason = refusal(finish, BusinessObject(DEFINITIONS, "Note", "Updat"), default_verb="Create")
    assert "no verb 'Updat'; it has Create, Update, did you mean 'Update'" in reason


def test_a_missing_required_attribute_is_malformed_at_every_level() -> None:
    assert refusal(finish, customer()) == "Customer: CustomerId: required, but not set"
    bo = customer({"CustomerId": "C", "Address": [{"City": "a"}, {"City": "b", "Before": {}}]})
    assert refusal(finish, bo) == "Customer: Address[1].Before.City: required, but not set"


@rows("is_required", [True, False])
@rows("kind", ["String", "Integer", "Boolean", "Decimal", "Date"])
def test_a_blank_key_or_required_attribute_is_malformed_unless_it_may_be_blank(
    kind: str, is_required: bool
) -> None:
    for may_be_blank in (False, True):
        attribute = Attribute("Code", kind, is_key=True, is_required=is_required, may_be_blank=may_be_blank)
        definitions = known(
            define("A", Part=Attribute("Part", "B", cardinality="n")), define("B", Code=attribute)
        )
        bo = BusinessObject(definitions, "A", "Create", {"Part": [{"Code": ""}]})
        for test in (finish, check):
            if may_be_blank:
                test(bo)
            else:
                assert f"A: Part[0].Code: {'required' if is_required else 'a key'}, but blank" in refusal(
                    test, bo
                )
    assert bo["Part"][0].is_blank("Code")


@rows("value", [0, False, Decimal(0)])
def test_zero_and_false_are_no_blanks(value: Any) -> None:
    kind = {int: "Integer", bool: "Boolean", Decimal: "Decimal"}[type(value)]
    definitions = known(define("A", Code=Attribute("Code", kind, is_key=True, is_required=True)))
    bo = BusinessObject(definitions, "A", "Create", {"Code": value})
    finish(bo)
    assert bo["Code"] == value
    assert not bo.is_blank("Code")


def test_an_object_that_is_written_may_lack_what_is_required() -> None:
    check(customer())


def test_a_blank_that_is_no_text_reads_as_none_and_is_told_from_not_set() -> None:
    bo = customer({"Rating": "", "Name": "", "Since": ""})
    assert (bo["Rating"], bo["Since"], bo["Name"], bo.get("Rating", 7)) == (None, None, "", 7)
    assert [bo.is_blank(name) for name in ("Rating", "Since", "Name", "Limit")] == [True, True, True, False]
    assert (bo.value("Rating"), bo.value("Limit")) == ("", None)
    assert bo.as_dict() == {"Name": "", "Rating": "", "Since": ""}
    assert "no attribute 'Nam'" in refusal(bo.is_blank, "Nam")


@rows("required", [True, False])
def test_a_default_satisfies_only_what_is_required_and_only_on_demand(required: bool) -> None:
    size = Attribute("Size", "Integer", is_required=required, default=0)
    definitions = known(define("A", Size=size))
    bo = BusinessObject(definitions, "A", "Create")
    finish(bo, use_defaults=True)
    assert bo["Size"] == (0 if required else None)
    if required:
        assert "Size: required" in refusal(finish, BusinessObject(definitions, "A", "Create"))


def test_a_required_list_of_children_has_at_least_one() -> None:
    parts = Attribute("Parts", "B", is_required=True, cardinality="n")
    definitions = known(define("A", Parts=parts), define("B"))
    assert "Parts: required" in refusal(finish, BusinessObject(definitions, "A", "Create", {"Parts": []}))


@rows("mime_type", ["application/json", "text/xml", "text/plain"])
def test_a_ciphertext_is_in_bodies_and_in_no_repr_or_error(mime_type: str, tmp_path: Path) -> None:
    definitions = known(define("Card", Pin="Ciphertext 8"))
    options = {"attribute": "Pin"} if mime_type == "text/plain" else {}
    handlers = Handlers([discover(tmp_path).spec(mime_type, options)], definitions, tmp_path)
    handler = handlers.get(mime_type)
    bo = BusinessObject(definitions, "Card", "Create", {"Pin": "hush"})
    assert bo.as_dict() == {"Pin": "hush"}
    body = handler.to_body(bo)
    assert handler.to_business_object(body, Hint("Card", "Create")) == bo
    assert "hush" not in repr(bo)
    text = body.decode() if isinstance(body, bytes) else body
    longer = text.replace("hush", "hush-hush").encode()
    reason = refusal(handler.to_business_object, longer, Hint("Card", "Create"))
    assert "Pin" in reason
    assert "hush" not in reason


@rows(
    "text, expected",
    [
        ("2024-05-31", datetime.date(2024, 5, 31)),
        ("20240531", datetime.date(2024, 5, 31)),
        ("2024-05-31+02:00", datetime.date(2024, 5, 31)),
        ("2024-05-31T08:00", datetime.datetime(2024, 5, 31, 8)),
        ("2024-05-31T24:00:00Z", datetime.datetime(2024, 6, 1, tzinfo=datetime.UTC)),
        ("", None),
        (None, None),
    ],
)
def test_a_date_is_a_date_or_a_time_by_what_its_text_says(text: str | None, expected: Any) -> None:
    found = customer({"Since": text}).date("Since")
    assert (type(found), found) == (type(expected), expected)


def test_what_is_no_date_of_python_is_malformed() -> None:
    reason = refusal(customer({"Since": "2016-12-31T23:59:60Z"}).date, "Since")
    assert reason.startswith("Customer: Since: found the text '2016-12-31T23:59:60Z', expected")
    assert "Customer: Name: found a String, expected a Date" in refusal(customer().date, "Name")
