"""A way to a broker that loses the connection in a commit of an AMQP transaction."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Final, Literal

_DISCHARGE: Final = b"\x00\x53\x32"
"""Begin of the descriptor of ``discharge`` (AMQP 1.0, 4.5.6), with a small unsigned number."""
_HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"
"""A frame without content (AMQP 1.0, 2.4.5)."""
_COMMITS: Final = 0.5
"""Seconds in which the broker commits."""
_KEEP: Final = 0.2
"""Seconds between the frames that keep a connection."""

When = Literal["before", "after", "late"]


class CommitProxy:
    """Forwards connections to a port of this machine.

    Args:
        target: the port.
    """

    def __init__(self, target: int) -> None:
        self._target: Final = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: Final[int] = self._listener.getsockname()[1]
        self._when: When | None = None
        self._behind = b""
        self._held: tuple[socket.socket, bytes] | None = None
        self._lock = threading.Lock()
        self.cuts = 0
        """Number of lost connections."""
        self.heartbeats = {"client": 0, "broker": 0}
        """Number of frames without content, by sender."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self, when: When, *, behind: str) -> None:
        """Loses the connection in the next commit of a connection on which the client has sent a text.

        Args:
            when: ``before`` the broker gets the commit, or ``after`` it, without the answer. ``late`` = the
                broker gets the commit with :meth:`deliver`, and until then its connection lives.
            behind: the text.
        """
        with self._lock:
            self._when, self._behind = when, behind.encode()

    def deliver(self) -> None:
        """Lets the broker have a late commit, and then ends its connection."""
        broker, data = self._late()
        broker.sendall(data)
        time.sleep(_COMMITS)
        _end(broker)

    def drop(self) -> None:
        """Ends the broker's connection without the late commit."""
        _end(self._late()[0])

    def _late(self) -> tuple[socket.socket, bytes]:
        with self._lock:
            assert self._held is not None
            held, self._held = self._held, None
        return held

    def _keep(self) -> None:
        """Runs in a thread of its own: lets the broker believe that the client of a late commit lives."""
        while True:
            with self._lock:
                if self._held is None:
                    return
                self._held[0].sendall(_HEARTBEAT)
            time.sleep(_KEEP)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._held is not None:
            self.drop()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if self._listener.fileno() < 0:
                    return
                continue
            silent = threading.Event()
            threading.Thread(target=self._to_broker, args=(client, broker, silent), daemon=True).start()
            threading.Thread(target=self._to_client, args=(broker, client, silent), daemon=True).start()

    def _to_broker(self, client: socket.socket, broker: socket.socket, silent: threading.Event) -> None:
        sent = b""
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self.heartbeats["client"] += data.count(_HEARTBEAT)
                sent += data
                when = self._fatal(data, sent)
                if when is not None:
                    silent.set()
                    if when == "late":
                        self._held = broker, data
                        threading.Thread(target=self._keep, daemon=True).start()
                        self.cuts += 1
                        _end(client)
                        return
                    if when == "after":
                        broker.sendall(data)
                        time.sleep(_COMMITS)
                    self.cuts += 1
                    break
                broker.sendall(data)
        _end(client)
        _end(broker)

    def _to_client(self, broker: socket.socket, client: socket.socket, silent: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(1 << 16):
                self.heartbeats["broker"] += data.count(_HEARTBEAT)
                if not silent.is_set():
                    client.sendall(data)
        _end(client)
        _end(broker)

    def _fatal(self, data: bytes, sent: bytes) -> When | None:
        """Returns when the connection is to be lost. None = now is no time for it."""
        with self._lock:
            if self._when is None or _DISCHARGE not in data or self._behind not in sent:
                return None
            when, self._when = self._when, None
            return when


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
