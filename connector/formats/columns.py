"""The columns of a business object in a format of flat records."""

from __future__ import annotations

from typing import Any, Final

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Field, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.errors import MalformedData
from connector.formats.notation import Notation
from connector.formats.plan import UNDEFINED, AttributeRun, Item, Plan, body_fields, takes_any_text
from connector.text.names import shown

TYPE: Final = "BusinessObject"
VERB: Final = "Verb"
"""The columns that name type and verb."""

MAX_COLUMNS: Final = 16_384
"""The most columns of a type or a body. The usual spreadsheets have the same limit."""

_MAX_LEVELS: Final = 32
"""Levels of children that are columns."""


class Column(Item):
    """An attribute of an object or of a child, as the header names it.

    Args:
        path: the attributes that lead to the child that has the attribute. Empty = the object itself.
    """

    __slots__ = ("path",)

    def __init__(self, field: Field, name: str, path: tuple[Field, ...]) -> None:
        super().__init__(field, name)
        self.path = path


class Columns(Plan[Column]):
    """All columns of a type, in the order of the definition.

    An object may be nested in itself. CSV holds such an object to the first level.

    Args:
        notation: of the texts in the fields.

    Raises:
        MalformedData: two attributes have one name, or there are too many of them, or none.
    """

    def __init__(self, schema: Schema, notation: Notation | None = None) -> None:
        self._notation = notation or Notation({})
        self._group = _Group(schema, f"{schema.name}: ")
        self._unheld: dict[str, str] = {}
        """By name of column, the reasons why CSV cannot hold an attribute."""
        self._size = 0
        super().__init__(schema, self._collect(self._group, "", (), (schema,)))
        self.names = [column.name for column in self.items]
        if len(self.by_name) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise MalformedData(f"{schema.name}: two attributes have the column {shown(twice)}")
        if not self.names:
            raise MalformedData(f"{schema.name} has no attribute that CSV can hold")
        for index, column in enumerate(self.items):
            self._group.add(column, index)
        self.type_names = [name for name in (TYPE, VERB) if name not in self.by_name]
        self._typed = AttributeRun(list(self.items)).typed

    def _collect(
        self, group: _Group, prefix: str, path: tuple[Field, ...], around: tuple[Schema, ...]
    ) -> list[Column]:
        """Returns the columns of a child, or of the object itself. Adds what CSV cannot hold to ``group``."""
        columns: list[Column] = []
        for field in body_fields(group.schema):
            name = prefix + (tags(field.attribute.app_specific_info).get("name") or field.name)
            child = field.child
            self._size += 1
            if self._size > MAX_COLUMNS:
                raise MalformedData(f"{around[0].name} has more than {MAX_COLUMNS} columns")
            if child is None and not field.many:
                columns.append(self._notation.fit(Column(field, name, path)))
                continue
            if field.many:
                what = "values" if child is None else "objects"
                reason = f"a list of {what} ({field.attribute.type})"
            elif child in around or len(around) > _MAX_LEVELS:
                reason = f"an object ({field.attribute.type}) within such an object"
            else:
                assert child is not None
                columns += self._collect(group.child(field), f"{name}.", (*path, field), (*around, child))
                continue
            self._unheld[name] = group.unheld[field.name] = f"{reason}, which CSV cannot hold"
        return columns

    def unknown_name(self, name: str, format: str = "CSV") -> str:
        for unheld, reason in self._unheld.items():
            if name == unheld or name.startswith(f"{unheld}."):
                return f"{unheld} is {reason}"
        return super().unknown_name(name, format)

    def type_and_verb(self, bo: BusinessObject) -> list[str | None]:
        return [bo.type if name == TYPE else bo.verb for name in self.type_names]

    def texts(self, bo: BusinessObject) -> list[str | None]:
        """Returns the fields of an object.

        Raises:
            MalformedData: CSV cannot hold a part of the object.
        """
        texts: list[Any] = [None] * len(self.names)
        self._group.put(bo, texts)
        for index, to_text in self._typed:
            value = texts[index]
            if value is not None:
                try:
                    texts[index] = to_text(value)
                except ValueError as error:
                    raise MalformedData(f"{bo.type}: {self.names[index]}: {error}") from None
        return texts


