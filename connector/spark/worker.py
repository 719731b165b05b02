"""The code that a Spark worker runs before the events.

A task arrives as a small closure that travels by value (:func:`task`). The task first puts the connector's
code on the worker's path: the driver's own code, or the shipped code. Then the task imports the connector. So
a worker needs no installed connector and always has the driver's version.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pickle
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from connector import faults
from connector.errors import ConnectorError

STARTED_IN = os.getcwd()
"""The directory of the executor, before a task has entered the deployment's directory."""

WorkerFunction = Callable[[bytes, str, bytes], bytes]
"""``f(task_settings, deployment, payload) -> answer``, a module-level function of an importable module."""


PartitionFunction = Callable[[Iterable[bytes]], Iterator[bytes]]
"""A function that a partition of a Spark job calls with payloads."""

ECHO: Final = "connector.spark.worker:echo"
"""The function that returns the payload."""

ANSWER_HEADER: Final = struct.Struct("<Q?")
"""Before the answer to an assignment: the number of the assignment, and whether the function has returned."""

_SETTINGS_KEPT: Final = 2
_MOST_SHARED: Final = 1000
"""Assignments that a task runs side by side, at most."""

_Value = TypeVar("_Value")


def task(
    function: str, task_settings: Any, code: str, deployment: str, archive: str, *, shares: bool = False
) -> PartitionFunction:
    """Returns the function of a Spark partition that calls ``function`` for each payload.

    Args:
        function: ``package.module:name``.
        task_settings: a Spark broadcast of bytes.
        code: directory that holds the packages. Used if nothing was shipped.
        deployment: directory of adapter.yaml. Used if nothing was shipped.
        archive: name of the shipped archive in Spark's files. Empty if nothing was shipped.
        shares: whether the payloads of a partition run side by side.
    """

    def on_worker(payloads: Iterable[bytes]) -> Iterator[bytes]:
        # Travels by value, so this function must not use a name of this module.
        import os
        import sys

        if "connector.spark.worker" not in sys.modules:
            packages = code
            if archive:
                from pyspark import SparkFiles

                # Spark's name is relative to the executor's directory, which is still the current directory.
                packages = os.path.abspath(os.path.join(SparkFiles.getRootDirectory(), archive, "code"))
            if packages not in sys.path:
                sys.path.insert(0, packages)
        from connector.spark.worker import calls, shipped_deployment

        place = shipped_deployment() if archive else deployment
        return calls(function, task_settings.value, place, payloads, shares=shares)

    return on_worker


def probing(call: PartitionFunction) -> PartitionFunction:
    """Returns a task that never fails.

    The task returns JSON with the answer or exception of ``call``, the host, the directory and the Python.
    """

    def on_worker(payloads: Iterable[bytes]) -> Iterator[bytes]:
        # Travels by value, so this function must not use a name of this module.
        import json
        import os
        import socket
        import sys

        for payload in payloads:
            answer, error = b"", ""
            try:
                answer = next(iter(call([payload])))
            except ImportError as failure:
                error = f"{failure}: install it for {sys.executable}, or name another Python"
            except Exception as failure:
                error = f"{type(failure).__name__}: {failure}"
            worker = sys.modules.get("connector.spark.worker")
            directory = os.getcwd() if worker is None else worker.STARTED_IN
            place = {"host": socket.gethostname(), "directory": directory}
            python = {"python": sys.executable, "version": sys.version.split()[0], "prefix": sys.prefix}
            yield json.dumps({**place, **python, "answer": answer.hex(), "error": error}).encode()

    return on_worker


def staying(address: str, secret: bytes, number: int, code: str, deployment: str) -> PartitionFunction:
    """Returns the function of a Spark partition that takes assignments until its connection is closed.

    Args:
        address: path of the driver's Unix socket.
        secret: which both sides prove to know.
        code: directory that holds the packages.
    """

    def on_worker(_: Iterable[bytes]) -> Iterator[bytes]:
        # Travels by value, so this function must not use a name of this module.
        import json
        import os
        import socket
        import sys
        from multiprocessing.connection import Client

        error = ""
        try:
            if code not in sys.path:
                sys.path.insert(0, code)
            from connector import faults
            from connector.spark.worker import serve, serve_shared
        except ImportError as failure:
            error = f"{failure}: install it for {sys.executable}, or name another Python"
        with Client(address, "AF_UNIX", authkey=secret) as connection:
            if not error:
                faults.point("task.connect")
            place = {"number": number, "host": socket.gethostname(), "directory": os.getcwd(), "error": error}
            python = {"python": sys.executable, "version": sys.version.split()[0], "prefix": sys.prefix}
            connection.send_bytes(json.dumps({**place, **python}).encode())
            if not error:
                serve_shared(address, secret, number, deployment)
                serve(connection, deployment)
        return iter(())

    return on_worker


