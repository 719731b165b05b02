"""Values of simple attributes as text, with the two special values *ignore* and *blank*.

Text formats have no null. Instead they have the texts of the options ``CxIgnore`` and ``CxBlank`` (WBI Data
Handler Guide). Attributes that stand side by side are converted together (:class:`Run`), which takes
less time than one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connector.businessobjects.definition import OBJECT_EVENT_ID, Field, Schema
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import HELD_AS_TEXT, TEXTS, SimpleValue, text_of
from connector.errors import MalformedData
from connector.text.names import shown


class Misfit(ValueError):
    """A text of a run that does not fit.

    Args:
        text: what was found and expected.
        index: the number of the attribute in the run, from 0.
    """

    def __init__(self, text: str, index: int) -> None:
        super().__init__(text)
        self.index = index


class Run:
    """Simple attributes that stand side by side in a definition.

    Args:
        fields: the attributes, at least one.
    """

    __slots__ = ("converters", "fields", "names", "prefixes", "typed")

    def __init__(self, fields: list[Field]) -> None:
        self.fields = fields
        self.names = [field.name for field in fields]
        self.prefixes = [f"{name}=" for name in self.names]
        self.converters = [
            (index, field.from_text)
            for index, field in enumerate(fields)
            if field.from_text is not None
            and (field.attribute.type not in TEXTS or field.attribute.max_length)
        ]
        """By index, the converters of the attributes that not every text fits."""
        self.typed = [index for index, field in enumerate(fields) if field.attribute.type not in HELD_AS_TEXT]
        """The indexes of the attributes whose values are no texts."""


class SpecialValues:
    """Reads and writes simple values.

    An empty text is *ignore*: the attribute is not set.

    Args:
        ignore: the text that also means that an attribute is not set, and is written for such attributes.
        blank: the text that means an empty value. Empty = the format cannot hold blank values.

    Raises:
        ValueError: both texts are the same.
    """

    def __init__(self, ignore: str, blank: str) -> None:
        if ignore and ignore == blank:
            raise ValueError("CxIgnore and CxBlank are the same text")
        self.ignore = ignore
        self._blank = blank
        self._special = frozenset(text for text in (ignore, blank) if text)
        self._not_a_value = frozenset((None, "", ignore, blank))
        self._parts: dict[Schema, list[Run | Field]] = {}

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SpecialValues:
        """Returns the special values of the options ``CxIgnore`` and ``CxBlank``."""
        return cls(options["CxIgnore"], options["CxBlank"])

    def parts(self, schema: Schema, *, event_id: bool = False) -> list[Run | Field]:
        """Returns the attributes of a body in their order: runs of simple attributes, children and lists.

        Args:
            schema: the definition.
            event_id: whether ObjectEventId is among them. Every call must say the same.
        """
        parts = self._parts.get(schema)
        if parts is None:
            parts = []
            run: list[Field] = []
            for field in schema.fields.values():
                if not field.in_body or (field.name == OBJECT_EVENT_ID and not event_id):
                    continue
                if field.child is None and not field.many:
                    run.append(field)
                    continue
                parts += [Run(run), field] if run else [field]
                run = []
            if run:
                parts.append(Run(run))
            self._parts[schema] = parts
        return parts

    def read_run(self, run: Run, texts: list[str], into: dict[str, Any]) -> None:
        """Sets the attributes of a run from their texts.

        Raises:
            Misfit: a text does not fit.
        """
        if self._not_a_value.isdisjoint(texts):
            values: list[Any] = texts.copy()
            try:
                for index, convert in run.converters:
                    values[index] = convert(values[index])
            except ValueError:
                pass  # the loop below names the attribute
            else:
                into.update(zip(run.names, values, strict=True))
                return
        for index, (field, text) in enumerate(zip(run.fields, texts, strict=True)):
            try:
                self.read(field, text, into)
            except ValueError as error:
                raise Misfit(str(error), index) from None

    def write_run(self, bo: BusinessObject, run: Run) -> list[str]:
        """Returns the texts of the attributes of a run.

        Raises:
            MalformedData: a text would be read as another value.
        """
        texts = bo.values_of(run.names)
        for index in run.typed:
            value = texts[index]
            if value is not None:
                texts[index] = text_of(value)
        if self._not_a_value.isdisjoint(texts):
            return texts
        return [self.write(bo.type, field, bo[field.name]) for field in run.fields]

    def count(self, field: Field, text: str) -> int | None:
        """Returns the number of objects of a child, or of values of a list, from its text.

        None means that the attribute is not set.

        Raises:
            ValueError: the text is no number that the cardinality allows.
        """
        if not text or text == self.ignore:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise ValueError(f"found {shown(text)}, expected a number of {_counted(field)}")
        count = int(text)
        if count > 1 and not field.many:
            raise ValueError(f"found {count} objects, expected at most one")
        return count

    def read(self, field: Field, text: str, into: dict[str, Any]) -> None:
        """Sets a simple attribute from its text.

        Raises:
            ValueError: the text does not fit the type. The text names what was found and expected.
        """
        if not text or text == self.ignore:
            return
        assert field.from_text is not None
        into[field.name] = "" if text == self._blank else field.from_text(text)

    def read_value(self, field: Field, text: str) -> SimpleValue:
        """Returns a value of a list from its text.

        Raises:
            ValueError: the text does not fit the type, or means a value that is not set.
        """
        if not text or text == self.ignore:
            raise ValueError("found a value that is not set, expected each value of a list to be set")
        assert field.value_from_text is not None
        return "" if text == self._blank else field.value_from_text(text)

    def write(self, object_name: str, field: Field, value: SimpleValue | None) -> str:
        """Returns the text of a simple attribute.

        Raises:
            MalformedData: the text would be read as another value.
        """
        return self.ignore if value is None else self._write(f"{object_name}: {field.name}", value)

    def write_list(self, object_name: str, field: Field, values: Sequence[SimpleValue]) -> list[str]:
        """Returns the texts of the values of a list.

        Raises:
            MalformedData: a text would be read as another value.
        """
        return [
            self._write(f"{object_name}: {field.name}[{index}]", value) for index, value in enumerate(values)
        ]

    def _write(self, place: str, value: SimpleValue) -> str:
        text = text_of(value)
        if not text:
            if not self._blank:
                raise MalformedData(f"{place} is blank, and CxBlank gives no text for blank")
            return self._blank
        if text in self._special:
            raise MalformedData(f"{place} is the text of a special value ({text})")
        return text


def _counted(field: Field) -> str:
    return "values" if field.is_list else "objects"
