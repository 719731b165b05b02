"""Delimited text: the values of all attributes in their order (WBI Data Handler Guide, Delimited)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions, Schema
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.formats.datahandler import Option, charset
from connector.formats.notation import NOTATION_OPTIONS
from connector.formats.plan import AttributeRun, Item, Plan
from connector.formats.record_lines import LineRecordHandler, RecordPlan
from connector.formats.records import Cursor, Missing, RecordLine
from connector.text.encoding import decode

_USUAL: Final = (";", "|", "\t", ",")
"""The delimiters that an error looks for in a line without the Delimiter."""
_LINE_END: Final = re.compile(r"\r\n?|\n")


class DelimitedHandler(LineRecordHandler):
    """Values with a delimiter between them.

    ``Name~Verb~value~value~...``. All attributes stand in the order of the definition. A child is its number
    of objects, then the name, the verb and the values of each. A list of values is their number, then the
    values. Every object ends with its ObjectEventId,
    unless OmitObjectEventId is true. The outermost object may always end without one. An empty value is not
    set.
    A delimiter, a line break or an escape character within a value has the escape character before it.
    Reading needs at most 80 times the size of the body in memory, for a body of empty values.

    With ``header: none`` an object is a line of its values. With ``split`` a body holds any number of
    objects. With ``record_type`` the children of an object are the lines after it
    (:mod:`connector.formats.record_lines`).
    """

    unit = "field"
    mime_types = ("text/delimited",)
    options = (
        Option("Delimiter", str, "~", "Stands between two values. At least one character."),
        Option(
            "Escape", str, "\\", "One character before a delimiter that belongs to a value. `none`: none."
        ),
        Option("CxIgnore", str, "CxIgnore", "The text of an attribute that is not set."),
        Option("CxBlank", str, "CxBlank", "The text of a blank attribute. Empty: there is none."),
        Option("OmitObjectEventId", bool, False, "Objects do not end with their ObjectEventId."),
        Option(
            "header",
            str,
            "names",
            "`none`: values only. No object has its name, its verb and its ObjectEventId.",
            choices=("names", "none"),
        ),
        Option("split", bool, False, "Each line of a body, or each group of lines, is an object of its own."),
        Option(
            "record_type",
            dict,
            {},
            "The number of the field with the type of a line, from 1. Empty: lines have no types.",
            choices=("field",),
        ),
        Option(
            "line_end", str, "\n", "Written after each line: `\\n`, `\\r\\n` or `\\r`. Read are all three."
        ),
        Option("comment", str, "", "Lines that begin with this text are passed over. Empty: none."),
        *NOTATION_OPTIONS,
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self.has_names = self.has_verbs = options["header"] != "none"
        super().__init__(options, definitions)
        self.counts_children = self.has_names
        self.by_lines = self.splits or not self.has_names
        self._omits: bool = options["OmitObjectEventId"] or not self.has_names
        self._delimiter: str = options["Delimiter"]
        self._escape: str = "" if options["Escape"] == "none" else options["Escape"]
        if not self._delimiter or "\n" in self._delimiter or "\r" in self._delimiter:
            raise ValueError("Delimiter: expected at least one character, and no line break")
        is_one = len(self._escape) == 1 and self._escape not in self._delimiter + "\r\n"
        if options["Escape"] != "none" and not is_one:
            raise ValueError("Escape: expected one character that is not in the Delimiter, or none")
        escape, special = re.escape(self._escape), re.escape(self._delimiter + self._escape)
        self._to_escape = re.compile(f"([{special}\r\n])")
        self._escaped = re.compile(f"{escape}(.)", re.DOTALL)
        # No pattern goes back, so that time is bounded whatever the text is.
        pair = rf"|{escape}(?s:.)" if escape else ""
        self._line = re.compile(rf"((?:[^\r\n{escape}]++{pair})*+{escape and f'{escape}?'})(?:\r\n?|\n|\Z)")
        end = "|".join(filter(None, (escape, re.escape(self._delimiter))))
        self._field = re.compile(f"(?:(?!{end}).{pair})*", re.DOTALL)

    def plan(self, schema: Schema) -> RecordPlan:
        return self.record_plan(schema, self.items_of(schema, OBJECT_EVENT_ID))

    # --- lines --------------------------------------------------------------------------------

    def lines(self, body: bytes | str) -> Iterator[RecordLine]:
        number = 1
        for found in self._line.finditer(decode(body, self.charset)):
            text = found[1]
            if text and not (self.comment and text.startswith(self.comment)):
                yield RecordLine(text, number)
            number += len(_LINE_END.findall(found.group()))

    def open(self, line: RecordLine) -> tuple[str, Cursor]:
        try:
            fields = self.split(line.text)
        except MalformedData as error:
            raise MalformedData(f"line {line.number}, {error}") from None
        mark = ""
        if self.record_type:
            index = self.record_type["field"] - 1
            if index >= len(fields):
                raise MalformedData(
                    f"line {line.number}: found {len(fields)} fields, "
                    f"expected a record type in field {index + 1}"
                )
            mark = fields.pop(index)
        return mark, Cursor(fields, line)

    def line(self, texts: list[str], mark: str, bo: BusinessObject) -> str:
        if mark:
            index = self.record_type["field"] - 1
            if index > len(texts):
                raise MalformedData(
                    f"{bo.type} has {len(texts)} fields, and no field {index + 1} for the record type"
                )
            texts.insert(index, mark)
        line = self.join(texts, bo)
        if not line:
            raise MalformedData(f"{bo.type}: its record is an empty line, which cannot be read")
        return line

    def where(self, cursor: Cursor, place: int, slot: Item | str) -> str:
        line = cursor.line
        if line is None:
            return super().where(cursor, place, slot)
        if self.record_type and place >= self.record_type["field"] - 1:
            place += 1
        column, number = 0, 0
        while number < place and column < len(line.text):
            found = self._field.match(line.text, column)
            assert found is not None  # the pattern fits an empty text
            column, number = found.end() + len(self._delimiter), number + 1
        return f"line {line.number}, field {place + 1}, column {column + 1}"

    # --- fields -------------------------------------------------------------------------------

    def split(self, text: str) -> list[str]:
        """Returns the fields, without escape characters."""
        if not self._escape or self._escape not in text:
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

    def take(self, cursor: Cursor, slot: Item | str) -> str:
        if cursor.place >= len(cursor.texts):
            other = self._other_delimiter(cursor)
            raise Missing(f"the {'body' if cursor.line is None else 'line'} ends{other}, expected")
        cursor.place += 1
        text: str = cursor.texts[cursor.place - 1]
        return text

    def _other_delimiter(self, cursor: Cursor) -> str:
        """Returns the words for a usual delimiter in a line without a delimiter."""
        text = cursor.texts[0] if len(cursor.texts) == 1 else ""
        other = next((one for one in _USUAL if one in text), None)
        return "" if other is None else f" without the Delimiter {self._delimiter!r}, but it has {other!r}"

    def take_run(self, cursor: Cursor, plan: Plan[Item], run: AttributeRun[Item]) -> list[str]:
        texts: list[str] = cursor.texts[cursor.place : cursor.place + len(run.items)]
        cursor.place += len(texts)
        if len(texts) < len(run.items):
            self.need(cursor, plan, run.items[len(texts)], run.names[len(texts)])
        return texts

    def check_end(self, cursor: Cursor, plan: Plan[Item]) -> None:
        has_last_delimiter = cursor.line is not None and cursor.texts[cursor.place :] == [""]
        if not has_last_delimiter:
            super().check_end(cursor, plan)

    def read_foot(self, cursor: Cursor, plan: Plan[Item], values: dict[str, Any], depth: int) -> None:
        if not self._omits and (depth > 1 or cursor.place < len(cursor.texts)):
            event_id = self.need(cursor, plan, OBJECT_EVENT_ID, OBJECT_EVENT_ID)
            self.read_one(plan, OBJECT_EVENT_ID, event_id, cursor.place - 1, values, cursor)

    def put(self, texts: list[str], slot: Item | str, text: str, place: str) -> None:
        texts.append(text)

    def put_run(
        self, texts: list[str], bo: BusinessObject, run: AttributeRun[Item], values: list[str]
    ) -> None:
        texts += values

    def put_foot(self, texts: list[str], bo: BusinessObject, plan: Plan[Item]) -> None:
        if not self._omits:
            event_id = bo[OBJECT_EVENT_ID] if OBJECT_EVENT_ID in plan.schema.fields else None
            texts.append(event_id or "")

    def join(self, texts: list[str], bo: BusinessObject) -> str:
        if not self._escape:
            return self._plain_line(texts, bo)
        if self._to_escape.search("".join(texts)) is not None:
            texts = [self._to_escape.sub(lambda found: self._escape + found.group(), text) for text in texts]
        return self._delimiter.join(texts)

    def _plain_line(self, texts: list[str], bo: BusinessObject) -> str:
        """Returns the line of texts that no character escapes."""
        line = self._delimiter.join(texts)
        if line.split(self._delimiter) != texts or "\n" in line or "\r" in line:
            what = f"a value with the Delimiter {self._delimiter!r} or a line break"
            raise MalformedData(f"{bo.type}: found {what}, which cannot be written with Escape: none")
        return line
