"""All tests, or those of one folder, in several processes of pytest side by side. ``script/test`` uses it.

The figures of ``tests/measures.txt`` balance the shards: each gets files of about the same number of seconds.
A file without a figure counts as an average one. Files of one folder in :data:`TOGETHER` share a Java, and
files with a browser share that, so one shard gets them all. The output of a shard comes line by line.
Failures are told when the shard has ended.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests import measures

ROOT: Final = measures.FILE.parents[1]
TOGETHER: Final = ("tests/lake", "tests/spark")
"""Folders whose tests share something that takes long to start."""
WITHOUT_COVERAGE: Final = ("tests/crash", "tests/crash_states", "tests/crashing", "tests/lake", "tests/spark")
"""Folders whose tests run the product in other processes only, or hand functions of this process to Spark."""
SERVERS: Final = "tests/servers"

_CORES: Final = os.cpu_count() or 1
_SHARDS: Final = 3 * _CORES
"""Three for each core, because a shard waits for other processes more than half of its time."""
_SERVER_SHARDS: Final = 3 * _CORES
"""The same: most tests with brokers wait for time to pass, as a broker without an answer does."""
_BROWSER: Final = "browser.py"
"""The end of the names of files whose tests share a browser."""
_PROGRESS: Final = re.compile(r"^tests/\S+ .*\[ *\d+%\]$")
_COUNTS: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected)\b")
_SUMMARY: Final = re.compile(r"^=.* in [\d.]+s")
_GREEN: Final = (0, 5)
"""All tests have passed, or all that were found are slow."""
_SLIPCOVER: Final = (
    *("-W", "ignore::RuntimeWarning:slipcover.importer"),
    *("-m", "slipcover", "--branch", "--source", "connector", "--json"),
)
"""A tool that measures each line only once: a tracer takes two to three times as long."""


class Shard:
    """One process of pytest, and a thread that reads its output.

    Args:
        paths: of the tests.
        options: of pytest.
        coverage: file for the coverage. None = not measured.
    """

    def __init__(self, paths: Sequence[str], options: Sequence[str], coverage: Path | None) -> None:
        measured = (*_SLIPCOVER, "--out", str(coverage)) if coverage else ()
        self._told: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, *measured, "-m", "pytest", "-p", "no:cacheprovider", *options, *paths],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                if _PROGRESS.match(line):
                    print(line, end="", flush=True)
                else:
                    self._told.append(line)

    def wait(self) -> tuple[int, list[str]]:
        """Waits for the end. Returns the status and the lines that do not tell of progress."""
        self._reader.join()
        return self._process.wait(), self._told

    def stop(self) -> None:
        """Asks pytest to end, as Ctrl-C does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)


def plan(files: Iterable[str], shards: int) -> list[list[str]]:
    """Distributes test files over shards, so that each takes about as long.

    Args:
        files: relative to the repository.
        shards: at most this number is returned. None of them is empty.
    """
    known = measures.read()
    usual = statistics.mean(one.seconds for one in known.values()) if known else 1.0
    units: dict[str, list[str]] = {}
    for file in files:
        together = next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)
        together = _BROWSER if file.endswith(_BROWSER) else together
        units.setdefault(together, []).append(file)
    weights = {
        unit: sum(known[file].seconds if file in known else usual for file in inside)
        for unit, inside in units.items()
    }
    planned: list[tuple[float, list[str]]] = [(0.0, []) for _ in range(shards)]
    for unit in sorted(units, key=lambda unit: (-weights[unit], unit)):
        lightest = min(range(shards), key=lambda number: planned[number][0])
        weight, chosen = planned[lightest]
        planned[lightest] = weight + weights[unit], [*chosen, *units[unit]]
    return [sorted(chosen) for _, chosen in planned if chosen]


def files_of(folder: str) -> list[str]:
    """Returns the test files of a folder, without those of tests/servers."""
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("test_*.py"))
    return [name for name in found if not name.startswith(f"{SERVERS}/") or folder.startswith(SERVERS)]


