"""Records: bodies with the values of an object one after the other, as its plan says.

An object is its name, its verb and its attributes. A child is its number of objects, then these objects. A
list of values is their number, then the values. :class:`RecordReader` and :class:`RecordWriter` walk the
plan. A format says how one text is taken from a body, and how one text is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Generic, NoReturn

from connector.businessobjects.definition import OBJECT_EVENT_ID, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.businessobjects.types import SimpleValue
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint
from connector.formats.plan import AttributeRun, Item, ItemT, Plan, Plans, body_fields
from connector.formats.special_values import Misfit, SpecialValues
from connector.text.names import shown

MAX_DEPTH: Final = 200
"""Levels of objects in a body."""

NAME: Final = "BusinessObject"
VERB: Final = "Verb"
"""The two texts of an object that belong to no attribute."""


class Missing(Exception):
    """The next text of a body is not there. The error ends with ``expected``."""


class RecordReader(ABC, Generic[ItemT]):
    """Reads one body. A format derives from this class.

    Args:
        plans: the plans of the format.
        special: the texts of values that are not set, and of blank values.

    Attributes:
        unit: what places count, such as ``line``.
        place: the place of the next text, from 0.
    """

    unit: str

    def __init__(self, plans: Plans[Plan[ItemT]], special: SpecialValues) -> None:
        self.plans = plans
        self.special = special
        self.place = 0

    @abstractmethod
    def take(self, slot: ItemT | str) -> str:
        """Returns the next text, and moves ``place`` on.

        Args:
            slot: the attribute whose value or number the text is. Else :data:`NAME` or :data:`VERB`.

        Raises:
            Missing: there is no such text.
        """

    @abstractmethod
    def end(self, plan: Plan[ItemT]) -> None:
        """Checks that nothing is left after the outermost object. Calls :meth:`fail` if something is."""

    def take_count(self, item: ItemT) -> str:
        """Returns the next text, which is a number of objects or values. Raises as :meth:`take`."""
        return self.take(item)

    def take_run(self, plan: Plan[ItemT], run: AttributeRun[ItemT]) -> list[str]:
        """Returns the next texts, one for each attribute of a run. Calls :meth:`fail` if one is missing."""
        return [self.need(plan, item, item.name) for item in run.items]

    def place_of(self, start: int, run: AttributeRun[ItemT], index: int) -> int:
        """Returns the place of a text of a run that begins at ``start``."""
        return start + index

    def fail(self, place: int, reason: str) -> NoReturn:
        raise MalformedData(f"{self.unit} {place + 1}: {reason}")

    def document(self, hint: Hint | None) -> BusinessObject:
        """Reads the whole body.

        Args:
            hint: the object that a rule dictates.

        Raises:
            MalformedData: the body does not fit. The text names the place.
            UnknownBusinessObject: nothing names an object, or the name is not defined.
        """
        try:
            name = self.take(NAME)
        except Missing as missing:
            self.fail(self.place, f"{missing} the name of a business object")
        if hint is None and not name:
            raise UnknownBusinessObject(f"{self.unit} 1 names no business object, and no rule does")
        plan = self.plans.named(hint.object if hint is not None else name)
        bo = self.read_object(plan, 1)
        self.end(plan)
        if hint is not None and hint.verb:
            bo.verb = hint.verb
        return bo

    def need(self, plan: Plan[ItemT], slot: ItemT | str, what: str) -> str:
        """Works like :meth:`take`. An error says that ``what`` of the object is missing."""
        try:
            return self.take(slot)
        except Missing as missing:
            self.fail(self.place, f"{missing} {what} of {plan.name}")

    def read_object(self, plan: Plan[ItemT], depth: int) -> BusinessObject:
        """Reads an object, after its name."""
        verb = self.verb(plan)
        values: dict[str, Any] = {}
        self.attributes(plan, values, depth)
        bo = object_of(plan.schema, values)
        bo.verb = verb or None
        return bo

    def verb(self, plan: Plan[ItemT]) -> str:
        try:
            return self.take(VERB)
        except Missing as missing:
            self.fail(self.place, f"{missing} the verb of {plan.name}")

    def attributes(self, plan: Plan[ItemT], values: dict[str, Any], depth: int) -> None:
        """Reads the attributes of an object into ``values``."""
        for part in plan.parts:
            if isinstance(part, AttributeRun):
                start = self.place
                self.set_run(plan, part, self.take_run(plan, part), start, values)
            else:
                self.many(plan, part, values, depth)

    def set_run(
        self,
        plan: Plan[ItemT],
        run: AttributeRun[ItemT],
        texts: list[str],
        start: int,
        values: dict[str, Any],
    ) -> None:
        """Converts the texts of a run that begins at ``start``, and sets its attributes."""
        try:
            self.special.read_run(run, texts, values)
        except Misfit as misfit:
            place = self.place_of(start, run, misfit.index)
            self.fail(place, f"{plan.name}: {run.names[misfit.index]}: {misfit}")

    def many(self, plan: Plan[ItemT], item: ItemT, values: dict[str, Any], depth: int) -> None:
        """Reads a child or a list of values."""
        start, field = self.place, item.field
        try:
            count = self.special.count(field, self.take_count(item))
        except Missing as missing:
            self.fail(self.place, f"{missing} {field.name} of {plan.name}")
        except ValueError as error:
            self.fail(start, f"{plan.name}: {field.name}: {error}")
        if count is None:
            return
        if field.child is None:
            values[field.name] = self._values(plan, item, count)
            return
        child = self.plans.of(field.child)
        children: list[BusinessObject] = []
        try:
            while len(children) < count:
                start = self.place
                if depth == MAX_DEPTH:
                    self.fail(start, f"nested deeper than {MAX_DEPTH} levels")
                name = self.take(NAME)
                if name != child.name:
                    expected = f"expected the object {child.name}"
                    self.fail(start, f"{plan.name}: {field.name}: found {shown(name)}, {expected}")
                children.append(self.read_object(child, depth + 1))
        except Missing as missing:
            what = f"the name of object {len(children) + 1} of {count}"
            self.fail(self.place, f"{missing} {what} of {field.name} of {plan.name}")
        if field.many:
            values[field.name] = children
        elif children:
            values[field.name] = children[0]

    def _values(self, plan: Plan[ItemT], item: ItemT, count: int) -> list[SimpleValue]:
        values: list[SimpleValue] = []
        field, start = item.field, self.place
        try:
            while len(values) < count:
                start = self.place
                values.append(self.special.read_value(field, self.take(item)))
        except Missing as missing:
            number = f"value {len(values) + 1} of {count}"
            self.fail(self.place, f"{missing} {number} of {field.name} of {plan.name}")
        except ValueError as error:
            self.fail(start, f"{plan.name}: {field.name}[{len(values)}]: {error}")
        return values


class RecordWriter(ABC, Generic[ItemT]):
    """Writes one body. A format derives from this class.

    Args:
        plans, special: as for :class:`RecordReader`.

    Attributes:
        texts: what is written.
    """

    def __init__(self, plans: Plans[Plan[ItemT]], special: SpecialValues) -> None:
        self.plans = plans
        self.special = special
        self.texts: list[str] = []

    @abstractmethod
    def put(self, slot: ItemT | str, text: str, place: str) -> None:
        """Writes a text.

        Args:
            slot: as for :meth:`RecordReader.take`.
            text: the text.
            place: begins an error.

        Raises:
            MalformedData: the format cannot hold the text.
        """

    def put_count(self, bo: BusinessObject, item: ItemT, count: int | None) -> None:
        """Writes the number of a child's objects or of the values of a list. None = it is not set."""
        text = self.special.ignore if count is None else str(count)
        self.put(item, text, f"{bo.type}: {item.field.name}")

    def put_run(self, bo: BusinessObject, run: AttributeRun[ItemT], texts: list[str]) -> None:
        """Writes attributes with single values."""
        for item, text in zip(run.items, texts, strict=True):
            self.put(item, text, f"{bo.type}: {item.field.name}")

    def put_head(self, bo: BusinessObject, plan: Plan[ItemT]) -> None:
        """Writes what stands before the attributes of an object."""
        self.put(NAME, bo.type, f"{bo.type}: its name")
        self.put(VERB, bo.verb or "", f"{bo.type}: its verb")

    def put_foot(self, bo: BusinessObject, plan: Plan[ItemT]) -> None:
        """Writes what stands after the attributes of an object. Nothing, unless a format overrides this."""

    def write_object(self, bo: BusinessObject, depth: int = 1) -> None:
        """Writes an object.

        Raises:
            MalformedData: the format cannot hold the object.
        """
        if depth > MAX_DEPTH:
            raise MalformedData(f"{bo.type} is nested deeper than {MAX_DEPTH} levels")
        plan = self.plans.named(bo.type)
        self.put_head(bo, plan)
        for part in plan.parts:
            if isinstance(part, AttributeRun):
                self.put_run(bo, part, self.special.write_run(bo, part))
                continue
            field = part.field
            value = bo[field.name]
            if value is not None and not field.many:
                value = [value]
            self.put_count(bo, part, None if value is None else len(value))
            if value is None:
                continue
            if field.child is None:
                for index, text in enumerate(self.special.write_list(bo.type, field, value)):
                    self.put(part, text, f"{bo.type}: {field.name}[{index}]")
                continue
            for child in value:
                self.write_object(child, depth + 1)
        self.put_foot(bo, plan)


def record_plan(schema: Schema) -> Plan[Item]:
    """Returns the plan of an object with the names of its definition, without ObjectEventId."""
    return Plan(schema, [Item(field, field.name) for field in body_fields(schema, OBJECT_EVENT_ID)])
