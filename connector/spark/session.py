"""The Spark that the jobs run in: one that the process has, that of spark-submit, or one of our own.

A session that the user has made comes first, then the application that ``spark-submit`` has started, then
``spark.master``. Only what the adapter has started is ever stopped.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from connector.config.spark_master import Master
from connector.errors import PipelineError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession as SparkSession  # the adapter names it, and knows no more of PySpark

_CONNECT_SECONDS: Final = 5.0
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"


class Spark(Protocol):
    """A Spark application, seen from its driver."""

    @property
    def context(self) -> SparkContext:
        """What jobs are started with."""

    @property
    def alive(self) -> bool:
        """Whether it can run jobs."""

    def why_ended(self, seconds: float) -> str | None:
        """How its Java has ended, within ``seconds``. None where it lives, or nobody can tell."""

    def kill(self) -> None:
        """Ends its Java at once, where that is ours. From any thread."""

    def stop(self) -> None:
        """Ends it, where the adapter has started it. Repeatable."""


class _PySpark:
    """A Spark application whose Java PySpark has started.

    Args:
        context: of the application.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def context(self) -> SparkContext:
        return self._context

    @property
    def alive(self) -> bool:
        try:
            return bool(self._context.defaultParallelism)
        except Exception:  # Spark was stopped, or its Java has ended
            return False

    def why_ended(self, seconds: float) -> str | None:
        return None

    def kill(self) -> None:
        """Does nothing: nobody knows its process."""


class OwnSpark(_PySpark):
    """A Spark application that the adapter has started; its Java ends with this process."""

    def stop(self) -> None:
        with suppress(Exception):  # Java has ended before
            self._context.stop()


class GivenSpark(_PySpark):
    """A Spark application of somebody else, which goes on without the adapter."""

    def stop(self) -> None:
        """Does nothing."""


def is_submitted() -> bool:
    """Whether ``spark-submit`` has started this process."""
    return _GATEWAY in os.environ


def context_of(session: Any) -> SparkContext:
    """The context of a session that the user gives.

    Raises:
        PipelineError: it is a session of Spark Connect, whose clients cannot run such jobs, or no session.
    """
    kind = type(session)
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise PipelineError(
            "the session is one of Spark Connect, and its clients cannot run the adapter's jobs: give a "
            "SparkSession that was made without remote()"
        )
    context: SparkContext | None = getattr(session, "sparkContext", None)
    if context is None:
        raise PipelineError(f"a {kind.__module__}.{kind.__qualname__} is no SparkSession")
    return context


def present_session() -> Any:
    """The session that this process has made before; None where it has none."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def submitted(application: str) -> OwnSpark:
    """The application that ``spark-submit`` has started, with the settings of ``spark-submit``.

    Args:
        application: its name, where ``spark-submit`` was given none.
    """
    from pyspark import SparkConf, SparkContext

    conf = SparkConf()
    if not conf.contains("spark.app.name"):
        conf.setAppName(application)
    with untouched_process():
        return OwnSpark(SparkContext(conf=conf))


def launched(properties: Mapping[str, str], python: str) -> OwnSpark:
    """An application of our own, started with Spark's own launcher.

    Args:
        properties: of Spark, with its master and name.
        python: the workers' Python.
    """
    from pyspark import SparkContext

    with tempfile.TemporaryDirectory(prefix="connector-spark-") as directory:
        path = Path(directory) / "spark.properties"
        write_properties(path, properties)
        submit = {"PYSPARK_SUBMIT_ARGS": f"--properties-file {path} pyspark-shell", "PYSPARK_PYTHON": python}
        with variables(submit), untouched_process():
            return OwnSpark(SparkContext())


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Writes a new file of Spark properties that only its owner may read.

    They may hold secrets, and everybody can see the arguments of a command.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.writelines(f"{_escaped(name)}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(text: str) -> str:
    return "".join(_escaped_units(text))


def _escaped_units(text: str) -> Iterable[str]:
    # Everything but letters, digits and a few marks as a UTF-16 escape: no rule of the format can bite.
    for character in text:
        if character.isascii() and (character.isalnum() or character in "._-/"):
            yield character
        else:
            units = character.encode("utf-16-be")
            yield from (f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables of this process for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def untouched_process() -> Iterator[None]:
    """Takes back what a new SparkContext does to its process: a SIGINT handler, an entry in sys.path."""
    path = list(sys.path)
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        sys.path[:] = path
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


def reach(master: Master) -> str:
    """The address of this machine that the masters of a standalone cluster see.

    Raises:
        PipelineError: none of the masters answers.
    """
    failures = []
    for host, port in master.addresses:
        try:
            with socket.create_connection((host, port), _CONNECT_SECONDS) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    raise PipelineError(
        f"no Spark master answers ({'; '.join(failures)}). Start it, or correct spark.master in adapter.yaml"
    )
