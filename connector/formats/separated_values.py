"""Records of separated values (RFC 4180): from text to fields, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

LINE_ENDS: Final = ("\r\n", "\n", "\r")


class FieldError(ValueError):
    """A field that breaks the rules.

    Args:
        index: the number of the field in its record, from 0.
        offset: the offset of the field in the text.
    """

    def __init__(self, text: str, index: int, offset: int) -> None:
        super().__init__(text)
        self.index = index
        self.offset = offset


class SeparatedValues:
    """The characters of a format of separated values.

    A field is a text, or None if the field is not set. A field that is not set is the text ``null`` without
    quotes. With quotes around ``null`` the field is that text.

    Args:
        delimiter: the text between two fields.
        quote: the character around a field with special characters. Within the field it is doubled. Empty =
            there are no quotes, and a quote is a character like any other.
        escape: the character after it counts as itself. A quote is then written with ``escape`` before it.
            Empty = there is no such character.
        null: the text of a field that is not set.
        line_end: stands after each record that is written. A record that is read ends with any of
            :data:`LINE_ENDS`.

    Raises:
        ValueError: the characters do not go together.
    """

    def __init__(
        self, delimiter: str = ",", quote: str = '"', escape: str = "", null: str = "", line_end: str = "\r\n"
    ) -> None:
        if escape == quote:
            escape = ""  # other programs call doubled quotes so
        for name, text in (("quote", quote), ("escape", escape)):
            if len(text) > 1 or text in ("\r", "\n", "\0"):
                raise ValueError(f"{name}: found {text!r}, expected one character that ends no line")
        if not delimiter or any(one in delimiter for one in "\r\n\0"):
            raise ValueError(f"delimiter: found {delimiter!r}, expected characters that end no line")
        if any(one and one in delimiter for one in (quote, escape)):
            raise ValueError(f"found {delimiter!r} for two purposes, expected different characters")
        if line_end not in LINE_ENDS:
            raise ValueError(f"line_end: found {line_end!r}, expected \\r\\n, \\n or \\r")
        self.delimiter = delimiter
        self.quote = quote
        self.escape = escape
        self.null = null
        self.line_end = line_end
        d, q, e = (re.escape(text) for text in (delimiter, quote, escape))
        pair = rf"|{e}(?s:.)" if escape else ""
        lone = rf"(?:{e}\Z)?" if escape else ""
        # No pattern goes back, so that time and memory are bounded whatever the text is.
        segment = rf"|{q}(?:[^{q}{e}]++{pair})*+(?:{q}|(?={lone}\Z))" if quote else ""
        self.record = re.compile(rf"((?:[^{q}{e}\r\n]++{pair}{segment})*+{lone})(?:\r\n?|\n|\Z)")
        """Matches a record. Group 1 is the record without its line end. Quotes may hold line ends."""
        self.quoted = re.compile(rf"{q}((?:[^{q}{e}]++|{q}{q}{pair})*+){q}") if quote else None
        other = rf"[^{d}{q}{e}]++" if len(delimiter) == 1 else rf"(?!{d})(?:(?![{q}{e}\0])(?s:.)|\0)"
        self.unquoted = re.compile(rf"(?:{other}{pair})*+")
        self._escaped = re.compile(rf"{q}{q}{pair}" if quote else pair[1:] or r"(?!)")
        self._special = re.compile(rf"[{d}{q}{e}\r\n]")
        in_delimiter = len(delimiter) > 1 and any(one in null for one in delimiter)
        if in_delimiter or self.unquoted.fullmatch(null) is None or any(one in null for one in "\r\n\0"):
            raise ValueError(f"null: found {null!r}, expected a text that needs no quotes")

    def read(self, text: str, limit: int, start: int = 0) -> Records:
        """Returns the records of a text.

        Args:
            text: the text, which is not copied.
            limit: the most fields of a record.
            start: the offset of the first record.
        """
        return Records(self, text, limit, start)

    def plain(self, text: str) -> str:
        """Returns a field without doubled quotes and escapes."""
        return self._escaped.sub(lambda pair: pair.group()[1], text)

    def line(self, fields: Sequence[str | None]) -> str:
        """Returns a record, without its line end.

        Raises:
            FieldError: there are no quotes, and a field cannot be written without them.
        """
        null = self.null
        if not self.quote:
            return self._line_without_quotes(fields)
        line = self.delimiter.join([null if field is None else field for field in fields])
        if (
            "" not in fields
            and not (null and null in fields)
            and not self.escape
            and len(self.delimiter) == 1
            and line.count(self.delimiter) == len(fields) - 1
            and self.quote not in line
            and "\n" not in line
            and "\r" not in line
        ):
            return line
        return self.delimiter.join([null if field is None else self._field(field) for field in fields])

    def _line_without_quotes(self, fields: Sequence[str | None]) -> str:
        texts = []
        for index, field in enumerate(fields):
            text = self.null if field is None else field
            if field is not None and field == self.null:
                if not (field and self.escape):
                    found = f"the text {field!r} of a field that is not set" if field else "a blank text"
                    raise FieldError(f"found {found}, which needs quotes", index, 0)
                text = self.escape + text
            elif field is not None and self.escape:
                text = self._special.sub(lambda one: self.escape + one.group(), text)
            elif self._special.search(text) is not None and re.search(r"[\r\n]", text):
                raise FieldError("found a line break, which needs quotes", index, 0)
            texts.append(text)
        line = self.delimiter.join(texts)
        if not self.escape and line.split(self.delimiter) != texts:
            index = next((n for n, text in enumerate(texts) if self._special.search(text)), 0)
            raise FieldError(f"found the delimiter {self.delimiter!r}, which needs quotes", index, 0)
        return line

    def _field(self, text: str) -> str:
        if text not in ("", self.null) and not self._special.search(text):
            return text
        if self.escape:
            text = text.replace(self.escape, self.escape * 2)
        return f"{self.quote}{text.replace(self.quote, (self.escape or self.quote) + self.quote)}{self.quote}"


class Records:
    """Reads the records of a text one by one. Lines without a character are passed over.

    Args:
        text, limit, start: as for :meth:`SeparatedValues.read`.
    """

    def __init__(self, form: SeparatedValues, text: str, limit: int, start: int = 0) -> None:
        self.form = form
        self._text = text
        self._first = start
        self.start = start
        """The offset of the last record."""
        self.has_unset = False
        """Whether a field of the last record may be None."""
        self.limit = limit
        """The reader stops after so many fields of a record and one more."""

    def __iter__(self) -> Iterator[str]:
        """Iterates over the records, each without its line end."""
        form, text = self.form, self._text
        has_lines = not (form.escape and form.escape in text) and text.count("\r") == text.count("\r\n")
        return self._by_lines() if has_lines else self._by_matches(self._first)

    def _by_lines(self) -> Iterator[str]:
        """Iterates over the records of a text without escapes, whose lines end with CR LF or LF."""
        text, quote = self._text, self.form.quote
        start, size = self._first, len(text)
        while start < size:
            end = text.find("\n", start) + 1 or size
            line = text[start:end]
            if quote and line.count(quote) % 2:
                # The quotes hold a line end, or are wrong.
                record = next(self._by_matches(start))
                start = self.start + len(record)
                yield record
                continue
            if line[-1] == "\n":
                line = line[: -2 if line[-2:] == "\r\n" else -1]
            self.start = start
            start = end
            if line:
                yield line

    def _by_matches(self, start: int) -> Iterator[str]:
        for found in self.form.record.finditer(self._text, start):
            if found[1]:
                self.start = found.start()
                yield found[1]

    def fields(self, record: str) -> list[str | None]:
        """Returns the fields of the last record, and sets :attr:`has_unset`.

        Raises:
            FieldError: a quote is at a wrong place, or is not closed.
        """
        form = self.form
        self.has_unset = False
        if form.escape and form.escape in record:
            return self._scan(record)
        if not form.quote or form.quote not in record:
            return self._split(record)
        is_short = record.count(form.quote) <= 2 * self.limit and len(form.delimiter) == 1
        found = self._halve(record) if is_short else None
        return self._scan(record) if found is None else found

    def line_of(self, offset: int) -> int:
        """Returns the number of a line, from 1, by the offset of a character."""
        count, text = 1, self._text
        return (
            count + text.count("\n", 0, offset) + text.count("\r", 0, offset) - text.count("\r\n", 0, offset)
        )

    def offset_of(self, record: str, index: int) -> int:
        """Returns the offset of a field in the text. The last record must be right up to that field."""
        return self.start + next(start for n, (start, _) in enumerate(self._walk(record)) if n == index)

    def _split(self, text: str) -> list[str | None]:
        """Returns fields without quotes and escapes."""
        null, delimiter = self.form.null, self.form.delimiter
        fields = text.split(delimiter, self.limit)
        if not null and not all(fields):
            self.has_unset = True
            return [field or None for field in fields]
        if null and null in fields:
            self.has_unset = True
            return [None if field == null else field for field in fields]
        return fields  # type: ignore[return-value]  # a list of texts is a list of texts or None

    def _halve(self, record: str) -> list[str | None] | None:
        """Returns the fields of a record with quotes. None if quotes stand for themselves, or are wrong.

        The quotes divide the record into pieces, in turn outside and inside of quotes.
        """
        delimiter = self.form.delimiter
        pieces = record.split(self.form.quote)
        if len(pieces) % 2 == 0:
            return None
        inside: list[str | None] = pieces[1::2]  # type: ignore[assignment]
        head, *gaps, tail = pieces[::2]
        if not head and not tail and set(gaps) <= {delimiter}:
            return inside
        fields: list[str | None] = []
        if head:
            if head[-1] != delimiter:
                return None
            fields = self._split(head[:-1])
        for text, gap in zip(inside, [*gaps, tail + delimiter], strict=True):
            fields.append(text)
            if gap != delimiter:
                if len(gap) == 1 or not gap.startswith(delimiter) or not gap.endswith(delimiter):
                    return None
                fields += self._split(gap[1:-1])
            if len(fields) > self.limit:
                break
        return fields

    def _walk(self, record: str) -> Iterator[tuple[int, str | None]]:
        """Iterates over the fields of a record. Before each field stands its offset in the record.

        Raises:
            FieldError: a character stands where it may not stand.
        """
        form = self.form
        start, size, index = 0, len(record), 0
        while start <= size:
            quoted = form.quoted.match(record, start) if form.quoted is not None else None
            if quoted is not None:
                end = quoted.end()
                yield start, form.plain(quoted[1])
            else:
                unquoted = form.unquoted.match(record, start)
                assert unquoted is not None  # the pattern matches the empty text, too
                text, end = unquoted.group(), unquoted.end()
                yield start, None if text == form.null else form.plain(text)
            if end < size and not record.startswith(form.delimiter, end):
                mistake = self._mistake(record, start, end, quoted is not None)
                raise FieldError(mistake, index, self.start + start)
            start, index = end + len(form.delimiter), index + 1

    def _scan(self, record: str) -> list[str | None]:
        self.has_unset = True
        return [field for _, field in islice(self._walk(record), self.limit + 1)]

    def _mistake(self, record: str, start: int, end: int, is_quoted: bool) -> str:
        quote, escape = self.form.quote, self.form.escape
        if is_quoted:
            expected = f"{self.form.delimiter!r} or the end of the line"
            return f"found text after the closing quote, expected {expected}"
        if record[end] == escape:
            return f"found {escape!r} at the end of the body, expected a character after it"
        if start == end:
            return f"the quote {quote} is not closed"
        expected = "expected quotes around the field; or set quote: none"
        return f"found the quote {quote} within a field without quotes, {expected}"
