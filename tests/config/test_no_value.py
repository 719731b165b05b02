"""A null of YAML is no value, and the escapes of JSON are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from connector.config.metaobjects import MetaObjects
from connector.declare.problems import Problems
from connector.declare.scalar import scalar
from connector.declare.tree import Items, Leaf, Node, Table, parse
from connector.errors import Problem
from connector.workbench.cases import read_cases
from tests.tables import rows

if TYPE_CHECKING:
    from tests.config.conftest import Sample

NULLS = ("null", "Null", "NULL", "~")
SOURCE = Path(__file__).parent / "deployment"


def leaves(file: str) -> list[tuple[int, int, str]]:
    """Returns line, column and text of the single values of a file that stand on one line without quotes."""
    found: list[tuple[int, int, str]] = []

    def walk(node: Node) -> None:
        if isinstance(node, Table):
            for inner in node.entries.values():
                walk(inner)
        elif isinstance(node, Items):
            for inner in node.items:
                walk(inner)
        elif node.quote == "" and node:
            found.append((node.position.line, node.position.column, str(node)))

    for document in parse((SOURCE / file).read_text("utf-8"), file, Problems()) or ():
        walk(document)
    return found


def replaced(text: str, line: int, column: int, old: str, new: str) -> str:
    lines = text.splitlines()
    before, after = lines[line - 1][: column - 1], lines[line - 1][column - 1 :]
    assert after.startswith(old)
    lines[line - 1] = before + new + after.removeprefix(old)
    return "\n".join(lines) + "\n"


PLACES = [
    (str(path.relative_to(SOURCE)), *leaf)
    for path in sorted(SOURCE.rglob("*.yaml"))
    for leaf in leaves(str(path.relative_to(SOURCE)))
]


@rows("file, line, column, old", PLACES)
def test_a_null_at_any_place_is_the_same_as_nothing(
    deployment: Sample, file: str, line: int, column: int, old: str
) -> None:
    source = deployment.read(file)

    def said(new: str) -> list[Problem]:
        deployment.write(file, replaced(source, line, column, old, new))
        return deployment.check()

    # In a flow list nothing is no entry, so an empty text in quotes stands for it.
    before = source.splitlines()[line - 1][: column - 1]
    nothing = '""' if before.count("[") > before.count("]") else ""
    expected = [(one.line, one.path, one.found) for one in said(nothing)]
    assert [(one.line, one.path, one.found) for one in said("null")] == expected


@rows(
    "verb, value, attribute, more, default",
    [
        *(("Create", null, "Id", f"default: {null}, max_length: {null}", None) for null in NULLS),
        *(("Create", "", "Id", f'default: "{null}"', null) for null in NULLS),  # in quotes it is a text
        ("Null", "", "null", "max_length: 1", None),  # as a key it is a name
    ],
)
def test_a_null_in_a_definition_is_nothing_in_quotes_a_text_and_as_a_key_a_name(
    deployment: Sample, verb: str, value: str, attribute: str, more: str, default: str | None
) -> None:
    deployment.write(
        "metaobjects/n.yaml",
        f"business_object: Nulled\nverbs: {{{verb}: {value}}}\n"
        f"attributes: {{{attribute}: {{type: String, key: true, {more}}}}}\n",
    )
    definition = deployment.load().metaobjects.definitions["Nulled"]
    assert (list(definition.verbs), list(definition.attributes)) == ([verb], [attribute])
    assert definition.attributes[attribute].default == default


def test_a_null_from_the_environment_is_a_text(deployment: Sample) -> None:
    deployment.replace("adapter.yaml", "ApplicationName: demo", "ApplicationName: ${NAME}")
    assert deployment.load(NAME="null").connector.application_name == "null"


@rows("null", NULLS)
def test_a_written_text_is_read_as_a_text(null: str) -> None:
    (node,) = parse(f"key: {scalar(null)}\n", "f", Problems()) or []
    assert isinstance(node, Table)
    assert node.entries["key"] == null


JSON = st.recursive(
    st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner), max_leaves=8
)


@given(JSON.filter(lambda value: value != "" and value != {} and value != []))
def test_what_json_writes_is_read(value: object) -> None:
    """ASCII only, so that every other character is an escape, those beyond U+FFFF a pair of them."""

    def plain(node: Node) -> object:
        if isinstance(node, Leaf):
            return str(node)
        if isinstance(node, Items):
            return [plain(item) for item in node.items]
        return {key: plain(inner) for key, inner in node.entries.items()}

    problems = Problems()
    documents = parse(json.dumps(value), "f", problems)
    assert problems.sorted() == []
    assert documents is not None
    assert [plain(document) for document in documents] == [value]


@rows("half", [r"\ud83d", r"\uDE00", r"\ude00\ud83d", r"\ud83d\ud83d\ude00", r"\ud83dx"])
def test_half_a_pair_is_refused_at_its_place(half: str) -> None:
    problems = Problems()
    parse(f'first: 1\nkey: "{half}"\n', "f.yaml", problems)
    (problem,) = problems.sorted()
    assert str(problem).startswith("f.yaml:2:6: half a surrogate pair (\\ud")


def test_an_escape_outside_of_double_quotes_is_a_text() -> None:
    problems = Problems()
    (node,) = parse("a: '\\ud83d'\nb: \\ud83d\nc: \"\\\\ud83d\"\n", "f", problems) or []
    assert isinstance(node, Table)
    assert set(node.entries.values()) == {"\\ud83d"}
    assert problems.sorted() == []


@rows("null", ["", *NULLS])
def test_a_property_of_a_test_case_without_a_value_is_not_set(tmp_path: Path, null: str) -> None:
    file = tmp_path / "a.test.yaml"
    file.write_text(f"message: {{properties: {{a: {null}, b: x}}, body: {null}}}\nexpect: {{rule: none}}\n")
    problems = Problems()
    (case,) = read_cases(file, "a.test.yaml", MetaObjects(), [], problems)
    assert problems.sorted() == []
    assert [name for name, _, _ in case.properties] == ["b"]
    assert case.body == b""
