"""Records of separated values, beside a reader that goes from character to character."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connector.formats.separated_values import FieldError, SeparatedValues
from tests.tables import rows

FORMS = (
    SeparatedValues(),
    SeparatedValues(";", "'", null="NULL", line_end="\n"),
    SeparatedValues("\t", escape="\\", null="\\N"),
    SeparatedValues("|", "^", escape="^", line_end="\r"),
    SeparatedValues("]", "-", escape="^"),  # characters with a meaning in patterns
    SeparatedValues("||", "'", null="NULL"),
    SeparatedValues("]|", "^", escape="-"),
    SeparatedValues(";", ""),
    SeparatedValues("a|", "", null="NULL"),
    SeparatedValues("|", "", escape="\\", null="\\N"),
)
Fields = list[str | None]


class Wrong(Exception):
    """The text breaks the rules."""


def characterwise(form: SeparatedValues, text: str) -> list[Fields]:
    """Reads a text in the most obvious way. The empty records are lines without a character."""
    records: list[Fields] = []
    at = 0
    while at < len(text):
        fields: Fields = []
        begin = at
        while True:
            field, at = one_field(form, text, at)
            fields.append(field)
            if at == len(text) or not text.startswith(form.delimiter, at):
                break
            at += len(form.delimiter)
        if at > begin:
            records.append(fields)
        if at < len(text):
            if text[at] not in "\r\n":
                raise Wrong
            at += 2 if text.startswith("\r\n", at) else 1
    return records


def one_field(form: SeparatedValues, text: str, at: int) -> tuple[str | None, int]:
    begin, found, is_quoted = at, "", bool(form.quote) and text[at : at + 1] == form.quote
    at += is_quoted
    while at < len(text):
        character = text[at]
        if character == form.escape:
            if at + 1 == len(text):
                raise Wrong
            found += text[at + 1]
            at += 2
        elif is_quoted and text.startswith(form.quote * 2, at):
            found += form.quote
            at += 2
        elif is_quoted and character == form.quote:
            return found, at + 1
        elif not is_quoted and (character in (form.quote, "\r", "\n") or text.startswith(form.delimiter, at)):
            break
        else:
            found += character
            at += 1
    if is_quoted:
        raise Wrong
    return (None if text[begin:at] == form.null else found), at


def read(form: SeparatedValues, text: str) -> list[Fields]:
    records = form.read(text, 1000)
    return [records.fields(record) for record in records]


def texts_for(form: SeparatedValues) -> st.SearchStrategy[str]:
    pieces = [
        form.delimiter,
        form.delimiter[-1],
        form.quote,
        form.quote,
        "\r",
        "\n",
        "\r\n",
        "a",
        "b",
        "é",
        "\u2028",
    ]
    return st.lists(st.sampled_from([*pieces, form.escape, form.null, form.quote * 2]), max_size=14).map(
        "".join
    )


@settings(max_examples=750)
@given(data=st.data())
def test_any_text_is_read_as_character_by_character(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    text = data.draw(texts_for(form))
    try:
        expected = characterwise(form, text)
    except Wrong:
        with pytest.raises(FieldError):
            read(form, text)
    else:
        assert read(form, text) == expected


FIELDS = (
    st.none() | st.text(st.sampled_from("aé,;\t|]\"'^-\\N\r\n\0 ")) | st.sampled_from(["NULL", "\\N", ""])
)
RECORDS = st.lists(st.lists(FIELDS, min_size=1, max_size=6), min_size=1, max_size=3)


@settings(max_examples=500)
@given(form=st.sampled_from(FORMS), records=RECORDS)
@example(form=FORMS[2], records=[["\\N", None, "x\\N", "\\"]])
def test_what_is_written_is_read(form: SeparatedValues, records: list[Fields]) -> None:
    try:
        lines = [form.line(fields) for fields in records]
    except FieldError:
        assert not form.quote
        return
    text = "".join(line + form.line_end for line in lines)
    assert read(form, text) == [fields for fields, line in zip(records, lines, strict=True) if line]
    assert all(line or fields in ([None], [""]) for fields, line in zip(records, lines, strict=True))


def test_an_escape_at_the_end_is_a_mistake() -> None:
    with pytest.raises(FieldError, match=r"found '\\\\' at the end of the body"):
        read(FORMS[2], "a\\")


def test_fields_beyond_the_limit_are_not_kept() -> None:
    for text in ("a," * 50, '"a",' * 50, '"a""b",' * 50, '"a",b,b,b,' * 10, '"a",b,b,b,b,b,b,b,b,"c",d'):
        records = FORMS[0].read(text, 5)
        assert 5 < len(records.fields(next(iter(records)))) <= 12


@rows("escape", ["", "\\"])
@rows(
    "piece", ['"', '""', 'a"', "a", '"a', ",", '","', "\\", '"\\', 'a\\"', '"\n', '"\r', "\n", "\r", 'a","']
)
def test_a_text_of_one_piece_takes_little_time_and_memory(piece: str, escape: str) -> None:
    form = SeparatedValues(escape=escape)
    text = (piece * (1 << 14))[: 1 << 14]
    tracemalloc.start()
    begun = time.process_time()
    records = form.read(text, 40)
    try:
        for record in records:
            records.fields(record)
    except FieldError:
        pass  # the texts are wrong in most ways
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - begun < 20
    assert peak < 8 * len(text)


@rows(
    "options, reason",
    [
        ({"delimiter": ""}, "delimiter: found ''"),
        ({"delimiter": "|\r"}, "expected characters that end no line"),
        ({"delimiter": '|"'}, "for two purposes"),
        ({"delimiter": "||", "null": "|"}, "null"),
        ({"delimiter": "\n"}, "delimiter"),
        ({"quote": "''"}, "quote"),
        ({"quote": "\0"}, "quote"),
        ({"escape": "\r"}, "escape"),
        ({"delimiter": '"'}, "found '\"' for two purposes"),
        ({"delimiter": "\\", "escape": "\\"}, "for two purposes"),
        ({"line_end": "\n\r"}, "line_end: found '\\n\\r', expected"),
        ({"null": "a,b"}, "null: found 'a,b', expected a text that needs no quotes"),
        ({"null": '"'}, "null"),
        ({"null": "\n"}, "null"),
        ({"null": "\\", "escape": "\\"}, "null"),
    ],
)
def test_characters_that_do_not_go_together_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match="expected") as refused:
        SeparatedValues(**options)
    assert reason in str(refused.value)
