"""A faster start of Spark, and control over the end of Java. Only this file uses private names of PySpark.

Spark's launcher is three processes and a second of shell. This file starts Java directly, and tells PySpark
its port as ``spark-submit`` does. A Java without ``jdk.incubator.vector`` works, too. The launcher always
demands that module for MLlib only. On two busy cores the first job comes after 5.7 seconds, and
after 23 seconds without this file (medians of 3 runs each).

The file is optional. Without it the adapter starts Spark through ``SparkContext()``. In that case the death
of Java ends the adapter, because PySpark keeps the gateway to the dead Java.

Three things keep Java from outliving the adapter. First, the standard input of Java is a pipe that only this
process holds. When this process dies in any way, Spark's gateway reads the end of the file and exits. Second,
:meth:`FastStart.stop` waits for the exit of Java, and kills Java by pid after a time limit. Third, Java runs
in a process session of its own, so that Ctrl-C in a terminal reaches the adapter alone. The adapter then
finishes its events while Java still works.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connector import user
from connector.errors import PipelineError, SparkLost
from connector.java import JAVA_LINE, Java
from connector.spark import daemon
from connector.spark.archive import class_path
from connector.spark.idle_workers import without_idle_workers
from connector.spark.scratch import Scratch
from connector.spark.session import untouched_process, variables, write_properties
from connector.spark.shipping import code_directory

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Djava.awt.headless=true",
    # The work is done in Python: short compilation serves the scheduler best.
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:MetaspaceSize=96m",  # no full collection while the classes are loaded
)
"""The options of Spark's own launcher for Java 17 and newer, without the vector module.

The options of the user come later on the command line, and override these.
"""

_COLLECTOR = "-XX:+UseSerialGC"
"""A small collector, which serves the scheduler best. Options of the user override this choice."""
_IS_COLLECTOR = re.compile(r"-XX:[+-]Use(Serial|Parallel|G1|Z|Shenandoah|Epsilon)GC").fullmatch

_LOG_CONFIGURATION = """\
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.1
appender.file.immediateFlush = true
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 1MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
logger.nativecode.name = org.apache.hadoop.util.NativeCodeLoader
logger.nativecode.level = error
"""

_FOREIGN_VARIABLES = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_ENV_LOADED")
"""These variables would mix another Spark installation into this Spark."""

_IGNORING_HANGUPS = ("/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh")
"""Starts Java with SIGHUP ignored, because Java would end at SIGHUP.

