"""A faster start of Spark, and control over the end of Java. Only this file uses private names of PySpark.

Spark's launcher is three processes and a second of shell. This file starts Java directly, and tells PySpark
its port as ``spark-submit`` does. A Java without ``jdk.incubator.vector`` works, too. The launcher always
demands that module for MLlib only. On two busy cores the first job comes after 5.7 seconds, and
after 23 seconds without this file (medians of 3 runs each).

The file is optional. Without it the adapter starts Spark through ``SparkContext()``. In that case the death
of Java ends the adapter, because PySpark keeps the gateway to the dead Java.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connector import user
from connector.errors import PipelineError, SparkLost
from connector.spark import daemon
from connector.spark.java_command import LOG, JavaLaunch, java_command
from connector.spark.java_process import JavaProcess
from connector.spark.scratch import Scratch
from connector.spark.session import SparkApplication, restoring_process, variables
from connector.spark.shipping import code_directory

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_FOREIGN_VARIABLES = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_ENV_LOADED")
"""These variables would mix another Spark installation into this Spark."""

_START_SECONDS = 60.0
_GATEWAY_FILE = "gateway"
_IMPORTS_FILE = "imports"
_DAEMON = "spark.python.daemon.module"
"""A setting of Spark that its pages do not name."""


class FastStart(SparkApplication):
    """A Spark application in a JVM that this process has started itself.

    Args:
        master_on: returns the URL of the master for the number of processors that Java sees. Empty = the URL
            of the properties.
        output: called from a background thread with each line that Spark's workers print. None = lines are
            dropped.
        stop_seconds: seconds that Java may take to end before SIGTERM.
    """

    def __init__(
        self,
        launch: JavaLaunch,
        *,
        master_on: Callable[[int], str],
        output: Callable[[str], None] | None = None,
        stop_seconds: float = 10.0,
    ) -> None:
        self._launch = launch
        self._master_on = master_on
        self._output = output
        self._stopping = False
        self._process: JavaProcess | None = None
        self._scratch: Scratch | None = None
        self._context: SparkContext | None = None
        self._is_known = False
        """Whether PySpark has been told of this Java."""
        self._stop_seconds = stop_seconds

    @property
    def pid(self) -> int | None:
        """The process id of Java. None before :meth:`launch`."""
        return self._process.pid if self._process else None

    @property
    def context(self) -> SparkContext:
        """The SparkContext that starts jobs, after :meth:`connect`."""
        assert self._context is not None
        return self._context

    @property
    def alive(self) -> bool:
        if self._stopping or self._context is None or self._process is None or not self._process.runs:
            return False
        try:
            return bool(self._context.defaultParallelism)
        except Exception:  # Spark was stopped, or Java ends at this moment
            return False

    @property
    def _forks(self) -> bool:
        """Whether the workers are forks of a process with the adapter's own Python and code."""
        return (
            self._launch.properties["spark.master"].startswith("local")
            and self._launch.python == sys.executable
        )

    @property
    def scratch(self) -> Path:
        """A private directory that lives as long as Java."""
        assert self._scratch is not None
        return self._scratch.path

    def take_place_of(self, other: FastStart) -> bool:
        """Takes over what ``other`` does after the launch, if both launch Java in the same way.

        Returns:
            whether both do.
        """
        if self._launch != other._launch:
            return False
        self._master_on = other._master_on
        self._output = other._output
        self._stop_seconds = other._stop_seconds
        return True

    def launch(self) -> None:
        """Starts the process and returns at once.

        Raises:
            PipelineError: Java cannot be run.
        """
        self._scratch = Scratch()
        launch = self._launch
        if self._forks:
            launch = replace(launch, properties={_DAEMON: daemon.MODULE, **launch.properties})
        command = java_command(launch, self.scratch)
        self._process = JavaProcess(command, self._environment(), launch.directory, self.scratch / LOG)

    def connect(self) -> None:
        """Waits until Java is up, and starts Spark in that Java.

        Raises:
            PipelineError: Java did not come up. The text ends with the last output of Java.
            SparkLost: Java was killed, or is too slow.
            Exception: PySpark could not start Spark.
        """
        import pyspark  # while Java starts, because this import takes a good part of a second

        (self.scratch / _IMPORTS_FILE).write_text("\n".join(daemon.modules_for_workers()), "utf-8")
        port, secret = self._gateway()
        silence_py4j()
        if pyspark.SparkContext._active_spark_context is None:
            # Else the Java of a Spark that this process has stopped would be taken for ours.
            discard_context(None)
        gateway = {
            "PYSPARK_GATEWAY_PORT": str(port),
            "PYSPARK_GATEWAY_SECRET": secret,
            "PYSPARK_PYTHON": self._launch.python,
        }
        self._is_known = True
        with variables(gateway), restoring_process():
            if not user.has_account():
                _log_in(pyspark.SparkContext)
            self._context = pyspark.SparkContext(conf=self._conf(pyspark.SparkContext))
        self._context._accumulatorServer.handle_error = _do_nothing
        assert self._process is not None
        self._process.hand_on(self._output)

    def _conf(self, contexts: type[SparkContext]) -> SparkConf:
        """Returns the properties that Java has read, with the master for the processors that Java sees."""
        from pyspark import SparkConf

        contexts._ensure_initialized()  # private, but PySpark itself calls it next
        conf = SparkConf(_jvm=contexts._jvm)
        if master := self._master_on(contexts._jvm.java.lang.Runtime.getRuntime().availableProcessors()):
            conf.setMaster(master)
        return conf

    def _gateway(self) -> tuple[int, str]:
        """Returns port and secret of Spark's gateway once the gateway listens."""
        assert self._process is not None
        information = self.scratch / _GATEWAY_FILE
        deadline = time.monotonic() + _START_SECONDS
        # Spark writes another file and renames it, so an existing file is complete.
        while not information.exists():
            if not self._process.runs:
                self._process.join_output(2)
                failure = SparkLost if self._process.signal else PipelineError
                raise failure(self._process.explain(f"Java {self._process.ending} before Spark was up"))
            if time.monotonic() > deadline:
                raise SparkLost(
                    self._process.explain(f"Spark's gateway is not up after {_START_SECONDS:.0f} s")
                )
            time.sleep(0.01)
        answer = information.read_bytes()
        information.unlink()
        port, length = struct.unpack_from(">ii", answer)
        return port, answer[8 : 8 + length].decode()

    def why_ended(self, seconds: float) -> str | None:
        """Returns how Java has ended within ``seconds``, with the last lines. None = Java lives."""
        if self._process is None or not self._process.wait(seconds):
            return None
        return self._process.explain(f"Spark's Java process {self._process.ending}")

    def kill(self) -> None:
        """Kills Java at once. :meth:`stop` must still be called to clean up."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """Ends Java and waits for the exit: end of input, after ``stop_seconds`` SIGTERM, then SIGKILL.

        If Spark was not started in this Java, kills Java at once.
        """
        process = self._process
        self._stopping = True
        if self._context is None:
            self.kill()  # a starting Java would not see the end of its input
        if process is not None:
            process.end(self._stop_seconds)
        context, self._context = self._context, None
        if self._is_known:
            discard_context(context)
        if process is not None:
            process.join_output()
        if self._scratch is not None:
            self._scratch.remove()

    def _environment(self) -> dict[str, str]:
        environment = {
            name: value
            for name, value in self._launch.environ.items()
            if name not in _FOREIGN_VARIABLES
            and not name.startswith(("PYSPARK_", "_PYSPARK_", "SPARK_CONNECT"))
        }
        environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(self.scratch / _GATEWAY_FILE)
        environment["PYSPARK_PIN_THREAD"] = "true"
        environment["SPARK_LOCAL_DIRS"] = str(self.scratch)
        path = environment.get("PYTHONPATH")
        # The workers start in another directory than this process.
        entries = [os.path.abspath(entry) for entry in path.split(os.pathsep)] if path else []
        if self._forks:
            environment[daemon.IMPORTS] = str(self.scratch / _IMPORTS_FILE)
            environment[daemon.CODE] = str(code_directory())
            entries.append(environment[daemon.CODE])
        if entries:
            environment["PYTHONPATH"] = os.pathsep.join(entries)
        return environment


def discard_context(context: SparkContext | None) -> None:
    """Takes a context apart whose Java has ended.

    Otherwise PySpark would keep the gateway to that Java for the life of the process.
    """
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    if context is not None:
        # The server takes half a second to end, and nothing has to wait for that.
        server: Any = context._accumulatorServer
        context._accumulatorServer = None
        context._jsc = None
        threading.Thread(target=server.shutdown, name="spark-accumulators", daemon=True).start()
        with suppress(Exception):
            context.stop()
    with SparkContext._lock:
        gateway, SparkContext._gateway = SparkContext._gateway, None
        SparkContext._jvm = None
        SparkContext._active_spark_context = None
    if gateway is not None:
        with suppress(Exception):
            gateway.close()


def silence_py4j() -> None:
    """Turns off the logging of py4j.

    An error of the adapter reports a broken connection, without tracebacks on the terminal.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    root = logging.getLogger()
    if _not_from_py4j not in root.filters:
        root.addFilter(_not_from_py4j)
    if not root.handlers:
        # py4j writes to the root logger, too, which would then get a handler to stderr.
        root.addHandler(logging.NullHandler())


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return record.module not in ("java_gateway", "clientserver")


def _log_in(contexts: type[SparkContext]) -> None:
    """Gives Spark a user name where the system knows none. Hadoop's own way to find the name fails then."""
    contexts._ensure_initialized()  # private, but PySpark itself calls it next
    users = contexts._jvm.org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(user.name_without_account()))


def _do_nothing(*_: object) -> None:
    """Replaces an error handler of PySpark that prints a traceback when Java ends."""
