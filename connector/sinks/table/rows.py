"""A table of a database with its mapping: checks the columns, and writes objects as rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import (
    Connection,
    CursorResult,
    Executable,
    and_,
    delete,
    exists,
    insert,
    inspect,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import NoSuchTableError, SQLAlchemyError
from sqlalchemy.sql.elements import ColumnElement

from connector.businessobjects.definition import Definition, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import SECRET
from connector.databases.column_types import NOTHING
from connector.databases.tables import TableColumn, TableColumns, version_of
from connector.databases.urls import reason_of
from connector.databases.values import Unfit, fits
from connector.errors import ObjectRefused
from connector.sinks.table.contained import Owned, contained
from connector.sinks.table.creation import create_statement, tables_there
from connector.sinks.table.mapping import (
    Source,
    TableMapping,
    WrongExpression,
    default_columns,
    owner_of,
    source_of,
)
from connector.text.decimals import plain
from connector.text.names import did_you_mean

OnConflict = Literal["error", "ignore", "update"]
Operation = Literal["insert", "update", "delete"]
_INSERTS: Final[Mapping[str, Callable[..., Any]]] = {
    "postgresql": postgresql.insert,
    "sqlite": sqlite.insert,
}
Row = dict[str, Any]


class WrongTable(ObjectRefused):
    """A table does not fit its mapping. The text has all mistakes, one a line."""


class _Target(NamedTuple):
    """A column and the source of its values."""

    column: TableColumn
    source: Source


class RowRefused(ObjectRefused):
    """The database refuses a row. The text names the table, and the cause is the error of SQLAlchemy."""


class TableRows:
    """Writes the rows of one business object.

    Args:
        container: the table of the containing object, for the table of a child.

    Raises:
        WrongTable: the table does not exist, or does not fit.
    """

    def __init__(
        self,
        connection: Connection,
        mapping: TableMapping,
        definition: Definition,
        definitions: Definitions,
        container: TableRows | None = None,
    ) -> None:
        self._name = mapping.name
        self._problems: list[str] = []
        self._names = list(_names(mapping))
        self._version = version_of(connection, self._names) if container is None else None
        self._container = container
        self._definition: Definition = definition
        self._around: tuple[Definition, ...] = ()
        if container is not None:
            self._around = (container._definition, *container._around)
        columns = _read(connection, mapping, definition, self._around)
        self._table = columns.table
        pairs = mapping.columns
        if pairs is None:
            pairs = tuple((name, name) for name in default_columns(definition))
        own = [(definition, *pair) for pair in pairs]
        key = mapping.key if container is not None else ()
        self._owners = [owner_of(text, self._around) for _, text in key]
        """The number of the object around that has each source of the key. 0 = the containing one."""
        around = [(self._around[one], *pair) for one, pair in zip(self._owners, key, strict=True)]
        targets = list(self._compare(columns, definition, [*own, *around]))
        self._targets, self._parent_key = targets[: len(own)], targets[len(own) :]
        self._links = list(self._link_columns(container)) if self._around[1:] and container else []
        self._key = [
            one for one in self._targets if one.source.attribute is not None and one.source.attribute.is_key
        ]
        self._children: dict[str, TableRows] = {}
        for name, child in mapping.children:
            attribute = definition.attributes[name]
            try:
                self._children[name] = TableRows(
                    connection, child, definitions[attribute.type], definitions, self
                )
            except WrongTable as error:
                self._problems += str(error).splitlines()
        if self._problems:
            raise WrongTable("\n".join(self._problems))

    def _compare(
        self, columns: TableColumns, definition: Definition, wanted: Iterable[tuple[Definition, str, str]]
    ) -> Iterator[_Target]:
        """Yields the columns that get values, and notes all mistakes.

        Args:
            wanted: definition, column, and attribute or expression.
        """
        places: dict[str, str] = {}
        for owner, name, text in wanted:
            try:
                source = source_of(text, owner)
            except WrongExpression as error:
                self._problems.append(f"{self._name}.{name}: {error}")
                continue
            place = f"{owner.name}.{text}"
            column = columns.find(name)
            if column is None:
                names = [one.name for one in columns.columns]
                hint = did_you_mean(name, names) or f"; it has {', '.join(names)}"
                self._problems.append(f"the table {self._name} has no column {name!r} for {place}{hint}")
                continue
            what = f"the column {column.name} of {self._name}"
            if source.attribute is not None and not fits(source.attribute.type, column.type):
                self._problems.append(f"{place} is {source.attribute.type}, but {what} is {column.type.name}")
            elif column.type.family == NOTHING:
                found = f"{place} cannot go into {what}, which is {column.type.name} and holds {NOTHING}"
                self._problems.append(found)
            if (earlier := places.setdefault(column.name, place)) is not place:
                found = f"{what} would get {earlier} and {place}: give one of them in `columns`"
                self._problems.append(found)
            yield _Target(column, source)
        self._problems += [
            f"the column {column.name} of {self._name} needs a value, and no attribute of {definition.name} "
            "goes there"
            for column in columns.columns
            if column.is_needed and column.name not in places
        ]

    def _link_columns(self, container: TableRows) -> Iterator[tuple[str, str]]:
        """Yields each column of the key, and the column of the containing table with the same value."""
        for owner, (column, source) in zip(self._owners, self._parent_key, strict=False):
            own = [(0, *one) for one in container._targets]
            of_key = zip((one + 1 for one in container._owners), container._parent_key, strict=False)
            known = [*own, *((number, *one) for number, one in of_key)]
            found = next(
                (c for number, c, other in known if (number, other.text) == (owner, source.text)), None
            )
            if found is None:
                self._problems.append(
                    f"the key of {self._name} has {source.text}, and no column of {container._name} has it: "
                    f"so the rows of {self._name} could not be found"
                )
            else:
                yield column.name, found.name

    def have_changed(self, connection: Connection) -> bool:
        """Whether the table or that of a child has other columns now."""
        return self._version != version_of(connection, self._names)

    @property
    def key_columns(self) -> list[str]:
        return [one.column.name for one in self._key]

    def check_conflicts(self, connection: Connection, on_conflict: OnConflict) -> None:
        """Checks that the database can do what an insert has to do with a row that is there.

        Raises:
            WrongTable: the database or the table cannot do that.
        """
        if on_conflict == "error":
            return
        if connection.dialect.name not in _INSERTS:
            raise WrongTable(f"on_conflict: {on_conflict} needs PostgreSQL or SQLite")
        if on_conflict == "update" and not self._is_unique(connection, set(self.key_columns)):
            raise WrongTable(
                f"on_conflict: update needs a primary key or a unique index of {self._name} with exactly the "
                f"columns of the key attributes: {', '.join(self.key_columns)}"
            )

    def _is_unique(self, connection: Connection, columns: set[str]) -> bool:
        look, table = inspect(connection), self._table
        indexes = look.get_indexes(table.name, table.schema)
        constraints = look.get_unique_constraints(table.name, table.schema)
        known = [set(look.get_pk_constraint(table.name, table.schema)["constrained_columns"])]
        known += [set(filter(None, one["column_names"])) for one in indexes if one["unique"]]
        known += [set(one["column_names"]) for one in constraints]
        return columns in known

    # -- writing -------------------------------------------------------------------------------------

    def write(
        self, connection: Connection, bo: BusinessObject, operation: Operation, on_conflict: OnConflict
    ) -> None:
        """Writes an object with its children.

        Raises:
            ObjectRefused: an update found no row, or a value does not fit its column, or a key is not set.
            RowRefused: the database refuses a row.
        """
        if operation == "insert":
            if self._insert(connection, bo, on_conflict):
                self._replace_children(connection, bo, deletes=on_conflict == "update")
            return
        where = self._where(connection, self._key, bo)
        if operation == "delete":
            for child in self._children.values():
                child._delete_of(connection, bo)
            self._execute(connection, delete(self._table).where(where))
            return
        self._update(connection, bo, where)
        self._replace_children(connection, bo, deletes=True)

    def _execute(
        self, connection: Connection, statement: Executable, rows: list[Row] | Row | None = None
    ) -> CursorResult[Any]:
        """Runs a statement on the table.

        Raises:
            RowRefused: the database refuses it.
        """
        try:
            return connection.execute(statement, rows)
        except SQLAlchemyError as error:
            raise RowRefused(f"the table {self._name}: {reason_of(error)}") from error

    def _insert(self, connection: Connection, bo: BusinessObject, on_conflict: OnConflict) -> bool:
        """Inserts the row of an object. False = the row was there and is left as it is."""
        row = self._row(connection, bo, bo.type)
        if on_conflict == "error":
            self._execute(connection, insert(self._table), row)
            return True
        statement = _INSERTS[connection.dialect.name](self._table).values(row)
        keys = self.key_columns
        changed = {name: statement.excluded[name] for name in row if name not in keys}
        if on_conflict == "update" and changed:
            self._execute(connection, statement.on_conflict_do_update(index_elements=keys, set_=changed))
            return True
        # a count of rows is not reliable here: drivers do not have one for each form of INSERT
        made = statement.on_conflict_do_nothing().returning(literal(1))
        return self._execute(connection, made).first() is not None or on_conflict == "update"

    def _update(self, connection: Connection, bo: BusinessObject, where: ColumnElement[bool]) -> None:
        keys = self.key_columns
        row = {name: value for name, value in self._row(connection, bo, bo.type).items() if name not in keys}
        if row:
            is_there = self._execute(connection, update(self._table).where(where).values(row)).rowcount > 0
        else:
            is_there = bool(self._execute(connection, select(exists().where(where))).scalar())
        if not is_there:
            key = self._describe(connection, bo)
            raise ObjectRefused(f"the table {self._name} has no row with {key}: nothing to update")

    def _replace_children(self, connection: Connection, bo: BusinessObject, *, deletes: bool) -> None:
        for name, child in self._children.items():
            objects = bo[name]
            if objects is None and not bo.is_null(name):
                continue
            if deletes:
                child._delete_of(connection, bo)
            child._insert_all(connection, contained(name, [Owned(bo, (), f"{bo.type}")]))

    def _delete_of(self, connection: Connection, bo: BusinessObject) -> None:
        """Deletes the rows of the children of an object, and first those of their children."""
        for child in self._children.values():
            child._delete_of(connection, bo)
        self._execute(connection, delete(self._table).where(self._is_of(connection, bo)))

    def _is_of(self, connection: Connection, bo: BusinessObject) -> ColumnElement[bool]:
        """Returns the condition of the rows that belong to an object, directly or through other tables."""
        container = self._container
        if container is None or container._container is None:
            return self._where(connection, self._parent_key, bo)
        outer = container._table
        alike = [self._table.columns[own] == outer.columns[other] for own, other in self._links]
        found = select(literal(1)).select_from(outer).where(container._is_of(connection, bo), *alike)
        return found.correlate(self._table).exists()

    def _insert_all(self, connection: Connection, objects: Sequence[Owned]) -> None:
        """Inserts the rows of objects of a child, and those of their children."""
        rows = [self._row_of(connection, one) for one in objects]
        for _, alike in itertools.groupby(rows, key=list):  # a default for what is not set
            self._execute(connection, insert(self._table), list(alike))
        for name, child in self._children.items():
            child._insert_all(connection, contained(name, objects))

    def _row_of(self, connection: Connection, owned: Owned) -> Row:
        row = self._row(connection, owned.bo, owned.place)
        for owner, target in zip(self._owners, self._parent_key, strict=True):
            bo = owned.around[owner]
            row.update(self._values(connection, [target], bo, bo.type))
        return row

    def _row(self, connection: Connection, bo: BusinessObject, place: str) -> Row:
        return self._values(connection, self._targets, bo, place, only_set=True)

    def _where(
        self, connection: Connection, key: Iterable[_Target], bo: BusinessObject
    ) -> ColumnElement[bool]:
        values = self._values(connection, key, bo, bo.type)
        return and_(*(self._table.columns[name] == value for name, value in values.items()))

    def _values(
        self,
        connection: Connection,
        targets: Iterable[_Target],
        bo: BusinessObject,
        place: str,
        *,
        only_set: bool = False,
    ) -> Row:
        """Returns values by column.

        Args:
            place: of the object, for an error.

        Raises:
            ObjectRefused: a value does not fit, or is not set and has to be.
        """
        row: Row = {}
        for column, source in targets:
            try:
                value = source.value(bo)
            except ValueError as error:
                raise ObjectRefused(f"{place}: {error}") from None
            if value is None:
                is_null = source.is_null(bo)
                if not only_set:
                    what = "null" if is_null else "not set"
                    raise ObjectRefused(f"{place}: {source.text} is {what}, and is a key of {self._name}")
                if is_null:
                    row[column.name] = None
                continue
            try:
                row[column.name] = column.hold(connection, value)
            except Unfit as error:
                reason = str(error)
                if source.attribute is not None and source.attribute.type == SECRET:
                    reason = "found a value that the column would lose or change"  # shown nowhere
                raise ObjectRefused(
                    f"{place}: {source.text}: {reason}, for the column {column.name} of {self._name} "
                    f"({column.type.name})"
                ) from error.__cause__  # of the database
        return row

    def _describe(self, connection: Connection, bo: BusinessObject) -> str:
        values = self._values(connection, self._key, bo, bo.type).items()
        return " and ".join(
            f"{name} = {plain(value) if isinstance(value, Decimal) else repr(value)}"
            for name, value in values
        )


def _names(mapping: TableMapping) -> Iterator[str]:
    """Yields the names of a table and of those of its children."""
    yield mapping.name
    for _, child in mapping.children:
        yield from _names(child)


def _read(
    connection: Connection, mapping: TableMapping, definition: Definition, around: Sequence[Definition]
) -> TableColumns:
    try:
        return TableColumns(connection, mapping.name)
    except NoSuchTableError:
        schema, _, table = mapping.name.rpartition(".")
        known = inspect(connection).get_table_names(schema or None)
        statement = create_statement(connection.dialect, mapping, definition, around)
        raise WrongTable(
            f"there is no table {mapping.name}{did_you_mean(table, known)}; {tables_there(known)}. An "
            f"administrator can make it so: {statement}"
        ) from None
