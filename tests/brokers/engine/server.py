"""The broker of these tests in a process of its own, behind a socket.

Each socket connection is a connection of the broker: when the process of a client dies, the broker rolls its
transactions back. It does so before it takes a new client, because the order of messages is kept only when
those of the dead client are there again (docs/how-to/jms-broker.md).
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from connector.brokers.engine.broker import BrokerClient
from connector.messaging.message import Message
from tests.brokers.engine.broker import Broker, BrokerError, BrokerSession, Stored
from tests.brokers.engine.provider import ClientConnection, LentProvider


@contextlib.contextmanager
def serving(broker: Broker, path: Path) -> Iterator[None]:
    """Serves a broker of this process at a Unix socket."""
    clients: dict[socket.socket, threading.Event] = {}
    """Each with the event that its transactions are rolled back."""
    lock = threading.Lock()

    class Handler(socketserver.BaseRequestHandler):
        def setup(self) -> None:
            with lock:
                dead = [ended for client, ended in clients.items() if _has_hung_up(client)]
                clients[self.request] = threading.Event()
            for ended in dead:
                ended.wait()

        def handle(self) -> None:
            _serve(broker, Connection(os.dup(self.request.fileno())))

        def finish(self) -> None:
            with lock:
                clients.pop(self.request).set()

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def _has_hung_up(client: socket.socket) -> bool:
    asked = select.poll()
    asked.register(client, 0)
    return bool(asked.poll(0))


def _serve(broker: Broker, pipe: Connection) -> None:
    """Answers the calls of one client until the client ends."""
    connection = broker.connect()
    sessions: list[BrokerSession] = []
    try:
        while True:
            target, name, *values = pipe.recv()
            try:
                pipe.send((True, _call(broker, connection, sessions, target, name, values)))
            except BrokerError as error:
                pipe.send((False, str(error)))
    except (EOFError, OSError):
        connection.close()
        pipe.close()


def _call(
    broker: Broker, connection: Any, sessions: list[BrokerSession], target: int, name: str, values: list[Any]
) -> Any:
    if target >= 0:
        session = sessions[target]
        if name == "send":
            session.send(*values)
            return values[1]
        return getattr(session, name)(*values)
    if name == "session":
        sessions.append(connection.session())
        return len(sessions) - 1
    if name == "waiting":
        return [Stored(one.number, one.message) for one in broker.waiting(*values)]
    return list(broker.queues)


class SocketProvider(LentProvider):
    """A provider on a broker of another process.

    Args:
        state_directory: for journals, published ids and instance locks.
        path: of the socket.
    """

    def __init__(self, state_directory: str | os.PathLike[str], path: str) -> None:
        super().__init__(state_directory)
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return SocketProvider, (self._state_directory, self.path)

    def client(self) -> BrokerClient:  # type: ignore[override]  # of another process
        return SocketClient(self.path)


class SocketClient:
    """See :class:`connector.brokers.engine.broker.BrokerClient`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def connect(self, client_id: str) -> ClientConnection:
        return ClientConnection(Stub(self._path), has_temporaries=False)  # type: ignore[arg-type]


class Stub:
    """A connection to the broker of another process, with the methods of ``BrokerConnection``."""

    def __init__(self, path: str) -> None:
        made = socket.socket(socket.AF_UNIX)
        made.connect(path)
        self._pipe = Connection(made.detach())
        self._lock = threading.Lock()
        self.ended = False
        self.broker = self
        self.changed = self
        self.unreadable: set[bytes] = set()
        self.slow: set[str] = set()
        self.is_mute = False

    def call(self, target: int, name: str, *values: Any) -> Any:
        with self._lock:
            if self.ended:
                raise BrokerError("the connection has ended")
            try:
                self._pipe.send((target, name, *values))
                done, value = self._pipe.recv()
            except (EOFError, OSError) as error:
                self.ended = True
                raise BrokerError("the connection has ended") from error
        if not done:
            raise BrokerError(value)
        return value

    def session(self) -> StubSession:
        return StubSession(self, self.call(-1, "session"))

    @property
    def queues(self) -> list[str]:
        found: list[str] = self.call(-1, "queues")
        return found

    def waiting(self, queue: str, selector: str = "") -> list[Stored]:
        found: list[Stored] = self.call(-1, "waiting", queue, selector)
        return found

    def __enter__(self) -> None:
        """Stands in for the condition ``changed`` of the broker."""

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.005))

    def close(self) -> None:
        with self._lock:
            if not self.ended:
                self.ended = True
                self._pipe.close()


class StubSession:
    """A session of the broker of another process, with the methods of ``BrokerSession``."""

    def __init__(self, connection: Stub, number: int) -> None:
        self._connection = connection
        self._number = number

    def receive(self, queue: str, selector: str = "") -> Message | None:
        found: Message | None = self._connection.call(self._number, "receive", queue, selector)
        return found

    def send(self, queue: str, message: Message) -> None:
        sent = self._connection.call(self._number, "send", queue, message)
        message.message_id, message.timestamp = sent.message_id, sent.timestamp

    def commit(self) -> None:
        self._connection.call(self._number, "commit")

    def rollback(self) -> None:
        self._connection.call(self._number, "rollback")

    def close(self) -> None:
        with contextlib.suppress(BrokerError):
            self._connection.call(self._number, "close")
