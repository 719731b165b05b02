"""The pipeline: Spark as the adapter uses it, one job a poll cycle.

Built on PySpark's RDD interface, below its convenience: a job is one file of framed payloads, three
calls into the JVM, and one socket of framed answers. The function of the job is pickled once, and
its plan is a broadcast. PySpark is pinned to one version for this.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from connector.config.java_options import DRIVER_MEMORY, split_options
from connector.config.spark_master import Master, parse_master
from connector.config.spark_owned import owner_reason
from connector.config.spark_settings import read_size
from connector.errors import PipelineError
from connector.open_files import raise_open_files
from connector.spark import cluster, shipping
from connector.spark.archive import archive_options
from connector.spark.java import find_java
from connector.spark.jvm import Jvm
from connector.spark.manners import forget_context, silence_py4j, stop_quietly, untouched_process
from connector.spark.reasons import java_reason
from connector.spark.worker import task

_OWN_PROPERTIES = {
    "spark.submit.deployMode": "client",
    "spark.task.maxFailures": "1",
    "spark.speculation": "false",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.excludeOnFailure.enabled": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.use.daemon": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "10s",
}
_DEFAULT_PROPERTIES = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.python.task.killTimeout": "500ms",
    # Spark remembers jobs for its UI: with one a second, a few are enough.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.broadcast.checksum": "false",
}
_START_SECONDS = 120.0
_OPEN_FILES = 512
"""Spark's own jars are more than 300, and each core has its connections."""
_PLANS_KEPT = 4
_ECHO = "connector.spark.worker:echo"


class Settings(Protocol):
    """The ``spark:`` section of adapter.yaml."""

    @property
    def master(self) -> str: ...

    @property
    def python(self) -> str | Path | None: ...

    @property
    def conf(self) -> Mapping[str, str]: ...


class ProbeAnswer(NamedTuple):
    """What one executor answered.

    Args:
        executor: ``this machine``, or ``executor 1 on 10.0.0.5``.
        answer: what the function returned; empty when it failed.
        error: why it failed; empty when it did not.
    """

    executor: str
    answer: bytes
    error: str


