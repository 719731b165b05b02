"""Delimited text: the values of all attributes in their order (WBI Data Handler Guide, Delimited)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions, Field, Schema
from connector.businessobjects.instance import BusinessObject, object_of
from connector.businessobjects.types import SimpleValue
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.datahandler import Hint, Option, charset
from connector.formats.special_values import Misfit, Run, SpecialValues
from connector.text.encoding import decode, encode
from connector.text.names import shown

_MAX_DEPTH: Final = 200


class DelimitedHandler:
    """Values with a delimiter between them.

    ``Name~Verb~value~value~...``. All attributes stand in the order of the definition. A child is its number
    of objects, then the name, the verb and the values of each. A list of values is their number, then the
    values. Every object ends with its ObjectEventId,
    unless OmitObjectEventId is true. The outermost object may always end without one. An empty value is not
    set.
    A delimiter, a line break or an escape character within a value has the escape character before it.
    Reading needs at most 80 times the size of the body in memory, for a body of empty values.
    """

    mime_types = ("text/delimited",)
    options = (
        Option("Delimiter", str, "~", "Stands between two values. At least one character."),
        Option("Escape", str, "\\", "Stands before a delimiter that belongs to a value. One character."),
        Option("CxIgnore", str, "CxIgnore", "The text of an attribute that is not set."),
        Option("CxBlank", str, "CxBlank", "The text of a blank attribute. Empty: there is none."),
        Option("OmitObjectEventId", bool, False, "Objects do not end with their ObjectEventId."),
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self._definitions = definitions
        self._delimiter: str = options["Delimiter"]
        self._escape: str = options["Escape"]
        self._special = SpecialValues.of(options)
        self._omits: bool = options["OmitObjectEventId"]
        self._charset: str = options["charset"]
        if not self._delimiter or "\n" in self._delimiter or "\r" in self._delimiter:
            raise ValueError("Delimiter: expected at least one character, and no line break")
        if len(self._escape) != 1 or self._escape in self._delimiter or self._escape in "\r\n":
            raise ValueError("Escape: expected one character that is not in the Delimiter")
        escape, special = re.escape(self._escape), re.escape(self._delimiter + self._escape)
        self._to_escape = re.compile(f"([{special}\r\n])")
        self._escaped = re.compile(f"{escape}(.)", re.DOTALL)
        self._field = re.compile(f"(?:(?!{escape}|{re.escape(self._delimiter)}).|{escape}.)*", re.DOTALL)

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        text = decode(body, self._charset)
        if not text.strip():
            raise MalformedData("the body is empty, expected Name, Verb and the values of an object")
        fields = self._split(text)
        if hint is None and not fields[0]:
            raise UnknownBusinessObject("field 1 names no business object, and no rule does")
        schema = self._definitions.schema(hint.object if hint is not None else fields[0])
        reader = _Reader(fields, self._special, omits=self._omits)
        bo = reader.document(schema)
        if hint is not None and hint.verb:
            bo.verb = hint.verb
        return bo

    def _split(self, text: str) -> list[str]:
        """Returns the fields of a body, without escape characters."""
        if self._escape not in text:
            return text.rstrip("\r\n").split(self._delimiter)
        fields = []
        start = 0
        while True:
            found = self._field.match(text, start)
            assert found is not None  # the pattern fits an empty text
            end = found.end()
            if end == len(text):
                fields.append(self._escaped.sub(r"\1", self._without_line_end(found.group())))
                return fields
            if not text.startswith(self._delimiter, end):
                raise MalformedData(f"field {len(fields) + 1}: the body ends after an escape character")
            fields.append(self._escaped.sub(r"\1", found.group()))
            start = end + len(self._delimiter)

    def _without_line_end(self, field: str) -> str:
        """Returns the last field without the line ends that are not escaped."""
        bare = field.rstrip("\r\n")
        escapes = len(bare) - len(bare.rstrip(self._escape))
        return field[: len(bare) + escapes % 2]

    def to_body(self, bo: BusinessObject) -> bytes:
        fields: list[str] = []
        self._write(bo, fields, 1)
        return encode(self._delimiter.join(fields), self._charset)

    def _write(self, bo: BusinessObject, fields: list[str], depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise MalformedData(f"{bo.type} is nested deeper than {_MAX_DEPTH} levels")
        fields.append(bo.type)
        fields.append(bo.verb or "")
        for part in self._special.parts(bo.definitions.schema(bo.type)):
            if isinstance(part, Run):
                texts = self._special.write_run(bo, part)
                if self._to_escape.search("".join(texts)) is not None:
                    texts = [self._with_escapes(text) for text in texts]
                fields += texts
                continue
            value = bo[part.name]
            if value is None:
                fields.append(self._with_escapes(self._special.ignore))
                continue
            children = value if part.many else [value]
            fields.append(str(len(children)))
            if part.is_list:
                fields += map(self._with_escapes, self._special.write_list(bo.type, part, value))
                continue
            for child in children:
                self._write(child, fields, depth + 1)
        if not self._omits:
            event_id = bo[OBJECT_EVENT_ID] if OBJECT_EVENT_ID in bo.definition.attributes else None
            fields.append(self._with_escapes(event_id or ""))

    def _with_escapes(self, text: str) -> str:
        if self._to_escape.search(text) is None:
            return text
        return self._to_escape.sub(lambda found: self._escape + found.group(), text)


class _Reader:
    """Reads the fields of one body.

    Args:
        fields: without escape characters.
        special: the special values.
        omits: whether objects have no ObjectEventId at their end.
    """

    def __init__(self, fields: list[str], special: SpecialValues, *, omits: bool) -> None:
        self._fields = fields
        self._next = 1  # after the name
        self._special = special
        self._omits = omits

    def document(self, schema: Schema) -> BusinessObject:
        bo = self._object(schema, 1)
        left = len(self._fields) - self._next
        if left:
            self._fail(self._next, f"found {left} more fields after the last one of {schema.name}")
        return bo

    def _object(self, schema: Schema, depth: int) -> BusinessObject:
        """Reads an object, after its name."""
        if depth > _MAX_DEPTH:
            self._fail(self._next - 1, f"nested deeper than {_MAX_DEPTH} levels")
        verb = self._take("the verb", schema)
        values: dict[str, Any] = {}
        for part in self._special.parts(schema):
            if isinstance(part, Run):
                self._run(schema, part, values)
            else:
                self._children(schema, part, values, depth)
        if not self._omits and (depth > 1 or self._next < len(self._fields)):
            event_id = self._take(OBJECT_EVENT_ID, schema)
            if OBJECT_EVENT_ID in schema.fields:
                self._special.read(schema.fields[OBJECT_EVENT_ID], event_id, values)
        bo = object_of(schema, values)
        bo.verb = verb or None
        return bo

    def _run(self, schema: Schema, run: Run, values: dict[str, Any]) -> None:
        begin, end = self._next, self._next + len(run.names)
        if end > len(self._fields):
            name = run.names[len(self._fields) - begin]
            self._fail(len(self._fields), f"the body ends, expected {name} of {schema.name}")
        self._next = end
        try:
            self._special.read_run(run, self._fields[begin:end], values)
        except Misfit as misfit:
            self._fail(begin + misfit.index, f"{schema.name}: {run.names[misfit.index]}: {misfit}")

    def _children(self, schema: Schema, field: Field, values: dict[str, Any], depth: int) -> None:
        place = f"{schema.name}: {field.name}"
        text = self._take(field.name, schema)
        try:
            count = self._special.count(field, text)
        except ValueError as error:
            self._fail(self._next - 1, f"{place}: {error}")
        if count is None:
            return
        child = field.child
        if child is None:
            values[field.name] = self._values(place, field, count)
            return
        children = []
        for number in range(1, count + 1):
            name = self._take(f"{field.name}, object {number} of {count}", schema)
            if name != child.name:
                self._fail(self._next - 1, f"{place}: found {shown(name)}, expected the object {child.name}")
            children.append(self._object(child, depth + 1))
        if field.many:
            values[field.name] = children
        elif children:
            values[field.name] = children[0]

    def _values(self, place: str, field: Field, count: int) -> list[SimpleValue]:
        """Reads the values of a list."""
        begin = self._next
        texts = self._fields[begin : begin + count]
        if len(texts) < count:
            self._fail(len(self._fields), f"the body ends, expected {count} values of {field.name}")
        self._next += count
        values: list[SimpleValue] = []
        try:
            for text in texts:
                values.append(self._special.read_value(field, text))  # the error needs the place
        except ValueError as error:
            self._fail(begin + len(values), f"{place}[{len(values)}]: {error}")
        return values

    def _take(self, what: str, schema: Schema) -> str:
        if self._next >= len(self._fields):
            self._fail(self._next, f"the body ends, expected {what} of {schema.name}")
        self._next += 1
        return self._fields[self._next - 1]

    def _fail(self, index: int, text: str) -> NoReturn:
        raise MalformedData(f"field {index + 1}: {text}")
