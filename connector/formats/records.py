"""Records: bodies with the values of an object one after the other, as its plan says.

An object is its name, its verb and its attributes. A child is its number of objects, then these objects. A
list of values is their number, then the values. A format may leave out names, verbs and numbers.
:class:`RecordHandler` walks the plan. A format says how one text is taken from a body, and how one text is
written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import DataHandler, Hint
from connector.formats.notation import Notation
from connector.formats.plan import MAX_DEPTH, TOO_DEEP, AttributeRun, Item, Plan, Plans, body_fields
from connector.formats.special_values import Misfit, SpecialValues
from connector.text.encoding import decode, encode
from connector.text.names import shown

NAME: Final = "BusinessObject"
VERB: Final = "Verb"
"""The two texts of an object that belong to no attribute."""


class Missing(Exception):
    """The next text of a body is not there. The error ends with ``expected``, and the walk says what."""


class RecordLine(NamedTuple):
    """A line of a body, or a piece of the length of a record.

    Args:
        text: without the line end. Bytes where widths count bytes.
        number: from 1.
    """

    text: Any
    number: int


class Cursor:
    """The texts of one body or one line, and the place of the next text.

    Args:
        texts: as :meth:`RecordHandler.split` returns them.
        line: None = the texts are those of a whole body.

    Attributes:
        place: from 0.
    """

    __slots__ = ("line", "place", "texts")

    def __init__(self, texts: Any, line: RecordLine | None = None) -> None:
        self.texts = texts
        self.line = line
        self.place = 0


class RecordHandler(DataHandler):
    """The handler of a format of records. A format derives from this class, and has at least four methods.

    A ``slot`` is the attribute whose value or number a text is. Else it is :data:`NAME` or :data:`VERB`.

    Args:
        options: with ``CxIgnore`` and ``CxBlank``, the texts of values that are not set or blank, and with
            ``charset``. Perhaps with those of :data:`~connector.formats.notation.NOTATION_OPTIONS`.

    Attributes:
        unit: what places in a body count, such as ``line``.
        has_names: whether each object begins with its name. False before :meth:`__init__`: the defaults of
            ``CxIgnore`` and ``CxBlank`` have no meaning, because only the source writes them.
        has_verbs: whether each object has a verb, after its name.
    """

    unit: str
    has_names = True
    has_verbs = True

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        unknown = () if self.has_names else SpecialValues.DEFAULTS
        self.special = SpecialValues(
            *("" if text in unknown else text for text in (options["CxIgnore"], options["CxBlank"]))
        )
        self.notation = Notation(options)
        self.charset: str = options["charset"]
        self.plans = Plans(definitions, self.plan)

    def plan(self, schema: Schema) -> Plan[Item]:
        """Returns the plan of an object: the names of its definition, without ObjectEventId."""
        return Plan(schema, self.items_of(schema, OBJECT_EVENT_ID))

    def items_of(self, schema: Schema, without: str) -> list[Item]:
        """Returns the attributes that a body may have, by their names, but for the one named ``without``."""
        return [self.notation.fit(Item(field, field.name)) for field in body_fields(schema, without)]

    # --- reading ------------------------------------------------------------------------------

    @abstractmethod
    def split(self, text: str) -> Sequence[str]:
        """Returns the texts of a body that is not empty."""

    @abstractmethod
    def take(self, cursor: Cursor, slot: Item | str) -> str:
        """Returns the next text, and moves the cursor on.

        Raises:
            Missing: there is no such text.
        """

    def take_count(self, cursor: Cursor, item: Item) -> str:
        """Returns the next text, a number of objects or values. Raises as :meth:`take`."""
        return self.take(cursor, item)

    def take_run(self, cursor: Cursor, plan: Plan[Item], run: AttributeRun[Item]) -> list[str]:
        """Returns the next texts, one for each attribute of a run. Calls :meth:`fail` if one is missing."""
        return [self.need(cursor, plan, item, item.name) for item in run.items]

    def place_of(self, start: int, run: AttributeRun[Item], index: int) -> int:
        """Returns the place of a text of a run that begins at ``start``."""
        return start + index

    def check_end(self, cursor: Cursor, plan: Plan[Item]) -> None:
        """Checks that no text is left after the outermost object."""
        left = len(cursor.texts) - cursor.place
        if left:
            self.fail(cursor.place, f"found {left} more {self.unit}s after the end of {plan.name}", cursor)

    def has_count(self, item: Item) -> bool:
        """Tells whether the number of objects of a child stands before them. Else there is one object."""
        return True

    def where(self, cursor: Cursor, place: int, slot: Item | str) -> str:
        """Returns the place of a text in a body, for an error.

        Args:
            slot: empty = not known.
        """
        return f"{self.unit} {place + 1}"

    def fail(self, place: int, reason: str, cursor: Cursor | None = None, slot: Item | str = "") -> NoReturn:
        where = f"{self.unit} {place + 1}" if cursor is None else self.where(cursor, place, slot)
        raise MalformedData(f"{where}: {reason}")

    def need(self, cursor: Cursor, plan: Plan[Item], slot: Item | str, what: str) -> str:
        """Works like :meth:`take`. An error says that ``what`` of the object is missing."""
        try:
            return self.take(cursor, slot)
        except Missing as missing:
            self.fail(cursor.place, f"{missing} {what} of {plan.name}", cursor, slot)

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        text = decode(body, self.charset)
        if not text.strip():
            expected = "the name of an object, a verb and values" if self.has_names else "a record"
            raise MalformedData(f"the body is empty, expected {expected}")
        return self.read_body(Cursor(self.split(text)), hint)

    def read_body(self, cursor: Cursor, hint: Hint | None) -> BusinessObject:
        """Reads a whole body. Arguments and errors are those of :meth:`to_business_object`."""
        try:
            name = self.take(cursor, NAME) if self.has_names else ""
        except Missing as missing:
            self.fail(cursor.place, f"{missing} the name of a business object", cursor)
        if hint is None and not name:
            where = self.where(cursor, 0, "") if self.has_names else "the body"
            raise UnknownBusinessObject(f"{where} names no business object, and no rule does")
        plan = self.plans.get(hint.object if hint is not None else name)
        bo = self.read_object(cursor, plan, 1)
        self.check_end(cursor, plan)
        if hint is not None and hint.verb:
            bo.verb = hint.verb
        return bo

    def read_object(self, cursor: Cursor, plan: Plan[Item], depth: int) -> BusinessObject:
        """Reads an object, after its name."""
        verb = self.read_verb(cursor, plan)
        values: dict[str, Any] = {}
        self.read_attributes(cursor, plan, values, depth)
        self.read_foot(cursor, plan, values, depth)
        bo = object_of(plan.schema, values)
        bo.verb = verb or None
        return bo

    def read_verb(self, cursor: Cursor, plan: Plan[Item]) -> str:
        try:
            return self.take(cursor, VERB) if self.has_verbs else ""
        except Missing as missing:
            self.fail(cursor.place, f"{missing} the verb of {plan.name}", cursor)

    def read_attributes(self, cursor: Cursor, plan: Plan[Item], values: dict[str, Any], depth: int) -> None:
        """Reads the attributes of an object into ``values``."""
        for part in plan.parts:
            if isinstance(part, AttributeRun):
                start = cursor.place
                texts = self.take_run(cursor, plan, part)
                self.read_run(plan, part, texts, start, values, cursor)
            elif self.has_count(part):
                self.read_many(cursor, plan, part, values, depth)
            else:
                child = self._read_only(cursor, plan, part, depth)
                if next(iter(child), None) is not None:
                    values[part.field.name] = child

    def _read_only(self, cursor: Cursor, plan: Plan[Item], item: Item, depth: int) -> BusinessObject:
        """Reads the child that stands without a number."""
        assert item.field.child is not None
        child = self.plans.of(item.field.child)
        start = cursor.place
        name = self.need(cursor, plan, NAME, f"the name of {item.name}") if self.has_names else child.name
        if name != child.name:
            reason = f"found {shown(name)}, expected the object {child.name}"
            self.fail(start, f"{plan.name}: {item.name}: {reason}", cursor)
        return self.read_object(cursor, child, depth + 1)

    def read_foot(self, cursor: Cursor, plan: Plan[Item], values: dict[str, Any], depth: int) -> None:
        """Reads what stands after the attributes of an object. Nothing, unless a format overrides this."""

    def read_run(
        self,
        plan: Plan[Item],
        run: AttributeRun[Item],
        texts: list[str],
        start: int,
        values: dict[str, Any],
        cursor: Cursor | None = None,
    ) -> None:
        """Reads the texts of a run that begins at ``start``."""
        try:
            self.special.read_run(run, texts, values)
        except Misfit as misfit:
            item = run.items[misfit.index]
            place = self.place_of(start, run, misfit.index)
            self.fail(place, f"{plan.name}: {item.field.name}: {misfit}", cursor, item)

    def read_one(
        self,
        plan: Plan[Item],
        name: str,
        text: str,
        place: int,
        values: dict[str, Any],
        cursor: Cursor | None = None,
    ) -> None:
        """Reads the text of one attribute with a single value. Without such an attribute nothing is read."""
        item = plan.by_name.get(name)
        field = plan.schema.fields.get(name)
        if field is not None:
            try:
                self.special.read(Item(field, name) if item is None else item, text, values)
            except ValueError as error:
                self.fail(place, f"{plan.name}: {name}: {error}", cursor)

    def read_many(
        self, cursor: Cursor, plan: Plan[Item], item: Item, values: dict[str, Any], depth: int
    ) -> None:
        """Reads a child or a list of values."""
        start, field = cursor.place, item.field
        try:
            count = self.special.count(field, self.take_count(cursor, item))
        except Missing as missing:
            self.fail(cursor.place, f"{missing} {field.name} of {plan.name}", cursor)
        except MalformedData:  # a ValueError, too
            raise
        except ValueError as error:
            self.fail(start, f"{plan.name}: {field.name}: {error}", cursor)
        if count is None:
            return
        found: list[Any] = []
        try:
            if field.child is None:
                while len(found) < count:
                    start = cursor.place
                    found.append(self.special.read_value(item, self.take(cursor, item)))
            else:
                child = self.plans.of(field.child)
                while len(found) < count:
                    start = cursor.place
                    if depth == MAX_DEPTH:
                        self.fail(start, TOO_DEEP, cursor)
                    name = self.take(cursor, NAME) if self.has_names else child.name
                    if name != child.name:
                        expected = f"expected the object {child.name}"
                        self.fail(
                            start, f"{plan.name}: {field.name}: found {shown(name)}, {expected}", cursor
                        )
                    found.append(self.read_object(cursor, child, depth + 1))
        except Missing as missing:
            what = "value" if field.child is None else "the name of object"
            number = f"{what} {len(found) + 1} of {count}"
            self.fail(cursor.place, f"{missing} {number} of {field.name} of {plan.name}", cursor)
        except MalformedData:
            raise
        except ValueError as error:
            self.fail(start, f"{plan.name}: {field.name}[{len(found)}]: {error}", cursor, item)
        if field.many:
            values[field.name] = found
        elif found:
            values[field.name] = found[0]

    # --- writing ------------------------------------------------------------------------------

    @abstractmethod
    def join(self, texts: list[str], bo: BusinessObject) -> str:
        """Returns the body of an object that was written as ``texts``."""

    @abstractmethod
    def put(self, texts: list[str], slot: Item | str, text: str, place: str) -> None:
        """Writes a text, which is added to ``texts``.

        Args:
            place: stands at the start of an error.

        Raises:
            MalformedData: the format cannot hold the text.
        """

    def put_count(self, texts: list[str], bo: BusinessObject, item: Item, count: int | None) -> None:
        """Writes the number of a child's objects or of the values of a list. None = it is not set."""
        self.put(texts, item, self.special.ignore if count is None else str(count), f"{bo.type}: {item.name}")

    def put_run(
        self, texts: list[str], bo: BusinessObject, run: AttributeRun[Item], values: list[str]
    ) -> None:
        """Writes attributes with single values, whose texts are ``values``."""
        for item, text in zip(run.items, values, strict=True):
            self.put(texts, item, text, f"{bo.type}: {item.name}")

    def put_head(self, texts: list[str], bo: BusinessObject, plan: Plan[Item]) -> None:
        """Writes what stands before the attributes of an object."""
        if self.has_names:
            self.put(texts, NAME, bo.type, f"{bo.type}: its name")
        if self.has_verbs:
            self.put(texts, VERB, bo.verb or "", f"{bo.type}: its verb")

    def put_foot(self, texts: list[str], bo: BusinessObject, plan: Plan[Item]) -> None:
        """Writes what stands after the attributes of an object. Nothing, unless a format overrides this."""

    def to_body(self, bo: BusinessObject) -> bytes:
        texts: list[str] = []
        self.write(texts, bo, 1)
        return encode(self.join(texts, bo), self.charset)

    def write(self, texts: list[str], bo: BusinessObject, depth: int) -> None:
        """Writes an object. Its texts are added to ``texts``."""
        if depth > MAX_DEPTH:
            raise MalformedData(f"{bo.type} is {TOO_DEEP}")
        plan = self.plans.get(bo.type)
        self.put_head(texts, bo, plan)
        for part in plan.parts:
            if isinstance(part, AttributeRun):
                self.put_run(texts, bo, part, self.special.write_run(bo, part))
            elif self.has_count(part):
                self._write_many(texts, bo, part, depth)
            else:
                self.write(texts, self._only_child(bo, part), depth + 1)
        self.put_foot(texts, bo, plan)

    def _write_many(self, texts: list[str], bo: BusinessObject, part: Item, depth: int) -> None:
        """Writes a child or a list of values, after its number."""
        field = part.field
        value = bo.value(field.name)
        if value is not None and not field.many:
            value = [value]
        self.put_count(texts, bo, part, None if value is None else len(value))
        if value is None:
            return
        if field.child is None:
            for index, text in enumerate(self.special.write_list(bo.type, part, value)):
                self.put(texts, part, text, f"{bo.type}: {field.name}[{index}]")
            return
        for child in value:
            self.write(texts, child, depth + 1)

    def _only_child(self, bo: BusinessObject, part: Item) -> BusinessObject:
        """Returns the child that stands without a number. If it is not set, it has no values."""
        name, schema = part.field.name, part.field.child
        assert schema is not None
        child: BusinessObject | None = bo.value(name)
        if child is None:
            return object_of(schema, {})
        if self.plans.of(schema).has_value(child):
            return child
        raise MalformedData(
            f"{bo.type}: {name}: found an object without a value, expected at least one, because it would be "
            "read as one that is not set"
        )
