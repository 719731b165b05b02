"""Plans: what a format knows of one business object."""

from __future__ import annotations

import pytest

from connector.businessobjects.definition import Definitions, Schema
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.plan import AttributeRun, Item, Plan, Plans, body_fields, takes_any_text
from connector.testing.datahandlers import sample_definitions
from tests.tables import rows

DEFINITIONS = sample_definitions()


def plan_of(schema: Schema) -> Plan[Item]:
    return Plan(schema, [Item(field, field.name.upper()) for field in body_fields(schema)])


def plans(definitions: Definitions = DEFINITIONS) -> Plans[Plan[Item]]:
    return Plans(definitions, plan_of)


def test_a_run_knows_which_texts_need_a_converter() -> None:
    run = plans().get("Customer").parts[0]
    assert isinstance(run, AttributeRun)
    assert run.names[:5] == ["CustomerId", "Name", "Notes", "Active", "Rating"]
    converted = [run.names[index] for index, _ in run.converters]
    assert converted == ["CustomerId", "Active", "Rating", "Discount", "Limit", "Since"]
    fields = DEFINITIONS.schema("Customer").fields.values()
    assert [field.name for field in fields if takes_any_text(field)] == ["Name", "Notes"]


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
