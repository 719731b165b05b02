"""The connections between the driver and its tasks that stay: who may connect, assignments and answers."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, Final

import orjson

from connector.errors import PipelineError
from connector.spark.event_tasks import WorkerAnswer
from connector.spark.scratch import Scratch
from connector.spark.worker import ANSWER_HEADER, keep_settings

_BACKLOG: Final = 64
_HANDSHAKE_SECONDS: Final = 10
_FULL_SECONDS: Final = 0.1
"""Seconds before the next try when the process has too many open files."""
_TIME: Final = struct.Struct("ll")

_log: Final = logging.getLogger("connector.spark")


class TaskEnded(Exception):
    """Raised if a connection has ended before the answer."""


class TaskLink:
    """The driver's end of the connection to one task. An assignment and its answer belong to one thread.

    Args:
        connection: after the handshake.
        job: number of the keeper's job that runs the task.
    """

    def __init__(self, connection: Connection, facts: WorkerAnswer, number: int, job: int) -> None:
        self.facts = facts
        self.number = number
        self.job = job
        self._connection = connection
        # Another thread may end a read only by a shutdown, for which a connection has no method.
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._settings: dict[bytes, None] = {}
        self._assignments = itertools.count(1)

    @property
    def is_alive(self) -> bool:
        """Whether the task waits for an assignment. A task without an assignment sends nothing."""
        try:
            return not self._connection.poll(0)
        except OSError:
            return False

    def call(self, function: str, key: bytes, task_settings: bytes, payload: bytes) -> bytes:
        """Sends an assignment and returns the answer.

        Raises:
            TaskEnded: the task has ended, or has given a wrong answer.
            PipelineError: the function has raised.
        """
        number = next(self._assignments)
        sent = None if key in self._settings else task_settings
        if sent is not None:
            keep_settings(self._settings, key, None)
        try:
            self._connection.send_bytes(pickle.dumps((number, function, key, sent, payload), protocol=5))
            data = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise TaskEnded from error
        answered, has_succeeded = ANSWER_HEADER.unpack_from(data)
        if answered != number:
            raise TaskEnded
        if not has_succeeded:
            raise PipelineError(data[ANSWER_HEADER.size :].decode("utf-8", "replace"))
        return data[ANSWER_HEADER.size :]

    def end(self) -> None:
        """Ends the connection, and a wait for its answer. For any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Frees the connection. Nobody may use it any more."""
        self.end()
        self._socket.close()
        self._connection.close()


class SharedLink:
    """The driver's end of the second connection to a task, for assignments beside others. For any thread.

    Args:
        connection: after the handshake.
        number, job: as of a :class:`TaskLink`.
        ended: called in another thread when the connection has ended.
    """

    def __init__(self, connection: Connection, number: int, job: int, ended: Callable[[], None]) -> None:
        self.number = number
        self.job = job
        self._connection = connection
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._settings: dict[bytes, None] = {}
        self._lock = threading.Lock()
        self._assignments = itertools.count(1)
        self._calls: dict[int, Future[bytes]] = {}
        self._has_ended = False
        self._tell_end = ended
        threading.Thread(target=self._read, name=f"spark-shared-{number}", daemon=True).start()

    @property
    def calls(self) -> int:
        """Number of assignments without an answer."""
        return len(self._calls)

    def start(self, function: str, key: bytes, task_settings: bytes, payload: bytes) -> Future[bytes]:
        """Sends an assignment. The future gets the answer, or the errors of :meth:`TaskLink.call`."""
        answer: Future[bytes] = Future()
        with self._lock:
            if self._has_ended:
                answer.set_exception(TaskEnded())
                return answer
            number = next(self._assignments)
            self._calls[number] = answer
            sent = None if key in self._settings else task_settings
            if sent is not None:
                keep_settings(self._settings, key, None)
            with contextlib.suppress(OSError):  # its reader tells the end
                self._connection.send_bytes(pickle.dumps((number, function, key, sent, payload), protocol=5))
        return answer

    def end(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                data = self._connection.recv_bytes()
                number, has_succeeded = ANSWER_HEADER.unpack_from(data)
                with self._lock:
                    answer = self._calls.pop(number)
                if has_succeeded:
                    answer.set_result(data[ANSWER_HEADER.size :])
                else:
                    text = data[ANSWER_HEADER.size :].decode("utf-8", "replace")
                    answer.set_exception(PipelineError(text))
        with self._lock:
            self._has_ended = True
            left, self._calls = self._calls, {}
        self._tell_end()
        for answer in left.values():
            answer.set_exception(TaskEnded())
        self._socket.close()
        self._connection.close()


class TaskListener:
    """A Unix socket in a private directory, to which tasks connect.

    Each handshake has a thread and a time limit. So a client that says nothing keeps no task out.

    Args:
        greet: called in a thread with the connection of a task and what the task says of itself. Both sides
            have proved then that they know the secret.
    """

    def __init__(self, greet: Callable[[Connection, dict[str, Any]], None]) -> None:
        self._greet = greet
        self._closing = threading.Event()
        self._scratch = Scratch()
        self.secret: Final = secrets.token_bytes(32)
        self.address: Final = str(self._scratch.path / "tasks")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address)
        self._socket.listen(_BACKLOG)
        threading.Thread(target=self._accept, name="spark-accept", daemon=True).start()

    def close(self) -> None:
        """Lets nobody connect any more."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def remove(self) -> None:
        """Removes the private directory."""
        self._scratch.remove()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                peer, _ = self._socket.accept()
            except OSError:  # closed, or there are too many open files
                self._closing.wait(_FULL_SECONDS)
                continue
            threading.Thread(target=self._shake_hands, args=(peer,), name="spark-greet", daemon=True).start()

    def _shake_hands(self, peer: socket.socket) -> None:
        _limit_time(peer, _HANDSHAKE_SECONDS)
        connection = Connection(peer.detach())
        try:
            deliver_challenge(connection, self.secret)
            answer_challenge(connection, self.secret)
            hello = orjson.loads(connection.recv_bytes())
            with socket.socket(fileno=os.dup(connection.fileno())) as same:
                _limit_time(same, 0)
        except (AuthenticationError, EOFError, OSError, ValueError) as error:
            connection.close()
            if not self._closing.is_set():
                reason = str(error) or "closed"
                _log.warning("a connection to the tasks was refused", extra={"reason": reason})
            return
        self._greet(connection, hello)


def _limit_time(peer: socket.socket, seconds: int) -> None:
    """Limits each read and write. 0 = no limit."""
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        peer.setsockopt(socket.SOL_SOCKET, option, _TIME.pack(seconds, 0))
