"""Drafts a business object from samples of separated values, as the data handler for CSV reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connector.authoring.drafting.draft import Draft, key
from connector.authoring.drafting.kinds import TEXT, guess_of_fields, kind_of_text
from connector.authoring.drafting.sample_files import Samples
from connector.authoring.drafting.shape import SampleCount, SampleShape, draft_shape
from connector.businessobjects.definition import Definitions
from connector.datahandlers.csv_handler import CsvHandler
from connector.errors import MalformedData
from connector.formats.columns import TYPE, VERB
from connector.formats.separated_values import FieldError, Records
from connector.text.names import shown

MAX_COLUMNS: Final = 2000
_DELIMITERS: Final = (",", ";", "\t", "|")
_BARS: Final = "||"
_NO_QUOTES: Final = "none"
_QUOTES: Final = ('"', _NO_QUOTES, "'")


def draft_csv(draft: Draft, samples: Samples) -> None:
    """Drafts from separated values. A header names the attributes.

    Raises:
        MalformedData: a body has no record, or a record with another number of values, or another header.
    """
    draft.handler = CsvHandler
    shape = SampleShape()
    first = next(samples.each(SampleCount()))
    delimiter = _delimiter_of(first.partition("\n")[0])
    quote = next((one for one in _QUOTES if _is_readable(samples, delimiter, one)), _QUOTES[0])
    handler = _handler(delimiter, quote)
    titles: list[str] = []
    for text in samples.each(shape.count):
        titles = _read_records(draft, shape, handler.records(text), titles, samples)
    if delimiter != "," and handler.records(first).form is handler.form:  # else the body names the delimiter
        draft.options["delimiter"] = delimiter
        draft.checks.append(f"the values are separated by {delimiter!r}: an option of the data handler")
    if quote == "'":
        draft.need("quote", quote, "the quotes are single")
    if quote == _NO_QUOTES:
        draft.need("quote", _NO_QUOTES, "quotes are characters like any other")
    if not samples.has_header:
        draft.need("header", False, "the first record is no header")
    draft_shape(draft, draft.top, shape, guess_of_fields)


def _delimiter_of(line: str) -> str:
    """Returns the text between the values of a header: the most frequent one. Bars may be doubled."""
    found = max(_DELIMITERS, key=line.count)
    return _BARS if found == "|" and _BARS in line and found not in line.replace(_BARS, "") else found


def _handler(delimiter: str, quote: str) -> CsvHandler:
    options = {option.name: option.default for option in CsvHandler.options}
    return CsvHandler({**options, "delimiter": delimiter, "quote": quote}, Definitions())


def _is_readable(samples: Samples, delimiter: str, quote: str) -> bool:
    """Tells whether all records have as many values as the first. Without `"` these are several."""
    handler = _handler(delimiter, quote)
    try:
        for text in samples.each(SampleCount()):
            widths = {len(record) for _, record in _records(handler.records(text))}
            if len(widths) != 1 or (quote != _QUOTES[0] and widths == {1}):
                return False
    except MalformedData:
        return False
    return True


def _records(records: Records) -> Iterator[tuple[int, list[str]]]:
    """Iterates over the records of a body: the line, and the values.

    Raises:
        MalformedData: a record breaks the rules of the format.
    """
    for record in records:
        try:
            found = records.fields(record)
        except FieldError as mistake:
            line = records.line_of(mistake.offset)
            raise MalformedData(f"value {mistake.index + 1}: {mistake}: line {line}") from None
        yield records.line_of(records.start), [value or "" for value in found]


def _read_records(
    draft: Draft, shape: SampleShape, records: Records, titles: list[str], samples: Samples
) -> list[str]:
    """Notes the values of a body. Returns the names of the columns.

    Args:
        titles: those of the first body. Empty = this is the first.
    """
    found: list[str] = []
    number = tail = 0
    for line, record in _records(records):
        if not found:
            _check_width(record, line)
            tail = _cut_tail(record) if samples.has_header else 0
            found = _columns(draft, shape, record, line, titles, samples)
            if samples.has_header:
                continue
        if len(record) != len(found) + tail:
            values = f"{len(record)} values, expected {len(found) + tail}"
            raise MalformedData(f"found {values} as in the first record: line {line}")
        if any(record[len(found) :]):
            raise MalformedData(f"found a value behind {len(found)} names of the first record: line {line}")
        number += 1
        if number == 2:
            draft.need("split", True, "the sample has several records")
        for title, value in zip(found, record, strict=False):
            if title == TYPE:
                draft.name_in_sample(value)
            elif title == VERB:
                draft.add_verb(value)
            elif (kind := kind_of_text(value)) is not None:
                shape.member(key(title)).add(kind, value)
    if not found:
        raise MalformedData("the body is empty, expected a record with the names of the attributes")
    return found


def _columns(
    draft: Draft, shape: SampleShape, record: list[str], line: int, titles: list[str], samples: Samples
) -> list[str]:
    """Returns the names of the columns, from the first record of a body. Headers may differ in their order.

    Args:
        titles: those of the first body. Empty = this is the first.
    """
    found = _titles(record, line) if samples.has_header else _numbered(record, line)
    if samples.has_header and not titles:
        _look_at_titles(draft, found)
    if sorted(found) != sorted(titles or found):
        samples.expect("the columns", ", ".join(found), ", ".join(titles))
    for title in found:
        if title not in (TYPE, VERB):
            shape.member(key(title))
    return found


def _cut_tail(record: list[str]) -> int:
    """Removes the empty values at the end of a header. Returns their number."""
    width = len(record)
    while len(record) > 1 and not record[-1].strip():
        record.pop()
    return width - len(record)


def _look_at_titles(draft: Draft, titles: list[str]) -> None:
    """Notes that names look like values."""
    value = next((one for one in titles if kind_of_text(one) not in (None, TEXT)), None)
    if value is not None:
        draft.checks.append(f"the name {shown(value)} looks like a value; for no header, give --header no")


def _numbered(record: list[str], line: int) -> list[str]:
    return [f"Column{number}" for number in range(1, len(record) + 1)]


def _check_width(record: list[str], line: int) -> None:
    if len(record) > MAX_COLUMNS:
        raise MalformedData(f"more than {MAX_COLUMNS} values in a record: line {line}")


def _titles(record: list[str], line: int) -> list[str]:
    """Returns the names in the first record. Blanks around them do not count."""
    titles: list[str] = []
    for number, title in enumerate(map(str.strip, record), 1):
        if not title:
            what = f"value {number} of the first record is empty, expected a name"
            raise MalformedData(f"{what}; if it is no header, give --header no: line {line}")
        if title in titles:
            raise MalformedData(f"the name {shown(title)} stands twice in the first record: line {line}")
        titles.append(title)
    return titles
