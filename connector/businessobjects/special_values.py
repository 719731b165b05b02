"""Values of simple attributes as text, with the two special values *ignore* and *blank*.

Text formats have no null. Instead they have the texts of the options ``CxIgnore`` and ``CxBlank`` (WBI Data
Handler Guide).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connector.businessobjects.definition import Field
from connector.businessobjects.types import SimpleValue
from connector.errors import MalformedData


def text_of(value: SimpleValue) -> str:
    """Returns a value in the notation that ``BusinessObject.set_text`` reads."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


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

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> SpecialValues:
        """Returns the special values of the options ``CxIgnore`` and ``CxBlank``."""
        return cls(options["CxIgnore"], options["CxBlank"])

    def read(self, field: Field, text: str, into: dict[str, Any]) -> None:
        """Sets a simple attribute from its text.

        Raises:
            ValueError: the text does not fit the type. The text names what was found and expected.
        """
        if not text or text == self.ignore:
            return
        assert field.from_text is not None
        into[field.name] = "" if text == self._blank else field.from_text(text)

    def write(self, object_name: str, field: Field, value: SimpleValue | None) -> str:
        """Returns the text of a simple attribute.

        Raises:
            MalformedData: the text would be read as another value.
        """
        if value is None:
            return self.ignore
        text = text_of(value)
        if not text:
            if not self._blank:
                raise MalformedData(
                    f"{object_name}: {field.name} is blank, and CxBlank gives no text for blank"
                )
            return self._blank
        if text in self._special:
            raise MalformedData(f"{object_name}: {field.name} is the text of a special value ({text})")
        return text
