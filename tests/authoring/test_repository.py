"""The text format of a repository, and that what is made of any repository passes the check."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connector.authoring.metaobject_files import Neighbours, Surroundings
from connector.authoring.repository_import import reader
from connector.authoring.repository_import.conversion import convert, fit
from connector.authoring.repository_import.reader import FileSection, parse_repository
from connector.declare.problems import Problems
from connector.errors import ConfigurationError
from tests.tables import rows, texts

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


BO = "[BusinessObjectDefinition]"
TWICE = ORDER.replace("[End]\n[End]", "[End]\n[Attribute]\nName = Id\n[End]\n[End]")


@rows(
    "text, error",
    [
        (f"{BO}\nName = A\n", f"1: {BO} has no [End], expected [End]"),
        (f"{BO}\n[Attribute]\n[Attribute]\n", "3: [Attribute] in the [Attribute] of line 2, expected [End]"),
        (f"{BO}\nName = A\n{BO}", f"3: {BO} in the {BO} of line 1, expected [End]"),
        (f"[ReposCopy]\nVersion = 1\n{BO}", f"3: {BO} in the [ReposCopy]"),
        ("[End]", "1: [End] without a section"),
        ("[Attribute]\n[End]", "1: [Attribute] outside of a business object"),
        ("Name = A", "1: 'Name = A' outside of a section"),
        (f"{BO}\n[End]", f"1: {BO} without a Name, expected Name = ..."),
        (f"{BO}\nName =\n[End]", f"1: {BO} without a Name"),
        (f"{BO}\nName", "2: 'Name', expected Name = value, [Section] or [End]"),
        (f"{BO}\n= a", "2: '= a', expected Name = value"),
        (f"{BO}\n[]", "2: '[]', expected Name = value"),
        (f"{BO}\nName = A\nname = B", "3: name a second time, first in line 2"),
        (ORDER + ORDER, "9: the business object 'Order' a second time, first in line 2, expected it once"),
        (TWICE, "8: the attribute 'Id' a second time, first in line 4"),
        (f"{BO}\nName = A\0", "2: the control character U+0000, expected text"),
        (f"{BO}\nName = A\u2028", "2: the control character U+2028, expected text"),
        (BO.encode() + b"\r\nName = \xff", "2: is not utf-8: byte 35 is 0xFF, expected UTF-8, or"),
        ("[a]\n" * 60, "51: sections nested deeper than 50 levels"),
    ],
)
def test_what_breaks_the_format_is_an_error_with_its_line(text: str | bytes, error: str) -> None:
    assert refused(text).startswith(f"f:{error}")


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


LINES = """
    [BusinessObjectDefinition]   [Attribute]   [Verb]   [ReposCopy]   [Map]   [End]   Name = A   Name = B
    Type = String   Type = A   Cardinality = n   AppSpecificInfo = InputFormat=x;y
"""


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from(["", *texts(LINES)]) | st.text(max_size=12), max_size=30)
    .map("\n".join)
    .map(str.encode)
)
@example(b"\xff\xfe\x00")
@example(b"\x00\x00\xfe\xff")
@settings(max_examples=400)
def test_any_bytes_are_objects_or_one_error(content: bytes) -> None:
    for charset in ("", "latin-1"):
        with contextlib.suppress(ConfigurationError):
            found, _ = read(content, charset)
            assert all(section.name == name for name, section in found.items())


# --- conversion ----------------------------------------------------------------------------------


NAMES = st.sampled_from(
    ["A", "B", "A_B", "Default", "A_Create", "text_xml", "ClassName", "ObjectEventId", "Meta"]
)
TYPES = st.sampled_from(["String", "string", "Integer", "Double", "Date", "A", "B", "A_B", "", "Gone"])
_INFO = """
    InputFormat=x   InputDestination=queue://q   InputDestination=a/b   OutputDestination=topic://t
    DataHandlerMimeType=text/xml   DataHandlerMimeType=no/such   DataHandlerConfigMO=A
    DataHandlerClassName=com.acme.X   Priority=99   cw_mo_conn=Meta   response_selector=JMSType = '{1}':A
    response_selector={   elem_name=a b   loose
"""
INFO = st.lists(st.sampled_from(texts(_INFO)), max_size=3).map(";".join)


@st.composite
def attributes(draw: st.DrawFn) -> str:
    lines = ["[Attribute]", f"Name = {draw(NAMES)}", f"Type = {draw(TYPES)}"]
    for key, values in {
        "Cardinality": ["1", "n", "N", "2"],
        "MaxLength": ["0", "10", "-1", "x"],
        "IsKey": ["true", "false", "maybe"],
        "IsRequired": ["true", "TRUE", "0"],
        "DefaultValue": ["1", "x", "CxBlank", "CxIgnore", "{a: b}", "# c"],
        "ContainedObjectVersion": ["1.0.0", "2"],
        "Relationship": ["Containment", "Reference"],
    }.items():
        if draw(st.integers(0, 3)) == 0:
            lines.append(f"{key} = {draw(st.sampled_from(values))}")
    if draw(st.booleans()):
        lines.append(f"AppSpecificInfo = {draw(INFO)}")
    return "\n".join([*lines, "[End]"])


@st.composite
def definitions(draw: st.DrawFn) -> str:
    parts = draw(st.lists(attributes(), max_size=4, unique_by=lambda text: text.splitlines()[1]))
    verbs = draw(st.lists(st.sampled_from(["Create", "B_Create"]), max_size=2, unique=True))
    parts += [f"[Verb]\nName = {verb}\nAppSpecificInfo = {draw(INFO)}\n[End]" for verb in verbs]
    head = f"[BusinessObjectDefinition]\nName = {draw(NAMES)}\nAppSpecificInfo = {draw(INFO)}\n"
    return head + "\n".join(parts) + "\n[End]"


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Neighbours:
    directory: Path = tmp_path_factory.mktemp("fuzz")
    return Neighbours(Surroundings(directory), (directory / "metaobjects", "metaobjects"))


@given(st.lists(definitions(), min_size=1, max_size=4, unique_by=lambda text: text.splitlines()[1]))
@settings(max_examples=75, deadline=None)
def test_what_is_written_has_no_mistake_and_what_is_left_out_has_a_line(
    neighbours: Neighbours, parts: list[str]
) -> None:
    problems = Problems()
    objects = parse_repository("\n".join(parts).encode(), problems, display="f")
    imported = convert(objects, problems, neighbours.catalogue)
    try:
        written = fit(imported, neighbours, problems)
    except ConfigurationError as error:
        assert {problem.line for problem in error.problems} <= {one.place.line for one in imported}  # noqa: PT017
        return
    assert [problem for problem in neighbours.check(written) if not problem.warning] == []
    assert all(problem.warning and problem.line for problem in problems.sorted())
