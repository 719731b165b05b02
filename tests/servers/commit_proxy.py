"""A way to a broker that loses the connection in a commit of an AMQP transaction."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Final, Literal

_DISCHARGE: Final = b"\x00\x53\x32"
"""Begin of the descriptor of ``discharge`` (AMQP 1.0, 4.5.6), with a small unsigned number."""
_COMMITS: Final = 0.5
"""Seconds in which the broker commits."""


class CommitProxy:
    """Forwards connections to a port of this machine.

    Args:
        target: the port.
    """

    def __init__(self, target: int) -> None:
        self._target: Final = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: Final[int] = self._listener.getsockname()[1]
        self._when: Literal["", "before", "after"] = ""
        self._pass = 0
        self._lock = threading.Lock()
        self.cuts = 0
        """Number of lost connections."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, when: Literal["before", "after"], *, let_pass: int = 0) -> None:
        """Loses the connection in a commit: before the broker gets it, or after it, without the answer.

        Args:
            let_pass: commits that still work.
        """
        with self._lock:
            self._when, self._pass = when, let_pass

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                continue
            silent = threading.Event()
            for source, sink, is_client in ((client, server, True), (server, client, False)):
                arguments = (source, sink, is_client, silent)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(
        self, source: socket.socket, sink: socket.socket, is_client: bool, silent: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if is_client and (when := self._is_fatal(data)):
                    if when == "after":
                        silent.set()
                        sink.sendall(data)
                        time.sleep(_COMMITS)
                    self.cuts += 1
                    break
                if is_client or not silent.is_set():
                    sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _is_fatal(self, data: bytes) -> str:
        if not self._when or _DISCHARGE not in data:
            return ""
        with self._lock:
            if self._pass > 0:
                self._pass -= 1
                return ""
            when, self._when = self._when, ""
            return when
