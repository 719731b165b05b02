"""A Java that stays while the drivers of Spark in it come, are killed, and go."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark import java_gateway

from connector.java import find_java
from connector.spark import daemon
from connector.spark.session import variables
from connector.spark.settings import spark_jars
from tests.spark.standalone import executor_options, java_home_for_executors


class WarmJava:
    """The Java of one application of ``spark-submit`` after the other. Each starts a Spark of its own in it.

    Java needs some ten seconds of processor time until it has loaded and compiled what a first query uses.
    A Java whose application was killed would end by itself. This one stops what the application has left.

    Args:
        directory: for its files. A path that executors can have in a socket.
        properties: of Spark, besides those of a Spark on this machine.
    """

    def __init__(self, directory: Path, properties: dict[str, str] | None = None) -> None:
        given = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.python.daemon.module": daemon.MODULE,
        }
        (directory / "imports").write_text("\n".join(daemon.modules_for_workers()))
        conf = [f"--conf {name}={value}" for name, value in {**given, **(properties or {})}.items()]
        environment = {
            "JAVA_HOME": str(java_home_for_executors(find_java(), directory)),
            "JAVA_TOOL_OPTIONS": executor_options(),
            "PYSPARK_SUBMIT_ARGS": " ".join([*conf, "pyspark-shell"]),
            daemon.IMPORTS: str(directory / "imports"),
            "SPARK_HOME": str(spark_jars().parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._log = open(directory / "java.log", "wb")  # noqa: SIM115, closed by stop
        with variables(environment):
            self._gateway: Any = java_gateway.launch_gateway(
                popen_kwargs={"cwd": directory, "stdout": self._log, "stderr": self._log}
            )

    def variables(self) -> dict[str, str]:
        """Stops the Spark of the driver before. Returns the variables with which a new driver finds Java."""
        self._gateway.jvm.org.apache.spark.SparkContext.getOrCreate().stop()
        known = self._gateway.java_parameters
        return {
            "PYSPARK_GATEWAY_PORT": str(known.port),
            "PYSPARK_GATEWAY_SECRET": known.auth_token,
            "PYSPARK_PYTHON": sys.executable,
        }

    def stop(self) -> None:
        """Ends Java, which ends with its input."""
        self._gateway.close()
        self._gateway.proc.stdin.close()
        self._gateway.proc.wait(120)
        self._log.close()
