"""The entry of a subscription with ``table``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from connector.businessobjects.definition import Definition
from connector.declare.section import Section
from connector.declare.value_types import Text, ValueType, choice, leaf, refuse
from connector.sinks.mapped_entry import MappedEntry
from connector.sinks.subscription_model import EntryCheck, TransactionalEntry
from connector.sinks.table.mapping import TableMapping, WrongExpression, default_columns, owner_of, source_of
from connector.sinks.table.sink import OPERATIONS, TableSpec
from connector.text.names import nearest, twins

_EXPECTED: Final = "DATABASE.TABLE or DATABASE.SCHEMA.TABLE"


def _read_table(value: object) -> str:
    text = str(leaf(value, _EXPECTED))
    parts = text.split(".")
    if len(parts) not in (2, 3) or not all(part.strip() for part in parts):
        raise refuse(repr(text), _EXPECTED)
    return text


_TableName = Annotated[str, ValueType(_read_table, str, {"type": "string"}, _EXPECTED)]
_Operation = Annotated[Literal["insert", "update", "delete"], choice("insert", "update", "delete")]
_COLUMNS: Final = (
    "Column: attribute or JMESPath expression. Left out: a column for each attribute of a simple type, by "
    "its name."
)


class ChildTable(Section):
    """The table of a contained object. Its rows are replaced as a whole on an update."""

    table: _TableName = Field(description=f"The table, `{_EXPECTED}`, in the database of the object.")
    key: dict[str, Text] = Field(
        description="Column: attribute or JMESPath expression of the containing object, or attribute of an "
        "object around it. Tells the owner of the rows."
    )
    columns: dict[str, Text] = Field(default_factory=dict, description=_COLUMNS)
    children: dict[str, ChildTable] = Field(
        default_factory=dict,
        description="Attribute with objects within the contained one: their table.",
    )

    def mapping(self) -> TableMapping:
        """Returns the table, with those of the children."""
        children = tuple((name, child.mapping()) for name, child in self.children.items())
        return TableMapping(_inside(self.table), _pairs(self.columns), tuple(self.key.items()), children)


class TableEntry(MappedEntry, TransactionalEntry):
    """A table of a database. Create inserts a row, Update updates by the key attributes, Delete deletes."""

    table: _TableName = Field(description=f"The table, `{_EXPECTED}`. DATABASE is a key of `databases`.")
    columns: dict[str, Text] = Field(default_factory=dict, description=_COLUMNS)
    on_conflict: Annotated[Literal["error", "ignore", "update"], choice("error", "ignore", "update")] = Field(
        default="error",
        description="When an insert finds the row: the event fails, the row stays, or the row is updated.",
    )
    operation: _Operation | None = Field(
        default=None, description="For every verb of the subscription. Left out: by the verb."
    )
    children: dict[str, ChildTable] = Field(
        default_factory=dict, description="Attribute with contained objects: their table."
    )

    @property
    def database(self) -> str:
        return self.table.partition(".")[0]

    def target(self) -> str:
        return self.table

    def sink(self) -> TableSpec:
        """Returns the recipe, which reads the table in the worker."""
        return TableSpec(
            self.database,
            self.delivered_object,
            self._mapping(),
            on_conflict=self.on_conflict,
            operation=self.operation,
        )

    def _mapping(self) -> TableMapping:
        children = tuple((name, child.mapping()) for name, child in self.children.items())
        return TableMapping(_inside(self.table), _pairs(self.columns), children=children)

    def check(self, check: EntryCheck) -> None:
        """Reports attributes, expressions, children and verbs that cannot be right, without the database."""
        super().check(check)
        if any(letter in self.object for letter in "*?"):
            check.add("object", f"the pattern {self.object} with a table", "the name of one business object")
            return
        definition = check.definitions.get(self.delivered_object) if check.definitions is not None else None
        if definition is None or check.definitions is None:
            return
        url = check.reporter.leaf("databases", self.database, "url")
        is_sqlite = url is not None and url.startswith("sqlite")  # where upper and lower case never count
        _check_columns("", self.columns, {}, definition, check, is_sqlite=is_sqlite)
        self._check_verbs(definition, check)
        _check_children("", self.children, (definition,), check, self.database, is_sqlite=is_sqlite)

    def _check_verbs(self, definition: Definition, check: EntryCheck) -> None:
        verbs = list(self.delivered_verbs or definition.verbs)
        other = [verb for verb in verbs if verb not in OPERATIONS]
        if other and self.operation is None:
            known = ", ".join(verb for verb in OPERATIONS if verb in definition.verbs)
            check.add(
                "verbs" if self.verbs is not None else "table",
                f"no operation for the verb {other[0]}",
                f"operation: ..., or verbs: [{known}]",
            )
        operations = {self.operation or OPERATIONS.get(verb) for verb in verbs}
        needs_key = operations & {"update", "delete"} or self.on_conflict == "update"
        mapped = set(self.columns.values()) if self.columns else set(definition.attributes)
        has_key = any(one.is_key and one.name in mapped for one in definition.attributes.values())
        if needs_key and not has_key:
            check.add(
                "table",
                f"{self.delivered_object} has no key attribute with a column",
                "key: true at an attribute",
            )
        if "update" in operations or self.on_conflict == "update":
            self._check_tables(check)

    def _check_tables(self, check: EntryCheck) -> None:
        """Reports children in a table of other rows, which an update of the children would delete."""
        tables = {"the object": self.table, **dict(_tables("", self.children))}
        for other, name in twins(tables, tables.__getitem__):
            other = other.rpartition("children.")[2]
            check.add(f"{name}.table", f"{tables[name]}, the table of {other}", "a table of its own")


def _tables(prefix: str, children: dict[str, ChildTable]) -> Iterator[tuple[str, str]]:
    """Yields the place and the table of each child, also within children."""
    for name, child in children.items():
        yield f"{prefix}children.{name}", child.table
        yield from _tables(f"{prefix}children.{name}.", child.children)


def _check_children(
    prefix: str,
    children: dict[str, ChildTable],
    around: Sequence[Definition],
    check: EntryCheck,
    database: str,
    *,
    is_sqlite: bool,
    columns: Collection[str] = (),
) -> None:
    """Checks the tables of contained objects.

    Args:
        around: the containing object first.
        columns: the sources of the columns of the containing object's table, if it is itself a child.
    """
    definition = around[0]
    for name, child in children.items():
        place = f"{prefix}children.{name}"
        attribute = definition.attributes.get(name)
        if attribute is None or not attribute.is_child:
            names = [one.name for one in definition.attributes.values() if one.is_child]
            check.add(
                place,
                f"{definition.name} has no contained object {name!r}",
                f"one of {', '.join(names)}" if names else "an attribute whose type is a business object",
                nearest(name, names),
            )
            continue
        if child.table.partition(".")[0] != database:
            check.add(f"{place}.table", f"{child.table}, in another database", database)
        if not child.key:
            check.add(f"{place}.key", "no column", "the columns that tell whose rows they are")
        for column, text in child.key.items():
            _check_sources(f"{place}.key", {column: text}, around[owner_of(text, around)], check)
            if columns and text not in columns:
                found = f"{text}, which no column of the table around has"
                check.add(f"{place}.key.{column}", found, f"one of {', '.join(sorted(columns))}")
        inner = check.definitions.get(attribute.type) if check.definitions is not None else None
        if inner is not None:
            _check_columns(f"{place}.", child.columns, child.key, inner, check, is_sqlite=is_sqlite)
            sources = {*(child.columns.values() or default_columns(inner)), *child.key.values()}
            _check_children(
                f"{place}.",
                child.children,
                (inner, *around),
                check,
                database,
                is_sqlite=is_sqlite,
                columns=sources,
            )


def _check_columns(
    prefix: str,
    columns: dict[str, str],
    key: dict[str, str],
    definition: Definition,
    check: EntryCheck,
    *,
    is_sqlite: bool,
) -> None:
    """Checks the columns of a table. Without columns, each attribute of a simple type has a column."""
    _check_sources(f"{prefix}columns", columns, definition, check)
    for name in () if columns else default_columns(definition):
        try:
            source_of(name, definition)
        except WrongExpression as error:
            check.add(
                f"{prefix}table", str(error), "`columns`, without the list or with a JMESPath expression"
            )
    fold = str.casefold if is_sqlite else str
    for earlier, name in twins((*(columns or default_columns(definition)), *key), fold):
        place = f"columns.{name}" if name in columns else f"key.{name}" if name in key else "table"
        both = name if earlier == name else f"{earlier}, which is also {name}"
        check.add(f"{prefix}{place}", f"two values for the column {both}", "one source of each column")


def _check_sources(key: str, pairs: dict[str, str], definition: Definition, check: EntryCheck) -> None:
    for column, text in pairs.items():
        try:
            source_of(text, definition)
        except WrongExpression as error:
            check.add(
                f"{key}.{column}", str(error), "an attribute of a simple type, or a JMESPath expression"
            )


def _inside(table: str) -> str:
    """Returns TABLE or SCHEMA.TABLE."""
    return table.partition(".")[2]


def _pairs(columns: dict[str, Any]) -> tuple[tuple[str, str], ...] | None:
    return tuple(columns.items()) or None
