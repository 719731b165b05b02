"""What each test file costs. The marks and the shards come from the figures in ``tests/measures.txt``.

As a pytest plug-in (``-p tests.measures``) the module records a run in the directory ``$TEST_MEASURES``.
:func:`main` writes ``tests/measures.txt`` from the records of all runs. ``script/test --measure`` does both.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

FILE: Final = Path(__file__).with_name("measures.txt")
SLOW: Final = 1.0
"""A test function is slow from this number of seconds on, all its cases together."""

_ROOT: Final = FILE.parents[1]
_FOLDER: Final = "TEST_MEASURES"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_HEAD: Final = f"""\
# What each test file costs: cases, seconds, processor seconds with all processes that it started, and
# the functions that took {SLOW:g} s or more. Written by script/test --measure, beside the other shards.
"""


@dataclass
class Measure:
    """What one test file costs.

    Args:
        cases: number of its tests.
        seconds: from the begin of its first test to the end of its last.
        processor: seconds of processor time, of the tests and of all processes that they started.
        slow: seconds of each test function that took at least :data:`SLOW`.
    """

    cases: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    slow: dict[str, float] = field(default_factory=dict)

    @property
    def quick(self) -> float:
        """Seconds without the slow tests."""
        return max(0.0, self.seconds - sum(self.slow.values()))


def read(path: Path = FILE) -> dict[str, Measure]:
    """Returns the measures by test file, relative to the repository. Without the file there are none."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if not line.startswith("#"):
            name, cases, seconds, processor, *slow = line.split()
            functions = dict(one.split("=") for one in slow)
            found[name] = Measure(
                int(cases),
                float(seconds),
                float(processor),
                {function: float(value) for function, value in functions.items()},
            )
    return found


def write(measures: dict[str, Measure], path: Path = FILE) -> None:
    """Writes the measures, a line for each file."""
    lines = [_HEAD]
    for name, one in sorted(measures.items()):
        slow = "".join(f" {function}={seconds:.1f}" for function, seconds in sorted(one.slow.items()))
        lines.append(f"{name} {one.cases} {one.seconds:.1f} {one.processor:.1f}{slow}\n")
    path.write_text("".join(lines))


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = ""
        self._began = 0.0
        self._functions: dict[str, float] = {}
        self._cases = 0
        self._spent = _processor_seconds()

    def pytest_collection_finish(self) -> None:
        self._spent = _processor_seconds()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        file = nodeid.partition("::")[0]
        if file != self._file:
            self._close_file()
            self._file, self._began = file, time.monotonic()
        self._cases += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        function = report.nodeid.rpartition("[")[0] or report.nodeid
        name = function.partition("::")[2].split("[")[0].replace(" ", "")
        self._functions[name] = self._functions.get(name, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        self._close_file()

    def _close_file(self) -> None:
        if self._file:
            spent = _processor_seconds()
            slow = {name: seconds for name, seconds in self._functions.items() if seconds >= SLOW}
            line = [self._file, self._cases, time.monotonic() - self._began, spent - self._spent, slow]
            with open(self._path, "a") as record:
                record.write(json.dumps(line) + "\n")
            self._spent = spent
        self._functions, self._cases = {}, 0


def pytest_configure(config: pytest.Config) -> None:
    path = Path(os.environ[_FOLDER], f"{os.getpid()}.jsonl")
    config.pluginmanager.register(_Recorder(path))


def _processor_seconds() -> float:
    """Returns the processor time of this process and all its descendants, also of those that ended."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(name)], spent[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
    here = os.getpid()

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != here:
            pid = parents[pid]
        return pid == here

    return sum(ticks for pid, ticks in spent.items() if is_ours(pid)) / _TICKS


def main(folder: Path) -> None:
    """Writes ``tests/measures.txt`` from records. A file that has no record keeps its line, if it exists."""
    measures = {name: one for name, one in read().items() if (_ROOT / name).exists()}
    for path in folder.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            name, *values = json.loads(line)
            measures[name] = Measure(*values)
    write(measures)
