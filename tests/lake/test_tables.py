"""Business objects become rows, and nothing of a value is lost on the way."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as spark

from connector.businessobjects.definition import Attribute, Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import CapabilityError, MalformedData, UnknownBusinessObject
from connector.lake.tables import SparkTable
from tests.tables import rows

UTC = datetime.UTC


def definitions(**objects: dict[str, dict[str, Any]]) -> Definitions:
    made = {}
    for name, attributes in objects.items():
        tagged = "cw_mo_x=Meta" if "Meta" in attributes else ""
        made[name] = Definition(
            name,
            app_specific_info=tagged,
            attributes={one: Attribute(one, **said) for one, said in attributes.items()},
        )
    return Definitions(made)


def converted(value: Any, **said: Any) -> Any:
    known = definitions(Order={"A": said})
    (found,) = SparkTable(known, "Order").row(BusinessObject(known, "Order", values={"A": value}))
    return found


def column(**said: Any) -> spark.DataType:
    (field,) = SparkTable(definitions(Order={"A": said}), "Order").schema.fields
    return field.dataType


def test_children_are_structs_and_lists_are_arrays() -> None:
    known = definitions(
        Order={
            "OrderId": {"type": "String"},
            "Customer": {"type": "Customer"},
            "Lines": {"type": "Line", "cardinality": "n"},
            "Notes": {"type": "String", "cardinality": "n"},
            "Meta": {"type": "Customer"},
        },
        Customer={"Name": {"type": "String"}},
        Line={"Sku": {"type": "String"}, "Count": {"type": "Integer"}},
    )
    table = SparkTable(known, "Order")
    assert table.schema.simpleString() == (
        "struct<OrderId:string,Customer:struct<Name:string>,"
        "Lines:array<struct<Sku:string,Count:int>>,Notes:array<string>>"
    )
    values = {
        "OrderId": "1",
        "Customer": {"Name": "Ada"},
        "Lines": [{"Sku": "a", "Count": 2}, {"Sku": "b"}],
        "Notes": ["x", ""],
    }
    assert table.row(BusinessObject(known, "Order", values=values)) == (
        "1",
        ("Ada",),
        [("a", 2), ("b", None)],
        ["x", ""],
    )
    assert table.row(BusinessObject(known, "Order")) == (None, None, None, None)


@rows(
    "said, expected",
    [
        ({"type": "LongText"}, "string"),
        ({"type": "Ciphertext"}, "string"),
        ({"type": "Boolean"}, "boolean"),
        ({"type": "Integer"}, "int"),
        ({"type": "Float"}, "double"),
        ({"type": "Double"}, "double"),
        ({"type": "Decimal"}, "decimal(38,18)"),
        ({"type": "Decimal", "scale": 2}, "decimal(38,2)"),
        ({"type": "Decimal", "digits": 10, "scale": 2}, "decimal(12,2)"),
        ({"type": "Date"}, "timestamp"),
        ({"type": "Date", "app_specific_info": "spark=date"}, "date"),
        ({"type": "Date", "app_specific_info": "spark=string"}, "string"),
    ],
)
def test_each_type_has_a_column(said: dict[str, Any], expected: str) -> None:
    assert column(**said).simpleString() == expected


@rows(
    "said, value, expected",
    [
        ({"type": "Boolean"}, True, True),
        ({"type": "Integer"}, "", None),
        ({"type": "String"}, "", ""),
        ({"type": "Double"}, 0.1, 0.1),
        ({"type": "Decimal", "digits": 10, "scale": 2}, "1234567890", Decimal("1234567890")),
        ({"type": "Decimal"}, "0.10", Decimal("0.1")),
        ({"type": "Date"}, "2026-01-31", datetime.datetime(2026, 1, 31)),
        ({"type": "Date"}, "2026-01-31T12:30:00Z", datetime.datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
        ({"type": "Date"}, "20260131T24:00", datetime.datetime(2026, 2, 1)),
        ({"type": "Date"}, "", None),
        ({"type": "Date", "app_specific_info": "spark=date"}, "20260131", datetime.date(2026, 1, 31)),
    ],
)
def test_values_are_kept(said: dict[str, Any], value: Any, expected: Any) -> None:
    assert converted(value, **said) == expected


@rows(
    "said, value, mistake",
    [
        ({"type": "Date"}, "2026-06-30T23:59:60Z", "without a leap second"),
        ({"type": "Date", "app_specific_info": "spark=date"}, "2026-01-31T12:00", "spark=timestamp"),
        ({"type": "Decimal"}, "0." + "1" * 19, "at most 18 places"),
        ({"type": "Decimal"}, "1" * 21, "at most 20 digits before"),
    ],
)
def test_what_no_column_holds_is_malformed(said: dict[str, Any], value: Any, mistake: str) -> None:
    with pytest.raises(MalformedData, match=rf"Order: A: found .*, expected .*{mistake}"):
        converted(value, **said)


def test_what_cannot_be_columns_is_refused() -> None:
    endless = definitions(
        Order={"Part": {"type": "Part"}}, Part={"Whole": {"type": "Order", "cardinality": "n"}}
    )
    with pytest.raises(CapabilityError, match="contains itself: Order > Part > Order"):
        SparkTable(endless, "Order")
    with pytest.raises(CapabilityError, match=r"Order.A: found spark=time, expected one of timestamp, "):
        column(type="Date", app_specific_info="spark=time")
    with pytest.raises(UnknownBusinessObject):
        SparkTable(endless, "Ordr")