def _browser() -> list[str]:
    """Returns the test files that need a browser."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob(f"*{_BROWSER}"))


def room(name: str) -> str | None:
    """Returns the folder of tests for a folder of the product or of tests.

    Args:
        name: ``connector/events``, ``tests/events`` or ``events``.

    Returns:
        The nearest folder that exists. None = there is no such folder.
    """
    parts = [part for part in Path(name).parts if part != "."]
    if parts[:1] in (["connector"], ["tests"]):
        parts = parts[1:]
    while parts and not ROOT.joinpath("tests", *parts).is_dir():
        parts = parts[:-1]
    return "/".join(["tests", *parts]) if parts else None


def run(parts: Sequence[Sequence[str]], options: Sequence[str], coverage: Path | None) -> int:
    """Runs shards side by side and tells their results. Returns 0 if all tests passed."""
    began = time.monotonic()
    with ExitStack() as stack:
        shards = []
        for number, paths in enumerate(parts):
            measured = None
            if coverage and not paths[0].startswith(WITHOUT_COVERAGE):
                measured = coverage / f"{began:.0f}-{number}.json"
            shards.append(Shard(paths, options, measured))
            stack.callback(shards[-1].stop)
        ended = [shard.wait() for shard in shards]
    counts = {"passed": 0, "failed": 0}
    for status, told in ended:
        if status not in _GREEN:
            print("".join(told))
        for number, what in _COUNTS.findall(next(filter(_SUMMARY.match, reversed(told)), "")):
            word = "failed" if what.startswith("error") else what
            counts[word] = counts.get(word, 0) + int(number)
    print(f"{len(ended)} shards, {time.monotonic() - began:.0f} s:")
    print(", ".join(f"{number} {what}" for what, number in counts.items()), flush=True)
    return max((0 if status in _GREEN else abs(status) for status, _ in ended), default=0)


def _parts(coverage: bool, files: list[str]) -> list[list[str]]:
    """Returns the shards of a whole run. Coverage keeps tests that cannot be measured apart."""
    if not coverage:
        return plan(files, _SHARDS)
    apart = [file for file in files if file.startswith(WITHOUT_COVERAGE)]
    return plan(apart, _SHARDS // 2) + plan([file for file in files if file not in apart], _SHARDS // 2)


def main(arguments: Sequence[str]) -> int:
    """Runs the tests that the arguments ask for, and returns the status of the process.

    Arguments that are not of this command are for pytest, which then takes this process over.
    """
    parser = argparse.ArgumentParser(prog="script/test", allow_abbrev=False)
    parser.add_argument("folder", nargs="?", help="connector/events: the tests of a room, without slow ones")
    parser.add_argument("--all", action="store_true", help="the slow tests of the folder, too")
    parser.add_argument(
        "--servers", action="store_true", help="also those with real brokers and a Spark cluster"
    )
    parser.add_argument("--browser", action="store_true", help="also those with a browser")
    parser.add_argument("--measure", action="store_true", help="write tests/measures.txt")
    asked, others = parser.parse_known_args(arguments)
    folder = room(asked.folder) if asked.folder and Path(ROOT, asked.folder).suffix != ".py" else None
    if others or (asked.folder and folder is None):
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])
    options = ["-p", "tests.unsteady"] if "TEST_RECORDS" in os.environ else []
    if folder is not None:
        options += [] if asked.all else ["-m", "not slow"]
        options += ["--servers"] if folder.startswith(SERVERS) else []
        return run(plan(files_of(folder), _SHARDS), options, None)
    with tempfile.TemporaryDirectory() as scratch:
        coverage = Path(scratch) if os.environ.get("COVERAGE") else None
        if asked.measure:
            os.environ["TEST_MEASURES"] = scratch
            options += ["-p", "tests.measures"]
        status = run(_parts(bool(coverage), files_of("tests")), options, coverage)
        subprocess.run([sys.executable, "-m", "benchmarks.way", "dropbox"], cwd=ROOT, check=False)
        apart = [*(files_of(SERVERS) if asked.servers else ()), *(_browser() if asked.browser else ())]
        if apart:  # on their own: beside the others, two cores have too much to do
            status = run(plan(apart, _SERVER_SHARDS), [*options, "--servers"], coverage) or status
        if asked.measure:
            measures.main(Path(scratch))
        if coverage:
            _show(coverage)
    return status


def _show(coverage: Path) -> None:
    """Shows which lines and branches have not run in the processes of the tests themselves."""
    merged = [
        sys.executable,
        "-m",
        "slipcover",
        "--branch",
        "--skip-covered",
        "--out",
        str(coverage / "merged"),
    ]
    done = subprocess.run(
        [*merged, "--merge", *map(str, coverage.glob("*.json"))], capture_output=True, text=True, check=False
    )
    print("\n".join(line[:110] for line in done.stdout.splitlines() if not line.startswith(" ")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
