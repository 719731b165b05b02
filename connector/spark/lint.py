"""Checks the section ``spark`` for what people get wrong, before Spark starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from connector.declare.masking import MASK, is_secret
from connector.declare.problem_reporter import ProblemReporter
from connector.spark.master import Master, WrongMaster, parse_master
from connector.spark.settings import (
    expected_value,
    misspelt_setting,
    owner_reason,
    read_size,
    split_options,
)
from connector.text.names import shown

_FIXED: Final = {
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.authenticate": "true",
}
"""Owned settings that the user may write with the value that the event job sets."""

_LEAST_MEMORY: Final = 450 << 20
"""Bytes below which Spark does not start: one and a half times the memory that Spark reserves."""
_JAVA_OPTIONS: Final = (
    *("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"),
    *("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions"),
)
_FILES: Final = ("spark.files", "spark.archives", "spark.submit.pyFiles")


def check_spark(
    url: str,
    conf: Mapping[str, str],
    ship: Sequence[Path],
    python: str | None,
    directory: Path,
    reporter: ProblemReporter,
) -> None:
    """Reports mistakes in the master, the settings, and the files for workers.

    Args:
        url: ``spark.master``.
        conf, ship, python: the keys of these names in the section.
        directory: of ``adapter.yaml``.
        reporter: gets the mistakes.
    """
    master = _check_master(url, reporter)
    is_local = master is not None and master.local
    wrong = {key for key, value in conf.items() if _check_setting(key, value, reporter, local=is_local)}
    right = {key: value for key, value in conf.items() if key not in wrong}
    _check_java_options(right, reporter)
    _check_memory(right, reporter)
    _check_files(right, directory, reporter)
    _check_ship(ship, directory, reporter)
    if python is not None and (master is None or master.local):
        _check_python(python, directory, reporter)


def _check_master(text: str, reporter: ProblemReporter) -> Master | None:
    try:
        return parse_master(text)
    except WrongMaster as error:
        reporter.add(("spark", "master"), error.found, error.expected, error.near)
        return None


def _add(reporter: ProblemReporter, key: str, found: str, expected: str) -> None:
    reporter.add(("spark", "conf", key), found, expected)


def _check_setting(key: str, value: str, reporter: ProblemReporter, *, local: bool) -> bool:
    """Reports a setting that is owned, unknown or has a wrong value. Returns whether there is a mistake."""
    location = ("spark", "conf", key)
    position = reporter.key_position(*location)
    reason = owner_reason(key, local=local)
    if reason is not None:
        if _FIXED.get(key) != value.casefold():
            expected = f"{_FIXED[key]}, or nothing" if key in _FIXED else "it left out"
            reporter.add(location, f"the event job owns this setting: {reason}", expected, position=position)
        return True
    near = misspelt_setting(key)
    if near is not None:
        reporter.add(location, "no Spark setting", "a setting that Spark knows", near, position=position)
        return True
    if not key.startswith("spark."):
        expected = "a name that begins with 'spark.'"
        reporter.add(location, "no Spark setting", expected, f"spark.{key}", position=position)
        return True
    expected_text = expected_value(key, value)
    if expected_text is not None:
        reporter.add(location, MASK if is_secret(key) else shown(value), expected_text)
    return expected_text is not None


def _check_java_options(conf: Mapping[str, str], reporter: ProblemReporter) -> None:
    for key in _JAVA_OPTIONS:
        try:
            split_options(conf.get(key, ""))
        except ValueError as error:
            _add(reporter, key, str(error), "quotation marks in pairs")


def _check_memory(conf: Mapping[str, str], reporter: ProblemReporter) -> None:
    for key in ("spark.driver.memory", "spark.executor.memory"):
        if key in conf and "${" not in conf[key] and read_size(conf[key], "m") < _LEAST_MEMORY:
            _add(reporter, key, f"{shown(conf[key])} is too little for Spark to start", "512m or more")


def _check_files(conf: Mapping[str, str], directory: Path, reporter: ProblemReporter) -> None:
    """Checks local files that Spark copies at its start, and the directory of its event log."""
    for key in _FILES:
        for name in conf.get(key, "").split(","):
            path = _local_path(name.strip().partition("#")[0], directory)
            if path is not None and not path.exists():
                _add(reporter, key, f"there is no {path}", "files that there are")
    log = conf.get("spark.eventLog.dir", "file:///tmp/spark-events")
    path = _local_path(log, directory)
    if (
        conf.get("spark.eventLog.enabled", "").strip().lower() == "true"
        and path is not None
        and not path.is_dir()
    ):
        key = "spark.eventLog.dir" if "spark.eventLog.dir" in conf else "spark.eventLog.enabled"
        _add(
            reporter, key, f"there is no directory {path} for the event log", "spark.eventLog.dir: DIRECTORY"
        )


def _local_path(name: str, directory: Path) -> Path | None:
    """Returns the path of a file on this machine. None for a pattern, and for a file elsewhere."""
    if not name or any(character in name for character in "*?[{$"):
        return None
    url = urlsplit(name)
    if url.scheme == "file" and url.netloc in ("", "localhost"):
        return Path(unquote(url.path))
    return None if url.scheme else directory / name


def _check_ship(ship: Sequence[Path], directory: Path, reporter: ProblemReporter) -> None:
    """Checks the files for workers. A path outside of the deployment is put directly into it."""
    places: dict[Path, Path] = {}
    for index, path in enumerate(ship):
        location = ("spark", "ship", index)
        if not path.exists():
            reporter.add(location, f"there is no {path}", "a file or directory")
            continue
        if not path.is_file() and not path.is_dir():
            reporter.add(location, f"{path} is not a regular file", "a file or directory")
            continue
        source, base = path.resolve(), directory.resolve()
        place = source.relative_to(base) if source.is_relative_to(base) else Path(source.name)
        other = places.setdefault(place, source)
        if other != source:
            reporter.add(location, f"{path} has the place of {other} in the workers", "another name")


def _check_python(python: str, directory: Path, reporter: ProblemReporter) -> None:
    if "/" in python:
        found = directory / python
        is_there = found.is_file() and os.access(found, os.X_OK)
    else:
        is_there = shutil.which(python) is not None
    if not is_there:
        reporter.add(("spark", "python"), f"there is no program {shown(python)}", "a Python interpreter")