``exec`` keeps that setting and the pid.
"""

_LINES_KEPT = 200
_START_SECONDS = 60.0
_GATEWAY_FILE = "gateway"
_IMPORTS_FILE = "imports"
_DAEMON = "spark.python.daemon.module"
"""A setting of Spark that its pages do not name."""


_FRAME: Final = re.compile(r"\s*(at \S+\(|\.\.\. [0-9]+ more)")
"""A line of a Java stack trace, which does not help users of Spark."""
_LAST_WORDS = ("Traceback (most recent call last):", "PySpark daemon failed")
"""Complaints of an idle Python worker when Java ends, which help nobody."""


class FastStart:
    """A Spark application in a JVM that this process has started itself.

    Args:
        java: the Java to run.
        jars: directory with Spark's jars.
        properties: of Spark, with master and name.
        python: the workers' Python.
        directory: working directory of the JVM and of local workers.
        master_on: returns the URL of the master for the number of processors that Java sees. Empty = the URL
            of the properties.
        options: further JVM options, last of all.
        extra_class_path: entries before Spark's jars.
        environ: environment. None = that of this process.
        output: called from a background thread with each line that Spark's workers print. None = lines are
            dropped.
        stop_seconds: seconds that Java may take to end before SIGTERM.
    """

    def __init__(
        self,
        java: Java,
        jars: Path,
        properties: Mapping[str, str],
        python: str,
        directory: Path,
        *,
        master_on: Callable[[int], str],
        options: Sequence[str] = (),
        extra_class_path: str = "",
        environ: Mapping[str, str] | None = None,
        output: Callable[[str], None] | None = None,
        stop_seconds: float = 10.0,
    ) -> None:
        self._java = java
        self._jars = jars
        self._properties = properties
        self._python = python
        self._directory = directory
        self._master_on = master_on
        self._options = tuple(options)
        self._extra_class_path = extra_class_path
        self._environ = dict(os.environ if environ is None else environ)
        self._output = output
        self._quiet = True
        self._stopping = False
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
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
        """Whether Spark can run jobs."""
        if self._stopping or self._context is None or not self._runs:
            return False
        try:
            return bool(self._context.defaultParallelism)
        except Exception:  # Spark was stopped, or Java ends at this moment
            return False

    @property
    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def _forks(self) -> bool:
        """Whether the workers are forks of a process with the adapter's own Python and code."""
        return self._properties["spark.master"].startswith("local") and self._python == sys.executable

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
        if self._launch_facts != other._launch_facts:
            return False
        self._master_on = other._master_on
        self._output = other._output
        self._stop_seconds = other._stop_seconds
        return True

    @property
    def _launch_facts(self) -> tuple[object, ...]:
        """All that decides how Java is launched."""
        return (
            self._java,
            self._jars,
            self._properties,
            self._python,
            self._directory,
            self._options,
            self._extra_class_path,
            self._environ,
        )

    def launch(self) -> None:
        """Starts the process and returns at once.

        Raises:
            PipelineError: Java cannot be run.
        """
        self._scratch = Scratch()
        try:
            self._process = subprocess.Popen(
                [*_IGNORING_HANGUPS, *self._command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=self._directory,
                start_new_session=True,
                preexec_fn=_signals_unblocked(),
            )
        except OSError as error:
            place = f"{self._java.executable} in {self._directory}"
            raise PipelineError(f"cannot start {place}: {error}") from error
        self._reader = threading.Thread(target=self._read, name="spark-output", daemon=True)
        self._reader.start()

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
            discard_context(
                None
            )  # else the Java of a Spark that this process has stopped would be taken for ours
        gateway = {
            "PYSPARK_GATEWAY_PORT": str(port),
            "PYSPARK_GATEWAY_SECRET": secret,
            "PYSPARK_PYTHON": self._python,
        }
        self._is_known = True
        with variables(gateway), untouched_process():
            if not user.has_account():
                _log_in(pyspark.SparkContext)
            self._context = pyspark.SparkContext(conf=self._conf(pyspark.SparkContext))
        self._context._accumulatorServer.handle_error = _do_nothing
        self._quiet = False  # earlier output is Java's own chatter

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
        assert self._process is not None and self._reader is not None
        information = self.scratch / _GATEWAY_FILE
        deadline = time.monotonic() + _START_SECONDS
        # Spark writes another file and renames it, so an existing file is complete.
        while not information.exists():
            if self._process.poll() is not None:
                self._reader.join(2)
                failure = SparkLost if self._signal else PipelineError
                raise failure(self.explain(f"Java {self._ending()} before Spark was up"))
            if time.monotonic() > deadline:
                raise SparkLost(self.explain(f"Spark's gateway is not up after {_START_SECONDS:.0f} s"))
            time.sleep(0.01)
        answer = information.read_bytes()
        information.unlink()
        port, length = struct.unpack_from(">ii", answer)
        return port, answer[8 : 8 + length].decode()

    def _ending(self) -> str:
        status = self._process.poll() if self._process else None
        if status is None:
            return "does not answer"
        return f"was ended by signal {self._signal}" if self._signal else f"ended with status {status}"

    @property
    def _signal(self) -> int:
        """The signal that has ended Java. 0 = none."""
        status = self._process.poll() if self._process else None
        if status is None:
            return 0
        return max(0, -status if status < 0 else status - 128)  # Java answers SIGTERM with status 143

    def tail(self, lines: int = 12) -> str:
        """Returns the last lines of Spark's log and of the JVM's output, or an empty text.

        The frames of Java's stack traces are left out, because the exceptions name the mistake.
        """
        log: list[str] = []
        if self._scratch is not None:
            try:
                log = (self.scratch / "spark.log").read_text("utf-8", "replace").splitlines()
            except OSError:
                pass
        printed = [line for line in list(self._lines) if not line.startswith(("WARNING:", "Picked up "))]
        if self._context is not None:  # there are workers, and they say nothing about the end of Java
            printed = [line for line in printed if JAVA_LINE.match(line)]
        kept = ([line for line in part if not _FRAME.match(line)][-lines:] for part in (log, printed))
        return "\n".join(line for part in kept for line in part)

    def why_ended(self, seconds: float) -> str | None:
        """Returns how Java has ended within ``seconds``, with the last lines. None = Java lives."""
        if not self._wait(seconds):
            return None
        return self.explain(f"Spark's Java process {self._ending()}")

    def explain(self, what: str) -> str:
        """Returns the text, followed by the last lines that give the reason."""
        tail = self.tail()
        return f"{what}. Its last lines:\n{tail}" if tail else what

    def _wait(self, seconds: float) -> bool:
        """Waits for the exit of Java. Returns whether Java has exited."""
        if self._process is None:
            return True
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Kills Java at once. :meth:`stop` must still be called to clean up."""
        if self._process is not None and self._process.poll() is None:
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
            assert process.stdin is not None
            try:
                process.stdin.close()
            except OSError:
                pass
            for bound, end in (
                (self._stop_seconds, process.terminate),
                (3.0, process.kill),
                (5.0, lambda: None),
            ):
                if self._wait(bound):
                    break
                end()
        context, self._context = self._context, None
        if self._is_known:
            discard_context(context)
        if self._reader is not None:
            # The output ends when its last writer ends: the workers live a moment longer than Java.
            self._reader.join(3.0)
            if process is not None and process.stdout is not None and not self._reader.is_alive():
                process.stdout.close()
        if self._scratch is not None:
            self._scratch.remove()

    def _command(self) -> list[str]:
        properties = self.scratch / "spark.properties"
        write_properties(
            properties, {_DAEMON: daemon.MODULE, **self._properties} if self._forks else self._properties
        )
        log_configuration = self.scratch / "log4j2.properties"
        log_configuration.write_text(_LOG_CONFIGURATION.format(file=self.scratch / "spark.log"), "utf-8")
        entries = [entry for entry in (self._extra_class_path, class_path(self._jars)) if entry]
        return [
            str(self._java.executable),
            *_OPTIONS,
            *([] if any(map(_IS_COLLECTOR, self._options)) else [_COLLECTOR]),
            f"-Djava.io.tmpdir={self.scratch}",
            f"-Dlog4j2.configurationFile={log_configuration}",
            *user.java_options(str(self.scratch)),
            *self._options,
            "-cp",
            os.pathsep.join(entries),
            "org.apache.spark.deploy.SparkSubmit",
            "--properties-file",
            str(properties),
            "pyspark-shell",
        ]

    def _environment(self) -> dict[str, str]:
        environment = {
            name: value
            for name, value in self._environ.items()
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

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        lines = (raw.decode("utf-8", "replace").rstrip("\n") for raw in self._process.stdout)
        for line in without_idle_workers(lines):
            self._lines.append(line)
            if self._stopping and line.startswith(_LAST_WORDS):
                self._quiet = True
            if self._output is not None and not self._quiet:
                try:
                    self._output(line)
                except Exception:  # a closed terminal must not stop the reading: the pipe would fill up
                    self._output = None


def _signals_unblocked() -> Callable[[], object] | None:
    """Returns what unblocks the signals in a child, if this process blocks signals.

    ``run`` does so at its begin, when it has only one thread. Workers of a Java with blocked signals would
    live on after the stop.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, blocked) if blocked else None


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
