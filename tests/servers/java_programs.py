"""Java programs of one file, which know JMS and Qpid JMS alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from connector.java import find_java
from tests.servers.broker import PASSWORD, USER
from tests.servers.conftest import CLIENT, Broker, resolved

_COMPILER: Final = ["org.eclipse.jdt:ecj:3.33.0"]
"""A compiler that needs no JDK: the Java of the tests may be without one."""


def java_command(program: str, directory: Path, broker: Broker, *arguments: str) -> list[str]:
    """Compiles a program of this folder, and returns the command that runs it.

    Args:
        program: its class.
        directory: for the compiled program.
        broker: the first three arguments are its URL and the login.
        arguments: the further ones.
    """
    jars = [str(path) for path in resolved("client", CLIENT).paths()]
    java = str(find_java().executable)
    (compiler,) = resolved("compiler", _COMPILER).paths()
    source = Path(__file__).with_name(f"{program}.java")
    compiling = [java, "-jar", str(compiler), "-17", "-proc:none", "-d", str(directory)]
    subprocess.run([*compiling, "-cp", os.pathsep.join(jars), str(source)], check=True, timeout=120)
    class_path = os.pathsep.join([str(directory), *jars])
    options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [java, *options, "-cp", class_path, program, broker.url, USER, PASSWORD, *arguments]
