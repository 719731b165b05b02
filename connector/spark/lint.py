"""Checks the section ``spark``: finds the settings that Spark would refuse, before Spark starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from connector.declare.masking import MASK, is_secret
from connector.declare.problem_reporter import ProblemReporter
from connector.declare.problems import shown
from connector.spark.java_options import (
    DRIVER_MEMORY,
    collectors,
    heap,
    no_options,
    split_options,
    wrong_sizes,
)
from connector.spark.master import Master, WrongMaster, is_host, parse_master
from connector.spark.settings import (
    expected_value,
    misspelt_setting,
    owner_reason,
    read_duration,
    read_number,
    read_size,
)

_FIXED: Final = {"spark.speculation": "false", "spark.python.worker.reuse": "true"}
"""Owned settings that the user may write with the value that the event job sets."""

_LEAST_MEMORY: Final = 450 << 20
"""Bytes below which Spark does not start: one and a half times the memory that Spark reserves."""
_MEMORY: Final = {"driver": DRIVER_MEMORY, "executor": "1g"}
"""The heap of each side when the setting is missing."""
_FILES: Final = ("spark.files", "spark.archives", "spark.submit.pyFiles")
_ENCRYPTED: Final = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption")
"""Both settings need spark.authenticate."""


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
    wrong = {key for key, value in conf.items() if _check_setting(key, value, reporter)}
    right = {key: value for key, value in conf.items() if key not in wrong}
    for side in ("driver", "executor"):
        _check_java_options(side, right, reporter)
    _check_memory(right, reporter)
    _check_together(right, master, reporter)
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


def _check_setting(key: str, value: str, reporter: ProblemReporter) -> bool:
    """Reports a setting that is owned, unknown or has a wrong value. Returns whether there is a mistake."""
    location = ("spark", "conf", key)
    position = reporter.key_position(*location)
    reason = owner_reason(key)
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


def _check_java_options(side: str, conf: Mapping[str, str], reporter: ProblemReporter) -> None:
    """Checks the options of the driver or the executors. Both settings end up in one command line."""
    keys = (f"spark.{side}.defaultJavaOptions", f"spark.{side}.extraJavaOptions")
    words: list[str] = []
    last = ""
    for key in keys:
        if key not in conf:
            continue
        try:
            own = split_options(conf[key])
        except ValueError as error:
            _add(reporter, key, str(error), "quotation marks in pairs")
            continue
        for position in no_options(own):
            _add(reporter, key, f"word {position} is no option of Java", "words that begin with -")
        for found, expected in wrong_sizes(own):
            _add(reporter, key, found, expected)
        if side == "executor":
            _check_executor_options(key, conf[key], reporter)
        words += own
        last = key
    selected = collectors(words)
    if len(selected) > 1:
        _add(reporter, last, f"several garbage collectors: {', '.join(selected)}", "one of them")
    memory = conf.get(f"spark.{side}.memory", _MEMORY[side])
    if last and "${" not in memory:
        _check_heap(last, words, read_size(memory, "m"), f"spark.{side}.memory", reporter)


def _check_heap(key: str, words: list[str], memory: int, setting: str, reporter: ProblemReporter) -> None:
    """Checks the heap in the options of Java, which come after the setting."""
    least, most = heap(words)
    if least > (most or memory):
        name = "-Xmx" if most else setting
        found = f"an initial heap (-Xms) of {least} bytes and a greatest ({name}) of {most or memory}"
        _add(reporter, key, found, f"an initial heap of at most {name}")
    elif 0 < most < _LEAST_MEMORY and setting == "spark.driver.memory":
        _add(reporter, key, "-Xmx is too little for Spark to start", "512m or more")


def _check_executor_options(key: str, text: str, reporter: ProblemReporter) -> None:
    if "-Dspark" in text:
        _add(reporter, key, "a Spark setting among the options of Java", "it under spark.conf")
    if "-Xmx" in text:
        _add(reporter, key, "the size of the heap (-Xmx) among the options of Java", "spark.executor.memory")


def _is_on(conf: Mapping[str, str], key: str) -> bool:
    return conf.get(key, "").strip().lower() == "true"


def _check_memory(conf: Mapping[str, str], reporter: ProblemReporter) -> None:
    for key in ("spark.driver.memory", "spark.executor.memory"):
        if key in conf and "${" not in conf[key] and read_size(conf[key], "m") < _LEAST_MEMORY:
            _add(reporter, key, f"{shown(conf[key])} is too little for Spark to start", "512m or more")


def _check_together(conf: Mapping[str, str], master: Master | None, reporter: ProblemReporter) -> None:
    """Checks settings that Spark compares with each other at its start."""
    own = {key: value for key, value in conf.items() if "${" not in value}
    host = own.get("spark.driver.host")
    if host is not None and not is_host(host):
        _add(
            reporter,
            "spark.driver.host",
            f"{shown(host)} is no name of a host",
            "a name, or [ADDRESS] of IPv6",
        )
    fraction = own.get("spark.memory.fraction")
    if fraction is not None and not 0 <= read_number(fraction) <= 1:
        _add(reporter, "spark.memory.fraction", shown(fraction), "a number from 0 to 1")
    heartbeat, network = "spark.executor.heartbeatInterval", "spark.network.timeout"
    if heartbeat in own or network in own:
        beat, limit = own.get(heartbeat, "10s"), own.get(network, "120s")
        if read_duration(beat) >= read_duration(limit, "s"):
            key = heartbeat if heartbeat in own else network
            expected = f"{heartbeat} shorter than {network}"
            _add(reporter, key, f"{heartbeat} is {beat} and {network} is {limit}", expected)
    for key in _ENCRYPTED:
        if _is_on(own, key) and not _is_on(own, "spark.authenticate"):
            _add(reporter, key, f"{key} without spark.authenticate", "spark.authenticate: true too")
    cpus = own.get("spark.task.cpus")
    if cpus is not None:
        cores = _cores(master, own)
        try:
            needed = read_number(cpus)
        except ValueError:
            needed = 0
        if needed <= 0:
            _add(reporter, "spark.task.cpus", shown(cpus), "a number above 0")
        elif master is not None and 0 < cores < needed:
            found = f"{cpus} cores a task under {master.url}"
            _add(reporter, "spark.task.cpus", found, f"{cores} or less: so many cores there are")


def _cores(master: Master | None, conf: Mapping[str, str]) -> int:
    """Returns the cores of a local master. 0 = not known before Spark runs."""
    if master is None or not master.local:
        return 0
    if any("ActiveProcessorCount" in value for value in conf.values()):
        return 0
    return master.cores or len(os.sched_getaffinity(0))


def _check_files(conf: Mapping[str, str], directory: Path, reporter: ProblemReporter) -> None:
    """Checks local files that Spark copies at its start, and the directory of its event log."""
    for key in _FILES:
        for name in conf.get(key, "").split(","):
            path = _local_path(name.strip().partition("#")[0], directory)
            if path is not None and not path.exists():
                _add(reporter, key, f"there is no {path}", "files that there are")
    log = conf.get("spark.eventLog.dir", "file:///tmp/spark-events")
    path = _local_path(log, directory)
    if _is_on(conf, "spark.eventLog.enabled") and path is not None and not path.is_dir():
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
