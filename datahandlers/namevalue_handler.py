"""Name-value text: a line ``NAME=VALUE`` for each attribute (WBI Data Handler Guide, NameValue)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions, Field, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.businessobjects.types import SimpleValue
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint, Option, charset
from connector.formats.special_values import Misfit, Run, SpecialValues
from connector.text.encoding import decode, encode
from connector.text.names import did_you_mean, shown

_MAX_DEPTH: Final = 200
_TYPE: Final = "BusinessObject"
_VERB: Final = "Verb"
_COUNT: Final = "AttributeCount"
_END: Final = OBJECT_EVENT_ID.lower()


class NameValueHandler:
    """Lines of names and values.

    ``BusinessObject=`` and ``Verb=`` come first, then the attributes in the order of the definition. A child
    is its number of objects, ``Address=2``, and their blocks. Each block ends with ``ObjectEventId=``. A list
    of values is their number, ``Tag=2``, and a line ``Tag=VALUE`` for each. An attribute that is missing,
    empty or ``CxIgnore`` is not set. A value cannot contain a line break. Reading needs at most 80 times the
    size of the body in memory, for a body of empty lines.
    """

    mime_types = ("text/namevalue",)
    options = (
        Option("CxIgnore", str, "CxIgnore", "The text of an attribute that is not set."),
        Option("CxBlank", str, "CxBlank", "The text of a blank attribute. Empty: there is none."),
        Option("CxBlankValue", str, "", "The former name of CxBlank. Counts if it is not empty."),
        Option("SkipCxIgnore", bool, False, "Write no line for attributes that are not set."),
        Option(
            "ValidateAttrCount", bool, False, "Write and require AttributeCount, the number of attributes."
        ),
        Option(
            "DefaultVerb", str, "", "The verb if the body has none. Empty: the DefaultVerb of the connector."
        ),
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        self._special = SpecialValues(options["CxIgnore"], options["CxBlankValue"] or options["CxBlank"])
        self._skip: bool = options["SkipCxIgnore"]
        self._counts: bool = options["ValidateAttrCount"]
        self._default_verb: str = options["DefaultVerb"]
        self._charset: str = options["charset"]

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        text = decode(body, self._charset)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        while lines and not lines[-1]:
            lines.pop()
        if not lines:
            raise MalformedData("the body is empty, expected BusinessObject=NAME")
        reader = _Reader(lines, self._special, self._counts)
        bo = reader.document(self._definitions, hint)
        if hint is not None and hint.verb:
            bo.verb = hint.verb
        bo.verb = bo.verb or self._default_verb or None
        return bo

    def to_body(self, bo: BusinessObject) -> bytes:
        lines: list[str] = []
        self._write(bo, lines, 1)
        lines.append("")
        return encode("\n".join(lines), self._charset)

    def _write(self, bo: BusinessObject, lines: list[str], depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise MalformedData(f"{bo.type} is nested deeper than {_MAX_DEPTH} levels")
        lines.append(f"{_TYPE}={bo.type}")
        lines.append(f"{_VERB}={bo.verb or ''}")
        place = len(lines)
        count = 0
        for part in self._special.parts(bo.definitions.schema(bo.type)):
            if isinstance(part, Run):
                written = self._run(bo, part)
                count += len(written)
                lines += written
                continue
            value = bo[part.name]
            if value is None and self._skip:
                continue
            count += 1
            if value is None:
                lines.append(f"{part.name}={self._special.ignore}")
                continue
            children = value if part.many else [value]
            lines.append(f"{part.name}={len(children)}")
            if part.is_list:
                lines += self._list(bo, part, children)
                continue
            for child in children:
                self._write(child, lines, depth + 1)
        event_id = bo[OBJECT_EVENT_ID] if OBJECT_EVENT_ID in bo.definition.attributes else None
        if event_id is not None and not (event_id and event_id.isprintable()):
            raise MalformedData(f"{bo.type}: {OBJECT_EVENT_ID} cannot be written in a line")
        lines.append(f"{OBJECT_EVENT_ID}={event_id or ''}")
        if self._counts:
            lines.insert(place, f"{_COUNT}={count}")

    def _list(self, bo: BusinessObject, field: Field, values: list[Any]) -> list[str]:
        """Returns the lines of the values of a list."""
        texts = self._special.write_list(bo.type, field, values)
        for index, text in enumerate(texts):
            if "\n" in text or "\r" in text:
                place = f"{bo.type}: {field.name}[{index}]"
                raise MalformedData(f"{place} contains a line break, which no line can hold")
        return [f"{field.name}={text}" for text in texts]

    def _run(self, bo: BusinessObject, run: Run) -> list[str]:
        """Returns the lines of simple attributes."""
        texts = self._special.write_run(bo, run)
        joined = "".join(texts)
        if "\n" in joined or "\r" in joined:
            name = next(n for n, text in zip(run.names, texts, strict=True) if "\n" in text or "\r" in text)
            raise MalformedData(f"{bo.type}: {name} contains a line break, which no line can hold")
        lines = list(map(str.__add__, run.prefixes, texts))
        if self._skip:
            values = bo.values_of(run.names)
            return [line for line, value in zip(lines, values, strict=True) if value is not None]
        return lines


class _Reader:
    """Reads the lines of one body.

    Args:
        lines: the lines.
        special: the special values.
        counts: whether each block has the number of its attributes.
    """

    def __init__(self, lines: list[str], special: SpecialValues, counts: bool) -> None:
        self._lines = lines
        self._next = 0
        self._special = special
        self._counts = counts

    def document(self, definitions: Definitions, hint: Hint | None) -> BusinessObject:
        named = self._header(_TYPE)
        if hint is None and not named:
            raise UnknownBusinessObject("line 1: BusinessObject= names no business object, and no rule does")
        bo = self._block(definitions.schema(hint.object if hint is not None else named), 1)
        if self._next < len(self._lines):
            self._fail(self._next, f"found {shown(self._lines[self._next])} after the end of {bo.type}")
        return bo

    def _block(self, schema: Schema, depth: int) -> BusinessObject:
        """Reads a block, after its line ``BusinessObject=``."""
        if depth > _MAX_DEPTH:
            self._fail(self._next - 1, f"nested deeper than {_MAX_DEPTH} levels")
        begin = self._next
        has_verb = begin < len(self._lines) and self._lines[begin].startswith(f"{_VERB}=")
        verb = self._header(_VERB) if has_verb else ""
        expected = self._count() if self._counts else None
        values: dict[str, Any] = {}
        fields, lines = schema.fields, self._lines
        seen = self._in_order(schema, values, depth)
        while self._next < len(lines):
            name, separator, text = lines[self._next].partition("=")
            field = fields.get(name)
            if not separator:
                self._fail(self._next, f"found {shown(lines[self._next])}, expected NAME=VALUE")
            if name.lower() == _END:
                if OBJECT_EVENT_ID in fields:
                    self._special.read(fields[OBJECT_EVENT_ID], text, values)
                self._next += 1
                break
            if field is None or not field.in_body or name in seen:
                self._unknown(schema, name, field, depth)
                break
            seen.add(name)
            self._next += 1
            if field.child is not None or field.many:
                self._children(schema, field, text, values, depth)
                continue
            try:
                self._special.read(field, text, values)
            except ValueError as error:
                self._fail(self._next - 1, f"{schema.name}: {name}: {error}")
        if expected is not None and expected != len(seen):
            self._fail(begin, f"{_COUNT} is {expected}, but {schema.name} has {len(seen)} attributes here")
        bo = object_of(schema, values)
        bo.verb = verb or None
        return bo

    def _in_order(self, schema: Schema, values: dict[str, Any], depth: int) -> set[str]:
        """Reads the lines that stand in the order of the definition, up to the first other line.

        Returns:
            The names of the attributes that were read.
        """
        seen: set[str] = set()
        for part in self._special.parts(schema):
            begin = self._next
            if not isinstance(part, Run):
                if begin == len(self._lines) or not self._lines[begin].startswith(f"{part.name}="):
                    break
                seen.add(part.name)
                self._next += 1
                self._children(schema, part, self._lines[begin][len(part.name) + 1 :], values, depth)
                continue
            lines = self._lines[begin : begin + len(part.names)]
            if len(lines) < len(part.names) or not all(map(str.startswith, lines, part.prefixes)):
                break
            self._next += len(lines)
            seen.update(part.names)
            try:
                self._special.read_run(part, list(map(str.removeprefix, lines, part.prefixes)), values)
            except Misfit as misfit:
                place = f"{schema.name}: {part.names[misfit.index]}"
                self._fail(begin + misfit.index, f"{place}: {misfit}")
        return seen

    def _children(self, schema: Schema, field: Field, text: str, values: dict[str, Any], depth: int) -> None:
        try:
            count = self._special.count(field, text)
        except ValueError as error:
            self._fail(self._next - 1, f"{schema.name}: {field.name}: {error}")
        if count is None:
            return
        child = field.child
        if child is None:
            values[field.name] = self._values(schema, field, count)
            return
        children = []
        for number in range(1, count + 1):
            name = self._header(_TYPE, f" of {field.name}, {number} of {count}")
            if name != child.name:
                self._fail(self._next - 1, f"found {shown(name)}, expected the object {child.name}")
            children.append(self._block(child, depth + 1))
        if field.many:
            values[field.name] = children
        elif children:
            values[field.name] = children[0]

    def _values(self, schema: Schema, field: Field, count: int) -> list[SimpleValue]:
        """Reads the lines of the values of a list."""
        values: list[SimpleValue] = []
        for number in range(1, count + 1):
            text = self._header(field.name, f" of {schema.name}, value {number} of {count}")
            try:
                values.append(self._special.read_value(field, text))
            except ValueError as error:
                self._fail(self._next - 1, f"{schema.name}: {field.name}[{number - 1}]: {error}")
        return values

    def _header(self, key: str, what: str = "") -> str:
        """Returns the value of the line ``key=``, which has to be the next one."""
        line = self._lines[self._next] if self._next < len(self._lines) else None
        name, separator, text = (line or "").partition("=")
        if name != key or not separator:
            found = "the end of the body" if line is None else shown(line)
            self._fail(self._next, f"found {found}, expected {key}={what}")
        self._next += 1
        return text

    def _count(self) -> int:
        text = self._header(_COUNT)
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            self._fail(self._next - 1, f"{_COUNT}: found {shown(text)}, expected a number")
        return int(text)

    def _unknown(self, schema: Schema, name: str, field: Field | None, depth: int) -> None:
        """Ends a block without ``ObjectEventId=``: the line belongs to a block around it, if there is one."""
        if depth > 1:
            return
        if field is None:
            guess = did_you_mean(name, schema.fields)
            self._fail(self._next, f"{schema.name} has no attribute {shown(name)}{guess}")
        if not field.in_body:
            self._fail(
                self._next, f"{schema.name}: {name} holds a meta-object, which is never part of a body"
            )
        self._fail(self._next, f"{schema.name}: {name} stands twice")

    def _fail(self, index: int, text: str) -> NoReturn:
        raise MalformedData(f"line {index + 1}: {text}")
