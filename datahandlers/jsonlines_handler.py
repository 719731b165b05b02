"""JSON Lines (jsonlines.org) and NDJSON: each line is a business object in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.datahandlers.json_handler import JsonHandler, utf8
from connector.errors import MalformedData
from connector.formats.datahandler import Hint, Option, SplittingHandler, charset
from connector.formats.splitting import in_record, read_one, write_each
from connector.text.encoding import encode

_BYTE: Final = re.compile(r"(?<=\Athe body is not utf-8: )byte ([0-9]+), line ")
_PLACE: Final = re.compile(r"line 1( column [0-9]+)?(; the option charset .*)?\Z")
"""The place of a mistake in the JSON of a line."""


class JsonLinesHandler(SplittingHandler):
    """JSON Lines: one JSON object a line.

    Each line is what :class:`~connector.datahandlers.json_handler.JsonHandler` reads and writes, with the
    same options. Blank lines are passed over. LF ends a line, with or without a CR before it. The last line
    needs no end.

    A body holds one object, or with the option ``split`` any number. Objects are read one after the other.
    Beside the body stands the memory for one line.
    """

    mime_types = ("application/jsonl", "application/x-ndjson")
    options = (
        Option(
            "split", bool, False, "Each line of a body is an object of its own. False: a body is one line."
        ),
        Option("IgnoreUndefinedAttributes", bool, False, "Pass over keys that the definition lacks."),
        Option(
            "null",
            str,
            "ignore",
            "`value`: null is null, and is written again. `ignore`: not set.",
            choices=("ignore", "value"),
        ),
        Option(
            "write_type", bool, True, "Write the keys BusinessObject and Verb, so that no rule is needed."
        ),
        Option("schema", Path, "", "A file with the JSON Schema of each line. Empty: none."),
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self.splits: bool = options["split"]
        self._charset: str = options["charset"]
        self._json = JsonHandler({**options, "charset": "", "split": False}, definitions)

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        lines = self._lines(body)
        return read_one(self._objects(lines, hint), lines)

    def to_business_objects(self, body: bytes | str, hint: Hint | None) -> Iterator[BusinessObject]:
        return self._objects(self._lines(body), hint)

    def to_body(self, bo: BusinessObject) -> bytes:
        return self._encode(self._json.to_body(bo) + b"\n")

    def to_joint_body(self, bos: Sequence[BusinessObject]) -> bytes:
        return self._encode(b"\n".join([*write_each(bos, self._json.to_body), b""]))

    def _encode(self, body: bytes) -> bytes:
        return encode(body.decode(), self._charset) if self._charset else body

    def _lines(self, body: bytes | str) -> Iterator[JsonLine]:
        text = utf8(body, self._charset)
        return lines_of(text, len(body) - len(text) if isinstance(body, bytes) else 0)

    def _objects(self, lines: Iterator[JsonLine], hint: Hint | None) -> Iterator[BusinessObject]:
        number = 0
        for line in lines:
            number += 1
            try:
                bo = self._json.read(line.text, hint)
            except MalformedData as error:
                raise in_record(number, error, line.mistake(error)) from None
            yield bo
        if not number:
            raise MalformedData("the body is empty, expected a JSON object in a line")


def lines_of(text: bytes, skipped: int = 0) -> Iterator[JsonLine]:
    """Iterates over the lines of a text that are not blank.

    Args:
        skipped: the bytes of the body before the text.
    """
    start = number = 0
    while start < len(text):
        end = text.find(b"\n", start) + 1 or len(text)
        line, number = text[start:end], number + 1
        if line.strip(b" \t\r\n"):
            yield JsonLine(line.rstrip(b"\r\n"), number, skipped + start)
        start = end


class JsonLine(NamedTuple):
    """A line of a body.

    Args:
        text: in UTF-8, without the line end.
        number: from 1.
        offset: of its first byte in the body.
    """

    text: bytes
    number: int
    offset: int

    def mistake(self, error: MalformedData) -> str:
        """Returns a mistake in the JSON of the line, with its place in the body."""
        text = _BYTE.sub(lambda byte: f"byte {int(byte[1]) + self.offset}, line ", str(error))
        found = _PLACE.search(text)
        if found is None:
            return f"{text}: line {self.number}"
        return f"{text[: found.start()]}line {self.number}{found[1] or ''}{found[2] or ''}"
