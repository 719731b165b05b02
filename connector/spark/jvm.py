"""The JVM that Spark runs in: started, watched and ended by this process.

It is started directly, without Spark's shell launchers. That saves two processes and a second of
shell, works with a Java that lacks ``jdk.incubator.vector`` (which the launchers always demand and
only MLlib uses), and gives this process the JVM's own pid.

Three things keep it from outliving the adapter. Its standard input is a pipe that only this
process holds: when this process dies, however it dies, Spark's gateway reads the end of the file
and exits. :meth:`Jvm.stop` waits for its exit, and kills it by pid after a bound. It runs in a
session of its own, so that Ctrl-C in a terminal reaches the adapter alone, which can then finish
what is in flight while the JVM still works.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from connector.config.java_options import collectors
from connector.errors import PipelineError
from connector.spark.java import Java

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
)
"""What Spark's own launcher would pass for Java 17 and newer, less the vector module."""

_COLLECTOR = "-XX:+UseSerialGC"
"""A small collector serves the scheduler best. It gives way to one that the options select."""

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
"""They would mix another Spark installation into this one."""

_IGNORING_HANGUPS = ("/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh")
"""Java would end at SIGHUP. What a shell ignores stays ignored by what it becomes, and its pid stays."""

_LINES_KEPT = 200
_START_SECONDS = 60.0
_GATEWAY_FILE = "gateway"


_FRAME = re.compile(r"\s*(at \S+\(|\.\.\. [0-9]+ more)")
"""A line of a Java stack trace that says nothing to who configures Spark."""
_LAST_WORDS = ("Traceback (most recent call last):", "PySpark daemon failed")
"""How an idle Python worker of Spark complains when Java goes away; of no use to anybody."""


