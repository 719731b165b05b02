"""Deployments whose adapter is a real `connector run` process, and the processes of such a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from connector.service.status_document import StatusReader
from connector.testing.deployment import Deployment
from tests import forked_command
from tests.waiting import is_running, wait_for

REPOSITORY = Path(__file__).resolve().parents[1]
_MARK = "CRASH_TEST_RUN"


class ServiceDeployment(Deployment):
    """A deployment whose adapter runs in processes of its own, which tests stop and kill."""

    java: bool = False
    """False where Spark has no part in what is tested (see :mod:`tests.without_java`)."""
    fresh: bool = False
    """True = a run with Spark starts as `connector` does, False = it is a fork that need not import."""
    recovery: float | None = 1.0
    """Seconds after which a run without Spark looks for dead clients again. None = 10 s, as with Spark."""

    def __init__(self, directory: Path, metaobjects: str, processes: str) -> None:
        super().__init__(directory, metaobjects=metaobjects, processes=processes)
        self.runs: list[Run] = []

    def start(
        self,
        *arguments: str,
        fault: str = "",
        java: bool | None = None,
        verb: str = "run",
        **environment: str,
    ) -> Run:
        """Starts `connector run` in a session of its own.

        Args:
            fault: as in CONNECTOR_FAULT.
            java: instead of that of the deployment.
            verb: of another command.
        """
        faults = self.directory / f"faults.{len(self.runs)}"
        faults.mkdir(exist_ok=True)
        variables = {_MARK: uuid.uuid4().hex, "CONNECTOR_FAULT_DIRECTORY": str(faults), **environment}
        if fault:
            variables["CONNECTOR_FAULT"] = fault
        if self.recovery is not None:
            variables["TEST_RECOVERY_INTERVAL"] = str(self.recovery)
        self.prepare(variables)
        run = Run(self, [verb, *arguments], variables, self.java if java is None else java)
        self.runs.append(run)
        return run

    def prepare(self, variables: Mapping[str, str]) -> None:
        """Is called before each start, with the environment of the run."""

    def drain(self, *, status: int = 0, timeout: float = 120.0) -> Run:
        """Runs `connector run --drain --json` to its end."""
        run = self.start("--drain", "--json")
        found = run.wait(timeout)
        assert found == status, f"status {found}, expected {status}\n{run.errors}"
        return run

    def has_client(self, pid: int) -> bool:
        """Whether a process is a client of the provider."""
        return any(note.pid == pid for note in self.provider.clients())

    def instances(self) -> list[dict[str, Any]]:
        """The instances, as the status shows them."""
        instances: list[dict[str, Any]] = StatusReader(self.configuration, self.provider).read()["instances"]
        return instances

    def close(self) -> None:
        """Ends whatever a failed test has left."""
        for run in self.runs:
            run.kill_everything()


class Run:
    """A `connector run` process and all that descends from it.

    Every descendant inherits a mark in its environment, so that it is found by that even when its
    parent is gone.
    """

    def __init__(
        self,
        deployment: ServiceDeployment,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        java: bool,
    ) -> None:
        self.mark = environment[_MARK]
        self._deployment = deployment
        number = len(deployment.runs)
        self.faults = Path(environment["CONNECTOR_FAULT_DIRECTORY"])
        self._out = deployment.directory / f"stdout.{number}"
        self._err = deployment.directory / f"stderr.{number}"
        variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), **environment}
        self.process: subprocess.Popen[bytes] | forked_command.ForkedProcess
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            if deployment.fresh:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "connector.cli", *arguments],
                    cwd=deployment.directory,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            else:
                self.process = forked_command.ForkedProcess(
                    arguments,
                    cwd=deployment.directory,
                    env=variables,
                    stdout=out.fileno(),
                    stderr=err.fileno(),
                    java=java,
                )
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self._out.read_text("utf-8", "replace")

    @property
    def errors(self) -> str:
        return self._err.read_text("utf-8", "replace")

    @property
    def summary(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        document: dict[str, Any] = json.loads(self.output)
        return document

    def wait(self, timeout: float = 120.0) -> int:
        """The exit status; a signal as its negative number."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {timeout} s\n{self.state()}") from None

    def state(self) -> str:
        """What a failed test shows: the processes, their log, and where each stands that can say so.

        Those without Spark say it (tests/without_java.py). The others end.
        """
        members = self.members()
        commands = "".join(f"{pid} {_command(pid)}\n" for pid in members)
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR2)
        time.sleep(1.0)  # nothing shows when all have written where they stand
        return f"status {self.process.poll()}\n{commands}{self.errors}"

    def members(self) -> list[int]:
        """All living processes of this run, the driver included."""
        return [pid for pid in _marked(self.mark) if is_running(pid)]

    def signal_driver(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ends it in order."""
        self.signal_driver(number)
        assert self.wait() == 0, self.errors

    def signal_parent_of(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the parent of a process, which has to be of this run."""
        self.signal_one(parent_of(pid), number)

    def java(self) -> int | None:
        """The Java process of Spark, the child of the driver; None while there is none."""
        return next((pid for pid in self.members() if parent_of(pid) == self.pid), None)

    def signal_one(self, pid: int, number: int) -> None:
        """Sends a signal to a process of this run."""
        assert pid in self.members()
        _send(pid, number)

    def signal_all(self, number: int, order: Callable[[int], int] = lambda pid: -pid) -> None:
        """Sends a signal to every process of the run, the youngest (JVM and workers) first."""
        for pid in sorted(self.members(), key=order):
            _send(pid, number)

    def kill_everything(self) -> None:
        """SIGKILL to all of it, until nothing is left. The driver first, which else may replace a worker."""

        def is_killed() -> bool:
            self.signal_all(signal.SIGKILL, order=lambda pid: pid)
            self.process.poll()
            return not self.members()

        wait_for(is_killed, 60.0, "all killed")
        self.process.wait(120)

    def kill_while_paused(self, *, whole_group: bool) -> None:
        """SIGKILL to all of it, or to the driver alone: its tasks go on until they end by themselves."""
        if whole_group:
            self.kill_everything()
        else:
            self.signal_driver()
            self.await_gone()

    def await_gone(self, timeout: float = 120.0) -> None:
        """Waits until no process of the run is left. What comes to a named place meanwhile goes on."""

        def is_gone() -> bool:
            self.go_on()
            return not self.members()

        try:
            wait_for(is_gone, timeout)
        except AssertionError:
            raise AssertionError(f"left behind: {[_command(pid) for pid in self.members()]}") from None

    def await_start(self) -> None:
        """Waits until it has connected, which it does when Spark is up."""
        wait_for(
            lambda: self.process.poll() is not None or self._deployment.has_client(self.pid), what="started"
        )

    def await_poll(self) -> None:
        """Waits until its first poll is over, before which it looks for dead clients."""

        def has_polled() -> bool:
            instances = self._deployment.instances()
            return any(one["pid"] == self.pid and one["last_good_poll"] for one in instances)

        wait_for(has_polled, 120, "a good poll")

    def await_text(self, text: str, times: int = 1) -> None:
        """Waits until its errors have a text so often."""
        wait_for(lambda: self.errors.count(text) >= times, 120, lambda: f"{text}: {self.errors}")

    def await_pause(self, place: str) -> None:
        """Waits until one of its processes waits at a named place."""
        wait_for(lambda: self.paused(place) or self.process.poll() is not None, 180, f"at {place}")
        assert self.paused(place), f"ended before it came to {place}\n{self.errors}"

    def go_on(self) -> None:
        """Lets the processes that wait at a named place go on."""
        for mark in self.faults.iterdir():
            mark.unlink()

    def paused(self, place: str) -> list[int]:
        """The processes that wait at a named place."""
        return [int(path.suffix[1:]) for path in self.faults.glob(f"{place}.*")]


def _marked(mark: str) -> list[int]:
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as environment:
                    if wanted in environment.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
    return found


def parent_of(pid: int) -> int:
    """The parent of a process. 0 = the process has ended, as any may that nobody holds."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _command(pid: int) -> str:
    try:
        return f"{pid} {Path(f'/proc/{pid}/cmdline').read_text()[:100]!r}"
    except OSError:
        return str(pid)


def customer(number: int, name: str = "") -> dict[str, str]:
    """The body of a message."""
    return {"BusinessObject": "Customer", "Verb": "Create", "CustomerId": str(number), "Name": name}
