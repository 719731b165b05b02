"""The Spark of the adapter: a session of the process, the application of spark-submit, or the adapter's own.

A session that the user has made comes first, then the application of ``spark-submit``, then ``spark.master``.
The adapter stops only a Spark that it has started.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from connector.errors import PipelineError
from connector.spark.master import Master

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession as SparkSession  # the adapter needs only this name of PySpark

_CONNECT_SECONDS: Final = 5.0
_GATEWAY: Final = "PYSPARK_GATEWAY_PORT"


class SparkApplication(Protocol):
    """A Spark application, seen from the driver."""

    @property
    def context(self) -> SparkContext:
        """The SparkContext that starts jobs."""

    @property
    def alive(self) -> bool:
        """Whether Spark can run jobs."""

    def why_ended(self, seconds: float) -> str | None:
        """Returns how Java has ended within ``seconds``. None = Java lives, or the end is unknown."""

    def kill(self) -> None:
        """Kills the Java of the adapter's own Spark at once. For any thread."""

    def stop(self) -> None:
        """Ends a Spark that the adapter has started. Repeatable."""


class _PySpark(SparkApplication):
    """A Spark application whose Java PySpark has started."""

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
        """Does nothing, because the process is not known."""


class OwnSpark(_PySpark):
    """A Spark application that the adapter has started. Its Java ends with this process."""

    def stop(self) -> None:
        with suppress(Exception):  # Java has ended before
            self._context.stop()


class GivenSpark(_PySpark):
    """A Spark application that the user has started, and that goes on without the adapter."""

    def stop(self) -> None:
        """Does nothing."""


def is_submitted() -> bool:
    """Whether ``spark-submit`` has started this process."""
    return _GATEWAY in os.environ


def context_of(session: Any) -> SparkContext:
    """Returns the context of a user's session.

    Raises:
        PipelineError: the object is no session, or a session of Spark Connect, whose clients cannot run such
            jobs.
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


_own_contexts: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
"""Those of which the adapter has made a session."""


def own_session(context: SparkContext) -> SparkSession:
    """Returns a new session of the adapter's own Spark."""
    from pyspark.sql import SparkSession

    _own_contexts.add(context)
    return SparkSession(context)


def present_session() -> Any:
    """Returns the session that the program has made before, or None. One of the adapter does not count."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return None if session is None or session.sparkContext in _own_contexts else session


def submitted_application(application: str) -> OwnSpark:
    """Returns the application of ``spark-submit``, with the settings of ``spark-submit``.

    Args:
        application: name if ``spark-submit`` got none.
    """
    from pyspark import SparkConf, SparkContext

    conf = SparkConf()
    if not conf.contains("spark.app.name"):
        conf.setAppName(application)
    with restoring_process():
        return OwnSpark(SparkContext(conf=conf))


def launch_application(properties: Mapping[str, str], python: str) -> OwnSpark:
    """Returns the adapter's own application, started with Spark's own launcher.

    Args:
        properties: of Spark, with master and name.
        python: the workers' Python.
    """
    from pyspark import SparkContext

    with tempfile.TemporaryDirectory(prefix="connector-spark-") as directory:
        path = Path(directory) / "spark.properties"
        write_properties(path, properties)
        submit = {"PYSPARK_SUBMIT_ARGS": f"--properties-file {path} pyspark-shell", "PYSPARK_PYTHON": python}
        with variables(submit), restoring_process():
            return OwnSpark(SparkContext())


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Writes a new file of Spark properties that only the owner may read.

    The properties may hold secrets, and everybody can see the arguments of a command.
    """
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.writelines(f"{_escape(name)}={_escape(value)}\n" for name, value in properties.items())


def _escape(text: str) -> str:
    return "".join(_escape_units(text))


def _escape_units(text: str) -> Iterable[str]:
    # All characters but letters, digits and a few marks become UTF-16 escapes, so that no syntax applies to
    # them.
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
def restoring_process() -> Iterator[None]:
    """Undoes the changes of a new SparkContext to the process: a SIGINT handler, and an entry in sys.path."""
    path = list(sys.path)
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        sys.path[:] = path
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


def driver_address(master: Master) -> str:
    """Returns the address of this machine that the masters of a standalone cluster see.

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
