"""The command line of the Java that runs Spark, as Spark's own launcher would make it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector import user
from connector.java import Java
from connector.spark.archive import class_path
from connector.spark.session import write_properties

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

LOG: Final = "spark.log"
"""The file of Spark's log, in the private directory of Java."""


@dataclass(frozen=True, slots=True)
class JavaLaunch:
    """All that decides how Java is launched.

    Args:
        jars: directory with Spark's jars.
        properties: of Spark, with master and name.
        python: the workers' Python.
        directory: working directory of the JVM and of local workers.
        options: further JVM options, last of all.
    """

    java: Java
    jars: Path
    properties: Mapping[str, str]
    python: str
    directory: Path
    options: Sequence[str]
    environ: Mapping[str, str]


def java_command(launch: JavaLaunch, scratch: Path) -> list[str]:
    """Returns the command. Writes the files that it names.

    Args:
        scratch: a private directory that lives as long as Java.
    """
    options, extra_class_path = launch.options, launch.properties.get("spark.driver.extraClassPath", "")
    settings = scratch / "spark.properties"
    write_properties(settings, launch.properties)
    log_configuration = scratch / "log4j2.properties"
    log_configuration.write_text(_LOG_CONFIGURATION.format(file=scratch / LOG), "utf-8")
    return [
        str(launch.java.executable),
        *_OPTIONS,
        *([] if any(map(_IS_COLLECTOR, options)) else [_COLLECTOR]),
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={log_configuration}",
        *user.java_options(str(scratch)),
        *options,
        "-cp",
        os.pathsep.join(entry for entry in (extra_class_path, class_path(launch.jars)) if entry),
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(settings),
        "pyspark-shell",
    ]