class Jvm:
    """One JVM with Spark's gateway in it.

    Args:
        java: the Java to run.
        jars: directory with Spark's jars.
        properties: Spark properties, given in a private file: they may hold secrets, and a command
            line is public.
        directory: working directory of the JVM, and of the local workers it starts.
        options: further JVM options, last of all.
        extra_class_path: entries put before Spark's jars.
        environ: environment; the process's own when None.
        output: called with each line that Spark's workers write to stdout or stderr, from a
            background thread; None drops them.
    """

    def __init__(
        self,
        java: Java,
        jars: Path,
        properties: Mapping[str, str],
        directory: Path,
        *,
        options: Sequence[str] = (),
        extra_class_path: str = "",
        environ: Mapping[str, str] | None = None,
        output: Callable[[str], None] | None = None,
    ) -> None:
        self._java = java
        self._jars = jars
        self._properties = properties
        self._directory = directory
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
        self.port = 0
        self.secret = ""

    @property
    def pid(self) -> int | None:
        """The process id; None before :meth:`start`."""
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def scratch(self) -> Path:
        """A private directory that lives as long as the JVM."""
        assert self._scratch is not None
        return self._scratch.path

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
            )
        except OSError as error:
            place = f"{self._java.executable} in {self._directory}"
            raise PipelineError(f"cannot start {place}: {error}") from error
        self._reader = threading.Thread(target=self._read, name="spark-output", daemon=True)
        self._reader.start()

    def connect(self) -> None:
        """Waits until the gateway listens: then ``port`` and ``secret`` are set.

        Raises:
            PipelineError: it did not come up; the text ends with what Java printed.
        """
        assert self._process is not None and self._reader is not None
        information = self.scratch / _GATEWAY_FILE
        deadline = time.monotonic() + _START_SECONDS
        # Spark writes another file and renames it: what is there is complete.
        while not information.exists():
            if self._process.poll() is not None:
                self._reader.join(2)
                raise PipelineError(self.explain(f"Java {self._ending()} before Spark was up"))
            if time.monotonic() > deadline:
                raise PipelineError(self.explain(f"Spark's gateway is not up after {_START_SECONDS:.0f} s"))
            time.sleep(0.01)
        answer = information.read_bytes()
        self.port, length = struct.unpack_from(">ii", answer)
        self.secret = answer[8 : 8 + length].decode()
        information.unlink()

    def _ending(self) -> str:
        status = self._process.poll() if self._process else None
        if status is None:
            return "does not answer"
        number = -status if status < 0 else status - 128  # Java answers SIGTERM with status 143
        return f"was ended by signal {number}" if number > 0 else f"ended with status {status}"

    def show_output(self) -> None:
        """From now on what workers print goes to ``output``; before, it is Java's own chatter."""
        self._quiet = False

    def tail(self, lines: int = 12) -> str:
        """The last lines of Spark's log and of what the JVM printed, one text; empty when none.

        The frames of Java's stack traces are left out: the exceptions say what is wrong.
        """
        log: list[str] = []
        if self._scratch is not None:
            try:
                log = (self.scratch / "spark.log").read_text("utf-8", "replace").splitlines()
            except OSError:
                pass
        printed = [line for line in list(self._lines) if not line.startswith(("WARNING:", "Picked up "))]
        kept = ([line for line in part if not _FRAME.match(line)][-lines:] for part in (log, printed))
        return "\n".join(line for part in kept for line in part)

    def obituary(self) -> str:
        """How the JVM ended, with its last lines."""
        return self.explain(f"Spark's Java process {self._ending()}")

    def explain(self, what: str) -> str:
        """``what``, then the last lines that say why."""
        tail = self.tail()
        return f"{what}. Its last lines:\n{tail}" if tail else what

    def wait(self, seconds: float) -> bool:
        """Waits for its exit; True when it has exited."""
        if self._process is None:
            return True
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Ends it at once. :meth:`stop` is still needed to clean up."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def stop(self, seconds: float = 10.0) -> None:
        """Ends it and waits for its exit: end of input, after ``seconds`` SIGTERM, then SIGKILL."""
        process = self._process
        self._stopping = True
        if process is not None:
            assert process.stdin is not None
            try:
                process.stdin.close()
            except OSError:
                pass
            for bound, end in ((seconds, process.terminate), (3.0, process.kill), (5.0, lambda: None)):
                if self.wait(bound):
                    break
                end()
        if self._reader is not None:
            # The output ends with its last writer: the workers, which live on for a moment, are gone too.
            self._reader.join(3.0)
            if process is not None and process.stdout is not None and not self._reader.is_alive():
                process.stdout.close()
        if self._scratch is not None:
            self._scratch.remove()

    def _command(self) -> list[str]:
        properties = self.scratch / "spark.properties"
        _write_private(properties, _java_properties(self._properties))
        log_configuration = self.scratch / "log4j2.properties"
        _write_private(log_configuration, _LOG_CONFIGURATION.format(file=self.scratch / "spark.log"))
        class_path = [entry for entry in (self._extra_class_path, f"{self._jars}/*") if entry]
        return [
            str(self._java.executable),
            *_OPTIONS,
            *([] if collectors(self._options) else [_COLLECTOR]),
            f"-Djava.io.tmpdir={self.scratch}",
            f"-Dlog4j2.configurationFile={log_configuration}",
            *self._options,
            "-cp",
            os.pathsep.join(class_path),
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
        if path := environment.get("PYTHONPATH"):
            # The workers start in another directory than this process.
            entries = (os.path.abspath(entry) for entry in path.split(os.pathsep))
            environment["PYTHONPATH"] = os.pathsep.join(entries)
        return environment

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            self._lines.append(line)
            if self._stopping and line.startswith(_LAST_WORDS):
                self._quiet = True
            if self._output is not None and not self._quiet:
                try:
                    self._output(line)
                except Exception:  # a closed terminal must not stop the reading: the pipe would fill up
                    self._output = None


class Scratch:
    """A private directory under the temporary directory, removed with its owner.

    An owner that was killed cannot remove it. So each is locked for its owner's life, and whoever
    makes a new one first removes those whose lock is free.
    """

    _PREFIX = "connector-spark-"
    _LONGEST = 60
    """Characters; a Unix socket inside must have a path of at most 107."""

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        if len(str(base)) > self._LONGEST:
            base = Path("/tmp")
        self._sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=self._PREFIX, dir=base))
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Removes it with all that is in it. Repeatable."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @classmethod
    def _sweep(cls, base: Path) -> None:
        for lock_file in base.glob(f"{cls._PREFIX}*/lock"):
            try:
                if lock_file.stat().st_uid != os.getuid():
                    continue
                lock = os.open(lock_file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A directory made this instant may not be locked yet.
                if time.time() - lock_file.stat().st_mtime > 60:
                    shutil.rmtree(lock_file.parent, ignore_errors=True)
            except OSError:
                pass
            finally:
                os.close(lock)


def _write_private(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)


def _java_properties(properties: Mapping[str, str]) -> str:
    return "".join(f"{_escape(name)}={_escape(value)}\n" for name, value in properties.items())


def _escape(text: str) -> str:
    return "".join(_escaped_units(text))


def _escaped_units(text: str) -> Iterable[str]:
    # Everything but letters, digits and a few marks as a UTF-16 escape: no rule of the format can bite.
    for character in text:
        if character.isascii() and (character.isalnum() or character in "._-/"):
            yield character
        else:
            units = character.encode("utf-16-be")
            yield from (f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
