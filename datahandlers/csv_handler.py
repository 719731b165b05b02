"""CSV (RFC 4180): a business object is a record, an attribute a column of the same name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import MalformedData, UnknownBusinessObject
from connector.formats.columns import MAX_COLUMNS, TYPE, BodyColumns, Columns
from connector.formats.datahandler import Hint, Option, SplittingHandler, charset
from connector.formats.notation import NOTATION_OPTIONS, Notation
from connector.formats.plan import Plans
from connector.formats.separated_values import FieldError, Records, SeparatedValues
from connector.formats.splitting import read_one, write_each
from connector.text.encoding import decode, encode
from connector.text.names import plain

_DELIMITER: Final = re.compile(r"sep=([^\r\n])(?:\r\n?|\n|\Z)")
"""The first line by which a spreadsheet names the delimiter."""
_USUAL: Final = (",", ";", "\t", "|")
"""The delimiters that an error looks for in a body with another one."""
_WRITTEN: Final = {"\\t": "\t", "\\r\\n": "\r\n", "\\n": "\n", "\\r": "\r"}


class CsvHandler(SplittingHandler):
    """Comma-separated values, with a header.

    The first record names the columns. An attribute is the column that the tag ``name=`` of its
    application-specific information names, else the column of its own name. An attribute of a single child
    is a column with a path, ``Address.City``. An n-cardinality child cannot be held. Columns may come in any
    order, and may be missing. They are written in the order of the definition. Delimiters at the end of the
    header do not count, and neither do those of the records.

    An empty field is not set. An empty field with quotes (``""``) is blank. A child is set if one of its
    attributes is. The columns ``BusinessObject`` and ``Verb`` name type and verb if no rule does.

    A body holds one record, or with the option ``split`` any number, each an object of its own. Records are
    read one after the other. Beside the text of the body stands the memory for one record.

    Records end with CR LF, LF or CR. Lines without a character are passed over. These are errors: quotes
    within a field without quotes, a field more or less than the header has, two columns of one name, the
    character NUL, columns that are not defined.
    """

    mime_types = ("text/csv",)
    options = (
        Option(
            "split",
            bool,
            False,
            "Each record of a body is an object of its own. False: a body is one record.",
        ),
        Option("delimiter", str, ",", "The text between fields. `\\t` is the tabulator."),
        Option("quote", str, '"', "The character around a field with special characters. `none`: no quotes."),
        Option("escape", str, "", "The character before a quote within quotes. Empty: the quote is doubled."),
        Option(
            "line_end",
            str,
            "\r\n",
            "Written after each record: `\\r\\n`, `\\n` or `\\r`. Read are all three.",
        ),
        Option(
            "header", bool, True, "The first record names the columns. False: the order of the definition."
        ),
        Option("write_header", bool, True, "Write the header. Without effect if `header` is false."),
        Option(
            "write_type", bool, False, "Write the columns BusinessObject and Verb, so that no rule is needed."
        ),
        Option("null", str, "", "The text of a field, without quotes, that is not set."),
        Option("IgnoreUndefinedAttributes", bool, False, "Pass over columns that the definition lacks."),
        *NOTATION_OPTIONS,
        Option("charset", str, "", "The character set. Empty: by the byte order mark, else UTF-8.", charset),
    )

    def __init__(self, options: Mapping[str, Any], definitions: Definitions) -> None:
        self.splits: bool = options["split"]
        self.form = SeparatedValues(
            options["delimiter"].replace("\\t", "\t"),
            _quote(options["quote"]),
            options["escape"],
            options["null"],
            _WRITTEN.get(options["line_end"], options["line_end"]),
        )
        self.has_header: bool = options["header"]
        self._write_header: bool = options["write_header"] and self.has_header
        self._write_type: bool = options["write_type"]
        if self._write_type and not self._write_header:
            raise ValueError("write_type needs a header, which names the columns BusinessObject and Verb")
        self.ignores_undefined: bool = options["IgnoreUndefinedAttributes"]
        self._charset: str = options["charset"]
        notation = Notation(options)
        self._others: dict[str, SeparatedValues] = {}
        self._columns = Plans(definitions, lambda schema: Columns(schema, notation))
        self._body_columns: dict[str, BodyColumns] = {}

    def to_business_object(self, body: bytes | str, hint: Hint | None) -> BusinessObject:
        reading = _BodyReader(self.records(body), hint, self)
        return read_one(reading.objects(), reading.rest)

    def to_business_objects(self, body: bytes | str, hint: Hint | None) -> Iterator[BusinessObject]:
        return _BodyReader(self.records(body), hint, self).objects()

    def to_body(self, bo: BusinessObject) -> bytes:
        return self._body(bo.type, [self._record(bo)], [bo])

    def to_joint_body(self, bos: Sequence[BusinessObject]) -> bytes:
        def write(bo: BusinessObject) -> str:
            if bo.type != bos[0].type:
                raise MalformedData(f"found a {bo.type}, expected a {bos[0].type}, as in the first record")
            return self._record(bo)

        records = write_each(bos, write)
        return self._body(bos[0].type, records, bos)

    def records(self, body: bytes | str) -> Records:
        """Returns the records of a body. A first line ``sep=`` names their delimiter.

        Raises:
            MalformedData: the body is not valid in the character set, or has the character NUL.
        """
        text = decode(body, self._charset)
        said = _DELIMITER.match(text)
        form = self.form if said is None else self._form_with(said[1])
        records = form.read(text, MAX_COLUMNS, 0 if said is None else said.end())
        if "\0" in text:
            line = records.line_of(text.index("\0"))
            raise MalformedData(f"found the character NUL, which CSV does not allow: line {line}")
        return records

    def _form_with(self, delimiter: str) -> SeparatedValues:
        """Returns the form of a body that names its delimiter."""
        own = self.form
        if delimiter not in self._others:
            try:
                made = SeparatedValues(delimiter, own.quote, own.escape, own.null, own.line_end)
            except ValueError as error:
                raise MalformedData(f"line 1: the delimiter of sep= cannot be used: {error}") from None
            self._others[delimiter] = made
        return self._others[delimiter]

    def columns_of_body(self, name: str, header: list[str] | None) -> BodyColumns:
        """Returns the places of the attributes of an object in a record. None = there is no header."""
        columns = self._columns.get(name)
        if header is None:
            header = columns.names
        found = self._body_columns.get(name)
        if found is None or found.header != header:
            found = self._body_columns[name] = BodyColumns(columns, header, self.ignores_undefined)
        return found

    def names_of(self, name: str) -> Set[str]:
        """Returns the columns of an object.

        Raises:
            UnknownBusinessObject: there is no such object.
        """
        return self._columns.get(name).by_name.keys()

    def _record(self, bo: BusinessObject) -> str:
        columns = self._columns.get(bo.type)
        fields = columns.texts(bo)
        if self._write_type:
            fields[:0] = columns.type_and_verb(bo)
        try:
            record = self.form.line(fields)
        except FieldError as mistake:
            names = [*(columns.type_names if self._write_type else ()), *columns.names]
            raise MalformedData(f"{bo.type}: {names[mistake.index]}: {mistake}") from None
        if not record:
            raise MalformedData(
                f"{bo.type}: its record is an empty line, which cannot be read; set the option null"
            )
        return record

    def _body(self, name: str, records: list[str], bos: Sequence[BusinessObject]) -> bytes:
        columns = self._columns.get(name)
        if self._write_header:
            names = columns.type_names + columns.names if self._write_type else columns.names
            try:
                records.insert(0, self.form.line(names))
            except FieldError as mistake:
                raise MalformedData(f"the header of {name}: {names[mistake.index]}: {mistake}") from None
        if _DELIMITER.match(records[0]):
            records[0] = self._quoted(records[0])
        text = self.form.line_end.join([*records, ""])
        try:
            if "\0" in text:
                raise MalformedData("the character NUL is not allowed in CSV")
            return encode(text, self._charset)
        except MalformedData as error:
            raise MalformedData(f"{self._place_of_character(columns, bos)}: {error}") from None

    def _quoted(self, line: str) -> str:
        """Returns a first line that would be read as the name of the delimiter, with quotes."""
        quote = self.form.quote
        if not quote:
            raise MalformedData(f"the first line would be {line!r}, which names a delimiter")
        first = line.split(self.form.delimiter)[0]
        return f"{quote}{first}{quote}{line[len(first) :]}"

    def _place_of_character(self, columns: Columns, bos: Sequence[BusinessObject]) -> str:
        """Returns the place of the first character that cannot be written."""
        for number, bo in enumerate(bos, 1):
            for name, text in zip(columns.names, columns.texts(bo), strict=True):
                if text is None or self._is_writable(text):
                    continue
                return f"record {number}: {bo.type}: {name}" if len(bos) > 1 else f"{bo.type}: {name}"
        return f"the header of {bos[0].type}"

    def _is_writable(self, text: str) -> bool:
        try:
            encode(text, self._charset)
        except MalformedData:
            return False
        return "\0" not in text


class _BodyReader:
    """Reads the records of one body."""

    def __init__(self, records: Records, hint: Hint | None, handler: CsvHandler) -> None:
        self._records = records
        self._hint = hint
        self._handler = handler
        self._number = 0
        self._header: list[str] | None = None
        self._header_line = 0
        self._tail = 0
        """The fields without a name at the end of the header. Records have them too, without a value."""
        self._first_line = ""
        self._fitting = ""
        """The last type whose columns the header was compared with."""
        self.rest = iter(records)
        """The records that are not read."""

    def objects(self) -> Iterator[BusinessObject]:
        """Iterates over the objects. The first object is checked against the header.

        Raises:
            MalformedData: also if there is no record.
        """
        if self._handler.has_header:
            self._header = self._read_header()
        hint, header, records = self._hint, self._header, self._records
        columns = None
        if hint is not None:
            columns = self._columns_of_body(hint.object)
        elif header is None or TYPE not in header:
            raise UnknownBusinessObject(f"neither a rule nor a column {TYPE} names a business object")
        names = columns.header if columns is not None else header or []
        type_index = -1 if columns is not None else names.index(TYPE)
        hint_verb = hint.verb if hint is not None else None
        records.limit = width = len(names) + self._tail
        for record in self.rest:
            self._number += 1
            try:
                fields = records.fields(record)
            except FieldError as mistake:
                raise self._error(names, mistake.index, str(mistake), mistake.offset) from None
            if len(fields) != width:
                found = len(fields) if len(fields) < width else f"more than {width}"
                line = records.line_of(records.start)
                guess = self._delimiter_of(record, lambda count: count == width)
                raise MalformedData(
                    f"record {self._number}: found {found} fields, expected {width}{guess}: line {line}"
                )
            if self._tail:
                self._drop_tail(fields, len(names), record)
            if type_index >= 0:
                columns = self._columns_of_record(fields[type_index])
            assert columns is not None
            try:
                bo = columns.object_of(fields, records.has_unset)
            except ValueError:
                index, reason = columns.misfit(records.fields(record))
                raise self._error(names, index, reason, records.offset_of(record, index)) from None
            bo.verb = hint_verb or (fields[columns.verb] if columns.verb >= 0 else None) or None
            yield bo
        if not self._number:
            found = "the body is empty" if header is None else "the body holds no record, only a header"
            raise MalformedData(f"{found}, expected a record")

    def _drop_tail(self, fields: list[str | None], width: int, record: str) -> None:
        """Removes the fields that have neither name nor value."""
        while len(fields) > width:
            if fields.pop():
                place = self._records.offset_of(record, len(fields))
                raise self._error([], len(fields), "found a value, and the header has no name for it", place)

    def _read_header(self) -> list[str]:
        record = next(self.rest, None)
        if record is None:
            raise MalformedData("the body is empty, expected a header and a record")
        try:
            fields = self._records.fields(record)
        except FieldError as mistake:
            line = self._records.line_of(mistake.offset)
            reason = f"{mistake}{self._delimiter_of(record, bool)}"
            raise MalformedData(f"the header: field {mistake.index + 1}: {reason}: line {line}") from None
        self._header_line = self._records.line_of(self._records.start)
        if len(fields) > MAX_COLUMNS:
            raise MalformedData(f"the header: found more than {MAX_COLUMNS} fields: line {self._header_line}")
        null = self._handler.form.null
        self._first_line = record
        header = [null if field is None else field.strip() for field in fields]
        while len(header) > 1 and not header[-1] and not self._handler.ignores_undefined:
            header.pop()
            self._tail += 1
        return header

    def _delimiter_of(self, record: str, fits: Callable[[int], bool], known: Iterable[str] = ()) -> str:
        """Returns the words for a delimiter by which a record would be right. Empty = there is none.

        Args:
            fits: whether a record may have so many fields.
            known: names that a header has. Empty = the record is no header.
        """
        form = self._records.form
        for other in _USUAL:
            names = [part.strip().strip(form.quote or None) for part in record.split(other)]
            is_known = not known or any(name in known for name in names)
            if other != form.delimiter and len(names) > 1 and fits(len(names)) and is_known:
                return f"; the delimiter seems to be {other!r}, so set the option delimiter"
        return ""

    def _columns_of_body(self, name: str) -> BodyColumns:
        if self._header is not None and name != self._fitting:
            known = self._handler.names_of(name)
            guess = "" if known & set(self._header) else self._delimiter_of(self._first_line, bool, known)
            if guess:
                reason = f"the header names no attribute of {name}{guess}"
                raise MalformedData(f"{reason}: line {self._header_line}")
            self._fitting = name
        try:
            return self._handler.columns_of_body(name, self._header)
        except UnknownBusinessObject:
            raise
        except MalformedData as error:
            place = f": line {self._header_line}" if self._header is not None else ""
            raise MalformedData(f"{error}{place}") from None

    def _columns_of_record(self, name: str | None) -> BodyColumns:
        """Returns the columns for the type that a record names."""
        try:
            if not name:
                raise UnknownBusinessObject(f"neither a rule nor the column {TYPE} names a business object")
            return self._columns_of_body(name)
        except UnknownBusinessObject as error:
            line = self._records.line_of(self._records.start)
            raise UnknownBusinessObject(f"record {self._number}: {error}: line {line}") from None

    def _error(self, names: list[str], index: int, reason: str, offset: int) -> MalformedData:
        column = f"column {index + 1}" + (f" ({plain(names[index])})" if index < len(names) else "")
        line = self._records.line_of(offset)
        return MalformedData(f"record {self._number}: {column}: {reason}: line {line}")


def _quote(text: str) -> str:
    """Returns the quote that an option means."""
    if not text:
        raise ValueError("quote: found an empty text, expected one character, or none")
    return "" if text == "none" else text