def serve(connection: Connection, deployment: str) -> None:
    """Takes assignments and answers them until the driver closes the connection."""
    _enter(deployment)
    for number, call in _assignments(connection, deployment):
        try:
            connection.send_bytes(_answer(number, call))
        except OSError:
            return
        faults.point("task.answered")


def serve_shared(address: str, secret: bytes, number: int, deployment: str) -> None:
    """Makes a second connection of a task, and answers assignments side by side in threads.

    Args:
        address, secret: of the driver's Unix socket.
        number: of the task.
    """

    def answer(number: int, call: Callable[[], bytes]) -> None:
        data = _answer(number, call)
        with writing, contextlib.suppress(OSError):
            connection.send_bytes(data)
        faults.point("task.answered")

    def take() -> None:
        _enter(deployment)
        with ThreadPoolExecutor(_MOST_SHARED) as threads:
            for number, call in _assignments(connection, deployment):
                threads.submit(answer, number, call)

    writing = threading.Lock()
    connection = Client(address, "AF_UNIX", authkey=secret)
    connection.send_bytes(orjson.dumps({"number": number, "shared": True}))
    threading.Thread(target=take, name="shared-assignments", daemon=True).start()


def _assignments(connection: Connection, deployment: str) -> Iterator[tuple[int, Callable[[], bytes]]]:
    """Yields the number and the call of each assignment until the driver closes the connection."""
    kept: dict[bytes, bytes] = {}
    with contextlib.suppress(EOFError, OSError):
        while True:
            number, function, key, sent, payload = pickle.loads(connection.recv_bytes())  # of our own driver
            if sent is not None:
                keep_settings(kept, key, sent)
            yield number, functools.partial(_resolved, function, kept[key], deployment, payload)


def _resolved(function: str, task_settings: bytes, deployment: str, payload: bytes) -> bytes:
    return resolve(function)(task_settings, deployment, payload)


def _answer(number: int, call: Callable[[], bytes]) -> bytes:
    try:
        has_returned, answer = True, call()
    except ConnectorError as error:
        has_returned, answer = False, str(error).encode("utf-8", "replace")
    except Exception as error:
        has_returned, answer = False, f"{type(error).__name__}: {error}".encode("utf-8", "replace")
    return ANSWER_HEADER.pack(number, has_returned) + answer


def keep_settings(kept: dict[bytes, _Value], key: bytes, value: _Value) -> None:
    """Keeps the last two settings. Driver and task call this function alike, so both know which are kept."""
    kept[key] = value
    while len(kept) > _SETTINGS_KEPT:
        del kept[next(iter(kept))]


@functools.cache
def shipped_deployment() -> str:
    """Returns the deployment's directory on a worker that got this code and the deployment in one archive."""
    return str(Path(__file__).parents[3] / "deployment")


def calls(
    function: str,
    task_settings: bytes,
    deployment: str,
    payloads: Iterable[bytes],
    *,
    shares: bool = False,
) -> Iterator[bytes]:
    """Calls ``function`` for each payload. The deployment is the working directory and importable.

    Args:
        shares: whether the calls run side by side, in threads.
    """
    _enter(deployment)
    call = functools.partial(resolve(function), task_settings, deployment)
    if shares:
        with ThreadPoolExecutor(_MOST_SHARED) as threads:
            yield from threads.map(call, payloads)
    else:
        yield from map(call, payloads)
    _freeze(function, task_settings)


@functools.cache
def resolve(function: str) -> WorkerFunction:
    """Returns the function named ``package.module:name``.

    Raises:
        ImportError, AttributeError: the function does not exist.
    """
    module, _, name = function.partition(":")
    found: WorkerFunction = getattr(importlib.import_module(module), name)
    return found


@functools.cache
def _enter(deployment: str) -> None:
    # Relative paths and imports of business processes then mean the same on a laptop and on a cluster.
    os.chdir(deployment)
    if deployment not in sys.path:
        sys.path.append(deployment)  # at the end: a user's json.py hides nothing


@functools.lru_cache(maxsize=8)
def _freeze(_function: str, _task_settings: bytes) -> None:
    """Excludes the objects of the first task from garbage collection.

    PySpark's daemon collects garbage after every task.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def echo(_task_settings: bytes, _deployment: str, payload: bytes) -> bytes:
    """Returns the payload. Warms up workers."""
    return payload