class SparkPipeline:
    """Runs module-level functions as Spark jobs.

    One pipeline at a time in a process, because PySpark allows one context; after :meth:`stop` it,
    or another, may be started. All methods are for any thread; two may :meth:`run` at a time.

    Args:
        settings: the ``spark:`` section.
        deployment: directory of adapter.yaml.
        application: name shown on a cluster.
        ship: paths sent to the workers of a cluster; None = ``*.py`` and ``datahandlers/``.
        output: called with each line that workers of ``local`` print, from a background thread.
            Without it such lines are kept for error texts only.
        jvm_options: further options of the driver's Java; None = use a class-data archive if there
            is one.
        stop_seconds: how long Java may take to end by itself before it is killed.
    """

    def __init__(
        self,
        settings: Settings,
        deployment: Path,
        application: str,
        *,
        ship: Sequence[Path] | None = None,
        output: Callable[[str], None] | None = None,
        jvm_options: Sequence[str] | None = None,
        stop_seconds: float = 10.0,
    ) -> None:
        self._jvm_options = jvm_options
        self._stop_seconds = stop_seconds
        self._settings = settings
        self._deployment = deployment.resolve()
        self._application = application
        self._ship = ship
        self._output = output
        self._master: Master | None = None
        self._jvm: Jvm | None = None
        self._gateway: Any = None
        self._context: Any = None
        self._archive = ""
        self._stopping = False
        self._stop_lock = threading.Lock()
        self._functions_lock = threading.Lock()
        self._functions: OrderedDict[tuple[str, bytes], tuple[Any, Any]] = OrderedDict()
        self._thread = threading.local()
        self._parallelism = 0
        self._counted = 0.0

    # ---- life ----

    def start(self) -> None:
        """Starts Java and Spark, ships code, and runs a first job on every core.

        Raises:
            PipelineError: no Java, a wrong or silent master, no executor, a worker without Python.
                In bounded time, with what to do, and with nothing left behind.
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self._stopping = False
        self._archive = ""
        self._parallelism = 0
        self._functions.clear()
        self._thread = threading.local()
        self._master = parse_master(str(self._settings.master))
        allowed = raise_open_files(_OPEN_FILES)
        if allowed < _OPEN_FILES:
            raise PipelineError(
                f"this process may open {allowed} files at a time, and Spark needs {_OPEN_FILES}; raise the "
                "limit: `ulimit -n 4096` in a shell, LimitNOFILE=4096 in a systemd unit"
            )
        properties, options, class_path = self._properties(self._master)
        java, jars = find_java(), spark_jars()
        more = archive_options(java, jars) if self._jvm_options is None else self._jvm_options
        self._jvm = Jvm(
            java,
            jars,
            properties,
            self._deployment,
            options=[*more, *options],
            extra_class_path=class_path,
            environ=_environment(self._master, properties),
            output=self._output,
        )
        self._jvm.launch()
        # Nothing below may hang: a Java that is gone makes every call fail at once.
        guard = threading.Timer(_START_SECONDS, self._jvm.kill)
        guard.daemon = True
        guard.start()
        try:
            with self._explained("Spark did not start"):
                self._connect(self._jvm)
            if not self._master.local:
                self._send_files(self._jvm)
                with self._explained("the cluster gave no executors"):
                    cluster.await_executors(self._gateway.jvm, self._context._jsc.sc(), self._master)
            self.run(_ECHO, b"", [b""] * self.parallelism, "start")
        except PipelineError as error:
            if not guard.is_alive():
                raise PipelineError(f"Spark was not ready within {_START_SECONDS:.0f} s. {error}") from error
            raise
        finally:
            guard.cancel()
        self._jvm.show_output()

    def _properties(self, master: Master) -> tuple[dict[str, str], list[str], str]:
        user = {name: str(value) for name, value in dict(self._settings.conf).items()}
        for name in user:
            if reason := owner_reason(name):
                raise PipelineError(f"spark.conf sets {name}, which belongs to the adapter: {reason}")
        host = "127.0.0.1" if master.local else cluster.reach(master)
        properties = {
            **_DEFAULT_PROPERTIES,
            "spark.driver.host": host,
            "spark.driver.bindAddress": host,
            **user,
            **_OWN_PROPERTIES,
            "spark.master": master.url,
            "spark.app.name": self._application,
        }
        # What Spark's launchers would turn into a command line is ours to do.
        memory = properties["spark.driver.memory"]
        try:
            options = [f"-Xmx{read_size(memory, 'm')}"]  # in bytes: the units of Java are not all of Spark's
            options += split_options(properties.get("spark.driver.defaultJavaOptions", ""))
            options += split_options(properties.get("spark.driver.extraJavaOptions", ""))
        except ValueError as error:
            raise PipelineError(f"spark.conf: {error}") from None
        return properties, options, properties.get("spark.driver.extraClassPath", "")

    def _connect(self, jvm: Jvm) -> None:
        # PySpark is imported while Java starts; it costs a good part of a second.
        from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
        from py4j.java_gateway import java_import
        from pyspark import SparkContext

        silence_py4j()
        jvm.connect()
        self._gateway = ClientServer(
            java_parameters=JavaParameters(port=jvm.port, auth_token=jvm.secret, auto_convert=True),
            python_parameters=PythonParameters(port=0, eager_load=False),
        )
        for name in (
            "org.apache.spark.SparkConf",
            "org.apache.spark.api.java.*",
            "org.apache.spark.api.python.*",
        ):
            java_import(self._gateway.jvm, name)
        with untouched_process():
            self._context = SparkContext(gateway=self._gateway)
        self._context._accumulatorServer.handle_error = lambda *_: None  # it would print when Java goes
        self._context.pythonExec = str(self._settings.python or sys.executable)

    def _send_files(self, jvm: Jvm) -> None:
        ship = shipping.default_ship(self._deployment) if self._ship is None else self._ship
        archive = shipping.build_archive(jvm.scratch, self._deployment, ship)
        self._context.addArchive(str(archive))
        self._archive = archive.name

    @property
    def alive(self) -> bool:
        """True while jobs can be run."""
        if self._stopping or self._context is None or self._jvm is None or not self._jvm.alive:
            return False
        try:
            return not self._context._jsc.sc().isStopped()
        except Exception:  # whatever py4j raises when the JVM goes away in between
            return False

    @property
    def overlaps(self) -> bool:
        """Whether a job may be sent while another runs, by another thread.

        Not on a cluster: its tasks would wait for a file that a network file system may show late.
        """
        return self._master is not None and self._master.local

    @property
    def parallelism(self) -> int:
        """Tasks that can run at the same time now; at least 1."""
        now = time.monotonic()
        if self._parallelism and (now - self._counted < 1.0 or (self._master and self._master.local)):
            return self._parallelism
        try:
            scheduler = self._context._jsc.sc()
            cores = int(scheduler.defaultParallelism()) // int(scheduler.conf().get("spark.task.cpus", "1"))
        except Exception:  # the JVM is gone: the next run says so
            return max(1, self._parallelism)
        self._parallelism, self._counted = max(1, cores), now
        return self._parallelism

    def stop(self) -> None:
        """Ends Spark and waits until Java has exited. Repeatable; a job that runs fails."""
        self._stopping = True
        with self._stop_lock:
            context, self._context = self._context, None
            gateway, self._gateway = self._gateway, None
            if self._jvm is not None:
                # The end of its input is enough: Spark's own exit hook stops the context.
                self._jvm.stop(self._stop_seconds)
            if context is not None:
                context._jsc = None
                stop_quietly(context)
            if gateway is not None:
                with suppress(Exception):
                    gateway.close()
            forget_context(gateway)

    # ---- jobs ----

    def run(self, function: str, plan: bytes, payloads: Sequence[bytes], description: str) -> list[bytes]:
        """Runs one job; blocks until it is done.

        Args:
            function: ``package.module:name`` of ``f(plan, deployment, payload) -> answer``.
            plan: handed to each call; sent to a worker once for as long as it stays the same.
            payloads: one a partition, below 2 GiB each.
            description: shown in Spark's UI.

        Returns:
            The answers, in the order of the payloads.

        Raises:
            PipelineError: a task failed (it is not run again), the job was cancelled, or Spark
                died; the text says which. Other tasks of the job may go on for some seconds.
        """
        if not payloads:
            return []
        with self._explained(description):
            return self._job(self._parallelize(payloads), function, plan, len(payloads), description)

    def cancel(self) -> None:
        """Cancels the job that runs, if any; :meth:`run` then raises. For any thread."""
        with suppress(Exception):
            self._context._jsc.sc().cancelAllJobs()

    def probe(self, function: str, plan: bytes) -> list[ProbeAnswer]:
        """Runs ``function`` with an empty payload once on every executor.

        Raises:
            PipelineError: Spark died. What is wrong with an executor is an answer.
        """
        assert self._master is not None
        if self._master.local:
            return [self._probe_one("this machine", lambda: self._parallelize([b""]), function, plan)]
        with self._explained("the probe of the executors"):
            executors = cluster.executors(self._context._jsc.sc())
            try:
                located = cluster.located_rdd(self._gateway.jvm, self._context._jsc.sc(), executors)
                answers = self._job(located, function, plan, len(executors), "probe")
                return [
                    ProbeAnswer(str(one), answer, "") for one, answer in zip(executors, answers, strict=True)
                ]
            except Exception:
                if not self.alive:
                    raise
            # One of them failed and took the answers of the others with it: ask each by itself.
            return [
                self._probe_one(
                    str(one),
                    lambda one=one: cluster.located_rdd(self._gateway.jvm, self._context._jsc.sc(), [one]),  # type: ignore[misc]
                    function,
                    plan,
                )
                for one in executors
            ]

    def _probe_one(self, name: str, rdd: Callable[[], Any], function: str, plan: bytes) -> ProbeAnswer:
        try:
            with self._explained(""):
                return ProbeAnswer(name, self._job(rdd(), function, plan, 1, "probe")[0], "")
        except PipelineError as error:
            if not self.alive:
                raise
            return ProbeAnswer(name, b"", str(error))

    def _parallelize(self, payloads: Sequence[bytes]) -> Any:
        from pyspark.serializers import NoOpSerializer

        if self._context is None:
            raise PipelineError("Spark is not running")
        context, java = self._context, self._gateway.jvm
        return context._serialize_to_jvm(
            payloads,
            NoOpSerializer(),
            lambda name: java.PythonRDD.readRDDFromFile(context._jsc, name, len(payloads)),
            lambda: java.PythonParallelizeServer(context._jsc.sc(), len(payloads)),
        ).rdd()

    def _job(self, rdd: Any, function: str, plan: bytes, count: int, description: str) -> list[bytes]:
        from pyspark.serializers import NoOpSerializer
        from pyspark.util import _load_from_socket

        if self._context is None:
            raise PipelineError("Spark is not running")
        java = self._gateway.jvm
        self._describe(description)
        python_rdd = java.PythonRDD(rdd, self._function(function, plan), False, False)
        where = java.PythonRDD.collectAndServe(python_rdd)
        with _load_from_socket(where, NoOpSerializer()) as stream:
            answers: list[bytes] = list(stream)
        if len(answers) != count:
            raise PipelineError(f"Spark returned {len(answers)} answers of {count}")
        return answers

    def _describe(self, description: str) -> None:
        scheduler = self._context._jsc.sc()
        if not getattr(self._thread, "described", False):
            # Spark then need not walk its own stack to find out who called: three times a job.
            for name in ("callSite.short", "callSite.long"):
                scheduler.setLocalProperty(name, "connector")
            self._thread.described = True
        scheduler.setLocalProperty("spark.job.description", description)

    def _function(self, function: str, plan: bytes) -> Any:
        from pyspark.core.rdd import _wrap_function
        from pyspark.serializers import NoOpSerializer

        key = (function, hashlib.sha256(plan).digest())
        with self._functions_lock:
            if known := self._functions.get(key):
                self._functions.move_to_end(key)
                return known[0]
            broadcast = self._context.broadcast(plan)
            call = task(
                function, broadcast, str(shipping.code_directory()), str(self._deployment), self._archive
            )
            made = _wrap_function(self._context, call, NoOpSerializer(), NoOpSerializer())
            self._functions[key] = made, broadcast
            if len(self._functions) > _PLANS_KEPT:
                _, (_, oldest) = self._functions.popitem(last=False)
                oldest.unpersist()
            return made

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turns whatever py4j and Spark raise into one PipelineError that says what happened."""
        try:
            yield
        except PipelineError:
            raise
        except Exception as error:
            jvm = self._jvm
            before = f"{what}: " if what else ""
            if self._stopping:
                raise PipelineError(f"{before}Spark was stopped") from error
            reason = java_reason(error)
            if jvm is not None and (reason is None or "SparkContext was shut down" in reason):
                # The connection broke, or Java is shutting down: it is gone, or will be in a moment.
                if jvm.wait(3.0):
                    raise PipelineError(f"{before}{jvm.obituary()}") from error
                reason = f"{type(error).__name__}: {error}"
            raise PipelineError(f"{before}{reason}") from error


def spark_jars() -> Path:
    """The directory of Spark's jars, in the installed package.

    Raises:
        PipelineError: PySpark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(location) / "jars").is_dir():
            return Path(location) / "jars"
    raise PipelineError("the package pyspark is not installed, or has no jars: pip install pyspark")


def _environment(master: Master, properties: Mapping[str, str]) -> dict[str, str]:
    environment = dict(os.environ)
    # Keeps Spark from asking the network what this machine is called.
    environment["SPARK_LOCAL_IP"] = properties["spark.driver.bindAddress"]
    if master.local:
        environment["SPARK_LOCAL_HOSTNAME"] = "localhost"
    if library_path := properties.get("spark.driver.extraLibraryPath"):
        known = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{library_path}{os.pathsep}{known}" if known else library_path
    return environment
