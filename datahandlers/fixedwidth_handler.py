"""Fixed-width text: every value has the width of its definition (WBI Data Handler Guide, FixedWidth)."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions, Schema
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import DECIMAL, TEXTS
from connector.errors import MalformedData
from connector.formats.datahandler import Hint, Option, charset
from connector.formats.plan import AttributeRun, Item, Plan, body_fields
from connector.formats.records import NAME, VERB, Cursor, Missing, RecordHandler
from connector.text.encoding import DEFAULT, encode

_WIDTHS: Final = {"Boolean": 5, "Integer": 11, "Float": 24, "Double": 24, "Date": 32}
"""The widths of attributes without max_length. Every value of these types fits, but for long fractions."""
_COUNT: Final = "Count"
"""The number of a child's objects, or of the values of a list."""
TEXT: Final = "text"
NUMBER: Final = "number"
BOOLEAN: Final = "Boolean"
DATE: Final = "Date"
_KINDS: Final = {"Boolean": BOOLEAN, "Date": DATE, **dict.fromkeys(TEXTS, TEXT)}
_STRIPS: Final = {"LEFT": str.rstrip, "RIGHT": str.lstrip, "BOTH": str.strip}


class _Slot(NamedTuple):
    """The place of a text in a body.

    Args:
        width: in characters or bytes.
        kind: one of the constants of this module.
        trim: removes pad characters from a text of this kind.
        cuts: whether a text that is too long is cut.
    """

    width: int
    kind: str
    trim: Callable[[str], str]
    cuts: bool = False


