"""The columns of a business object in a format of flat records."""

from __future__ import annotations

from typing import Any, Final

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Field, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.businessobjects.types import HELD_AS_TEXT, TEXTS, Converter, text_of
from connector.errors import MalformedData
from connector.text.names import did_you_mean, shown

TYPE: Final = "BusinessObject"
VERB: Final = "Verb"
"""The columns that name type and verb."""

MAX_COLUMNS: Final = 16_384
"""The most columns of a type or a body. The usual spreadsheets have the same limit."""

_MAX_LEVELS: Final = 32
"""Levels of children that are columns."""


class Column:
    """A column of a type.

    Args:
        name: as the header has it.
        path: the attributes that lead to the child that has the attribute. Empty = the object itself.
        field: the attribute.
        convert: converts a text. None = any text fits.
    """

    __slots__ = ("convert", "field", "name", "path")

    def __init__(self, name: str, path: tuple[Field, ...], field: Field) -> None:
        self.name = name
        self.path = path
        self.field = field
        is_any = field.attribute.type in TEXTS and not field.attribute.max_length
        self.convert: Converter | None = None if is_any else field.from_text


class Columns:
    """All columns of a type, in the order of the definition.

    An object may be nested in itself. CSV holds such an object to the first level.

    Raises:
        MalformedData: two attributes have one name, or there are too many of them, or none.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.columns: list[Column] = []
        self._children: list[tuple[tuple[Field, ...], int, int]] = []
        """The path of each child, and the range of its columns."""
        self._unheld: dict[str, tuple[tuple[Field, ...], str]] = {}
        """By name of column, the paths of what CSV cannot hold, with the reason."""
        self._collect(schema, "", ())
        self.names = [column.name for column in self.columns]
        self.by_name = {column.name: column for column in self.columns}
        if len(self.by_name) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise MalformedData(f"{schema.name}: two attributes have the column {shown(twice)}")
        if not self.names:
            raise MalformedData(f"{schema.name} has no attribute that CSV can hold")
        self.type_names = [name for name in (TYPE, VERB) if name not in self.by_name]
        self._typed = [
            index
            for index, column in enumerate(self.columns)
            if column.field.attribute.type not in HELD_AS_TEXT
        ]
        self._groups: list[tuple[tuple[Field, ...], list[str]]] = []
        """The names of columns that stand side by side and have one path."""
        for column in self.columns:
            if not self._groups or self._groups[-1][0] != column.path:
                self._groups.append((column.path, []))
            self._groups[-1][1].append(column.field.name)

    def _collect(self, schema: Schema, prefix: str, path: tuple[Field, ...]) -> None:
        for field in schema.fields.values():
            if not field.in_body:
                continue
            name = prefix + (tags(field.attribute.app_specific_info).get("name") or field.name)
            if field.is_list:
                self._unheld[name] = (
                    (*path, field),
                    f"a list of values ({field.attribute.type}), which CSV cannot hold",
                )
            elif field.child is None:
                self.columns.append(Column(name, path, field))
            elif field.many:
                self._unheld[name] = (
                    (*path, field),
                    f"a list of objects ({field.child.name}), which CSV cannot hold",
                )
            elif (
                len(path) >= _MAX_LEVELS
                or field.child is self.schema
                or any(field.child is outer.child for outer in path)
            ):
                self._unheld[name] = (
                    (*path, field),
                    f"an object ({field.child.name}) within such an object, which CSV cannot hold",
                )
            else:
                start = len(self.columns)
                self._collect(field.child, f"{name}.", (*path, field))
                self._children.append(((*path, field), start, len(self.columns)))
            if len(self.columns) + len(self._children) + len(self._unheld) > MAX_COLUMNS:
                raise MalformedData(f"{self.schema.name} has more than {MAX_COLUMNS} columns")

    def undefined(self, name: str) -> str:
        """Returns the mistake of a column that is not there."""
        for unheld, (_, reason) in self._unheld.items():
            if name == unheld or name.startswith(f"{unheld}."):
                return f"{unheld} is {reason}"
        field = self.schema.fields.get(name)
        if field is not None and not field.in_body:
            return f"holds a meta-object of {self.schema.name}, which is never part of a body"
        return f"no such attribute in {self.schema.name}{did_you_mean(name, self.by_name)}"

    def type_and_verb(self, bo: BusinessObject) -> list[str | None]:
        return [bo.type if name == TYPE else bo.verb for name in self.type_names]

    def texts(self, bo: BusinessObject) -> list[str | None]:
        """Returns the fields of an object.

        Raises:
            MalformedData: CSV cannot hold a part of the object.
        """
        document = bo.as_dict(body_only=True)
        texts: list[Any] = []
        for path, names in self._groups:
            values = _within(document, path)
            texts += [None] * len(names) if values is None else map(values.get, names)
        for index in self._typed:
            value = texts[index]
            if value is not None:
                texts[index] = text_of(value)
        for path, reason in self._unheld.values():
            if _within(document, path) not in (None, []):
                raise MalformedData(f"{bo.type}: {_dotted(path)}: found {reason}")
        for path, start, end in self._children:
            if _within(document, path) is not None and texts[start:end].count(None) == end - start:
                raise MalformedData(
                    f"{bo.type}: {_dotted(path)}: found an object without a value, expected at least one, "
                    "because CSV cannot tell such an object from one that is not set"
                )
        return texts


class _Node:
    """The places of the attributes of an object or a child in a record."""

    __slots__ = ("_children", "_is_whole", "_places", "_schema")

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._places: dict[str, int] = {}
        self._children: dict[str, _Node] = {}
        self._is_whole = False

    def add(self, column: Column, index: int) -> None:
        node = self
        for field in column.path:
            assert field.child is not None
            node = node._children.setdefault(field.name, _Node(field.child))
        node._places[column.field.name] = index

    def finish(self, width: int) -> None:
        """Called when all columns are added."""
        self._is_whole = list(self._places.values()) == list(range(width))

    def values(self, fields: list[Any], has_unset: bool) -> dict[str, Any]:
        """Returns the values of the attributes that are set, from the values of a record."""
        if self._is_whole and not has_unset:
            values = dict(zip(self._places, fields, strict=True))
        elif self._is_whole:
            values = {n: v for n, v in zip(self._places, fields, strict=True) if v is not None}
        else:
            values = {n: v for n, i in self._places.items() if (v := fields[i]) is not None}
        for name, child in self._children.items():
            inner = child.values(fields, has_unset)
            if inner:
                values[name] = object_of(child._schema, inner)
        return values


class Layout:
    """The columns of the records of a body, for objects of one type.

    Args:
        columns: the columns of the type.
        header: the names of the columns of the body.
        ignore_undefined: pass over names that are no column of the type.

    Raises:
        MalformedData: the header does not fit the type.
    """

    def __init__(self, columns: Columns, header: list[str], ignore_undefined: bool) -> None:
        self.header = header
        self.schema = columns.schema
        self.columns = [columns.by_name.get(name) for name in header]
        self._root = _Node(columns.schema)
        seen = set()
        for index, (name, column) in enumerate(zip(header, self.columns, strict=True)):
            if column is not None:
                self._root.add(column, index)
            elif name not in (TYPE, VERB):
                if ignore_undefined:
                    continue
                if not any(self.columns):
                    raise MalformedData(
                        f"the header names no attribute of {self.schema.name}; "
                        "set the option header to false if the first record is no header"
                    )
                raise MalformedData(f"the header: column {shown(name)}: {columns.undefined(name)}")
            if name in seen:
                raise MalformedData(f"the header: column {shown(name)} stands twice")
            seen.add(name)
        self._root.finish(len(header))
        self.verb = header.index(VERB) if VERB in header and VERB not in columns.by_name else -1
        """The place of the verb. -1 = there is no such column."""
        self._converters = [
            (index, column.convert)
            for index, column in enumerate(self.columns)
            if column is not None and column.convert is not None
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


def _within(document: dict[str, Any], path: tuple[Field, ...]) -> Any:
    """Returns what a document has at a path. None = nothing."""
    value: Any = document
    for field in path:
        if value is None:
            return None
        value = value.get(field.name)
    return value


def _dotted(path: tuple[Field, ...]) -> str:
    return ".".join(field.name for field in path)
