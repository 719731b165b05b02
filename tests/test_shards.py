"""The shards have all tests, each test once, and take about as long as each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import measures, shards
from tests.measures import Measure


def test_each_test_file_is_in_one_shard() -> None:
    files = shards.files_of("tests")
    planned = [file for part in shards.plan(files, 4) for file in part]
    assert sorted(planned) == files
    assert "tests/test_shards.py" in files
    assert not any(file.startswith(shards.SERVERS) for file in files)
    assert all(file.startswith(shards.SERVERS) for file in shards.files_of(shards.SERVERS))


def test_shards_take_about_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {f"tests/test_{number}.py": float(number) for number in range(1, 21)}
    known = {file: Measure(1, value) for file, value in seconds.items()}
    monkeypatch.setattr(measures, "read", lambda: known)
    sums = [sum(seconds[file] for file in part) for part in shards.plan(seconds, 3)]
    assert max(sums) - min(sums) < 0.05 * max(sums)


def test_files_that_share_a_java_or_a_browser_are_in_one_shard() -> None:
    parts = shards.plan([*shards.files_of("tests/spark"), *shards.files_of("tests/events")], 4)
    assert sum(any(file.startswith("tests/spark/") for file in part) for part in parts) == 1
    browsers = [f"tests/http/{name}browser.py" for name in ("", "looks_", "size_")]
    assert browsers in [part[:3] for part in shards.plan([*browsers, "tests/servers/test_suite.py"], 2)]


def test_a_room_is_found_by_the_folder_of_the_product_or_of_its_tests() -> None:
    names = ("connector/events", "tests/events", "events", "./tests/events/", "connector/events/claim")
    assert {shards.room(name) for name in names} == {"tests/events"}
    assert shards.room("connector/stores/dropbox") == "tests/stores/dropbox"
    assert shards.room("connector/nowhere") is None


def test_failures_of_all_shards_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name, text in {"good": "pass", "bad": "assert 1 == 2", "worse": "raise OSError('gone')"}.items():
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}():\n    {text}\n")
    parts = [[str(tmp_path / f"test_{name}.py")] for name in ("good", "bad", "worse")]
    assert shards.run(parts, [], None) == 1
    told = capfd.readouterr().out
    assert "assert 1 == 2" in told
    assert "OSError: gone" in told
    assert told.endswith("\n1 passed, 2 failed\n")


def test_measures_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = {"tests/test_a.py": Measure(3, 2.5, 1.5, {"test_x": 1.5}), "tests/test_b.py": Measure(1, 0.1)}
    measures.write(written, tmp_path / "measures.txt")
    assert measures.read(tmp_path / "measures.txt") == written
    assert written["tests/test_a.py"].quick == 1.0


def test_the_quick_tests_of_a_folder_take_less_than_a_minute() -> None:
    folders: dict[str, float] = {}
    for file, one in measures.read().items():
        folder = str(Path(file).parent)
        folders[folder] = folders.get(folder, 0.0) + one.quick
    assert folders  # measured in one of four shards, and run in four
    assert {folder: seconds for folder, seconds in folders.items() if seconds > 4 * 60} == {}
