"""`connector datahandlers` with every place that a data handler and its options can come from."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import call
from tests.cli.plugged import deploy


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return deploy(tmp_path)


def listed(directory: Path) -> dict[str, Any]:
    done = call(directory, "datahandlers", "--json")
    assert done.returncode == 0, done.stderr
    return {one["class"]: one for one in map(json.loads, done.stdout.splitlines())}


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_plug_in_is_listed_with_its_first_line(directory: Path) -> None:
    found = listed(directory)
    assert [one for one in found if found[one]["default"]] == [
        "connector.datahandlers.json_handler:JsonHandler"
    ]
    lines = found["handlers/lines.py:Lines"]
    assert (lines["origin"], lines["doc"], lines["mime_types"]) == (
        "plug-in",
        "Lines of numbers.",
        ["text/lines"],
    )
    assert lines["options"] == [
        {
            "name": "split",
            "type": "bool",
            "default": True,
            "choices": [],
            "doc": "Each line is an object.",
            "configured": [],
        }
    ]
    assert [option["name"] for option in lines["common_options"]] == [
        "ClassName",
        "DummyKey",
        "NameHandlerClass",
    ]


def test_options_are_those_of_each_mime_type_and_of_each_meta_object(directory: Path) -> None:
    with open(directory / "metaobjects/objects.yaml", "a") as file:
        file.write(
            "---\ndatahandler_metaobject: MO_DataHandler_Default\nhandlers: {text/xml: {BOPrefix: A}}\n"
            "---\ndatahandler_metaobject: MO_Other\n"
            "handlers: {application/xml: {BOPrefix: B, NameHandlerClass: root}}\n"
        )
    xml = listed(directory)["connector.datahandlers.xml_handler:XmlHandler"]
    (prefix,) = [option for option in xml["options"] if option["name"] == "BOPrefix"]
    assert prefix["configured"] == [
        {"value": "A", "mime_type": "text/xml", "config": "MO_DataHandler_Default"},
        {"value": "B", "mime_type": "application/xml", "config": "MO_Other"},
    ]
    text = call(directory, "datahandlers").stdout
    place = "application/xml in MO_Other"
    assert f'  NameHandlerClass (str, default "", configured for {place}: root): ' in text


def test_a_data_handler_that_is_named_by_its_class_is_listed(directory: Path) -> None:
    (directory / "mine.py").write_text(
        'class Mine:\n    """By name."""\n    mime_types = ("text/mine",)\n    options = ()\n'
    )
    change(
        directory / "adapter.yaml",
        "DataHandlerMimeType: application/json",
        "DataHandlerClassName: mine:Mine",
    )
    found = listed(directory)
    assert [one for one in found if found[one]["default"]] == ["mine.py:Mine"]
    assert found["mine.py:Mine"]["doc"] == "By name."
    assert (
        "mine.py:Mine (named by DataHandlerClassName, the default of the connector)"
        in call(directory, "datahandlers").stdout.splitlines()
    )


def test_a_configuration_with_mistakes_still_says_which_options_there_are(directory: Path) -> None:
    change(
        directory / "adapter.yaml", "DataHandlerMimeType: application/json", "DataHandlerMimeType: text/csw"
    )
    done = call(directory, "datahandlers")
    assert done.returncode == 0
    assert "text/lines: handlers/lines.py:Lines (plug-in)" in done.stdout
    assert done.stderr == "adapter.yaml has 1 mistake, which connector check shows: read as far as possible\n"


@pytest.mark.parametrize("arguments", [["-c", "missing.yaml"], ["-c", "."]])
def test_a_file_that_the_user_names_has_to_be_there(tmp_path: Path, arguments: list[str]) -> None:
    done: subprocess.CompletedProcess[str] = call(tmp_path, "datahandlers", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert arguments[1] in done.stderr