class _Group:
    """The places of the attributes of an object or a child in a record.

    Args:
        path: of the object, as errors name it.
    """

    __slots__ = ("_children", "_path", "_places", "schema", "unheld")

    def __init__(self, schema: Schema, path: str) -> None:
        self.schema = schema
        self.unheld: dict[str, str] = {}
        """The attributes that CSV cannot hold, with the reasons."""
        self._path = path
        self._places: dict[str, int] = {}
        self._children: dict[str, _Group] = {}

    def child(self, field: Field) -> _Group:
        assert field.child is not None
        return self._children.setdefault(field.name, _Group(field.child, f"{self._path}{field.name}."))

    def add(self, column: Column, index: int) -> None:
        group = self
        for field in column.path:
            group = group.child(field)
        group._places[column.field.name] = index

    def values(self, fields: list[Any], has_unset: bool) -> dict[str, Any]:
        """Returns the values of the attributes that are set, from the values of a record."""
        if len(self._places) != len(fields):  # or the names and the fields would have one order
            values = {n: v for n, i in self._places.items() if (v := fields[i]) is not None}
        elif has_unset:
            values = {n: v for n, v in zip(self._places, fields, strict=True) if v is not None}
        else:
            values = dict(zip(self._places, fields, strict=True))
        for name, child in self._children.items():
            inner = child.values(fields, has_unset)
            if inner:
                values[name] = object_of(child.schema, inner)
        return values

    def put(self, bo: BusinessObject, fields: list[Any]) -> bool:
        """Puts the values of an object into the fields of a record. Returns whether a value is set.

        Raises:
            MalformedData: CSV cannot hold a part of the object.
        """
        values = bo.values_of(self._places)
        if len(values) == len(fields):
            fields[:] = values
        else:
            for index, value in zip(self._places.values(), values, strict=True):
                fields[index] = value
        is_set = values.count(None) < len(values)
        for name, reason in self.unheld.items():
            if bo[name] not in (None, []):
                raise MalformedData(f"{self._path}{name}: found {reason}")
        for name, child in self._children.items():
            inner = bo[name]
            if inner is None:
                continue
            is_set = True
            if not child.put(inner, fields):
                raise MalformedData(
                    f"{self._path}{name}: found an object without a value, expected at least one, because "
                    "CSV cannot tell such an object from one that is not set"
                )
        return is_set


class BodyColumns:
    """The columns of the records of a body, for objects of one type.

    Args:
        ignore_undefined: pass over names that are no column of the type.

    Raises:
        MalformedData: the header does not fit the type.
    """

    def __init__(self, columns: Columns, header: list[str], ignore_undefined: bool) -> None:
        self.header = header
        self.schema = columns.schema
        found = [columns.by_name.get(name) for name in header]
        self._root = _Group(columns.schema, "")
        seen = set()
        for index, (name, column) in enumerate(zip(header, found, strict=True)):
            if column is not None:
                self._root.add(column, index)
            elif name not in (TYPE, VERB):
                if ignore_undefined:
                    continue
                if not any(found):
                    raise MalformedData(
                        f"the header names no attribute of {self.schema.name}; "
                        "set the option header to false if the first record is no header"
                    )
                if not name:
                    raise MalformedData(f"the header: field {index + 1} is empty, expected a name")
                reason = f"{columns.unknown_name(name)}{UNDEFINED}"
                raise MalformedData(f"the header: column {shown(name)}: {reason}")
            if name in seen:
                raise MalformedData(f"the header: column {shown(name)} stands twice, expected each name once")
            seen.add(name)
        self.verb = header.index(VERB) if VERB in header and VERB not in columns.by_name else -1
        """The place of the verb. -1 = there is no such column."""
        self._converters = [
            (index, column.to_value)
            for index, column in enumerate(found)
            if column is not None and column.to_value is not None and not takes_any_text(column.field)
        ]

    def object_of(self, fields: list[Any], has_unset: bool) -> BusinessObject:
        """Returns the object of a record, without a verb.

        Args:
            fields: the texts of the record. They are changed to values.
            has_unset: whether a field is None.

        Raises:
            ValueError: a text does not fit. :meth:`misfit` says which one.
        """
        if has_unset:
            for index, convert in self._converters:
                if fields[index] is not None:
                    fields[index] = convert(fields[index])
        else:
            for index, convert in self._converters:
                fields[index] = convert(fields[index])
        return object_of(self.schema, self._root.values(fields, has_unset))

    def misfit(self, fields: list[str | None]) -> tuple[int, str]:
        """Returns the number of the first field that does not fit, from 0, and the mistake."""
        for index, convert in self._converters:
            text = fields[index]
            if text is not None:
                try:
                    convert(text)
                except ValueError as error:
                    return index, str(error)
        raise AssertionError("every field fits")
