"""A crew of workers for one test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.forked_command import PipedProcess
from tests.stores.conftest import new_root

_PAIRS: Final = "delivered", "settled"


@dataclass
class Report:
    """What a worker has done: keys sent, and keys with their delivery counts. See ``worker.py``."""

    sent: list[str] = field(default_factory=list)
    delivered: list[tuple[str, int]] = field(default_factory=list)
    settled: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class Crew:
    """Starts workers in processes of their own, and ends those that are left.

    Args:
        root: that they share.
    """

    root: Path
    running: list[PipedProcess] = field(default_factory=list)

    def start(self, role: str, destination: str, **options: Any) -> PipedProcess:
        """Returns a worker that is ready and waits for :meth:`go`."""
        words = self.root, role, destination, json.dumps({"name": str(len(self.running)), **options})
        worker = PipedProcess(*words, script="from tests.contention.worker import main\nmain()")
        self.running.append(worker)
        assert worker.stdout.readline() == "ready\n"
        return worker

    @staticmethod
    def go(workers: Sequence[PipedProcess]) -> list[Report]:
        """Lets workers begin together, and returns what they did."""
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        reports = []
        for worker in workers:
            out, errors = worker.communicate(timeout=240)
            assert worker.wait() == 0, errors
            told = json.loads(out)
            delivered, settled = ([(key, number) for key, number in told.get(name, ())] for name in _PAIRS)
            reports.append(Report(told.get("sent", []), delivered, settled))
        return reports

    def run(self, role: str, destination: str, **options: Any) -> Report:
        """Runs a worker from its start to its end."""
        return self.go([self.start(role, destination, **options)])[0]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Crew]:
    with new_root(tmp_path) as directory:
        crew = Crew(directory / "root")
        try:
            yield crew
        finally:
            for worker in crew.running:
                worker.end()
