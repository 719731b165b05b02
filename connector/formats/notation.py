"""Numbers, dates and words in the notation of a country, for all text formats alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from connector.businessobjects.app_specific_info import tags
from connector.businessobjects.definition import Attribute
from connector.businessobjects.types import NUMBERS, Converter, SimpleValue, describe
from connector.errors import MalformedData
from connector.formats.datahandler import Option
from connector.formats.date_format import DATE_FORMAT, DateFormats
from connector.formats.plan import Item
from connector.text.names import shown

NOTATION_OPTIONS: Final = (
    Option("decimal", str, ".", "The character before the places of a number."),
    Option("thousands", str, "", "The character between groups of three digits. It is never written."),
    Option(
        "negative",
        str,
        "leading",
        "Where the sign of a negative number is written: `-5`, `5-` or `(5)`. Read are all three.",
        choices=("leading", "trailing", "brackets"),
    ),
    Option(
        "date_format",
        list,
        (),
        "The form of dates, such as `%d.%m.%Y`, or several that are tried in order. Empty: ISO 8601.",
    ),
    Option("true", list, (), "The words for true. The first is written. Empty: `true`, and `1` on reading."),
    Option(
        "false", list, (), "The words for false. The first is written. Empty: `false`, and `0` on reading."
    ),
)
"""The options of a handler whose texts may be in the notation of a country."""

_XML_SPACE: Final = " \t\r\n"
_SIGNS: Final = "+-()eE0123456789"
ItemT = TypeVar("ItemT", bound=Item)


class Notation:
    """Reads and writes the values of a text format.

    Args:
        options: with those of :data:`NOTATION_OPTIONS`. One that is left out has its default.

    Raises:
        ValueError: the options do not go together.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        options = {**{option.name: option.default for option in NOTATION_OPTIONS}, **options}
        self.decimal: str = options["decimal"]
        self.thousands: str = options["thousands"]
        self._negative: str = options["negative"]
        for name, text in (("decimal", self.decimal), ("thousands", self.thousands)):
            if len(text) > 1 or (text in (*_SIGNS, "\r", "\n") and text) or (not text and name == "decimal"):
                raise ValueError(
                    f"{name}: found {text!r}, expected one character that no number has otherwise"
                )
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands are the same character, {self.decimal!r}")
        self._is_plain = self.decimal == "." and not self.thousands
        point, group = re.escape(self.decimal), re.escape(self.thousands)
        groups = f"[0-9]{{1,3}}(?:{group}[0-9]{{3}})++|" if group else ""
        number = rf"(?:(?:{groups}[0-9]++)(?:{point}[0-9]*+)?|{point}[0-9]++)(?:[eE][+-]?[0-9]++)?"
        self._number = re.compile(rf"([+-]?)({number})|({number})-|\(({number})\)")
        written = options["date_format"]
        texts = (written,) if isinstance(written, str) else tuple(written)
        self._dates = DateFormats(texts) if texts not in ((), ("",)) else None
        self._words = self._boolean_words(options["true"], options["false"])

    @staticmethod
    def _boolean_words(true: tuple[str, ...], false: tuple[str, ...]) -> dict[bool, tuple[str, ...]]:
        """Returns the words of both values. Empty = those of every format."""
        if not true and not false:
            return {}
        words = {True: true or ("true", "1"), False: false or ("false", "0")}
        both = set(words[True]) & set(words[False])
        if both:
            raise ValueError(f"true and false have the same word, {min(both)!r}")
        if any(not word or word != word.strip(_XML_SPACE) for word in (*words[True], *words[False])):
            raise ValueError("true and false: expected words without white space around them")
        return words

    @property
    def longest_word(self) -> int:
        """The characters of the longest word of a Boolean that is written. 0 = the words of every format."""
        return max((len(words[0]) for words in self._words.values()), default=0)

    def fit(self, item: ItemT) -> ItemT:
        """Returns an attribute of a format whose texts are in this notation."""
        convert = item.to_value
        type_name = item.field.attribute.type
        if convert is None:
            return item
        if type_name in NUMBERS:
            item.to_value = self._number_reader(convert, type_name)
            if not self._is_plain or self._negative != "leading":
                assert item.to_text is not None
                item.to_text = self._number_writer(item.to_text)
        elif type_name == "Boolean" and self._words:
            item.to_value = self._boolean_reader()
            texts: dict[Any, str] = {"": "", **{value: words[0] for value, words in self._words.items()}}
            item.to_text = texts.__getitem__
        elif type_name == "Date" and (dates := self.dates_of(item.field.attribute)) is not None:
            item.to_value, item.to_text = dates.read, dates.write
        return item

    def dates_of(self, attribute: Attribute) -> DateFormats | None:
        """Returns the forms of a Date. None = ISO 8601.

        Raises:
            MalformedData: the tag ``date_format=`` of the attribute is no form of dates.
        """
        own = tags(attribute.app_specific_info).get(DATE_FORMAT)
        if own is None:
            return self._dates
        try:
            return DateFormats((own,))
        except ValueError as error:
            raise MalformedData(f"{attribute.name}: the tag of app_specific_info: {error}") from None

    # --- numbers ------------------------------------------------------------------------------

    def _number_reader(self, convert: Converter, type_name: str) -> Converter:
        expected = "an integer" if type_name == "Integer" else "a number"
        if not self._is_plain:
            places = "" if type_name == "Integer" else f"{self.decimal}56"
            expected = f"{expected} in the form 1{self.thousands}234{places}"

        def read(text: Any) -> SimpleValue:
            plain = self._plain(text) if text else text
            if plain is None:
                raise ValueError(f"found {describe(text)}, expected {expected}")
            try:
                return convert(plain)
            except ValueError as error:
                raise ValueError(str(error).replace(shown(plain), shown(text))) from None

        def read_plain(text: Any) -> SimpleValue:
            try:
                return convert(text)
            except ValueError:
                plain = self._plain(text)
                if plain is None:
                    raise
                return read(text)

        return read_plain if self._is_plain else read

    def _plain(self, text: str) -> str | None:
        """Returns a number with a sign before it and a point. None = the text is no number."""
        found = self._number.fullmatch(text.strip(_XML_SPACE))
        if found is None:
            return None
        sign, number, trailing, bracketed = found.groups()
        if number is None:
            sign, number = "-", trailing or bracketed
        if self.thousands:
            number = number.replace(self.thousands, "")
        return f"{sign}{number.replace(self.decimal, '.')}"

    def _number_writer(self, to_text: Callable[[Any], str]) -> Callable[[Any], str]:
        def write(value: Any) -> str:
            text = to_text(value).replace(".", self.decimal)
            if not text.startswith("-") or self._negative == "leading":
                return text
            return f"{text[1:]}-" if self._negative == "trailing" else f"({text[1:]})"

        return write

    # --- words --------------------------------------------------------------------------------

    def _boolean_reader(self) -> Converter:
        values = {word: value for value, words in self._words.items() for word in words}
        expected = f"{' or '.join(self._words[True])}, or {' or '.join(self._words[False])}"

        def read(text: Any) -> SimpleValue:
            found = values.get(text.strip(_XML_SPACE)) if text else ""
            if found is None:
                raise ValueError(f"found {describe(text)}, expected {expected}")
            return found

        return read
