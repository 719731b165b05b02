"""Values of simple attributes as text, with the two special values *ignore* and *blank*.

Text formats have no null. Instead they have the texts of the options ``CxIgnore`` and ``CxBlank`` (WBI Data
Handler Guide). The attributes of a run are converted together, which takes less time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from connector.businessobjects.definition import Field
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import SimpleValue
from connector.errors import MalformedData
from connector.formats.plan import AttributeRun, Item, ItemT
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


class SpecialValues:
    """Reads and writes simple values.

    An empty text is *ignore*: the attribute is not set.

    Args:
        ignore: the text that also means that an attribute is not set, and is written for such attributes.
        blank: the text that means an empty value. Empty = the format cannot hold blank values.

    Raises:
        ValueError: both texts are the same.
    """

    DEFAULTS: Final = ("CxIgnore", "CxBlank")
    """What the source writes. A flat file of others has neither."""

    def __init__(self, ignore: str, blank: str) -> None:
        if ignore and ignore == blank:
            raise ValueError("CxIgnore and CxBlank are the same text")
        self.ignore = ignore
        self._blank = blank
        self._special = frozenset(text for text in (ignore, blank) if text)
        self._not_a_value = frozenset((None, "", ignore, blank))

    def read_run(self, run: AttributeRun[ItemT], texts: list[str], into: dict[str, Any]) -> None:
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
        for index, (item, text) in enumerate(zip(run.items, texts, strict=True)):
            try:
                self.read(item, text, into)
            except ValueError as error:
                raise Misfit(str(error), index) from None

    def write_run(self, bo: BusinessObject, run: AttributeRun[ItemT]) -> list[str]:
        """Returns the texts of the attributes of a run.

        Raises:
            MalformedData: a text would be read as another value.
        """
        texts = bo.values_of(run.names)
        try:
            for index, to_text in run.typed:
                value = texts[index]
                if value is not None:
                    texts[index] = to_text(value)
        except ValueError:
            texts = [None]  # the loop below names the attribute
        if self._not_a_value.isdisjoint(texts):
            return texts
        values = zip(run.items, bo.values_of(run.names), strict=True)
        return [self.ignore if v is None else self._write(_name(bo.type, i), i, v) for i, v in values]

    def count(self, field: Field, text: str) -> int | None:
        """Returns the number of objects of a child, or of values of a list, from its text.

        None means that the attribute is not set.

        Raises:
            ValueError: the text is no number that the cardinality allows.
        """
        if not text or text == self.ignore:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            counted = "values" if field.is_list else "objects"
            raise ValueError(f"found {shown(text)}, expected a number of {counted}")
        count = int(text)
        if count > 1 and not field.many:
            raise ValueError(f"found {count} objects, expected at most one")
        return count

    def read(self, item: Item, text: str, into: dict[str, Any]) -> None:
        """Sets a simple attribute from its text.

        Raises:
            ValueError: the text does not fit the type. The text names what was found and expected.
        """
        if not text or text == self.ignore:
            return
        assert item.to_value is not None
        into[item.field.name] = "" if text == self._blank else item.to_value(text)

    def read_value(self, item: Item, text: str) -> SimpleValue:
        """Returns a value of a list from its text.

        Raises:
            ValueError: the text does not fit the type, or means a value that is not set.
        """
        if not text or text == self.ignore:
            raise ValueError("found a value that is not set, expected each value of a list to be set")
        assert item.to_value is not None
        return "" if text == self._blank else item.to_value(text)

    def write_list(self, object_name: str, item: Item, values: Sequence[SimpleValue]) -> list[str]:
        """Returns the texts of the values of a list.

        Raises:
            MalformedData: a text would be read as another value.
        """
        name = _name(object_name, item)
        return [self._write(f"{name}[{index}]", item, value) for index, value in enumerate(values)]

    def _write(self, place: str, item: Item, value: SimpleValue) -> str:
        try:
            text = str(value) if item.to_text is None else item.to_text(value)
        except ValueError as error:
            raise MalformedData(f"{place}: {error}") from None
        if not text:
            if not self._blank:
                raise MalformedData(f"{place} is blank, and CxBlank gives no text for blank")
            return self._blank
        if text in self._special:
            raise MalformedData(f"{place} is the text of a special value ({text})")
        return text


def _name(object_name: str, item: Item) -> str:
    return f"{object_name}: {item.field.name}"
