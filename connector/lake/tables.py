"""The columns and rows of business objects in a DataFrame.

A String is a string, an Integer an integer, a Float or Double a double. A Decimal has room for all its digits
on both sides of the point. A Date is a timestamp, because it may have a time. ``spark=date`` or
``spark=string`` in its application-specific information says otherwise. A child is a struct, and a list an
array. A blank that is no text is null, and so is an attribute that is not set. Attributes that hold
meta-objects are left out, as in bodies.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import types as spark

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.dates import Unkeepable, read_time
from connector.businessobjects.definition import Attribute, Definitions, Field, Schema
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import DECIMAL, TEXTS, describe
from connector.errors import CapabilityError, MalformedData
from connector.lake.columns import DATES, TAG, column_mistake
from connector.text.decimals import size

_MOST_DIGITS: Final = 38
_SCALE: Final = 18
"""Places after the point, where the definition gives no scale."""

Convert = Callable[[Any], Any]


class SparkTable:
    """How the objects of one definition become rows.

    Raises:
        UnknownBusinessObject: there is no such object.
        CapabilityError: a definition contains itself, or a tag ``spark`` is wrong.
    """

    def __init__(self, definitions: Definitions, name: str) -> None:
        if mistake := column_mistake(definitions, name):
            raise CapabilityError(mistake)
        self._rows = _Rows(definitions.schema(name))
        self.schema: Final = self._rows.type
        """The columns."""

    def row(self, bo: BusinessObject) -> tuple[Any, ...]:
        """Returns the values of an object, in the order of the columns.

        Raises:
            MalformedData: a column cannot hold a value. The text names the attribute.
        """
        return self._rows.make(bo)


class _Rows:
    """The struct of a definition."""

    def __init__(self, schema: Schema) -> None:
        self._object = schema.name
        self._names = schema.body_names
        made = [_column(schema.fields[name]) for name in self._names]
        self._converts = [convert for _, convert in made]
        self.type = spark.StructType(
            [spark.StructField(name, kind) for name, (kind, _) in zip(self._names, made, strict=True)]
        )

    def make(self, bo: BusinessObject) -> tuple[Any, ...]:
        values = bo.values_of(self._names)
        try:
            return tuple(
                [
                    value if value is None or convert is None else convert(value)
                    for value, convert in zip(values, self._converts, strict=True)
                ]
            )
        except MalformedData:
            raise
        except ValueError:
            raise self._mistake(values) from None

    def _mistake(self, values: list[Any]) -> MalformedData:
        """Returns the error of the first value that no column can hold."""
        for name, value, convert in zip(self._names, values, self._converts, strict=True):
            try:
                if value is not None and convert is not None:
                    convert(value)
            except Unkeepable as error:
                return MalformedData(f"{self._object}: {name}: found {describe(value)}, expected {error}")
            except ValueError as error:
                return MalformedData(f"{self._object}: {name}: {error}")
        raise AssertionError("each value fits now")


def _column(field: Field) -> tuple[spark.DataType, Convert | None]:
    """Returns the type of a column, and what converts a value for it. None = nothing has to be converted."""
    kind: spark.DataType
    convert: Convert | None
    if field.child is not None:
        rows = _Rows(field.child)
        kind, convert = rows.type, rows.make
    else:
        kind, convert = _simple(field.attribute)
    if not field.many:
        return kind, convert
    one = convert
    return spark.ArrayType(kind), None if one is None else lambda values: [one(value) for value in values]


def _simple(attribute: Attribute) -> tuple[spark.DataType, Convert | None]:
    if attribute.type in TEXTS:
        return spark.StringType(), None
    if attribute.type == DECIMAL:
        return _decimal(attribute)
    if attribute.type == "Date":
        said = tags(attribute.app_specific_info).get(TAG, DATES[0])
        return {
            "timestamp": (spark.TimestampType(), _unless_blank(read_time)),
            "date": (spark.DateType(), _unless_blank(_date)),
            "string": (spark.StringType(), None),
        }[said]
    if attribute.type == "Boolean":
        return spark.BooleanType(), _unless_blank(bool)
    if attribute.type == "Integer":
        return spark.IntegerType(), _unless_blank(int)
    return spark.DoubleType(), _unless_blank(float)


def _unless_blank(convert: Convert) -> Convert:
    return lambda value: None if value == "" else convert(value)


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise Unkeepable(
            f"a date without time and zone; {TAG}=timestamp in the definition keeps them"
        ) from None


def _decimal(attribute: Attribute) -> tuple[spark.DataType, Convert]:
    scale = _SCALE if attribute.scale is None else min(attribute.scale, _MOST_DIGITS)
    digits = _MOST_DIGITS
    if attribute.digits and attribute.scale is not None:
        digits = min(_MOST_DIGITS, attribute.digits + scale)  # all digits may stand before the point
    whole = digits - scale

    def convert(value: Any) -> Decimal | None:
        if value == "":
            return None
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        found, places = size(number)
        if places > scale:
            raise Unkeepable(f"at most {scale} places after the point")
        if found - places > whole:
            raise Unkeepable(f"at most {whole} digits before the point")
        return number

    return spark.DecimalType(digits, scale), convert
