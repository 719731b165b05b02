"""Fixed-width text: every value has the width of its definition (WBI Data Handler Guide, FixedWidth)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from connector.businessobjects.definition import OBJECT_EVENT_ID, Attribute, Definitions, Schema
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import DECIMAL, TEXTS
from connector.errors import MalformedData
from connector.formats.datahandler import Hint, Option, charset
from connector.formats.notation import NOTATION_OPTIONS
from connector.formats.plan import AttributeRun, Item, Plan
from connector.formats.record_lines import LineRecordHandler, RecordPlan, is_mark
from connector.formats.records import NAME, VERB, Cursor, Missing, RecordLine
from connector.text.encoding import DEFAULT, decode, encode
from connector.text.names import shown

_LINE_END: Final = re.compile(r"\r\n?|\n")
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


class FixedWidthHandler(LineRecordHandler):
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

    With ``BONameSize: 0`` a record is a line of values. With ``split`` a body holds any number of records.
    With ``record_type`` the children of an object are the lines after it
    (:mod:`connector.formats.record_lines`).
    """

    mime_types = ("text/fixedwidth",)
    options = (
        Option("BONameSize", int, 50, "The width of the name of an object. 0: no object has its name."),
        Option("BOVerbSize", int, 20, "The width of a verb. 0: no object has a verb."),
        Option(
            "BOCountSize",
            int,
            3,
            "The width of a number of children. 0: there is none, and a single child always stands there.",
        ),
        Option(
            "Alignment", str, "BOTH", "Where a value stands in its field.", choices=("BOTH", "LEFT", "RIGHT")
        ),
        Option("PadCharacter", str, " ", "Fills a field. One character."),
        Option("CxIgnore", str, "", "The text of an attribute that is not set. Empty: pad characters only."),
        Option("CxBlank", str, "CxBlank", "The text of a blank attribute. Empty: there is none."),
        Option("Truncation", bool, False, "Cut off a value that is too long, instead of an error."),
        Option("OmitObjectEventId", bool, False, "Neither write nor read an attribute ObjectEventId."),
        Option("split", bool, False, "Each line of a body, or each group of lines, is an object of its own."),
        Option(
            "record_type",
            dict,
            {},
            "The first column and the number of columns of the type of a line. Empty: lines have no types.",
            choices=("at", "length"),
        ),
        Option(
            "record_length", int, 0, "The length of each record, without line ends. 0: a record is a line."
        ),
        Option(
            "line_end", str, "\n", "Written after each line: `\\n`, `\\r\\n` or `\\r`. Read are all three."
        ),
        Option("short_lines", bool, False, "Columns that a line lacks at its end are not set."),
        Option("comment", str, "", "Lines that begin with this text are passed over. Empty: none."),
        Option("width", str, "characters", "The unit of widths.", choices=("characters", "bytes")),
        *NOTATION_OPTIONS,
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        sizes = (options["BONameSize"], options["BOVerbSize"], options["BOCountSize"])
        if min(sizes) < 0:
            raise ValueError("BONameSize, BOVerbSize and BOCountSize: expected 0 or more")
        self.has_names, self.has_verbs = sizes[0] > 0, sizes[1] > 0
        super().__init__(options, definitions)
        self.counts_children = self.counts_lists = sizes[2] > 0
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
        self._length_of_record: int = options["record_length"]
        self._may_be_short: bool = options["short_lines"]
        self.by_lines = self.splits or not self.has_names or self._length_of_record > 0
        self._check_lines()
        self._truncates: bool = options["Truncation"]
        self._without = OBJECT_EVENT_ID if options["OmitObjectEventId"] else ""
        self._slots: dict[Item | str, _Slot] = {
            name: _Slot(size, kind, self._trim(kind))
            for name, kind, size in zip((NAME, VERB, _COUNT), (TEXT, TEXT, NUMBER), sizes, strict=True)
        }
        self._templates: dict[AttributeRun[Item], tuple[str, int]] = {}

    def _check_lines(self) -> None:
        """Refuses options of lines that do not go together."""
        if self._length_of_record < 0:
            raise ValueError("record_length: expected 0 or more")
        if self.record_type and len(self.record_type) < 2:
            raise ValueError("record_type: expected both at and length")
        has_plain_ends = "\n".encode(self.charset or DEFAULT) == b"\n"
        if self._in_bytes and self.by_lines and not self._length_of_record and not has_plain_ends:
            raise ValueError("width: bytes of this charset have no lines; give a record_length")

    def plan(self, schema: Schema) -> RecordPlan:
        """Returns the plan of an object.

        Raises:
            MalformedData: a text has no ``max_length``.
        """
        items = self.items_of(schema, self._without)
        for item in items:
            attribute = item.field.attribute
            if item.field.child is not None or (self.record_type and is_mark(item)):
                continue
            width = attribute.max_length or self._width_of(attribute)
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
        return self.record_plan(schema, items)

    def _width_of(self, attribute: Attribute) -> int:
        """Returns the width of an attribute without ``max_length``. 0 = there is none."""
        if attribute.type == "Date" and (dates := self.notation.dates_of(attribute)) is not None:
            return dates.width
        width = _WIDTHS.get(attribute.type, 0)
        return max(width, self.notation.longest_word) if attribute.type == "Boolean" else width

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
        if self.by_lines or not self._in_bytes:
            return super().to_business_object(body, hint)
        data = self._bytes(body).rstrip(b"\r\n")
        if not data.strip():
            raise MalformedData("the body is empty, expected the name of an object, a verb and values")
        return self.read_body(Cursor(data), hint)

    def _bytes(self, body: bytes | str) -> bytes:
        data = body.encode(self.charset or DEFAULT, "surrogatepass") if isinstance(body, str) else body
        return data.removeprefix(b"" if self.charset else codecs.BOM_UTF8)

    def lines(self, body: bytes | str) -> Iterator[RecordLine]:
        data: Any = self._bytes(body) if self._in_bytes else decode(body, self.charset)
        size, pieces = self._length_of_record, []
        if size:
            data = data.rstrip(b"\r\n" if self._in_bytes else "\r\n") if len(data) % size else data
            pieces = [data[start : start + size] for start in range(0, len(data), size)]
        else:
            pieces = data.splitlines() if self._in_bytes else _LINE_END.split(data)
        comment = self.comment.encode(self.charset or DEFAULT) if self._in_bytes else self.comment
        for number, text in enumerate(pieces, 1):
            if not self._is_blank(text) and not (comment and text.startswith(comment)):
                yield RecordLine(text, number)

    def open(self, line: RecordLine) -> tuple[str, Cursor]:
        if not self.record_type:
            return "", Cursor(line.text, line)
        start = self.record_type["at"] - 1
        end = start + self.record_type["length"]
        mark = line.text[start:end]
        if len(mark) < end - start and not (mark and self._may_be_short):
            place = f"columns {start + 1} to {end}"
            raise MalformedData(f"line {line.number}, {place}: the line ends, expected a record type")
        text = self._decode(mark, start) if self._in_bytes else mark
        return text.rstrip(" "), Cursor(line.text[:start] + line.text[end:], line)

    def where(self, cursor: Cursor, place: int, slot: Item | str) -> str:
        line = cursor.line
        if line is None:
            return super().where(cursor, place, slot)
        width = self._slots[slot].width if slot else 1
        first, last = self._column(place), self._column(place + width - 1)
        unit = "record" if self._length_of_record else "line"
        columns = f"column {first}" if width == 1 else f"columns {first} to {last}"
        return f"{unit} {line.number}, {columns}"

    def _column(self, place: int) -> int:
        """Returns the column of a character of a line without its mark, from 1."""
        kind = self.record_type
        return place + 1 + (kind["length"] if kind and place >= kind["at"] - 1 else 0)

    def split(self, text: str) -> str:
        return text.rstrip("\r\n")

    def take(self, cursor: Cursor, slot: Item | str) -> str:
        place = self._slots[slot]
        start, end = cursor.place, cursor.place + place.width
        if end > len(cursor.texts) and not (self._may_be_short and cursor.line is not None):
            left = f"{max(len(cursor.texts) - start, 0)} of {place.width} {self.unit}s"
            if cursor.line is None:
                raise Missing(f"the body ends after {left}, expected")
            raise Missing(f"the line ends after {left}, and short_lines is not set, expected")
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
        if not self._is_blank(cursor.texts[cursor.place :]):
            super().check_end(cursor, plan)

    def _is_blank(self, text: str | bytes) -> bool:
        if isinstance(text, bytes):
            text = text.decode(self.charset or DEFAULT, "replace")
        return not text.strip()

    # --- writing ------------------------------------------------------------------------------

    def line(self, texts: list[str], mark: str, bo: BusinessObject) -> str:
        text = "".join(texts)
        if self.record_type:
            text = self._with_mark(text, mark, bo)
        if size := self._length_of_record:
            length = self._length(text)
            if length > size:
                raise MalformedData(f"{bo.type} has {length} {self.unit}s, and record_length is {size}")
            text += " " * (size - length)
        elif "\n" in text or "\r" in text:
            raise MalformedData(f"{self._broken(bo)} contains a line break, which no line can hold")
        if not text.strip():
            raise MalformedData(f"{bo.type}: its record is an empty line, which cannot be read")
        return text

    def _with_mark(self, text: str, mark: str, bo: BusinessObject) -> str:
        start, width = self.record_type["at"] - 1, self.record_type["length"]
        if self._length(mark) > width:
            raise MalformedData(f"{bo.type}: the record type {shown(mark)} is longer than {width}")
        mark += " " * (width - self._length(mark))
        if not self._in_bytes:
            if start > len(text):
                raise MalformedData(
                    f"{bo.type} has {len(text)} columns, and no column {start + 1} for its type"
                )
            return text[:start] + mark + text[start:]
        name = self.charset or DEFAULT
        data = text.encode(name)
        if start > len(data):
            raise MalformedData(f"{bo.type} has {len(data)} columns, and no column {start + 1} for its type")
        return (data[:start] + mark.encode(name) + data[start:]).decode(name)

    def _broken(self, bo: BusinessObject) -> str:
        """Returns the place of a value with a line break."""
        for item in self.plans.get(bo.type).items:
            if re.search(r"[\r\n]", str(bo.value(item.field.name) if item.field.child is None else "")):
                return f"{bo.type}: {item.name}"
        return bo.type

    def join_lines(self, lines: list[str]) -> str:
        return "".join(lines) if self._length_of_record else super().join_lines(lines)

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
            point = text.find(self.notation.decimal)
            if kind != NUMBER or not 0 < point < width or "e" in text.lower() or not text[-1:].isdigit():
                raise MalformedData(f"{place} has {len(text)} characters, and would be another value if cut")
        if not has_zeros:
            return self._field(text, slot, place)
        if len(text) > width:
            text = self._field(text, slot, place)
        if kind == NUMBER and text[-1:] == "-" and text[:1].isdigit():
            return text.rjust(width, "0")
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
