"""The text format of a repository: what is read, and that any bytes end in objects or in one error."""

# ruff: noqa: E501 -- one case a line

from __future__ import annotations

import contextlib
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connector.declare.problems import Problems
from connector.errors import ConfigurationError
from connector.workbench.repository_import import reader
from connector.workbench.repository_import.reader import FileSection, parse_repository
from tests.tables import rows

ORDER = "[BusinessObjectDefinition]\nName = Order\n[Attribute]\nName = Id\nType = String\n[End]\n[End]\n"


def read(text: str | bytes, charset: str = "") -> tuple[dict[str, FileSection], list[str]]:
    problems = Problems()
    content = text.encode() if isinstance(text, str) else text
    found = parse_repository(content, problems, charset=charset, display="f")
    return found, [str(problem) for problem in problems.sorted()]


def refused(text: str | bytes, charset: str = "") -> str:
    with pytest.raises(ConfigurationError) as error:
        read(text, charset)
    return str(error.value)


def test_sections_values_and_their_lines_are_kept() -> None:
    found, warnings = read(ORDER)
    assert warnings == []
    order = found["Order"]
    assert (order.place("Name").line, order.place("Version").line, order.verbs) == (2, 1, {})
    assert [order.attributes["Id"].get(name) for name in ("Type", "IsKey")] == ["String", ""]
    # white space, case, comments and empty lines do not count
    text = (
        "# c\n; c\n\n  [ BUSINESSOBJECTDEFINITION ] \r\tname=Order\r\n\n[attribute]\nNAME =Id\n[ end]\n[END]"
    )
    found, warnings = read(text)
    assert warnings == []
    assert (list(found["Order"].attributes), found["Order"].place("Name").line) == (["Id"], 5)
    # a value goes from the first equals sign to the end of the line
    found, _ = read("[BusinessObjectDefinition]\nName = A\nAppSpecificInfo =  a=b;c = [End] # d \n[End]")
    assert found["A"].get("AppSpecificInfo") == "a=b;c = [End] # d"


def test_unknown_sections_are_passed_over_with_everything_in_them() -> None:
    unknown = "[ReposCopy]\nfree text\n[x]\n[y]\n= =\n[End]\n[End]\n[End]\n[Map]\n{ }\n[End]\n"
    found, warnings = read(unknown + ORDER)
    assert list(found) == ["Order"]
    assert warnings == ["f:9: the section [Map] has no counterpart and is left out (warning)"]


@rows(
    "text, error",
    [
        ("[BusinessObjectDefinition]\nName = A\n", "f:1: [BusinessObjectDefinition] has no [End], expected [End]"),
        (
            "[BusinessObjectDefinition]\nName = A\n[Attribute]\nName = B\n[Attribute]\n",
            "f:5: [Attribute] in the [Attribute] of line 3, expected [End] before it",
        ),
        (
            "[BusinessObjectDefinition]\nName = A\n[BusinessObjectDefinition]",
            "f:3: [BusinessObjectDefinition] in the [BusinessObjectDefinition] of line 1, expected [End]",
        ),
        ("[ReposCopy]\nVersion = 1\n[BusinessObjectDefinition]", "f:3: [BusinessObjectDefinition] in the [ReposCopy]"),
        ("[End]", "f:1: [End] without a section"),
        ("[Attribute]\n[End]", "f:1: [Attribute] outside of a business object"),
        ("Name = A", "f:1: 'Name = A' outside of a section"),
        ("[BusinessObjectDefinition]\n[End]", "f:1: [BusinessObjectDefinition] without a Name, expected Name = ..."),
        ("[BusinessObjectDefinition]\nName =\n[End]", "f:1: [BusinessObjectDefinition] without a Name"),
        ("[BusinessObjectDefinition]\nName", "f:2: 'Name', expected Name = value, [Section] or [End]"),
        ("[BusinessObjectDefinition]\n= a", "f:2: '= a', expected Name = value"),
        ("[BusinessObjectDefinition]\n[]", "f:2: '[]', expected Name = value"),
        ("[BusinessObjectDefinition]\nName = A\nname = B", "f:3: name a second time, first in line 2"),
        (ORDER + ORDER, "f:9: the business object 'Order' a second time, first in line 2, expected it once"),
        (ORDER.replace("[End]\n[End]", "[End]\n[Attribute]\nName = Id\n[End]\n[End]"), "f:8: the attribute 'Id' a second time, first in line 4"),
        ("[BusinessObjectDefinition]\nName = A\0", "f:2: the control character U+0000, expected text"),
        ("[BusinessObjectDefinition]\nName = A\u2028", "f:2: the control character U+2028, expected text"),
        (b"[BusinessObjectDefinition]\r\nName = \xff", "f:2: is not utf-8: byte 35 is 0xFF, expected UTF-8, or"),
        ("[a]\n" * 60, "f:51: sections nested deeper than 50 levels"),
    ],
)  # fmt: skip
def test_what_breaks_the_format_is_an_error_with_its_line(text: str | bytes, error: str) -> None:
    assert refused(text).startswith(error)


def test_a_named_character_set_counts_and_a_mark_does_otherwise() -> None:
    assert list(read(ORDER.encode("utf-16"))[0]) == ["Order"]
    assert list(read(ORDER.encode("utf-16-be"), "utf-16-be")[0]) == ["Order"]
    said = "f:1: is not ascii: byte 0 is 0xFF, expected text in this character set"
    assert refused(b"\xff", "ascii") == said


def test_many_warnings_and_many_sections_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    _, warnings = read("[BusinessObjectDefinition]\nName = A\n" + "x = 1\n" * 3000 + "[End]")
    assert len(warnings) == reader.MAX_WARNINGS
    assert warnings[-1] == "f:1002: more that has no counterpart from this line on is left out (warning)"
    monkeypatch.setattr(reader, "MAX_SECTIONS", 1)
    assert refused(ORDER).startswith("f:3: more than 1 sections")


@rows(
    "content",
    [
        b"[" * 200_000,
        b"[a" + b" " * 200_000,
        b"a " * 100_000,
        b"\n" * 60_000 + b"x",
        b"[a]\n" + b"[a\n" * 40_000,
        b"[BusinessObjectDefinition]\nName = " + b"x=" * 100_000,
    ],
)
def test_hostile_files_take_little_time_and_memory(content: bytes) -> None:
    tracemalloc.start()
    begin = time.process_time()
    error = refused(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(error) < 400
    assert time.process_time() - begin < 30
    assert peak < 5 * len(content) + 1_000_000


_LINES = """\
[BusinessObjectDefinition]
[Attribute]
[Verb]
[ReposCopy]
[Map]
[End]
Name = A
Name = B
Type = String
Type = A
Cardinality = n
AppSpecificInfo = InputFormat=x;y
"""
LINES = st.sampled_from(["", *_LINES.splitlines()])


@given(
    st.binary(max_size=200)
    | st.lists(LINES | st.text(max_size=12), max_size=30).map("\n".join).map(str.encode)
)
@example(b"\xff\xfe\x00")
@example(b"\x00\x00\xfe\xff")
@settings(max_examples=400)
def test_any_bytes_are_objects_or_one_error(content: bytes) -> None:
    for charset in ("", "latin-1"):
        with contextlib.suppress(ConfigurationError):
            found, _ = read(content, charset)
            assert all(section.name == name for name, section in found.items())
