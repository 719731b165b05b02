"""Tests that failed once are run once more, alone. ``.ci/run`` uses this module.

As a pytest plug-in (``-p tests.unsteady``) the module records a run in the directory ``$TEST_RECORDS``. As a
program (``python -m tests.unsteady DIRECTORY STATUS``) it reads the records of all runs and decides:

* Tests that never began, because their run died in another test, are run now. This is their first run.
* Each failed test is run again in a process of its own. A test in which its run died has failed.
* If each of them passes, the result is 0. The last lines name them: ``UNSTEADY TEST FIRST FAILURE``.
* If one fails again, or more than :data:`MOST` have failed, the result is 1.

The time of a test has a limit of its own. What hangs before, between or after the tests is ended by the
plug-in, which shows what each thread does.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

MOST: Final = 3
"""Number of unsteady tests that a run may have."""

_RUN_SECONDS: Final = 2700
"""Of a whole run, at most. The longest takes half of it on two cores."""
_EXIT_SECONDS: Final = 60.0
"""From the end of the last test to the end of the process, at most."""
_FOLDER: Final = "TEST_RECORDS"
_LONGEST: Final = 500
_ERRORS: Final = os.dup(2)
"""Standard error before pytest captures it."""


def _record(what: str, value: object) -> None:
    """Appends a line to the record of this process."""
    line = json.dumps([what, value]) + "\n"
    descriptor = os.open(
        Path(os.environ[_FOLDER], f"{os.getpid()}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND
    )
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _record("broken", f"{report.nodeid}: {_first_failure(report)}")


def pytest_collection_finish(session: pytest.Session) -> None:
    _record("collected", [item.nodeid for item in session.items])


def pytest_runtest_logstart(nodeid: str) -> None:
    _record("begin", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _record("failed", [report.nodeid, _first_failure(report)])


def pytest_runtest_logfinish(nodeid: str) -> None:
    _record("end", nodeid)


def pytest_configure() -> None:
    faulthandler.dump_traceback_later(_RUN_SECONDS, exit=True, file=_ERRORS)


def pytest_sessionfinish(exitstatus: int) -> None:
    _record("finished", int(exitstatus))
    leaving = threading.Timer(_EXIT_SECONDS, _leave, (int(exitstatus),))
    leaving.daemon = True
    leaving.start()


def _leave(status: int) -> None:
    """Ends a process that does not end, perhaps because of a thread of Python or Java."""
    os.write(_ERRORS, b"The tests have ended, and their process goes on:\n")
    faulthandler.dump_traceback(_ERRORS)
    os._exit(status)


def _first_failure(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Returns the exception of a report and its place, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = f"{crash.message} ({crash.path}:{crash.lineno})" if crash is not None else report.longreprtext
    return " ".join(text.split())[:_LONGEST]


@dataclass
class Records:
    """What the runs of a directory have recorded.

    Args:
        failures: the first failure of each failed test.
        waiting: tests that never began.
        broken: reasons for which no second run can help.
    """

    failures: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Records:
        """Reads the records of a directory."""
        records = cls()
        collected: dict[str, None] = {}  # in order
        ended: set[str] = set()
        for path in sorted(folder.glob("*.jsonl")):
            current = status = None
            tests = None
            for line in path.read_text().splitlines():
                what, value = json.loads(line)
                if what == "collected":
                    tests = dict.fromkeys(value)
                elif what == "begin":
                    current = value
                elif what == "end":
                    ended.add(value)
                    current = None
                elif what == "failed":
                    records.failures.setdefault(*value)
                elif what == "broken":
                    records.broken.append(value)
                elif what == "finished":
                    status = value
            collected |= tests or {}
            if tests is None and not records.broken:
                records.broken.append("a test run ended before it had collected its tests")
            if current is not None:
                ended.add(current)
                records.failures.setdefault(current, "the test run ended in this test, perhaps by a time-out")
            elif (
                status not in (None, pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not records.broken
            ):
                records.broken.append(f"a test run ended with status {status}")
        records.waiting = [test for test in collected if test not in ended]
        return records


def decide(folder: Path, status: int, arguments: list[str]) -> int:
    """Runs again what has failed, and returns the status of the whole.

    Args:
        folder: with the records of all runs.
        status: of the command that started these runs.
        arguments: for each pytest that is started.
    """
    records = Records.read(folder)
    if records.waiting and not records.broken and len(records.failures) <= MOST:
        print(f"{len(records.waiting)} tests have not run, because their run ended early. They run now:")
        names = folder / "waiting"
        names.write_text("\n".join(records.waiting))
        _pytest(folder, [*arguments, f"@{names}"])
        records = Records.read(folder)
    if records.waiting:
        records.broken.append(f"{len(records.waiting)} tests have not run")
    if status and not records.failures and not records.broken:
        records.broken.append(f"the tests ended with status {status}, and no test has failed")
    failed = list(records.failures)
    if not records.broken and len(failed) <= MOST:
        failed = [nodeid for nodeid in failed if _pytest(None, [*arguments, nodeid])]
    for reason in records.broken:
        print(f"BROKEN {reason}")
    for nodeid, failure in records.failures.items():
        print(f"{'FAILED' if nodeid in failed else 'UNSTEADY'} {nodeid} {failure}")
    if len(records.failures) > MOST:
        print(f"{len(records.failures)} tests have failed, and at most {MOST} may be unsteady.")
    return 1 if failed or records.broken else 0


def _pytest(folder: Path | None, arguments: list[str]) -> int:
    """Runs pytest, with records in a directory if one is given, and returns its status."""
    sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if name != _FOLDER}
    options = ["-p", "no:cacheprovider"]
    if folder is not None:
        environment[_FOLDER] = str(folder)
        options += ["-p", "tests.unsteady"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments], env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(decide(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
