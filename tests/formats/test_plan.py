"""Plans: what a format knows of one business object."""

from __future__ import annotations

import pytest

from connector.businessobjects.definition import Definitions, Schema
from connector.businessobjects.types import text_of
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.plan import AttributeRun, Item, Plan, Plans, body_fields, takes_any_text
from connector.testing.datahandlers import sample_definitions
from tests.datahandlers.definitions import define, known
from tests.tables import rows

DEFINITIONS = sample_definitions()


def plan_of(schema: Schema) -> Plan[Item]:
    return Plan(schema, [Item(field, field.name.upper()) for field in body_fields(schema)])


def plans(definitions: Definitions = DEFINITIONS) -> Plans[Plan[Item]]:
    return Plans(definitions, plan_of)


def test_the_parts_are_runs_of_single_values_between_children_and_lists() -> None:
    parts = plans().get("Article").parts
    names = [part.names if isinstance(part, AttributeRun) else part.field.name for part in parts]
    lists = ("Tag", "Size", "InStock", "Weight", "Sold")
    assert names == [["ArticleId"], *lists, ["Price"], "Rebate", "Part", ["Name"]]


def test_an_attribute_with_a_meta_object_is_no_item() -> None:
    assert list(plans().get("Note").by_name) == ["TEXT"]
    assert [field.name for field in body_fields(DEFINITIONS.schema("Note"), "Text")] == []


def test_a_run_knows_which_texts_need_a_converter() -> None:
    run = plans().get("Customer").parts[0]
    assert isinstance(run, AttributeRun)
    assert run.names[:5] == ["CustomerId", "Name", "Notes", "Active", "Rating"]
    converted = [run.names[index] for index, _ in run.converters]
    assert converted == ["CustomerId", "Active", "Rating", "Discount", "Limit", "Since"]
    fields = DEFINITIONS.schema("Customer").fields.values()
    assert [field.name for field in fields if takes_any_text(field)] == ["Name", "Notes"]


@rows(
    "type_name, values",
    [
        ("Boolean", [True, False, ""]),
        ("Integer", [0, -2147483648, ""]),
        ("Float", [0.1, 1e30, ""]),
        ("Double", [-0.0, 1e300, ""]),
    ],
)
def test_a_value_is_written_as_its_type_is_read(
    type_name: str, values: list[bool | int | float | str]
) -> None:
    definitions = known(define("A", a=type_name))
    (item,) = plans(definitions).get("A").items
    assert item.to_text is not None
    assert [item.to_text(value) for value in values] == [text_of(value) for value in values]


def test_each_plan_is_made_once_and_when_it_is_needed() -> None:
    made: list[str] = []

    def make(schema: Schema) -> Plan[Item]:
        made.append(schema.name)
        return plan_of(schema)

    known = Plans(DEFINITIONS, make)
    assert known.get("Customer") is known.of(DEFINITIONS.schema("Customer"))
    assert made == ["Customer"]
    assert [plan.name for plan in known.reachable(known.get("Customer"))] == ["Customer", "Address"]
    assert made == ["Customer", "Address"]
    with pytest.raises(UnknownBusinessObject):
        known.get("Nobody")


def test_an_object_that_the_format_cannot_hold_fails_where_it_is_met() -> None:
    def make(schema: Schema) -> Plan[Item]:
        if schema.name == "Address":
            raise MalformedData("no")
        return plan_of(schema)

    known = Plans(DEFINITIONS, make)
    assert known.get("Customer").name == "Customer"
    with pytest.raises(MalformedData):
        known.reachable(known.get("Customer"))


@rows(
    "name, reason",
    [
        ("NAEM", "no such attribute in Customer, did you mean 'NAME'?"),
        ("Name", "the attribute Name of Customer is 'NAME' in capitals"),
        ("Meta", "holds a meta-object of Customer, which is never part of a body"),
    ],
)
def test_a_name_that_is_no_item_is_explained(name: str, reason: str) -> None:
    assert plans().get("Customer").unknown_name(name, "capitals") == reason
