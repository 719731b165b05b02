"""Name-value text: a line ``NAME=VALUE`` for each attribute (WBI Data Handler Guide, NameValue)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.formats.datahandler import Hint, Option, charset
from connector.formats.plan import AttributeRun, Item, Plan
from connector.formats.records import NAME, VERB, Cursor, Missing, RecordHandler
from connector.text.names import did_you_mean, shown

_COUNT: Final = "AttributeCount"
_END: Final = OBJECT_EVENT_ID.lower()


class NameValueHandler(RecordHandler):
    """Lines of names and values.

    ``BusinessObject=`` and ``Verb=`` come first, then the attributes in the order of the definition. A child
    is its number of objects, ``Address=2``, and their blocks. Each block ends with ``ObjectEventId=``. A list
    of values is their number, ``Tag=2``, and a line ``Tag=VALUE`` for each. An attribute that is missing,
    empty or ``CxIgnore`` is not set. A value cannot contain a line break. Reading needs at most 80 times the
    size of the body in memory, for a body of empty lines.
    """

    unit = "line"
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
        blank = options["CxBlankValue"] or options["CxBlank"]
        super().__init__({**options, "CxBlank": blank}, definitions)
        self._skips: bool = options["SkipCxIgnore"]
        self._counts: bool = options["ValidateAttrCount"]
        self._default_verb: str = options["DefaultVerb"]

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        bo = super().to_business_object(body, hint)
        bo.verb = bo.verb or self._default_verb or None
        return bo

    def split(self, text: str) -> list[str]:
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text.rstrip("\n").split("\n")

    def take(self, cursor: Cursor, slot: Item | str) -> str:
        key = slot if isinstance(slot, str) else slot.name
        line = cursor.texts[cursor.place] if cursor.place < len(cursor.texts) else None
        name, separator, text = (line or "").partition("=")
        if name != key or not separator:
            found = "the end of the body" if line is None else shown(line)
            raise Missing(f"found {found}, expected {key}= with")
        cursor.place += 1
        return text

    def read_verb(self, cursor: Cursor, plan: Plan[Item]) -> str:
        return self.take(cursor, VERB) if _is_next(cursor, f"{VERB}=") else ""

    def read_attributes(self, cursor: Cursor, plan: Plan[Item], values: dict[str, Any], depth: int) -> None:
        start = cursor.place
        expected = self._count(cursor, plan) if self._counts else None
        lines = cursor.texts
        seen = self._in_order(cursor, plan, values, depth)
        while cursor.place < len(lines):
            place = cursor.place
            name, separator, text = lines[place].partition("=")
            item = plan.by_name.get(name)
            if not separator:
                self.fail(place, f"found {shown(lines[place])}, expected NAME=VALUE")
            if name.lower() == _END:
                cursor.place += 1
                self.read_one(plan, OBJECT_EVENT_ID, text, place, values)
                break
            if item is None or name in seen:
                if depth > 1:
                    break  # a block without ObjectEventId=, so the line belongs to a block around this one
                self._refuse(cursor, plan, name)
            seen.add(name)
            if item.field.child is not None or item.field.many:
                self.read_many(cursor, plan, item, values, depth)
                continue
            cursor.place += 1
            self.read_one(plan, name, text, place, values)
        if expected is not None and expected != len(seen):
            self.fail(start, f"{_COUNT} is {expected}, but {plan.name} has {len(seen)} attributes here")

    def _in_order(self, cursor: Cursor, plan: Plan[Item], values: dict[str, Any], depth: int) -> set[str]:
        """Reads the lines in the order of the definition, up to another line. Returns their names."""
        seen: set[str] = set()
        for part in plan.parts:
            if isinstance(part, AttributeRun):
                start = cursor.place
                lines = cursor.texts[start : start + len(part.names)]
                if len(lines) < len(part.names) or not all(map(str.startswith, lines, part.prefixes)):
                    break
                cursor.place += len(lines)
                seen.update(part.names)
                texts = list(map(str.removeprefix, lines, part.prefixes))
                self.read_run(plan, part, texts, start, values)
            else:
                if not _is_next(cursor, f"{part.name}="):
                    break
                seen.add(part.name)
                self.read_many(cursor, plan, part, values, depth)
        return seen

    def _count(self, cursor: Cursor, plan: Plan[Item]) -> int:
        text = self.need(cursor, plan, _COUNT, "the number of attributes")
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            self.fail(cursor.place - 1, f"{_COUNT}: found {shown(text)}, expected a number")
        return int(text)

    def _refuse(self, cursor: Cursor, plan: Plan[Item], name: str) -> NoReturn:
        if name not in plan.schema.fields:
            guess = did_you_mean(name, plan.schema.fields)
            self.fail(cursor.place, f"{plan.name} has no attribute {shown(name)}{guess}")
        reason = "stands twice" if name in plan.by_name else plan.unknown_name(name)
        self.fail(cursor.place, f"{plan.name}: {name} {reason}")

    def check_end(self, cursor: Cursor, plan: Plan[Item]) -> None:
        if cursor.place < len(cursor.texts):
            self.fail(cursor.place, f"found {shown(cursor.texts[cursor.place])} after the end of {plan.name}")

    def put(self, texts: list[str], slot: Item | str, text: str, place: str) -> None:
        if "\n" in text or "\r" in text:
            raise MalformedData(f"{place} contains a line break, which no line can hold")
        texts.append(f"{slot if isinstance(slot, str) else slot.name}={text}")

    def put_count(self, texts: list[str], bo: BusinessObject, item: Item, count: int | None) -> None:
        if count is not None or not self._skips:
            super().put_count(texts, bo, item, count)

    def put_run(
        self, texts: list[str], bo: BusinessObject, run: AttributeRun[Item], values: list[str]
    ) -> None:
        joined = "".join(values)
        if "\n" in joined or "\r" in joined:
            super().put_run(texts, bo, run, values)  # names the attribute
        lines = map(str.__add__, run.prefixes, values)
        if self._skips:
            given = zip(lines, bo.values_of(run.names), strict=True)
            texts += [line for line, value in given if value is not None]
        else:
            texts += lines

    def put_head(self, texts: list[str], bo: BusinessObject, plan: Plan[Item]) -> None:
        texts += [f"{NAME}={bo.type}", f"{VERB}={bo.verb or ''}"]
        if self._counts:
            values = bo.values_of([item.field.name for item in plan.items])
            texts.append(f"{_COUNT}={len(values) - (values.count(None) if self._skips else 0)}")

    def put_foot(self, texts: list[str], bo: BusinessObject, plan: Plan[Item]) -> None:
        event_id = bo[OBJECT_EVENT_ID] if OBJECT_EVENT_ID in plan.schema.fields else None
        if event_id is not None and not (event_id and event_id.isprintable()):
            raise MalformedData(f"{bo.type}: {OBJECT_EVENT_ID} cannot be written in a line")
        texts.append(f"{OBJECT_EVENT_ID}={event_id or ''}")

    def join(self, texts: list[str], bo: BusinessObject) -> str:
        return "\n".join([*texts, ""])


def _is_next(cursor: Cursor, prefix: str) -> bool:
    return cursor.place < len(cursor.texts) and cursor.texts[cursor.place].startswith(prefix)
