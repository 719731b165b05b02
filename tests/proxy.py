"""A way to a server that is cut, falls silent, stands still or is slow, as a network does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Final


class Link:
    """A connection of a client to the server, through a proxy.

    Args:
        client, server: the connections of the proxy with both.
    """

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client: Final = client
        self.server: Final = server

    def request(self, data: bytes) -> None:
        """Passes on what the client has sent. An OSError ends the link."""
        self.server.sendall(data)

    def response(self, data: bytes) -> None:
        """Passes on what the server has sent. An OSError ends the link."""
        self.client.sendall(data)

    def end(self) -> None:
        """Ends the connections of both sides."""
        shut(self.client, self.server)

    def close(self) -> None:
        """Ends the link for good."""
        self.end()
        self.client.close()
        self.server.close()


class Proxy:
    """Forwards connections to a port of this machine.

    Args:
        target: the port.
    """

    def __init__(self, target: int) -> None:
        self._target: Final = target
        self._is_silent = threading.Event()
        self._flows = threading.Event()
        self._flows.set()
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self.refuses = False
        """Whether new connections are closed at once."""
        self.delay = 0.0
        """Seconds for which each piece of data is kept, in both directions."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: Final[int] = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def fall_silent(self) -> None:
        """Swallows what comes from now on, and ends no connection."""
        self._is_silent.set()

    def stall(self) -> None:
        """Keeps what comes from now on."""
        self._flows.clear()

    def go_on(self) -> None:
        """Forwards what was kept, and what comes, without delay."""
        self.delay = 0.0
        self.refuses = False
        self._flows.set()

    def cut(self) -> None:
        """Ends all connections, and forwards those that come from now on."""
        self._is_silent.clear()
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            link.close()
        self._flows.set()

    def close(self) -> None:
        """Ends everything."""
        shut(self._listener)
        self._listener.close()
        self.cut()

    def link(self, client: socket.socket, server: socket.socket) -> Link:
        """Makes the link of a new connection."""
        return Link(client, server)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.refuses:
                    raise ConnectionRefusedError
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            link = self.link(client, server)
            with self._lock:
                self._links.add(link)
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: Link) -> None:
        back = threading.Thread(target=self._forward, args=(link, link.server, link.response), daemon=True)
        back.start()
        self._forward(link, link.client, link.request)
        back.join()
        with self._lock:
            self._links.discard(link)
        link.close()

    def _forward(self, link: Link, source: socket.socket, send: Callable[[bytes], object]) -> None:
        pieces: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        threading.Thread(target=self._read, args=(source, pieces), daemon=True).start()
        with contextlib.suppress(OSError):
            while (piece := pieces.get())[1]:
                due, data = piece
                time.sleep(max(0.0, due - time.monotonic()))  # this proxy is the slow partner
                self._flows.wait()
                if not self._is_silent.is_set():
                    send(data)
        if not self._is_silent.is_set():  # also after a reset, which a killed process leaves
            link.end()

    def _read(self, source: socket.socket, pieces: SimpleQueue[tuple[float, bytes]]) -> None:
        """Reads the pieces of a connection, each with the time when it is due. An empty one is the end."""
        data = b"?"
        while data:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            pieces.put((time.monotonic() + self.delay, data))


def shut(*connections: socket.socket) -> None:
    """Ends connections, so that who waits for their data learns it."""
    for one in connections:
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
