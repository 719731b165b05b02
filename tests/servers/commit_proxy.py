"""A way to a broker that loses the connection in a commit of an AMQP transaction."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Final, Literal

_DISCHARGE: Final = b"\x00\x53\x32"
"""Begin of the descriptor of ``discharge`` (AMQP 1.0, 4.5.6), with a small unsigned number."""
_DISPOSITION: Final = b"\x00\x53\x15"
"""Begin of a disposition (AMQP 1.0, 2.7.6), with which a broker answers each message that it gets."""
_IN_TRANSACTION: Final = b"\x00\x53\x34"
"""Begin of a transactional state (4.5.8). The answer to a commit is the one without."""
_HEARTBEAT: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"
"""A frame without content (AMQP 1.0, 2.4.5)."""
_KEEP: Final = 0.2
"""Seconds between the frames that keep a connection."""
_ANSWER: Final = 120.0
"""Most seconds until the broker answers a commit."""

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
        self._held: tuple[socket.socket, bytes, threading.Event] | None = None
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
        broker, data, answered = self._late()
        _commit(broker, data, answered)
        _end(broker)

    def drop(self) -> None:
        """Ends the broker's connection without the late commit."""
        _end(self._late()[0])

    def _late(self) -> tuple[socket.socket, bytes, threading.Event]:
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
            silent, answered = threading.Event(), threading.Event()
            sending = (client, broker, silent, answered)
            threading.Thread(target=self._to_broker, args=sending, daemon=True).start()
            threading.Thread(target=self._to_client, args=sending, daemon=True).start()

    def _to_broker(
        self, client: socket.socket, broker: socket.socket, silent: threading.Event, answered: threading.Event
    ) -> None:
        sent = b""
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                self.heartbeats["client"] += data.count(_HEARTBEAT)
                sent += data
                when = self._fatal(data, sent)
                if when is not None:
                    silent.set()
                    if when == "late":
                        self._held = broker, data, answered
                        threading.Thread(target=self._keep, daemon=True).start()
                        self.cuts += 1
                        _end(client)
                        return
                    if when == "after":
                        _commit(broker, data, answered)
                    self.cuts += 1
                    break
                broker.sendall(data)
        _end(client)
        _end(broker)

    def _to_client(
        self, client: socket.socket, broker: socket.socket, silent: threading.Event, answered: threading.Event
    ) -> None:
        whole = b""
        with contextlib.suppress(OSError):
            while data := broker.recv(1 << 16):
                self.heartbeats["broker"] += data.count(_HEARTBEAT)
                frames, whole = _frames(whole + data)
                if not silent.is_set():
                    client.sendall(data)
                elif any(_DISPOSITION in one and _IN_TRANSACTION not in one for one in frames):
                    answered.set()
        _end(client)
        _end(broker)

    def _fatal(self, data: bytes, sent: bytes) -> When | None:
        """Returns when the connection is to be lost. None = now is no time for it."""
        with self._lock:
            if self._when is None or _DISCHARGE not in data or self._behind not in sent:
                return None
            when, self._when = self._when, None
            return when


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Returns the whole frames in what a broker has sent, and the rest (AMQP 1.0, 2.2 and 2.3)."""
    found = []
    while len(data) >= 8:
        size = 8 if data.startswith(b"AMQP") else int.from_bytes(data[:4])
        if len(data) < size:
            break
        found.append(data[:size])
        data = data[size:]
    return found, data


def _commit(broker: socket.socket, data: bytes, answered: threading.Event) -> None:
    """Sends a commit, and waits until the broker has answered it."""
    answered.clear()
    broker.sendall(data)
    assert answered.wait(_ANSWER), "the broker did not answer the commit"


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
