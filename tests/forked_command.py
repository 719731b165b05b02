"""The command ``connector``, forked from a process that has imported it already.

Imports are nine tenths of the processor time of a short run without Spark. So one server a test run imports
all and forks a child for each start. The child has its own session, directory, environment and streams.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from connector.cli.__main__ import main
from tests import without_java

_REPOSITORY: Final = Path(__file__).resolve().parents[1]
_MARK: Final = "CRASH_TEST_RUN"
_NO_MARK: Final = "-" * 32
_LARGEST_REQUEST: Final = 100_000
_PACKAGES: Final = (
    "connector.broker.destination",
    "connector.broker.process",
    "connector.cli",
    "connector.providers.dropbox",
    "connector.providers.sql",
    "connector.requests",
    "connector.spark",
    "connector.state",
)
"""Packages of which the server imports every module."""
_MODULES: Final = (
    "connector.testing.pipeline",
    "connector.events.runner",
    "connector.datahandlers.json_handler",
    "psycopg",
    "pyspark.sql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
)


class ForkedProcess:
    """A started command, as :class:`subprocess.Popen` shows it.

    Args:
        arguments: of ``connector``.
        cwd: its directory.
        env: its environment.
        stdout, stderr: open files that it writes to.
        java: False = ``run`` uses no Spark (see :mod:`tests.without_java`).
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        java: bool = False,
    ) -> None:
        self._server = _Server.get()
        request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "java": java}
        self.pid: int = self._server.ask(request, [stdout, stderr])
        self.returncode: int | None = None
        self._descriptor = os.pidfd_open(self.pid)  # the server collects nobody unasked

    def poll(self) -> int | None:
        """The exit status. A signal is a negative number. None = the process runs."""
        return self._await(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the exit status.

        Raises:
            subprocess.TimeoutExpired: the process still runs.
        """
        status = self._await(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("connector", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Sends a signal to a process that has not ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def _await(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            if ended.poll(None if seconds is None else seconds * 1000):
                os.close(self._descriptor)
                self.returncode = self._server.ask({"ended": self.pid})
        return self.returncode


def run(arguments: Sequence[str], *, cwd: Path, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        env = {**os.environ, "PYTHONPATH": str(_REPOSITORY)}
        process = ForkedProcess(arguments, cwd=cwd, env=env, stdout=out.fileno(), stderr=err.fileno())
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
        texts = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess(list(arguments), status, *texts)


class _Server:
    """The server of this process."""

    _shared: _Server | None = None

    @classmethod
    def get(cls) -> _Server:
        if cls._shared is None:
            cls._shared = cls()
        return cls._shared

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked_command", str(theirs.fileno())],
            cwd=_REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(_REPOSITORY), _MARK: _NO_MARK},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        atexit.register(self._stop)

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        """Sends a request and returns the answer: a process id, or an exit status."""
        socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
        answer = self._channel.recv(_LARGEST_REQUEST)
        assert answer, "the server of commands has ended"
        return int(answer)

    def _stop(self) -> None:
        self._channel.close()
        self._process.wait(10)


def _serve(channel: socket.socket) -> dict[str, Any]:
    """Answers requests until the tests end. Returns in a child, with the request that it is for."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, _LARGEST_REQUEST, 2)
        if not data:
            sys.exit(0)
        request: dict[str, Any] = json.loads(data)
        if pid := request.get("ended"):
            _, status = os.waitpid(pid, 0)
            channel.send(b"%d" % os.waitstatus_to_exitcode(status))
            continue
        pid = os.fork()
        if pid == 0:
            channel.close()
            _become(request, descriptors)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(b"%d" % pid)


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Makes of a child of the server what a new process would be."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    _write_mark(request["env"].get(_MARK, _NO_MARK))
    os.environ.clear()
    os.environ.update(request["env"])
    importlib.reload(sys.modules["connector.faults"])  # it reads the environment


def _write_mark(mark: str) -> None:
    """Changes the first environment of this process, by which the tests find it and its children in /proc."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    assert len(mark) == len(_NO_MARK)
    ctypes.memmove(getenv(_MARK.encode()), mark.encode(), len(mark))


def _import_all() -> None:
    for package in _PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    for name in _MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["connector", *command["arguments"]]
    if command["java"]:
        main()
    else:
        without_java.start()
