"""Records in lines: flat files with a record in each line, and files whose lines have types.

A record type is a short text at a fixed place of each line, the *mark*. An object whose application-specific
information has the tag ``record=MARK`` is a line with that mark. Its children of that kind are the lines that
follow, in the order of the definition. An object without a mark and without attributes of its own is the
group of its children. It begins with the line of the first of them. An attribute with the tag ``record=type``
is the mark of its line.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Definitions, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.businessobjects.types import SimpleValue, describe
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint, SplittingHandler
from connector.formats.plan import MAX_DEPTH, TOO_DEEP, Item, Plan
from connector.formats.records import Cursor, RecordHandler, RecordLine
from connector.formats.splitting import in_record, read_one, refuse_joint_body, write_each
from connector.text.encoding import encode
from connector.text.names import shown

LINE_ENDS: Final = {"\\n": "\n", "\\r\\n": "\r\n", "\\r": "\r", "\n": "\n", "\r\n": "\r\n", "\r": "\r"}
"""The texts of the option ``line_end``, and what is written."""


class RecordPlan(Plan[Item]):
    """An object whose children may be lines of their own.

    Args:
        items: all attributes that a body may have.
        records: those of ``items`` that are lines of their own.
        mark: the mark of the object's own line. Empty = the object has no line of its own.

    Raises:
        MalformedData: an attribute is the mark, and cannot have it as its value.
    """

    def __init__(self, schema: Schema, items: Sequence[Item], records: Sequence[Item], mark: str) -> None:
        marked = [item for item in items if mark and is_mark(item)]
        super().__init__(schema, [item for item in items if item not in (*records, *marked)])
        self.records = tuple(records)
        self.mark = mark
        self.marked = {item.field.name: self._mark_of(item) for item in marked}
        """The values of the attributes that are the mark."""

    def _mark_of(self, item: Item) -> SimpleValue:
        try:
            return self.mark if item.to_value is None else item.to_value(self.mark)
        except ValueError as error:
            raise MalformedData(f"{self.name}: {item.name} is the record type: {error}") from None

    def check_mark(self, bo: BusinessObject) -> None:
        """Checks that an attribute that is the mark has it, or is not set.

        Raises:
            MalformedData: it has another value.
        """
        for name, mark in self.marked.items():
            value = bo.value(name)
            if value not in (None, mark):
                found = f"found {describe(value)}, expected {shown(self.mark)}"
                raise MalformedData(f"{bo.type}: {name}: {found}, the record type of its line")

    def has_value(self, bo: BusinessObject) -> bool:
        return super().has_value(bo) or any(item.field.name in bo for item in self.records)


class LineRecordHandler(RecordHandler, SplittingHandler):
    """The handler of a format whose records may be lines. A format derives from this class.

    Args:
        options: also with ``split``, ``record_type``, ``line_end`` and ``comment``.

    Attributes:
        by_lines: whether a body is read line by line. If false, a body is one record with any characters.
        record_type: the place of the mark, as the option gives it. Empty = lines have no types.
    """

    splits: bool
    by_lines: bool
    counts_children = True
    """Whether the number of objects stands before a single child. Else the child always stands there."""
    counts_lists = True
    """Whether the number of objects or values stands before those of a child or list of cardinality n."""

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self.record_type: dict[str, int] = options["record_type"]
        if self.record_type:
            self.has_names = self.has_verbs = False
        super().__init__(options, definitions)
        self.splits = options["split"]
        self.comment: str = options["comment"]
        self._line_end = LINE_ENDS.get(options["line_end"])
        if self._line_end is None:
            raise ValueError(f"line_end: found {options['line_end']!r}, expected \\n, \\r\\n or \\r")
        if "\n" in self.comment or "\r" in self.comment:
            raise ValueError("comment: expected a text without a line break")

    # --- what a format says -------------------------------------------------------------------

    @abstractmethod
    def lines(self, body: bytes | str) -> Iterator[RecordLine]:
        """Iterates over the lines of a body. Lines without a value and comments are passed over."""

    @abstractmethod
    def open(self, line: RecordLine) -> tuple[str, Cursor]:
        """Returns the mark and the texts of a line. Without types the mark is empty.

        Raises:
            MalformedData: the line has no mark.
        """

    @abstractmethod
    def line(self, texts: list[str], mark: str, bo: BusinessObject) -> str:
        """Returns the line of a record.

        Raises:
            MalformedData: no line can hold the texts.
        """

    # --- plans --------------------------------------------------------------------------------

    def has_count(self, item: Item) -> bool:
        return self.counts_lists if item.field.many else self.counts_children

    def record_plan(self, schema: Schema, items: Sequence[Item]) -> RecordPlan:
        """Returns the plan of an object.

        Raises:
            MalformedData: the format cannot tell where a child begins or ends.
        """
        records = [item for item in items if self.record_type and _is_record(item.field.child)]
        mark = _mark(schema) if self.record_type else ""
        plan = RecordPlan(schema, items, records, mark)
        for item in plan.items:
            if item.field.many and not self.counts_lists:
                raise MalformedData(
                    f"{schema.name}: {item.name} is a list without a number of its objects; "
                    "give a width for it in BOCountSize, or the tag record= in its object"
                )
            if item.field.child is not None and not self.has_count(item) and _holds(item.field.child, schema):
                raise MalformedData(
                    f"{schema.name}: {item.name} holds objects of its own type without an end"
                )
        starts = [self._start(item.field.child) for item in records]
        twice = next((one for one in starts if starts.count(one) > 1), None)
        if twice is not None:
            raise MalformedData(f"{schema.name}: two children have the record type {shown(twice)}")
        return plan

    def lines_plan(self, schema: Schema | None) -> RecordPlan:
        """Returns the plan of an object that is lines.

        Raises:
            MalformedData: the object has no line, although it has attributes of its own.
        """
        assert schema is not None
        plan = self.plans.of(schema)
        assert isinstance(plan, RecordPlan)
        if self.record_type and not plan.mark and (plan.items or not plan.records):
            what = f"the attribute {plan.items[0].name}" if plan.items else "no records"
            raise MalformedData(f"{plan.name} has {what}, and no line; give it the tag record=")
        return plan

    def _start(self, schema: Schema | None) -> str:
        """Returns the mark of the first line of an object."""
        seen = set()
        while schema is not None and schema.name not in seen:
            seen.add(schema.name)
            if mark := _mark(schema):
                return mark
            schema = next((field.child for field in schema.children if _is_record(field.child)), None)
        raise MalformedData("a business object holds records of its own type, and has no tag record=")

    # --- reading ------------------------------------------------------------------------------

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        if not self.by_lines:
            return super().to_business_object(body, hint)
        groups = self._groups(body, hint)
        return read_one(self._objects(groups, hint), groups)

    def to_business_objects(self, body: bytes | str, hint: Hint | None) -> Iterator[BusinessObject]:
        return self._objects(self._groups(body, hint), hint)

    def _groups(self, body: bytes | str, hint: Hint | None) -> Iterator[list[RecordLine]]:
        """Iterates over the records of a body: the lines of each."""
        if hint is None and not self.has_names:
            raise UnknownBusinessObject("the body names no business object, and no rule does")
        if hint is not None:
            self.plans.get(hint.object)  # an error of the definition is none of the first record
        lines = self.lines(body)
        if not self.record_type:
            yield from ([line] for line in lines)
            return
        if not self.splits:
            whole = list(lines)
            if whole:
                yield whole
            return
        assert hint is not None
        start = self._start(self.plans.get(hint.object).schema)
        group: list[RecordLine] = []
        for line in lines:
            if group and self.open(line)[0] == start:
                yield group
                group = []
            group.append(line)
        if group:
            yield group

    def _objects(self, groups: Iterable[list[RecordLine]], hint: Hint | None) -> Iterator[BusinessObject]:
        number = 0
        for group in groups:
            number += 1
            try:
                bo = self._read_group(group, hint)
            except MalformedData as error:
                raise (in_record(number, error) if self.splits else error) from None
            yield bo
        if not number:
            raise MalformedData("the body is empty, expected a record")

    def _read_group(self, group: list[RecordLine], hint: Hint | None) -> BusinessObject:
        if not self.record_type:
            return self.read_body(self.open(group[0])[1], hint)
        assert hint is not None
        plan = self.lines_plan(self.plans.get(hint.object).schema)
        bo = _GroupReader(self, group).root(plan)
        bo.verb = hint.verb
        return bo

    # --- writing ------------------------------------------------------------------------------

    def to_body(self, bo: BusinessObject) -> bytes:
        if not self.by_lines:
            return super().to_body(bo)
        lines = self._lines_of(bo)
        return encode(self.join_lines(lines) if self.splits or self.record_type else lines[0], self.charset)

    def to_joint_body(self, bos: Sequence[BusinessObject]) -> bytes:
        if not self.splits:
            refuse_joint_body(bos, self.mime_types[0])

        def write(bo: BusinessObject) -> list[str]:
            if bo.type != bos[0].type and not self.has_names:
                raise MalformedData(f"found a {bo.type}, expected a {bos[0].type}, as in the first record")
            return self._lines_of(bo)

        return encode(self.join_lines([line for one in write_each(bos, write) for line in one]), self.charset)

    def join_lines(self, lines: list[str]) -> str:
        assert self._line_end is not None
        return self._line_end.join([*lines, ""])

    def _lines_of(self, bo: BusinessObject) -> list[str]:
        """Returns the lines of an object."""
        marks: list[tuple[int, str]] = []
        lines = self._write_record(bo, 1, marks)
        for line in lines:
            if self.comment and line.startswith(self.comment):
                raise MalformedData(f"{bo.type}: a line begins with {shown(self.comment)}, as a comment does")
        if self.record_type:
            self._check_order(bo, self.lines_plan(bo.definitions.schema(bo.type)), marks)
        return lines

    def _write_record(self, bo: BusinessObject, depth: int, marks: list[tuple[int, str]]) -> list[str]:
        """Returns the lines of an object. Adds the depth and the mark of each line to ``marks``."""
        plan = self.lines_plan(bo.definitions.schema(bo.type))
        if depth > MAX_DEPTH:
            raise MalformedData(f"{bo.type} is {TOO_DEEP}")
        lines: list[str] = []
        if plan.mark or not plan.records:
            texts: list[str] = []
            plan.check_mark(bo)
            self.write(texts, bo, depth)
            lines.append(self.line(texts, plan.mark, bo))
            marks.append((depth, plan.mark))
        elif bo.value(plan.records[0].field.name) in (None, []):
            raise MalformedData(
                f"{bo.type}: {plan.records[0].name} is not set, and its line begins the lines of {bo.type}"
            )
        for item in plan.records:
            value = bo.value(item.field.name)
            children = [value] if isinstance(value, BusinessObject) else value or ()
            for child in children:
                lines += self._write_record(child, depth + 1, marks)
        return lines

    def _check_order(self, bo: BusinessObject, plan: RecordPlan, marks: list[tuple[int, str]]) -> None:
        """Refuses lines that would be read as other children than they are."""
        read: list[tuple[int, str]] = []
        self._walk(plan, 1, [mark for _, mark in marks], read)
        for found, meant in zip(read, marks, strict=False):
            if found != meant:
                raise MalformedData(f"{bo.type}: a line {shown(meant[1])} would be read as part of another")
        start = self._start(plan.schema)
        again = self.splits and any(mark == start for _, mark in marks[1:])
        if again or len(read) < len(marks):
            mark = marks[len(read) % len(marks)][1]
            raise MalformedData(f"{bo.type}: a line {shown(mark)} would begin another {bo.type}")

    def _walk(self, plan: RecordPlan, depth: int, marks: list[str], read: list[tuple[int, str]]) -> None:
        """Adds the depths at which lines with these marks are read to ``read``."""
        if plan.mark:
            read.append((depth, plan.mark))
        for item in plan.records:
            child = self.lines_plan(item.field.child)
            start, count = self._start(child.schema), 0
            while len(read) < len(marks) and marks[len(read)] == start and (item.field.many or not count):
                count += 1
                self._walk(child, depth + 1, marks, read)


class _GroupReader:
    """Reads the lines of one object with record types."""

    def __init__(self, handler: LineRecordHandler, lines: list[RecordLine]) -> None:
        self._handler = handler
        self._lines = lines
        self._index = -1
        self._mark: str | None = None
        self._cursor = Cursor("")
        self._advance()

    def _advance(self) -> None:
        self._index += 1
        self._mark = None
        if self._index < len(self._lines):
            self._mark, self._cursor = self._handler.open(self._lines[self._index])

    def root(self, plan: RecordPlan) -> BusinessObject:
        if plan.mark and self._mark != plan.mark:
            raise self._unexpected(f"expected {shown(plan.mark)}, with which {plan.name} begins")
        bo = self._read(plan, 1)
        if self._mark is not None:
            known = self._known(plan)
            if self._mark not in known:
                raise self._unexpected(f"expected one of {', '.join(known)}")
            reason = f"where the order of {plan.name} has none"
            is_another = self._mark == self._handler._start(plan.schema) and not self._handler.splits
            raise self._unexpected(f"{reason}; or set the option split" if is_another else reason)
        return bo

    def _read(self, plan: RecordPlan, depth: int) -> BusinessObject:
        handler, values = self._handler, dict[str, Any]()
        if depth > MAX_DEPTH:
            raise self._unexpected(TOO_DEEP)
        if plan.mark:
            handler.read_attributes(self._cursor, plan, values, depth)
            handler.read_foot(self._cursor, plan, values, depth)
            handler.check_end(self._cursor, plan)
            values.update(plan.marked)
            self._advance()
        for item in plan.records:
            child = handler.lines_plan(item.field.child)
            start = handler._start(child.schema)
            found: list[BusinessObject] = []
            while self._mark == start and (item.field.many or not found):
                found.append(self._read(child, depth + 1))
            if found:
                values[item.field.name] = found if item.field.many else found[0]
        return object_of(plan.schema, values)

    def _known(self, plan: RecordPlan) -> list[str]:
        plans, waiting = {plan.name: plan}, [plan]
        while waiting:
            for item in waiting.pop().records:
                child = self._handler.lines_plan(item.field.child)
                if child.name not in plans:
                    plans[child.name] = child
                    waiting.append(child)
        return [one.mark for one in plans.values() if one.mark]

    def _unexpected(self, reason: str) -> MalformedData:
        number = self._lines[min(self._index, len(self._lines) - 1)].number
        kind = self._handler.record_type
        place = f"field {kind['field']}" if "field" in kind else ""
        if "at" in kind:
            place = f"columns {kind['at']} to {kind['at'] + kind['length'] - 1}"
        place = f"line {number}, {place}" if place else f"line {number}"
        return MalformedData(f"{place}: found a record {shown(self._mark or '')}, {reason}")


def _mark(schema: Schema) -> str:
    return tags(schema.definition.app_specific_info).get("record", "")


def is_mark(item: Item) -> bool:
    """Tells whether an attribute is the mark of its line."""
    attribute = item.field.attribute
    return not (item.field.child or item.field.many) and "record" in tags(attribute.app_specific_info)


def _is_record(schema: Schema | None) -> bool:
    """Tells whether an object is a line of its own, or holds objects that are."""
    waiting = [] if schema is None else [schema]
    seen = set()
    while waiting:
        one = waiting.pop()
        if _mark(one):
            return True
        seen.add(one.name)
        waiting += [f.child for f in one.children if f.child is not None and f.child.name not in seen]
    return False


def _holds(schema: Schema, wanted: Schema) -> bool:
    """Tells whether an object is, or holds in single children, an object of the type ``wanted``."""
    waiting, seen = [schema], set()
    while waiting:
        one = waiting.pop()
        if one is wanted:
            return True
        seen.add(one.name)
        waiting += [
            f.child for f in one.children if f.child is not None and not f.many and f.child.name not in seen
        ]
    return False