class FixedWidthHandler(RecordHandler):
    """Values of fixed widths, without anything between them.

    The name of the object, the verb, and the attributes in the order of the definition. The width of an
    attribute is its ``max_length``. Without ``max_length`` a Boolean has 5, an Integer 11, a Float or Double
    24 and a Date 32, and a text is an error. A child is its number of objects, then the name, the verb and
    the values of each. A list of values is their number, then the values, each with the width of the
    attribute. A value of pad characters only is not set. Pad characters around a value are lost.

    With the PadCharacter 0 a number is filled on its left, and zeros only are the number 0. Blanks only are
    not set. A text that begins or ends with another PadCharacter than a blank is not written.

    ``LEFT``: the value stands left, and pads on its right are removed. ``RIGHT``: the value stands right, and
    pads on its left are removed. ``BOTH``: written as LEFT, pads on both sides are removed. Reading needs at
    most 80 times the size of the body in memory.
    """

    mime_types = ("text/fixedwidth",)
    options = (
        Option("BONameSize", int, 50, "The width of the name of an object."),
        Option("BOVerbSize", int, 20, "The width of a verb."),
        Option("BOCountSize", int, 3, "The width of a number of children."),
        Option(
            "Alignment", str, "BOTH", "Where a value stands in its field.", choices=("BOTH", "LEFT", "RIGHT")
        ),
        Option("PadCharacter", str, " ", "Fills a field. One character."),
        Option("CxIgnore", str, "", "The text of an attribute that is not set. Empty: pad characters only."),
        Option("CxBlank", str, "CxBlank", "The text of a blank attribute. Empty: there is none."),
        Option("Truncation", bool, False, "Cut off a value that is too long, instead of an error."),
        Option("OmitObjectEventId", bool, False, "Neither write nor read an attribute ObjectEventId."),
        Option("width", str, "characters", "The unit of widths.", choices=("characters", "bytes")),
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        super().__init__(options, definitions)
        sizes = (options["BONameSize"], options["BOVerbSize"], options["BOCountSize"])
        if min(sizes) < 1:
            raise ValueError("BONameSize, BOVerbSize and BOCountSize: expected at least 1")
        self._alignment: str = options["Alignment"]
        self._pad: str = options["PadCharacter"]
        if len(self._pad) != 1 or self._pad in "\r\n":
            raise ValueError("PadCharacter: expected one character that is no line break")
        if self._pad in "123456789":
            raise ValueError("PadCharacter: expected no digit but 0, because others change numbers")
        if self._pad == "0" and self._alignment == "LEFT":
            raise ValueError(
                "PadCharacter 0 needs Alignment RIGHT or BOTH: behind a number, it changes the number"
            )
        self._in_bytes = options["width"] == "bytes"
        if self._in_bytes and len(self._pad.encode(self.charset or DEFAULT)) != 1:
            raise ValueError("PadCharacter: expected a character of one byte, because widths count bytes")
        self.unit = "byte" if self._in_bytes else "character"
        self._truncates: bool = options["Truncation"]
        self._without = OBJECT_EVENT_ID if options["OmitObjectEventId"] else ""
        self._slots: dict[Item | str, _Slot] = {
            name: _Slot(size, kind, self._trim(kind))
            for name, kind, size in zip((NAME, VERB, _COUNT), (TEXT, TEXT, NUMBER), sizes, strict=True)
        }
        self._templates: dict[AttributeRun[Item], tuple[str, int]] = {}

    def plan(self, schema: Schema) -> Plan[Item]:
        """Returns the plan of an object.

        Raises:
            MalformedData: a text has no ``max_length``.
        """
        items = [Item(field, field.name) for field in body_fields(schema, self._without)]
        for item in items:
            attribute = item.field.attribute
            if item.field.child is not None:
                continue
            width = attribute.max_length or _WIDTHS.get(attribute.type, 0)
            if not width and attribute.digits:
                width = attribute.digits + 2  # the sign and the point
            if not width:
                raise MalformedData(
                    f"{schema.name}: {item.name} has no width: give max_length in its definition"
                )
            kind = _KINDS.get(attribute.type, NUMBER)
            # A Decimal is never cut, because nothing of it is rounded.
            cuts = self._truncates and attribute.type != DECIMAL
            self._slots[item] = _Slot(width, kind, self._trim(kind), cuts)
        return Plan(schema, items)

    def _trim(self, kind: str) -> Callable[[str], str]:
        """Returns the function that removes pad characters from a text of a kind."""
        pad, strip = self._pad, _STRIPS[self._alignment]

        def trim_number(text: str) -> str:
            # Zeros before digits do not change the number, but a sign has to be the first.
            text = text.strip(" ")
            rest = text.lstrip("0")
            return rest if rest[:1] in ("+", "-") else text

        def trim_word(text: str) -> str:
            text = text.strip(" ")
            return text.lstrip("0") or ("0" if text and kind == BOOLEAN else "")

        if pad == "0" and kind != TEXT:
            return trim_number if kind == NUMBER else trim_word
        return lambda text: strip(text, pad)

    # --- reading ------------------------------------------------------------------------------

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        if not self._in_bytes:
            return super().to_business_object(body, hint)
        data = body.encode(self.charset or DEFAULT, "surrogatepass") if isinstance(body, str) else body
        data = data.removeprefix(b"" if self.charset else codecs.BOM_UTF8).rstrip(b"\r\n")
        if not data.strip():
            raise MalformedData("the body is empty, expected the name of an object, a verb and values")
        return self.read_body(Cursor(data), hint)

    def split(self, text: str) -> str:
        return text.rstrip("\r\n")

    def take(self, cursor: Cursor, slot: Item | str) -> str:
        place = self._slots[slot]
        start, end = cursor.place, cursor.place + place.width
        if end > len(cursor.texts):
            left = max(len(cursor.texts) - start, 0)
            raise Missing(f"the body ends after {left} of {place.width} {self.unit}s, expected")
        cursor.place = end
        text = cursor.texts[start:end]
        return place.trim(self._decode(text, start) if self._in_bytes else text)

    def take_count(self, cursor: Cursor, item: Item) -> str:
        text = self.take(cursor, _COUNT).strip()
        return text if text.strip("0") else ""  # no object is as if the child were not set

    def take_run(self, cursor: Cursor, plan: Plan[Item], run: AttributeRun[Item]) -> list[str]:
        _, width = self._template(run)
        if self._in_bytes or cursor.place + width > len(cursor.texts):
            return super().take_run(cursor, plan, run)
        texts, slots, body, end = [], self._slots, cursor.texts, cursor.place
        for item in run.items:
            width, _, trim, _ = slots[item]
            start, end = end, end + width
            texts.append(trim(body[start:end]))
        cursor.place = end
        return texts

    def place_of(self, start: int, run: AttributeRun[Item], index: int) -> int:
        return start + sum(self._slots[item].width for item in run.items[:index])

    def _decode(self, text: bytes, offset: int) -> str:
        name = self.charset or DEFAULT
        try:
            return text.decode(name)
        except UnicodeDecodeError as error:
            raise MalformedData(
                f"the body is not {name}, or a field cuts a character: byte {offset + error.start}"
            ) from None
        except UnicodeError as error:
            raise MalformedData(f"byte {offset}: {error}") from None

    def check_end(self, cursor: Cursor, plan: Plan[Item]) -> None:
        if cursor.texts[cursor.place :].strip():
            super().check_end(cursor, plan)

    # --- writing ------------------------------------------------------------------------------

    def join(self, texts: list[str], bo: BusinessObject) -> str:
        text = "".join(texts)
        if text.endswith(("\r", "\n")):
            raise MalformedData(f"{bo.type}: the last value ends with a line break, which would be lost")
        return text

    def put(self, texts: list[str], slot: Item | str, text: str, place: str) -> None:
        if not isinstance(slot, str):
            texts.append(self._value(text, slot, place, is_set=True))
            return
        if self._slots[slot].trim(text) != text:
            raise MalformedData(f"{place} begins or ends with the PadCharacter, which would be lost")
        texts.append(self._field(text, slot, place))

    def put_count(self, texts: list[str], bo: BusinessObject, item: Item, count: int | None) -> None:
        place = f"{bo.type}: the number of {item.name}"
        texts.append(self._value(str(count or 0), _COUNT, place, is_set=True))

    def put_run(
        self, texts: list[str], bo: BusinessObject, run: AttributeRun[Item], values: list[str]
    ) -> None:
        if self._pad == " " and not self._in_bytes and not any(map(str.isspace, values)):
            template, width = self._template(run)
            fields = template % tuple(values)
            if len(fields) == width:  # every text fits
                texts.append(fields)
                return
        for item, text in zip(run.items, values, strict=True):
            is_set = item.name in bo
            texts.append(self._value(text, item, f"{bo.type}: {item.name}", is_set=is_set))

    def _template(self, run: AttributeRun[Item]) -> tuple[str, int]:
        """Returns what writes the fields of a run, and the width of all of them."""
        found = self._templates.get(run)
        if found is None:
            sign = "" if self._alignment == "RIGHT" else "-"
            widths = [self._slots[item].width for item in run.items]
            found = "".join(f"%{sign}{width}s" for width in widths), sum(widths)
            self._templates[run] = found
        return found

    def _value(self, text: str, slot: Item | str, place: str, *, is_set: bool) -> str:
        """Returns the field of an attribute, or of a number of objects.

        Raises:
            MalformedData: the field would be read as another value.
        """
        width, kind, trim, cuts = self._slots[slot]
        has_zeros = self._pad == "0" and kind != TEXT
        if is_set and not has_zeros and not text.strip(self._pad):
            raise MalformedData(f"{place} has only pad characters, which means not set")
        if self._pad != " " and trim(text) != text:
            raise MalformedData(f"{place} begins or ends with the PadCharacter, which would be lost")
        if len(text) > width and cuts and kind != TEXT:
            point = text.find(".")
            if kind != NUMBER or not 0 < point < width or "e" in text.lower():
                raise MalformedData(f"{place} has {len(text)} characters, and would be another value if cut")
        if not has_zeros:
            return self._field(text, slot, place)
        if len(text) > width:
            text = self._field(text, slot, place)
        if kind == NUMBER:  # a sign stands before the zeros, and nothing but blanks before a word
            return text.zfill(width) if text[-1:].isdigit() else text.rjust(width)
        return text.rjust(width, " " if kind == BOOLEAN and not text else "0")

    def _field(self, text: str, slot: Item | str, place: str) -> str:
        width, _, _, cuts = self._slots[slot]
        length = self._length(text)
        if length > width:
            if not cuts:
                raise MalformedData(f"{place} has {length} {self.unit}s, expected at most {width}")
            text = self._cut(text, width)
            length = self._length(text)
        pads = self._pad * (width - length)
        return pads + text if self._alignment == "RIGHT" else text + pads

    def _length(self, text: str) -> int:
        if not self._in_bytes:
            return len(text)
        return len(encode(f" {text}", self.charset)) - 1  # a mark at the start of a text would be doubled

    def _cut(self, text: str, width: int) -> str:
        if not self._in_bytes:
            return text[:width]
        name = self.charset or DEFAULT
        return text.encode(name)[:width].decode(name, "ignore")
