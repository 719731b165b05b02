"""The wall around each room off the way: without its folder the rest is imported, and an event runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.architecture import house
from tests.architecture.test_architecture import MODULES, OFF_THE_WAY, ROOT
from tests.tables import rows


def lack(what: str, folder: str) -> str:
    return f"the {what} needs the folder {folder}, which is not there: put it back, or install the package "


_JMS = lack("provider 'jms'", "connector/brokers")
_PAGE = lack("page 'console'", "connector/http/console")
_MAP = lack("document 'map'", "connector/maps")
NO_CONSOLE = f"console.yaml:11:17: http.console: {_PAGE}"
SAID = {
    "authoring": {
        "new businessobject Order": (2, lack("verb 'new'", "connector/authoring")),
        "import-repository a --into b": (2, lack("verb 'import-repository'", "connector/authoring")),
        "--help": (0, "connector init shop"),
    },
    "brokers": {
        "jars": (2, lack("verb 'jars'", "connector/brokers")),
        "check -c broker.yaml": (2, f"broker.yaml:1:18: provider.type: {_JMS}"),
        "schema": (0, "dropbox"),
    },
    "maps": {
        "check": (0, "adapter.yaml: no mistakes"),
        "check -c map.yaml": (2, f"maps/map.yaml:1:1: map: {_MAP}"),
    },
    "http.console": {
        "check": (0, "adapter.yaml: no mistakes"),
        "check -c console.yaml": (2, NO_CONSOLE),
        "run --drain -c console.yaml": (2, NO_CONSOLE),
    },
}
"""By the room, what commands say without it: exit status, and a part of the text."""


def copy_without(room: str, copy: Path) -> None:
    """Makes a copy of the product that lacks a room, of links."""
    source = ROOT / "connector"
    for part in room.split("."):
        copy.mkdir()
        for path in source.iterdir():
            if path.name != part:
                (copy / path.name).symlink_to(path)
        source, copy = source / part, copy / part
    assert source.is_dir()
    assert not copy.exists()


@pytest.mark.process
@rows("room", OFF_THE_WAY)
def test_without_a_room_the_rest_is_imported_and_an_event_runs(tmp_path: Path, room: str) -> None:
    copy_without(room, tmp_path / "connector")
    (tmp_path / "deployment").mkdir()
    # -S leaves out what an editable installation adds: it would find the room where the room is.
    places = [str(tmp_path), *{sysconfig.get_path(name) for name in ("purelib", "platlib")}]
    done = subprocess.run(
        [sys.executable, "-S", "-P", house.__file__, str(tmp_path / "deployment"), *SAID.get(room, {})],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rest = [name for name in sorted(MODULES) if not f"{name}.".startswith(f"connector.{room}.")]
    assert found["imported"] == rest
    assert found["stored"] == "O-1"
    for (status, text), said in zip(SAID.get(room, {}).values(), found["said"], strict=True):
        assert (said[0], text in said[1]) == (status, True), said


def test_the_page_shows_the_same_rooms() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text("utf-8")
    _, _, section = page.partition("\n## The rooms off the way\n")
    shown = re.findall(r"^\| `([a-z/]+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert tuple(name.replace("/", ".") for name in shown) == OFF_THE_WAY
