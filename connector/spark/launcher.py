"""Starts the adapter's own Spark: properties, Java and environment."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from connector.errors import PipelineError
from connector.java import find_java
from connector.open_files import raise_open_files
from connector.spark import session as sessions
from connector.spark.archive import archive_options
from connector.spark.java_command import JavaLaunch
from connector.spark.master import Master
from connector.spark.settings import owner_reason, read_size, spark_jars, split_options

try:
    from connector.spark.fast_start import FastStart as FastStart
except ImportError:  # the file is optional
    FastStart = None  # type: ignore[assignment, misc]

SLOTS: Final = 2
"""Tasks that the adapter's own local Spark can run for each task that stays.

The others are free for further jobs of this process, which would wait for ever otherwise.
"""

_OWN_PROPERTIES: Final = {
    "spark.submit.deployMode": "client",
    "spark.speculation": "false",
    # A task that stays has nothing to do for hours, and its worker must not end for that reason.
    "spark.python.worker.idleTimeoutSeconds": "0",
    "spark.python.worker.reuse": "true",
}
_LOCAL_PROPERTIES: Final = {
    # A task that is replaced gets the next free slot, even if another job waits for many slots.
    "spark.scheduler.mode": "FAIR",
}
_OWN_LOCAL_PROPERTIES: Final = {
    # Spark makes the secret. Without it each user of this machine could send Java objects to the driver.
    "spark.authenticate": "true",
    # The executor is a part of this Java. Spark would give it up for good when a machine has slept.
    "spark.storage.blockManagerHeartbeatTimeoutMs": "3650d",
}
_DEFAULT_PROPERTIES: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.python.task.killTimeout": "500ms",
    # Spark keeps jobs for its UI. At a job a second, a few are enough.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.broadcast.checksum": "false",
}
_OPEN_FILES: Final = 512
"""Open files that Spark needs: there are more than 300 jars, and each core has connections."""


class SparkSettings(Protocol):
    """The ``spark:`` section of adapter.yaml."""

    @property
    def master(self) -> str | None: ...

    @property
    def python(self) -> str | Path | None: ...

    @property
    def conf(self) -> Mapping[str, str]: ...


class Launcher:
    """Starts the adapter's own Spark. The arguments are those of :class:`.pipeline.SparkPipeline`."""

    def __init__(
        self,
        settings: SparkSettings,
        deployment: Path,
        application: str,
        *,
        output: Callable[[str], None] | None,
        jvm_options: Sequence[str] | None,
        stop_seconds: float,
    ) -> None:
        self._settings = settings
        self._deployment = deployment
        self._application = application
        self._output = output
        self._jvm_options = jvm_options
        self._stop_seconds = stop_seconds

    def make(self, master: Master) -> sessions.SparkApplication:
        """Returns a Spark for a master. The Java of a :class:`FastStart` still has to be launched.

        Raises:
            PipelineError: ``spark:`` or the limits of the process do not allow this Spark, or Spark does not
                start.
        """
        allowed = raise_open_files(_OPEN_FILES)
        if allowed < _OPEN_FILES:
            raise PipelineError(
                f"this process may open {allowed} files at a time, and Spark needs {_OPEN_FILES}; raise the "
                "limit: `ulimit -n 4096` in a shell, LimitNOFILE=4096 in a systemd unit"
            )
        properties = self._properties(master)
        python = str(self._settings.python or sys.executable)
        if FastStart is None or not (master.local or master.addresses):
            if master.local:
                cores = master.cores or len(os.sched_getaffinity(0))
                properties["spark.master"] = master.with_slots(SLOTS * cores)
            return sessions.launch_application(properties, python)
        java, jars = find_java(), spark_jars()
        more = archive_options(java, jars) if self._jvm_options is None else self._jvm_options
        return FastStart(
            JavaLaunch(
                java,
                jars,
                properties,
                python,
                self._deployment,
                [*more, *self._young_generation(master), *_java_options(properties)],
                _environment(master, properties),
            ),
            master_on=lambda cores: (
                master.with_slots(SLOTS * (master.cores or cores)) if master.local else ""
            ),
            output=self._output,
            stop_seconds=self._stop_seconds,
        )

    def _young_generation(self, master: Master) -> list[str]:
        """Returns a limit for new objects. Tasks that stay give Java nothing to do, but it would take 100 MB.

        A user who sets the memory of Java has other work for it.
        """
        if not master.local or "spark.driver.memory" in self._settings.conf:
            return []
        return ["-XX:MaxNewSize=16m"]

    def _properties(self, master: Master) -> dict[str, str]:
        user = {name: str(value) for name, value in dict(self._settings.conf).items()}
        for name in user:
            if reason := owner_reason(name, local=master.local):
                raise PipelineError(f"spark.conf sets {name}, which belongs to the adapter: {reason}")
        reachable: dict[str, str] = {}
        if master.local or master.addresses:
            host = "127.0.0.1" if master.local else sessions.driver_address(master)
            reachable = {
                "spark.driver.host": host,
                "spark.driver.bindAddress": host,
                # Without Unix sockets every task waits 40 ms. On a cluster the path of a container may be too
                # long for them.
                "spark.python.unix.domain.socket.enabled": "true",
            }
        return {
            **_DEFAULT_PROPERTIES,
            **(_LOCAL_PROPERTIES if master.local else {}),
            **reachable,
            **user,
            **_OWN_PROPERTIES,
            **(_OWN_LOCAL_PROPERTIES if master.local else {}),
            "spark.master": master.url,
            "spark.app.name": self._application,
        }


def _java_options(properties: Mapping[str, str]) -> list[str]:
    """Returns the options of the driver's Java, as Spark's launcher would make them from the properties."""
    memory = properties["spark.driver.memory"]
    try:
        options = [f"-Xmx{read_size(memory, 'm')}"]  # in bytes, because Java does not know all units of Spark
        options += split_options(properties.get("spark.driver.defaultJavaOptions", ""))
        options += split_options(properties.get("spark.driver.extraJavaOptions", ""))
    except ValueError as error:
        raise PipelineError(f"spark.conf: {error}") from None
    return options


def _environment(master: Master, properties: Mapping[str, str]) -> dict[str, str]:
    environment = dict(os.environ)
    # Keeps Spark from asking the network for the name of this machine.
    environment["SPARK_LOCAL_IP"] = properties["spark.driver.bindAddress"]
    if master.local:
        environment["SPARK_LOCAL_HOSTNAME"] = "localhost"
    if sys.flags.utf8_mode and locale.getencoding().lower() != "utf-8":
        environment["LC_ALL"] = (
            "C.UTF-8"  # in LC_ALL=C, Java could name no file with other letters than ASCII
        )
    if library_path := properties.get("spark.driver.extraLibraryPath"):
        known = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{library_path}{os.pathsep}{known}" if known else library_path
    return environment
