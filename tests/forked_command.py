"""Commands and scripts in processes that are forked from one that has imported the product already.

Imports are nine tenths of the processor time of a short run without Spark. So one server a test run imports
all and forks a child for each start. The child has its own session, directory, environment and streams. The
server has one thread and nothing open, because a child would share the connections and lack the threads.
"""

from __future__ import annotations

import atexit
import contextlib
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
import threading
import types
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import jpype

from connector.cli.__main__ import main
from tests import without_java

_REPOSITORY: Final = Path(__file__).resolve().parents[1]
_MARK: Final = "CRASH_TEST_RUN"
_NO_MARK: Final = "-" * 32
_LARGEST_REQUEST: Final = 100_000
_INSTALLED: Final = tuple(sys.path[2:])
"""Where Python finds modules besides the directory and the PYTHONPATH, as the server sees it."""
_PACKAGES: Final = (
    "connector.sinks.destination",
    "connector.sinks.process",
    "connector.sinks.webhook",
    "connector.cli",
    "connector.core",
    "connector.events.claim",
    "connector.events.run",
    "connector.events.settle",
    "connector.stores.engine",
    "connector.brokers.engine",
    "connector.brokers.jars",
    "connector.messaging",
    "connector.stores.dropbox",
    "connector.brokers.jms",
    "connector.stores.memory",
    "connector.stores.sql",
    "connector.requests",
    "connector.spark",
    "connector.state",
)
"""Packages of which the server imports every module."""
_MODULES: Final = (
    "connector.testing.pipeline",
    "connector.events.run.runner",
    "connector.datahandlers.json_handler",
    "connector.sinks.webhook.connection",
    "psycopg",
    "pydantic.type_adapter",
    "pytest",
    "pyspark.sql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "tests.contention.worker",
    "tests.channels.world",
    "tests.forked_pipeline",
    "tests.requests.caller",
)


class ForkedProcess:
    """A started process, as :class:`subprocess.Popen` shows it.

    Args:
        arguments: of ``connector``, or of the script.
        cwd: its directory.
        env: its environment.
        stdout, stderr: open files that it writes to.
        stdin: an open file that it reads. None = it reads nothing.
        java: False = ``run`` uses no Spark (see :mod:`tests.without_java`).
        script: Python code that runs in place of ``connector``, as ``python -c`` runs it.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        stdin: int | None = None,
        java: bool = False,
        script: str | None = None,
    ) -> None:
        self._server = _Server.get()
        request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
        streams = [stdout, stderr] if stdin is None else [stdin, stdout, stderr]
        self.pid: int = self._server.ask({**request, "java": java, "script": script}, streams)
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

    def kill(self) -> None:
        """Sends SIGKILL to a process that has not ended."""
        self.send_signal(signal.SIGKILL)

    def _await(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            if ended.poll(None if seconds is None else seconds * 1000):
                os.close(self._descriptor)
                self.returncode = self._server.ask({"ended": self.pid})
        return self.returncode


class PipedProcess(ForkedProcess):
    """A forked process with pipes for its input, its output and its errors.

    Args:
        arguments: of ``connector``, or of the script.
        cwd: its directory. None = the current one.
        script: as of :class:`ForkedProcess`.
        stderr: an open file for its errors. None = a pipe.
        environment: variables that it has besides those of this process.
    """

    def __init__(
        self,
        *arguments: object,
        cwd: Path | None = None,
        script: str | None = None,
        stderr: int | None = None,
        **environment: str,
    ) -> None:
        pipes = [os.pipe() for _ in range(3)]
        self.stdin = open(pipes[0][1], "w", encoding="utf-8")  # noqa: SIM115, communicate closes all
        self.stdout, self.stderr = (open(pipe[0], encoding="utf-8") for pipe in pipes[1:])  # noqa: SIM115
        self._reading: list[Future[str]] = []
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        try:
            super().__init__(
                list(map(str, arguments)),
                cwd=cwd or Path.cwd(),
                env={**os.environ, "PYTHONPATH": str(_REPOSITORY), **environment},
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2] if stderr is None else stderr,
                script=script,
            )
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the process if it still runs."""
        self.end()

    def communicate(self, text: str = "", timeout: float | None = 60.0) -> tuple[str, str]:
        """Writes to the process and waits for its end. Returns its output and its errors."""
        if not self._reading:
            readers = ThreadPoolExecutor(2)
            self._reading = [readers.submit(_read, stream) for stream in (self.stdout, self.stderr)]
            readers.shutdown(wait=False)
            with contextlib.suppress(BrokenPipeError):
                if text:
                    self.stdin.write(text)
                self.stdin.close()
        self.wait(timeout)
        output, errors = (reading.result(timeout) for reading in self._reading)
        return output, errors

    def end(self) -> None:
        """Kills the process if it still runs."""
        self.kill()
        self.communicate()


def _read(stream: IO[str]) -> str:
    """Reads a stream to its end and closes it. A closed stream has nothing."""
    if stream.closed:
        return ""
    with stream:
        return stream.read()


def run(
    arguments: Sequence[object],
    *,
    cwd: Path,
    text: str = "",
    timeout: float = 60.0,
    script: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command or a script to its end."""
    with PipedProcess(*arguments, cwd=cwd, script=script) as process:
        texts = process.communicate(text, timeout)
    return subprocess.CompletedProcess(list(map(str, arguments)), process.wait(), *texts)


class _Server:
    """The server of this process."""

    _shared: _Server | None = None

    @classmethod
    def get(cls) -> _Server:
        if cls._shared is None:
            cls._shared = cls()
        return cls._shared

    def __init__(self) -> None:
        self._lock = threading.Lock()
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
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
            answer = self._channel.recv(_LARGEST_REQUEST)
        assert answer, "the server has ended"
        return int(answer)

    def _stop(self) -> None:
        self._channel.close()
        self._process.wait(120)


def _serve(channel: socket.socket) -> dict[str, Any]:
    """Answers requests until the tests end. Returns in a child, with the request that it is for."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, _LARGEST_REQUEST, 3)
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
    for number, descriptor in enumerate(descriptors, 3 - len(descriptors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request["cwd"])
    named = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [request["cwd"], *filter(None, named), *_INSTALLED]
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


def _run(asked: Mapping[str, Any]) -> None:
    """Runs what a request asks for. Without Java it ends the process.

    The end of the interpreter would touch, and so copy, every page that the process shares with the server.
    That took half of the processor time of a short command. Here only what a program can notice is done.
    """
    sys.argv = ["-c" if asked["script"] is not None else "connector", *asked["arguments"]]
    try:
        if asked["script"] is not None:
            _run_script(asked["script"])
        elif asked["java"]:
            main()
        else:
            without_java.start()
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        status = end.code or 0
    else:
        status = 0
    if asked["java"] or jpype.isJVMStarted():
        sys.exit(status)  # how a process with Java ends is worth a test
    threading._shutdown()  # type: ignore[attr-defined] # waits for the threads, as the interpreter does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run_script(code: str) -> None:
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), module.__dict__)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    _run(_serve(socket.socket(fileno=int(sys.argv[1]))))
