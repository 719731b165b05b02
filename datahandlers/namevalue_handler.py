"""Name-value text: a line ``NAME=VALUE`` for each attribute (WBI Data Handler Guide, NameValue)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.formats.datahandler import DataHandler, Hint, Option, charset
from connector.formats.plan import AttributeRun, Item, Plan, Plans
from connector.formats.records import NAME, VERB, Missing, RecordReader, RecordWriter, record_plan
from connector.formats.special_values import SpecialValues
from connector.text.encoding import decode, encode
from connector.text.names import did_you_mean, shown

_COUNT: Final = "AttributeCount"
_END: Final = OBJECT_EVENT_ID.lower()


class NameValueHandler(DataHandler):
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
        self.special = SpecialValues(options["CxIgnore"], options["CxBlankValue"] or options["CxBlank"])
        self.plans = Plans(definitions, record_plan)
        self.skips: bool = options["SkipCxIgnore"]
        self.counts: bool = options["ValidateAttrCount"]
        self._default_verb: str = options["DefaultVerb"]
        self._charset: str = options["charset"]

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        text = decode(body, self._charset)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").split("\n")
        if lines == [""]:
            raise MalformedData("the body is empty, expected BusinessObject=NAME")
        bo = _Reader(self, lines).document(hint)
        bo.verb = bo.verb or self._default_verb or None
        return bo

    def to_body(self, bo: BusinessObject) -> bytes:
        writer = _Writer(self)
        writer.write_object(bo)
        return encode("\n".join([*writer.texts, ""]), self._charset)


class _Reader(RecordReader[Item]):
    """Reads the lines of one body."""

    unit = "line"

    def __init__(self, handler: NameValueHandler, lines: list[str]) -> None:
        super().__init__(handler.plans, handler.special)
        self._lines = lines
        self._counts = handler.counts

    def take(self, slot: Item | str) -> str:
        key = slot if isinstance(slot, str) else slot.name
        line = self._lines[self.place] if self.place < len(self._lines) else None
        name, separator, text = (line or "").partition("=")
        if name != key or not separator:
            found = "the end of the body" if line is None else shown(line)
            raise Missing(f"found {found}, expected {key}= with")
        self.place += 1
        return text

    def verb(self, plan: Plan[Item]) -> str:
        return self.take(VERB) if self._is_next(f"{VERB}=") else ""

    def _is_next(self, prefix: str) -> bool:
        return self.place < len(self._lines) and self._lines[self.place].startswith(prefix)

    def attributes(self, plan: Plan[Item], values: dict[str, Any], depth: int) -> None:
        start = self.place
        expected = self._count(plan) if self._counts else None
        fields, lines = plan.schema.fields, self._lines
        seen = self._in_order(plan, values, depth)
        while self.place < len(lines):
            place = self.place
            name, separator, text = lines[place].partition("=")
            item = plan.by_name.get(name)
            if not separator:
                self.fail(place, f"found {shown(lines[place])}, expected NAME=VALUE")
            if name.lower() == _END:
                if OBJECT_EVENT_ID in fields:
                    self.special.read(fields[OBJECT_EVENT_ID], text, values)
                self.place += 1
                break
            if item is None or name in seen:
                if depth > 1:
                    break  # a block without ObjectEventId=, so the line belongs to a block around this one
                self._refuse(plan, name)
            seen.add(name)
            if item.field.child is not None or item.field.many:
                self.many(plan, item, values, depth)
                continue
            self.place += 1
            try:
                self.special.read(item.field, text, values)
            except ValueError as error:
                self.fail(place, f"{plan.name}: {name}: {error}")
        if expected is not None and expected != len(seen):
            self.fail(start, f"{_COUNT} is {expected}, but {plan.name} has {len(seen)} attributes here")

    def _in_order(self, plan: Plan[Item], values: dict[str, Any], depth: int) -> set[str]:
        """Reads the lines that stand in the order of the definition, up to the first other line.

        Returns:
            The names of the attributes that were read.
        """
        seen: set[str] = set()
        for part in plan.parts:
            if isinstance(part, AttributeRun):
                start = self.place
                lines = self._lines[start : start + len(part.names)]
                if len(lines) < len(part.names) or not all(map(str.startswith, lines, part.prefixes)):
                    break
                self.place += len(lines)
                seen.update(part.names)
                texts = list(map(str.removeprefix, lines, part.prefixes))
                self.set_run(plan, part, texts, start, values)
            else:
                if not self._is_next(f"{part.name}="):
                    break
                seen.add(part.name)
                self.many(plan, part, values, depth)
        return seen

    def _count(self, plan: Plan[Item]) -> int:
        text = self.need(plan, _COUNT, "the number of attributes")
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            self.fail(self.place - 1, f"{_COUNT}: found {shown(text)}, expected a number")
        return int(text)

    def _refuse(self, plan: Plan[Item], name: str) -> NoReturn:
        if name not in plan.schema.fields:
            guess = did_you_mean(name, plan.by_name)
            self.fail(self.place, f"{plan.name} has no attribute {shown(name)}{guess}")
        reason = "stands twice" if name in plan.by_name else plan.undefined(name)
        self.fail(self.place, f"{plan.name}: {name} {reason}")

    def end(self, plan: Plan[Item]) -> None:
        if self.place < len(self._lines):
            self.fail(self.place, f"found {shown(self._lines[self.place])} after the end of {plan.name}")


class _Writer(RecordWriter[Item]):
    """Writes the lines of one body."""

    def __init__(self, handler: NameValueHandler) -> None:
        super().__init__(handler.plans, handler.special)
        self._skips = handler.skips
        self._counts = handler.counts

    def put(self, slot: Item | str, text: str, place: str) -> None:
        if "\n" in text or "\r" in text:
            raise MalformedData(f"{place} contains a line break, which no line can hold")
        self.texts.append(f"{slot if isinstance(slot, str) else slot.name}={text}")

    def put_count(self, bo: BusinessObject, item: Item, count: int | None) -> None:
        if count is not None or not self._skips:
            super().put_count(bo, item, count)

    def put_run(self, bo: BusinessObject, run: AttributeRun[Item], texts: list[str]) -> None:
        joined = "".join(texts)
        if "\n" in joined or "\r" in joined:
            super().put_run(bo, run, texts)  # names the attribute
        lines = list(map(str.__add__, run.prefixes, texts))
        if self._skips:
            values = bo.values_of(run.names)
            lines = [line for line, value in zip(lines, values, strict=True) if value is not None]
        self.texts += lines

    def put_head(self, bo: BusinessObject, plan: Plan[Item]) -> None:
        self.texts += [f"{NAME}={bo.type}", f"{VERB}={bo.verb or ''}"]
        if self._counts:
            values = bo.values_of([item.field.name for item in plan.items])
            self.put(_COUNT, str(len(values) - (values.count(None) if self._skips else 0)), bo.type)

    def put_foot(self, bo: BusinessObject, plan: Plan[Item]) -> None:
        event_id = bo[OBJECT_EVENT_ID] if OBJECT_EVENT_ID in plan.schema.fields else None
        if event_id is not None and not (event_id and event_id.isprintable()):
            raise MalformedData(f"{bo.type}: {OBJECT_EVENT_ID} cannot be written in a line")
        self.texts.append(f"{OBJECT_EVENT_ID}={event_id or ''}")
