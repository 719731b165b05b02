"""Lists of values where only a single value has a place are found by the check."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

A = "adapter.yaml"
OBJECTS = "metaobjects/objects.yaml"
RULES = "metaobjects/rules.yaml"
ORDER = "attributes:\n  Id: {type: String, key: true}\n"


@pytest.fixture
def with_list(deployment: Sample) -> Sample:
    deployment.write(
        OBJECTS,
        deployment.read(OBJECTS).replace(
            ORDER, f"{ORDER}  Note: {{type: String, cardinality: n}}\n  Total: Double\n"
        ),
    )
    return deployment


def test_a_list_of_values_is_no_mistake(with_list: Sample) -> None:
    assert with_list.check() == []


@rows("mime_type", ["text/plain", "application/octet-stream"])
@rows("place", ["rule", "Default", "connector"])
def test_a_body_that_is_one_attribute_cannot_be_a_list(with_list: Sample, mime_type: str, place: str) -> None:
    with_list.replace(RULES, "  text/xml: {", f"  {mime_type}: {{attribute: Note}}\n  text/xml: {{")
    with_list.replace(RULES, "queue://orders, DataHandlerMimeType: text/xml}", "queue://orders}")
    if place == "rule":
        with_list.replace(RULES, "queue://orders}", f"queue://orders, DataHandlerMimeType: {mime_type}}}")
    elif place == "Default":
        with_list.replace(RULES, "DataHandlerMimeType: application/json", f"DataHandlerMimeType: {mime_type}")
    else:
        with_list.replace(RULES, "Default:\n  DataHandlerMimeType: application/json\n", "")
        with_list.replace(A, "DataHandlerMimeType: application/json", f"DataHandlerMimeType: {mime_type}")
    found = [one for one in with_list.check() if one.path == "MO_Config.rules.Order_Create"]
    assert [one.found for one in found] == ["Order: Note is a list of values"]
    assert [one.expected for one in found] == ["an attribute with a single value"]
    assert not found[0].warning


def test_a_message_that_is_one_attribute_cannot_be_a_list(with_list: Sample) -> None:
    with_list.replace(RULES, "  text/xml: {", "  text/plain: {attribute: Note}\n  text/xml: {")
    with_list.replace(A, "mime_type: text/xml", "mime_type: text/plain")
    (problem,) = with_list.check()
    assert problem.path == "subscriptions[1].mime_type"
    assert problem.found == "Order: Note is a list of values"


TABLE = "destination: queue://erp-orders\n    mime_type: text/xml"


@rows(
    "columns, path, found",
    [
        (
            "",
            "subscriptions[1].table",
            "Note is a list of values (String), and a column holds a single value",
        ),
        (
            "columns: {id: Id, note: Note}",
            "subscriptions[1].columns.note",
            "Note is a list of values (String)",
        ),
    ],
)
def test_no_column_of_a_table_holds_a_list(with_list: Sample, columns: str, path: str, found: str) -> None:
    with_list.replace(A, TABLE, f"table: shop.orders\n    {columns}")
    (problem,) = with_list.check()
    assert problem.path == path
    assert problem.found.startswith(found)
    assert not problem.warning


@rows("expression", ["Note[0]", "join(', ', Note)", "length(Note)"])
def test_a_column_may_have_an_expression_on_a_list(with_list: Sample, expression: str) -> None:
    with_list.replace(A, TABLE, f'table: shop.orders\n    columns: {{id: Id, note: "{expression}"}}')
    assert with_list.check() == []


def test_no_table_of_children_holds_a_list(with_list: Sample) -> None:
    with_list.replace(OBJECTS, "  Total: Double", "  Total: Double\n  Line: {type: Line, cardinality: n}")
    attributes = "{Item: {type: String, key: true}, Tag: {type: String, cardinality: n}}"
    line = f"business_object: Line\nattributes: {attributes}"
    with_list.replace(OBJECTS, "business_object: Address", f"{line}\n---\nbusiness_object: Address")
    table = "columns: {id: Id}\n    children: {Line: {table: shop.line, key: {id: Id}}}"
    with_list.replace(A, TABLE, f"table: shop.orders\n    {table}")
    (problem,) = with_list.check()
    assert problem.path == "subscriptions[1].children.Line.table"
    assert problem.found.startswith("Tag is a list of values (String)")
