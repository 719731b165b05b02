"""`connector datahandlers` with every place that a data handler and its options can come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import Commands


@pytest.fixture
def run(plugged: Commands) -> Commands:
    return Commands(plugged.directory, "datahandlers")


def listed(run: Commands) -> dict[str, Any]:
    return {one["class"]: one for one in run("--json").documents}


def test_a_plug_in_is_listed_with_its_first_line(run: Commands) -> None:
    found = listed(run)
    assert [one for one in found if found[one]["default"]] == [
        "connector.datahandlers.json_handler:JsonHandler"
    ]
    lines = found["handlers/lines.py:Lines"]
    told = (lines["origin"], lines["doc"], lines["mime_types"])
    assert told == ("plug-in", "Lines of numbers.", ["text/lines"])
    split = {"name": "split", "type": "bool", "default": True, "doc": "Each line is an object."}
    assert lines["options"] == [{**split, "choices": [], "configured": []}]
    common = [option["name"] for option in lines["common_options"]]
    assert common == ["ClassName", "DummyKey", "NameHandlerClass"]


def test_options_are_those_of_each_mime_type_and_of_each_meta_object(run: Commands) -> None:
    run.write(
        "metaobjects/options.yaml",
        "datahandler_metaobject: MO_DataHandler_Default\nhandlers: {text/xml: {BOPrefix: A}}\n"
        "---\ndatahandler_metaobject: MO_Other\n"
        "handlers: {application/xml: {BOPrefix: B, NameHandlerClass: root}}\n",
    )
    xml = listed(run)["connector.datahandlers.xml_handler:XmlHandler"]
    assert (xml["origin"], xml["default"]) == ("shipped", False)
    (prefix,) = [option for option in xml["options"] if option["name"] == "BOPrefix"]
    assert prefix["configured"] == [
        {"value": "A", "mime_type": "text/xml", "config": "MO_DataHandler_Default"},
        {"value": "B", "mime_type": "application/xml", "config": "MO_Other"},
    ]
    text = run().stdout
    assert 'BOPrefix (str, default "", configured for text/xml in MO_DataHandler_Default: A, ' in text
    place = "application/xml in MO_Other"
    assert f'  NameHandlerClass (str, default "", configured for {place}: root): ' in text


def test_a_data_handler_that_is_named_by_its_class_is_listed(run: Commands) -> None:
    mine = 'class Mine:\n    """By name."""\n    mime_types = ("text/mine",)\n    options = ()\n'
    run.write("mine.py", mine)
    run.change("adapter.yaml", "DataHandlerMimeType: application/json", "DataHandlerClassName: mine:Mine")
    found = listed(run)
    assert [one for one in found if found[one]["default"]] == ["mine.py:Mine"]
    assert found["mine.py:Mine"]["doc"] == "By name."
    line = "mine.py:Mine (named by DataHandlerClassName, the default of the connector)"
    assert line in run().stdout.splitlines()


def test_a_plug_in_that_replaces_a_shipped_handler_is_marked(run: Commands) -> None:
    run.write("handlers/mine.py", 'class Mine:\n    """Ours."""\n    mime_types = ("text/plain",)\n')
    lines = run().stdout.splitlines()
    assert "text/plain: handlers/mine.py:Mine (plug-in)" in lines
    assert any("text_handler:TextHandler (shipped, replaced for text/plain)" in line for line in lines)


def test_a_configuration_with_mistakes_still_says_which_options_there_are(
    run: Commands, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run.change("adapter.yaml", "DataHandlerMimeType: application/json", "DataHandlerMimeType: text/csw")
    done = run()
    assert done.returncode == 0
    assert "text/lines: handlers/lines.py:Lines (plug-in)" in done.stdout
    assert done.stderr == "adapter.yaml has 1 mistake, which connector check shows: read as far as possible\n"
    empty: Path = tmp_path_factory.mktemp("empty")
    done = Commands(empty)("datahandlers")
    assert (done.returncode, "text/xml, application/xml" in done.stdout) == (0, True)
    assert "adapter.yaml does not exist" in done.stderr


def test_a_file_that_the_user_names_has_to_be_there(run: Commands) -> None:
    for file, words in (("missing.yaml", "no such file"), (".", "is a directory")):
        assert run("-c", file).refusal().startswith(f"{file}: {words}, expected ")
