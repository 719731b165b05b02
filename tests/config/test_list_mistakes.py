"""Lists of values where only a single value has a place are found by the check."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.config.mistakes import A, Mistake, O, R, case
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

ORDER = "attributes:\n  Id: {type: String, key: true}\n"


@pytest.fixture
def with_list(deployment: Sample) -> Sample:
    deployment.replace(O, ORDER, f"{ORDER}  Note: {{type: String, cardinality: n}}\n  Total: Double\n")
    return deployment


def test_a_list_of_values_is_no_mistake(with_list: Sample) -> None:
    assert with_list.check() == []


@rows("mime_type", ["text/plain", "application/octet-stream"])
@rows("place", ["rule", "Default", "connector"])
def test_a_body_that_is_one_attribute_cannot_be_a_list(with_list: Sample, mime_type: str, place: str) -> None:
    with_list.replace(R, "  text/xml: {", f"  {mime_type}: {{attribute: Note}}\n  text/xml: {{")
    with_list.replace(R, "queue://orders, DataHandlerMimeType: text/xml}", "queue://orders}")
    if place == "rule":
        with_list.replace(R, "queue://orders}", f"queue://orders, DataHandlerMimeType: {mime_type}}}")
    elif place == "Default":
        with_list.replace(R, "DataHandlerMimeType: application/json", f"DataHandlerMimeType: {mime_type}")
    else:
        with_list.replace(R, "Default:\n  DataHandlerMimeType: application/json\n", "")
        with_list.replace(A, "DataHandlerMimeType: application/json", f"DataHandlerMimeType: {mime_type}")
    found = [one for one in with_list.check() if one.path == "MO_Config.rules.Order_Create"]
    assert [one.found for one in found] == ["Order: Note is a list of values"]
    assert [one.expected for one in found] == ["an attribute with a single value"]
    assert not found[0].warning


TABLE = "destination: queue://erp-orders\n    mime_type: text/xml"
LINE = "{Item: {type: String, key: true}, Tag: {type: String, cardinality: n}}"
MISTAKES = [
    case("message of one attribute", A, "mime_type: text/xml", "mime_type: text/plain", "subscriptions[1].mime_type", "Order: Note is a list of values", more=((R, "  text/xml: {", "  text/plain: {attribute: Note}\n  text/xml: {"),)),
    case("table", A, TABLE, "table: shop.orders", "subscriptions[1].table", "Note is a list of values (String), and a column holds a single value"),
    case("column", A, TABLE, "table: shop.orders\n    columns: {id: Id, note: Note}", "subscriptions[1].columns.note", "Note is a list of values (String)"),
    case(
        "table of children", A, TABLE, "table: shop.orders\n    columns: {id: Id}\n    children: {Line: {table: shop.line, key: {id: Id}}}", "subscriptions[1].children.Line.table", "Tag is a list of values (String)",
        more=((O, "  Total: Double", "  Total: Double\n  Line: {type: Line, cardinality: n}"), (O, "business_object: Address", f"business_object: Line\nattributes: {LINE}\n---\nbusiness_object: Address")),
    ),
]  # fmt: skip


@rows("mistake", MISTAKES)
def test_no_single_value_is_a_list(with_list: Sample, mistake: Mistake) -> None:
    mistake.assert_alone(with_list)


@rows("expression", ["Note[0]", "join(', ', Note)", "length(Note)"])
def test_a_column_may_have_an_expression_on_a_list(with_list: Sample, expression: str) -> None:
    with_list.replace(A, TABLE, f'table: shop.orders\n    columns: {{id: Id, note: "{expression}"}}')
    assert with_list.check() == []
