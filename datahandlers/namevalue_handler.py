"""Name-value text: a line ``NAME=VALUE`` for each attribute (WBI Data Handler Guide, NameValue)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NoReturn

from connector.businessobjects.definition import OBJECT_EVENT_ID, Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData
from connector.formats.datahandler import Hint, Option, SplittingHandler, charset
from connector.formats.notation import NOTATION_OPTIONS
from connector.formats.plan import AttributeRun, Item, Plan
from connector.formats.records import NAME, VERB, Cursor, Missing, RecordHandler
from connector.formats.splitting import in_record, refuse_joint_body, write_each
from connector.text.encoding import decode, encode
from connector.text.names import did_you_mean, shown

_COUNT: Final = "AttributeCount"
_END: Final = OBJECT_EVENT_ID.lower()
_BLANKS: Final = " \t"


class NameValueHandler(RecordHandler, SplittingHandler):
    """Lines of names and values.

    ``BusinessObject=`` and ``Verb=`` come first, then the attributes in the order of the definition. A child
    is its number of objects, ``Address=2``, and their blocks. Each block ends with ``ObjectEventId=``. A list
    of values is their number, ``Tag=2``, and a line ``Tag=VALUE`` for each. An attribute that is missing,
    empty or ``CxIgnore`` is not set. A value cannot contain a line break. Empty lines and comments are passed
    over. Reading needs at most 80 times the size of the body in memory, for a body of empty lines.

    With ``header: none`` no object has its name and its verb, and blanks around names and values are lost.
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
        Option(
            "header",
            str,
            "names",
            "`none`: no object has its name and its verb, and the whole object has no ObjectEventId.",
            choices=("names", "none"),
        ),
        Option("split", bool, False, "Blocks with an empty line between them are objects of their own."),
        Option("comment", str, "#", "Lines that begin with this text are passed over. Empty: none."),
        *NOTATION_OPTIONS,
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        blank = options["CxBlankValue"] or options["CxBlank"]
        self.has_names = self.has_verbs = options["header"] != "none"
        super().__init__({**options, "CxBlank": blank}, definitions)
        self._skips: bool = options["SkipCxIgnore"]
        self._counts: bool = options["ValidateAttrCount"]
        self._default_verb: str = options["DefaultVerb"]
        self.splits: bool = options["split"]
        self._comment: str = options["comment"]
        if "\n" in self._comment or "\r" in self._comment:
            raise ValueError("comment: expected a text without a line break")

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        bo = super().to_business_object(body, hint)
        bo.verb = bo.verb or self._default_verb or None
        return bo

    def to_business_objects(self, body: bytes | str, hint: Hint | None) -> Iterator[BusinessObject]:
        number = 0
        for block in self._blocks(decode(body, self.charset)):
            number += 1
            try:
                bo = self.read_body(Cursor(block), hint)
            except MalformedData as error:
                raise in_record(number, error) from None
            bo.verb = bo.verb or self._default_verb or None
            yield bo
        if not number:
            raise MalformedData("the body is empty, expected lines of names and values")

    def to_joint_body(self, bos: Sequence[BusinessObject]) -> bytes:
        if not self.splits:
            refuse_joint_body(bos, self.mime_types[0])

        def write(bo: BusinessObject) -> str:
            texts: list[str] = []
            self.write(texts, bo, 1)
            return self.join(texts, bo)

        return encode("\n".join(write_each(bos, write)), self.charset)

    def split(self, text: str) -> _Lines:
        """Returns the lines, without empty lines and comments."""
        if self.has_names and "\r" not in text and not (self._comment and self._comment in text):
            found = text.rstrip("\n").split("\n")
            if "" not in found:
                return _Lines(found, range(1, len(found) + 1))
        blocks = list(self._blocks(text))
        return _Lines(chain.from_iterable(blocks), list(chain.from_iterable(one.numbers for one in blocks)))

    def _blocks(self, text: str) -> Iterator[_Lines]:
        """Iterates over the blocks of a body. A block ends with an empty line."""
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines: list[str] = []
        numbers: list[int] = []
        for number, line in enumerate([*text.split("\n"), ""], 1):
            bare = line if self.has_names else _without_blanks(line)
            if not bare:
                if lines:
                    yield _Lines(lines, numbers)
                lines, numbers = [], []
            elif not self._comment or not bare.startswith(self._comment):
                lines.append(bare)
                numbers.append(number)

    def where(self, cursor: Cursor, place: int, slot: Item | str) -> str:
        numbers = cursor.texts.numbers
        number = numbers[place] if place < len(numbers) else (numbers[-1] if numbers else 0) + 1
        return f"line {number}"

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
        if not self.has_verbs:
            return ""
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
                self.fail(place, f"found {shown(lines[place])}, expected NAME=VALUE", cursor)
            if name.lower() == _END:
                cursor.place += 1
                self.read_one(plan, OBJECT_EVENT_ID, text, place, values, cursor)
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
            self.read_one(plan, name, text, place, values, cursor)
        if expected is not None and expected != len(seen):
            self.fail(
                start, f"{_COUNT} is {expected}, but {plan.name} has {len(seen)} attributes here", cursor
            )

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
                self.read_run(plan, part, texts, start, values, cursor)
            else:
                if not _is_next(cursor, f"{part.name}="):
                    break
                seen.add(part.name)
                self.read_many(cursor, plan, part, values, depth)
        return seen

    def _count(self, cursor: Cursor, plan: Plan[Item]) -> int:
        text = self.need(cursor, plan, _COUNT, "the number of attributes")
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            self.fail(cursor.place - 1, f"{_COUNT}: found {shown(text)}, expected a number", cursor)
        return int(text)

    def _refuse(self, cursor: Cursor, plan: Plan[Item], name: str) -> NoReturn:
        if name not in plan.schema.fields:
            guess = did_you_mean(name, plan.schema.fields)
            self.fail(cursor.place, f"{plan.name} has no attribute {shown(name)}{guess}", cursor)
        reason = "stands twice" if name in plan.by_name else plan.unknown_name(name)
        self.fail(cursor.place, f"{plan.name}: {name} {reason}", cursor)

    def check_end(self, cursor: Cursor, plan: Plan[Item]) -> None:
        if cursor.place < len(cursor.texts):
            self.fail(
                cursor.place,
                f"found {shown(cursor.texts[cursor.place])} after the end of {plan.name}",
                cursor,
            )

    def put(self, texts: list[str], slot: Item | str, text: str, place: str) -> None:
        if "\n" in text or "\r" in text:
            raise MalformedData(f"{place} contains a line break, which no line can hold")
        self._check_blanks(text, place)
        texts.append(f"{slot if isinstance(slot, str) else slot.name}={text}")

    def _check_blanks(self, text: str, place: str) -> None:
        if not self.has_names and text != text.strip(_BLANKS):
            raise MalformedData(f"{place} begins or ends with a blank, which would be lost")

    def put_count(self, texts: list[str], bo: BusinessObject, item: Item, count: int | None) -> None:
        if count is not None or not self._skips:
            super().put_count(texts, bo, item, count)

    def put_run(
        self, texts: list[str], bo: BusinessObject, run: AttributeRun[Item], values: list[str]
    ) -> None:
        joined = "".join(values)
        if "\n" in joined or "\r" in joined:
            super().put_run(texts, bo, run, values)  # names the attribute
        if not self.has_names:
            for name, text in zip(run.names, values, strict=True):
                self._check_blanks(text, f"{bo.type}: {name}")
        lines = map(str.__add__, run.prefixes, values)
        if self._skips:
            given = zip(lines, bo.values_of(run.names), strict=True)
            texts += [line for line, value in given if value is not None]
        else:
            texts += lines

    def put_head(self, texts: list[str], bo: BusinessObject, plan: Plan[Item]) -> None:
        if self.has_names:
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
        if not self.has_names:
            del texts[-1]  # the ObjectEventId of the whole object
            if not texts:
                raise MalformedData(f"{bo.type} has no line, and an empty body cannot be read")
        return "\n".join([*texts, ""])


class _Lines(list[str]):
    """Lines of a body, and the number of each in the body, from 1."""

    def __init__(self, lines: Iterable[str], numbers: Sequence[int]) -> None:
        super().__init__(lines)
        self.numbers = numbers


def _without_blanks(line: str) -> str:
    """Returns a line without the blanks around its name and its value."""
    name, separator, text = line.partition("=")
    return f"{name.strip(_BLANKS)}{separator}{text.strip(_BLANKS)}"


def _is_next(cursor: Cursor, prefix: str) -> bool:
    return cursor.place < len(cursor.texts) and cursor.texts[cursor.place].startswith(prefix)
