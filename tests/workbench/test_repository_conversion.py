"""Whatever a repository file says, the documents that are made of it pass the check."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.declare.problems import Problems
from connector.errors import ConfigurationError
from connector.workbench.metaobject_files import Neighbours, Surroundings
from connector.workbench.repository_import.conversion import convert, fit
from connector.workbench.repository_import.reader import parse_repository

NAMES = st.sampled_from(
    ["A", "B", "A_B", "Default", "A_Create", "text_xml", "ClassName", "ObjectEventId", "Meta"]
)
TYPES = st.sampled_from(["String", "string", "Integer", "Double", "Date", "A", "B", "A_B", "", "Gone"])
_INFO = """\
InputFormat=x
InputDestination=queue://q
InputDestination=a/b
OutputDestination=topic://t
DataHandlerMimeType=text/xml
DataHandlerMimeType=no/such
DataHandlerConfigMO=A
DataHandlerClassName=com.acme.X
Priority=99
cw_mo_conn=Meta
response_selector=JMSType = '{1}':A
response_selector={
elem_name=a b
loose
"""
INFO = st.lists(st.sampled_from(_INFO.splitlines()), max_size=3).map(";".join)


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
@settings(max_examples=150, deadline=None)
def test_what_is_written_has_no_mistake_and_what_is_left_out_has_a_line(
    neighbours: Neighbours, parts: list[str]
) -> None:
    problems = Problems()
    objects = parse_repository("\n".join(parts).encode(), problems, display="f")
    imported = convert(objects, problems, neighbours.catalogue)
    try:
        texts = fit(imported, neighbours, problems)
    except ConfigurationError as error:
        assert {problem.line for problem in error.problems} <= {one.place.line for one in imported}  # noqa: PT017
        return
    assert [problem for problem in neighbours.check(texts) if not problem.warning] == []
    assert all(problem.warning and problem.line for problem in problems.sorted())
