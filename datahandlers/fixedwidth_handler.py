"""Fixed-width text: every value has the width of its definition (WBI Data Handler Guide, FixedWidth)."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from itertools import accumulate, pairwise
from typing import Any, Final

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions, Field, Schema
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import DECIMAL, TEXTS
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint, Option, charset
from connector.formats.plan import AttributeRun, Item, Plan, Plans, body_fields
from connector.formats.records import NAME, VERB, Missing, RecordReader, RecordWriter
from connector.formats.special_values import SpecialValues
from connector.text.encoding import DEFAULT, decode, encode

_WIDTHS: Final = {"Boolean": 5, "Integer": 11, "Float": 24, "Double": 24, "Date": 32}
"""The widths of attributes without max_length. Every value of these types fits, but for long fractions."""
COUNT: Final = "Count"
"""The number of a child's objects, or of the values of a list."""
TEXT: Final = "text"
NUMBER: Final = "number"
BOOLEAN: Final = "Boolean"
DATE: Final = "Date"
_KINDS: Final = {"Boolean": BOOLEAN, "Date": DATE, **dict.fromkeys(TEXTS, TEXT)}
_STRIPS: Final = {"LEFT": str.rstrip, "RIGHT": str.lstrip, "BOTH": str.strip}


class _Slot:
    """The place of a text in a body.

    Args:
        width: in characters or bytes.
        kind: one of the constants of this module.
        trim: removes pad characters from a text of this kind.
        cuts: whether a text that is too long is cut.
    """

    __slots__ = ("cuts", "kind", "trim", "width")

    def __init__(self, width: int, kind: str, trim: Callable[[str], str], *, cuts: bool = False) -> None:
        self.width = width
        self.kind = kind
        self.trim = trim
        self.cuts = cuts


class _Item(Item):
    """An attribute with the place of its values."""

    __slots__ = ("slot",)

    def __init__(self, field: Field, slot: _Slot) -> None:
        super().__init__(field, field.name)
        self.slot = slot


class _RunLayout:
    """The widths of the attributes of a run.

    Args:
        run: the run.
        sign: ``-`` where values stand left.
    """

    __slots__ = ("ends", "slices", "template", "trims", "width")

    def __init__(self, run: AttributeRun[_Item], sign: str) -> None:
        self.ends = list(accumulate((item.slot.width for item in run.items), initial=0))
        self.slices = [slice(*both) for both in pairwise(self.ends)]
        self.trims = [item.slot.trim for item in run.items]
        self.width = self.ends[-1]
        self.template = "".join(f"%{sign}{item.slot.width}s" for item in run.items)


class FixedWidthHandler(DataHandler):
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
        sizes = (options["BONameSize"], options["BOVerbSize"], options["BOCountSize"])
        if min(sizes) < 1:
            raise ValueError("BONameSize, BOVerbSize and BOCountSize: expected at least 1")
        self.alignment: str = options["Alignment"]
        self.pad: str = options["PadCharacter"]
        if len(self.pad) != 1 or self.pad in "\r\n":
            raise ValueError("PadCharacter: expected one character that is no line break")
        if self.pad in "123456789":
            raise ValueError("PadCharacter: expected no digit but 0, because others change numbers")
        if self.pad == "0" and self.alignment == "LEFT":
            raise ValueError(
                "PadCharacter 0 needs Alignment RIGHT or BOTH: behind a number, it changes the number"
            )
        self.charset: str = options["charset"]
        self.in_bytes = options["width"] == "bytes"
        if self.in_bytes and len(self.pad.encode(self.charset or DEFAULT)) != 1:
            raise ValueError("PadCharacter: expected a character of one byte, because widths count bytes")
        self.unit = "byte" if self.in_bytes else "character"
        self.special = SpecialValues.of(options)
        self.plans = Plans(definitions, self._plan)
        kinds = ((NAME, TEXT), (VERB, TEXT), (COUNT, NUMBER))
        self.heads = {
            name: _Slot(size, kind, self._trim(kind)) for (name, kind), size in zip(kinds, sizes, strict=True)
        }
        self._truncates: bool = options["Truncation"]
        self._without = OBJECT_EVENT_ID if options["OmitObjectEventId"] else ""
        self._layouts: dict[AttributeRun[_Item], _RunLayout] = {}

    def _plan(self, schema: Schema) -> Plan[_Item]:
        """Returns the plan of an object.

        Raises:
            MalformedData: a text has no ``max_length``.
        """
        items = []
        for field in body_fields(schema, self._without):
            attribute, width = field.attribute, 0
            if field.child is None:
                width = attribute.max_length or _WIDTHS.get(attribute.type, 0)
                if not width and attribute.digits:
                    width = attribute.digits + 2  # the sign and the point
                if not width:
                    raise MalformedData(
                        f"{schema.name}: {field.name} has no width: give max_length in its definition"
                    )
            kind = _KINDS.get(attribute.type, NUMBER)
            # A Decimal is never cut, because nothing of it is rounded.
            cuts = self._truncates and attribute.type != DECIMAL
            items.append(_Item(field, _Slot(width, kind, self._trim(kind), cuts=cuts)))
        return Plan(schema, items)

    def layout(self, run: AttributeRun[_Item]) -> _RunLayout:
        layout = self._layouts.get(run)
        if layout is None:
            layout = self._layouts[run] = _RunLayout(run, "" if self.alignment == "RIGHT" else "-")
        return layout

    def _trim(self, kind: str) -> Callable[[str], str]:
        """Returns the function that removes pad characters from a text of a kind."""
        pad, strip = self.pad, _STRIPS[self.alignment]

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

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        text: bytes | str
        if self.in_bytes:
            text = body.encode(self.charset or DEFAULT, "surrogatepass") if isinstance(body, str) else body
            text = text.removeprefix(b"" if self.charset else codecs.BOM_UTF8).rstrip(b"\r\n")
        else:
            text = decode(body, self.charset).rstrip("\r\n")
        if not text.strip():
            raise MalformedData("the body is empty, expected the name of an object, a verb and values")
        return _Reader(self, text).document(hint)

    def to_body(self, bo: BusinessObject) -> bytes:
        writer = _Writer(self)
        writer.write_object(bo)
        text = "".join(writer.texts)
        if text.endswith(("\r", "\n")):
            raise MalformedData(f"{bo.type}: the last value ends with a line break, which would be lost")
        return encode(text, self.charset)


