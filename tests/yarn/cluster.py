"""A real YARN cluster on loopback: Hadoop's MiniYARNCluster, one resource manager and one node manager."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from connector.java import find_java
from connector.spark.settings import spark_jars

_SETTINGS = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.enable": "false",
}
_JAVA_OPTIONS = [
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.util", "java.net", "java.nio", "java.io", "sun.nio.ch")
    ),
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
]


class MiniYarnCluster:
    """Starts with :meth:`start`; ``configuration`` is then a directory for HADOOP_CONF_DIR.

    Args:
        directory: for the logs and the containers.
        jars: of MiniYARNCluster (see :mod:`tests.yarn.jars`).
    """

    def __init__(self, directory: Path, jars: Path) -> None:
        self.directory = directory
        self.configuration = directory / "conf"
        self._jars = jars
        self._gateway: JavaGateway | None = None
        self._cluster: Any = None
        self._java: Any = None
        self._log: IO[str] | None = None

    def start(self) -> None:
        for name in ("conf", "tmp"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        log = self._log = (self.directory / "out.log").open("w")
        port, self._java = launch_gateway(
            classpath=f"{self._jars}/*:{spark_jars()}/*",
            jarpath=str(next(spark_jars().glob("py4j-*.jar"))),
            javaopts=[*_JAVA_OPTIONS, f"-Djava.io.tmpdir={self.directory / 'tmp'}"],
            java_path=str(find_java().executable),
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            cwd=str(self.directory),
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        java = self._gateway.jvm
        settings = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for name, value in _SETTINGS.items():
            settings.set(name, value)
        settings.set("yarn.log.dir", str(self.directory / "logs"))
        self._cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("connector", 1, 1, 1)
        self._cluster.init(settings)
        self._cluster.start()
        site = java.java.io.FileOutputStream(str(self.configuration / "yarn-site.xml"))
        self._cluster.getConfig().writeXml(site)
        site.close()

    def stop(self) -> None:
        """Ends the cluster and its Java. Repeatable."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            if self._cluster is not None:
                self._cluster.stop()
            gateway.shutdown()
            self._java.stdin.close()  # the end of its input ends Java
            self._java.wait(120)
