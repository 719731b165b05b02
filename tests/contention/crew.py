"""Workers in processes of their own over one root, and their ledgers."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.contention.ledger import Ledger
from tests.forked_command import PipedProcess

_WORKER = "import sys\nfrom tests.contention.worker import main\nsys.exit(main())"


@dataclass
class Report:
    """What a worker said at its end.

    Args:
        count: messages sent, or settled.
        recovered: claims taken over from the dead.
        seconds: without the time in which nothing came any more.
        races, race_seconds: claims that came too late, where they were counted.
    """

    count: int
    recovered: int
    seconds: float
    races: int = 0
    race_seconds: float = 0.0


@dataclass
class Crew:
    """Starts workers and ends those that are left.

    Args:
        directory: with the root and the ledgers.
    """

    directory: Path
    running: list[PipedProcess] = field(default_factory=list)
    started: int = 0

    @property
    def root(self) -> Path:
        return self.directory / "root"

    def start(
        self, role: str, destination: str, *options: object, fault: str = "", ledger: str = ""
    ) -> PipedProcess:
        """A worker that is ready and waits for :meth:`go`; one with a fault may be dead by then."""
        self.started += 1
        name = f"{self.started}"
        log = self.directory / f"{ledger or destination.rpartition('/')[2]}.{name}.ledger"
        words = (self.root, log, role, destination, "--name", name, *options)
        worker = PipedProcess(*words, script=_WORKER, CONNECTOR_FAULT=fault)
        self.running.append(worker)
        assert worker.stdout.readline() == "ready\n" or fault
        return worker

    @staticmethod
    def go(workers: Sequence[PipedProcess]) -> None:
        """Lets workers begin together."""
        for worker in workers:
            try:
                worker.stdin.write("go\n")
                worker.stdin.flush()
            except BrokenPipeError:
                pass  # killed before it could begin

    def wait(self, worker: PipedProcess, timeout: float = 120.0) -> Report | None:
        """What a worker did; None where it was killed."""
        out, errors = worker.communicate(timeout=timeout)
        self.running.remove(worker)
        status = worker.wait()
        if status < 0:
            return None
        assert status == 0, f"a worker ended with status {status}: {errors}"
        count, recovered, seconds, races, race_seconds = out.split()
        return Report(int(count), int(recovered), float(seconds), int(races), float(race_seconds))

    def run(
        self, role: str, destination: str, *options: object, fault: str = "", ledger: str = ""
    ) -> Report | None:
        """A worker, from its start to its end."""
        worker = self.start(role, destination, *options, fault=fault, ledger=ledger)
        self.go([worker])
        return self.wait(worker)

    def ledger(self, name: str, *senders: str) -> Ledger:
        """All that was done at a destination or subscription, and what was sent to ``senders``."""
        names = (name, *senders)
        return Ledger.read(path for n in names for path in self.directory.glob(f"{n}.*.ledger"))

    def files(self, *folders: str) -> list[str]:
        """Names in folders of the root."""
        return [name for folder in folders for name in os.listdir(self.root / folder)]

    def end(self) -> None:
        for worker in self.running:
            worker.end()


@contextmanager
def crew(where: Path | None = None) -> Iterator[Crew]:
    """A crew over a root of its own, in memory unless told otherwise; it is gone at the end."""
    shared = Path("/dev/shm")
    in_memory = shared.is_dir() and os.access(shared, os.W_OK | os.X_OK)
    base = where or (shared if in_memory else None)
    directory = Path(tempfile.mkdtemp(prefix="connector-contention-", dir=base))
    workers = Crew(directory)
    try:
        yield workers
    finally:
        workers.end()
        shutil.rmtree(directory, ignore_errors=True)