class _Reader(RecordReader[_Item]):
    """Reads one body, which is bytes where widths count bytes."""

    def __init__(self, handler: FixedWidthHandler, body: bytes | str) -> None:
        super().__init__(handler.plans, handler.special)
        self.unit = handler.unit
        self._handler = handler
        self._body = body

    def take(self, slot: _Item | str) -> str:
        place = self._handler.heads[slot] if isinstance(slot, str) else slot.slot
        start, end = self.place, self.place + place.width
        if end > len(self._body):
            left = max(len(self._body) - start, 0)
            raise Missing(f"the body ends after {left} of {place.width} {self.unit}s, expected")
        self.place = end
        text = self._body[start:end]
        return place.trim(text if isinstance(text, str) else self._decode(text, start))

    def take_count(self, item: _Item) -> str:
        text = self.take(COUNT).strip()
        return text if text.strip("0") else ""  # no object is as if the child were not set

    def take_run(self, plan: Plan[_Item], run: AttributeRun[_Item]) -> list[str]:
        layout = self._handler.layout(run)
        start, end = self.place, self.place + layout.width
        if isinstance(self._body, bytes) or end > len(self._body):
            return super().take_run(plan, run)
        self.place = end
        texts = self._body[start:end]
        return [trim(texts[part]) for trim, part in zip(layout.trims, layout.slices, strict=True)]

    def place_of(self, start: int, run: AttributeRun[_Item], index: int) -> int:
        return start + self._handler.layout(run).ends[index]

    def _decode(self, text: bytes, offset: int) -> str:
        name = self._handler.charset or DEFAULT
        try:
            return text.decode(name)
        except UnicodeDecodeError as error:
            raise MalformedData(
                f"the body is not {name}, or a field cuts a character: byte {offset + error.start}"
            ) from None
        except UnicodeError as error:
            raise MalformedData(f"byte {offset}: {error}") from None

    def end(self, plan: Plan[_Item]) -> None:
        left = len(self._body) - self.place
        if left and self._body[self.place :].strip():
            self.fail(self.place, f"found {left} more {self.unit}s after the last field of {plan.name}")


class _Writer(RecordWriter[_Item]):
    """Writes the fields of one body."""

    def __init__(self, handler: FixedWidthHandler) -> None:
        super().__init__(handler.plans, handler.special)
        self._handler = handler
        self._pad = handler.pad
        self._in_bytes = handler.in_bytes

    def put(self, slot: _Item | str, text: str, place: str) -> None:
        if not isinstance(slot, str):
            self.texts.append(self._value(text, slot.slot, place, is_set=True))
            return
        head = self._handler.heads[slot]
        if head.trim(text) != text:
            raise MalformedData(f"{place} begins or ends with the PadCharacter, which would be lost")
        self.texts.append(self._field(text, head, place))

    def put_count(self, bo: BusinessObject, item: _Item, count: int | None) -> None:
        place = f"{bo.type}: the number of {item.name}"
        self.texts.append(self._value(str(count or 0), self._handler.heads[COUNT], place, is_set=True))

    def put_run(self, bo: BusinessObject, run: AttributeRun[_Item], texts: list[str]) -> None:
        if self._pad == " " and not self._in_bytes and not any(map(str.isspace, texts)):
            layout = self._handler.layout(run)
            fields = layout.template % tuple(texts)
            if len(fields) == layout.width:  # every text fits
                self.texts.append(fields)
                return
        for item, text in zip(run.items, texts, strict=True):
            place, is_set = f"{bo.type}: {item.field.name}", item.field.name in bo
            self.texts.append(self._value(text, item.slot, place, is_set=is_set))

    def _value(self, text: str, slot: _Slot, place: str, *, is_set: bool) -> str:
        """Returns the field of an attribute, or of a number of objects.

        Raises:
            MalformedData: the field would be read as another value.
        """
        kind, width = slot.kind, slot.width
        has_zeros = self._pad == "0" and kind != TEXT
        if is_set and not has_zeros and not text.strip(self._pad):
            raise MalformedData(f"{place} has only pad characters, which means not set")
        if self._pad != " " and slot.trim(text) != text:
            raise MalformedData(f"{place} begins or ends with the PadCharacter, which would be lost")
        if len(text) > width and slot.cuts and kind != TEXT:
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

    def _field(self, text: str, slot: _Slot, place: str) -> str:
        length = self._length(text)
        if length > slot.width:
            if not slot.cuts:
                unit = self._handler.unit
                raise MalformedData(f"{place} has {length} {unit}s, expected at most {slot.width}")
            text = self._cut(text, slot.width)
            length = self._length(text)
        pads = self._pad * (slot.width - length)
        return pads + text if self._handler.alignment == "RIGHT" else text + pads

    def _length(self, text: str) -> int:
        if not self._in_bytes:
            return len(text)
        # a mark at the start of a text would be doubled
        return len(encode(f" {text}", self._handler.charset)) - 1

    def _cut(self, text: str, width: int) -> str:
        if not self._in_bytes:
            return text[:width]
        name = self._handler.charset or DEFAULT
        return text.encode(name)[:width].decode(name, "ignore")
