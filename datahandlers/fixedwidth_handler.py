"""Fixed-width text: every value has the width of its definition (WBI Data Handler Guide, FixedWidth)."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any, Final, NoReturn

from connector.businessobjects.definition import Definitions, Field, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.businessobjects.types import DECIMAL, TEXTS, SimpleValue
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint, Option, charset
from connector.formats.special_values import Misfit, Run, SpecialValues
from connector.text.encoding import DEFAULT, decode, encode
from connector.text.names import shown

_MAX_DEPTH: Final = 200
_WIDTHS: Final = {"Boolean": 5, "Integer": 11, "Float": 24, "Double": 24, "Date": 32}
"""The widths of attributes without max_length. Every value of these types fits, but for long fractions."""
TEXT: Final = "text"
NUMBER: Final = "number"
BOOLEAN: Final = "Boolean"
DATE: Final = "Date"
_KINDS: Final = {"Boolean": BOOLEAN, "Date": DATE, **dict.fromkeys(TEXTS, TEXT)}


def kind_of(field: Field) -> str:
    """Returns what the value of an attribute of a simple type is. A type of numbers is :data:`NUMBER`."""
    return _KINDS.get(field.attribute.type, NUMBER)


class FixedWidthHandler:
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
        self._definitions = definitions
        self._sizes = (options["BONameSize"], options["BOVerbSize"], options["BOCountSize"])
        if min(self._sizes) < 1:
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
        self._special = SpecialValues.of(options)
        self._truncates: bool = options["Truncation"]
        self._omits: bool = options["OmitObjectEventId"]
        self._charset: str = options["charset"]
        self._in_bytes = options["width"] == "bytes"
        self._layouts: dict[Schema, list[tuple[Run | Field, list[int]]]] = {}
        self._justify = str.rjust if self._alignment == "RIGHT" else str.ljust
        if self._in_bytes and len(self._pad.encode(self._charset or DEFAULT)) != 1:
            raise ValueError("PadCharacter: expected a character of one byte, because widths count bytes")

    def layout(self, schema: Schema) -> list[tuple[Run | Field, list[int]]]:
        """Returns the attributes of an object with their widths.

        A child has the width of its number of objects. A list has that width and the width of a value.

        Raises:
            MalformedData: a text has no ``max_length``.
        """
        layout = self._layouts.get(schema)
        if layout is None:
            layout = []
            for part in self._special.parts(schema, event_id=not self._omits):
                if isinstance(part, Run):
                    layout.append((part, [self._width(schema, field) for field in part.fields]))
                elif part.is_list:
                    layout.append((part, [self._sizes[2], self._width(schema, part)]))
                else:
                    layout.append((part, [self._sizes[2]]))
            self._layouts[schema] = layout
        return layout

    def _width(self, schema: Schema, field: Field) -> int:
        attribute = field.attribute
        width = attribute.max_length or _WIDTHS.get(attribute.type, 0)
        if not width and attribute.digits:
            width = attribute.digits + 2  # the sign and the point
        if not width:
            raise MalformedData(
                f"{schema.name}: {field.name} has no width: give max_length in its definition"
            )
        return width

    # --- reading ------------------------------------------------------------------------------

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        text: bytes | str
        if self._in_bytes:
            text = body.encode(self._charset or DEFAULT, "surrogatepass") if isinstance(body, str) else body
            text = text.removeprefix(b"" if self._charset else codecs.BOM_UTF8).rstrip(b"\r\n")
        else:
            text = decode(body, self._charset).rstrip("\r\n")
        if not text.strip():
            raise MalformedData("the body is empty, expected the name of an object, a verb and values")
        reader = _Reader(self, text)
        name = reader.take(self._sizes[0], "the name of the object")
        if hint is None and not name:
            raise UnknownBusinessObject(f"{reader.unit} 1 names no business object, and no rule does")
        bo = reader.read(self._definitions.schema(hint.object if hint is not None else name), 1)
        reader.end(bo.type)
        if hint is not None and hint.verb:
            bo.verb = hint.verb
        return bo

    def trimmed(self, text: str, kind: str = TEXT) -> str:
        """Returns the value in a field of the body. ``kind`` is one of the constants of this module."""
        if self._pad == "0" and kind != TEXT:
            text = text.strip(" ")
            rest = text.lstrip("0")
            if kind == NUMBER:  # zeros before digits do not change the number, but a sign has to be the first
                return rest if rest[:1] in ("+", "-") else text
            return rest or ("0" if text and kind == BOOLEAN else "")
        if self._alignment == "LEFT":
            return text.rstrip(self._pad)
        if self._alignment == "RIGHT":
            return text.lstrip(self._pad)
        return text.strip(self._pad)

    def decoded(self, text: bytes, offset: int) -> str:
        """Returns the text of a field whose width counts bytes.

        Raises:
            MalformedData: the bytes are not valid. The text names the byte.
        """
        try:
            return text.decode(self._charset or DEFAULT)
        except UnicodeDecodeError as error:
            name = self._charset or DEFAULT
            raise MalformedData(
                f"the body is not {name}, or a field cuts a character: byte {offset + error.start}"
            ) from None
        except UnicodeError as error:
            raise MalformedData(f"byte {offset}: {error}") from None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The widths of names, verbs and numbers of children."""
        return self._sizes

    @property
    def has_zeros(self) -> bool:
        """Whether fields are filled with zeros."""
        return self._pad == "0"

    @property
    def special(self) -> SpecialValues:
        return self._special

    # --- writing ------------------------------------------------------------------------------

    def to_body(self, bo: BusinessObject) -> bytes:
        parts: list[str] = []
        self._write(bo, parts, 1)
        text = "".join(parts)
        if text.endswith(("\r", "\n")):
            raise MalformedData(f"{bo.type}: the last value ends with a line break, which would be lost")
        return encode(text, self._charset)

    def _write(self, bo: BusinessObject, parts: list[str], depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise MalformedData(f"{bo.type} is nested deeper than {_MAX_DEPTH} levels")
        place = f"{bo.type}: "
        for text, size, what in ((bo.type, self._sizes[0], "name"), (bo.verb or "", self._sizes[1], "verb")):
            if self.trimmed(text) != text:
                raise MalformedData(
                    f"{place}its {what} begins or ends with the PadCharacter, which would be lost"
                )
            parts.append(self._field(text, size, f"{place}its {what}"))
        for part, widths in self.layout(bo.definitions.schema(bo.type)):
            if isinstance(part, Run):
                self._write_run(bo, part, widths, parts)
                continue
            value = bo[part.name]
            children = value if part.many else [value]
            children = children if value is not None else []
            what = f"{place}the number of {part.name}"
            parts.append(self._value(str(len(children)), widths[0], what, NUMBER, is_set=True, cut=False))
            if part.is_list:
                self._write_list(bo, part, children, widths[1], parts)
                continue
            for child in children:
                self._write(child, parts, depth + 1)

    def _write_list(
        self, bo: BusinessObject, field: Field, values: list[Any], width: int, parts: list[str]
    ) -> None:
        for index, text in enumerate(self._special.write_list(bo.type, field, values)):
            place = f"{bo.type}: {field.name}[{index}]"
            parts.append(self._value(text, width, place, kind_of(field), is_set=True, cut=self._cuts(field)))

    def _write_run(self, bo: BusinessObject, run: Run, widths: list[int], parts: list[str]) -> None:
        is_plain = self._pad == " " and not self._in_bytes
        for field, text, width in zip(run.fields, self._special.write_run(bo, run), widths, strict=True):
            if is_plain and text and text.strip(" ") and len(text) <= width:
                parts.append(self._justify(text, width))
            else:
                place = f"{bo.type}: {field.name}"
                is_set, cut = field.name in bo, self._cuts(field)
                parts.append(self._value(text, width, place, kind_of(field), is_set=is_set, cut=cut))

    def _value(self, text: str, width: int, place: str, kind: str, *, is_set: bool, cut: bool) -> str:
        """Returns the field of an attribute, or of a number of objects.

        Raises:
            MalformedData: the field would be read as another value.
        """
        has_zeros = self._pad == "0" and kind != TEXT
        if is_set and not has_zeros and not text.strip(self._pad):
            raise MalformedData(f"{place} has only pad characters, which means not set")
        if self._pad != " " and self.trimmed(text, kind) != text:
            raise MalformedData(f"{place} begins or ends with the PadCharacter, which would be lost")
        if len(text) > width and cut and kind != TEXT:
            point = text.find(".")
            if kind != NUMBER or not 0 < point < width or "e" in text.lower():
                raise MalformedData(f"{place} has {len(text)} characters, and would be another value if cut")
        if not has_zeros:
            return self._field(text, width, place, cut=cut)
        if len(text) > width:
            text = self._field(text, width, place, cut=cut)
        if kind == NUMBER:  # a sign stands before the zeros, and nothing but blanks before a word
            return text.zfill(width) if text[-1:].isdigit() else text.rjust(width)
        return text.rjust(width, " " if kind == BOOLEAN and not text else "0")

    def _field(self, text: str, width: int, what: str, *, cut: bool = False) -> str:
        length = self._length(text)
        if length > width:
            if not cut:
                raise MalformedData(f"{what} has {length} {self._unit}s, expected at most {width}")
            text = self._cut(text, width)
            length = self._length(text)
        pads = self._pad * (width - length)
        return pads + text if self._alignment == "RIGHT" else text + pads

    def _length(self, text: str) -> int:
        if not self._in_bytes:
            return len(text)
        return len(encode(f" {text}", self._charset)) - 1  # a mark at the begin of a text would be doubled

    def _cuts(self, field: Field) -> bool:
        """Whether a text that is too long is cut. A Decimal never is, because nothing of it is rounded."""
        return self._truncates and field.attribute.type != DECIMAL

    def _cut(self, text: str, width: int) -> str:
        if not self._in_bytes:
            return text[:width]
        name = self._charset or DEFAULT
        return text.encode(name)[:width].decode(name, "ignore")

    @property
    def _unit(self) -> str:
        return "byte" if self._in_bytes else "character"


class _Reader:
    """Reads one body from its begin to its end.

    Args:
        handler: gives widths and special values.
        text: bytes where widths count bytes.
    """

    def __init__(self, handler: FixedWidthHandler, text: bytes | str) -> None:
        self._handler = handler
        self._text = text
        self._next = 0
        self.unit = "byte" if isinstance(text, bytes) else "character"

    def take(self, width: int, what: str, kind: str = TEXT) -> str:
        """Returns the value of the next field."""
        start, end = self._next, self._next + width
        if end > len(self._text):
            left = max(len(self._text) - start, 0)
            self._fail(start, f"the body ends after {left} {self.unit}s of {what}, expected {width}")
        self._next = end
        part = self._text[start:end]
        text = part if isinstance(part, str) else self._handler.decoded(part, start)
        return self._handler.trimmed(text, kind)

    def read(self, schema: Schema, depth: int) -> BusinessObject:
        """Reads an object, after its name."""
        if depth > _MAX_DEPTH:
            self._fail(self._next, f"nested deeper than {_MAX_DEPTH} levels")
        _, verb_size, _ = self._handler.sizes
        verb = self.take(verb_size, f"the verb of {schema.name}")
        values: dict[str, Any] = {}
        for part, widths in self._handler.layout(schema):
            start = self._next
            if not isinstance(part, Run):
                what = f"{schema.name}: {part.name}"
                count = self._count(part, self.take(widths[0], what, NUMBER), what, start)
                if count:
                    values[part.name] = (
                        self._values(part, count, widths[1], what)
                        if part.is_list
                        else self._children(part, count, what, depth)
                    )
                continue
            try:
                self._handler.special.read_run(part, self._texts(schema, part, widths), values)
            except Misfit as misfit:
                place = start + sum(widths[: misfit.index])
                self._fail(place, f"{schema.name}: {part.names[misfit.index]}: {misfit}")
        bo = object_of(schema, values)
        bo.verb = verb or None
        return bo

    def _texts(self, schema: Schema, run: Run, widths: list[int]) -> list[str]:
        """Returns the values of the next fields."""
        text, ends = self._text, list(accumulate(widths, initial=self._next))
        trimmed = self._handler.trimmed
        if isinstance(text, str) and ends[-1] <= len(text):
            self._next = ends[-1]
            if not self._handler.has_zeros:
                return [trimmed(text[start:end]) for start, end in pairwise(ends)]
            places = zip(run.fields, pairwise(ends), strict=True)
            return [trimmed(text[start:end], kind_of(field)) for field, (start, end) in places]
        fields = zip(run.fields, widths, strict=True)
        return [self.take(width, f"{schema.name}: {field.name}", kind_of(field)) for field, width in fields]

    def _count(self, field: Field, text: str, what: str, start: int) -> int | None:
        try:
            return self._handler.special.count(field, text.strip())
        except ValueError as error:
            self._fail(start, f"{what}: {error}")

    def _children(
        self, field: Field, count: int, what: str, depth: int
    ) -> BusinessObject | list[BusinessObject]:
        child = field.child
        assert child is not None
        children = []
        for number in range(1, count + 1):
            place = self._next
            name = self.take(self._handler.sizes[0], f"{what}, the name of object {number} of {count}")
            if name != child.name:
                self._fail(place, f"{what}: found {shown(name)}, expected the object {child.name}")
            children.append(self.read(child, depth + 1))
        return children if field.many else children[0]

    def _values(self, field: Field, count: int, width: int, what: str) -> list[SimpleValue]:
        """Reads the values of a list."""
        values: list[SimpleValue] = []
        for index in range(count):
            start = self._next
            text = self.take(width, f"{what}[{index}]", kind_of(field))
            try:
                values.append(self._handler.special.read_value(field, text))
            except ValueError as error:
                self._fail(start, f"{what}[{index}]: {error}")
        return values

    def end(self, name: str) -> None:
        """Checks that the body ends here."""
        left = len(self._text) - self._next
        if left and self._text[self._next :].strip():
            self._fail(self._next, f"found {left} more {self.unit}s after the last field of {name}")

    def _fail(self, offset: int, text: str) -> NoReturn:
        raise MalformedData(f"{self.unit} {offset + 1}: {text}")
