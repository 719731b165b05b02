"""Delimited text: the values of all attributes in their order (WBI Data Handler Guide, Delimited)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint, Option, charset
from connector.formats.plan import AttributeRun, Item, Plan, Plans
from connector.formats.records import Missing, RecordReader, RecordWriter, record_plan
from connector.formats.special_values import SpecialValues
from connector.text.encoding import decode, encode


class DelimitedHandler(DataHandler):
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
        self.special = SpecialValues.of(options)
        self.plans = Plans(definitions, record_plan)
        self.omits: bool = options["OmitObjectEventId"]
        self._delimiter: str = options["Delimiter"]
        self._escape: str = options["Escape"]
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
        return _Reader(self, self._split(text)).document(hint)

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
        writer = _Writer(self)
        writer.write_object(bo)
        texts = writer.texts
        if self._to_escape.search("".join(texts)) is not None:
            texts = [self._to_escape.sub(lambda found: self._escape + found.group(), text) for text in texts]
        return encode(self._delimiter.join(texts), self._charset)


class _Reader(RecordReader[Item]):
    """Reads the fields of one body, which are without escape characters."""

    unit = "field"

    def __init__(self, handler: DelimitedHandler, fields: list[str]) -> None:
        super().__init__(handler.plans, handler.special)
        self._fields = fields
        self._omits = handler.omits

    def take(self, slot: Item | str) -> str:
        if self.place >= len(self._fields):
            raise Missing("the body ends, expected")
        self.place += 1
        return self._fields[self.place - 1]

    def take_run(self, plan: Plan[Item], run: AttributeRun[Item]) -> list[str]:
        texts = self._fields[self.place : self.place + len(run.items)]
        self.place += len(texts)
        if len(texts) < len(run.items):
            self.need(plan, run.items[len(texts)], run.names[len(texts)])
        return texts

    def attributes(self, plan: Plan[Item], values: dict[str, Any], depth: int) -> None:
        super().attributes(plan, values, depth)
        if not self._omits and (depth > 1 or self.place < len(self._fields)):
            event_id = self.need(plan, OBJECT_EVENT_ID, OBJECT_EVENT_ID)
            if OBJECT_EVENT_ID in plan.schema.fields:
                self.special.read(plan.schema.fields[OBJECT_EVENT_ID], event_id, values)

    def end(self, plan: Plan[Item]) -> None:
        left = len(self._fields) - self.place
        if left:
            self.fail(self.place, f"found {left} more fields after the last one of {plan.name}")


class _Writer(RecordWriter[Item]):
    """Writes the fields of one body, without escape characters."""

    def __init__(self, handler: DelimitedHandler) -> None:
        super().__init__(handler.plans, handler.special)
        self._omits = handler.omits

    def put(self, slot: Item | str, text: str, place: str) -> None:
        self.texts.append(text)

    def put_run(self, bo: BusinessObject, run: AttributeRun[Item], texts: list[str]) -> None:
        self.texts += texts

    def put_foot(self, bo: BusinessObject, plan: Plan[Item]) -> None:
        if not self._omits:
            event_id = bo[OBJECT_EVENT_ID] if OBJECT_EVENT_ID in plan.schema.fields else None
            self.texts.append(event_id or "")
