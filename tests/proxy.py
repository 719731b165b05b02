"""A way to a server that can fall silent, as a network does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Final


class Proxy:
    """Forwards connections to a port of this machine.

    Args:
        target: the port.
    """

    def __init__(self, target: int) -> None:
        self._target: Final = target
        self._is_silent = threading.Event()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: Final[int] = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def fall_silent(self) -> None:
        """Swallows what comes from now on, and ends no connection."""
        self._is_silent.set()

    def cut(self) -> None:
        """Ends all connections, and forwards those that come from now on."""
        self._is_silent.clear()
        with self._lock:
            ended, self._open = self._open, []
        for one in ended:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self) -> None:
        """Ends everything."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open += [client, server]
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self._is_silent.is_set():
                    to.sendall(data)
        if not self._is_silent.is_set():  # also after a reset, which a killed process leaves
            for one in (source, to):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """A proxy that ends with the test."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
