"""The archive for the workers of a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from connector.errors import PipelineError
from connector.spark.shipping import build_archive, default_ship


def names(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as opened:
        return set(opened.namelist())


def make(directory: Path, *files: str) -> Path:
    for file in files:
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {file}\n")
    return directory


def test_the_archive_has_the_connector_and_what_is_shipped_in_its_place(tmp_path: Path) -> None:
    place = make(
        tmp_path / "d", "processes.py", "datahandlers/csv.py", "notes.txt", "datahandlers/__pycache__/x.pyc"
    )
    found = names(build_archive(tmp_path, place, default_ship(place)))
    assert {"code/connector/spark/worker.py", "code/connector/datahandlers/xml_handler.py"} <= found
    assert {name for name in found if name.startswith("deployment/")} == {
        "deployment/.shipped",
        "deployment/processes.py",
        "deployment/datahandlers/csv.py",
    }


def test_equal_content_has_an_equal_name_and_other_content_another(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    place = make(tmp_path / "d", "processes.py")
    first = build_archive(tmp_path / "a", place, default_ship(place))
    second = build_archive(tmp_path / "b", place, default_ship(place))
    (place / "processes.py").write_text("changed = True\n")
    third = build_archive(tmp_path / "c", place, default_ship(place))
    assert first.name == second.name != third.name
    assert first.read_bytes() == second.read_bytes()


def test_a_path_outside_of_the_deployment_comes_to_lie_in_it(tmp_path: Path) -> None:
    place = make(tmp_path / "d", "lib/inner.py")
    make(tmp_path / "elsewhere", "tools/a.py")
    found = names(build_archive(tmp_path, place, [Path("lib"), tmp_path / "elsewhere" / "tools"]))
    assert {"deployment/lib/inner.py", "deployment/tools/a.py"} <= found


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"nothing\.py to the workers: no such file or directory \(spark\.ship\)"
    ):
        build_archive(tmp_path, make(tmp_path / "d"), [Path("nothing.py")])


def test_two_files_for_one_place_are_an_error(tmp_path: Path) -> None:
    place = make(tmp_path / "d", "tools.py")
    other = make(tmp_path / "e", "tools.py") / "tools.py"
    with pytest.raises(PipelineError, match="already has its place"):
        build_archive(tmp_path, place, [Path("tools.py"), other])
