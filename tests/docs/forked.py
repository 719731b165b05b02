"""`connector` and `python` for a shell: a small program asks the test, which forks what the shell wants.

The program stands for the command in the shell. It passes on signals, and it ends as the command does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Final, Self

from tests.forked_command import ForkedProcess

_LARGEST_REQUEST: Final = 100_000
_CLIENT: Final = """\
import json, os, signal, socket, sys

asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asked.connect(sys.argv[1])
request = {"program": sys.argv[2], "arguments": sys.argv[3:], "cwd": os.getcwd(), "env": dict(os.environ)}
signals = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
socket.send_fds(asked, [json.dumps(request).encode()], [0, 1, 2])
pid = int(asked.recv(100))
for number in signals:
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, lambda number, _: os.kill(pid, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
status = int(asked.recv(100))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


RUN_PYTHON: Final = """\
import os, runpy, sys

del sys.argv[0]
if sys.argv[0] == "-m":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""What ``python FILE`` and ``python -m MODULE`` do, in a fork."""


class Forks:
    """A thread that forks the commands of shells.

    Args:
        directory: where the program is written, and its socket is.
    """

    def __init__(self, directory: Path) -> None:
        self._client = directory / "client.py"
        self._client.write_text(_CLIENT, "utf-8")
        self._address = directory / "socket"
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(str(self._address))
        self._listening.listen()
        self._ended, self._end = socket.socketpair()
        self._commands: dict[int, tuple[ForkedProcess, socket.socket]] = {}  # by a descriptor of the process
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the commands that still run."""
        self._end.close()
        self._thread.join()
        self._ended.close()
        self._listening.close()

    @property
    def command(self) -> str:
        """A shell's words that stand for ``connector``."""
        return self._words("connector")

    @property
    def python(self) -> str:
        """A shell's words that stand for ``python``, in front of a file, or of ``-m`` and a module."""
        return self._words("python")

    def _words(self, program: str) -> str:
        return f'"{sys.executable}" -I -S "{self._client}" "{self._address}" {program}'

    def _serve(self) -> None:
        try:
            while True:
                clients = {client.fileno(): pid for pid, (_, client) in self._commands.items()}
                waited: list[socket.socket | int] = [self._ended, self._listening, *self._commands, *clients]
                ready, _, _ = select.select(waited, [], [])
                if self._ended in ready:
                    return
                for descriptor in ready:
                    if descriptor is self._listening:
                        self._start(self._listening.accept()[0])
                    elif descriptor in clients and clients[descriptor] in self._commands:
                        process, _ = self._commands[clients[descriptor]]
                        process.send_signal(signal.SIGKILL)  # the client is gone
                        self._finish(clients[descriptor])
                    elif descriptor in self._commands:
                        self._finish(descriptor)
        finally:
            for descriptor, (process, _) in list(self._commands.items()):
                process.send_signal(signal.SIGKILL)
                self._finish(descriptor)

    def _start(self, client: socket.socket) -> None:
        data, streams, _, _ = socket.recv_fds(client, _LARGEST_REQUEST, 3)
        request = json.loads(data)
        process = ForkedProcess(
            request["arguments"],
            cwd=Path(request["cwd"]),
            env=request["env"],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            script=RUN_PYTHON if request["program"] == "python" else None,
        )
        for stream in streams:
            os.close(stream)
        self._commands[os.pidfd_open(process.pid)] = process, client
        client.send(b"%d" % process.pid)

    def _finish(self, descriptor: int) -> None:
        process, client = self._commands.pop(descriptor)
        status = process.wait()
        os.close(descriptor)
        with client, contextlib.suppress(BrokenPipeError):
            client.send(b"%d" % status)
