"""The text of ``metaobjects/*.yaml`` as it is written, and the writing: all files or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.authoring.metaobject_files import surroundings, write_files
from connector.authoring.metaobject_text import DocumentText, Entries, file_text
from connector.declare.problems import Problems
from connector.declare.tree import Node, Table, parse
from connector.errors import ConfigurationError

names = st.text(min_size=1, max_size=8)
texts = st.text(max_size=12) | st.sampled_from(
    ["no", "a: b", "- x", "a #b", "x:", ":x", "{a}", "'", "\u2028", "\x85"]
)
properties = st.dictionaries(names, texts, max_size=3)
documents = st.dictionaries(
    st.sampled_from(["version", "attributes", "rules", "Default"]),
    texts.filter(bool) | st.dictionaries(names, texts.filter(bool) | properties, max_size=3),
    max_size=3,
)


def plain(node: Node) -> object:
    return (
        {key: plain(value) for key, value in node.entries.items()} if isinstance(node, Table) else str(node)
    )


def written(value: object) -> object:
    """An empty mapping is written as a key without a value."""
    if isinstance(value, dict):
        return {key: written(inner) for key, inner in value.items()} or ""
    return value


@given(documents, names, st.text(max_size=20))
def test_every_text_is_read_as_it_was_written(entries: Entries, name: str, comment: str) -> None:
    document = DocumentText("business_object", name, entries, {(key,): comment for key in entries}, [comment])
    problems = Problems()
    nodes = parse(file_text([document, document]), "f", problems)
    assert problems.sorted() == []
    assert nodes is not None
    assert [plain(node) for node in nodes] == [written({"business_object": name} | entries)] * 2


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    directory = tmp_path / "a/b"
    write_files(directory, {"x.yaml": "1", "y.yaml": "é"})
    assert (directory / "y.yaml").read_text("utf-8") == "é"
    with pytest.raises(FileExistsError):
        write_files(directory, {"new.yaml": "2", "y.yaml": "2"})
    assert sorted(os.listdir(directory)) == ["x.yaml", "y.yaml"]
    (directory / "z.yaml").mkdir()
    with pytest.raises(IsADirectoryError):
        write_files(directory, {"x.yaml": "2", "new.yaml": "2", "z.yaml": "2"}, force=True)
    assert sorted(os.listdir(directory)) == ["x.yaml", "y.yaml", "z.yaml"]
    assert (directory / "x.yaml").read_text() == "1"
    (directory / "link.yaml").symlink_to(tmp_path / "elsewhere")
    write_files(directory, {"x.yaml": "2", "link.yaml": "2"}, force=True)
    assert not (tmp_path / "elsewhere").exists()
    assert (directory / "x.yaml").read_text() == (directory / "link.yaml").read_text() == "2"


def test_the_surroundings_are_those_that_the_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert surroundings("adapter.yaml").metaobjects == ()
    assert surroundings("adapter.yaml").home == (tmp_path / "metaobjects", "metaobjects")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/adapter.yaml").write_text(
        "metaobjects: [./one.yaml, '${MO}', ./last]\ndatahandlers: ./plug\n"
    )
    found = surroundings("sub/adapter.yaml", {"MO": "./objects"})
    assert found.home == (tmp_path / "sub/objects", "sub/objects")
    assert found.datahandlers == tmp_path / "sub/plug"
    (tmp_path / "sub/other.yaml").write_text("metaobjects: [./one.yaml]\n")
    assert surroundings("sub/other.yaml").home == (tmp_path / "sub/metaobjects", "sub/metaobjects")
    with pytest.raises(ConfigurationError, match="MO is not set"):
        surroundings("sub/adapter.yaml", {"X": ""})
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(ConfigurationError, match="is empty"):
        surroundings("empty.yaml")
