"""Checks the section ``spark`` for what people get wrong, before Spark starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from connector.declare.problem_reporter import ProblemReporter
from connector.spark.master import Master, WrongMaster, parse_master
from connector.spark.settings import owner_reason, read_size, split_options
from connector.text.names import shown

_FIXED: Final = {
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
    "spark.authenticate": "true",
}
"""Owned settings that the user may write with the value that the event job sets."""


_OF_JAVA: Final[Mapping[str, Callable[[str], object]]] = {
    "spark.driver.memory": read_size,
    "spark.driver.defaultJavaOptions": split_options,
    "spark.driver.extraJavaOptions": split_options,
}
"""Settings from which the adapter makes the command that starts Java."""


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
    """
    master = _check_master(url, reporter)
    is_local = master is not None and master.local
    for key, value in conf.items():
        _check_setting(key, value, reporter, local=is_local)
    _check_ship(ship, directory, reporter)
    if python is not None and (master is None or master.local):
        _check_python(python, directory, reporter)


def _check_master(text: str, reporter: ProblemReporter) -> Master | None:
    try:
        return parse_master(text)
    except WrongMaster as error:
        reporter.add(("spark", "master"), error.found, error.expected, error.near)
        return None


def _check_setting(key: str, value: str, reporter: ProblemReporter, *, local: bool) -> None:
    """Reports a setting that the event job owns, and one that Spark would leave out without a word."""
    location = ("spark", "conf", key)
    position = reporter.key_position(*location)
    reason = owner_reason(key, local=local)
    if reason is not None:
        if _FIXED.get(key) != value.casefold():
            expected = f"{_FIXED[key]}, or nothing" if key in _FIXED else "it left out"
            reporter.add(location, f"the event job owns this setting: {reason}", expected, position=position)
    elif not key.startswith("spark."):
        expected = "a name that begins with 'spark.'"
        reporter.add(location, "no Spark setting", expected, f"spark.{key}", position=position)
    elif key in _OF_JAVA:
        try:
            _OF_JAVA[key](value)
        except ValueError as error:
            reporter.add(location, str(error), "a size such as 512m, or options of Java")


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
