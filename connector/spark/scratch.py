"""Private directories for the files of Spark, removed with the process that made them."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path


class Scratch:
    """A private directory under the temporary directory, removed with the owner.

    A killed owner cannot remove the directory. So each owner locks the directory for life. A new owner first
    removes directories whose lock is free.
    """

    _PREFIX = "connector-spark-"
    _LONGEST = 60
    """Most characters of the path, because a Unix socket inside must have a path of at most 107."""

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        if len(str(base)) > self._LONGEST:
            base = Path("/tmp")
        self._sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix=self._PREFIX, dir=base))
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Removes the directory with all files. Repeatable."""
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
                # A new directory may not be locked yet.
                if time.time() - lock_file.stat().st_mtime > 60:
                    shutil.rmtree(lock_file.parent, ignore_errors=True)
            except OSError:
                pass
            finally:
                os.close(lock)
